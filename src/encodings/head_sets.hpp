#pragma once

#include <bearing/encodings/rope.hpp>
#include <bearing/error.hpp>
#include <bearing/term.hpp>
#include <vector>

#include "encodings/limits.hpp"
#include "tensor_checks.hpp"
#include "terms/checks.hpp"
#include "text.hpp"

// What encodings of rows with learned parameters share. Parameters come in sets: head h uses set h / group.

namespace bearing {

/// check_param(), and the gradient's elements are memory of their own.
template <class A, int Rank>
void check_set(const char* encoding, const char* name, const Param<A, Rank>& param,
               const std::type_identity_t<std::array<Index, Rank>>& shape, const char* extents) {
  check_param(encoding, name, param, shape, extents);
  if (param.grad.data != nullptr) check_output(encoding, "gradient", param.grad);
}

inline void check_group(const char* encoding, Index sets, Index group) {
  if (sets < 1 || group < 1) {
    throw ShapeError(text::concat("[", encoding, "] group: there must be at least one set of parameters and one head ",
                                  "for each, got ", sets, " sets and group ", group));
  }
}

inline void check_even_head(const char* encoding, Index head_dim) {
  if (head_dim < 2 || head_dim > largest_dim || head_dim % 2 != 0) {
    throw ShapeError(
        text::concat("[", encoding, "] head_dim: must be even and from 2 to ", largest_dim, ", got ", head_dim));
  }
}

inline void check_axes(const char* encoding, Index axes) {
  if (axes < 1 || axes > max_axes) {
    throw ShapeError(text::concat("[", encoding, "] axes: must be from 1 to ", max_axes, ", got ", axes));
  }
}

/// Throws ShapeError for positions of one axis where an encoding has several: one number on all of them would put the
/// patches of an image on its diagonal.
inline void check_every_axis(const char* function, const char* name, const Positions& at, Index axes) {
  if (axes == 1 || at.axes() != 1) return;
  throw ShapeError(text::concat("[", function, "] positions: must have ", axes, " axes, as ", name, " has, got 1"));
}

/// Throws ShapeError unless rows of this dimension, heads and axes are what an encoding has.
inline void check_rows(const char* function, const char* name, const Problem& problem, Index head_dim, Index axes,
                       Index sets, Index group) {
  if (problem.dim != head_dim) {
    throw ShapeError(text::concat("[", function, "] ", name, ".head_dim: must be the last extent of the rows, ",
                                  problem.dim, ", got ", head_dim));
  }
  if (problem.heads != sets * group) {
    throw ShapeError(text::concat("[", function, "] ", name, ": must have a set of parameters for each of ",
                                  problem.heads, " heads, got ", sets, " sets for ", group, " heads each"));
  }
  check_every_axis(function, name, *problem.q_positions, axes);
  problem.q_positions->check(function, "positions", axes, problem.batch, problem.q_len);
}

/// The two elements of pair i.
struct PairPlace {
  Index u, v;
};
inline PairPlace pair_place(Pairing pairing, Index pairs, Index i) {
  if (pairing == Pairing::half) return {i, i + pairs};
  return {2 * i, 2 * i + 1};
}

/// The elements of a head that each pair turns.
inline std::vector<PairPlace> pair_places(const RopeFrequencies& of) {
  std::vector<PairPlace> places;
  const std::vector<Index> blocks = of.blocks.empty() ? std::vector<Index>{of.pairs()} : of.blocks;
  Index begin = of.begin;
  for (const Index count : blocks) {
    for (Index i = 0; i < count; ++i) {
      const auto [u, v] = pair_place(of.pairing, count, i);
      places.push_back({begin + u, begin + v});
    }
    begin += 2 * count;
  }
  return places;
}

/// One row of a tile as a tile of its own.
inline RowTile row_of(const RowTile& tile, Index row) {
  RowTile one = tile;
  one.row += row;
  one.rows = 1;
  for (const double*& at : one.at) {
    if (at != nullptr) at += row;
  }
  return one;
}

}  // namespace bearing
