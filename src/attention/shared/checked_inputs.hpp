#pragma once

#include <bearing/attention.hpp>
#include <bearing/error.hpp>
#include <bearing/term_list.hpp>

#include "attention/shared/head_rows.hpp"
#include "tensor_checks.hpp"

// What attention of every kind checks first, and what follows from it at once.

namespace bearing {

/// Queries, keys and values that fit each other, and the row encodings that turn them.
template <class A>
struct CheckedInputs {
  const char* function;
  HeadRows<A> q, k, v;
  Problem problem;        ///< its dim is the turned rows', which enter the product
  Index in_dim = 0;       ///< of q and k as they come
  TermList<A> rows = {};  ///< those that turn q and k
  const Positions *q_turned_at = nullptr, *k_turned_at = nullptr;  ///< where they do

  /// Throws ShapeError for shapes that do not fit each other, RangeError for positions. `in` is an AttentionInputs or
  /// LinearAttentionInputs, whose positions must outlive this. Allocates nothing but error texts.
  template <class Inputs>
  CheckedInputs(const char* name, const Inputs& in);

  Index group() const { return problem.heads / std::max<Index>(problem.kv_heads, 1); }
  /// [batch, heads, q_len, value_dim]
  std::array<Index, 4> out_shape() const { return {problem.batch, problem.heads, problem.q_len, problem.value_dim}; }

  /// Throws RangeError for a mask that has no name, ShapeError for positions whose order it cannot tell.
  void check_mask(Mask mask) const;

  /// Takes the terms that turn rows, each of which must serve queries, and keys as queries of their own; the dimension
  /// follows from one to the next. Throws what their checks throw.
  void turn_by(const TermList<A>& terms);

  /// Throws ShapeError unless a tensor is like the output.
  template <class O>
  void check_like_out(const char* argument, View<O, 4> x) const {
    check_shape(function, argument, x, out_shape(), "[batch, heads, q_len, value_dim]");
    if constexpr (Writable<O>) check_output(function, argument, x);
  }
  /// Throws ShapeError unless a gradient that is wanted has the shape of its tensor, and memory to itself.
  template <class O>
  void check_grad_of(const char* of, const HeadRows<A>& input, const char* argument, View<O, 4> grad) const {
    if (grad.data == nullptr) return;
    if (grad.shape != input.shape()) {
      throw ShapeError(text::concat("[", function, "] ", argument, ": must have the shape of ", of, ", ", input.shape(),
                                    ", got ", grad.shape));
    }
    check_output(function, argument, grad);
  }

  /// Tells all memory of these that is read, except that of the encodings.
  void tell_inputs(CallMemory& memory) const {
    memory.reads("q", q.memory()).reads("k", k.memory()).reads("v", v.memory()).reads("block_table", k.table());
    memory.reads_positions("q_positions", *problem.q_positions).reads_positions("k_positions", *problem.k_positions);
    if (q_turned_at != problem.q_positions) memory.reads_positions("q_turned_at", *q_turned_at);
    if (k_turned_at != problem.k_positions) memory.reads_positions("k_turned_at", *k_turned_at);
  }

 private:
  void check_shapes();
  void check_table();
};

}  // namespace bearing
