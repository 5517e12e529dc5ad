#include <algorithm>
#include <bearing/error.hpp>
#include <bearing/scores.hpp>

#include "tensor_checks.hpp"
#include "terms/checks.hpp"
#include "terms/score_call.hpp"
#include "terms/tile_work.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

/// Copies of a tile's rows, so that terms see plain arrays whatever the caller's strides are: probabilities p, their
/// gradient d_p, and the values' rows o (out, or d_out).
template <class A>
struct ValueRoom {
  TileWork<A> work;
  std::vector<A> p, d_p, o;
};

template <class A>
void load(View<const A, 4> x, const Tile<A>& tile, Index cols, Index first_col, A* to, Index stride) {
  for (Index i = 0; i < tile.rows; ++i) {
    for (Index j = 0; j < cols; ++j) to[i * stride + j] = x(tile.batch, tile.head, tile.row + i, first_col + j);
  }
}
template <class A>
void store(const A* from, Index stride, const Tile<A>& tile, Index cols, Index first_col, View<A, 4> x) {
  for (Index i = 0; i < tile.rows; ++i) {
    for (Index j = 0; j < cols; ++j) x(tile.batch, tile.head, tile.row + i, first_col + j) = from[i * stride + j];
  }
}

/// `argument`: what the rows of values are called.
template <class A, class O>
Problem problem_of(const char* function, const Positions& q_positions, const Positions& k_positions, View<const A, 4> p,
                   const char* argument, View<O, 4> out) {
  check_tensor(function, "p", p);
  check_tensor(function, argument, out);
  if (out.shape[0] != p.shape[0] || out.shape[1] != p.shape[1] || out.shape[2] != p.shape[2]) {
    throw ShapeError(concat("[", function, "] ", argument,
                            ": must be [batch, heads, q_len, value_dim] of probabilities with shape ", p.shape,
                            ", got ", out.shape));
  }
  Problem problem{p.shape[0], p.shape[1], p.shape[1], p.shape[2], p.shape[3]};
  problem.value_dim = out.shape[3];
  problem.q_positions = &q_positions;
  problem.k_positions = &k_positions;
  return problem;
}

/// body(room, tile) for all tiles of all heads; a head's tiles in order, on one thread.
template <class A, class Body>
void over_heads(const TermList<A>& terms, const Problem& problem, const Executor& on, const Body& body) {
  const TileExtents extents = tile_extents(terms, problem.q_len, problem.k_len);
  const Index units = problem.batch * problem.heads, chunks = chunk_count(on, units);
  std::vector<ValueRoom<A>> rooms;
  rooms.reserve(static_cast<std::size_t>(chunks));
  const auto scores = static_cast<std::size_t>(extents.rows * extents.cols);
  for (Index c = 0; c < chunks; ++c) {
    rooms.push_back({{terms, problem, extents, ScoreRoom::in_place},
                     std::vector<A>(scores),
                     std::vector<A>(scores),
                     std::vector<A>(static_cast<std::size_t>(extents.rows * problem.value_dim))});
  }
  in_chunks(on, chunks, units, [&](Index chunk, Index unit) {
    ValueRoom<A>& room = rooms[static_cast<std::size_t>(chunk)];
    for (Index row = 0; row < problem.q_len; row += extents.rows) {
      for (Index col = 0; col < problem.k_len; col += extents.cols) {
        body(room, room.work.open(problem, unit / problem.heads, unit % problem.heads, row, col));
      }
    }
  });
}

/// The terms that act here: others may ask for queries and keys, which are not at hand. Throws ShapeError for those
/// that turn values, which are not at hand either.
template <class A>
TermList<A> value_terms(const char* function, const TermList<A>& terms) {
  check_list(function, terms);
  TermList<A> acting;
  for (const Term<A>& term : terms) {
    if (term.turn_values != nullptr) {
      throw ShapeError(concat("[", function,
                              "] terms: must not turn values, as only probabilities are given here, got ",
                              "one that does as number ", &term - terms.begin() + 1, " of ", terms.size));
    }
    if (term.add_values != nullptr) acting.add(term);
  }
  return acting;
}

}  // namespace

