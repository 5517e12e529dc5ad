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

/// The scores' extents, and queries and keys that fit them.
template <class A>
Problem problem_of(const char* function, const ScoreInputs<A>& in, const std::array<Index, 4>& scores) {
  Problem problem{scores[0], scores[1], scores[1], scores[2], scores[3]};
  problem.q_positions = &in.q_positions;
  problem.k_positions = &in.k_positions;
  if (!is_given(in.q) && !is_given(in.k)) return problem;
  if (!is_given(in.q) || !is_given(in.k)) {
    throw ShapeError(concat("[", function, "] q, k: must both be given, or neither, got one of them"));
  }
  problem.kv_heads = in.k.shape[1];
  problem.dim = in.q.shape[3];
  if (in.q.shape != std::array<Index, 4>{problem.batch, problem.heads, problem.q_len, problem.dim}) {
    throw ShapeError(concat("[", function, "] q: must be [batch, heads, q_len, dim] of scores with shape ", scores,
                            ", got ", in.q.shape));
  }
  const bool grouped = problem.kv_heads > 0 ? problem.heads % problem.kv_heads == 0 : problem.heads == 0;
  if (in.k.shape != std::array<Index, 4>{problem.batch, problem.kv_heads, problem.k_len, problem.dim} || !grouped) {
    throw ShapeError(concat("[", function, "] k: must be [batch, kv_heads, k_len, dim] of scores with shape ", scores,
                            " and queries with shape ", in.q.shape, ", kv_heads a divisor of heads, got ", in.k.shape));
  }
  check_tensor(function, "q", in.q);
  check_tensor(function, "k", in.k);
  return problem;
}

/// Throws ShapeError for an encoding that turns rows: scores are there already, and what looks at q and k would look at
/// rows that were not turned.
template <class A>
void check_score_terms(const char* function, const TermList<A>& terms, const Problem& problem) {
  check_list(function, terms);
  for (const Term<A>& term : terms) {
    if (term.turn == nullptr) continue;
    throw ShapeError(concat("[", function, "] terms: must add to scores, as q and k are turned (rotate, turn) before ",
                            "they are multiplied, got one that turns them as number ", &term - terms.begin() + 1,
                            " of ", terms.size));
  }
  check_terms(function, terms, problem);
}

template <class A>
void tell_inputs(CallMemory& memory, const ScoreInputs<A>& in) {
  memory.reads("q", in.q).reads("k", in.k);
  memory.reads_positions("q_positions", in.q_positions).reads_positions("k_positions", in.k_positions);
}

/// The call's tiles of one head, row by row: body(tile) with queries, keys and scale in place.
template <class A, class Body>
void walk(const Problem& problem, const ScoreInputs<A>& in, TileExtents extents, TileWork<A>& work, Index b, Index h,
          Index first_row, Index end_row, const Body& body) {
  for (Index row = first_row; row < end_row; row += extents.rows) {
    for (Index col = 0; col < problem.k_len; col += extents.cols) {
      Tile<A> tile = work.open(problem, b, h, row, col);
      tile.scale = in.scale;
      const Index kv_head = problem.dim == 0 ? 0 : h / (problem.heads / problem.kv_heads);
      tile.q = rows_of(in.q, b, h, row, tile.rows, work.q_rows(), tile.q_stride);
      tile.k = rows_of(in.k, b, kv_head, col, tile.cols, work.k_rows(), tile.k_stride);
      body(tile);
    }
  }
}

/// Calls unit(work, b, h, first row, end row) for blocks of rows that are whole tiles.
template <class A, class Unit>
void over_blocks(const TermList<A>& terms, const Problem& problem, TileExtents extents, const Executor& on,
                 ScoreRoom room, const Unit& unit) {
  if (problem.q_len <= 0 || problem.k_len <= 0) return;
  const Index blocks = (problem.q_len + extents.rows - 1) / extents.rows;
  const Index units = problem.batch * problem.heads * blocks, chunks = chunk_count(on, units);
  std::vector<TileWork<A>> work;
  work.reserve(static_cast<std::size_t>(chunks));
  for (Index c = 0; c < chunks; ++c) work.emplace_back(terms, problem, extents, room);
  in_chunks(on, chunks, units, [&](Index chunk, Index i) {
    const Index block = i % blocks, h = i / blocks % problem.heads, b = i / blocks / problem.heads;
    unit(work[static_cast<std::size_t>(chunk)], b, h, block * extents.rows,
         std::min(problem.q_len, (block + 1) * extents.rows));
  });
}

}  // namespace

