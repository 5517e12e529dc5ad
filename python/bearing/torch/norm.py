"""Queries and keys normalised by their root mean square and rotated, as Qwen3's and Gemma 3's are: one pass on a GPU."""

from __future__ import annotations

from typing import Optional, overload

import torch
from torch import Tensor

from .. import _core
from .cache import Frequencies, text_of
from .dispatch import Op
from .encoding import table_of
from .functional import Layout, Positions, check_device, check_layout, positions_of
from .in_place import tokens_of
from .normed import check_weight, in_order, normed, unit_of
from .ops import in_order_of
from .triton import device
from .words import in_words_of

# ruff: noqa: UP045  (torch.library reads annotations at run time: Optional[Tensor] on every Python)


@overload
def norm_rotate(
    x: Tensor,
    weight: Tensor,
    *,
    rope: Frequencies,
    eps: float,
    positions: Positions = None,
    layout: Layout = "bhtd",
) -> Tensor: ...
@overload
def norm_rotate(
    x: Tensor,
    weight: Tensor,
    *,
    k: Tensor,
    k_weight: Tensor,
    rope: Frequencies,
    eps: float,
    positions: Positions = None,
    layout: Layout = "bhtd",
) -> tuple[Tensor, Tensor]: ...
def norm_rotate(
    x: Tensor,
    weight: Tensor,
    *,
    k: Tensor | None = None,
    k_weight: Tensor | None = None,
    rope: Frequencies,
    eps: float,
    positions: Positions = None,
    layout: Layout = "bhtd",
) -> Tensor | tuple[Tensor, Tensor]:
    """Returns R(p) (weight · x / sqrt(mean(x²) + eps)): each head normalised over all its dimensions, then rotated.

    x [batch, heads, time, head_dim]: queries or keys, with any strides.
    weight [head_dim]: of the norm. Where a model multiplies by 1 + w (Gemma 3), give that sum.
    k [batch, kv_heads, time, head_dim]: keys, of the type of x, which are then the queries. Both come back, (x, k), with the bits
        of two calls.
    k_weight [head_dim]: of the keys' norm.
    rope: as :func:`bearing.torch.rotate` takes it, except for a table of given numbers.
    eps: as the model's config states it.
    positions, layout: as :func:`bearing.torch.rotate` takes them.

    Arithmetic is float32 (float64 for float64) to the end, rounded once: models in transformers round to x's type between the
    steps. Gradients: of x, k and the weights, the latter summed in an order that never changes.

    On GPUs queries and keys are one launch, and one in the backward, beside the sums of the weights' gradients.
    """
    both = k is not None and k_weight is not None
    if not both and (k is not None or k_weight is not None):
        given, other = ("k_weight", "k") if k is None else ("k", "k_weight")
        raise TypeError(f"[norm_rotate] {other}: must be given beside {given}, got None")
    check_device("norm_rotate", x, weight, *((k, k_weight) if both else ()), kernels=True)
    check_layout("norm_rotate", layout)
    check_weight("norm_rotate", "weight", weight, x)
    if both:
        _check_keys(k, x, layout)
        check_weight("norm_rotate", "k_weight", k_weight, k)
    at, first = positions_of("norm_rotate", "positions", positions, x.shape[0] if x.dim() == 4 else 1)
    rest = eps, at, first, text_of("norm_rotate", "rope", rope), layout
    return _both(x, weight, k, k_weight, *rest) if both else _norm(x, weight, *rest)


def _check_keys(k: Tensor, x: Tensor, layout: str) -> None:
    """Refuses keys that do not go with the queries."""
    if k.dtype is not x.dtype or k.device != x.device:
        raise TypeError(f"[norm_rotate] k: must be {x.dtype} on {x.device}, as x is, got {k.dtype} on {k.device}")
    if tokens_of(k, layout) != tokens_of(x, layout):
        raise _core.ShapeError(
            f"[norm_rotate] k: must have the axes, batch, time and head_dim of x, {list(x.shape)}, got {list(k.shape)}"
        )


_rotate_to = in_words_of("norm_rotate", "rotate_to")(_core.rotate_to)


