"""The kernel that turns heads: one or two tensors in one launch, each [batch, heads, time, head_dim] with any strides.

A program turns some heads of a run of tokens, a tile [tokens, heads, pairs] after the other. It makes the cosines and sines of
its tokens once, for all of these heads. It asks for its first tile before that, and for each next one before it turns the one
that it has, so that memory is never idle.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .angles import angle, cos_sin, difference, only_within, phases
from .fixed_point import fixed_phases
from .rounding import rounded, scaled, wide


@triton.jit
def _positions(
    at, axis, b, t, seen, first, step, stride_a, stride_b, stride_t, AXES: tl.constexpr, GIVEN: tl.constexpr
):
    """Where tokens stand, int64 or real: [tokens, 1], or [tokens, pairs] where pairs turn by different axes."""
    if GIVEN:
        row = at + b * stride_b + t[:, None].to(tl.int64) * stride_t
        if AXES > 1:
            row = row + axis[None, :].to(tl.int64) * stride_a
        p = tl.load(row, mask=seen[:, None], other=0)
        if p.dtype.is_int():
            return p.to(tl.int64)
        elif p.dtype == tl.float64:
            return p
        else:
            return p.to(tl.float32)
    else:
        return first + t[:, None].to(tl.int64) * step


@triton.jit
def _frequencies(turns, pair, PAIRS: tl.constexpr):
    """Three doubles of each pair, and the attention factor."""
    here = pair < PAIRS
    t0 = tl.load(turns + pair, mask=here, other=0.0)[None, :]
    t1 = tl.load(turns + PAIRS + pair, mask=here, other=0.0)[None, :]
    t2 = tl.load(turns + 2 * PAIRS + pair, mask=here, other=0.0)[None, :]
    return t0, t1, t2, tl.load(turns + 3 * PAIRS)


@triton.jit
def _there(p, rows):
    """The rows of positions in a table, and which it has."""
    row = p.to(tl.int64)
    there = (row >= 0) & (row < rows)
    return row, there if p.dtype.is_int() else there & (row.to(p.dtype) == p)


@triton.jit
def _looked_up(
    cos_table, sin_table, row, there, b, pair, seen, stride_b, stride_row, PAIRS: tl.constexpr, dtype: tl.constexpr
):
    """cos and sin of rows of a table, NaN where it has none."""
    place = b * stride_b + row * stride_row + pair[None, :]
    loaded = seen[:, None] & (pair < PAIRS)[None, :] & there
    cos = tl.load(cos_table + place, mask=loaded, other=0.0).to(dtype)
    sin = tl.load(sin_table + place, mask=loaded, other=0.0).to(dtype)
    return tl.where(there, cos, float("nan")), tl.where(there, sin, float("nan"))


@triton.jit
def _line(base, slots, b, t, seen, stride_b, stride_t, slots_b, slots_t, BLOCK: tl.constexpr):
    """Where tokens' rows begin, and which are there: in a tensor, or where slots of a paged cache say."""
    if BLOCK > 0:
        slot = tl.load(slots + b * slots_b + t.to(tl.int64) * slots_t, mask=seen, other=-1).to(tl.int64)
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
def _heads(x, seen, h, last, x_h, BH: tl.constexpr):
    """Where heads h … h + BH − 1 of tokens begin, [tokens, heads], and which of them are there."""
    head = h + tl.arange(0, BH)[None, :]
    return x[:, None] + head.to(tl.int64) * x_h, seen[:, None] & (head < last)


@triton.jit
def _loaded(x, seen, step, pair, places, begin, PAIRS: tl.constexpr, PAIRING: tl.constexpr):
    """A tile of heads that begin at x [tokens, heads]: the first and the second elements of pairs as they are in memory; of
    neighbours, twice both."""
    if PAIRING == "interleaved":
        BP: tl.constexpr = pair.shape[0]
        element = tl.arange(0, 2 * BP)[None, None, :]
        mask = seen[:, :, None] & (element < 2 * PAIRS)
        both = tl.load(x[:, :, None] + (begin + element).to(tl.int64) * step, mask=mask, other=0)
        return both, both
    else:
        first, second = _pair_places(places, pair, begin, PAIRS, PAIRING)
        mask = seen[:, :, None] & (pair < PAIRS)[None, None, :]
        u = tl.load(x[:, :, None] + first.to(tl.int64)[None, None, :] * step, mask=mask, other=0)
        return u, tl.load(x[:, :, None] + second.to(tl.int64)[None, None, :] * step, mask=mask, other=0)


