#pragma once

#include <array>
#include <bearing/executor.hpp>
#include <bearing/export.hpp>
#include <bearing/memory.hpp>
#include <bearing/positions.hpp>
#include <bearing/view.hpp>
#include <concepts>
#include <optional>

// The contract. An encoding is defined by where it acts: it has the members of its sites and nothing else.
//
//     site       what it does                          forward      backward
//     input      x_i ← x_i + p(i)                      inputs       input_grads
//     query/key  q_i ← T_i q_i,  k_j ← T_j k_j         turn         turn_grads
//     score      s_ij ← s_ij + b_h(n_j − m_i)          bias         bias_grads           a bias by distance alone, or
//                s_ij ← s_ij + anything                add_scores   add_score_grads      one tile at a time
//     value      o_i ← o_i + Σ_j p_ij V[ρ(i, j)]       add_values   add_value_grads      what is added to values, or
//                o_i = B_i Σ_j p_ij T_j v_j            turn_values  turn_value_grads     what values go through
//     state      S ← a_t ∘ S, then key t enters        log_decay    log_decay_grads      of linear attention alone
//
// m_i is a query's position, n_j a key's. A distance is always key minus query: n − m. A is the arithmetic: float or
// double. Backward members add to the gradients of an encoding's parameters. An encoding that has no parameters and
// does not look at q and k has `static constexpr bool constant = true` in place of a backward; without either it does
// not compile. A value site always has its backward, for the gradient of p. Values are turned by the encodings of a
// call in order, and what they add up to is turned back by them in the opposite order, after everything was added.
// These members are optional:
//
//     void check(const char* function, const Problem&) const   throws if it cannot serve; called once, before any work
//     ParamBlock grad_block(Index batch, Index head) const     what a batch and head own of the parameters' gradients
//                                                              (param_block.hpp); their block is added to it
//     Index param_size() const                                 in place of grad_block, where a block is no copy of the
//                                                              gradients: how many numbers it has; 0 if no gradient is
//                                                              computed
//     void collect(Index batch, Index head, const A* d) const  goes with param_size: adds a block to the gradients.
//                                                              Blocks are added in rising order of batch and head, so
//                                                              that sums are always taken in one order
//     void borrows(MemoryList& to) const                       names the caller's memory that it refers to, so that
//                                                              calls can refuse outputs that overlap with it
//     void put_scores(const Tile&, A* s) const                 goes with add_scores where neither q nor k is looked at:
//                                                              writes what that adds to 0. Tiles are large then
//     View<const A, 2> matrix(Index batch, Index head) const   goes with add_scores where that adds a matrix which lies
//                                                              in memory, and looks at neither q nor k: [q_len, k_len]
//     Index scratch_size(Index rows, Index cols) const         numbers of A that it works with on a tile of that size
//     Index turn_scratch(Index dim) const                      doubles that turn, turn_values and their backwards work
//                                                              with
//     Index input_scratch(Index rows) const                    doubles that inputs and input_grads work with
//     void add_inputs(const RowTile&, A* x) const              goes with inputs: adds the same rows to x, where that
//                                                              is faster than to write them apart first. Called where
//                                                              x is of A and its rows are contiguous. Who hides the
//                                                              inputs of a base hides this too
//     static constexpr Index numbers_at_once = n               inputs is called with tiles of up to n numbers
//     static constexpr bool grads_in_order = true              input_grads adds to the gradients itself (d_params is
//                                                              null): it is called in one order, one call at a time
//     static constexpr bool whole_rows = true                  its tiles must span all keys: CoPE's running sums
//
//     static constexpr bool counts_tokens = true               goes with log_decay: steps lead from token to token,
//                                                              whatever their positions; a query stands at its key
//     static constexpr bool by_channel = true                  goes with log_decay: each channel of a row has its own
//
// log_decay adds numbers of at most 0 (−∞: nothing is kept), which may not depend on how a call is cut into steps:
// those of two steps are together those of the step from the first one's start to the second one's end. In softmax
// attention the same decay is a score's: e^s falls by what lies between. So an encoding with log_decay acts on the
// score too. bias is called with every distance from the smallest to the largest, also with those that no query sees;
// it must give a finite number or −∞ for each. check refuses a parameter that would make a NaN of that; numbers of a
// table are given as they are. All members are const. All except check run in parallel tasks and must not throw.

