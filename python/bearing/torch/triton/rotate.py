"""Rotation on GPUs: what :func:`bearing.torch.rotate` and its op call for tensors there."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ... import _core
from ..encoding import spec_of_table
from .geometry import geometry, geometry_of
from .launch import Geometry, Pair, Source, launch

FURTHEST = 2**31  # of positions


def rotate(
    xs: Sequence[Tensor],
    positions: Tensor | int,
    table: str,
    layout: str,
    transposed: bool,
    cos: Tensor | None = None,
    sin: Tensor | None = None,
    in_place: bool = False,
) -> list[Tensor]:
    """R x of every x, or its transpose, as the op's own work does on the CPU: new tensors in the order of memory of x, or
    with in_place the same tensors."""
    views = [heads_of(x, layout) for x in xs]
    device = xs[0].device
    if cos is None:
        shape = geometry(table, device)
    else:
        shape = geometry_of(_core.resolve(spec_of_table(table)), device)
    for x, view in zip(xs, views, strict=True):
        check_heads("rotate", x, view, shape.head_dim)
        if x.device != device:
            raise TypeError(f"[rotate] tensors: must be on one device, got {device} and {x.device}")
    source = source_of(shape, positions, views[0], cos, sin)
    outs = list(xs) if in_place else [like(x) for x in xs]
    turn([(view, heads_of(out, layout)) for view, out in zip(views, outs, strict=True)], shape, source, transposed)
    return outs


def source_of(shape: Geometry, positions: Tensor | int, x: Tensor, cos: Tensor | None, sin: Tensor | None) -> Source:
    """Given numbers are looked up. Others are computed at the positions, to the same bits as the library's table."""
    at, first = at_of("rotate", "positions", positions, shape.axes, (x.shape[0], x.shape[2]), x.device)
    if cos is None:
        return Source("as_float32" if shape.as_float32 else "exact", at, first)
    rows = cos.shape[0]
    if at is None and first + x.shape[2] > rows:
        raise _core.RangeError(
            f"[rotate] positions: must be from 0 to {rows - 1}, the last of the table, got {first + x.shape[2] - 1}"
        )
    wide = torch.float64 if x.dtype is torch.float64 else torch.float32
    numbers = [n.detach().to(x.device, wide).contiguous()[None] for n in (cos, sin)]
    return Source("table", at, first, *numbers)


def at_of(
    function: str, name: str, positions: Tensor | int, axes: int, sizes: Sequence[int], device: torch.device
) -> tuple[Tensor | None, int]:
    """Positions [axes, batch, time] on a device, or none and the first of them. sizes: batch and time."""
    batch, time = sizes
    if not isinstance(positions, Tensor):
        first = int(positions)
        if time and not (-FURTHEST <= first and first + time - 1 <= FURTHEST):
            raise _core.RangeError(
                f"[{function}] {name}: must be from -2^31 to 2^31, got {first} to {first + time - 1}"
            )
        return None, first
    at = positions.detach()
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
        raise _core.ShapeError(f"[{function}] {name}: must have {batch} sequences, got {at.shape[1]}")
    if at.shape[2] != time:
        raise _core.ShapeError(f"[{function}] {name}: must have {time} tokens, got {at.shape[2]}")
    if at.is_cpu and at.numel() and not bool((at.double().abs() <= FURTHEST).all()):
        raise _core.RangeError(f"[{function}] {name}: must be from -2^31 to 2^31, got {float(at.abs().max())}")
    if not at.is_floating_point():
        at = at.to(torch.int64)
    return at.to(device).expand(axes, batch, time), 0


def heads_of(x: Tensor, layout: str) -> Tensor:
    """x as [batch, heads, time, head_dim], without its history."""
    x = x.detach()
    if not 1 <= x.dim() <= 4:
        return x
    x = x[(None,) * (4 - x.dim())]
    return x.transpose(1, 2) if layout == "bthd" else x


def check_heads(function: str, x: Tensor, view: Tensor, head_dim: int, cache: bool = False) -> None:
    """Refuses what is no tensor of heads of so many dimensions. cache: 8 bits will do."""
    if view.dim() != 4 or view.shape[-1] != head_dim:
        raise _core.ShapeError(
            f"[{function}] x: must have head_dim {head_dim} on its last of at most 4 axes, got {list(x.shape)}"
        )
    if x.dtype not in (torch.float64, torch.float32, torch.bfloat16, torch.float16) and not (
        cache and x.dtype is torch.float8_e4m3fn
    ):
        raise TypeError(f"[{function}] x: must be float64, float32, bfloat16 or float16, got {x.dtype}")


def like(x: Tensor) -> Tensor:
    """A new tensor in x's order of memory: dense, as it is or with two axes swapped."""
    other = x.transpose(-3, -2) if x.dim() > 2 else x
    if x.is_contiguous() or not other.is_contiguous():
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    return torch.empty(other.shape, dtype=x.dtype, device=x.device).transpose(-3, -2)


def turn(pairs: Sequence[Pair], shape: Geometry, source: Source, transposed: bool = False) -> None:
    """Turns tensors, two in one launch where they agree in batch, time and type."""
    rest = list(pairs)
    while rest:
        first = rest.pop(0)
        second = rest.pop(0) if rest and _alike(first[0], rest[0][0]) else None
        launch(first, second, None, shape, source, transposed=transposed)


def _alike(x: Tensor, other: Tensor) -> bool:
    return x.dtype is other.dtype and x.shape[0] == other.shape[0] and x.shape[2] == other.shape[2]
