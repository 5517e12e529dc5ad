"""Positions of a call, where kernels read them: checked, on the device, and laid out by axes, sequences and tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ... import _core

FURTHEST = 2**31


def at_of(
    function: str, name: str, positions: Tensor | int, axes: int, sizes: Sequence[int], device: torch.device
) -> tuple[Tensor | None, int]:
    """Positions [axes, batch, time] on a device, or none and the first of them. sizes: batch and time."""
    at, first = placed(function, name, positions, device)
    if at is None:
        check_range(function, name, first, sizes[1])
        return None, first
    return spread(function, name, at, axes, sizes), 0


def check_range(function: str, name: str, first: int, time: int) -> None:
    last = first + time - 1
    if time and not (-FURTHEST <= first and last <= FURTHEST):
        raise _core.RangeError(f"[{function}] {name}: must be from -2^31 to 2^31, got {first} to {last}")


def placed(function: str, name: str, positions: Tensor | int, device: torch.device) -> tuple[Tensor | None, int]:
    """Positions on a device in a type that kernels take, or none and the first of them."""
    if not isinstance(positions, Tensor):
        return None, int(positions)
    at, is_real = positions.detach(), positions.is_floating_point()
    if at.is_complex() or at.dtype is torch.bool:
        return at, 0  # spread() refuses them
    if at.is_cpu and at.numel() and not bool((at.double().abs() <= FURTHEST).all()):
        raise _core.RangeError(f"[{function}] {name}: must be from -2^31 to 2^31, got {float(at.abs().max())}")
    if at.dtype not in (torch.int32, torch.int64) and not is_real:
        at = at.to(torch.int64)
    return at.to(device), 0


def spread(function: str, name: str, at: Tensor, axes: int, sizes: Sequence[int]) -> Tensor:
    """Positions as [axes, batch, time]. sizes: batch and time."""
    batch, time = sizes
    if at.dim() > 3 or at.is_complex() or at.dtype is torch.bool:
        raise _core.ShapeError(
            f"[{function}] {name}: must be integers or reals [time], [batch, time] or [axes, batch, time], "
            f"got {at.dtype} {list(at.shape)}"
        )
    at = at[(None,) * (3 - at.dim())]
    if at.shape[0] not in (1, axes):
        words = "axis" if axes == 1 else "axes, or 1 for all of them"
        raise _core.ShapeError(f"[{function}] {name}: must have {axes} {words}, got {at.shape[0]}")
    if at.shape[1] not in (1, batch):
        raise _core.ShapeError(
            f"[{function}] {name}: must have {batch} sequence{'s' * (batch != 1)}, got {at.shape[1]}"
        )
    if at.shape[2] != time:
        raise _core.ShapeError(f"[{function}] {name}: must have {time} token{'s' * (time != 1)}, got {at.shape[2]}")
    return at.expand(axes, batch, time)
