"""Rotation on GPUs: what :func:`bearing.torch.rotate` and its op call for tensors there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ... import _core
from .geometry import geometry, geometry_of_given, kept_rows
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
    views, device = [heads_of(x, layout) for x in xs], xs[0].device
    given = None if cos is None else geometry_of_given(table, device)
    head_dim = (given or geometry(table, device)).head_dim
    for x, view in zip(xs, views, strict=True):
        check_heads("rotate", x, view, head_dim)
        if x.device != device:
            raise TypeError(f"[rotate] tensors: must be on one device, got {device} and {x.device}")
    outs = list(xs) if in_place else [like(x) for x in xs]
    written = views if in_place else [heads_of(out, layout) for out in outs]
    for one, *other in together(list(zip(views, written, strict=True))):
        x = one[0]
        shape = given or geometry(table, device, x.dtype is torch.float64)
        sizes = x.shape[0], x.shape[2]
        if cos is None or sin is None:
            source = source_of("rotate", table, shape, positions, sizes, x)
        else:
            source = given_source(shape, positions, sizes, x, cos, sin)
        launch(one, other[0] if other else None, None, shape, source, transposed=transposed)
    return outs


def source_of(
    function: str, form: str, shape: Geometry, positions: Tensor | int, sizes: Sequence[int], x: Tensor
) -> Source:
    """Rows that the table keeps are looked up; others are computed, to the same bits. sizes: batch and time."""
    at, first = at_of(function, "positions", positions, shape.axes, sizes, x.device)
    cos, sin = kept_rows(form, x.device, x.dtype is torch.float64) or (None, None)
    if cos is None or at is not None:
        return Source(shape.angles, at, first, cos=cos, sin=sin)
    if 0 <= first and first + sizes[1] <= cos.shape[1]:
        return Source("table", at, first, cos=cos, sin=sin)
    return Source(shape.angles, at, first)


def given_source(
    shape: Geometry, positions: Tensor | int, sizes: Sequence[int], x: Tensor, cos: Tensor, sin: Tensor
) -> Source:
    """Numbers that a table was made of are looked up, and nothing else is known."""
    at, first = at_of("rotate", "positions", positions, shape.axes, sizes, x.device)
    rows = cos.shape[0]
    if at is None and first + sizes[1] > rows:
        raise _core.RangeError(
            f"[rotate] positions: must be from 0 to {rows - 1}, the last of the table, got {first + sizes[1] - 1}"
        )
    wide = torch.float64 if x.dtype is torch.float64 else torch.float32
    cos, sin = (n.detach().to(x.device, wide).contiguous()[None] for n in (cos, sin))
    return Source("table", at, first, cos=cos, sin=sin)


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
    if at.dtype not in (torch.int32, torch.int64) and not at.is_floating_point():
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


def together(pairs: Sequence[Pair]) -> Iterator[list[Pair]]:
    """Tensors by launches: two in one where they follow each other and agree in batch, time and type."""
    rest = list(pairs)
    while rest:
        first = rest.pop(0)
        yield [first, rest.pop(0)] if rest and _alike(first[0], rest[0][0]) else [first]


def _alike(x: Tensor, other: Tensor) -> bool:
    return x.dtype is other.dtype and x.shape[0] == other.shape[0] and x.shape[2] == other.shape[2]
