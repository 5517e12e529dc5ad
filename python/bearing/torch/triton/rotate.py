"""Rotation on GPUs: what :func:`bearing.torch.rotate` and its op call for tensors there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ... import _core
from .device import kept
from .geometry import geometry, geometry_of_given, kept_rows
from .launch import Geometry, Launch, Source, launch, prepared

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
    if cos is not None and sin is not None:
        return _rotate_given(xs, positions, table, layout, transposed, cos, sin, in_place)
    device = xs[0].device
    at, first = placed("rotate", "positions", positions, device)
    recipe = _recipe(kinds_of(xs), None if at is None else kinds_of([at])[0], table, layout, transposed, in_place)
    if at is None:
        for step in recipe.steps:
            check_range("rotate", "positions", first, step.time)
    outs = (
        list(xs)
        if in_place
        else [
            torch.empty_strided(shape, stride, dtype=x.dtype, device=device)
            for x, (shape, stride) in zip(xs, recipe.outs, strict=True)
        ]
    )
    for i, j, time, rows, looked_up, computed in recipe.steps:
        made = looked_up if has_rows(rows, at, first, time) else computed
        if made:
            here = made.kept[0] if at is None else at
            made.run((xs[i], outs[i], xs[j], outs[j], xs[i], outs[i]), xs[i], here, here, first)
    return outs


# What a launch depends on: extents, strides, type and device.
OfTensor = tuple[Sequence[int], Sequence[int], torch.dtype, torch.device]


def kinds_of(xs: Sequence[Tensor]) -> tuple[OfTensor, ...]:
    return tuple([(x.shape, x.stride(), x.dtype, x.device) for x in xs])


def like_these(kind: OfTensor) -> Tensor:
    """A tensor without numbers."""
    return torch.empty_strided(kind[0], kind[1], dtype=kind[2], device="meta")


class _Step(NamedTuple):
    """A launch for two tensors, or for one, which is named twice."""

    one: int
    two: int
    time: int
    rows: int  # that the table keeps
    looked_up: Launch | None  # with these rows
    computed: Launch | None


class _Recipe(NamedTuple):
    """What calls have in common whose tensors agree in type, extents and strides."""

    outs: list[tuple[Sequence[int], Sequence[int]]]
    steps: list[_Step]


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
    xs, at = [like_these(one) for one in kinds], None if places is None else like_these(places)
    head_dim = geometry(table, device).head_dim
    views = [heads_of(x, layout) for x in xs]
    for x, view, one in zip(xs, views, kinds, strict=True):
        check_heads("rotate", x, view, head_dim)
        if one[3] != device:
            raise TypeError(f"[rotate] tensors: must be on one device, got {device} and {one[3]}")
    outs = xs if in_place else [like(x) for x in xs]
    pairs = list(zip(views, views if in_place else [heads_of(out, layout) for out in outs], strict=True))
    steps = []
    for i, j in together(views):
        batch, _, time, _ = views[i].shape
        wide = views[i].dtype is torch.float64
        shape, two = geometry(table, device, wide), None if i == j else pairs[j]
        there = None if at is None else spread("rotate", "positions", at, shape.axes, (batch, time))
        rows, sources = sources_of(table, shape, there, device, wide)
        looked_up, computed = (
            prepared(pairs[i], two, None, shape, source, transposed=transposed) for source in sources
        )
        steps.append(_Step(i, j, time, rows, looked_up, computed))
    return _Recipe([(out.shape, out.stride()) for out in outs], steps)


def sources_of(
    table: str, shape: Geometry, at: Tensor | None, device: torch.device, wide: bool
) -> tuple[int, tuple[Source, Source]]:
    """How many rows a table keeps; and the sources of calls that look these up and of those that do not."""
    cos, sin = kept_rows(table, device, wide) or (None, None)
    # Where positions are on the device, the kernel sees which of them have rows.
    name = "table" if at is None and cos is not None else shape.angles
    rows = 0 if cos is None else cos.shape[1]
    return rows, (Source(name, at, cos=cos, sin=sin), Source(shape.angles, at))


def has_rows(rows: int, at: Tensor | None, first: int, time: int) -> bool:
    """Whether a call looks rows up."""
    return rows > 0 and (at is not None or 0 <= first <= rows - time)


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
    views, device = [heads_of(x, layout) for x in xs], xs[0].device
    shape = geometry_of_given(table, device)
    for x, view in zip(xs, views, strict=True):
        check_heads("rotate", x, view, shape.head_dim)
        if x.device != device:
            raise TypeError(f"[rotate] tensors: must be on one device, got {device} and {x.device}")
    outs = list(xs) if in_place else [like(x) for x in xs]
    pairs = list(zip(views, views if in_place else [heads_of(out, layout) for out in outs], strict=True))
    for i, j in together(views):
        x = views[i]
        source = given_source(shape, positions, (x.shape[0], x.shape[2]), x, cos, sin)
        launch(pairs[i], None if i == j else pairs[j], None, shape, source, transposed=transposed)
    return outs


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
        raise _core.ShapeError(f"[{function}] {name}: must have {batch} sequences, got {at.shape[1]}")
    if at.shape[2] != time:
        raise _core.ShapeError(f"[{function}] {name}: must have {time} tokens, got {at.shape[2]}")
    return at.expand(axes, batch, time)


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
