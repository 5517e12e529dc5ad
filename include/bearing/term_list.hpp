#pragma once

#include <array>
#include <bearing/error.hpp>
#include <bearing/kept.hpp>
#include <bearing/param_block.hpp>
#include <bearing/term.hpp>
#include <concepts>
#include <string>
#include <type_traits>

// The encodings of one call: with(rope, t5, shaw).

namespace bearing {

/// An encoding behind a pointer and a table of functions. with() makes it; members that the encoding lacks are null.
template <class A>
struct Term {
  const void* self = nullptr;
  void (*check)(const void*, const char* function, const Problem&) = nullptr;
  void (*bias)(const void*, Index head, Index n, const double* distance, A* b) = nullptr;
  void (*bias_grads)(const void*, Index head, Index n, const double* distance, const A* d_b, A* d_params) = nullptr;
  void (*add_scores)(const void*, const Tile<A>&, A* s) = nullptr;
  void (*put_scores)(const void*, const Tile<A>&, A* s) = nullptr;
  View<const A, 2> (*matrix)(const void*, Index batch, Index head) = nullptr;
  void (*add_score_grads)(const void*, const Tile<A>&, const A* d_s, const TileGrads<A>&) = nullptr;
  void (*add_values)(const void*, const Tile<A>&, const A* p, Index value_dim, A* o, Index o_stride) = nullptr;
  void (*add_value_grads)(const void*, const Tile<A>&, const A* p, Index value_dim, const A* d_o, Index d_o_stride,
                          A* d_p, const TileGrads<A>&) = nullptr;
  void (*turn_values)(const void*, const RowTile&, A* x) = nullptr;
  void (*turn_value_grads)(const void*, const RowTile&, A* x) = nullptr;
  void (*collect)(const void*, Index batch, Index head, const A* d_params) = nullptr;
  Index (*scratch_size)(const void*, Index rows, Index cols) = nullptr;
  void (*turn)(const void*, const RowTile&, const A* x, A* y) = nullptr;
  void (*turn_grads)(const void*, const RowTile&, const A* x, const A* d_y, A* d_x, A* d_params) = nullptr;
  Index (*out_dim)(const void*, Index dim) = nullptr;
  Index (*turn_scratch)(const void*, Index dim) = nullptr;
  Index param_size = 0;
  bool whole_rows = false, counts_tokens = false, by_channel = false;
  void (*log_decay)(const void*, const StepTile&, double* log_decay) = nullptr;
  void (*log_decay_grads)(const void*, const StepTile&, const double* d_log_decay, A* d_params) = nullptr;
  void (*borrows)(const void*, MemoryList& to) = nullptr;
};

template <class A, class E>
requires(ScoreTerm<E, A> || ValueTerm<E, A> || ValueRowTerm<E, A> || RowTerm<E, A>) Term<A> erase(const E& encoding) {
  static_assert(Differentiable<E, A>,
                "an encoding must have the backward of every site that it acts on, or say constant = true");
  Term<A> term{&encoding};
  if constexpr (requires(const Problem& problem) { encoding.check("", problem); }) {
    term.check = [](const void* self, const char* function, const Problem& problem) {
      static_cast<const E*>(self)->check(function, problem);
    };
  }
  if constexpr (DistanceBias<E, A>) {
    term.bias = [](const void* self, Index head, Index n, const double* distance, A* b) {
      static_cast<const E*>(self)->bias(head, n, distance, b);
    };
  } else if constexpr (TileTerm<E, A>) {
    term.add_scores = [](const void* self, const Tile<A>& tile, A* s) {
      static_cast<const E*>(self)->add_scores(tile, s);
    };
    if constexpr (requires(const Tile<A>& tile, A* s) { encoding.put_scores(tile, s); }) {
      term.put_scores = [](const void* self, const Tile<A>& tile, A* s) {
        static_cast<const E*>(self)->put_scores(tile, s);
      };
    }
  }
  if constexpr (requires { encoding.matrix(Index{}, Index{}); }) {
    term.matrix = [](const void* self, Index batch, Index head) {
      return static_cast<const E*>(self)->matrix(batch, head);
    };
  }
  if constexpr (ValueTerm<E, A>) {
    term.add_values = [](const void* self, const Tile<A>& tile, const A* p, Index value_dim, A* o, Index o_stride) {
      static_cast<const E*>(self)->add_values(tile, p, value_dim, o, o_stride);
    };
    if constexpr (kept_whole) {
      term.add_value_grads = [](const void* self, const Tile<A>& tile, const A* p, Index value_dim, const A* d_o,
                                Index d_o_stride, A* d_p, const TileGrads<A>& grads) {
        static_cast<const E*>(self)->add_value_grads(tile, p, value_dim, d_o, d_o_stride, d_p, grads);
      };
    }
  }
  if constexpr (ValueRowTerm<E, A>) {
    term.turn_values = [](const void* self, const RowTile& tile, A* x) {
      static_cast<const E*>(self)->turn_values(tile, x);
    };
    if constexpr (kept_whole) {
      term.turn_value_grads = [](const void* self, const RowTile& tile, A* x) {
        static_cast<const E*>(self)->turn_value_grads(tile, x);
      };
    }
  }
  if constexpr (!Constant<E> && kept_whole) {
    if constexpr (DistanceBias<E, A>) {
      term.bias_grads = [](const void* self, Index head, Index n, const double* distance, const A* d_b, A* d_params) {
        static_cast<const E*>(self)->bias_grads(head, n, distance, d_b, d_params);
      };
    } else if constexpr (TileTerm<E, A>) {
      term.add_score_grads = [](const void* self, const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) {
        static_cast<const E*>(self)->add_score_grads(tile, d_s, grads);
      };
    }
  }
  if constexpr (HasParams<E> && kept_whole) {
    term.param_size = param_size(encoding);
    term.collect = collect_params<A, E>;
  }
  if constexpr (requires { encoding.scratch_size(Index{}, Index{}); }) {
    term.scratch_size = [](const void* self, Index rows, Index cols) {
      return static_cast<const E*>(self)->scratch_size(rows, cols);
    };
  }
  if constexpr (requires { E::whole_rows; }) term.whole_rows = E::whole_rows;
  if constexpr (StateTerm<E>) {
    static_assert(ScoreTerm<E, A>, "a decay of the state acts on the score too: attention would not see it");
    if constexpr (requires { E::counts_tokens; }) term.counts_tokens = E::counts_tokens;
    if constexpr (requires { E::by_channel; }) term.by_channel = E::by_channel;
    term.log_decay = [](const void* self, const StepTile& tile, double* log_decay) {
      static_cast<const E*>(self)->log_decay(tile, log_decay);
    };
    if constexpr (!Constant<E> && kept_whole) {
      term.log_decay_grads = [](const void* self, const StepTile& tile, const double* d_log_decay, A* d_params) {
        static_cast<const E*>(self)->log_decay_grads(tile, d_log_decay, d_params);
      };
    }
  }
  if constexpr (Borrower<E> && kept_whole) {
    term.borrows = [](const void* self, MemoryList& to) { static_cast<const E*>(self)->borrows(to); };
  }
  if constexpr (RowTerm<E, A>) {
    term.turn = [](const void* self, const RowTile& tile, const A* x, A* y) {
      static_cast<const E*>(self)->turn(tile, x, y);
    };
    if constexpr (kept_whole) {
      term.turn_grads = [](const void* self, const RowTile& tile, const A* x, const A* d_y, A* d_x, A* d_params) {
        static_cast<const E*>(self)->turn_grads(tile, x, d_y, d_x, d_params);
      };
    }
    if constexpr (requires { encoding.out_dim(Index{}); }) {
      term.out_dim = [](const void* self, Index of_dim) { return static_cast<const E*>(self)->out_dim(of_dim); };
    }
  }
  if constexpr (requires { encoding.turn_scratch(Index{}); }) {
    term.turn_scratch = [](const void* self, Index of_dim) {
      return static_cast<const E*>(self)->turn_scratch(of_dim);
    };
  }
  return term;
}

/// A list of encodings that act on query and key rows, scores and values, in order. It refers to the encodings, which
/// must outlive it. Every function that takes a list throws ShapeError for one whose size is not from 0 to `most`.
template <class A>
struct TermList {
  static constexpr Index most = 8;
  std::array<Term<A>, most> terms{};
  Index size = 0;

