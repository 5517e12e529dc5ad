"""Caches of keys on GPUs: moved in place, and written to as queries and keys are rotated."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from ... import _core
from ..encoding import table_of
from .geometry import geometry, geometry_of
from .launch import Geometry, Slots, Source, launch
from .rotate import at_of, check_heads, heads_of, like


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
    before, after = geometry(from_, k.device), _moved(from_, to, k.device)
    view, paged, sizes = _cache("rebase", k, after.head_dim, slots, layout)
    new = _given("new_positions", new_positions, after.axes, sizes, k.device)
    old = _given("old_positions", old_positions, after.axes, sizes, k.device)
    source = Source("difference32" if after.as_float32 else "difference", new, old=old, old_geometry=before)
    launch((view, view), None, None, after, source, slots=paged)


def shift(k: Tensor, form: str, by: int, slots: Tensor | None, layout: str) -> None:
    """Keys that are rotated already, moved by so many tokens in place."""
    shape = _unscaled(form, k.device)
    view, paged, sizes = _cache("shift", k, shape.head_dim, slots, layout)
    at_of("shift", "by", by, shape.axes, (1, 1), k.device)
    everywhere = torch.full((1, 1, 1), by, dtype=torch.int64, device=k.device).expand(shape.axes, *sizes)
    launch(
        (view, view), None, None, shape, Source("as_float32" if shape.as_float32 else "exact", everywhere), slots=paged
    )


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
    shape = geometry(form, q.device)
    for x in (q, k):
        check_heads("rotate_to_cache", x, heads_of(x, layout), shape.head_dim)
    out = like(q)
    queries, keys, values = (heads_of(x, layout) for x in (q, k, v))
    at, first = at_of("rotate_to_cache", "positions", positions, shape.axes, tuple(slots.shape), q.device)
    launch(
        (queries, heads_of(out, layout)),
        (keys, k_cache.detach()),
        (values, v_cache.detach()),
        shape,
        Source("as_float32" if shape.as_float32 else "exact", at, first),
        slots=Slots(slots.to(torch.int64), k_cache.shape[2], moves=False),
        scales=scales,
    )
    return out


def _cache(
    function: str, k: Tensor, head_dim: int, slots: Tensor | None, layout: str
) -> tuple[Tensor, Slots | None, tuple[int, int]]:
    """A cache as kernels take it, the slots, and batch and time of its tokens."""
    if slots is None:
        view = heads_of(k, layout)
        check_heads(function, k, view, head_dim, cache=True)
        return view, None, (view.shape[0], view.shape[2])
    check_heads(function, k, k, head_dim, cache=True)
    return k.detach(), Slots(slots.to(torch.int64), k.shape[2], moves=True), (slots.shape[0], slots.shape[1])


def _given(name: str, positions: Tensor | int, axes: int, sizes: tuple[int, int], device: torch.device) -> Tensor:
    at, first = at_of("rebase", name, positions, axes, sizes, device)
    counted = at if at is not None else torch.arange(first, first + sizes[1], device=device)
    return counted.expand(axes, *sizes)


@functools.lru_cache(maxsize=64)
def _moved(from_: str, to: str, device: torch.device) -> Geometry:
    """The geometry after a move, whose factor is what its cosines gain over those before."""
    before, after = (table_of(form, torch.float32).frequencies for form in (from_, to))
    for name in ("head_dim", "rotary_dim", "begin", "axes", "pairing", "blocks", "axis"):
        if getattr(before, name) != getattr(after, name):
            raise _core.ShapeError(
                f"[rebase] to: must have the same {name} as from_, {getattr(before, name)}, got {getattr(after, name)}"
            )
    gained = _factor(after) / _factor(before)
    return _with_factor(geometry_of(after, device), gained)


@functools.lru_cache(maxsize=64)
def _unscaled(form: str, device: torch.device) -> Geometry:
    """The attention factor is in the keys already."""
    return _with_factor(geometry(form, device), 1.0)


def _factor(frequencies: _core.RopeFrequencies) -> float:
    factor = frequencies.attention_factor
    return torch.tensor(factor, dtype=torch.float32).item() if frequencies.angles == "as_float32" else factor


def _with_factor(shape: Geometry, factor: float) -> Geometry:
    turns = shape.turns.clone()
    turns[-1] = factor
    return shape._replace(turns=turns)
