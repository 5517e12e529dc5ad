// A rotation's tokens: find or make each one's phases, then turn its heads. Included once per SIMD target, by one
// source for each element type.
#if defined(BEARING_ROPE_TOKENS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BEARING_ROPE_TOKENS_INL_H_
#undef BEARING_ROPE_TOKENS_INL_H_
#else
#define BEARING_ROPE_TOKENS_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "encodings/rotary/rope_apply-inl.h"
#include "encodings/rotary/rope_call.hpp"
#include "encodings/rotary/rope_phases_at-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bearing::HWY_NAMESPACE {

/// Where a task puts what it makes. Sizes as scratch_size() says.
template <class C>
struct Scratch {
  C* laid_out;  ///< the phases of a block
  C* natural;   ///< [max_axes][2·padded]
  C* blend;     ///< [2·padded]
  C* exact;     ///< room for [2·padded] doubles
  C* line;      ///< [head_dim]

  Scratch(C* from, Index padded, Index block_numbers)
      : laid_out(from),
        natural(laid_out + block_numbers),
        blend(natural + max_axes * 2 * padded),
        exact(blend + 2 * padded),
        line(exact + 4 * padded) {}
  double* doubles() const { return reinterpret_cast<double*>(exact); }
};

/// The natural phases of token t of sequence b where the table does not have them. Out of line, as making them is what
/// costs time.
template <class T, class C = Compute<T>>
HWY_NOINLINE const C* other_row(const RotateCall<T>& call, Index b, Index t, const Scratch<C>& scratch, C* out) {
  const PhaseFrequencies& f = *call.frequencies;
  const Index axes = HWY_MIN(f.axes, call.at.axes());
  const auto one_axis = [&](Index axis, C* to) HWY_ATTR -> const C* {
    const double p = call.at.real(HWY_MIN(axis, axes - 1), b, t);
    if (call.rebase == nullptr) return phases_at(*call.phases, p, scratch.doubles(), to);
    const auto& move = *call.rebase;
    double* phases = scratch.doubles();
    difference_phases(*move.to, p, *move.from,
                      move.old_positions.real(HWY_MIN(axis, move.old_positions.axes() - 1), b, t), phases,
                      phases + f.padded);
    finish_phases(phases, f.padded, move.factor, to);
    return to;
  };
  if (axes == 1 && (call.rebase == nullptr || call.rebase->old_positions.axes() == 1)) return one_axis(0, out);
  mix_axes(f, one_axis, scratch.natural, out);
  return out;
}

/// The natural phases of token t of sequence b in the table; null where it does not have them.
template <class T, class C = Compute<T>>
HWY_INLINE const C* table_row(const RotateCall<T>& call, Index b, Index t) {
  if (call.rebase != nullptr || call.at.axes() != 1 || !call.at.integral()) return nullptr;
  const Index p = call.at.integer(0, b, t);
  const bool known = p >= 0 && p < call.phases->length;
  return known ? call.phases->full.data() + p * 2 * call.frequencies->padded : nullptr;
}

/// The natural phases of token t of sequence b: in the table, or made in `out`.
template <class T, class C = Compute<T>>
HWY_INLINE const C* natural_phases(const RotateCall<T>& call, Index b, Index t, const Scratch<C>& scratch, C* out) {
  const C* row = table_row(call, b, t);  // by far the commonest
  return row != nullptr ? row : other_row(call, b, t, scratch, out);
}

/// Asks for the phases of a token whose turn comes soon.
template <class T, class C = Compute<T>>
HWY_INLINE void fetch_row(const RotateCall<T>& call, Index b, Index t) {
  const C* row = table_row(call, b, t);
  if (row == nullptr) return;
  constexpr Index line = 64 / static_cast<Index>(sizeof(C));
  for (Index i = 0; i < 2 * call.frequencies->padded; i += line) hwy::Prefetch(row + i);
}

/// Elements of a head that do not turn, when the output is another tensor.
template <class T>
HWY_INLINE void copy_rest(const RotateCall<T>& call, const T* in, T* out) {
  const Index end = call.begin + 2 * call.pairs;
  if (call.begin > 0) std::memcpy(out, in, static_cast<std::size_t>(call.begin) * sizeof(T));
  if (end < call.in.shape[3]) {
    std::memcpy(out + end, in + end, static_cast<std::size_t>(call.in.shape[3] - end) * sizeof(T));
  }
}

