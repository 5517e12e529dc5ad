"""Kernels that normalise heads by their root mean square and turn them in the same pass, forward and backward.

y = R(p) (w ⊙ x / rms(x)), all in float32 (float64 for float64), rounded once.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .rotate_kernel import _copy_heads, _heads, _line, _pair_places, _phases_of, _turned
from .rounding import rounded, scaled


@triton.jit
def _places_of(places, pair, begin, PAIRS: tl.constexpr, PAIRING: tl.constexpr):
    if PAIRING == "interleaved":
        return begin + 2 * pair, begin + 2 * pair + 1
    else:
        return _pair_places(places, pair, begin, PAIRS, PAIRING)


@triton.jit
def _part(x, seen, element, mask, step, dtype: tl.constexpr):
    """Some elements of heads that begin at x [tokens, heads]."""
    there = seen[:, :, None] & mask[None, None, :]
    return tl.load(x[:, :, None] + element.to(tl.int64)[None, None, :] * step, mask=there, other=0.0).to(dtype)


@triton.jit
def _put(y, seen, element, mask, step, value, scale):
    there = seen[:, :, None] & mask[None, None, :]
    into = y.dtype.element_ty
    value = rounded(scaled(value, scale, into, value.dtype), into)
    tl.store(y[:, :, None] + element.to(tl.int64)[None, None, :] * step, value, mask=there)


@triton.jit
def _over(u, v, r):
    """The sum over a head's elements, [tokens, heads, 1]."""
    return (tl.sum(u + v, 2) + tl.sum(r, 2))[:, :, None]


@triton.jit
def _down(x):
    """The sum over tokens and heads."""
    return tl.sum(tl.sum(x, 1), 0)