namespace bearing {

inline constexpr Index max_axes = 4;

/// Whose rows are turned: queries by m_i, or keys by n_j. Some encodings treat the two differently.
enum class Side { query, key };

/// The call that an encoding is to serve. An extent that does not matter or is not known is 0.
struct Problem {
  Index batch = 1, heads = 1, kv_heads = 1;
  Index q_len = 0, k_len = 0;
  Index dim = 0;        ///< of q and k; 0: the call has no queries and keys
  Index value_dim = 0;  ///< of v; 0: the call has no values
  const Positions* q_positions = nullptr;
  const Positions* k_positions = nullptr;
  /// Whose rows are to be turned: `q_len` rows of each of `heads` heads. Empty: not known, or nothing is turned.
  std::optional<Side> side = {};
};

/// A rectangle of one head's scores. Element (i, j) of a score array lies at [i·stride + j].
template <class A>
struct Tile {
  Index batch = 0, head = 0;
  Index row = 0, col = 0;    ///< its first query and key: indices in their sequences, not positions
  Index rows = 0, cols = 0;  ///< its extents
  Index stride = 0;          ///< between rows of the score arrays that come with it
  /// Positions, one array per axis; axes past an input's last repeat it (text: time = height = width).
  std::array<const double*, max_axes> q_positions{};  ///< [rows] each
  std::array<const double*, max_axes> k_positions{};  ///< [cols] each
  /// Both rise by one from token to token, on the first axis: the distance is k_positions[0][0] − q_positions[0][0] + j
  /// − i.
  bool consecutive = false;

