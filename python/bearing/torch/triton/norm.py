"""Launches of the kernels that normalise and turn heads."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from .device import FUSION, on
from .geometry import geometry
from .launch import PROGRAMS, THREADS, power_of_2
from .norm_kernel import norm_kernel
from .rotate import check_heads, heads_of, like, source_of


def norm_rotate(
    x: Tensor, weight: Tensor, eps: float, positions: Tensor | int, table: str, layout: str, d_y: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """x normalised and turned, and nothing; with d_y the gradients of x and of the weight, which are summed in a fixed
    order: over the tokens of a program, then over programs."""
    is_wide = x.dtype is torch.float64
    view, shape, out = heads_of(x, layout), geometry(table, x.device, is_wide), like(x)
    check_heads("norm_rotate", x, view, shape.head_dim)
    batch, heads, time, dim = view.shape
    source = source_of("norm_rotate", table, shape, positions, (batch, time), x)
    wide = torch.float64 if is_wide else torch.float32
    if not out.numel():
        return out, torch.zeros(dim, dtype=wide, device=x.device)
    plan = _plan(shape.pairs, batch, time, heads, d_y is not None)
    shares = out if d_y is None else torch.empty(plan.programs, dim, dtype=wide, device=x.device)
    given, result = view if d_y is None else heads_of(d_y, layout), heads_of(out, layout)
    at = shape.turns if source.at is None else source.at
    cos, sin = (shape.turns[None, None],) * 2 if source.cos is None else (source.cos, source.sin)
    with on(x):
        norm_kernel[(plan.programs,)](
            view, result, given, shares, weight.detach().contiguous(), at, shape.turns, shape.axis, shape.places, cos, sin,
            time, heads, shape.begin, source.first, cos.shape[1], *view.stride(), *result.stride(), *given.stride(),
            *((0, 0, 0) if source.at is None else source.at.stride()), cos.stride(1),
            EPS=float(eps), PAIRS=shape.pairs, PAIRING=shape.pairing, SOURCE=source.name, KEPT=source.cos is not None,
            AXES=shape.axes, GIVEN=source.at is not None, ARITHMETIC=tl.float64 if is_wide else tl.float32, DIM=dim,
            BR=power_of_2(dim - 2 * shape.pairs), BACKWARD=d_y is not None, BT=plan.tokens,
            BH=plan.tile, BP=plan.pairs, HEADS=plan.heads, RUNS=plan.runs, num_warps=plan.warps, **FUSION,
        )  # fmt: skip
    return out, shares if d_y is None else shares.sum(0)


class _Plan(NamedTuple):
    """How a launch is cut into programs, as launch.Plan. runs: of tokens, that a program works through."""

    tokens: int
    tile: int
    pairs: int
    heads: int
    runs: int
    warps: int
    programs: int


SHARES = 4096  # of the gradient of a weight, at most, unless each program has one run


def _plan(pairs: int, batch: int, time: int, heads: int, backward: bool) -> _Plan:
    """Small tiles, as threads of one warp meet for a head's norm, and others need not wait. In the backward a program has
    several runs, so that the shares of the weight's gradient are few."""
    wide, warps = power_of_2(pairs), 1 if backward else 2
    rows, group = max(1, 8 * (THREADS // 4) * warps // wide), heads
    tokens = min(max(1, rows // power_of_2(heads)), power_of_2(time))
    runs = triton.cdiv(time, tokens)
    while group > 1 and batch * runs * triton.cdiv(heads, group) < PROGRAMS:
        group = (group + 1) // 2
    groups = triton.cdiv(heads, group)
    each = max(1, min(runs, batch * runs * groups // SHARES)) if backward else 1
    tile = min(max(1, rows // tokens), power_of_2(group))
    return _Plan(tokens, tile, wide, group, each, warps, batch * triton.cdiv(runs, each) * groups)
