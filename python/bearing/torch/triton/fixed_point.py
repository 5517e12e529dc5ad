"""cos and sin of position times frequency, times the attention factor, in float32, each within one ulp, by whole numbers: no
table, no double.

A frequency is counted in turns, as a whole number and 96 bits of its fraction. Whole turns do not matter, so a product with a
position is taken modulo 1: products of 32 bits and their sums, exact to 2^-65 of a turn at ±2^31. What is left to the
nearest quarter of a turn is a float32 and its rest, which meet polynomials. The bits are the same on every GPU. Of a real
position what lies below 2^-64 is cut off, so one nearer to 0 than 2^-40 loses digits.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .rounding import two_sum

_LOWEST = tl.constexpr(0xFFFFFFFF)  # of a number of 64 bits, the lower half
_EIGHTH = tl.constexpr(1 << 61)  # of a turn
_WORD = tl.constexpr(4294967296.0)
_RADIANS = tl.constexpr(float.fromhex("0x1.921fb6p-62"))  # 2π·2^-64 as two of float32
_RADIANS_REST = tl.constexpr(float.fromhex("-0x1.777a5cp-87"))


@triton.jit
def _word(turns, pair, index: tl.constexpr, PAIRS: tl.constexpr):
    """One of the words of 32 bits of each pair's frequency, [1, pairs]."""
    loaded = tl.load(turns + index * PAIRS + pair, mask=pair < PAIRS, other=0)[None, :]
    return loaded.to(tl.uint32, bitcast=True).to(tl.uint64)


@triton.jit
def _by_whole(p, f0, f1, f2):
    """p · fraction modulo 1 for p below 2^32: 64 bits, and 32 below them."""
    lowest = p * f0
    return (lowest >> 32) + p * f1 + ((p * f2) << 32), lowest & _LOWEST


@triton.jit
def _by_part(part, f0, f1, f2, whole):
    """part · 2^-64 · (whole + fraction) modulo 1, likewise."""
    upper = (f2 << 32) | f1
    lower = ((part * upper) >> 32) + (((part >> 32) * f0) >> 32)
    return tl.umulhi(part, upper) + part * whole + (lower >> 32), lower & _LOWEST


@triton.jit
def _turned(p, turns, pair, PAIRS: tl.constexpr):
    """|p| · frequency modulo 1 turn: 64 bits, and 32 below them."""
    f0, f1, f2 = _word(turns, pair, 0, PAIRS), _word(turns, pair, 1, PAIRS), _word(turns, pair, 2, PAIRS)
    size = tl.abs(p)
    if p.dtype.is_floating():
        floor = tl.floor(size)
        upper = (size - floor) * _WORD
        part = (upper.to(tl.uint64) << 32) | ((upper - tl.floor(upper)) * _WORD).to(tl.uint64)
        whole = _word(turns, pair, 3, PAIRS).to(tl.uint32).to(tl.int32, bitcast=True).to(tl.int64)
        high, low = _by_whole(floor.to(tl.uint64), f0, f1, f2)
        part_high, part_low = _by_part(part, f0, f1, f2, whole.to(tl.uint64, bitcast=True))
        low = low + part_low
        return high + part_high + (low >> 32), low & _LOWEST
    else:
        return _by_whole(size.to(tl.uint64), f0, f1, f2)


@triton.jit
def _radians(high, low):
    """The nearest quarter turn, and the angle from there as x + y."""
    quarter = (high + _EIGHTH) >> 62
    left = (high - (quarter << 62)).to(tl.int64, bitcast=True)
    large = left.to(tl.float32)
    small = (left - large.to(tl.int64)).to(tl.float32) + low.to(tl.float32) * (1.0 / _WORD)
    product = large * _RADIANS
    radians = tl.full([1, 1], _RADIANS, tl.float32)
    rest = tl.fma(large, radians, -product) + (large * _RADIANS_REST + small * _RADIANS)
    x, y = two_sum(product, rest)
    return quarter, x, y


@triton.jit
def _series(z, c1: tl.constexpr, c2: tl.constexpr, c3: tl.constexpr, c4: tl.constexpr):
    """c1 + z·(c2 + z·(c3 + z·c4)), each step rounded once."""
    one = tl.full([1, 1], 1.0, tl.float32)
    s = tl.fma(z, one * c4, one * c3)
    s = tl.fma(z, s, one * c2)
    return tl.fma(z, s, one * c1)


@triton.jit
def _times(head, tail, factor, factor_rest):
    """(head + tail) · (factor + factor_rest), rounded once but for what is small: with a factor of 1, head + tail."""
    product = head * factor
    return product + (tl.fma(head, factor, -product) + (tail * factor + head * factor_rest))


@triton.jit
def fixed_phases(p, turns, pair, PAIRS: tl.constexpr):
    """cos and sin at positions p, int64 or real, times the attention factor."""
    high, low = _turned(p, turns, pair, PAIRS)
    quarter, x, y = _radians(high, low)
    z = x * x
    # Taylor's series to x^9 and x^10, which leave less than 2^-28 of sin and cos up to π/4.
    s = _series(z, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880)
    first = tl.full([1, 1], 4 * PAIRS, tl.int32)
    factor = tl.load(turns + first).to(tl.float32, bitcast=True)
    factor_rest = tl.load(turns + first + 1).to(tl.float32, bitcast=True)
    sine = _times(x, tl.fma(z * x, s, tl.fma(-0.5 * z, y, y)), factor, factor_rest)
    c = _series(z, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800)
    half = 0.5 * z
    head = 1.0 - half
    cosine = _times(head, ((1.0 - head) - half) + tl.fma(z * z, c, -(x * y)), factor, factor_rest)
    odd = (quarter & 1) == 1
    cos, sin = tl.where(odd, sine, cosine), tl.where(odd, cosine, sine)
    cos = tl.where(((quarter + 1) & 2) == 2, -cos, cos)
    sin = tl.where(((quarter & 2) == 2) ^ (p < 0), -sin, sin)
    return cos, sin
