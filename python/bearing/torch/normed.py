"""Heads normalised by their root mean square, in PyTorch's operations, and a check of the norm's weight."""

from __future__ import annotations

from torch import Tensor

from .. import _core
from .ops import arithmetic_of, in_order_of


def normed(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """weight · x / sqrt(mean(x²) + eps) in the call's arithmetic."""
    return unit_of(x, eps)[0] * weight.detach().to(arithmetic_of(x.dtype))


def unit_of(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """x divided by its root mean square, and what it was multiplied by, in the call's arithmetic."""
    wide = x.detach().to(arithmetic_of(x.dtype))
    scale = (wide.square().mean(-1, keepdim=True) + eps).rsqrt()
    return wide * scale, scale


def in_order(y: Tensor, x: Tensor) -> Tensor:
    """y in the type of x and in the order of memory that a result has of x, which fake tensors promise."""
    out = in_order_of(x)
    return y if y.dtype is out.dtype and y.stride() == out.stride() else out.copy_(y)


def check_weight(function: str, name: str, weight: Tensor, x: Tensor) -> None:
    """Raises ShapeError unless the weight is [head_dim] on the device of x."""
    if weight.shape != x.shape[-1:] or weight.device != x.device:
        raise _core.ShapeError(
            f"[{function}] {name}: must be [{x.shape[-1]}] on {x.device}, got {list(weight.shape)} on {weight.device}"
        )
