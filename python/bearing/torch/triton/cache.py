"""Caches of keys on GPUs: moved in place, and written to as queries and keys are rotated."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from torch import Tensor

from ... import _core
from .device import kept
from .geometry import angles_of, factor_of, frequencies_of, geometry, geometry_of
from .launch import Geometry, Slots, Source, bytes_of, launch, prepared
from .positions import at_of, placed
from .recipe import OfTensor, Ways, kind_of, kinds_of, new, template, ways
from .rotate import check_heads, heads_of, like


def rebase(
    k: Tensor,
    from_: str,
    old_positions: Tensor | int,
    to: str,
    new_positions: Tensor | int,
    slots: Tensor | None,
    layout: str,
) -> None:
    """Keys that stood at old positions, in place as if they had been rotated by `to` at the new ones from the start."""
    before, after = _plain(from_, k.device), _moved(from_, to, k.device)
    view, paged, sizes = _cache("rebase", k, after.head_dim, slots, layout)
    new, first = at_of("rebase", "new_positions", new_positions, after.axes, sizes, k.device)
    old, old_first = at_of("rebase", "old_positions", old_positions, after.axes, sizes, k.device)
    name = "difference32" if after.angles == "as_float32" else "difference"
    source = Source(name, new, first, old=old, old_first=old_first, old_geometry=before)
    launch((view, view), None, None, after, source, slots=paged)


def shift(k: Tensor, form: str, by: int, slots: Tensor | None, layout: str) -> None:
    """Keys that are rotated already, moved by so many tokens in place."""
    shape = _unscaled(form, k.device, k.dtype is torch.float64)
    view, paged, sizes = _cache("shift", k, shape.head_dim, slots, layout)
    at_of("shift", "by", by, shape.axes, (1, 1), k.device)
    launch((view, view), None, None, shape, Source(shape.angles, None, by, step=0), slots=paged)


def rotate_to_cache(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    slots: Tensor,
    positions: Tensor | int,
    form: str,
    layout: str,
    scales: tuple[float, float],
) -> Tensor:
    """q rotated; k rotated into its cache and v copied into its own, all in one launch."""
    at, first = placed("rotate_to_cache", "positions", positions, q.device)
    places = None if at is None else kind_of(at)
    recipe = _recipe(kinds_of((q, k, v, k_cache, v_cache, slots)), places, form, layout, tuple(scales))
    made, out = recipe.ways.of("rotate_to_cache", at, first), new(recipe.out)
    if made:
        made.run([bytes_of(x) for x in (q, out, k, k_cache, v, v_cache)], slots, at, None, first)
    return out


class _Recipe(NamedTuple):
    """What calls of rotate_to_cache have in common whose tensors agree in type, extents and strides."""

    out: OfTensor
    ways: Ways


@kept(64)
def _recipe(
    kinds: tuple[OfTensor, ...], places: OfTensor | None, form: str, layout: str, scales: tuple[float, float]
) -> _Recipe:
    """kinds: of q, k, v, the caches and slots; places: of positions on the device."""
    device, wide = kinds[0][3], kinds[0][2] is torch.float64
    q, k, v, k_cache, v_cache, slots = (template(one) for one in kinds)
    shape = geometry(form, device, wide)
    for x in (q, k):
        check_heads("rotate_to_cache", x, heads_of(x, layout), shape.head_dim)
    out = like(q)
    queries, result, keys, values = (heads_of(x, layout) for x in (q, out, k, v))
    make = functools.partial(
        prepared, (queries, result), (keys, k_cache), (values, v_cache), shape,
        slots=Slots(slots, k_cache.shape[2], moves=False), scales=scales,
    )  # fmt: skip
    at = None if places is None else template(places)
    made = ways("rotate_to_cache", form, shape, at, device, wide, slots.shape, make)
    return _Recipe((*kind_of(out)[:3], device), made)


def _cache(
    function: str, k: Tensor, head_dim: int, slots: Tensor | None, layout: str
) -> tuple[Tensor, Slots | None, tuple[int, int]]:
    """A cache as kernels take it, the slots, and batch and time of its tokens."""
    if slots is None:
        view = heads_of(k, layout)
        check_heads(function, k, view, head_dim, cache=True)
        return view, None, (view.shape[0], view.shape[2])
    check_heads(function, k, k, head_dim, cache=True)
    return k.detach(), Slots(slots, k.shape[2], moves=True), (slots.shape[0], slots.shape[1])


@kept(64)
def _plain(form: str, device: torch.device) -> Geometry:
    """The geometry of a difference, which is taken in double."""
    return geometry_of(frequencies_of(form), device)


@kept(64)
def _moved(from_: str, to: str, device: torch.device) -> Geometry:
    """The geometry after a move, whose factor is what its cosines gain over those before."""
    before, after = frequencies_of(from_), frequencies_of(to)
    for name in ("head_dim", "rotary_dim", "begin", "axes", "pairing", "blocks", "axis"):
        if getattr(before, name) != getattr(after, name):
            raise _core.ShapeError(
                f"[rebase] to: must have the same {name} as from_, {getattr(before, name)}, got {getattr(after, name)}"
            )
    return geometry_of(after, device, factor=factor_of(after) / factor_of(before))


@kept(64)
def _unscaled(form: str, device: torch.device, wide: bool) -> Geometry:
    """The geometry of a shift: the attention factor is in the keys already. Raises what the library's own shift does."""
    frequencies = frequencies_of(form)
    _core.shift(frequencies, 0, torch.empty(0, frequencies.head_dim))
    return geometry_of(frequencies, device, angles_of(form, wide), 1.0)