@triton.jit
def _turn_tile(
    one, two, y, seen, step, cos, sin, pair, places, begin, scale,
    PAIRS: tl.constexpr, PAIRING: tl.constexpr, TRANSPOSED: tl.constexpr,
):  # fmt: skip
    """Turns a tile as _loaded() gives it, into heads that begin at y [tokens, heads]."""
    dtype = cos.dtype
    of = one.dtype
    into = y.dtype.element_ty
    if PAIRING == "interleaved":
        T: tl.constexpr = one.shape[0]
        H: tl.constexpr = one.shape[1]
        BP: tl.constexpr = pair.shape[0]
        element = tl.arange(0, 2 * BP)[None, None, :]
        mask = seen[:, :, None] & (element < 2 * PAIRS)
        u, v = wide(one, dtype).reshape(T, H, BP, 2).split()
        u, v = _turned(u, v, cos, sin, TRANSPOSED)
        both = rounded(scaled(tl.join(u, v).reshape(T, H, 2 * BP), scale, into, of), into)
        tl.store(y[:, :, None] + (begin + element).to(tl.int64) * step, both, mask=mask)
    else:
        first, second = _pair_places(places, pair, begin, PAIRS, PAIRING)
        mask = seen[:, :, None] & (pair < PAIRS)[None, None, :]
        u, v = _turned(wide(one, dtype), wide(two, dtype), cos, sin, TRANSPOSED)
        u, v = scaled(u, scale, into, of), scaled(v, scale, into, of)
        tl.store(y[:, :, None] + first.to(tl.int64)[None, None, :] * step, rounded(u, into), mask=mask)
        tl.store(y[:, :, None] + second.to(tl.int64)[None, None, :] * step, rounded(v, into), mask=mask)


@triton.jit
def _copy_rest(x, y, x_seen, y_seen, x_d, y_d, begin, turned, scale, REST: tl.constexpr, BR: tl.constexpr):
    """The elements of heads that do not turn."""
    i = tl.arange(0, BR)
    element = tl.where(i < begin, i, i + turned).to(tl.int64)[None, None, :]
    mask = (i < REST)[None, None, :]
    kept = tl.load(x[:, :, None] + element * x_d, mask=mask & x_seen[:, :, None], other=0)
    if kept.dtype != y.dtype.element_ty:  # into bytes
        kept = rounded(scaled(kept, scale, y.dtype.element_ty, kept.dtype), y.dtype.element_ty)
    tl.store(y[:, :, None] + element * y_d, kept, mask=mask & y_seen[:, :, None])


@triton.jit
def _turn_heads(
    x, x_seen, one, two, y, y_seen, h, last, cos, sin, pair, places, begin, scale, x_h, x_d, y_h, y_d,
    PAIRS: tl.constexpr, PAIRING: tl.constexpr, TRANSPOSED: tl.constexpr, REST: tl.constexpr, BR: tl.constexpr,
    BH: tl.constexpr,
):  # fmt: skip
    """Turns heads h … last − 1 of tokens that begin at x and y; the first tile is there already."""
    cos, sin = cos[:, None, :], sin[:, None, :]
    for i in range(h, last, BH):
        rows, here = _heads(x, x_seen, i + BH, last, x_h, BH)
        next_one, next_two = _loaded(rows, here, x_d, pair, places, begin, PAIRS, PAIRING)
        into, there = _heads(y, y_seen, i, last, y_h, BH)
        _turn_tile(one, two, into, there, y_d, cos, sin, pair, places, begin, scale, PAIRS, PAIRING, TRANSPOSED)
        if REST > 0:
            rows, here = _heads(x, x_seen, i, last, x_h, BH)
            _copy_rest(rows, into, here, there, x_d, y_d, begin, 2 * PAIRS, scale, REST, BR)
        one, two = next_one, next_two


@triton.jit
def _copy_heads(
    x, x_seen, y, y_seen, h, last, scale, x_h, x_d, y_h, y_d, DIM: tl.constexpr, BD: tl.constexpr, BH: tl.constexpr
):
    """Copies heads h … last − 1 as they are: values, which do not turn."""
    for i in range(h, last, BH):
        rows, here = _heads(x, x_seen, i, last, x_h, BH)
        into, there = _heads(y, y_seen, i, last, y_h, BH)
        _copy_rest(rows, into, here, there, x_d, y_d, DIM, 0, scale, DIM, BD)


@triton.jit
def _computed(p, turns, pair, PAIRS: tl.constexpr, SOURCE: tl.constexpr, ARITHMETIC: tl.constexpr):
    """cos and sin at positions p, NaN past ±2^31."""
    if SOURCE == "fixed_point":
        cos, sin = fixed_phases(p, turns, pair, PAIRS)
    else:
        t0, t1, t2, factor = _frequencies(turns, pair, PAIRS)
        cos, sin = phases(p.to(tl.float64), t0, t1, t2, factor, SOURCE == "as_float32", ARITHMETIC)
    return only_within(p, cos), only_within(p, sin)


