// Transformer-XL's segment recurrence: a segment attends to itself and to the previous segment's hidden states, the
// memory. Nothing is special about it: memory tokens are keys at earlier positions, whose gradient nobody asks for.

#include <algorithm>
#include <bearing/attention.hpp>
#include <bearing/encodings/transformer_xl.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

using namespace bearing;

namespace {

constexpr Index heads = 2, segment = 4, tokens = 2 * segment, dim = 4;
constexpr TransformerXL xl{};

std::vector<double> numbers(Index n, double seed) {
  std::vector<double> x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(seed + 12.9898 * static_cast<double>(i * i));
  return x;
}

template <class T>
View<T, 4> rows(View<T, 4> x, Index first, Index last) {
  x.data += first * x.stride[2];
  x.shape[2] = last - first;
  return x;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

const std::vector<double> q = numbers(heads * tokens * dim, 1), k = numbers(heads * tokens * dim, 2),
                          v = numbers(heads * tokens * dim, 3), d_out = numbers(heads * tokens * dim, 4);
const std::vector<double> w_r = numbers(heads * dim * 8, 5), u = numbers(heads * dim, 6), w = numbers(heads * dim, 7);

View<const double, 4> view(const std::vector<double>& x) { return bhtd(x.data(), 1, heads, tokens, dim); }

/// The results and gradients of some calls over the same eight tokens.
struct Run {
  std::vector<double> r = std::vector<double>(heads * tokens * dim), d_r = r, d_u = std::vector<double>(heads * dim);
  std::vector<double> out = std::vector<double>(heads * tokens * dim), d_q = out, d_k = out;
  std::vector<double> lse = std::vector<double>(heads * tokens);

  /// Queries first … last − 1 see keys 0 … last − 1: those before `first` are the memory.
  void attend(Index first, Index last) {
    const auto written = [&](std::vector<double>& x) { return bhtd(x.data(), 1, heads, tokens, dim); };
    const TransformerXLTerm<double> term(
        xl, {dense<const double>(r.data(), heads, tokens, dim), dense(d_r.data(), heads, tokens, dim)},
        {dense<const double>(u.data(), heads, dim), dense(d_u.data(), heads, dim)},
        {dense<const double>(w.data(), heads, dim)});
    const AttentionInputs<double> in = {rows(view(q), first, last), rows(view(k), 0, last), rows(view(v), 0, last),
                                        Positions(first)};
    View<double, 3> sums = dense(lse.data(), 1, heads, tokens);
    sums.data += first, sums.shape[2] = last - first;
    attention<double, double>(in, rows(written(out), first, last), sums, with(term), {.mask = Mask::causal});
    std::vector<double> d_keys(k.size());
    attention_backward<double>(in, {rows(view(out), first, last), sums, rows(view(d_out), first, last)},
                               {rows(written(d_q), first, last), rows(written(d_keys), 0, last), {}}, with(term),
                               {.mask = Mask::causal});
    // What flows into the memory is dropped: those hidden states belong to a step that is over.
    for (Index h = 0; h < heads; ++h) {
      for (Index t = first; t < last; ++t) {
        for (Index d = 0; d < dim; ++d) written(d_k)(0, h, t, d) = written(d_keys)(0, h, t, d);
      }
    }
  }
  Run() { transformer_xl_relative<double>(xl, dense(w_r.data(), heads * dim, 8), dense(r.data(), heads, tokens, dim)); }
};

const char* same(double difference) { return difference < 1e-12 ? "the same" : "different"; }

}  // namespace

int main() {
  Run whole, parts;
  whole.attend(0, tokens);
  parts.attend(0, segment);
  parts.attend(segment, tokens);
  std::printf("two segments with memory, one call of eight tokens\n");
  std::printf("  output: %s\n", same(distance(whole.out, parts.out)));
  std::printf("  gradient of the queries: %s\n", same(distance(whole.d_q, parts.d_q)));
  std::printf("  gradient of r, summed over segments: %s\n", same(distance(whole.d_r, parts.d_r)));
  std::printf("  gradient of u, summed over segments: %s\n", same(distance(whole.d_u, parts.d_u)));
  std::printf("  gradient of the keys, none through the memory: %s\n", same(distance(whole.d_k, parts.d_k)));
  std::printf("output of the last token, head 0:");
  for (std::size_t d = 0; d < dim; ++d) std::printf("%7.3f", parts.out[(tokens - 1) * dim + d]);
  std::printf("\n");
}