/// Turns a run of lines, whatever the strides; where a head is not contiguous, through a copy that is.
template <PhaseOrder order, bool stream, class T, class C = Compute<T>>
HWY_INLINE void turn(const RotateCall<T>& call, Lines<T> lines, const Scratch<C>& scratch) {
  const Index head_dim = call.in.shape[3], in_step = call.in.stride[3], out_step = call.out.stride[3];
  const Index rest = head_dim - 2 * lines.pairs;
  if (in_step == 1 && out_step == 1) {
    if (rest > 0 && !call.in_place()) {
      for (Index t = 0; t < lines.tokens; ++t) {
        for (Index h = 0; h < lines.heads; ++h) copy_rest(call, lines.line_in(t, h), lines.line_out(t, h));
      }
    }
    lines.in += call.begin;
    lines.out += call.begin;
    if (lines.next != nullptr) lines.next += call.begin;
    apply<order, stream>(lines);
    return;
  }
  T* copy = reinterpret_cast<T*>(scratch.line);
  for (Index t = 0; t < lines.tokens; ++t) {
    for (Index h = 0; h < lines.heads; ++h) {
      const T* from = lines.line_in(t, h);
      T* to = lines.line_out(t, h);
      for (Index i = 0; i < head_dim; ++i) copy[i] = from[i * in_step];
      Lines<T> one = lines;
      one.cos += t;
      one.sin += t;
      one.in = one.out = copy + call.begin;
      one.tokens = one.heads = 1;
      one.from_memory = false;
      one.in_parts = true;
      one.next = nullptr;
      apply<order, false>(one);
      for (Index i = 0; i < head_dim; ++i) to[i * out_step] = copy[i];
    }
  }
}

/// The phases of a token in the order of the loops: in the table, or in `room` [phase_numbers].
template <PhaseOrder order, class T, class C = Compute<T>>
HWY_INLINE void ready_row(const RotateCall<T>& call, Index b, Index t, const Scratch<C>& scratch, C* room,
                          const C*& cos, const C*& sin) {
  const Index padded = call.frequencies->padded;
  if constexpr (order == PhaseOrder::natural || order == PhaseOrder::spread) {
    cos = natural_phases(call, b, t, scratch, room) + call.first_pair;
    sin = cos + padded;
  } else {
    const C* phases = natural_phases(call, b, t, scratch, scratch.blend) + call.first_pair;
    const Index to_sin = (order == PhaseOrder::doubled ? 2 : 1) * padded;
    lay_out<order>(phases, phases + padded, call.transposed, padded, call.pairs, room, room + to_sin);
    cos = room;
    sin = room + to_sin;
  }
}

/// Makes the heads of a token four rows of them, each of which gives one head in turn (see simd::MemoryWalk). In every
/// type but bfloat16 it pays from 16 MiB on; bfloat16 was seen to gain at 128 MiB. Not measured with narrower vectors.
template <class T, class C = Compute<T>>
HWY_INLINE void quarters_in_turn(Lines<T>& lines, const C** cos, const C** sin) {
  const Index quarter = lines.heads / 4;
  if (lines.heads % 4 != 0 || quarter > most_block_tokens) return;
  std::fill_n(cos, quarter, cos[0]);
  std::fill_n(sin, quarter, sin[0]);
  lines.tokens = quarter;
  lines.heads = 4;
  lines.in_token = lines.in_head;
  lines.out_token = lines.out_head;
  lines.in_head *= quarter;
  lines.out_head *= quarter;
}

/// Whether heads turn part by part: in a cache, and numbers of 16 bits from memory on AVX2, where a line by phases in
/// memory takes longer than the memory does.
template <class T>
HWY_INLINE bool turns_in_parts([[maybe_unused]] const RotateCall<T>& call) {
#if HWY_TARGET == HWY_AVX2
  constexpr Index part = BEARING_PHASE_VECTORS * hn::MaxLanes(hn::ScalableTag<Compute<T>>());
  const bool doubled = call.pairing == Pairing::interleaved && !std::is_same_v<T, Bfloat16>;
  const bool whole = (doubled ? 2 : 1) * call.pairs % part == 0;
  const bool beside = !heads_inside(call) || call.in.stride[1] == 2 * call.pairs;
  if (sizeof(T) == 2 && call.ahead != 0 && whole && beside) return true;
#endif
  return !call.from_memory;
}