  /// Adds an encoding at the end: for a list that is decided while a program runs. Throws ShapeError if it is full. A
  /// temporary does not compile: name it, so that it outlives the call.
  template <class E>
  void add(const E& encoding) {
    add(erase<A>(encoding));
  }
  template <class E>
  requires(!std::is_lvalue_reference_v<E> && !std::same_as<E, Term<A>>) void add(E&&) = delete;
  void add(const Term<A>& term) {
    if (size < 0 || size >= most) {
      throw ShapeError("[TermList::add] terms: must be at most " + std::to_string(most) + ", got one more");
    }
    terms[static_cast<std::size_t>(size++)] = term;
  }

  const Term<A>* begin() const { return terms.data(); }
  const Term<A>* end() const { return terms.data() + size; }
};

/// with(t5, shaw): the encodings of one call. A temporary does not compile: name it, so that it outlives the call.
template <class E, class... More>
auto with(const E& first, const More&... more) {
  using A = typename E::Arithmetic;
  static_assert((std::same_as<A, typename More::Arithmetic> && ...), "encodings of one call share their arithmetic");
  static_assert(sizeof...(More) < TermList<A>::most);
  return TermList<A>{{erase<A>(first), erase<A>(more)...}, 1 + static_cast<Index>(sizeof...(More))};
}
/// with(): none, as {} says too.
struct NoTerms {
  template <class A>
  operator TermList<A>() const {
    return {};
  }
};
inline NoTerms with() { return {}; }
template <class... E>
requires((!std::is_lvalue_reference_v<E>) || ...) void with(E&&...) = delete;

}  // namespace bearing
