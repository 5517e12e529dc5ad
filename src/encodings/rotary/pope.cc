#include <algorithm>
#include <bearing/encodings/pope.hpp>
#include <cmath>
#include <numbers>

#include "describe/describer.hpp"
#include "encodings/head_sets.hpp"

namespace bearing {

using text::concat;

namespace {

constexpr double lowest_offset = -2 * std::numbers::pi;

/// e^−|x|, held above 1e-304: what lies below changes no sum, and would leave an errno.
double decayed(double x) { return std::exp(-std::min(std::fabs(x), 700.0)); }

double softplus(double x) { return std::max(x, 0.0) + std::log1p(decayed(x)); }
double logistic(double x) { return (x < 0 ? decayed(x) : 1) / (1 + decayed(x)); }

}  // namespace

template <class A>
PopeRows<A>::PopeRows(const Pope& pope, Param<A, 2> offsets, Index group)
    : pope_(pope), offsets_(offsets), group_(group) {
  if (pope.head_dim < 1 || pope.head_dim > largest_dim) {
    throw ShapeError(concat("[PopeRows] head_dim: must be from 1 to ", largest_dim, ", got ", pope.head_dim));
  }
  if (!(std::isfinite(pope.base) && pope.base > 0)) {
    throw RangeError(concat("[PopeRows] base: must be finite and above 0, got ", pope.base));
  }
  if (offsets.value.data != nullptr || offsets.value.size() != 0) {
    check_set("PopeRows", "offsets", offsets, {offsets.value.shape[0], pope.head_dim}, "[sets, head_dim]");
    check_group("PopeRows", offsets.value.shape[0], group);
  }
  for (Index c = 0; c < pope.head_dim; ++c) {
    frequencies_.push_back(std::pow(pope.base, -static_cast<double>(c) / static_cast<double>(pope.head_dim)));
  }
}

template <class A>
void PopeRows<A>::check(const char* function, const Problem& problem) const {
  check_present(function, "Pope", !frequencies_.empty());
  const bool given = offsets_.value.data != nullptr;
  check_rows(function, "Pope", problem, pope_.head_dim, 1, given ? offsets_.value.shape[0] : problem.heads,
             given ? group_ : 1);
}

template <class A>
double PopeRows<A>::angle(const RowTile& tile, Index row, Index c) const {
  double angle = tile.at[0][row] * frequencies_[static_cast<std::size_t>(c)];
  if (tile.side == Side::key && offsets_.value.data != nullptr) {
    angle += std::clamp(static_cast<double>(offsets_.value(tile.head / group_, c)), lowest_offset, 0.0);
  }
  return angle;
}

template <class A>
void PopeRows<A>::turn(const RowTile& tile, const A* x, A* y) const {
  double *cos = tile.scratch, *sin = cos + tile.dim;
  for (Index r = 0; r < tile.rows; ++r) {
    if (r == 0 || tile.at[0][r] != tile.at[0][r - 1]) {
      for (Index c = 0; c < tile.dim; ++c) {
        const double phi = angle(tile, r, c);
        cos[c] = std::cos(phi);
        sin[c] = std::sin(phi);
      }
    }
    for (Index c = 0; c < tile.dim; ++c) {
      const double radius = softplus(static_cast<double>(x[r * tile.x_stride + c]));
      y[r * tile.y_stride + 2 * c] = static_cast<A>(radius * cos[c]);
      y[r * tile.y_stride + 2 * c + 1] = static_cast<A>(radius * sin[c]);
    }
  }
}

template <class A>
void PopeRows<A>::turn_grads(const RowTile& tile, const A* x, const A* d_y, A* d_x, A* d_params) const {
  const bool learn = d_params != nullptr && offsets_.grad.data != nullptr && tile.side == Side::key;
  for (Index r = 0; r < tile.rows; ++r) {
    for (Index c = 0; c < tile.dim; ++c) {
      const auto in = static_cast<double>(x[r * tile.x_stride + c]);
      const auto g_cos = static_cast<double>(d_y[r * tile.y_stride + 2 * c]);
      const auto g_sin = static_cast<double>(d_y[r * tile.y_stride + 2 * c + 1]);
      const double phi = angle(tile, r, c), cos = std::cos(phi), sin = std::sin(phi);
      d_x[r * tile.x_stride + c] = static_cast<A>(logistic(in) * (g_cos * cos + g_sin * sin));
      if (!learn) continue;
      const auto offset = static_cast<double>(offsets_.value(tile.head / group_, c));
      if (offset < lowest_offset || offset > 0) continue;
      d_params[c] += static_cast<A>(softplus(in) * (g_sin * cos - g_cos * sin));
    }
  }
}

template class PopeRows<float>;
template class PopeRows<double>;

void describe_pope(Describer& to) {
  to.home("pope", {"Gopalakrishnan et al.", 2025, "arXiv 2509.10534"});
  to.record("Pope", Pope{},
            "PoPE, polar coordinates: an element's length comes from the content alone, its angle from the position "
            "alone.\n\n"
            "    score = sum_c softplus(q_c) softplus(k_c) cos((n - m) w_c + delta_c),   w_c = base^(-c/head_dim)\n\n"
            "Gopalakrishnan, Csordas, Schmidhuber, Mozer 2025, arXiv 2509.10534.")
      .member("head_dim", &Pope::head_dim, "How many dimensions a head has.")
      .member("base", &Pope::base, "The base of the frequencies.");
  const Rule drawn{"negative, in radians", [](const Filling& all) {
                     normal(1).fill(all);
                     for (double& number : all.numbers) number = -std::abs(number);
                   }};
  to.encoding_with<Pope, Grouped, 2>(
        "PopeRows",
        "PoPE: rows [head_dim] become [2 head_dim], cos and sin of element c at 2c and 2c + 1.\n\n"
        "    q_c at m -> softplus(q_c) (cos m w_c, sin m w_c)\n"
        "    k_c at n -> softplus(k_c) (cos(n w_c + delta_c), sin(n w_c + delta_c))\n\n"
        "offsets: delta [sets, head_dim], held within [-2 pi, 0], or None for 0. Head h uses set h / group, as in\n"
        "RopeMixedRows.\n\nGopalakrishnan, Csordas, Schmidhuber, Mozer 2025, arXiv 2509.10534.",
        {Parameter("offsets", {"sets", "head_dim"}, "delta, in radians.")
             .starts(constant(0))
             .draws(drawn)
             .may_be_left_out()},
        make_grouped<PopeRows>)
      .out_dim([](const Pope&, Index dim) { return 2 * dim; })
      .called("pope", "PoPE", "content gives lengths, position gives angles",
              [](const ExampleSize& size) { return Pope{.head_dim = size.dim}; })
      .also({"polar"});
}

}  // namespace bearing
