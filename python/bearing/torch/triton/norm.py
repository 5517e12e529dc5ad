"""Launches of the kernels that normalise and turn heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from .device import FUSION, kept, on
from .geometry import geometry
from .launch import PROGRAMS, THREADS, Source, power_of_2
from .norm_kernel import norm_kernel
from .rotate import (
    OfTensor,
    check_heads,
    check_range,
    has_rows,
    heads_of,
    kinds_of,
    like,
    like_these,
    placed,
    sources_of,
    spread,
)
from .start import Compiled, start


def norm_rotate(
    x: Tensor, weight: Tensor, eps: float, positions: Tensor | int, table: str, layout: str, d_y: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """x normalised and turned, and nothing; with d_y the gradients of x and of the weight, which are summed in a fixed
    order: over the tokens of a program, then over programs."""
    at, first = placed("norm_rotate", "positions", positions, x.device)
    given = x if d_y is None else d_y
    places = None if at is None else kinds_of([at])[0]
    recipe = _recipe(kinds_of((x, given)), places, table, layout, float(eps), d_y is not None)
    if at is None:
        check_range("norm_rotate", "positions", first, recipe.time)
    out = torch.empty_strided(*recipe.out, dtype=x.dtype, device=x.device)
    wide = torch.float64 if x.dtype is torch.float64 else torch.float32
    if not out.numel():
        return out, torch.zeros(weight.shape[0], dtype=wide, device=x.device)
    shares = out if d_y is None else torch.empty(recipe.plan.programs, weight.shape[0], dtype=wide, device=x.device)
    made = recipe.looked_up if has_rows(recipe.rows, at, first, recipe.time) else recipe.computed
    made.run(recipe.plan.programs, (x, out, given, shares, weight.detach().contiguous()), at, first)
    return out, shares if d_y is None else shares.sum(0)


class _Launch:
    """A launch of the kernel, except its tensors and the position that is counted from."""

    def __init__(
        self, kept: tuple[Tensor, ...], sizes: tuple[int, ...], rest: tuple[int, ...], warps: int, **constants: Any
    ) -> None:
        self.kept, self.sizes, self.rest, self.constants = kept, sizes, rest, constants
        self.options = {"num_warps": warps, **FUSION}
        self._compiled: Compiled = {}

    def run(self, programs: int, tensors: tuple[Tensor, ...], at: Tensor | None, first: int) -> None:
        given = *tensors, self.kept[0] if at is None else at
        args = *given, *self.kept, *self.sizes, first, *self.rest
        alike = (tensors[4].dtype, first.bit_length() > 31, *[x.data_ptr() % 16 for x in given])
        with on(tensors[0]):
            start(self._compiled, alike, norm_kernel, programs, args, self.constants, self.options)


class _Recipe(NamedTuple):
    """What calls have in common whose tensors agree in type, extents and strides."""

    out: tuple[Sequence[int], Sequence[int]]
    time: int
    rows: int  # that the table keeps
    plan: _Plan
    looked_up: _Launch  # with these rows
    computed: _Launch


@kept(256)
def _recipe(
    kinds: tuple[OfTensor, ...], places: OfTensor | None, table: str, layout: str, eps: float, backward: bool
) -> _Recipe:
    """kinds: of x and of the gradient, or x again; places: of positions on the device."""
    device, is_wide = kinds[0][3], kinds[0][2] is torch.float64
    x, given = (like_these(one) for one in kinds)
    view, shape, out = heads_of(x, layout), geometry(table, device, is_wide), like(x)
    check_heads("norm_rotate", x, view, shape.head_dim)
    batch, heads, time, dim = view.shape
    at = None if places is None else spread("norm_rotate", "positions", like_these(places), shape.axes, (batch, time))
    rows, sources = sources_of(table, shape, at, device, is_wide)
    plan = _plan(shape.pairs, max(1, batch), max(1, time), max(1, heads), backward)

    def made(source: Source) -> _Launch:
        cos, sin = (
            (shape.turns[None, None],) * 2 if source.cos is None or source.sin is None else (source.cos, source.sin)
        )
        strides = (one.stride() for one in (view, heads_of(out, layout), heads_of(given, layout)))
        return _Launch(
            (shape.turns, shape.axis, shape.places, cos, sin),
            (time, heads, shape.begin),
            (cos.shape[1], *(step for one in strides for step in one), *((0,) * 3 if at is None else at.stride()), cos.stride(1)),
            plan.warps, EPS=eps, PAIRS=shape.pairs, PAIRING=shape.pairing, SOURCE=source.name, KEPT=source.cos is not None,
            AXES=shape.axes, GIVEN=at is not None, ARITHMETIC=tl.float64 if is_wide else tl.float32, DIM=dim,
            BR=power_of_2(dim - 2 * shape.pairs), BACKWARD=backward, BT=plan.tokens, BH=plan.tile, BP=plan.pairs,
            HEADS=plan.heads, RUNS=plan.runs,
        )  # fmt: skip

    looked_up, computed = map(made, sources)
    return _Recipe((out.shape, out.stride()), time, rows, plan, looked_up, computed)


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
    runs = triton.cdiv(time, tokens)
    while group > 1 and batch * runs * triton.cdiv(heads, group) < PROGRAMS:
        group = (group + 1) // 2
    groups = triton.cdiv(heads, group)
    each = max(1, min(runs, batch * runs * groups // SHARES)) if backward else 1
    tile = min(max(1, rows // tokens), power_of_2(group))
    return _Plan(tokens, tile, wide, group, each, warps, batch * triton.cdiv(runs, each) * groups)
