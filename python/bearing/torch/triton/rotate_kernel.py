"""The kernel that turns heads: one or two tensors in one launch, each [batch, heads, time, head_dim] with any strides.

A program turns some heads of a run of tokens. It makes the cosines and sines of its tokens once, for all of these heads.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .angles import angle, cos_sin, difference, only_within, phases
from .rounding import rounded, scaled, wide


@triton.jit
def _positions(at, axis, b, t, seen, first, stride_a, stride_b, stride_t, AXES: tl.constexpr, GIVEN: tl.constexpr):
    """Where tokens stand, in double: [tokens, 1], or [tokens, pairs] where pairs turn by different axes."""
    if GIVEN:
        row = at + b * stride_b + t[:, None].to(tl.int64) * stride_t
        if AXES > 1:
            row = row + axis[None, :].to(tl.int64) * stride_a
        return tl.load(row, mask=seen[:, None], other=0).to(tl.float64)
    else:
        return (first + t[:, None].to(tl.int64)).to(tl.float64)


@triton.jit
def _frequencies(turns, pair, PAIRS: tl.constexpr):
    """Three doubles of each pair, and the attention factor."""
    here = pair < PAIRS
    t0 = tl.load(turns + pair, mask=here, other=0.0)[None, :]
    t1 = tl.load(turns + PAIRS + pair, mask=here, other=0.0)[None, :]
    t2 = tl.load(turns + 2 * PAIRS + pair, mask=here, other=0.0)[None, :]
    return t0, t1, t2, tl.load(turns + 3 * PAIRS)


@triton.jit
def _looked_up(cos_table, sin_table, p, b, pair, seen, rows, stride_b, stride_row, PAIRS: tl.constexpr):
    """cos and sin of rows of a table, NaN where it has none."""
    row = p.to(tl.int64)
    there = (row >= 0) & (row < rows) & (row.to(tl.float64) == p)
    place = b * stride_b + row * stride_row + pair[None, :]
    loaded = seen[:, None] & (pair < PAIRS)[None, :] & there
    cos = tl.load(cos_table + place, mask=loaded, other=0.0)
    sin = tl.load(sin_table + place, mask=loaded, other=0.0)
    return tl.where(there, cos, float("nan")), tl.where(there, sin, float("nan"))


@triton.jit
def _line(base, slots, b, t, seen, stride_b, stride_t, slots_b, slots_t, BLOCK: tl.constexpr):
    """Where tokens' rows begin, and which are there: in a tensor, or where slots of a paged cache say."""
    if BLOCK > 0:
        slot = tl.load(slots + b * slots_b + t.to(tl.int64) * slots_t, mask=seen, other=-1)
        return base + (slot // BLOCK) * stride_b + (slot % BLOCK) * stride_t, seen & (slot >= 0)
    else:
        return base + b * stride_b + t.to(tl.int64) * stride_t, seen


@triton.jit
def _pair_places(places, pair, begin, PAIRS: tl.constexpr, PAIRING: tl.constexpr):
    """Where the elements of each pair stand."""
    if PAIRING == "half":
        return begin + pair, begin + PAIRS + pair
    else:
        here = pair < PAIRS
        first = tl.load(places + pair, mask=here, other=0)
        second = tl.load(places + PAIRS + pair, mask=here, other=0)
        return begin + first, begin + second


@triton.jit
def _turned(u, v, cos, sin, TRANSPOSED: tl.constexpr):
    """The pairs turned; with TRANSPOSED by the opposite angle."""
    if TRANSPOSED:
        return u * cos + v * sin, v * cos - u * sin
    else:
        return u * cos - v * sin, u * sin + v * cos


@triton.jit
def _turn_head(
    x, y, x_seen, y_seen, x_d, y_d, cos, sin, pair, places, begin, scale,
    PAIRS: tl.constexpr, PAIRING: tl.constexpr, TRANSPOSED: tl.constexpr,
):  # fmt: skip
    """Turns one head of a run of tokens, whose rows begin at x and y [tokens]."""
    dtype = cos.dtype
    of = x.dtype.element_ty
    into = y.dtype.element_ty
    if PAIRING == "interleaved":
        BP: tl.constexpr = pair.shape[0]
        T: tl.constexpr = x.shape[0]
        element = tl.arange(0, 2 * BP)
        mask = (element < 2 * PAIRS)[None, :]
        both = tl.load(x[:, None] + (begin + element)[None, :] * x_d, mask=mask & x_seen[:, None], other=0)
        u, v = wide(both, dtype).reshape(T, BP, 2).split()
        u, v = _turned(u, v, cos, sin, TRANSPOSED)
        both = rounded(scaled(tl.join(u, v).reshape(T, 2 * BP), scale, into, of), into)
        tl.store(y[:, None] + (begin + element)[None, :] * y_d, both, mask=mask & y_seen[:, None])
    else:
        first, second = _pair_places(places, pair, begin, PAIRS, PAIRING)
        here = (pair < PAIRS)[None, :]
        u = wide(tl.load(x[:, None] + first[None, :] * x_d, mask=here & x_seen[:, None], other=0), dtype)
        v = wide(tl.load(x[:, None] + second[None, :] * x_d, mask=here & x_seen[:, None], other=0), dtype)
        u, v = _turned(u, v, cos, sin, TRANSPOSED)
        u, v = scaled(u, scale, into, of), scaled(v, scale, into, of)
        tl.store(y[:, None] + first[None, :] * y_d, rounded(u, into), mask=here & y_seen[:, None])
        tl.store(y[:, None] + second[None, :] * y_d, rounded(v, into), mask=here & y_seen[:, None])


@triton.jit
def _copy_rest(x, y, x_seen, y_seen, x_d, y_d, begin, turned, scale, REST: tl.constexpr, BR: tl.constexpr):
    """The elements of a head that do not turn."""
    i = tl.arange(0, BR)
    element = tl.where(i < begin, i, i + turned)[None, :]
    mask = (i < REST)[None, :]
    kept = tl.load(x[:, None] + element * x_d, mask=mask & x_seen[:, None], other=0)
    if kept.dtype != y.dtype.element_ty:  # into bytes
        kept = rounded(scaled(kept, scale, y.dtype.element_ty, kept.dtype), y.dtype.element_ty)
    tl.store(y[:, None] + element * y_d, kept, mask=mask & y_seen[:, None])


@triton.jit
def _turn_heads(
    x, y, slots, h, last, b, t, seen, cos, sin, pair, places, begin, scale,
    x_b, x_h, x_t, x_d, y_b, y_h, y_t, y_d, slots_b, slots_t,
    PAIRS: tl.constexpr, PAIRING: tl.constexpr, TRANSPOSED: tl.constexpr, REST: tl.constexpr, BR: tl.constexpr,
    X_BLOCK: tl.constexpr, Y_BLOCK: tl.constexpr,
):  # fmt: skip
    """Turns heads h … last − 1."""
    x_row, x_seen = _line(x, slots, b, t, seen, x_b, x_t, slots_b, slots_t, X_BLOCK)
    y_row, y_seen = _line(y, slots, b, t, seen, y_b, y_t, slots_b, slots_t, Y_BLOCK)
    x_row += h.to(tl.int64) * x_h
    y_row += h.to(tl.int64) * y_h
    for _ in range(h, last):
        _turn_head(
            x_row, y_row, x_seen, y_seen, x_d, y_d, cos, sin, pair, places, begin, scale, PAIRS, PAIRING, TRANSPOSED
        )
        if REST > 0:
            _copy_rest(x_row, y_row, x_seen, y_seen, x_d, y_d, begin, 2 * PAIRS, scale, REST, BR)
        x_row += x_h
        y_row += y_h


@triton.jit
def _copy_heads(
    x, y, slots, h, last, b, t, seen, scale, x_b, x_h, x_t, x_d, y_b, y_h, y_t, y_d, slots_b, slots_t,
    DIM: tl.constexpr, BD: tl.constexpr, Y_BLOCK: tl.constexpr,
):  # fmt: skip
    """Copies heads h … last − 1 as they are: values, which do not turn."""
    x_row, x_seen = _line(x, slots, b, t, seen, x_b, x_t, slots_b, slots_t, 0)
    y_row, y_seen = _line(y, slots, b, t, seen, y_b, y_t, slots_b, slots_t, Y_BLOCK)
    x_row += h.to(tl.int64) * x_h
    y_row += h.to(tl.int64) * y_h
    for _ in range(h, last):
        _copy_rest(x_row, y_row, x_seen, y_seen, x_d, y_d, DIM, 0, scale, DIM, BD)
        x_row += x_h
        y_row += y_h


@triton.jit
def _phases_of(
    at, old_at, turns, old_turns, axis, cos_table, sin_table, b, t, seen, pair, first, rows,
    at_a, at_b, at_t, old_a, old_b, old_t, table_b, table_row,
    PAIRS: tl.constexpr, SOURCE: tl.constexpr, OLD_FLOAT32: tl.constexpr, AXES: tl.constexpr, GIVEN: tl.constexpr,
    ARITHMETIC: tl.constexpr,
):  # fmt: skip
    """cos and sin of a run of tokens, [tokens, pairs]."""
    which = pair * 0
    if AXES > 1:
        which = tl.load(axis + pair, mask=pair < PAIRS, other=0)
    p = _positions(at, which, b, t, seen, first, at_a, at_b, at_t, AXES, GIVEN)
    if SOURCE == "table":
        cos, sin = _looked_up(cos_table, sin_table, p, b, pair, seen, rows, table_b, table_row, PAIRS)
        return cos.to(ARITHMETIC), sin.to(ARITHMETIC)
    else:
        t0, t1, t2, factor = _frequencies(turns, pair, PAIRS)
        if SOURCE == "exact" or SOURCE == "as_float32":
            cos, sin = phases(p, t0, t1, t2, factor, SOURCE == "as_float32", ARITHMETIC)
        else:
            old = _positions(old_at, which, b, t, seen, 0, old_a, old_b, old_t, AXES, True)
            o0, o1, o2, _ = _frequencies(old_turns, pair, PAIRS)
            n_turns, n_high, n_low = angle(p, t0, t1, t2, SOURCE == "difference32")
            o_turns, o_high, o_low = angle(old, o0, o1, o2, OLD_FLOAT32)
            d_turns, d_high, d_low = difference(n_turns, n_high, n_low, o_turns, o_high, o_low)
            cos, sin = cos_sin(d_turns, d_high, d_low)
            cos = only_within(old, (cos * factor).to(ARITHMETIC))
            sin = only_within(old, (sin * factor).to(ARITHMETIC))
        return only_within(p, cos), only_within(p, sin)


@triton.jit
def turn_kernel(
    x0, y0, x1, y1, x2, y2, slots, at, old_at, turns, old_turns, axis, places, cos_table, sin_table,
    time, heads0, heads1, heads2, begin, first, rows, scale1, scale2,
    x0_b, x0_h, x0_t, x0_d, y0_b, y0_h, y0_t, y0_d, x1_b, x1_h, x1_t, x1_d, y1_b, y1_h, y1_t, y1_d,
    x2_b, x2_h, x2_t, x2_d, y2_b, y2_h, y2_t, y2_d,
    slots_b, slots_t, at_a, at_b, at_t, old_a, old_b, old_t, table_b, table_row,
    PAIRS: tl.constexpr, PAIRING: tl.constexpr, SOURCE: tl.constexpr, OLD_FLOAT32: tl.constexpr, AXES: tl.constexpr,
    GIVEN: tl.constexpr, TRANSPOSED: tl.constexpr, ARITHMETIC: tl.constexpr, REST: tl.constexpr, BR: tl.constexpr,
    DIM: tl.constexpr, BD: tl.constexpr, X0_BLOCK: tl.constexpr, Y0_BLOCK: tl.constexpr, Y_BLOCK: tl.constexpr,
    BT: tl.constexpr, BP: tl.constexpr, HEADS: tl.constexpr,
):  # fmt: skip
    """Turns x0 to y0 and x1 to y1, and copies x2 to y2. x0 and y0 may be rows of a paged cache, and so may y1 with y2.

    y1 and y2 may be bytes of 8-bit numbers, of y1 / scale1 and y2 / scale2.
    SOURCE: "table", "exact", "as_float32"; or "difference" and "difference32" of the angles at `at` and `old_at`.
    """
    groups0 = (heads0 + HEADS - 1) // HEADS
    turned = groups0 + (heads1 + HEADS - 1) // HEADS
    groups = turned + (heads2 + HEADS - 1) // HEADS
    runs = (time + BT - 1) // BT
    program = tl.program_id(0)
    group = program % groups
    b = (program // groups // runs).to(tl.int64)
    t = (program // groups % runs) * BT + tl.arange(0, BT)
    seen = t < time
    if group >= turned:
        h = (group - turned) * HEADS
        _copy_heads(
            x2, y2, slots, h, tl.minimum(h + HEADS, heads2), b, t, seen, scale2,
            x2_b, x2_h, x2_t, x2_d, y2_b, y2_h, y2_t, y2_d, slots_b, slots_t, DIM, BD, Y_BLOCK,
        )  # fmt: skip
    else:
        pair = tl.arange(0, BP)
        cos, sin = _phases_of(
            at, old_at, turns, old_turns, axis, cos_table, sin_table, b, t, seen, pair, first, rows,
            at_a, at_b, at_t, old_a, old_b, old_t, table_b, table_row,
            PAIRS, SOURCE, OLD_FLOAT32, AXES, GIVEN, ARITHMETIC,
        )  # fmt: skip
        if group < groups0:
            h = group * HEADS
            _turn_heads(
                x0, y0, slots, h, tl.minimum(h + HEADS, heads0), b, t, seen, cos, sin, pair, places, begin, 1.0,
                x0_b, x0_h, x0_t, x0_d, y0_b, y0_h, y0_t, y0_d, slots_b, slots_t,
                PAIRS, PAIRING, TRANSPOSED, REST, BR, X0_BLOCK, Y0_BLOCK,
            )  # fmt: skip
        else:
            h = (group - groups0) * HEADS
            _turn_heads(
                x1, y1, slots, h, tl.minimum(h + HEADS, heads1), b, t, seen, cos, sin, pair, places, begin, scale1,
                x1_b, x1_h, x1_t, x1_d, y1_b, y1_h, y1_t, y1_d, slots_b, slots_t,
                PAIRS, PAIRING, TRANSPOSED, REST, BR, 0, Y_BLOCK,
            )  # fmt: skip
