#pragma once

#include <algorithm>
#include <bearing/error.hpp>
#include <bearing/executor.hpp>
#include <bearing/term_list.hpp>
#include <new>
#include <vector>

#include "text.hpp"
#include "workers.hpp"

// What every call over whole tensors of scores shares: checks, chunks of tasks, blocks of parameter gradients.

namespace bearing {

/// Throws ShapeError unless there are positions for every token, on 1 to 4 axes, RangeError for one too large.
inline void check_positions(const char* function, const char* argument, const Positions& at, Index batch, Index time) {
  if (at.axes() < 1 || at.axes() > max_axes) {
    throw ShapeError(
        text::concat("[", function, "] ", argument, ": must have 1 to ", max_axes, " axes, got ", at.axes()));
  }
  at.check(function, argument, at.axes(), batch, time);
}

template <class A>
void check_terms(const char* function, const TermList<A>& terms, const Problem& problem) {
  check_positions(function, "q_positions", *problem.q_positions, problem.batch, problem.q_len);
  check_positions(function, "k_positions", *problem.k_positions, problem.batch, problem.k_len);
  for (const Term<A>& term : terms) {
    if (term.check != nullptr) term.check(term.self, function, problem);
  }
}

/// body(chunk, unit) for all units, in chunks that each run in order on one thread; `chunks` of them.
template <class Body>
void in_chunks(const Executor& on, Index chunks, Index units, Body&& body) {
  const auto first = [&](Index chunk) { return chunk * (units / chunks) + std::min(chunk, units % chunks); };
  parallel(on, chunks, [&](Index chunk) {
    for (Index unit = first(chunk); unit < first(chunk + 1); ++unit) body(chunk, unit);
  });
}
inline Index chunk_count(const Executor& on, Index units) {
  return std::min(units, on.run == nullptr ? Index{1} : 4 * workers_of(on));
}

/// Throws std::bad_alloc where blocks · size numbers could not even be counted.
inline std::size_t block_numbers(Index blocks, Index size) {
  if (size > 0 && blocks > (Index{1} << 57) / size) throw std::bad_alloc();
  return static_cast<std::size_t>(blocks * size);
}

/// One block of parameter gradients for each batch, head and term; added up in that order when all are done.
template <class A>
class ParamBlocks {
 public:
  ParamBlocks(const TermList<A>& terms, Index batch, Index heads) : terms_(terms), batch_(batch), heads_(heads) {
    for (const Term<A>& term : terms) total_ += term.param_size;
    memory_.resize(block_numbers(batch * heads, total_));
  }

  /// Null where the term wants none.
  A* block(Index b, Index h, Index term) {
    if (terms_.terms[static_cast<std::size_t>(term)].param_size == 0) return nullptr;
    Index offset = (b * heads_ + h) * total_;
    for (Index t = 0; t < term; ++t) offset += terms_.terms[static_cast<std::size_t>(t)].param_size;
    return memory_.data() + offset;
  }

  void collect() {
    for (Index t = 0; t < terms_.size; ++t) {
      const Term<A>& term = terms_.terms[static_cast<std::size_t>(t)];
      if (term.param_size == 0) continue;
      for (Index b = 0; b < batch_; ++b) {
        for (Index h = 0; h < heads_; ++h) term.collect(term.self, b, h, block(b, h, t));
      }
    }
  }

 private:
  const TermList<A>& terms_;
  Index batch_, heads_, total_ = 0;
  std::vector<A> memory_;
};

/// Rows of a [batch, heads, time, dim] tensor with their features side by side: in place, or copied to `room`.
template <class A>
const A* rows_of(View<const A, 4> x, Index b, Index h, Index first, Index rows, A* room, Index& stride) {
  if (x.data == nullptr) return nullptr;
  if (x.stride[3] == 1 || x.shape[3] == 1) {
    stride = x.stride[2];
    return &x(b, h, first, Index{0});
  }
  stride = x.shape[3];
  for (Index i = 0; i < rows; ++i) {
    for (Index d = 0; d < x.shape[3]; ++d) room[i * stride + d] = x(b, h, first + i, d);
  }
  return room;
}

}  // namespace bearing
