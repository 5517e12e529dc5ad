"""Rounding of results to the type of their tensor, and products with their errors."""

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
    else:
        return x.to(dtype)


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
