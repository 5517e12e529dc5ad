// Heads of tokens as lines of memory: how they lie, are fetched ahead, read and written. Included once per SIMD target.
#if defined(BEARING_ROPE_LINES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BEARING_ROPE_LINES_INL_H_
#undef BEARING_ROPE_LINES_INL_H_
#else
#define BEARING_ROPE_LINES_INL_H_
#endif

#include <hwy/cache_control.h>

#include "encodings/rotary/rope_call.hpp"
#include "simd/lanes-inl.h"
#include "simd/prefetch.hpp"

HWY_BEFORE_NAMESPACE();
namespace bearing::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace lanes = simd::HWY_NAMESPACE;

enum class PhaseOrder {
  natural,  ///< c0 c1 c2 …, s0 s1 s2 …
  doubled,  ///< c0 c0 c1 c1 …, −s0 s0 −s1 s1 …: interleaved pairs, whole vectors at a time
  spread,   ///< natural, and doubled or split where they are loaded into registers, see spreads()
  split,    ///< per vector pair, the even ones first: two bfloat16 in a 32-bit lane, half pairing
};

template <class T>
constexpr PhaseOrder phase_order(Pairing pairing) {
  constexpr bool bf16 = std::is_same_v<T, Bfloat16>;
  constexpr bool one_lane = HWY_TARGET == HWY_SCALAR;  // no neighbour to swap with
  if (pairing == Pairing::interleaved) return bf16 || one_lane ? PhaseOrder::natural : PhaseOrder::doubled;
  return bf16 ? PhaseOrder::split : PhaseOrder::natural;
}

/// Heads of several tokens; a head of a token is a line, with `pairs` pairs to turn. Tokens are the outer loop:
/// phases are loaded once for all the heads of a token.
template <class T>
struct Lines {
  const Compute<T>* const* cos;  ///< [tokens]
  const Compute<T>* const* sin;
  bool negative_sin;  ///< natural order only; the other orders have the sign in the phases
  Pairing pairing;
  const T* in;
  T* out;
  Index in_token, out_token, in_head, out_head;  ///< strides
  Index tokens, heads, pairs;
  bool avx512_bf16;   ///< bfloat16 by AVX-512's own conversion
  bool from_memory;   ///< not in a cache: each line should be read from its first to its last byte
  bool in_parts;      ///< the heads of a token turn part by part, with a part's phases in registers
  bool heads_inside;  ///< heads are nearer in memory than tokens
  const T* next;      ///< where the walk goes on after the last token, to fetch ahead; null: do not
  Index ahead;        ///< how far ahead, in bytes

  const T* line_in(Index token, Index head) const { return in + token * in_token + head * in_head; }
  T* line_out(Index token, Index head) const { return out + token * out_token + head * out_head; }
};

/// body(d, i) for every vector of a range of n numbers, with whole vectors first, then of 4, then of `least` (1 or 2).
template <class C, std::size_t least, class Body>
HWY_INLINE void over_range(Index n, const Body& body) {
  const hn::CappedTag<C, 16> full;
  const Index width = static_cast<Index>(hn::Lanes(full));
  Index i = 0;
  for (; i + width <= n; i += width) body(full, i);
  if (i == n) return;
  const hn::CappedTag<C, 4> four;
  const Index narrow = static_cast<Index>(hn::Lanes(four));
  for (; i + narrow <= n; i += narrow) body(four, i);
  const hn::CappedTag<C, least> last;
  for (; i < n; i += static_cast<Index>(hn::Lanes(last))) body(last, i);
}

template <class D, class T>
HWY_INLINE hn::VFromD<D> load(D d, const T* from) {
  if constexpr (std::is_same_v<T, Float16>) {
    return lanes::load_f16(d, from);
  } else {
    return hn::LoadU(d, from);
  }
}

template <bool stream, class D, class T>
HWY_INLINE void store(D d, hn::VFromD<D> value, T* to) {
  if constexpr (std::is_same_v<T, Float16>) {
    lanes::store_f16<stream>(d, value, to);
  } else if constexpr (stream && hn::MaxLanes(D()) * sizeof(T) >= 16) {
    hn::Stream(value, d, to);
  } else {
    hn::StoreU(value, d, to);
  }
}

