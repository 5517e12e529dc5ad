"""Launches of the kernels that normalise and turn heads: of one tensor, or of queries and keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton.language as tl
from torch import Tensor

from .counts import cdiv, power_of_2
from .device import FUSION, kept, on
from .geometry import geometry
from .launch import PROGRAMS, THREADS, Source
from .norm_kernel import norm_both_kernel, norm_kernel
from .positions import placed
from .recipe import OfTensor, Ways, kind_of, kinds_of, new, template, ways
from .rotate import check_heads, heads_of, like
from .start import Started, is_wide, places_of


def norm_rotate(
    x: Tensor, weight: Tensor, eps: float, positions: Tensor | int, table: str, layout: str, d_y: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """x normalised and turned, and nothing; with d_y the gradients of x and of the weight, which are summed in a fixed
    order: over the tokens of a program, then over programs."""
    d_ys = None if d_y is None else (d_y,)
    (out,), (d_weight,) = norm_rotate_each((x,), (weight,), eps, positions, table, layout, d_ys)
    return out, d_weight


def norm_rotate_each(
    xs: Sequence[Tensor],
    weights: Sequence[Tensor],
    eps: float,
    positions: Tensor | int,
    table: str,
    layout: str,
    d_ys: Sequence[Tensor] | None = None,
) -> tuple[list[Tensor], list[Tensor]]:
    """The same of one tensor, or in one launch of two that agree in batch, time and type: to the same bits."""
    at, first = placed("norm_rotate", "positions", positions, xs[0].device)
    given = xs if d_ys is None else d_ys
    kinds, places = kinds_of((*xs, *given)), None if at is None else kind_of(at)
    recipe = _recipe(kinds, places, table, layout, float(eps), d_ys is not None)
    made, outs = recipe.ways.of("norm_rotate", at, first), [new(out) for out in recipe.outs]
    wide = torch.float64 if xs[0].dtype is torch.float64 else torch.float32
    if made is None:
        return outs, [torch.zeros(weight.shape[0], dtype=wide, device=weight.device) for weight in weights]
    shares = outs
    if d_ys is not None:
        shares = [torch.empty(n, weights[0].shape[0], dtype=wide, device=xs[0].device) for n in made.programs]
    each = zip(xs, outs, given, shares, weights, strict=True)
    # For each x, y, the gradient of y, shares of the weight's, and the weight.
    made.run([one for x, y, d, d_w, w in each for one in (x, y, d, d_w, w.detach().contiguous())], at, first)
    return outs, shares if d_ys is None else [one.sum(0) for one in shares]


class Launch:
    """A launch of a kernel with norms, except its tensors and the position that is counted from. weights: which of its tensors these are."""

    def __init__(
        self, kernel: Any, plans: Sequence[Plan], weights: Sequence[int], kept: tuple[Tensor, ...], sizes: tuple[int, ...],
        rest: tuple[Any, ...], **constants: Any,
    ) -> None:  # fmt: skip
        self.programs, self.weights = [plan.programs for plan in plans], weights
        self.kept, self.sizes, self.rest = kept, sizes, rest
        options = {"num_warps": plans[0].warps, **FUSION}
        self._started = Started(kernel, kept[0].device, sum(self.programs), constants, options)

    def run(self, tensors: Sequence[Tensor], at: Tensor | None, first: int) -> None:
        """tensors: all of the kernel's, in its order, up to positions."""
        given = *tensors, self.kept[0] if at is None else at
        args = *given, *self.kept, *self.sizes, first, *self.rest
        alike = *[tensors[i].dtype for i in self.weights], is_wide(first), places_of(given)
        with on(tensors[0]):
            self._started.run(alike, args)


class _Recipe(NamedTuple):
    """What calls have in common whose tensors agree in type, extents and strides."""

    outs: list[OfTensor]
    ways: Ways


@kept(256)
def _recipe(
    kinds: tuple[OfTensor, ...], places: OfTensor | None, table: str, layout: str, eps: float, backward: bool
) -> _Recipe:
    """kinds: of tensors, then of their gradients, or of tensors again; places: of positions on the device."""
    device, is_wide, count = kinds[0][3], kinds[0][2] is torch.float64, len(kinds) // 2
    templates = [template(one) for one in kinds]
    xs, shape, at = templates[:count], geometry(table, device, is_wide), None if places is None else template(places)
    outs, views = [like(x) for x in xs], [heads_of(x, layout) for x in xs]
    for x, view in zip(xs, views, strict=True):
        check_heads("norm_rotate", x, view, shape.head_dim)
    batch, _, time, dim = views[0].shape
    heads = [view.shape[1] for view in views]
    plans = [plan_of(shape.pairs, batch, time, n, backward) for n in heads]
    each = zip(views, *([heads_of(x, layout) for x in some] for some in (outs, templates[count:])), strict=True)
    strides = [step for three in each for one in three for step in one.stride()]
    tiles = {
        name + str(i) * (count > 1): value
        for i, plan in enumerate(plans)
        for name, value in (("BT", plan.tokens), ("BH", plan.tile), ("HEADS", plan.heads), ("RUNS", plan.runs))
    }

    def make(source: Source) -> Launch | None:
        if not any(plan.programs for plan in plans):
            return None
        cos, sin = (shape.turns[None, None],) * 2 if source.cos is None else (source.cos, source.sin)
        return Launch(
            norm_kernel if count == 1 else norm_both_kernel, plans, range(4, 5 * count, 5),
            (shape.turns, shape.axis, shape.places, cos, sin),
            (time, *heads, *(plan.programs for plan in plans[:-1]), shape.begin),
            (cos.shape[1], *strides, *((0,) * 3 if source.at is None else source.at.stride()), cos.stride(1)),
            EPS=eps, PAIRS=shape.pairs, PAIRING=shape.pairing, SOURCE=source.name, KEPT=source.cos is not None,
            AXES=shape.axes, GIVEN=at is not None, ARITHMETIC=tl.float64 if is_wide else tl.float32, DIM=dim,
            BR=power_of_2(dim - 2 * shape.pairs), BACKWARD=backward, BP=plans[0].pairs, **tiles,
        )  # fmt: skip

    made = ways("norm_rotate", table, shape, at, device, is_wide, (batch, time), make)
    return _Recipe([(*kind_of(out)[:3], device) for out in outs], made)


class Plan(NamedTuple):
    """How a launch is cut into programs, as launch.Plan. runs: of tokens, that a program works through."""

    tokens: int
    tile: int
    pairs: int
    heads: int
    runs: int
    warps: int
    programs: int


SHARES = 2048  # of the gradient of a weight, at most, unless each program has one run


def plan_of(pairs: int, batch: int, time: int, heads: int, backward: bool) -> Plan:
    """Small tiles, as threads of one warp meet for a head's norm, and others need not wait. In the backward a program has
    several runs, so that the shares of the weight's gradient are few."""
    wide, warps = power_of_2(pairs), 1 if backward else 2
    rows, group = max(1, 8 * (THREADS // 4) * warps // wide), max(1, heads)
    tokens = min(max(1, rows // power_of_2(heads)), power_of_2(time))
    runs = cdiv(time, tokens)
    while group > 1 and batch * runs * cdiv(heads, group) < PROGRAMS:
        group = (group + 1) // 2
    groups = cdiv(heads, group)
    each = max(1, min(runs, batch * runs * groups // SHARES)) if backward else 1
    tile = min(max(1, rows // tokens), power_of_2(group))
    programs = batch * cdiv(runs, each) * groups if heads else 0
    return Plan(tokens, tile, wide, group, each, warps, programs)
