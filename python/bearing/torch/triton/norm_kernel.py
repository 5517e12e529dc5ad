"""Kernels that normalise heads by their root mean square and turn them in the same pass, forward and backward.

y = R(p) (w ⊙ x / rms(x)), all in float32 (float64 for float64), rounded once.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .rotate_kernel import _pair_places, _phases_of, _turned
from .rounding import rounded


@triton.jit
def _places_of(places, pair, begin, PAIRS: tl.constexpr, PAIRING: tl.constexpr):
    if PAIRING == "interleaved":
        return begin + 2 * pair, begin + 2 * pair + 1
    else:
        return _pair_places(places, pair, begin, PAIRS, PAIRING)


@triton.jit
def _part(x, seen, element, mask, step, dtype: tl.constexpr):
    """Some elements of the heads whose rows begin at x, [tokens, elements]."""
    return tl.load(x[:, None] + element[None, :] * step, mask=seen[:, None] & mask[None, :], other=0.0).to(dtype)


@triton.jit
def _put(y, seen, element, mask, step, value):
    tl.store(
        y[:, None] + element[None, :] * step, rounded(value, y.dtype.element_ty), mask=seen[:, None] & mask[None, :]
    )


@triton.jit
def norm_kernel(
    x, y, d_y, d_w, weight, at, turns, axis, places, time, heads, begin, first, eps,
    x_b, x_h, x_t, x_d, y_b, y_h, y_t, y_d, d_b, d_h, d_t, d_d, at_a, at_b, at_t,
    PAIRS: tl.constexpr, PAIRING: tl.constexpr, AS_FLOAT32: tl.constexpr, AXES: tl.constexpr, GIVEN: tl.constexpr,
    ARITHMETIC: tl.constexpr, DIM: tl.constexpr, BR: tl.constexpr, BACKWARD: tl.constexpr, BT: tl.constexpr,
    BP: tl.constexpr, HEADS: tl.constexpr,
):  # fmt: skip
    """Forward y of x; with BACKWARD y is d_x of d_y, and each program writes its share of d_w [programs, DIM]."""
    groups = (heads + HEADS - 1) // HEADS
    runs = (time + BT - 1) // BT
    program = tl.program_id(0)
    h = program % groups * HEADS
    b = (program // groups // runs).to(tl.int64)
    t = (program // groups % runs) * BT + tl.arange(0, BT)
    seen, pair, rest = t < time, tl.arange(0, BP), tl.arange(0, BR)
    source: tl.constexpr = "as_float32" if AS_FLOAT32 else "exact"
    cos, sin = _phases_of(
        at, at, turns, turns, axis, turns, turns, b, t, seen, pair, first, 0, at_a, at_b, at_t, 0, 0, 0, 0, 0,
        PAIRS, source, False, AXES, GIVEN, ARITHMETIC,
    )  # fmt: skip
    one, two = _places_of(places, pair, begin, PAIRS, PAIRING)
    other = tl.where(rest < begin, rest, rest + 2 * PAIRS)
    turned, kept = pair < PAIRS, rest < DIM - 2 * PAIRS
    w_u = tl.load(weight + one, mask=turned, other=0.0).to(ARITHMETIC)[None, :]
    w_v = tl.load(weight + two, mask=turned, other=0.0).to(ARITHMETIC)[None, :]
    w_r = tl.load(weight + other, mask=kept, other=0.0).to(ARITHMETIC)[None, :]
    epsilon = tl.load(eps).to(ARITHMETIC)
    sum_u = tl.zeros([BP], ARITHMETIC)
    sum_v = tl.zeros([BP], ARITHMETIC)
    sum_r = tl.zeros([BR], ARITHMETIC)
    x_row = x + b * x_b + h.to(tl.int64) * x_h + t.to(tl.int64) * x_t
    y_row = y + b * y_b + h.to(tl.int64) * y_h + t.to(tl.int64) * y_t
    d_row = d_y + b * d_b + h.to(tl.int64) * d_h + t.to(tl.int64) * d_t
    for _ in range(h, tl.minimum(h + HEADS, heads)):
        u = _part(x_row, seen, one, turned, x_d, ARITHMETIC)
        v = _part(x_row, seen, two, turned, x_d, ARITHMETIC)
        r = _part(x_row, seen, other, kept, x_d, ARITHMETIC)
        squares = tl.sum(u * u + v * v, 1) + tl.sum(r * r, 1)
        scale = (1.0 / tl.sqrt(squares / DIM + epsilon))[:, None]
        u, v, r = u * scale, v * scale, r * scale
        if BACKWARD:
            g_u = _part(d_row, seen, one, turned, d_d, ARITHMETIC)
            g_v = _part(d_row, seen, two, turned, d_d, ARITHMETIC)
            g_u, g_v = _turned(g_u, g_v, cos, sin, True)
            g_r = _part(d_row, seen, other, kept, d_d, ARITHMETIC)
            sum_u += tl.sum(g_u * u, 0)
            sum_v += tl.sum(g_v * v, 0)
            sum_r += tl.sum(g_r * r, 0)
            g_u, g_v, g_r = g_u * w_u, g_v * w_v, g_r * w_r
            along = ((tl.sum(g_u * u + g_v * v, 1) + tl.sum(g_r * r, 1)) / DIM)[:, None]
            u, v, r = scale * (g_u - u * along), scale * (g_v - v * along), scale * (g_r - r * along)
        else:
            u, v = _turned(u * w_u, v * w_v, cos, sin, False)
            r = r * w_r
        _put(y_row, seen, one, turned, y_d, u)
        _put(y_row, seen, two, turned, y_d, v)
        _put(y_row, seen, other, kept, y_d, r)
        x_row += x_h
        y_row += y_h
        d_row += d_h
    if BACKWARD:
        share = d_w + program.to(tl.int64) * DIM
        tl.store(share + one, sum_u, mask=turned)
        tl.store(share + two, sum_v, mask=turned)
        tl.store(share + other, sum_r, mask=kept)
