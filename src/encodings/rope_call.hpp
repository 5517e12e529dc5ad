#pragma once

#include <bearing/encodings/rope.hpp>

#include "encodings/rope_rows.hpp"

// What a rotation's kernel is given: checked arguments, no spec.

namespace bearing {

template <class T>
struct RotateCall {
  /// The rows; null for a rebase, whose rows are the difference of two angles.
  const RopeRows<Compute<T>>* rows = nullptr;
  struct Rebase {
    const RowFrequencies* from;
    const RowFrequencies* to;
    Positions old_at;
    double factor;  ///< a'/a
  };
  const Rebase* rebase = nullptr;

  Positions at;
  View<const T, 4> in;  ///< [batch, heads, time, head_dim]
  View<T, 4> out;       ///< may be the same memory as `in`
  const RowFrequencies* frequencies = nullptr;
  Index begin = 0;  ///< the first turned dimension
  Pairing pairing;
  bool transposed = false;   ///< R(−pθ): the gradient
  bool touch = false;        ///< the data comes from memory: read each head in order before it turns
  bool prefetch = false;     ///< … and fetch ahead
  bool avx512_bf16 = false;  ///< bfloat16 only: the machine converts by itself
  bool stream = false;       ///< out of place and larger than the caches: write past them

  bool in_place() const { return in.data == out.data; }
};

/// Whether heads are nearer in memory than tokens: they are then the inner loop, with one row at a time.
template <class T>
bool heads_inside(const RotateCall<T>& call) {
  const auto distance = [](Index stride) { return stride < 0 ? -stride : stride; };
  return distance(call.in.stride[1]) <= distance(call.in.stride[2]) || call.in.shape[1] == 1 || call.in.shape[2] == 1;
}

/// Tokens whose rows are ready at once. With heads inside, a few, so that the loops start less often. Else as many as
/// the memory needs to stream and the cache can hold the rows of: groups of heads are walked through in stretches.
inline constexpr Index most_block_tokens = 256;
template <class T>
Index block_tokens(const RotateCall<T>& call) {
  return heads_inside(call) ? 4 : most_block_tokens;
}

/// Heads that are walked through together where they lie further apart than tokens: each row is loaded once for them.
inline constexpr Index heads_at_once = 4;

/// Numbers of scratch that one task needs: per row up to 4·padded (cos and sin, each written twice for interleaved
/// pairs); a natural row for each of up to 4 axes and their blend; a row in double; one head.
template <class T>
Index scratch_size(const RotateCall<T>& call) {
  const Index padded = call.frequencies->padded;
  return block_tokens(call) * 4 * padded + 5 * 2 * padded + 4 * padded + call.in.shape[3] + 64;
}

/// Throws ShapeError unless x is [batch, heads, time, head_dim] with the frequencies' head_dim.
template <class T>
void check_heads(const char* function, const char* argument, View<const T, 4> x, Index head_dim);

/// Throws ShapeError if two elements of a tensor that is written share memory.
template <class T>
void check_distinct(const char* function, const char* argument, View<T, 4> x);

/// Runs a checked call in tasks on the executor.
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
