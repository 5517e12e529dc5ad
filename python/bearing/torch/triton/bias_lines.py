"""Where a bias by distance lies on a line within a tile of attention: there two numbers stand for those of all places, and
nothing is looked up. One that is proportional to the distance does everywhere on one side, buckets do past the longest distance,
and a curve does where it is nearly straight.

A tile is told by the distance of its first query and its first key, by index: a multiple of `step`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from . import bias_numbers
from .counts import cdiv, power_of_2
from .start import start

NEAR: tl.constexpr = tl.constexpr(bias_numbers.NEAR)
LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)


class Lines(NamedTuple):
    """The lines of tiles of one size. numbers: float32 [heads, count, 2], log2 e times the number at the first query and the
    first key, and its change with each key; the latter is NaN where it is none. least: the tile of the first line."""

    numbers: Tensor
    least: int
    step: int
    count: int


def lines(bias: Tensor, zero: int, q_len: int, k_len: int, rows: int, cols: int, straight: bool = False) -> Lines:
    """Of a bias [heads, distances] whose number `zero` is that of a query and the key at its own index. straight: it is known
    to be a line, or a sum of such, whose rounding may be larger than a line's: then every tile has one."""
    step = math.gcd(rows, cols)
    least = -(cdiv(q_len, rows) - 1) * rows
    count = ((cdiv(k_len, cols) - 1) * cols - least) // step + 1
    heads, distances = bias.shape
    # A stride that is a multiple of 16: Triton compiles anew for others.
    found = torch.empty(heads, -(-count // 8) * 8, 2, device=bias.device, dtype=torch.float32)[:, :count]
    args = bias, found, bias.stride(0), distances, zero + least, found.stride(0)
    sizes = {"ROWS": rows, "COLS": cols, "STEP": step, "WIDTH": power_of_2(rows + cols), "STRAIGHT": straight}
    how = {"num_warps": 1, "enable_fp_fusion": True}
    start(lines_kernel, found.device, (count, heads), args, how, **sizes)
    return Lines(found, least, step, count)


@triton.jit(do_not_specialize=["distances", "first"])
def lines_kernel(
    bias, found, bias_stride, distances, first, stride, ROWS: tl.constexpr, COLS: tl.constexpr, STEP: tl.constexpr, WIDTH: tl.constexpr,
    STRAIGHT: tl.constexpr,
):  # fmt: skip
    """A program for each tile and head. Distances that nobody asks for lie on any line."""
    n = tl.program_id(0)
    h = tl.program_id(1).to(tl.int64)
    t = tl.arange(0, WIDTH)
    at = first + n * STEP - (ROWS - 1) + t
    there = (t < ROWS + COLS - 1) & (at >= 0) & (at < distances)
    x = tl.load(bias + h * bias_stride + at, mask=there, other=0.0)
    low = tl.min(tl.where(there, t, WIDTH))
    high = tl.max(tl.where(there, t, -1))
    x_low = tl.sum(tl.where(t == low, x, 0.0))
    x_high = tl.sum(tl.where(t == high, x, 0.0))
    slope = tl.div_rn(x_high - x_low, tl.maximum(1, high - low).to(tl.float32))
    far = tl.abs(x - (x_low + slope * (t - low).to(tl.float32)))
    bound = NEAR * tl.maximum(tl.abs(x_low), tl.abs(x_high))
    near = tl.max((there & ((far <= bound) == 0)).to(tl.int32)) == 0
    to = found + h * stride + n * 2
    tl.store(to, (x_low + slope * (ROWS - 1 - low).to(tl.float32)) * LOG2E)
    tl.store(to + 1, tl.where(near | STRAIGHT, slope * LOG2E, float("nan")))
