#pragma once

#include <bearing/executor.hpp>
#include <bearing/export.hpp>
#include <bearing/half.hpp>
#include <bearing/kept.hpp>
#include <bearing/param_block.hpp>
#include <bearing/positions.hpp>
#include <bearing/term.hpp>
#include <type_traits>

// Encodings of the input and of query and key rows over whole tensors, forward and backward.

namespace bearing {

/// An encoding of the input behind a pointer and a table of functions, as Term is for scores.
template <class A>
struct InputEncoding {
  const void* self = nullptr;
  void (*check)(const void*, const char* function, const Problem&) = nullptr;
  void (*inputs)(const void*, const RowTile&, A* p) = nullptr;
  void (*add_inputs)(const void*, const RowTile&, A* x) = nullptr;
  void (*input_grads)(const void*, const RowTile&, const A* d_p, A* d_params) = nullptr;
  void (*collect)(const void*, Index batch, Index head, const A* d_params) = nullptr;
  Index (*input_scratch)(const void*, Index rows) = nullptr;
  Index param_size = 0;
  Index dim = 0;
  Index numbers_at_once = 0;    ///< 0: 64 rows, which stay in the nearest cache
  bool grads_in_order = false;  ///< see term.hpp
  void (*borrows)(const void*, MemoryList& to) = nullptr;

  template <class E>
  requires(!std::same_as<E, InputEncoding> && InputTerm<E, A>) InputEncoding(const E& encoding)
      : self(&encoding), dim(encoding.dim()) {
    static_assert(Differentiable<E, A>, "an encoding with parameters has a backward, another says constant = true");
    if constexpr (requires(const Problem& problem) { encoding.check("", problem); }) {
      check = [](const void* e, const char* function, const Problem& problem) {
        static_cast<const E*>(e)->check(function, problem);
      };
    }
    if constexpr (Borrower<E> && kept_whole) {
      borrows = [](const void* e, MemoryList& to) { static_cast<const E*>(e)->borrows(to); };
    }
    inputs = [](const void* e, const RowTile& tile, A* p) { static_cast<const E*>(e)->inputs(tile, p); };
    if constexpr (requires(const RowTile& tile, A* x) { encoding.add_inputs(tile, x); }) {
      add_inputs = [](const void* e, const RowTile& tile, A* x) { static_cast<const E*>(e)->add_inputs(tile, x); };
    }
    if constexpr (requires { encoding.input_scratch(Index{}); }) {
      input_scratch = [](const void* e, Index rows) { return static_cast<const E*>(e)->input_scratch(rows); };
    }
    if constexpr (requires { E::numbers_at_once; }) numbers_at_once = E::numbers_at_once;
    if constexpr (requires { E::grads_in_order; }) grads_in_order = E::grads_in_order;
    if constexpr (!Constant<E> && kept_whole) {
      input_grads = [](const void* e, const RowTile& tile, const A* d_p, A* d_params) {
        static_cast<const E*>(e)->input_grads(tile, d_p, d_params);
      };
      param_size = bearing::param_size(encoding);
      collect = collect_params<A, E>;
    }
  }
};

/// Writes p(i) for every token to rows [batch, time, dim], in double, float, Bfloat16 or Float16; any strides. Throws
/// ShapeError if the last extent is not the encoding's dim, or if rows have no memory or share it; RangeError for a
/// position that the encoding cannot serve. Nothing is written then.
template <class T>
BEARING_EXPORT void fill(const std::type_identity_t<InputEncoding<Compute<T>>>& encoding, const Positions& positions,
                         View<T, 3> rows, const Executor& on = {});

/// The same for one sequence: rows [time, dim].
template <class T>
void fill(const std::type_identity_t<InputEncoding<Compute<T>>>& encoding, const Positions& positions, View<T, 2> rows,
          const Executor& on = {}) {
  fill(encoding, positions, batch_of_one(rows), on);
}

/// x [batch, time, dim] ← x + p, the sum rounded once. Errors as fill().
template <class T>
BEARING_EXPORT void add(const std::type_identity_t<InputEncoding<Compute<T>>>& encoding, const Positions& positions,
                        View<T, 3> x, const Executor& on = {});

/// The same for one sequence: x [time, dim].
template <class T>
void add(const std::type_identity_t<InputEncoding<Compute<T>>>& encoding, const Positions& positions, View<T, 2> x,
         const Executor& on = {}) {
  add(encoding, positions, batch_of_one(x), on);
}

/// Adds to the parameters' gradients, from d_x [batch, time, dim], the gradient of the sum. (The gradient of x is d_x
/// as it is.) Sums are taken in one order: the same bits for any executor. Errors as fill().
template <class A>
BEARING_EXPORT void add_backward(const std::type_identity_t<InputEncoding<A>>& encoding, const Positions& positions,
                                 View<const A, 3> d_x, const Executor& on = {});

/// The same for one sequence: d_x [time, dim].
template <class A>
void add_backward(const std::type_identity_t<InputEncoding<A>>& encoding, const Positions& positions,
                  View<const A, 2> d_x, const Executor& on = {}) {
  add_backward(encoding, positions, batch_of_one(d_x), on);
}

/// An encoding of query and key rows.
template <class A>
struct RowEncoding {
  const void* self = nullptr;
  void (*check)(const void*, const char* function, const Problem&) = nullptr;
  void (*turn)(const void*, const RowTile&, const A* x, A* y) = nullptr;
  void (*turn_grads)(const void*, const RowTile&, const A* x, const A* d_y, A* d_x, A* d_params) = nullptr;
  void (*collect)(const void*, Index batch, Index head, const A* d_params) = nullptr;
  Index (*out_dim)(const void*, Index dim) = nullptr;
  Index (*turn_scratch)(const void*, Index dim) = nullptr;
  void (*borrows)(const void*, MemoryList& to) = nullptr;
  Index param_size = 0;

