"""Gates that a model computes for its biases, in PyTorch's own operations."""

from __future__ import annotations

import torch
from torch import Tensor

from ... import _core
from ..base import no_autocast

__all__ = ["wavlm_gate"]


def wavlm_gate(x: Tensor, weight: Tensor, bias: Tensor, constant: Tensor) -> Tensor:
    """Computes WavLM's gate [batch, heads, time] for its bias by distance, differentiable any number of times, on any device.

    ``gate = r (s constant − 1) + 2``, r and s the sigmoids of the sums of the first and of the last four of
    ``x weight^T + bias``

    x [batch, heads, time, head_dim]: the layer's input, cut into heads.
    weight [8, head_dim], bias [8]: gru_rel_pos_linear's.
    constant [heads]: gru_rel_pos_const, without its other axes.

    Computed in float64 for float64, else in float32, and rounded to x's type once, also under autocast and with weights of
    another type. Raises ShapeError unless the shapes fit, TypeError for tensors that are not of a floating type.
    """
    _check(x, weight, bias, constant)
    wide = torch.float32 if x.dtype in (torch.bfloat16, torch.float16) else x.dtype
    rows, weight, bias, constant = (one.to(wide) for one in (x, weight, bias, constant))
    with no_autocast(x):
        sums = torch.einsum("bhtd,sd->bhts", rows, weight.unflatten(0, (2, 4)).sum(1)) + bias.view(2, 4).sum(1)
        r, s = torch.sigmoid(sums).unbind(-1)
        return (r * (s * constant[:, None] - 1) + 2).to(x.dtype)


def _check(x: Tensor, weight: Tensor, bias: Tensor, constant: Tensor) -> None:
    given = {"x": x, "weight": weight, "bias": bias, "constant": constant}
    for name, one in given.items():
        if not isinstance(one, Tensor):
            raise TypeError(f"[wavlm_gate] {name}: must be a tensor, got {one!r}")
        if not one.is_floating_point():
            got = str(one.dtype).removeprefix("torch.")
            raise TypeError(f"[wavlm_gate] {name}: must be of a floating type, got {got}")
    if x.dim() != 4:
        raise _core.ShapeError(f"[wavlm_gate] x: must have 4 axes, got shape {list(x.shape)}")
    shapes = {
        "weight": ("[8, head_dim]", [8, x.shape[3]]),
        "bias": ("[8]", [8]),
        "constant": ("[heads]", [x.shape[1]]),
    }
    for name, (axes, shape) in shapes.items():
        one = given[name]
        if list(one.shape) != shape:
            raise _core.ShapeError(f"[wavlm_gate] {name}: must be {axes} = {shape}, got {list(one.shape)}")
