#include <algorithm>
#include <bearing/encodings/lie_rope.hpp>
#include <cmath>
#include <numbers>

#include "describe/describer.hpp"
#include "encodings/head_sets.hpp"
#include "numeric/matrix_exp.hpp"

namespace bearing {

using text::concat;

namespace {

constexpr Index most_block = 128;

LieRope checked(LieRope lie) {
  if (lie.head_dim < 2 || lie.head_dim > largest_dim) {
    throw ShapeError(concat("[LieRopeRows] head_dim: must be from 2 to ", largest_dim, ", got ", lie.head_dim));
  }
  if (lie.block == 0) lie.block = lie.head_dim;
  if (lie.block < 2 || lie.block > most_block || lie.head_dim % lie.block != 0) {
    throw ShapeError(concat("[LieRopeRows] block: must divide head_dim = ", lie.head_dim, " and be from 2 to ",
                            most_block, ", got ", lie.block));
  }
  check_axes("LieRopeRows", lie.axes);
  return lie;
}

/// Of a generator times positions. The exponential of the largest block of such numbers is squared some 50 times, each
/// of which doubles what rounding did to the lengths of rows; far above this rows would become NaN or 0.
constexpr double most_turn = 0x1p36;

/// The largest position in size on any axis.
double farthest(const Problem& problem, Index axes) {
  double most = 0;
  for (Index n = 0; n < axes * problem.batch * problem.q_len; ++n) {
    const Index axis = n / (problem.batch * problem.q_len), row = n % (problem.batch * problem.q_len);
    most = std::max(most, std::fabs(problem.q_positions->real(axis, row / problem.q_len, row % problem.q_len)));
  }
  return most;
}

bool same_position(const RowTile& tile, Index one, Index other, Index axes) {
  for (Index axis = 0; axis < axes; ++axis) {
    const double* at = tile.at[static_cast<std::size_t>(axis)];
    if (at[one] != at[other]) return false;
  }
  return true;
}

}  // namespace

template <class A>
LieRopeRows<A>::LieRopeRows(const LieRope& lie, Param<A, 4> generators, Index group)
    : lie_(checked(lie)), generators_(generators), group_(group) {
  check_set("LieRopeRows", "generators", generators, {generators.value.shape[0], lie_.axes, blocks(), triangle()},
            "[sets, axes, head_dim/block, block*(block-1)/2]");
  check_group("LieRopeRows", generators.value.shape[0], group);
}

template <class A>
void LieRopeRows<A>::check(const char* function, const Problem& problem) const {
  check_rows(function, "LieRope", problem, lie_.head_dim, lie_.axes, generators_.value.shape[0], group_);
  const double far = std::max(1.0, farthest(problem, lie_.axes));
  check_finite(function, "LieRope.generators", generators_.value, most_turn / static_cast<double>(lie_.axes) / far,
               concat(" for positions up to ", far));
}

template <class A>
void LieRopeRows<A>::exponent(const RowTile& tile, Index row, Index block, double sign, double* m) const {
  const Index n = lie_.block, set = tile.head / group_;
  Index t = 0;
  for (Index i = 0; i < n; ++i) {
    m[i * n + i] = 0;
    for (Index j = i + 1; j < n; ++j, ++t) {
      double a = 0;
      for (Index axis = 0; axis < lie_.axes; ++axis) {
        a += tile.at[static_cast<std::size_t>(axis)][row] * static_cast<double>(generators_.value(set, axis, block, t));
      }
      m[i * n + j] = sign * a;
      m[j * n + i] = -sign * a;
    }
  }
}

template <class A>
void LieRopeRows<A>::turn(const RowTile& tile, const A* x, A* y) const {
  const Index n = lie_.block;
  double *m = tile.scratch, *f = m + n * n, *work = f + n * n, *before = work + n * n;
  for (Index block = 0; block < blocks(); ++block) {
    for (Index r = 0; r < tile.rows; ++r) {
      const A* in = x + r * tile.x_stride + block * n;
      A* out = y + r * tile.y_stride + block * n;
      if (r == 0 || !same_position(tile, r - 1, r, lie_.axes)) {
        exponent(tile, r, block, 1, m);
        exp_minus_identity(n, m, f, work);
      }
      std::copy_n(in, n, before);  // y may be x
      for (Index i = 0; i < n; ++i) {
        double turned = before[i];
        for (Index j = 0; j < n; ++j) turned += f[i * n + j] * before[j];
        out[i] = static_cast<A>(turned);
      }
    }
  }
}

template <class A>
void LieRopeRows<A>::turn_grads(const RowTile& tile, const A* x, const A* d_y, A* d_x, A* d_params) const {
  const Index n = lie_.block;
  const bool learn = d_params != nullptr && generators_.grad.data != nullptr;
  double *m = tile.scratch, *f = m + n * n, *work = f + n * n, *d = work + 2 * n * n, *l = d + n * n, *g = l + n * n;
  for (Index r = 0; r < tile.rows; ++r) {
    for (Index block = 0; block < blocks(); ++block) {
      const A *in = x + r * tile.x_stride + block * n, *d_out = d_y + r * tile.y_stride + block * n;
      A* d_in = d_x + r * tile.x_stride + block * n;
      std::copy_n(d_out, n, g);
      exponent(tile, r, block, -1, m);  // the transpose
      if (!learn) {
        exp_minus_identity(n, m, f, work);
      } else {
        // gᵀ exp(M) x changes by ⟨L(Mᵀ, g xᵀ), dM⟩.
        for (Index i = 0; i < n; ++i) {
          for (Index j = 0; j < n; ++j) d[i * n + j] = g[i] * static_cast<double>(in[j]);
        }
        exp_minus_identity(n, m, d, f, l, work);
        add_generator_grads(tile, r, block, l, d_params);
      }
      for (Index i = 0; i < n; ++i) {
        double back = g[i];
        for (Index j = 0; j < n; ++j) back += f[i * n + j] * g[j];
        d_in[i] = static_cast<A>(back);
      }
    }
  }
}

template <class A>
void LieRopeRows<A>::add_generator_grads(const RowTile& tile, Index row, Index block, const double* l,
                                         A* d_params) const {
  const Index n = lie_.block;
  for (Index axis = 0; axis < lie_.axes; ++axis) {
    const double p = tile.at[static_cast<std::size_t>(axis)][row];
    A* d_a = d_params + (axis * blocks() + block) * triangle();
    for (Index i = 0; i < n; ++i) {
      for (Index j = i + 1; j < n; ++j) *d_a++ += static_cast<A>(p * (l[i * n + j] - l[j * n + i]));
    }
  }
}

template class LieRopeRows<float>;
template class LieRopeRows<double>;

void describe_lie_rope(Describer& to) {
  to.home("lie_rope", {"Ostmeier et al.", 2024, "arXiv 2406.10322"});
  to.record("LieRope", LieRope{},
            "LieRE: a position picks a rotation of the whole head, or of each block of it, out of a learned family.\n\n"
            "    R(p) = exp(sum_axis p_axis A_axis),   A skew-symmetric\n\n"
            "Ostmeier et al. 2024, arXiv 2406.10322.")
      .member("head_dim", &LieRope::head_dim, "How many dimensions a head has.")
      .member("axes", &LieRope::axes, "How many coordinates a position has.")
      .member("block", &LieRope::block,
              "How many dimensions a block has; it divides head_dim and is at most 128. 0 for the whole head, as in "
              "the authors' code.");
  const auto block_of = [](const Record& spec) {
    const auto& lie = *spec.as<LieRope>();
    return std::max<Index>(1, lie.block == 0 ? lie.head_dim : lie.block);
  };
  to.encoding_with<LieRope, Grouped, 4>(
        "LieRopeRows",
        "LieRE with generators [sets, axes, head_dim/block, block (block - 1)/2]: strict upper triangles, row by "
        "row.\n\n"
        "    R(p) = exp(sum_axis p_axis A_axis)\n\n"
        "Head h uses set h / group, as in RopeMixedRows.\n\nOstmeier et al. 2024, arXiv 2406.10322.",
        {Parameter(
             "generators",
             {"sets",
              "axes",
              {"head_dim/block",
               [block_of](const Record& spec, const Sizes&) { return spec.as<LieRope>()->head_dim / block_of(spec); }},
              {"block(block - 1)/2",
               [block_of](const Record& spec, const Sizes&) { return block_of(spec) * (block_of(spec) - 1) / 2; }}},
             "Strict upper triangles of A, row by row.")
             .starts(uniform(0, 2 * std::numbers::pi))
             .draws(normal(0.1))},
        make_grouped<LieRopeRows>)
      .grid(
          [](const LieRope& spec, Index length) { return spec.axes == 2 ? inspect::square_grid(length) : GridSize{}; })
      // Blocks of 4, not the authors' 8, where the head allows it: a matrix exponential per token takes its time.
      .called("lie_rope", "LieRE", "turns by the exponential of learned generators",
              [](const ExampleSize& size) {
                return LieRope{.head_dim = size.dim, .block = size.dim % 4 == 0 ? Index{4} : size.dim};
              })
      .also({"liere"});
}

}  // namespace bearing
