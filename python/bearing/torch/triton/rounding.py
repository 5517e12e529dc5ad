"""Rounding of results to the type of their tensor, and products with their errors.

Numbers of 8 bits (float8_e4m3fn: a sign, 4 bits of exponent, 3 of mantissa) come as bytes. They are read and made by
operations on their bits, as not every GPU has instructions for them.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .device import INTERPRETED

_INTERPRETED = tl.constexpr(INTERPRETED)


@triton.jit
def rounded(x, dtype: tl.constexpr):
    """x in a type, rounded to nearest, ties to even. Triton's interpreter cuts what it makes bfloat16 of, so there the bits
    are rounded by hand: a GPU's own instruction does the same."""
    if _INTERPRETED and dtype == tl.bfloat16:
        single = x.to(tl.float32)
        bits = single.to(tl.uint32, bitcast=True)
        up = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        quiet = (bits >> 16) | 0x40
        return tl.where(single == single, up, quiet).to(tl.uint16).to(tl.bfloat16, bitcast=True)
    elif dtype == tl.uint8:
        return _as_float8(x.to(tl.float32))
    else:
        return x.to(dtype)


@triton.jit
def wide(x, dtype: tl.constexpr):
    """Numbers that were loaded, in the type that they are computed in."""
    if x.dtype == tl.uint8:
        return _of_float8(x).to(dtype)
    else:
        return x.to(dtype)


@triton.jit
def scaled(x, scale, into: tl.constexpr, of: tl.constexpr):
    """x / scale where it goes from a wider type into bytes."""
    if into == tl.uint8 and of != tl.uint8:
        return tl.div_rn(x.to(tl.float32), scale)
    else:
        return x


@triton.jit
def _as_float8(x):
    """The byte of a float32, rounded to nearest, ties to even; what is larger than the largest number, 448, becomes that."""
    bits = x.to(tl.uint32, bitcast=True)
    size = tl.minimum(tl.abs(x), 448.0)
    normal = size.to(tl.uint32, bitcast=True)
    normal = ((normal + 0x7FFFF + ((normal >> 20) & 1)) >> 20) - (120 << 3)
    # Below 2^-6 steps are 2^-9, as those of float32 are from 2^14 on: that sum rounds.
    small = (size + 16384.0).to(tl.uint32, bitcast=True) & 0xFF
    byte = tl.where(size < 0.015625, small, normal)
    byte = tl.where(x == x, byte, 0x7F)
    return (byte | ((bits >> 24) & 0x80)).to(tl.uint8)


@triton.jit
def _of_float8(byte):
    """The float32 of a byte, exactly."""
    wide_byte = byte.to(tl.uint32)
    size = ((wide_byte & 0x7F) << 20).to(
        tl.float32, bitcast=True
    ) * 1.329227995784916e36  # 2^120: the exponents differ so
    size = tl.where((wide_byte & 0x7F) == 0x7F, float("nan"), size)
    return tl.where(wide_byte >= 0x80, -size, size)


@triton.jit
def two_sum(a, b):
    """a + b as its rounding and what that left over."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@triton.jit
def two_product(a, b):
    """a · b as its rounding and what that left over."""
    product = a * b
    return product, tl.fma(a, b, -product)