template <PhaseOrder order, bool stream, class T>
HWY_INLINE void rotate_tokens(const RotateCall<T>& call, Index first, Index last, Index head, Index head_end,
                              Compute<T>* memory) {
  using C = Compute<T>;
  // A run of tokens lies one stride apart: those of a sequence, or all of them where each sequence has one.
  const bool one_each = call.in.shape[2] == 1;
  const std::size_t axis = one_each ? 0 : 2;
  const Index run = call.in.shape[axis];
  struct Token {
    Index b, t;  // token t of sequence b
  };
  const auto of = [=](Index r, Index i) { return one_each ? Token{i, 0} : Token{r, i}; };

  const Index pairs = call.pairs;
  const bool by_token = heads_inside(call);
  const bool in_parts = turns_in_parts(call);
  const Index phase_size = phase_numbers(call);
  Index block = tokens_at_once(call), group = by_token ? head_end - head : call.heads_at_once;
  if (by_token && call.from_memory) {
    // Heads that the first cache holds beside those that are fetched.
    if (in_parts) group = HWY_MIN(group, HWY_MAX(1, (Index{8} << 10) / (2 * pairs * static_cast<Index>(sizeof(T)))));
    if (HWY_TARGET != HWY_AVX2 || group < head_end - head) block = 1;
  }
  const Scratch<C> scratch(memory, call.frequencies->padded, block * phase_size);
  const C* cos[most_block_tokens];
  const C* sin[most_block_tokens];
  Index r = first < run ? 0 : first / run, i = first - r * run;  // a division is 5 ns of a call for one token
  for (Index left = last - first; left > 0;) {
    const Index count = HWY_MIN(HWY_MIN(block, left), run - i);
    for (Index j = 0; j < count; ++j) {
      const auto [b, t] = of(r, i + j);
      ready_row<order>(call, b, t, scratch, scratch.laid_out + j * phase_size, cos[j], sin[j]);
    }
    // Where the next block starts; after the last one, anywhere in the tensor will do.
    const bool ends = i + count == run;
    const Index later_r = ends && !one_each && r + 1 < call.in.shape[0] ? r + 1 : r, later_i = ends ? 0 : i + count;
    const Index later = HWY_MIN(HWY_MIN(by_token ? block : 1, left - count), run - later_i);
    for (Index j = 0; j < later; ++j) {
      const auto [b, t] = of(later_r, later_i + j);
      fetch_row(call, b, t);
    }
    const auto [b, t] = of(r, i);
    const auto [later_b, later_t] = of(later_r, later_i);
    for (Index h = head; h < head_end; h += group) {
      const T* next = h + group < head_end ? &call.in(b, h + group, t, 0) : &call.in(later_b, head, later_t, 0);
      Lines<T> lines{cos,
                     sin,
                     call.transposed,
                     call.pairing,
                     &call.in(b, h, t, 0),
                     &call.out(b, h, t, 0),
                     call.in.stride[axis],
                     call.out.stride[axis],
                     call.in.stride[1],
                     call.out.stride[1],
                     count,
                     HWY_MIN(group, head_end - h),
                     pairs,
                     call.avx512_bf16,
                     call.from_memory,
                     in_parts,
                     by_token,
                     call.ahead == 0 ? nullptr : next,
                     call.ahead};
      if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3 && by_token && call.in_turns) quarters_in_turn(lines, cos, sin);
      turn<order, stream>(call, lines, scratch);
    }
    left -= count;
    r = later_r;
    i = later_i;
  }
  if constexpr (stream) hwy::FlushStream();
}

template <class T>
HWY_INLINE void rotate_any(const RotateCall<T>& call, Index first, Index last, Index head, Index head_end,
                           Compute<T>* scratch) {
  const auto with = [&](auto order, auto stream) HWY_ATTR {
    rotate_tokens<decltype(order)::value, decltype(stream)::value>(call, first, last, head, head_end, scratch);
  };
  const auto either = [&](auto order) HWY_ATTR {
    if (call.stream) {
      with(order, std::true_type{});
    } else {
      with(order, std::false_type{});
    }
  };
  if constexpr (has_bf16_lines<T>()) {
    if (call.avx512_bf16) return either(std::integral_constant<PhaseOrder, PhaseOrder::natural>{});
  }
#if BEARING_PHASE_VECTORS
  if constexpr (BEARING_PHASE_VECTORS == 4 || !std::is_same_v<T, Bfloat16>) {
    if (spreads<T>(call.pairing, call.pairs, turns_in_parts(call))) {
      return either(std::integral_constant<PhaseOrder, PhaseOrder::spread>{});
    }
  }
#endif
  if (call.pairing == Pairing::interleaved) {
    either(std::integral_constant<PhaseOrder, phase_order<T>(Pairing::interleaved)>{});
  } else {
    either(std::integral_constant<PhaseOrder, phase_order<T>(Pairing::half)>{});
  }
}

}  // namespace bearing::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
