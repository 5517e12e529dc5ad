"""Queries and keys normalised by their root mean square and rotated, as Qwen3's and Gemma 3's are: one pass on a GPU."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from .. import _core
from .cache import Frequencies, text_of
from .dispatch import Op
from .encoding import table_of
from .functional import Layout, Positions, check_device, positions_of
from .ops import arithmetic_of, in_order_of
from .triton import device

# ruff: noqa: UP045  (torch.library reads annotations at run time: Optional[Tensor] on every Python)


def norm_rotate(
    x: Tensor,
    weight: Tensor,
    *,
    rope: Frequencies,
    eps: float,
    positions: Positions = None,
    layout: Layout = "bhtd",
) -> Tensor:
    """Returns R(p) (weight · x / sqrt(mean(x²) + eps)): each head normalised over all its dimensions, then rotated.

    x [batch, heads, time, head_dim]: queries or keys.
    weight [head_dim]: of the norm. Where a model multiplies by 1 + w (Gemma 3), give that sum.
    rope: as :func:`bearing.torch.rotate` takes it, except for a table of given numbers.
    eps: as the model's config states it.
    positions, layout: as :func:`bearing.torch.rotate` takes them.

    Arithmetic is float32 (float64 for float64) to the end, rounded once: models in transformers round to x's type between the
    steps. Gradients: of x and the weight, the latter summed in an order that never changes.
    """
    check_device("norm_rotate", x, weight, kernels=True)
    if weight.shape != x.shape[-1:] or weight.device != x.device:
        raise _core.ShapeError(
            f"[norm_rotate] weight: must be [{x.shape[-1]}] on {x.device}, got {list(weight.shape)} on {weight.device}"
        )
    at, first = positions_of("norm_rotate", "positions", positions, x.shape[0] if x.dim() == 4 else 1)
    return _norm(x, weight, eps, at, first, text_of("norm_rotate", "rope", rope), layout)


def _norm_now(
    x: Tensor, weight: Tensor, eps: float, positions: Optional[Tensor], first: int, table: str, layout: str
) -> Tensor:
    at = first if positions is None else positions
    if device.takes(x):
        from .triton.norm import norm_rotate as norm_there

        return norm_there(x, weight, eps, at, table, layout)[0]
    normed = _unit(x, eps)[0] * weight.detach().to(arithmetic_of(x.dtype))
    return _core.rotate_to(table_of(table, normed.dtype), normed, at, layout=layout).to(x.dtype)


def _norm_backward_now(
    d_y: Tensor,
    x: Tensor,
    weight: Tensor,
    eps: float,
    positions: Optional[Tensor],
    first: int,
    table: str,
    layout: str,
) -> tuple[Tensor, Tensor]:
    at = first if positions is None else positions
    if device.takes(x):
        from .triton.norm import norm_rotate as norm_there

        d_x, d_weight = norm_there(x, weight, eps, at, table, layout, d_y)
        return d_x, d_weight.to(weight.dtype)
    unit, scale = _unit(x, eps)
    wide = unit.dtype
    g = _core.rotate_backward_to(table_of(table, wide), d_y.detach().to(wide), at, layout=layout)
    d_weight = (g * unit).flatten(0, -2).sum(0)
    g = g * weight.detach().to(wide)
    d_x = scale * (g - unit * (g * unit).mean(-1, keepdim=True))
    return d_x.to(x.dtype), d_weight.to(weight.dtype)


def _unit(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """x divided by its root mean square, and what it was multiplied by, in the call's arithmetic."""
    wide = x.detach().to(arithmetic_of(x.dtype))
    scale = (wide.square().mean(-1, keepdim=True) + eps).rsqrt()
    return wide * scale, scale


_norm = Op("norm_rotate", _norm_now)
_norm_backward = Op("norm_rotate_backward", _norm_backward_now)


@_norm.register_fake
def _(x, weight, eps, positions, first, table, layout):
    return in_order_of(x)


@_norm_backward.register_fake
def _(d_y, x, weight, eps, positions, first, table, layout):
    return in_order_of(x), torch.empty_like(weight)


def _context(ctx, inputs, output):
    x, weight, ctx.eps, positions, *ctx.rest = inputs
    ctx.save_for_backward(x, weight, positions)


def _backward(ctx, d_y):
    x, weight, positions = ctx.saved_tensors
    return (*_norm_backward(d_y, x, weight, ctx.eps, positions, *ctx.rest), *[None] * 5)


_norm.register_autograd(_backward, setup_context=_context)