template <class A>
void add_scores(const TermList<A>& terms, const std::type_identity_t<ScoreInputs<A>>& in,
                std::type_identity_t<View<A, 4>> scores, const Executor& on) {
  const char* function = "add_scores";
  check_output(function, "scores", scores);
  const Problem problem = problem_of(function, in, scores.shape);
  check_score_terms(function, terms, problem);
  CallMemory memory(function);
  tell_inputs(memory, in);
  for (const Term<A>& term : terms) memory.forward(term);
  memory.writes("scores", scores).check();
  const TileExtents extents = tile_extents(terms, problem.q_len, problem.k_len);
  const ScoreRoom room = score_room(scores.stride[3]);
  over_blocks(terms, problem, extents, on, room, [&](TileWork<A>& work, Index b, Index h, Index first, Index end) {
    walk(problem, in, extents, work, b, h, first, end, [&](Tile<A>& tile) {
      if (room == ScoreRoom::in_place) {
        tile.stride = scores.stride[2];
        for (const Term<A>& term : terms) work.add(term, tile, &scores(b, h, tile.row, tile.col));
        return;
      }
      A* s = work.scores();
      for (Index i = 0; i < tile.rows; ++i) {
        for (Index j = 0; j < tile.cols; ++j) s[i * tile.stride + j] = scores(b, h, tile.row + i, tile.col + j);
      }
      for (const Term<A>& term : terms) work.add(term, tile, s);
      for (Index i = 0; i < tile.rows; ++i) {
        for (Index j = 0; j < tile.cols; ++j) scores(b, h, tile.row + i, tile.col + j) = s[i * tile.stride + j];
      }
    });
  });
}

namespace {

/// Adds a tile's block of gradients to rows of a tensor.
template <class A>
void add_rows(const A* from, Index rows, View<A, 4> to, Index b, Index h, Index first) {
  for (Index i = 0; i < rows; ++i) {
    for (Index d = 0; d < to.shape[3]; ++d) to(b, h, first + i, d) += from[i * to.shape[3] + d];
  }
}

template <class A>
void check_grad(const char* function, const char* argument, View<A, 4> grad, View<const A, 4> of) {
  if (grad.data == nullptr) return;
  if (grad.shape != of.shape) {
    throw ShapeError(concat("[", function, "] ", argument, ": must have the shape of ", argument + 2, ", ", of.shape,
                            ", got ", grad.shape));
  }
  check_output(function, argument, grad);
}

}  // namespace

template <class A>
void add_scores_backward(const TermList<A>& terms, const std::type_identity_t<ScoreInputs<A>>& in,
                         std::type_identity_t<View<const A, 4>> d_scores,
                         const std::type_identity_t<QueryKeyGrads<A>>& grads, const Executor& on) {
  const char* function = "add_scores_backward";
  check_tensor(function, "d_scores", d_scores);
  const Problem problem = problem_of(function, in, d_scores.shape);
  check_grad(function, "d_q", grads.d_q, in.q);
  check_grad(function, "d_k", grads.d_k, in.k);
  check_score_terms(function, terms, problem);
  CallMemory memory(function);
  tell_inputs(memory, in);
  memory.reads("d_scores", d_scores);
  for (const Term<A>& term : terms) memory.backward(term);
  memory.writes("d_q", grads.d_q).writes("d_k", grads.d_k).check();
  if (problem.q_len <= 0 || problem.k_len <= 0) return;
  const TileExtents extents = tile_extents(terms, problem.q_len, problem.k_len);

  // A unit is all heads that share keys, so that one task alone adds to those keys' gradients.
  const Index group = problem.heads / std::max<Index>(problem.kv_heads, 1);
  const Index units = problem.batch * problem.kv_heads, chunks = chunk_count(on, units);
  ParamBlocks<A> params(terms, problem.batch, problem.heads);
  struct Own {
    TileWork<A> work;
    std::vector<A> d_q, d_k;
  };
  std::vector<Own> own;
  own.reserve(static_cast<std::size_t>(chunks));
  const auto size = [](bool wanted, Index n) { return wanted ? static_cast<std::size_t>(n) : 0; };
  for (Index c = 0; c < chunks; ++c) {
    own.push_back({{terms, problem, extents, score_room(d_scores.stride[3])},
                   std::vector<A>(size(grads.d_q.data != nullptr, extents.rows * problem.dim)),
                   std::vector<A>(size(grads.d_k.data != nullptr, extents.cols * problem.dim))});
  }

  in_chunks(on, chunks, units, [&](Index chunk, Index unit) {
    auto& [work, d_q, d_k] = own[static_cast<std::size_t>(chunk)];
    const Index b = unit / problem.kv_heads, kv_head = unit % problem.kv_heads;
    for (Index h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      walk(problem, in, extents, work, b, h, 0, problem.q_len,
           [&, &work = work, &d_q = d_q, &d_k = d_k](Tile<A>& tile) {
             const A* d_s = work.scores();
             if (d_scores.stride[3] == 1) {
               d_s = &d_scores(b, h, tile.row, tile.col);
               tile.stride = d_scores.stride[2];
             } else {
               for (Index i = 0; i < tile.rows; ++i) {
                 for (Index j = 0; j < tile.cols; ++j) {
                   work.scores()[i * tile.stride + j] = d_scores(b, h, tile.row + i, tile.col + j);
                 }
               }
             }
             std::fill(d_q.begin(), d_q.end(), A{0});
             std::fill(d_k.begin(), d_k.end(), A{0});
             TileGrads<A> tile_grads{.d_q = d_q.empty() ? nullptr : d_q.data(),
                                     .d_k = d_k.empty() ? nullptr : d_k.data(),
                                     .d_q_stride = problem.dim,
                                     .d_k_stride = problem.dim};
             for (Index t = 0; t < terms.size; ++t) {
               tile_grads.params = params.block(b, h, t);
               work.add_grads(terms.terms[static_cast<std::size_t>(t)], tile, d_s, tile_grads);
             }
             if (tile_grads.d_q != nullptr) add_rows(d_q.data(), tile.rows, grads.d_q, b, h, tile.row);
             if (tile_grads.d_k != nullptr) add_rows(d_k.data(), tile.cols, grads.d_k, b, kv_head, tile.col);
           });
    }
  });
  params.collect();
}