  Index dim = 0;  ///< of q and k
  /// Rows as they enter the product (rotated, if they are): [rows, dim], [cols, dim]; null: the call has none.
  const A *q = nullptr, *k = nullptr;
  Index q_stride = 0, k_stride = 0;
  A scale = 1;  ///< the softmax scale. Scores are final logits: a term inside the product must multiply by it itself
  /// What put_scores writes is too large for the caches and should go past them.
  bool past_caches = false;
  /// [rows, cols] 0 where a mask hides a key from a query, for encodings that look at whole rows; null: no key is
  /// hidden.
  const char* seen = nullptr;
  A* scratch = nullptr;  ///< [scratch_size(rows, cols)] to use freely
};

/// Where a tile's backward adds its gradients: everything here is +=. Null: not computed.
template <class A>
struct TileGrads {
  A* params = nullptr;               ///< [param_size()] of this batch and head
  A *d_q = nullptr, *d_k = nullptr;  ///< [rows, dim], [cols, dim]
  Index d_q_stride = 0, d_k_stride = 0;
};

/// Some rows of one head's queries or keys, or of the input (head 0).
struct RowTile {
  Index batch = 0, head = 0;
  Index row = 0, rows = 0;                   ///< the first one's index in its sequence, and how many
  std::array<const double*, max_axes> at{};  ///< [rows] positions per axis, as in Tile
  Index dim = 0;                             ///< of the rows of x
  Index x_stride = 0, y_stride = 0;          ///< between rows of what comes in and of what goes out
  Side side = Side::query;
  bool consecutive = false;   ///< positions are whole and rise by one from row to row, on the only axis
  double* scratch = nullptr;  ///< [turn_scratch(dim)] or [input_scratch(rows)] to use freely
};

/// Steps of one head's state. Key t's leads from the key before it to t; the first one's from the state that a call
/// begins with, which stands one position before it. A query's leads from the last key that it sees to itself.
struct StepTile {
  Index batch = 0, head = 0;
  Index row = 0, rows = 0;                      ///< the first one's index in its sequence, and how many
  Index channels = 1;                           ///< of rows that enter the product, for decays by channel; else 1
  const double *from = nullptr, *to = nullptr;  ///< [rows] positions on the first axis; they never fall
  Side side = Side::key;
};

template <class E, class A>
concept InputTerm = requires(const E& e, const RowTile& tile, A* p) {
  e.inputs(tile, p);  // writes p(i): [rows, dim], y_stride apart
};

template <class E, class A>
concept RowTerm = requires(const E& e, const RowTile& tile, const A* x, A* y) {
  e.turn(tile, x, y);  // y: [rows, out_dim(dim)], where the encoding has an out_dim, else [rows, dim]; y may be x then
};

template <class E, class A>
concept DistanceBias = requires(const E& e, Index head, Index n, const double* distance, A* b) {
  e.bias(head, n, distance, b);  // writes b_h(distance[i]), i < n
};

template <class E, class A>
concept TileTerm = requires(const E& e, const Tile<A>& tile, A* s) {
  e.add_scores(tile, s);  // adds to s: [rows, cols]
};

template <class E, class A>
concept ScoreTerm = DistanceBias<E, A> || TileTerm<E, A>;

template <class E, class A>
concept ValueTerm = requires(const E& e, const Tile<A>& tile, const A* p, Index value_dim, A* o, Index o_stride) {
  e.add_values(tile, p, value_dim, o, o_stride);  // adds Σ_j p_ij V[ρ(i, j)] to o: [rows, value_dim]
};

template <class E>
concept StateTerm = requires(const E& e, const StepTile& tile, double* log_decay) {
  e.log_decay(tile, log_decay);  // adds ln a_t: [rows, channels]
};

template <class E, class A>
concept ValueRowTerm = requires(const E& e, const RowTile& tile, A* x) {
  e.turn_values(tile, x);       // in place, rows x_stride apart: x ← T_j x of the key side, B_i x of the query side
  e.turn_value_grads(tile, x);  // in place: x ← T_jᵀ x of the key side, B_iᵀ x of the query side
};

/// An encoding that refers to memory of the caller, and says to which.
template <class E>
concept Borrower = requires(const E& e, MemoryList& to) {
  e.borrows(to);
};

/// An encoding without parameters that looks at neither queries nor keys.
template <class E>
concept Constant = requires {
  requires E::constant;
};

/// A value site always has a backward: the probabilities have gradients through it, even where nothing is learned.
template <class E, class A>
concept ValueDifferentiable =
    !ValueTerm<E, A> || requires(const E& e, const Tile<A>& tile, const A* p, Index value_dim, const A* d_o,
                                 Index d_o_stride, A* d_p, const TileGrads<A>& grads) {
  e.add_value_grads(tile, p, value_dim, d_o, d_o_stride, d_p, grads);  // d_p: [rows, cols] like p, +=
};

/// The backward of every site that E acts on is there.
template <class E, class A>
concept Differentiable = ValueDifferentiable<E, A> &&
    (Constant<E> ||
     ((!DistanceBias<E, A> ||
       requires(const E& e, Index head, Index n, const double* distance, const A* d_b, A* d_params) {
         e.bias_grads(head, n, distance, d_b, d_params);  // d_params += Σ_i d_b[i] · ∂b_h(distance[i])/∂params
       }) &&
      (!TileTerm<E, A> || requires(const E& e, const Tile<A>& tile, const A* d_s,
                                   const TileGrads<A>& grads) { e.add_score_grads(tile, d_s, grads); }) &&
      (!RowTerm<E, A> ||
       requires(const E& e, const RowTile& tile, const A* x, const A* d_y, A* d_x, A* d_params) {
         e.turn_grads(tile, x, d_y, d_x, d_params);  // d_x = Tᵀ d_y (x_stride apart); d_params +=, null: not computed
       }) &&
      (!StateTerm<E> ||
       requires(const E& e, const StepTile& tile, const double* d_log_decay, A* d_params) {
         e.log_decay_grads(tile, d_log_decay, d_params);  // of all steps of a side at once: [rows, channels]
       }) &&
      (!InputTerm<E, A> || requires(const E& e, const RowTile& tile, const A* d_p, A* d_params) {
        e.input_grads(tile, d_p, d_params);  // d_p: [rows, dim], y_stride apart
      })));

}  // namespace bearing
