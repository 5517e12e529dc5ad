#pragma once

#include <bearing/encodings/rope.hpp>
#include <bearing/export.hpp>

namespace bearing {

/// Moves keys that are already rotated, in place: from position p under `from` to position p' under `to`.
///
/// A cached key is k_cached = a·R(pθ)k; the same key as the new encoding would have cached it is
/// (a'/a)·R(p'θ' − pθ)·k_cached. That one operation is llama.cpp's K-shift, the re-indexing of attention sinks, the
/// reuse of a chunk at another place, and the switch of dynamic NTK or LongRoPE to another length (resolve() the same
/// Rope with two values of seq_len). With several axes each pair moves by the shift of its axis.
///
/// k [batch, kv_heads, time, head_dim]; `old_positions` and `new_positions` as for rotate(). The angle is exact (both
/// products are reduced before they are subtracted), so the only error is the rotation's: per call at most 3 ulp of the
/// pair's norm in float32, 1 ulp (2^-8 of the norm) in bf16. Repeated shifts add up, and those by the same small step
/// err the same way: a thousand times −1 leaves nothing of slow pairs in 16 bits. Shift seldom and far, or rotate from
/// an unrotated copy; docs/encodings/rope_rebase.md has the measured growth.
///
/// Throws ShapeError if the two encodings differ in head_dim, rotary_dim, begin, pairing or axes, or as rotate().
template <class T>
BEARING_EXPORT void rebase(const RopeFrequencies& from, const Positions& old_positions, const RopeFrequencies& to,
                           const Positions& new_positions, View<T, 4> k, const Executor& on = {});

/// The K-shift: k [batch, kv_heads, time, head_dim] in place, with the same encoding, every token moved by `by`
/// positions. Throws ShapeError as rebase(), RangeError for |by| > 2^31 and for frequencies with Angles::as_float32:
/// the roundings of float32 angles depend on both positions, which rebase() takes.
template <class T>
BEARING_EXPORT void shift(const RopeFrequencies& frequencies, Index by, View<T, 4> k, const Executor& on = {});

}  // namespace bearing
