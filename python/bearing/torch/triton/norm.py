"""Launches of the kernels that normalise and turn heads."""

from __future__ import annotations

import torch
import triton.language as tl
from torch import Tensor

from .device import FUSION, on
from .geometry import geometry
from .launch import Plan, heads_lie_together, power_of_2
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
    plan = Plan.of(shape.pairs, batch, time, [heads], heads_lie_together(view), source.computes_in_double)
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
            BH=plan.tile, BP=plan.pairs, HEADS=plan.heads, num_warps=plan.warps, **FUSION,
        )  # fmt: skip
    return out, shares if d_y is None else shares.sum(0)