/// How many lines ahead others are fetched; 0 where none are. With vectors of 32 bytes 1 KiB, if numbers are not
/// converted: Zen 3, 64 MiB of float32 in halves, 1.00 of LIMIT by 1 KiB, 0.94 by 4, 0.94 without; Intel with AMX told
/// to use AVX2, 256 MiB of float32 or float64, 0.85 to 0.9 times as long by 1 KiB as by 4, with small pages 0.7 to 0.8.
template <class T>
HWY_INLINE Index lines_ahead(const Lines<T>& l) {
  if (l.next == nullptr) return 0;
  const Index bytes = HWY_TARGET == HWY_AVX2 && sizeof(T) >= 4 ? 1024 : l.ahead;
  return HWY_MAX(1, bytes / (2 * l.pairs * static_cast<Index>(sizeof(T))));
}

/// How many tokens ahead others are fetched where the heads of a token turn together; at least one.
template <class T>
HWY_INLINE Index tokens_ahead(const Lines<T>& l) {
  return HWY_MAX(1, lines_ahead(l) / (l.heads_inside ? l.heads : 1));
}

/// The first head so many tokens later, from where the walk goes on if there are no more; null: nothing is fetched.
template <class T>
HWY_INLINE const T* later_token(const Lines<T>& l, Index token, Index tokens) {
  if (l.next == nullptr) return nullptr;
  const Index later = token + tokens;
  return later < l.tokens ? l.line_in(later, 0) : l.next + (later - l.tokens) * l.in_token;
}

/// Lines that turn together: from one on, so many heads of so many tokens. Meanwhile others should be fetched, which
/// lie as far from `soon` as these do from their first one; null: none.
template <class T>
struct Run {
  Index tokens, heads;
  const T* soon;
};

/// As long a run as there is from a line on. What it fetches comes `ahead` lines later: another head of the token, or
/// of the next one, or the same head of a later token, whichever lies there.
template <class T>
HWY_INLINE Run<T> run_from(const Lines<T>& l, Index ahead, Index token, Index head) {
  Run<T> run{l.tokens - token, l.heads - head, nullptr};
  if (ahead == 0) return run;
  Index later = l.heads_inside ? token : token + ahead, other = l.heads_inside ? head + ahead : head;
  for (; other >= l.heads; other -= l.heads) ++later;
  const bool here = later < l.tokens;
  run.soon = here ? l.line_in(later, other) : l.next + (later - l.tokens) * l.in_token + other * l.in_head;
  run.heads = HWY_MIN(run.heads, l.heads - other);
  if (l.heads_inside) run.tokens = 1;
  if (here) run.tokens = HWY_MIN(run.tokens, l.tokens - later);
  return run;
}

/// Asks for a line of 2·pairs numbers; null: none.
template <class T>
HWY_INLINE void fetch_line(const T* line, Index pairs) {
  if (line == nullptr) return;
  const Index bytes = 2 * pairs * static_cast<Index>(sizeof(T));
  for (Index byte = 0; byte < bytes; byte += 64) hwy::Prefetch(reinterpret_cast<const char*>(line) + byte);
}

/// body(in, out, soon) for each of a token's heads: where it lies, and what should be fetched meanwhile.
template <class T, class Body>
HWY_INLINE void each_head(const Lines<T>& l, Index ahead, Index token, const Body& body) {
  for (Index head = 0; head < l.heads;) {
    const Run<T> run = run_from(l, ahead, token, head);
    const T *in = l.line_in(token, head), *soon = run.soon;
    T* out = l.line_out(token, head);
    const Index step = soon == nullptr ? 0 : l.in_head;
    for (const Index end = head + run.heads; head < end; ++head, in += l.in_head, out += l.out_head, soon += step) {
      body(in, out, soon);
    }
  }
}

}  // namespace bearing::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
