// Calls what is compiled for each type of numbers in memory, so that a linker finds all of it, under the names that
// this compiler gives them.

#include "every_type.hpp"

#include <bearing/bearing.hpp>
#include <cmath>
#include <type_traits>
#include <vector>

namespace {

using namespace bearing;

constexpr Index heads = 2, time = 3, dim = 8;
constexpr Mask mask = Mask::causal;

template <class T>
std::vector<T> numbers(double x = 0.5) {
  return std::vector<T>(heads * time * dim, T(static_cast<float>(x)));
}
template <class T>
View<T, 4> heads_of(std::vector<T>& x) {
  return bhtd(x.data(), 1, heads, time, dim);
}
template <class T>
View<const T, 4> read(const std::vector<T>& x) {
  return bhtd(x.data(), 1, heads, time, dim);
}
template <class T>
View<T, 3> sums(std::vector<T>& x) {
  return dense(x.data(), 1, heads, time);
}

template <class T>
void rotations(const RopeTable<Compute<T>>& table) {
  auto x = numbers<T>(), y = numbers<T>();
  rotate(table, heads_of(x), heads_of(y), {});
  rotate_backward(table, heads_of(x), {});
  rotate_to<T>(table, read(x), heads_of(y), {});
  rotate_backward_to<T>(table, read(x), heads_of(y), {});
  rebase<T>(table.frequencies(), {}, table.frequencies(), {}, heads_of(x));
  shift<T>(table.frequencies(), 1, heads_of(x));
  turn<T>(RotaryRows<Compute<T>>(table), Side::query, {}, read(x), heads_of(y));
}

template <class T>
void scores_and_inputs(const TermList<Compute<T>>& bias) {
  auto x = numbers<T>();
  const SinusoidalInputs<Compute<T>> waves({.dim = dim, .layout = SinusoidalLayout::interleaved});
  fill<T>(waves, {}, dense(x.data(), time, dim));
  add<T>(waves, {}, dense(x.data(), time, dim));
  bias_matrix<T>(bias, {}, {}, dense(x.data(), heads, time, time));
}

/// O: the type of the result.
template <class T, class O>
bool attentions(const TermList<Compute<T>>& terms) {
  const auto x = numbers<T>();
  auto out = numbers<O>(0), d_q = numbers<O>(0);
  std::vector<Compute<T>> lse(heads * time);
  const AttentionInputs<T> in = {read(x), read(x), read(x)};
  const auto near = regions(ReRope{.window = 2});
  attention_in_regions<T>(in, near, heads_of(out), sums(lse), terms, {.mask = mask});
  attention<T>(in, heads_of(out), sums(lse), terms, {.mask = mask});
  const AttentionResults<O> results = {read(out), sums(lse), read(out)};
  attention_in_regions_backward<T, O>(in, near, results, {heads_of(d_q)}, terms, {.mask = mask});
  attention_backward<T, O>(in, results, {heads_of(d_q)}, terms, {.mask = mask});
  // All values are one half.
  for (const O& o : out) {
    if (std::abs(static_cast<float>(o) - 0.5f) > 1e-6f) return false;
  }
  auto other = numbers<O>();
  std::vector<Compute<T>> other_lse(heads * time);
  merge<O>(read(other), sums(other_lse), heads_of(out), sums(lse));
  return true;
}

template <class T>
void linear(const TermList<Compute<T>>& rows) {
  const auto x = numbers<T>();
  auto out = numbers<T>(), d_q = numbers<T>();
  linear_attention<T>({read(x), read(x), read(x)}, heads_of(out), {}, rows, {.mask = mask});
  linear_attention_backward<T>({read(x), read(x), read(x)}, read(out), {}, {heads_of(d_q)}, rows, {.mask = mask});
}

template <class T>
bool all_of() {
  using A = Compute<T>;
  const RopeTable<A> table(Rope{.head_dim = dim, .pairing = Pairing::half}, time);
  const RotaryRows<A> rows(table);
  const AlibiBias<A> alibi(Alibi::published(heads));
  rotations<T>(table);
  scores_and_inputs<T>(with(alibi));
  linear<T>(with(rows));
  return attentions<T, T>(with(rows, alibi)) && (std::is_same_v<T, A> || attentions<T, A>(with(rows, alibi)));
}

}  // namespace

bool every_type() { return all_of<double>() && all_of<float>() && all_of<Bfloat16>() && all_of<Float16>(); }
