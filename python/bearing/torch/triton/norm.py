"""Launches of the kernels that normalise and turn heads."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .device import FUSION, on
from .geometry import geometry
from .launch import Plan
from .norm_kernel import norm_kernel
from .rotate import at_of, check_heads, heads_of, like


def norm_rotate(
    x: Tensor, weight: Tensor, eps: float, positions: Tensor | int, table: str, layout: str, d_y: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """x normalised and turned, and nothing; with d_y the gradients of x and of the weight, which are summed in a fixed
    order: over the tokens of a program, then over programs."""
    view, shape, out = heads_of(x, layout), geometry(table, x.device), like(x)
    check_heads("norm_rotate", x, view, shape.head_dim)
    batch, heads, time, dim = view.shape
    at, first = at_of("norm_rotate", "positions", positions, shape.axes, (batch, time), x.device)
    wide = torch.float64 if x.dtype is torch.float64 else torch.float32
    plan = Plan.of(shape.pairs, batch, time, [heads]) if out.numel() else None
    shares = torch.zeros(plan.programs if plan and d_y is not None else 1, dim, dtype=wide, device=x.device)
    if plan is None:
        return out, shares[0]
    given, result = view if d_y is None else heads_of(d_y, layout), heads_of(out, layout)
    with on(x):
        norm_kernel[(plan.programs,)](
            view, result, given, shares, weight.detach().contiguous(), shape.turns if at is None else at, shape.turns,
            shape.axis, shape.places, time, heads, shape.begin, first,
            torch.tensor([eps], dtype=torch.float64, device=x.device), *view.stride(), *result.stride(), *given.stride(),
            *((0, 0, 0) if at is None else at.stride()),
            PAIRS=shape.pairs, PAIRING=shape.pairing, AS_FLOAT32=shape.as_float32, AXES=shape.axes, GIVEN=at is not None,
            ARITHMETIC=tl.float64 if wide is torch.float64 else tl.float32, DIM=dim,
            BR=triton.next_power_of_2(max(1, dim - 2 * shape.pairs)), BACKWARD=d_y is not None, BT=plan.tokens,
            BP=plan.pairs, HEADS=plan.heads, num_warps=plan.warps, **FUSION,
        )  # fmt: skip
    return out, shares.sum(0)
