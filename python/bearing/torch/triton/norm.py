"""Launches of the kernels that normalise and turn heads."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton.language as tl
from torch import Tensor

from .counts import cdiv, power_of_2
from .device import FUSION, kept, on
from .geometry import geometry
from .launch import PROGRAMS, THREADS, Source
from .norm_kernel import norm_kernel
from .positions import placed
from .recipe import OfTensor, Ways, kind_of, kinds_of, new, template, ways
from .rotate import check_heads, heads_of, like
from .start import Started, is_wide, places_of


def norm_rotate(
    x: Tensor, weight: Tensor, eps: float, positions: Tensor | int, table: str, layout: str, d_y: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """x normalised and turned, and nothing; with d_y the gradients of x and of the weight, which are summed in a fixed
    order: over the tokens of a program, then over programs."""
    at, first = placed("norm_rotate", "positions", positions, x.device)
    kinds, places = kinds_of((x, x if d_y is None else d_y)), None if at is None else kind_of(at)
    recipe = _recipe(kinds, places, table, layout, float(eps), d_y is not None)
    made, out = recipe.ways.of("norm_rotate", at, first), new(recipe.out)
    wide = torch.float64 if x.dtype is torch.float64 else torch.float32
    if not out.numel():
        return out, torch.zeros(weight.shape[0], dtype=wide, device=x.device)
    shares = out if d_y is None else torch.empty(made.programs, weight.shape[0], dtype=wide, device=x.device)
    made.run((x, out, x if d_y is None else d_y, shares, weight.detach().contiguous()), at, first)
    return out, shares if d_y is None else shares.sum(0)


class _Launch:
    """A launch of the kernel, except its tensors and the position that is counted from."""

    def __init__(
        self, plan: _Plan, kept: tuple[Tensor, ...], sizes: tuple[int, ...], rest: tuple[int, ...], **constants: Any
    ) -> None:
        self.programs, self.kept, self.sizes, self.rest = plan.programs, kept, sizes, rest
        options = {"num_warps": plan.warps, **FUSION}
        self._started = Started(norm_kernel, kept[0].device, plan.programs, constants, options)

    def run(self, tensors: tuple[Tensor, ...], at: Tensor | None, first: int) -> None:
        """tensors: x, y, the gradient of y, shares of the weight's, and the weight."""
        given = *tensors, self.kept[0] if at is None else at
        args = *given, *self.kept, *self.sizes, first, *self.rest
        alike = tensors[4].dtype, is_wide(first), places_of(given)
        with on(tensors[0]):
            self._started.run(alike, args)


class _Recipe(NamedTuple):
    """What calls have in common whose tensors agree in type, extents and strides."""

    out: OfTensor
    ways: Ways


@kept(256)
def _recipe(
    kinds: tuple[OfTensor, ...], places: OfTensor | None, table: str, layout: str, eps: float, backward: bool
) -> _Recipe:
    """kinds: of x and of the gradient, or x again; places: of positions on the device."""
    device, is_wide = kinds[0][3], kinds[0][2] is torch.float64
    x, given = (template(one) for one in kinds)
    view, shape, out = heads_of(x, layout), geometry(table, device, is_wide), like(x)
    check_heads("norm_rotate", x, view, shape.head_dim)
    batch, heads, time, dim = view.shape
    at = None if places is None else template(places)
    plan = _plan(shape.pairs, max(1, batch), max(1, time), max(1, heads), backward)
    strides = [step for one in (view, heads_of(out, layout), heads_of(given, layout)) for step in one.stride()]

    def make(source: Source) -> _Launch:
        cos, sin = (shape.turns[None, None],) * 2 if source.cos is None else (source.cos, source.sin)
        return _Launch(
            plan, (shape.turns, shape.axis, shape.places, cos, sin), (time, heads, shape.begin),
            (cos.shape[1], *strides, *((0,) * 3 if source.at is None else source.at.stride()), cos.stride(1)),
            EPS=eps, PAIRS=shape.pairs, PAIRING=shape.pairing, SOURCE=source.name, KEPT=source.cos is not None,
            AXES=shape.axes, GIVEN=at is not None, ARITHMETIC=tl.float64 if is_wide else tl.float32, DIM=dim,
            BR=power_of_2(dim - 2 * shape.pairs), BACKWARD=backward, BT=plan.tokens, BH=plan.tile, BP=plan.pairs,
            HEADS=plan.heads, RUNS=plan.runs,
        )  # fmt: skip

    made = ways("norm_rotate", table, shape, at, device, is_wide, (batch, time), make)
    return _Recipe((*kind_of(out)[:3], device), made)


class _Plan(NamedTuple):
    """How a launch is cut into programs, as launch.Plan. runs: of tokens, that a program works through."""

    tokens: int
    tile: int
    pairs: int
    heads: int
    runs: int
    warps: int
    programs: int


SHARES = 2048  # of the gradient of a weight, at most, unless each program has one run


def _plan(pairs: int, batch: int, time: int, heads: int, backward: bool) -> _Plan:
    """Small tiles, as threads of one warp meet for a head's norm, and others need not wait. In the backward a program has
    several runs, so that the shares of the weight's gradient are few."""
    wide, warps = power_of_2(pairs), 1 if backward else 2
    rows, group = max(1, 8 * (THREADS // 4) * warps // wide), heads
    tokens = min(max(1, rows // power_of_2(heads)), power_of_2(time))
    runs = cdiv(time, tokens)
    while group > 1 and batch * runs * cdiv(heads, group) < PROGRAMS:
        group = (group + 1) // 2
    groups = cdiv(heads, group)
    each = max(1, min(runs, batch * runs * groups // SHARES)) if backward else 1
    tile = min(max(1, rows // tokens), power_of_2(group))
    return _Plan(tokens, tile, wide, group, each, warps, batch * cdiv(runs, each) * groups)