template <class A>
void add_values(const TermList<A>& given, const Positions& q_positions, const Positions& k_positions,
                std::type_identity_t<View<const A, 4>> p, std::type_identity_t<View<A, 4>> out, const Executor& on) {
  const char* function = "add_values";
  const Problem problem = problem_of(function, q_positions, k_positions, p, "out", out);
  check_distinct(function, "out", out);
  const TermList<A> terms = value_terms(function, given);
  check_terms(function, terms, problem);
  CallMemory memory(function);
  memory.reads("p", p).reads_positions("q_positions", q_positions).reads_positions("k_positions", k_positions);
  for (const Term<A>& term : terms) memory.forward(term);
  memory.writes("out", out).check();
  if (terms.size == 0 || p.size() == 0 || out.size() == 0) return;
  const Index dim = problem.value_dim;
  over_heads(terms, problem, on, [&](ValueRoom<A>& room, const Tile<A>& tile) {
    load(p, tile, tile.cols, tile.col, room.p.data(), tile.stride);
    load<A>(out, tile, dim, 0, room.o.data(), dim);
    for (const Term<A>& term : terms) {
      term.add_values(term.self, tile, room.p.data(), dim, room.o.data(), dim);
    }
    store(room.o.data(), dim, tile, dim, 0, out);
  });
}

template <class A>
void add_values_backward(const TermList<A>& given, const Positions& q_positions, const Positions& k_positions,
                         std::type_identity_t<View<const A, 4>> p, std::type_identity_t<View<const A, 4>> d_out,
                         std::type_identity_t<View<A, 4>> d_p, const Executor& on) {
  const char* function = "add_values_backward";
  const Problem problem = problem_of(function, q_positions, k_positions, p, "d_out", d_out);
  if (d_p.data != nullptr) {
    if (d_p.shape != p.shape) {
      throw ShapeError(concat("[", function, "] d_p: must have p's shape ", p.shape, ", got ", d_p.shape));
    }
    check_output(function, "d_p", d_p);
  }
  const TermList<A> terms = value_terms(function, given);
  check_terms(function, terms, problem);
  CallMemory memory(function);
  memory.reads("p", p)
      .reads("d_out", d_out)
      .reads_positions("q_positions", q_positions)
      .reads_positions("k_positions", k_positions);
  for (const Term<A>& term : terms) memory.backward(term);
  memory.writes("d_p", d_p).check();
  if (terms.size == 0 || p.size() == 0 || d_out.size() == 0) return;
  const Index dim = problem.value_dim;
  ParamBlocks<A> params(terms, problem.batch, problem.heads);
  over_heads(terms, problem, on, [&](ValueRoom<A>& room, const Tile<A>& tile) {
    load(p, tile, tile.cols, tile.col, room.p.data(), tile.stride);
    load(d_out, tile, dim, 0, room.o.data(), dim);
    if (d_p.data != nullptr) {
      load<A>(d_p, tile, tile.cols, tile.col, room.d_p.data(), tile.stride);
    } else {
      std::fill(room.d_p.begin(), room.d_p.end(), A{0});
    }
    TileGrads<A> grads;
    for (Index t = 0; t < terms.size; ++t) {
      const Term<A>& term = terms.terms[static_cast<std::size_t>(t)];
      grads.params = params.block(tile.batch, tile.head, t);
      if (term.add_value_grads == nullptr) continue;
      term.add_value_grads(term.self, tile, room.p.data(), dim, room.o.data(), dim, room.d_p.data(), grads);
    }
    if (d_p.data != nullptr) store(room.d_p.data(), tile.stride, tile, tile.cols, tile.col, d_p);
  });
  params.collect();
}

#define BEARING_INSTANTIATE(A)                                                                                         \
  template void add_values<A>(const TermList<A>&, const Positions&, const Positions&,                                  \
                              std::type_identity_t<View<const A, 4>>, std::type_identity_t<View<A, 4>>,                \
                              const Executor&);                                                                        \
  template void add_values_backward<A>(const TermList<A>&, const Positions&, const Positions&,                         \
                                       std::type_identity_t<View<const A, 4>>, std::type_identity_t<View<const A, 4>>, \
                                       std::type_identity_t<View<A, 4>>, const Executor&);
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(double)
#undef BEARING_INSTANTIATE

}  // namespace bearing