  template <class E>
  requires(!std::same_as<E, RowEncoding> && RowTerm<E, A>) RowEncoding(const E& encoding) : self(&encoding) {
    static_assert(Differentiable<E, A> && !Constant<E>,
                  "an encoding of rows has a backward: the gradient of x at least");
    if constexpr (requires(const Problem& problem) { encoding.check("", problem); }) {
      check = [](const void* e, const char* function, const Problem& problem) {
        static_cast<const E*>(e)->check(function, problem);
      };
    }
    if constexpr (Borrower<E> && kept_whole) {
      borrows = [](const void* e, MemoryList& to) { static_cast<const E*>(e)->borrows(to); };
    }
    turn = [](const void* e, const RowTile& tile, const A* x, A* y) { static_cast<const E*>(e)->turn(tile, x, y); };
    if constexpr (kept_whole) {
      turn_grads = [](const void* e, const RowTile& tile, const A* x, const A* d_y, A* d_x, A* d_params) {
        static_cast<const E*>(e)->turn_grads(tile, x, d_y, d_x, d_params);
      };
    }
    if constexpr (HasParams<E> && kept_whole) {
      param_size = bearing::param_size(encoding);
      collect = collect_params<A, E>;
    }
    if constexpr (requires { encoding.out_dim(Index{}); }) {
      out_dim = [](const void* e, Index of_dim) { return static_cast<const E*>(e)->out_dim(of_dim); };
    }
    if constexpr (requires { encoding.turn_scratch(Index{}); }) {
      turn_scratch = [](const void* e, Index of_dim) { return static_cast<const E*>(e)->turn_scratch(of_dim); };
    }
  }
};

/// y [batch, heads, time, out_dim] ← T x, x [batch, heads, time, dim]: queries or keys, as `side` says; any strides.
/// y may be the view x itself if the encoding keeps the dimension; any other overlap is refused. Throws ShapeError for
/// heads, dimensions or axes that the encoding does not have, for tensors without memory and for a y whose elements
/// share memory; RangeError for positions that the encoding cannot serve. Nothing is written then.
template <class T>
BEARING_EXPORT void turn(const std::type_identity_t<RowEncoding<Compute<T>>>& encoding, Side side,
                         const Positions& positions, std::type_identity_t<View<const T, 4>> x, View<T, 4> y,
                         const Executor& on = {});

/// The gradients of turn(): writes d_x = Tᵀ d_y [batch, heads, time, dim] and adds to the parameters' gradients (+=). x
/// is what turn() was given. d_x may be the view d_y or x itself, if the shapes are equal. Sums are taken in one order:
/// the same bits for any executor. Errors as turn().
template <class A>
BEARING_EXPORT void turn_backward(const std::type_identity_t<RowEncoding<A>>& encoding, Side side,
                                  const Positions& positions, std::type_identity_t<View<const A, 4>> x,
                                  std::type_identity_t<View<const A, 4>> d_y, View<A, 4> d_x, const Executor& on = {});

}  // namespace bearing