template <class T>
void bias_matrix(const std::type_identity_t<TermList<Compute<T>>>& terms, const Positions& q_positions,
                 const Positions& k_positions, View<T, 3> bias, const Executor& on) {
  using A = Compute<T>;
  check_output("bias_matrix", "bias", bias);
  const ScoreInputs<A> in{q_positions, k_positions};
  const Problem problem = problem_of("bias_matrix", in, {1, bias.shape[0], bias.shape[1], bias.shape[2]});
  check_score_terms("bias_matrix", terms, problem);
  CallMemory memory("bias_matrix");
  tell_inputs(memory, in);
  for (const Term<A>& term : terms) memory.forward(term);
  memory.writes("bias", bias).check();
  TileExtents extents = tile_extents(terms, problem.q_len, problem.k_len);
  // An ordinary store reads the line that it is about to overwrite; a matrix beyond the caches goes past them.
  const bool stream = bias.size() * static_cast<Index>(sizeof(T)) >= Index{16} << 20;
  const ScoreRoom room = std::is_same_v<T, A> ? score_room(bias.stride[2]) : ScoreRoom::own;
  if (stream && room == ScoreRoom::in_place && extents.rows == 256) {
    // What is written once needs no room in caches: tiles as tall as eight for each worker leave them share
    // evaluations.
    const Index share = problem.heads * problem.q_len / (8 * workers_of(on));
    extents.rows = std::clamp<Index>(share / 256 * 256, 256, std::min<Index>(2048, problem.q_len));
  }
  over_blocks(terms, problem, extents, on, room, [&](TileWork<A>& work, Index b, Index h, Index first, Index end) {
    walk(problem, in, extents, work, b, h, first, end, [&](Tile<A>& tile) {
      if constexpr (std::is_same_v<T, A>) {
        if (room == ScoreRoom::in_place) {
          tile.stride = bias.stride[1];
          return work.write(terms, tile, &bias(h, tile.row, tile.col), stream);
        }
      }
      A* s = work.scores();
      work.write(terms, tile, s, false);
      for (Index i = 0; i < tile.rows; ++i) {
        for (Index j = 0; j < tile.cols; ++j) bias(h, tile.row + i, tile.col + j) = T(s[i * tile.stride + j]);
      }
    });
  });
}

#define BEARING_INSTANTIATE(A)                                                                          \
  template void add_scores<A>(const TermList<A>&, const std::type_identity_t<ScoreInputs<A>>&,          \
                              std::type_identity_t<View<A, 4>>, const Executor&);                       \
  template void add_scores_backward<A>(const TermList<A>&, const std::type_identity_t<ScoreInputs<A>>&, \
                                       std::type_identity_t<View<const A, 4>>,                          \
                                       const std::type_identity_t<QueryKeyGrads<A>>&, const Executor&);
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(double)
#undef BEARING_INSTANTIATE

#define BEARING_INSTANTIATE(T)                                                                                        \
  template void bias_matrix<T>(const std::type_identity_t<TermList<Compute<T>>>&, const Positions&, const Positions&, \
                               View<T, 3>, const Executor&);
BEARING_INSTANTIATE(double)
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(Bfloat16)
BEARING_INSTANTIATE(Float16)
#undef BEARING_INSTANTIATE

}  // namespace bearing
