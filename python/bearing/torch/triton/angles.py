"""cos and sin of position times frequency, with the bits that the library computes on the CPU.

An angle is counted in quarter turns, u = p·t, with t = θ·2/π as the sum of three doubles. The product is formed so exactly
that u minus its nearest integer is right to 2^-100. Every step is that of ``rope_angles-inl.h``, in the same order, and
each product and sum is rounded by itself.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .rounding import two_product, two_sum

_SHIFT = tl.constexpr(6755399441055744.0)  # 1.5·2^52: a double below 2^51 plus this has its nearest integer lowest
_FURTHEST = tl.constexpr(2147483648)  # positions go to ±2^31
_HALF_PI = tl.constexpr(float.fromhex("0x1.921fb54442d18p+0"))
_HALF_PI_REST = tl.constexpr(float.fromhex("0x1.1a62633145c07p-54"))
_TURNS = tl.constexpr(float.fromhex("0x1.45f306dc9c883p-1"))  # 2/π, as three doubles
_TURNS_REST = tl.constexpr(float.fromhex("-0x1.6b01ec5417056p-55"))
_TURNS_LAST = tl.constexpr(float.fromhex("-0x1.6447e493ad4cep-109"))


@triton.jit
def reduced(p, t0, t1, t2):
    """p·(t0 + t1 + t2) as quarter turns, whose lowest bits count them, and what is left: high + low."""
    product0, error0 = two_product(p, t0)
    product1, error1 = two_product(p, t1)
    turns = product0 + _SHIFT
    fraction = product0 - (turns - _SHIFT)
    sum0, rest0 = two_sum(fraction, error0)
    sum1, rest1 = two_sum(sum0, product1)
    high, low = two_sum(sum1, (rest0 + rest1) + (error1 + p * t2))
    return turns.to(tl.int64, bitcast=True), high, low


@triton.jit
def difference(a_turns, a_high, a_low, b_turns, b_high, b_low):
    """One reduced angle minus another, reduced again."""
    high, rest = two_sum(a_high, -b_high)
    extra = high + _SHIFT
    turns = (a_turns - b_turns) + extra.to(tl.int64, bitcast=True)
    high, low = two_sum(high - (extra - _SHIFT), rest + (a_low - b_low))
    return turns, high, low


@triton.jit
def _sine(x, y, z):
    s = -2.50507602534068634195e-08 + z * 1.58969099521155010221e-10
    s = 2.75573137070700676789e-06 + z * s
    s = -1.98412698298579493134e-04 + z * s
    s = 8.33333333332248946124e-03 + z * s
    cube = z * x
    tail = z * (0.5 * y - cube * s) - y
    return x - (tail - cube * -1.66666666666666324348e-01)


@triton.jit
def _cosine(x, y, z):
    c = 2.08757232129817482790e-09 + z * -1.13596475577881948265e-11
    c = -2.75573143513906633035e-07 + z * c
    c = 2.48015872894767294178e-05 + z * c
    c = -1.38888888888741095749e-03 + z * c
    c = z * (4.16666666666666019037e-02 + z * c)
    half_square = 0.5 * z
    head = 1.0 - half_square
    lost = (1.0 - head) - half_square
    return head + (lost + (z * c - x * y))


@triton.jit
def cos_sin(turns, high, low):
    """cos and sin of a reduced angle: the polynomials of fdlibm (Sun Microsystems, 1993) in the nearest quadrant."""
    half_pi = tl.full([1, 1], _HALF_PI, tl.float64)
    large, error = two_product(high, half_pi)
    small = error + (high * _HALF_PI_REST + low * _HALF_PI)
    x, y = two_sum(large, small)
    z = x * x
    sine = _sine(x, y, z)
    cosine = _cosine(x, y, z)
    odd = (turns & 1) == 1
    cos = tl.where(odd, sine, cosine)
    sin = tl.where(odd, cosine, sine)
    return tl.where(((turns + 1) & 2) == 2, -cos, cos), tl.where((turns & 2) == 2, -sin, sin)


@triton.jit
def angle(p, t0, t1, t2, AS_FLOAT32: tl.constexpr):
    """p·θ, reduced; as float32 in Hugging Face's order: float(p)·float(θ), rounded to float."""
    if AS_FLOAT32:
        product = (p.to(tl.float32).to(tl.float64) * t0).to(tl.float32).to(tl.float64)
        one = tl.full([1, 1], 1.0, tl.float64)
        return reduced(product, one * _TURNS, one * _TURNS_REST, one * _TURNS_LAST)
    else:
        return reduced(p, t0, t1, t2)


@triton.jit
def phases(p, t0, t1, t2, factor, AS_FLOAT32: tl.constexpr, dtype: tl.constexpr):
    """cos and sin at positions p, times the attention factor, rounded to dtype."""
    turns, high, low = angle(p, t0, t1, t2, AS_FLOAT32)
    cos, sin = cos_sin(turns, high, low)
    if AS_FLOAT32:
        cos = cos.to(tl.float32).to(tl.float64)
        sin = sin.to(tl.float32).to(tl.float64)
    return (cos * factor).to(dtype), (sin * factor).to(dtype)


@triton.jit
def only_within(p, value):
    """NaN where a position is past ±2^31: nothing on a device can raise."""
    if p.dtype.is_floating():
        return tl.where(tl.abs(p) <= _FURTHEST * 1.0, value, float("nan"))
    else:
        return tl.where((p >= -_FURTHEST) & (p <= _FURTHEST), value, float("nan"))
