#pragma once

#include <algorithm>
#include <bearing/encodings/rope.hpp>
#include <bearing/term.hpp>
#include <type_traits>

#include "encodings/rotary/rope_phases.hpp"
#include "tensor_checks.hpp"

// What a rotation's kernel is given: checked arguments, no spec.

namespace bearing {

template <class T>
struct RotateCall {
  /// The table's; null for a rebase, whose phases are those of the difference of two angles.
  const RopePhases<Compute<T>>* phases = nullptr;
  struct Rebase {
    const PhaseFrequencies* from;
    const PhaseFrequencies* to;
    Positions old_positions;
    double factor;  ///< a'/a
  };
  const Rebase* rebase = nullptr;

  Positions at;
  View<const T, 4> in;  ///< [batch, heads, time, head_dim]
  View<T, 4> out;       ///< may be the same memory as `in`
  const PhaseFrequencies* frequencies = nullptr;
  Index begin = 0;  ///< the first turned dimension
  /// The pairs that turn, side by side from `begin` on; run() sets them.
  Index first_pair = 0, pairs = 0;
  Pairing pairing;
  bool transposed = false;   ///< R(−pθ): the gradient
  bool from_memory = false;  ///< too large to be in a cache …
  Index ahead = 0;           ///< … and fetching so many bytes ahead pays; 0: it does not
  bool in_turns = false;     ///< … and so does turning heads of the four quarters of a token in turn
  Index heads_at_once = 1;   ///< that are walked through together where they lie further apart than tokens
  bool avx512_bf16 = false;  ///< bfloat16 only: the machine converts by itself
  bool stream = false;       ///< out of place and larger than the caches: write past them

  bool in_place() const { return in.data == out.data; }
};

/// Whether heads are nearer in memory than tokens: they are then the inner loop, with the phases of one token at a
/// time.
template <class T>
bool heads_inside(const RotateCall<T>& call) {
  const auto distance = [](Index stride) { return stride < 0 ? -stride : stride; };
  return distance(call.in.stride[1]) <= distance(call.in.stride[2]) || call.in.shape[1] == 1 || call.in.shape[2] == 1;
}

/// Numbers of a token's phases in the order of the loops: cos and sin, each written twice for interleaved pairs.
template <class T>
Index phase_numbers(const RotateCall<T>& call) {
  const bool doubled = call.pairing == Pairing::interleaved && !std::is_same_v<T, Bfloat16>;
  return (doubled ? 4 : 2) * call.frequencies->padded;
}

/// Tokens whose phases are ready at once, at most. Where heads are nearer, a few, so that what a block costs besides is
/// shared; their phases, 8 KiB, leave room for the rest on a stack. Else a stretch that groups of heads walk through,
/// long enough for the memory to stream; their phases, up to 512 KiB for heads of 128, stay in a cache of the core.
inline constexpr Index most_block_tokens = 512, most_near_tokens = 8;
template <class T>
Index tokens_at_once(const RotateCall<T>& call) {
  if (!heads_inside(call)) return std::min(call.in.shape[2], most_block_tokens);
  constexpr Index room = (Index{8} << 10) / static_cast<Index>(sizeof(Compute<T>));
  Index tokens = most_near_tokens;
  while (tokens > 1 && tokens * phase_numbers(call) > room) tokens /= 2;
  return tokens;
}

/// Numbers of scratch that one task needs: the phases of a block; natural phases for each axis and their blend; phases
/// in double; one head.
template <class T>
Index scratch_size(const RotateCall<T>& call) {
  const Index padded = call.frequencies->padded;
  return tokens_at_once(call) * phase_numbers(call) + (max_axes + 1) * 2 * padded + 4 * padded + call.in.shape[3] + 64;
}

/// Throws ShapeError unless x is [batch, heads, time, head_dim] with the frequencies' head_dim.
template <class T>
void check_heads(const char* function, const char* argument, const View<T, 4>& x, Index head_dim);

/// Throws ShapeError for a table that was moved from, and what Positions::check() does for the table's axes; RangeError
/// for positions that the table does not have.
template <class C>
void check_table(const char* function, const char* argument, const RopeTable<C>& table, const Positions& positions,
                 Index batch, Index time);

/// Runs a checked call in tasks on the executor: all pairs at once, or block by block.
template <class T>
void run(RotateCall<T>& call, const Executor& on);

/// Rotates tokens first … last − 1 (token i is number i % time of sequence i / time), heads head … head_end − 1.
/// `scratch` [scratch_size] is 64-byte aligned and belongs to this task.
template <class T>
using RotateKernel = void (*)(const RotateCall<T>& call, Index first, Index last, Index head, Index head_end,
                              Compute<T>* scratch);

template <class T>
RotateKernel<T> rotate_kernel();

}  // namespace bearing