@triton.jit
def _of_difference(
    p, old, turns, old_turns, pair, PAIRS: tl.constexpr, SOURCE: tl.constexpr, OLD_FLOAT32: tl.constexpr,
    ARITHMETIC: tl.constexpr,
):  # fmt: skip
    """cos and sin of the angle at p less that of other frequencies at old."""
    t0, t1, t2, factor = _frequencies(turns, pair, PAIRS)
    o0, o1, o2, _ = _frequencies(old_turns, pair, PAIRS)
    n_turns, n_high, n_low = angle(p.to(tl.float64), t0, t1, t2, SOURCE == "difference32")
    o_turns, o_high, o_low = angle(old.to(tl.float64), o0, o1, o2, OLD_FLOAT32)
    d_turns, d_high, d_low = difference(n_turns, n_high, n_low, o_turns, o_high, o_low)
    cos, sin = cos_sin(d_turns, d_high, d_low)
    cos, sin = (cos * factor).to(ARITHMETIC), (sin * factor).to(ARITHMETIC)
    return only_within(p, only_within(old, cos)), only_within(p, only_within(old, sin))


@triton.jit
def _phases_of(
    at, old_at, turns, old_turns, axis, cos_table, sin_table, b, t, seen, pair, first, step, old_first, rows,
    at_a, at_b, at_t, old_a, old_b, old_t, table_b, table_row,
    PAIRS: tl.constexpr, SOURCE: tl.constexpr, KEPT: tl.constexpr, OLD_FLOAT32: tl.constexpr, AXES: tl.constexpr,
    GIVEN: tl.constexpr, OLD_GIVEN: tl.constexpr, ARITHMETIC: tl.constexpr,
):  # fmt: skip
    """cos and sin of a run of tokens, [tokens, pairs]. KEPT: rows of a table have those of the first positions."""
    which = pair * 0
    if AXES > 1:
        which = tl.load(axis + pair, mask=pair < PAIRS, other=0)
    p = _positions(at, which, b, t, seen, first, step, at_a, at_b, at_t, AXES, GIVEN)
    if SOURCE == "difference" or SOURCE == "difference32":
        old = _positions(old_at, which, b, t, seen, old_first, step, old_a, old_b, old_t, AXES, OLD_GIVEN)
        cos, sin = _of_difference(p, old, turns, old_turns, pair, PAIRS, SOURCE, OLD_FLOAT32, ARITHMETIC)
    elif KEPT:
        row, there = _there(p, rows)
        if SOURCE == "table":
            cos, sin = _looked_up(
                cos_table, sin_table, row, there, b, pair, seen, table_b, table_row, PAIRS, ARITHMETIC
            )  # fmt: skip
        elif tl.max((seen[:, None] & (there == 0)).to(tl.int32)) == 0:
            cos, sin = _looked_up(
                cos_table, sin_table, row, there, b, pair, seen, table_b, table_row, PAIRS, ARITHMETIC
            )  # fmt: skip
        else:
            cos, sin = _computed(p, turns, pair, PAIRS, SOURCE, ARITHMETIC)
    else:
        cos, sin = _computed(p, turns, pair, PAIRS, SOURCE, ARITHMETIC)
    return cos, sin


