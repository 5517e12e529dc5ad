"""Queries and keys that are normalised and turned, keys and values into a paged cache: one launch."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton.language as tl
from torch import Tensor

from .counts import cdiv, power_of_2
from .device import kept
from .geometry import geometry
from .launch import Source, bytes_of
from .norm import Launch, plan_of
from .norm_kernel import norm_to_cache_kernel
from .positions import placed
from .recipe import OfTensor, Ways, kind_of, kinds_of, new, template, ways
from .rotate import check_heads, heads_of, like


def norm_rotate_to_cache(
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
    weights: tuple[Tensor, Tensor],
    eps: float,
) -> Tensor:
    """q normalised and rotated; k too, into its cache, and v copied into its own."""
    at, first = placed("rotate_to_cache", "positions", positions, q.device)
    places = None if at is None else kind_of(at)
    recipe = _recipe(kinds_of((q, k, v, k_cache, v_cache, slots)), places, form, layout, tuple(scales), float(eps))
    made, out = recipe.ways.of("rotate_to_cache", at, first), new(recipe.out)
    if made:
        q_weight, k_weight = (weight.detach().contiguous() for weight in weights)
        values = bytes_of(v), bytes_of(v_cache)
        made.run((q, out, q_weight, k, bytes_of(k_cache), k_weight, *values, slots), at, first)
    return out


class _Recipe(NamedTuple):
    """What calls have in common whose tensors agree in type, extents and strides."""

    out: OfTensor
    ways: Ways


@kept(64)
def _recipe(
    kinds: tuple[OfTensor, ...],
    places: OfTensor | None,
    form: str,
    layout: str,
    scales: tuple[float, float],
    eps: float,
) -> _Recipe:
    """kinds: of q, k, v, the caches and slots; places: of positions on the device."""
    device, is_wide = kinds[0][3], kinds[0][2] is torch.float64
    q, k, v, k_cache, v_cache, slots = (template(one) for one in kinds)
    shape, at = geometry(form, device, is_wide), None if places is None else template(places)
    for x in (q, k):
        check_heads("rotate_to_cache", x, heads_of(x, layout), shape.head_dim)
    out = like(q)
    views = [heads_of(x, layout) for x in (q, out, k, v)]
    (batch, time), dim, value_dim = slots.shape, q.shape[3], v.shape[3]
    heads = [x.shape[1] for x in (views[0], *views[2:])]
    pairs = (shape.pairs, shape.pairs, max(1, cdiv(value_dim, 2)))
    plans = [plan_of(some, batch, time, count, False) for some, count in zip(pairs, heads, strict=True)]
    both = *views[:3], k_cache, views[3], v_cache
    strides = [step for one in both for step in one.stride()]
    tiles = {
        f"{name}{i}": value
        for i, plan in enumerate(plans)
        for name, value in (("BT", plan.tokens), ("BH", plan.tile), ("HEADS", plan.heads))
    }

    def make(source: Source) -> Launch | None:
        programs = [plan.programs for plan in plans]
        if not any(programs):
            return None
        cos, sin = (shape.turns[None, None],) * 2 if source.cos is None else (source.cos, source.sin)
        constants = dict(
            EPS=eps, PAIRS=shape.pairs, PAIRING=shape.pairing, SOURCE=source.name, KEPT=source.cos is not None,
            AXES=shape.axes, GIVEN=at is not None, ARITHMETIC=tl.float64 if is_wide else tl.float32, DIM=dim,
            BR=power_of_2(dim - 2 * shape.pairs), BP=plans[0].pairs, BLOCK=k_cache.shape[2], VALUE_DIM=value_dim,
            BD=power_of_2(value_dim), **tiles,
        )  # fmt: skip
        at_steps = (0,) * 3 if source.at is None else source.at.stride()
        return Launch(
            norm_to_cache_kernel,
            plans,
            (2, 5),
            (shape.turns, shape.axis, shape.places, cos, sin),
            (time, *heads, *programs[:2], shape.begin),
            (cos.shape[1], *scales, *strides, *slots.stride(), *at_steps, cos.stride(1)),
            **constants,
        )

    made = ways("rotate_to_cache", form, shape, at, device, is_wide, (batch, time), make)
    return _Recipe((*kind_of(out)[:3], device), made)
