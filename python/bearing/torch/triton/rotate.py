"""Rotation on GPUs: what :func:`bearing.torch.rotate` and its op call for tensors there."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ... import _core
from .device import kept
from .geometry import geometry, geometry_of_given
from .launch import Geometry, Pair, Source, launch, prepared
from .positions import at_of, placed
from .recipe import OfTensor, Ways, kind_of, kinds_of, new, template, ways


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
    if cos is not None and sin is not None:
        return _rotate_given(xs, positions, table, layout, transposed, cos, sin, in_place)
    device = xs[0].device
    at, first = placed("rotate", "positions", positions, device)
    recipe = _recipe(kinds_of(xs), None if at is None else kind_of(at), table, layout, transposed, in_place)
    launches = [(i, j, either.of("rotate", at, first)) for i, j, either in recipe.steps]
    outs = list(xs) if in_place else [new(kind) for kind in recipe.outs]
    for i, j, made in launches:
        if made:
            made.run((xs[i], outs[i], xs[j], outs[j], xs[i], outs[i]), None, at, None, first)
    return outs


class _Recipe(NamedTuple):
    """What calls have in common whose tensors agree in type, extents and strides."""

    outs: list[OfTensor]
    steps: list[tuple[int, int, Ways]]  # launches for two tensors, or for one, which is named twice


@kept(256)
def _recipe(
    kinds: tuple[OfTensor, ...],
    places: OfTensor | None,
    table: str,
    layout: str,
    transposed: bool,
    in_place: bool,
) -> _Recipe:
    """kinds: of tensors; places: of positions on the device."""
    device = kinds[0][3]
    xs, at = [template(one) for one in kinds], None if places is None else template(places)
    head_dim = geometry(table, device, kinds[0][2] is torch.float64).head_dim
    outs, pairs = _paired(xs, [one[3] for one in kinds], layout, head_dim, in_place)
    steps = []
    for i, j in together([x for x, _ in pairs]):
        x = pairs[i][0]
        wide = x.dtype is torch.float64
        shape, two = geometry(table, device, wide), None if i == j else pairs[j]
        make = functools.partial(prepared, pairs[i], two, None, shape, transposed=transposed)
        steps.append((i, j, ways("rotate", table, shape, at, device, wide, x.shape[::2], make)))
    return _Recipe([kind_of(out)[:3] + (device,) for out in outs], steps)


def _paired(
    xs: Sequence[Tensor], devices: Sequence[torch.device], layout: str, head_dim: int, in_place: bool
) -> tuple[list[Tensor], list[Pair]]:
    """What tensors are turned into, and the heads of both, after a check."""
    views = [heads_of(x, layout) for x in xs]
    for x, view, device in zip(xs, views, devices, strict=True):
        check_heads("rotate", x, view, head_dim)
        if device != devices[0]:
            raise TypeError(f"[rotate] tensors: must be on one device, got {devices[0]} and {device}")
    outs = list(xs) if in_place else [like(x) for x in xs]
    return outs, list(zip(views, views if in_place else [heads_of(out, layout) for out in outs], strict=True))


def _rotate_given(
    xs: Sequence[Tensor],
    positions: Tensor | int,
    table: str,
    layout: str,
    transposed: bool,
    cos: Tensor,
    sin: Tensor,
    in_place: bool,
) -> list[Tensor]:
    """rotate() by a table that was made of cosines and sines."""
    shape = geometry_of_given(table, xs[0].device)
    outs, pairs = _paired(xs, [x.device for x in xs], layout, shape.head_dim, in_place)
    for i, j in together([x for x, _ in pairs]):
        x = pairs[i][0]
        source = given_source(shape, positions, (x.shape[0], x.shape[2]), x, cos, sin)
        launch(pairs[i], None if i == j else pairs[j], None, shape, source, transposed=transposed)
    return outs


def given_source(
    shape: Geometry, positions: Tensor | int, sizes: Sequence[int], x: Tensor, cos: Tensor, sin: Tensor
) -> Source:
    """Numbers that a table was made of are looked up, and nothing else is known."""
    _check_rows(positions, sizes[1], cos.shape[0])
    at, first = at_of("rotate", "positions", positions, shape.axes, sizes, x.device)
    wide = torch.float64 if x.dtype is torch.float64 else torch.float32
    cos, sin = (n.detach().to(x.device, wide).contiguous()[None] for n in (cos, sin))
    return Source("table", at, first, cos=cos, sin=sin)


def _check_rows(positions: Tensor | int, time: int, rows: int) -> None:
    """Raises RangeError for positions on the host that a table has no rows for. Those on a GPU are not looked at."""
    if not isinstance(positions, Tensor):
        first, last = int(positions), int(positions) + time - 1
        wrong = [] if not time or 0 <= first <= last < rows else [last if 0 <= first < rows else first]
    elif positions.is_cpu and not positions.is_complex() and positions.dtype is not torch.bool:
        at = positions.detach().double()
        wrong = at[~((at >= 0) & (at < rows) & (at == at.round()))][:1].tolist()
    else:
        return
    if wrong:
        got = int(wrong[0]) if float(wrong[0]).is_integer() else f"{wrong[0]:g}"
        raise _core.RangeError(
            f"[rotate] positions: must be a position of the given table, which has 0 to {rows - 1}, got {got}"
        )


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


def together(xs: Sequence[Tensor]) -> Iterator[tuple[int, int]]:
    """Tensors by launches: two in one where they follow each other and agree in batch, time and type. One is named twice."""
    i = 0
    while i < len(xs):
        j = i + 1 if i + 1 < len(xs) and _alike(xs[i], xs[i + 1]) else i
        yield i, j
        i = j + 1


def _alike(x: Tensor, other: Tensor) -> bool:
    return x.dtype is other.dtype and x.shape[0] == other.shape[0] and x.shape[2] == other.shape[2]
