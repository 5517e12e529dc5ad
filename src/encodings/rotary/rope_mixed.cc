#include <algorithm>
#include <bearing/encodings/rope_mixed.hpp>
#include <cmath>
#include <numbers>

#include "describe/describer.hpp"
#include "encodings/head_sets.hpp"
#include "encodings/rotary/rope_mixed_start.hpp"

namespace bearing {

using text::concat;

namespace {

/// A number in [0, 1) from a counter: SplitMix64 (Steele, Lea, Flood 2014), the same on every machine.
double uniform(std::uint64_t seed, Index n) {
  std::uint64_t z = seed + (static_cast<std::uint64_t>(n) + 1) * 0x9E37'79B9'7F4A'7C15u;
  z = (z ^ (z >> 30)) * 0xBF58'476D'1CE4'E5B9u;
  z = (z ^ (z >> 27)) * 0x94D0'49BB'1331'11EBu;
  return 0x1p-53 * static_cast<double>((z ^ (z >> 31)) >> 11);
}

}  // namespace

std::vector<double> rope_mixed_frequencies(const RopeMixed& mixed, Index heads, std::uint64_t seed, double base) {
  if (mixed.axes != 2 || mixed.head_dim < 4 || mixed.head_dim > largest_dim || mixed.head_dim % 4 != 0) {
    throw ShapeError(concat("[rope_mixed_frequencies] mixed: must have two axes and a head_dim that is a multiple of 4",
                            ", at most ", largest_dim, ", got ", mixed.axes, " and ", mixed.head_dim));
  }
  if (heads < 1) throw RangeError(concat("[rope_mixed_frequencies] heads: must be at least 1, got ", heads));
  if (heads > (Index{1} << 31) / mixed.head_dim) {
    throw RangeError(concat("[rope_mixed_frequencies] heads: must make at most 2^31 frequencies, got ", heads,
                            " heads of ", mixed.head_dim));
  }
  if (!(std::isfinite(base) && base > 0)) {
    throw RangeError(concat("[rope_mixed_frequencies] base: must be finite and above 0, got ", base));
  }
  const Index pairs = mixed.head_dim / 2, half = pairs / 2;
  std::vector<double> frequencies(static_cast<std::size_t>(2 * heads * pairs));
  for (Index h = 0; h < heads; ++h) {
    const double direction = 2 * std::numbers::pi * uniform(seed, h);
    for (Index i = 0; i < pairs; ++i) {
      const double size = std::pow(base, -4 * static_cast<double>(i % half) / static_cast<double>(mixed.head_dim));
      const double angle = i < half ? direction : direction + std::numbers::pi / 2;
      frequencies[static_cast<std::size_t>(h * pairs + i)] = size * std::cos(angle);
      frequencies[static_cast<std::size_t>((heads + h) * pairs + i)] = size * std::sin(angle);
    }
  }
  return frequencies;
}

void fill_rope_mixed(const RopeMixed& mixed, const Filling& all) {
  const double base = all.number.value_or(10);
  const Index heads = all.extents[1], pairs = all.extents[2];
  if (mixed.axes == 2) {
    const std::vector<double> numbers = rope_mixed_frequencies(mixed, heads, all.seed, base);
    std::copy(numbers.begin(), numbers.end(), all.numbers.begin());
    return;
  }
  for (std::size_t i = 0; i < all.numbers.size(); ++i) {
    const Index pair = static_cast<Index>(i) % pairs;
    all.numbers[i] = std::pow(base, -static_cast<double>(pair) / static_cast<double>(pairs));
  }
}

template <class A>
RopeMixedRows<A>::RopeMixedRows(const RopeMixed& mixed, Param<A, 3> frequencies, Index group)
    : mixed_(mixed), frequencies_(frequencies), group_(group) {
  check_even_head("RopeMixedRows", mixed.head_dim);
  check_axes("RopeMixedRows", mixed.axes);
  check_set("RopeMixedRows", "frequencies", frequencies, {mixed.axes, frequencies.value.shape[1], pairs()},
            "[axes, sets, head_dim/2]");
  check_group("RopeMixedRows", frequencies.value.shape[1], group);
}

template <class A>
void RopeMixedRows<A>::check(const char* function, const Problem& problem) const {
  check_rows(function, "RopeMixed", problem, mixed_.head_dim, mixed_.axes, frequencies_.value.shape[1], group_);
  check_finite(function, "RopeMixed.frequencies", frequencies_.value, largest_rate);
}

template <class A>
void RopeMixedRows<A>::turn(const RowTile& tile, const A* x, A* y) const {
  const Index set = tile.head / group_;
  for (Index r = 0; r < tile.rows; ++r) {
    const A* in = x + r * tile.x_stride;
    A* out = y + r * tile.y_stride;
    for (Index i = 0; i < pairs(); ++i) {
      const double angle = phase(tile, set, r, i);
      const auto cos = static_cast<A>(std::cos(angle)), sin = static_cast<A>(std::sin(angle));
      const auto [u, v] = pair_place(mixed_.pairing, pairs(), i);
      const A x_u = in[u], x_v = in[v];
      out[u] = x_u * cos - x_v * sin;
      out[v] = x_u * sin + x_v * cos;
    }
  }
}

template <class A>
void RopeMixedRows<A>::turn_grads(const RowTile& tile, const A* x, const A* d_y, A* d_x, A* d_params) const {
  const Index set = tile.head / group_;
  const bool learn = d_params != nullptr && frequencies_.grad.data != nullptr;
  double* d_f = tile.scratch;  // [axes, pairs]
  if (learn) std::fill(d_f, d_f + mixed_.axes * pairs(), 0.0);
  for (Index r = 0; r < tile.rows; ++r) {
    const A *in = x + r * tile.x_stride, *d_out = d_y + r * tile.y_stride;
    A* d_in = d_x + r * tile.x_stride;
    for (Index i = 0; i < pairs(); ++i) {
      const double angle = phase(tile, set, r, i);
      const auto cos = static_cast<A>(std::cos(angle)), sin = static_cast<A>(std::sin(angle));
      const auto [u, v] = pair_place(mixed_.pairing, pairs(), i);
      const A d_u = d_out[u] * cos + d_out[v] * sin, d_v = d_out[v] * cos - d_out[u] * sin;
      // A turn by dφ moves (u, v) by dφ·(−v, u), before as after the rotation.
      const A d_angle = d_v * in[u] - d_u * in[v];
      d_in[u] = d_u;
      d_in[v] = d_v;
      for (Index axis = 0; learn && axis < mixed_.axes; ++axis) {
        d_f[axis * pairs() + i] += tile.at[static_cast<std::size_t>(axis)][r] * static_cast<double>(d_angle);
      }
    }
  }
  for (Index i = 0; learn && i < mixed_.axes * pairs(); ++i) d_params[i] += static_cast<A>(d_f[i]);
}

template <class A>
double RopeMixedRows<A>::phase(const RowTile& tile, Index set, Index row, Index pair) const {
  double angle = 0;
  for (Index axis = 0; axis < mixed_.axes; ++axis) {
    angle += tile.at[static_cast<std::size_t>(axis)][row] * static_cast<double>(frequencies_.value(axis, set, pair));
  }
  return angle;
}

template class RopeMixedRows<float>;
template class RopeMixedRows<double>;

void describe_rope_mixed(Describer& to) {
  to.home("rope_mixed", {"Heo et al.", 2024, "arXiv 2403.13298"});
  to.record("RopeMixed", RopeMixed{.pairing = Pairing::interleaved},
            "RoPE-Mixed: each pair of each head turns by an angle that depends on all coordinates of the position.\n\n"
            "    phi = sum_axis p_axis f[axis, head, pair]\n\n"
            "Heo, Park, Han, Yun 2024, arXiv 2403.13298.")
      .member("head_dim", &RopeMixed::head_dim, "How many dimensions a head has, an even number; all of them turn.")
      .member("axes", &RopeMixed::axes, "How many coordinates a position has.")
      .member("pairing", &RopeMixed::pairing, "Which two elements turn together; 'interleaved' in the authors' code.");
  // The authors' start: in directions drawn per head for two axes; as RoPE's on each axis else.
  const Rule start{"as in the authors' code: of that base, on two axes in directions drawn per head",
                   [](const Filling& all) { fill_rope_mixed(*all.spec.as<RopeMixed>(), all); }, "base", 10};
  to.encoding_with<RopeMixed, Grouped, 3>(
        "RopeMixedRows",
        "RoPE-Mixed with its frequencies [axes, sets, head_dim/2], radians per unit of position.\n\n"
        "    (u, v) <- (u cos phi - v sin phi, u sin phi + v cos phi),   phi = sum_axis p_axis f[axis, head, pair]\n\n"
        "Head h uses set h / group. With grouped queries, group is 1 for keys and the number of query heads per key\n"
        "head for queries. If all heads share one set, group is the number of heads.\n\n"
        "Heo, Park, Han, Yun 2024, arXiv 2403.13298.",
        {Parameter(
             "frequencies",
             {"axes",
              "sets",
              {"head_dim/2", [](const Record& spec, const Sizes&) { return spec.as<RopeMixed>()->head_dim / 2; }}},
             "Radians per unit of position.")
             .starts(start)
             .draws(start)},
        make_grouped<RopeMixedRows>)
      .grid([](const RopeMixed& spec, Index length) {
        return spec.axes == 2 ? inspect::square_grid(length) : GridSize{};
      })
      .called("rope_mixed", "RoPE-Mixed", "turns pairs by a learned mix of coordinates",
              [](const ExampleSize& size) { return RopeMixed{.head_dim = size.dim, .pairing = Pairing::interleaved}; })
      .also({"rope-mixed", "RoPE-Mixed"});
  to.function(
      "rope_mixed_frequencies",
      [](const RopeMixed& mixed, Index heads, Index seed, double base) {
        return Tensor{{mixed.axes, heads, mixed.head_dim / 2},
                      rope_mixed_frequencies(mixed, heads, static_cast<std::uint64_t>(seed), base)};
      },
      {"spec", "heads", "seed", {"base", 10.0}},
      "Returns the frequencies that the authors start from on two axes: [2, heads, head_dim/2], in directions that "
      "are\n"
      "drawn per head; float64.\n\n"
      "The same seed gives the same numbers on every machine.");
}

}  // namespace bearing