def _norm_now(
    x: Tensor, weight: Tensor, eps: float, positions: Optional[Tensor], first: int, table: str, layout: str
) -> Tensor:
    at = first if positions is None else positions
    if device.takes(x):
        from .triton.norm import norm_rotate as norm_there

        return norm_there(x, weight, eps, at, table, layout)[0]
    wide = normed(x, weight, eps)
    return in_order(_rotate_to(table_of(table, wide.dtype), wide, at, layout=layout), x)


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
    unit, scale = unit_of(x, eps)
    wide = unit.dtype
    g = _core.rotate_backward_to(table_of(table, wide), d_y.detach().to(wide), at, layout=layout)
    d_weight = (g * unit).flatten(0, -2).sum(0)
    g = g * weight.detach().to(wide)
    d_x = scale * (g - unit * (g * unit).mean(-1, keepdim=True))
    return in_order(d_x, x), d_weight.to(weight.dtype)


def _both_now(
    x: Tensor,
    weight: Tensor,
    k: Tensor,
    k_weight: Tensor,
    eps: float,
    positions: Optional[Tensor],
    first: int,
    table: str,
    layout: str,
) -> tuple[Tensor, Tensor]:
    rest = eps, positions, first, table, layout
    if device.takes(x):
        from .triton.norm import norm_rotate_each as each_there

        y, turned = each_there(
            (x, k), (weight, k_weight), eps, first if positions is None else positions, table, layout
        )[0]
        return y, turned
    return _norm_now(x, weight, *rest), _norm_now(k, k_weight, *rest)


def _both_backward_now(
    d_y: Tensor,
    d_turned: Tensor,
    x: Tensor,
    weight: Tensor,
    k: Tensor,
    k_weight: Tensor,
    eps: float,
    positions: Optional[Tensor],
    first: int,
    table: str,
    layout: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of x, its weight, k and its weight."""
    rest = eps, positions, first, table, layout
    if device.takes(x):
        from .triton.norm import norm_rotate_each as each_there

        at = first if positions is None else positions
        (d_x, d_k), sums = each_there((x, k), (weight, k_weight), eps, at, table, layout, (d_y, d_turned))
        return d_x, sums[0].to(weight.dtype), d_k, sums[1].to(k_weight.dtype)
    return (
        *_norm_backward_now(d_y, x, weight, *rest),
        *_norm_backward_now(d_turned, k, k_weight, *rest),
    )


_norm = Op("norm_rotate", _norm_now)
_norm_backward = Op("norm_rotate_backward", _norm_backward_now)
_both = Op("norm_rotate_both", _both_now, function="norm_rotate")
_both_backward = Op("norm_rotate_both_backward", _both_backward_now, function="norm_rotate")


@_norm.register_fake
def _(x, weight, eps, positions, first, table, layout):
    return in_order_of(x)


@_norm_backward.register_fake
def _(d_y, x, weight, eps, positions, first, table, layout):
    return in_order_of(x), torch.empty_like(weight)


@_both.register_fake
def _(x, weight, k, k_weight, eps, positions, first, table, layout):
    return in_order_of(x), in_order_of(k)


@_both_backward.register_fake
def _(d_y, d_turned, x, weight, k, k_weight, eps, positions, first, table, layout):
    return in_order_of(x), torch.empty_like(weight), in_order_of(k), torch.empty_like(k_weight)


def _context(ctx, inputs, output):
    x, weight, ctx.eps, positions, *ctx.rest = inputs
    ctx.save_for_backward(x, weight, positions)


def _backward(ctx, d_y):
    x, weight, positions = ctx.saved_tensors
    return (*_norm_backward(d_y, x, weight, ctx.eps, positions, *ctx.rest), *[None] * 5)


_norm.register_autograd(_backward, setup_context=_context)


def _both_context(ctx, inputs, output):
    x, weight, k, k_weight, ctx.eps, positions, *ctx.rest = inputs
    ctx.save_for_backward(x, weight, k, k_weight, positions)
    ctx.set_materialize_grads(False)


def _both_gradients(ctx, d_y, d_turned):
    x, weight, k, k_weight, positions = ctx.saved_tensors
    rest, found = (ctx.eps, positions, *ctx.rest), [None] * 4
    if d_y is not None and d_turned is not None:
        found = _both_backward(d_y, d_turned, x, weight, k, k_weight, *rest)
    elif d_y is not None:
        found[:2] = _norm_backward(d_y, x, weight, *rest)
    elif d_turned is not None:
        found[2:] = _norm_backward(d_turned, k, k_weight, *rest)
    return (*found, *[None] * 5)


_both.register_autograd(_both_gradients, setup_context=_both_context)
