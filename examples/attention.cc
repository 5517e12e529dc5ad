// Attention with encodings, and what follows from their definition: order is lost without one and found with one, a
// decode step is the last row, and slices of the keys merge into the whole.

#include <algorithm>
#include <bearing/attention.hpp>
#include <bearing/encodings/rotary_rows.hpp>
#include <bearing/encodings/shaw.hpp>
#include <bearing/encodings/t5.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

using namespace bearing;

namespace {

constexpr Index heads = 2, length = 6, dim = 8;

/// Numbers that look random: [n]
std::vector<double> numbers(Index n, double seed) {
  std::vector<double> x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(seed + 12.9898 * static_cast<double>(i * i));
  return x;
}

/// [1, heads, length, dim] in memory of its own.
struct Tensor {
  std::vector<double> x;
  explicit Tensor(double seed) : x(numbers(heads * length * dim, seed)) {}
  View<double, 4> view() { return bhtd(x.data(), 1, heads, length, dim); }
  View<const double, 4> view() const { return bhtd(x.data(), 1, heads, length, dim); }
};

/// Rows first … last − 1 of all heads.
template <class T>
View<T, 4> rows(View<T, 4> x, Index first, Index last) {
  x.data += first * x.stride[2];
  x.shape[2] = last - first;
  return x;
}

/// The tokens in another order: 1, 2, 3, 4, 5, 0.
Tensor moved(const Tensor& from) {
  Tensor to = from;
  for (Index h = 0; h < heads; ++h) {
    for (Index t = 0; t < length; ++t) {
      for (Index d = 0; d < dim; ++d) to.view()(0, h, t, d) = from.view()(0, h, (t + 1) % length, d);
    }
  }
  return to;
}

double distance(View<const double, 4> a, View<const double, 4> b) {
  double most = 0;
  for (Index h = 0; h < a.shape[1]; ++h) {
    for (Index t = 0; t < a.shape[2]; ++t) {
      for (Index d = 0; d < a.shape[3]; ++d) most = std::max(most, std::abs(a(0, h, t, d) - b(0, h, t, d)));
    }
  }
  return most;
}

const char* same(double difference) { return difference < 1e-12 ? "the same" : "different"; }

}  // namespace

int main() {
  const Tensor q(1), k(2), v(3);
  Tensor out(0), other(0);

  // 1. Without an encoding attention does not see the order: tokens that move take their outputs with them.
  const Tensor q2 = moved(q), k2 = moved(k), v2 = moved(v);
  const TermList<double> none;
  attention<double, double>({q.view(), k.view(), v.view()}, out.view(), {}, none, {.mask = Mask::none});
  attention<double, double>({q2.view(), k2.view(), v2.view()}, other.view(), {}, none, {.mask = Mask::none});
  std::printf("tokens in another order, no encoding: %s\n", same(distance(moved(out).view(), other.view())));

  // 2. Three encodings at once, at three sites: RoPE turns q and k, T5 adds to scores, Shaw to scores and values.
  const RopeTable<double> table(Rope{.head_dim = dim, .pairing = Pairing::half}, length);
  const RotaryRows<double> rope(table);
  const std::vector<double> buckets = numbers(32 * heads, 4), keys = numbers(9 * dim, 5), values = numbers(9 * dim, 6);
  const T5Bias<double> t5({.direction = T5Direction::bidirectional}, {dense(buckets.data(), 32, heads)});
  const ShawTerm<double> shaw({.clip = 4}, Param<double, 2>{dense(keys.data(), 9, dim)},
                              Param<double, 2>{dense(values.data(), 9, dim)});
  const auto all = with(rope, t5, shaw);
  attention<double, double>({q2.view(), k2.view(), v2.view()}, other.view(), {}, all, {.mask = Mask::none});
  std::vector<double> lse(static_cast<std::size_t>(heads * length));
  const View<double, 3> lse_view = dense(lse.data(), 1, heads, length);
  attention<double, double>({q.view(), k.view(), v.view()}, out.view(), lse_view, all, {.mask = Mask::none});
  std::printf("tokens in another order, RoPE + T5 + Shaw: %s\n", same(distance(moved(out).view(), other.view())));
  std::printf("first output of head 0:");
  for (Index d = 0; d < dim; ++d) std::printf("%7.3f", out.view()(0, 0, 0, d));
  std::printf("\n");

  // 3. A decode step: the last query alone, which stands at position 5, sees the cached keys.
  attention<double, double>({rows(q.view(), 5, 6), k.view(), v.view(), Positions(5)}, rows(other.view(), 5, 6), {}, all,
                            {.mask = Mask::causal});
  std::printf("the last query alone: %s\n", same(distance(rows(out.view(), 5, 6), rows(other.view(), 5, 6))));

  // 4. Slices of the keys, as processes that share a sequence have them, merge into the whole.
  Tensor part(0);
  std::vector<double> lse_other(lse.size()), lse_part(lse.size());
  const View<double, 3> other_lse = dense(lse_other.data(), 1, heads, length),
                        part_lse = dense(lse_part.data(), 1, heads, length);
  attention<double, double>({q.view(), rows(k.view(), 0, 4), rows(v.view(), 0, 4)}, other.view(), other_lse, all,
                            {.mask = Mask::none});
  attention<double, double>({q.view(), rows(k.view(), 4, 6), rows(v.view(), 4, 6), {}, Positions(4)}, part.view(),
                            part_lse, all, {.mask = Mask::none});
  merge<double>(part.view(), part_lse, other.view(), other_lse);
  std::printf("keys 0 to 3 and 4 to 5, merged: %s\n", same(distance(out.view(), other.view())));
}