@triton.jit
def _norm_heads(
    program, x, y, d_y, d_w, weight, slots, at, turns, axis, places, cos_table, sin_table, time, heads, begin, first, rows, scale_y,
    x_b, x_h, x_t, x_d, y_b, y_h, y_t, y_d, d_b, d_h, d_t, d_d, slots_b, slots_t, at_a, at_b, at_t, table_row,
    EPS: tl.constexpr, PAIRS: tl.constexpr, PAIRING: tl.constexpr, SOURCE: tl.constexpr, KEPT: tl.constexpr,
    AXES: tl.constexpr, GIVEN: tl.constexpr, ARITHMETIC: tl.constexpr, DIM: tl.constexpr, BR: tl.constexpr,
    BACKWARD: tl.constexpr, BT: tl.constexpr, BH: tl.constexpr, BP: tl.constexpr, HEADS: tl.constexpr,
    RUNS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The program's heads of x, and its share of d_w. With BLOCK y is a paged cache, of y / scale_y where it has 8 bits."""
    groups = (heads + HEADS - 1) // HEADS
    programs = ((time + BT - 1) // BT + RUNS - 1) // RUNS
    h = program % groups * HEADS
    b = (program // groups // programs).to(tl.int64)
    pair, rest = tl.arange(0, BP), tl.arange(0, BR)
    one, two = _places_of(places, pair, begin, PAIRS, PAIRING)
    other = tl.where(rest < begin, rest, rest + 2 * PAIRS)
    turned, kept = pair < PAIRS, rest < DIM - 2 * PAIRS
    w_u = tl.load(weight + one, mask=turned, other=0.0).to(ARITHMETIC)[None, None, :]
    w_v = tl.load(weight + two, mask=turned, other=0.0).to(ARITHMETIC)[None, None, :]
    w_r = tl.load(weight + other, mask=kept, other=0.0).to(ARITHMETIC)[None, None, :]
    epsilon = tl.full([1, 1, 1], EPS, ARITHMETIC)
    # Of each place in a tile: so threads need not meet until the end.
    sum_u = tl.zeros([BT, BH, BP], ARITHMETIC)
    sum_v = tl.zeros([BT, BH, BP], ARITHMETIC)
    sum_r = tl.zeros([BT, BH, BR], ARITHMETIC)
    last = tl.minimum(h + HEADS, heads)
    for run in range(RUNS):
        t = (program // groups % programs * RUNS + run) * BT + tl.arange(0, BT)
        seen = t < time
        cos, sin = _phases_of(
            at, at, turns, turns, axis, cos_table, sin_table, b, t, seen, pair, first, 1, 0, rows,
            at_a, at_b, at_t, 0, 0, 0, 0, table_row, PAIRS, SOURCE, KEPT, False, AXES, GIVEN, False, ARITHMETIC,
        )  # fmt: skip
        # Tokens that are not there have no row of a table, and would make NaN of the weight's gradient.
        cos, sin = tl.where(seen[:, None], cos, 0.0)[:, None, :], tl.where(seen[:, None], sin, 0.0)[:, None, :]
        x_line = x + b * x_b + t.to(tl.int64) * x_t
        y_line, kept_y = _line(y, slots, b, t, seen, y_b, y_t, slots_b, slots_t, BLOCK)
        d_line = d_y + b * d_b + t.to(tl.int64) * d_t
        for i in range(h, last, BH):
            x_row, here = _heads(x_line, seen, i, last, x_h, BH)
            u = _part(x_row, here, one, turned, x_d, ARITHMETIC)
            v = _part(x_row, here, two, turned, x_d, ARITHMETIC)
            r = _part(x_row, here, other, kept, x_d, ARITHMETIC)
            if BACKWARD:  # asked for before threads meet
                d_row, _ = _heads(d_line, seen, i, last, d_h, BH)
                g_u = _part(d_row, here, one, turned, d_d, ARITHMETIC)
                g_v = _part(d_row, here, two, turned, d_d, ARITHMETIC)
                g_r = _part(d_row, here, other, kept, d_d, ARITHMETIC)
            squares = tl.where(here[:, :, None], _over(u * u, v * v, r * r), 1.0)  # what is not there stays a number
            scale = 1.0 / tl.sqrt(squares / DIM + epsilon)
            u, v, r = u * scale, v * scale, r * scale
            if BACKWARD:
                g_u, g_v = _turned(g_u, g_v, cos, sin, True)
                sum_u += g_u * u
                sum_v += g_v * v
                sum_r += g_r * r
                g_u, g_v, g_r = g_u * w_u, g_v * w_v, g_r * w_r
                along = _over(g_u * u, g_v * v, g_r * r) / DIM
                u, v, r = scale * (g_u - u * along), scale * (g_v - v * along), scale * (g_r - r * along)
            else:
                u, v = _turned(u * w_u, v * w_v, cos, sin, False)
                r = r * w_r
            y_row, there = _heads(y_line, kept_y, i, last, y_h, BH)
            _put(y_row, there, one, turned, y_d, u, scale_y)
            _put(y_row, there, two, turned, y_d, v, scale_y)
            _put(y_row, there, other, kept, y_d, r, scale_y)
    if BACKWARD:
        share = d_w + program.to(tl.int64) * DIM
        tl.store(share + one, _down(sum_u), mask=turned)
        tl.store(share + two, _down(sum_v), mask=turned)
        tl.store(share + other, _down(sum_r), mask=kept)


@triton.jit(do_not_specialize=["time", "first", "rows", "at_a", "at_b"])  # as turn_kernel
def norm_kernel(
    x, y, d_y, d_w, weight, at, turns, axis, places, cos_table, sin_table, time, heads, begin, first, rows,
    x_b, x_h, x_t, x_d, y_b, y_h, y_t, y_d, d_b, d_h, d_t, d_d, at_a, at_b, at_t, table_row,
    EPS: tl.constexpr, PAIRS: tl.constexpr, PAIRING: tl.constexpr, SOURCE: tl.constexpr, KEPT: tl.constexpr,
    AXES: tl.constexpr, GIVEN: tl.constexpr, ARITHMETIC: tl.constexpr, DIM: tl.constexpr, BR: tl.constexpr,
    BACKWARD: tl.constexpr, BT: tl.constexpr, BH: tl.constexpr, BP: tl.constexpr, HEADS: tl.constexpr,
    RUNS: tl.constexpr,
):  # fmt: skip
    """Forward y of x; with BACKWARD y is d_x of d_y, and each program writes its share of d_w [programs, DIM]."""
    _norm_heads(
        tl.program_id(0), x, y, d_y, d_w, weight, at, at, turns, axis, places, cos_table, sin_table, time, heads, begin, first, rows,
        1.0, x_b, x_h, x_t, x_d, y_b, y_h, y_t, y_d, d_b, d_h, d_t, d_d, 0, 0, at_a, at_b, at_t, table_row,
        EPS, PAIRS, PAIRING, SOURCE, KEPT, AXES, GIVEN, ARITHMETIC, DIM, BR, BACKWARD, BT, BH, BP, HEADS, RUNS, 0,
    )  # fmt: skip


@triton.jit(do_not_specialize=["time", "programs0", "first", "rows", "at_a", "at_b"])
def norm_both_kernel(
    x0, y0, d_y0, d_w0, weight0, x1, y1, d_y1, d_w1, weight1, at, turns, axis, places, cos_table, sin_table,
    time, heads0, heads1, programs0, begin, first, rows,
    x0_b, x0_h, x0_t, x0_d, y0_b, y0_h, y0_t, y0_d, d0_b, d0_h, d0_t, d0_d,
    x1_b, x1_h, x1_t, x1_d, y1_b, y1_h, y1_t, y1_d, d1_b, d1_h, d1_t, d1_d, at_a, at_b, at_t, table_row,
    EPS: tl.constexpr, PAIRS: tl.constexpr, PAIRING: tl.constexpr, SOURCE: tl.constexpr, KEPT: tl.constexpr,
    AXES: tl.constexpr, GIVEN: tl.constexpr, ARITHMETIC: tl.constexpr, DIM: tl.constexpr, BR: tl.constexpr,
    BACKWARD: tl.constexpr, BP: tl.constexpr, BT0: tl.constexpr, BH0: tl.constexpr, HEADS0: tl.constexpr,
    RUNS0: tl.constexpr, BT1: tl.constexpr, BH1: tl.constexpr, HEADS1: tl.constexpr, RUNS1: tl.constexpr,
):  # fmt: skip
    """The same of two tensors, each with tiles of its own, as if alone: so it has the bits of two launches. The first has
    programs0 of the programs."""
    program = tl.program_id(0)
    if program < programs0:
        _norm_heads(
            program, x0, y0, d_y0, d_w0, weight0, at, at, turns, axis, places, cos_table, sin_table, time, heads0, begin, first, rows,
            1.0, x0_b, x0_h, x0_t, x0_d, y0_b, y0_h, y0_t, y0_d, d0_b, d0_h, d0_t, d0_d, 0, 0, at_a, at_b, at_t, table_row,
            EPS, PAIRS, PAIRING, SOURCE, KEPT, AXES, GIVEN, ARITHMETIC, DIM, BR, BACKWARD, BT0, BH0, BP, HEADS0, RUNS0, 0,
        )  # fmt: skip
    else:
        _norm_heads(
            program - programs0, x1, y1, d_y1, d_w1, weight1, at, at, turns, axis, places, cos_table, sin_table, time, heads1,
            begin, first, rows, 1.0,
            x1_b, x1_h, x1_t, x1_d, y1_b, y1_h, y1_t, y1_d, d1_b, d1_h, d1_t, d1_d, 0, 0, at_a, at_b, at_t, table_row,
            EPS, PAIRS, PAIRING, SOURCE, KEPT, AXES, GIVEN, ARITHMETIC, DIM, BR, BACKWARD, BT1, BH1, BP, HEADS1, RUNS1, 0,
        )  # fmt: skip


@triton.jit(do_not_specialize=["time", "programs0", "programs1", "first", "rows", "slots_b", "at_a", "at_b"])
def norm_to_cache_kernel(
    x0, y0, weight0, x1, y1, weight1, x2, y2, slots, at, turns, axis, places, cos_table, sin_table,
    time, heads0, heads1, heads2, programs0, programs1, begin, first, rows, scale1, scale2,
    x0_b, x0_h, x0_t, x0_d, y0_b, y0_h, y0_t, y0_d, x1_b, x1_h, x1_t, x1_d, y1_b, y1_h, y1_t, y1_d,
    x2_b, x2_h, x2_t, x2_d, y2_b, y2_h, y2_t, y2_d, slots_b, slots_t, at_a, at_b, at_t, table_row,
    EPS: tl.constexpr, PAIRS: tl.constexpr, PAIRING: tl.constexpr, SOURCE: tl.constexpr, KEPT: tl.constexpr,
    AXES: tl.constexpr, GIVEN: tl.constexpr, ARITHMETIC: tl.constexpr, DIM: tl.constexpr, BR: tl.constexpr,
    BP: tl.constexpr, BLOCK: tl.constexpr, VALUE_DIM: tl.constexpr, BD: tl.constexpr,
    BT0: tl.constexpr, BH0: tl.constexpr, HEADS0: tl.constexpr, BT1: tl.constexpr, BH1: tl.constexpr, HEADS1: tl.constexpr,
    BT2: tl.constexpr, BH2: tl.constexpr, HEADS2: tl.constexpr,
):  # fmt: skip
    """x0 to y0, forward; x1 to y1 in the same way and x2 to y2 as it is, which are paged caches as turn_kernel's. The first
    has programs0 of the programs, the second the next programs1."""
    program = tl.program_id(0)
    if program < programs0:
        _norm_heads(
            program, x0, y0, x0, y0, weight0, slots, at, turns, axis, places, cos_table, sin_table, time, heads0, begin, first, rows,
            1.0, x0_b, x0_h, x0_t, x0_d, y0_b, y0_h, y0_t, y0_d, 0, 0, 0, 0, slots_b, slots_t, at_a, at_b, at_t, table_row,
            EPS, PAIRS, PAIRING, SOURCE, KEPT, AXES, GIVEN, ARITHMETIC, DIM, BR, False, BT0, BH0, BP, HEADS0, 1, 0,
        )  # fmt: skip
    elif program < programs0 + programs1:
        _norm_heads(
            program - programs0, x1, y1, x1, y1, weight1, slots, at, turns, axis, places, cos_table, sin_table, time, heads1,
            begin, first, rows, scale1,
            x1_b, x1_h, x1_t, x1_d, y1_b, y1_h, y1_t, y1_d, 0, 0, 0, 0, slots_b, slots_t, at_a, at_b, at_t, table_row,
            EPS, PAIRS, PAIRING, SOURCE, KEPT, AXES, GIVEN, ARITHMETIC, DIM, BR, False, BT1, BH1, BP, HEADS1, 1, BLOCK,
        )  # fmt: skip
    else:
        _copy_to_cache(
            program - programs0 - programs1, x2, y2, slots, time, heads2, scale2, x2_b, x2_h, x2_t, x2_d, y2_b, y2_h, y2_t, y2_d,
            slots_b, slots_t, VALUE_DIM, BD, BLOCK, BT2, BH2, HEADS2,
        )  # fmt: skip


@triton.jit
def _copy_to_cache(
    program, x, y, slots, time, heads, scale, x_b, x_h, x_t, x_d, y_b, y_h, y_t, y_d, slots_b, slots_t,
    DIM: tl.constexpr, BD: tl.constexpr, BLOCK: tl.constexpr, BT: tl.constexpr, BH: tl.constexpr, HEADS: tl.constexpr,
):  # fmt: skip
    """The program's heads of values, as they are."""
    groups, runs = (heads + HEADS - 1) // HEADS, (time + BT - 1) // BT
    h, b = program % groups * HEADS, (program // groups // runs).to(tl.int64)
    t = program // groups % runs * BT + tl.arange(0, BT)
    x_line, x_seen = _line(x, slots, b, t, t < time, x_b, x_t, slots_b, slots_t, 0)
    y_line, y_seen = _line(y, slots, b, t, t < time, y_b, y_t, slots_b, slots_t, BLOCK)
    last = tl.minimum(h + HEADS, heads)
    _copy_heads(x_line, x_seen, y_line, y_seen, h, last, scale, x_h, x_d, y_h, y_d, DIM, BD, BH)