# What changes from call to call, as a step of decoding comes after the other, is no reason to compile again. Nor are strides
# that are the length of a call: those of slots and positions from a sequence to the next one, and to the next coordinate.
@triton.jit(do_not_specialize=["time", "first", "old_first", "rows_kept", "slots_b", "at_a", "at_b", "old_a", "old_b"])
def turn_kernel(
    x0, y0, x1, y1, x2, y2, slots, at, old_at, turns, old_turns, axis, places, cos_table, sin_table,
    time, heads0, heads1, heads2, begin, first, step, old_first, rows_kept, scale1, scale2,
    x0_b, x0_h, x0_t, x0_d, y0_b, y0_h, y0_t, y0_d, x1_b, x1_h, x1_t, x1_d, y1_b, y1_h, y1_t, y1_d,
    x2_b, x2_h, x2_t, x2_d, y2_b, y2_h, y2_t, y2_d,
    slots_b, slots_t, at_a, at_b, at_t, old_a, old_b, old_t, table_b, table_row,
    PAIRS: tl.constexpr, PAIRING: tl.constexpr, SOURCE: tl.constexpr, KEPT: tl.constexpr, OLD_FLOAT32: tl.constexpr,
    AXES: tl.constexpr, GIVEN: tl.constexpr, OLD_GIVEN: tl.constexpr, TRANSPOSED: tl.constexpr,
    ARITHMETIC: tl.constexpr, REST: tl.constexpr, BR: tl.constexpr, DIM: tl.constexpr, BD: tl.constexpr,
    X0_BLOCK: tl.constexpr, Y0_BLOCK: tl.constexpr, Y_BLOCK: tl.constexpr,
    BT: tl.constexpr, BH: tl.constexpr, BP: tl.constexpr, HEADS: tl.constexpr, SHARED: tl.constexpr,
):  # fmt: skip
    """Turns x0 to y0 and x1 to y1, and copies x2 to y2. x0 and y0 may be rows of a paged cache, and so may y1 with y2.

    y1 and y2 may be bytes of 8-bit numbers, of y1 / scale1 and y2 / scale2.
    SHARED: a program turns its tokens' heads of x0 and of x1, all of them, with the same cosines.
    SOURCE: "table", "exact", "as_float32", "fixed_point"; or "difference" and "difference32" of the angles at `at` and
    `old_at`.
    """
    groups0 = (heads0 + HEADS - 1) // HEADS
    turned = groups0
    if not SHARED:
        turned += (heads1 + HEADS - 1) // HEADS
    groups = turned + (heads2 + HEADS - 1) // HEADS
    runs = (time + BT - 1) // BT
    program = tl.program_id(0)
    group = program % groups
    b = (program // groups // runs).to(tl.int64)
    t = (program // groups % runs) * BT + tl.arange(0, BT)
    seen = t < time
    if group >= turned:
        h = (group - turned) * HEADS
        x, x_seen = _line(x2, slots, b, t, seen, x2_b, x2_t, slots_b, slots_t, 0)
        y, y_seen = _line(y2, slots, b, t, seen, y2_b, y2_t, slots_b, slots_t, Y_BLOCK)
        last = tl.minimum(h + HEADS, heads2)
        _copy_heads(x, x_seen, y, y_seen, h, last, scale2, x2_h, x2_d, y2_h, y2_d, DIM, BD, BH)
    else:
        pair = tl.arange(0, BP)
        if group < groups0:
            h = group * HEADS
            last = tl.minimum(h + HEADS, heads0)
            x, x_seen = _line(x0, slots, b, t, seen, x0_b, x0_t, slots_b, slots_t, X0_BLOCK)
            rows, here = _heads(x, x_seen, h, last, x0_h, BH)
            one, two = _loaded(rows, here, x0_d, pair, places, begin, PAIRS, PAIRING)
        else:
            h = (group - groups0) * HEADS
            last = tl.minimum(h + HEADS, heads1)
            x, x_seen = _line(x1, slots, b, t, seen, x1_b, x1_t, slots_b, slots_t, 0)
            rows, here = _heads(x, x_seen, h, last, x1_h, BH)
            one, two = _loaded(rows, here, x1_d, pair, places, begin, PAIRS, PAIRING)
        cos, sin = _phases_of(
            at, old_at, turns, old_turns, axis, cos_table, sin_table, b, t, seen, pair, first, step, old_first, rows_kept,
            at_a, at_b, at_t, old_a, old_b, old_t, table_b, table_row,
            PAIRS, SOURCE, KEPT, OLD_FLOAT32, AXES, GIVEN, OLD_GIVEN, ARITHMETIC,
        )  # fmt: skip
        if group < groups0:  # where they go has a name for each, as its type may differ
            into0, there0 = _line(y0, slots, b, t, seen, y0_b, y0_t, slots_b, slots_t, Y0_BLOCK)
            _turn_heads(
                x, x_seen, one, two, into0, there0, h, last, cos, sin, pair, places, begin, 1.0, x0_h, x0_d, y0_h, y0_d,
                PAIRS, PAIRING, TRANSPOSED, REST, BR, BH,
            )  # fmt: skip
            if SHARED:
                beside, beside_seen = _line(x1, slots, b, t, seen, x1_b, x1_t, slots_b, slots_t, 0)
                rows, here = _heads(beside, beside_seen, 0, heads1, x1_h, BH)
                one, two = _loaded(rows, here, x1_d, pair, places, begin, PAIRS, PAIRING)
                into, there = _line(y1, slots, b, t, seen, y1_b, y1_t, slots_b, slots_t, Y_BLOCK)
                _turn_heads(
                    beside, beside_seen, one, two, into, there, 0, heads1, cos, sin, pair, places, begin, scale1, x1_h, x1_d,
                    y1_h, y1_d, PAIRS, PAIRING, TRANSPOSED, REST, BR, BH,
                )  # fmt: skip
        else:
            into1, there1 = _line(y1, slots, b, t, seen, y1_b, y1_t, slots_b, slots_t, Y_BLOCK)
            _turn_heads(
                x, x_seen, one, two, into1, there1, h, last, cos, sin, pair, places, begin, scale1, x1_h, x1_d, y1_h, y1_d,
                PAIRS, PAIRING, TRANSPOSED, REST, BR, BH,
            )  # fmt: skip
