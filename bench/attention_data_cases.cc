// Attention on data that hurts: masks of booleans, a mask that is added, scores so large that a row's weights are
// nearly one key's, packed sequences. Each against the same attention of everything, for the pairs that it must work
// out.

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "attention_models.hpp"

namespace bearing::bench {
namespace {

constexpr Index length = 4096;

/// What the inputs, options and encodings refer to.
struct Data {
  AttentionOptions<float> options{.mask = Mask::none};
  TermList<float> terms = {};
  double pairs = 1;   ///< that must be worked out, of all
  float queries = 1;  ///< times what they are elsewhere
  std::vector<std::shared_ptr<const void>> kept = {};

  template <class T>
  T* keep(Index n) {
    const std::shared_ptr<T[]> made(new T[static_cast<std::size_t>(n)]());
    kept.push_back(made);
    return made.get();
  }
};

/// Three of ten are false, scattered.
void punch_holes(bool* seen, Index n) {
  std::uint32_t state = 1;
  for (Index i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    seen[i] = (state >> 16) % 10 >= 3;
  }
}

/// Any pair may be hidden, so all of them are worked out.
Data holes() {
  Data data;
  bool* const seen = data.keep<bool>(length * length);
  punch_holes(seen, length * length);
  data.options.visible = {seen, {1, 8, length, length}, {0, 0, length, 1}};
  return data;
}

/// Keys that nobody sees, scattered.
Data hidden_keys() {
  Data data;
  bool* const seen = data.keep<bool>(length);
  punch_holes(seen, length);
  data.options.key_mask = dense(seen, 1, length);
  return data;
}

/// A sequence of three quarters of the length, behind padding.
Data padding() {
  Data data;
  bool* const seen = data.keep<bool>(length);
  std::fill(seen + length / 4, seen + length, true);
  data.options.key_mask = dense(seen, 1, length);
  return data;
}

/// The encoding that is any matrix, each extent of which may be 1.
Made<float> matrix_bias(const float* numbers) {
  const auto& all = registry().encodings();
  const auto is_matrix = [](const EncodingInfo& info) {
    if (info.form != Form::dense || info.parameters.size() != 1 || info.parameters[0].extents.size() != 4) return false;
    return std::ranges::all_of(info.parameters[0].extents, [](const Extent& extent) { return extent.or_one; });
  };
  const auto found = std::ranges::find_if(all, is_matrix);
  if (found == all.end()) throw std::logic_error("no encoding is any matrix");
  const ParameterMemory memory[] = {{numbers, nullptr, {1, 1, length, length}, {0, 0, length, 1}}};
  return found->make<float>()({}, {}, memory);
}

/// The causal mask as models add it: 0, or the least float.
Data added_mask() {
  Data data;
  auto* const bias = data.keep<float>(length * length);
  for (Index i = 0; i < length; ++i) {
    std::fill(bias + i * length + i + 1, bias + (i + 1) * length, std::numeric_limits<float>::lowest());
  }
  const auto made = std::make_shared<const Made<float>>(matrix_bias(bias));
  data.kept.push_back(made);
  data.terms.terms[0] = made->term.value(), data.terms.size = 1;
  return data;
}

/// Scores of some hundreds.
Data large_scores() {
  Data data;
  data.queries = 30;
  return data;
}

/// Sequences of several lengths, one after the other.
constexpr Index lengths[] = {1500, 100, 700, 1000, 796};

Data packed() {
  Data data;
  constexpr Index sequences = std::size(lengths);
  auto* const starts = data.keep<Index>(sequences + 1);
  std::partial_sum(std::begin(lengths), std::end(lengths), starts + 1);
  data.options.q_starts = data.options.k_starts = dense(starts, sequences + 1);
  return data;
}

double pairs_within_sequences() {
  const auto squares = [](double sum, Index n) { return sum + static_cast<double>(n * n); };
  return std::accumulate(std::begin(lengths), std::end(lengths), 0.0, squares) / (length * length);
}

/// pairs: what must be worked out, of all.
void add_data(const char* name, Data (*make)(), Index dim, double pairs = 1) {
  constexpr Index threads = 1;
  const AttentionShape shape = self_attention(length, dim);
  const double fmas = 2 * pairs * static_cast<double>(length * length * shape.heads * dim);
  const std::string full = "attention/" + attention_name<float>("full", "none", shape) + "/1";
  add({.name = "attention/" + attention_name<float>(name, "none", shape),
       .threads = threads,
       .bars = {{full, 0.90, pairs}, fma_limit<float>(fmas, threads)},
       .turns = turns_for(fmas, threads),
       .prepare = [=]() -> std::function<void()> {
         const AttentionMemory<float> memory(shape);
         const auto data = std::make_shared<const Data>(make());
         float* const q = source().as<float>();
         std::transform(q, q + shape.q_size(), q, [&](float x) { return x * data->queries; });
         return [=] {
           attention(memory.inputs(), memory.out(), memory.lse(), data->terms, data->options, executor(threads));
         };
       }});
}

}  // namespace

void add_attention_data_cases() {
  for (const Index dim : {64, 128}) {
    add_data("holes", holes, dim);
    add_data("hidden_keys", hidden_keys, dim);
    add_data("padding", padding, dim, 0.75);
    add_data("added_mask", added_mask, dim);
    add_data("large_scores", large_scores, dim);
    add_data("packed", packed, dim, pairs_within_sequences());
  }
}

}  // namespace bearing::bench
