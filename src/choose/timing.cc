#include <algorithm>
#include <bearing/attention.hpp>
#include <bearing/error.hpp>
#include <bearing/linear_attention.hpp>
#include <chrono>
#include <limits>

#include "choose/measure.hpp"
#include "describe/example.hpp"

namespace bearing::inspect {
namespace {

using Clock = std::chrono::steady_clock;

/// Attention over itself, in float32: softmax attention, or linear attention where that is the kernel.
class TimedAttention {
 public:
  /// Tokens stand in a square where `width` is not 0, else at one number on each of `axes`.
  TimedAttention(const Situation& s, Index heads, Index length, Index width, Index axes = 1)
      : tokens_(length, 0, 0, width),
        causal_(*s.causal),
        linear_(s.kernel == AttentionKernel::linear),
        heads_(heads),
        length_(length),
        axes_(axes),
        dim_(s.dim) {
    for (Index i = 0; axes > 1 && i < axes * length; ++i) on_axes_.push_back(static_cast<double>(i % length));
    Normal draw(1);
    for (std::vector<float>* rows : {&q_, &k_, &v_, &out_}) {
      rows->resize(static_cast<std::size_t>(heads * length * dim_));
      for (float& number : *rows) number = static_cast<float>(draw());
    }
  }

  double seconds(const TermList<float>& terms) {
    const Positions at =
        on_axes_.empty() ? tokens_.at() : Positions(dense<const double>(on_axes_.data(), axes_, 1, length_));
    const auto rows = [&](auto& of) { return bhtd(of.data(), 1, heads_, length_, dim_); };
    const auto read = [&](auto& of) { return bhtd<const float>(of.data(), 1, heads_, length_, dim_); };
    const Clock::time_point start = Clock::now();
    if (linear_) {
      linear_attention<float>({read(q_), read(k_), read(v_), at, at}, rows(out_), {}, terms,
                              {.mask = causal_ ? Mask::causal_top_left : Mask::none});
    } else {
      attention<float>({read(q_), read(k_), read(v_), at, at}, rows(out_), {}, terms,
                       {.mask = causal_ ? Mask::causal_top_left : Mask::none});
    }
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

 private:
  Tokens tokens_;
  bool causal_, linear_;
  Index heads_, length_, axes_, dim_;
  std::vector<double> on_axes_;
  std::vector<float> q_, k_, v_, out_;
};

/// The encoding that attention meets; null for one that acts elsewhere.
const EncodingInfo* met_by_attention(const Description& of) {
  const EncodingInfo* info = of.encoding != nullptr   ? of.encoding
                             : of.computed != nullptr ? of.computed->encoding
                                                      : nullptr;
  return info == nullptr || info->inputs ? nullptr : info;
}

/// With numbers that are drawn, also those that are computed for each call.
std::shared_ptr<const Drawn<float>> drawn_for(const EncodingInfo* info, const Description& of,
                                              const SpecimenOptions& size) {
  const Record spec = of.spec ? of.spec(size) : Record{};
  if (of.computed == nullptr) return drawn_encoding<float>(*info, spec, size);
  const Sizes sizes{.batch = 1,
                    .heads = size.heads,
                    .kv_heads = size.heads,
                    .q_len = size.length,
                    .k_len = size.length,
                    .dim = size.dim,
                    .value_dim = size.dim,
                    .length = size.length};
  const ComputedCall call{spec, sizes, {1 - size.length, size.length - 1}};
  return drawn_encoding<float>(*info, of.computed->spec_of(call), size, of.computed, call);
}

/// Whether the caller of an encoding must give it whole numbers, as buckets of pairs of tokens.
bool goes_by_given_indices(const Description& of) {
  return of.encoding != nullptr && std::any_of(of.encoding->parameters.begin(), of.encoding->parameters.end(),
                                               [](const ParameterInfo& one) { return one.indices; });
}

/// How many axes the positions of rows must have: 1 serves some of several, and others say that it does not.
Index axes_of_rows(const Situation& s, Index heads, const TermList<float>& terms) {
  for (Index axes = 1; axes < max_axes; ++axes) {
    try {
      TimedAttention(s, heads, 1, 0, axes).seconds(terms);
      return axes;
    } catch (const ShapeError&) {
    }
  }
  return max_axes;
}

/// Empty: not timed.
std::optional<double> time_of(const Description& encoding, const Situation& s, Index heads) {
  if (goes_by_given_indices(encoding)) return {};
  const SpecimenOptions size{.heads = heads, .dim = s.dim, .length = timed_length(s), .seed = s.seed};
  const EncodingInfo* info = met_by_attention(encoding);
  if (info == nullptr) return 1;
  const std::shared_ptr<const Drawn<float>> drawn = drawn_for(info, encoding, size);
  if (!drawn->made.term) return 1;
  TermList<float> terms;
  terms.add(*drawn->made.term);
  // Rows take no longer for positions that differ from axis to axis.
  const GridSize grid = info->rows ? GridSize{} : make(encoding, size).grid;
  const Index length = grid.width > 0 ? std::min(grid.height * grid.width, size.length) : size.length;
  TimedAttention attention(s, heads, length, grid.width, info->rows ? axes_of_rows(s, heads, terms) : 1);
  double with = std::numeric_limits<double>::infinity(), without = with;
  for (Index round = 0; round < std::max<Index>(2, 8 / heads); ++round) {  // the first one warms up as well
    without = std::min(without, attention.seconds({}));
    with = std::min(with, attention.seconds(terms));
  }
  return with / without;
}

}  // namespace

Costs costs_of(const Description& encoding, const Situation& s, bool at_hand, const Executor& on) {
  SpecimenOptions size = at_hand ? size_at_hand(s) : measured_size(s);
  Costs costs;
  costs.memory = compare(encoding, size, on).memory;
  if (!at_hand) size.heads = s.heads;
  const Specimen specimen = make(encoding, size);
  costs.parameters = specimen.parameters, costs.held = specimen.held;
  costs.time = time_of(encoding, s, at_hand ? size.heads : 1);
  return costs;
}

}  // namespace bearing::inspect
