"""Launches of the kernel that turns heads: what it needs to know of a rotation, as numbers on the device, and how the work
is cut into programs. It knows nothing of the library, so that it serves alone too (``hub.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from .device import FUSION, on
from .rotate_kernel import turn_kernel

# Of pairs that a program holds: 8 for each of 128 threads, or of AMD's 256.
NUMBERS = 2048 if torch.version.hip else 1024
PROGRAMS = 512  # at least, if there are heads enough: some for each processor of a large device


class Geometry(NamedTuple):
    """Which elements of a head turn, and by which frequencies."""

    head_dim: int
    pairs: int
    begin: int
    pairing: str  # "half", "interleaved", or "places": the elements are listed
    as_float32: bool
    axes: int
    turns: Tensor  # [3 · pairs + 1] float64: quarter turns per token as three doubles, then the attention factor
    axis: Tensor  # [pairs] int32: which coordinate turns the pair
    places: Tensor  # [2 · pairs] int32: where a pair's elements stand, counted from begin


class Source(NamedTuple):
    """Where a launch takes its cosines and sines from."""

    name: str
    at: Tensor | None  # [axes, batch, time]
    first: int = 0
    cos: Tensor | None = None  # [batch or 1, rows, pairs]
    sin: Tensor | None = None
    old: Tensor | None = None  # for a difference of angles: the positions before …
    old_geometry: Geometry | None = None  # … and the frequencies before


class Slots(NamedTuple):
    """Rows of a paged cache [blocks, heads, block_size, head_dim] that tokens stand at: block · block_size + row."""

    at: Tensor  # [batch, time]; −1: nowhere
    block: int
    moves: bool  # the first tensor is the cache, read and written; else the second and the third are written to one


Pair = tuple[Tensor, Tensor]  # from and to, each [batch, heads, time, head_dim]


def launch(
    one: Pair,
    two: Pair | None,
    copied: Pair | None,
    shape: Geometry,
    source: Source,
    *,
    transposed: bool = False,
    slots: Slots | None = None,
    scales: tuple[float, float] = (1.0, 1.0),
) -> None:
    """Turns one tensor, or two, and copies a third, in one launch. All agree in batch, time and type. A cache may have
    float8_e4m3fn for them: then scales divide what goes there from the second and the third."""
    x, y = one
    batch, time = slots.at.shape if slots and slots.moves else (x.shape[0], x.shape[2])
    counts = [0 if pair is None else pair[0].shape[1] for pair in (one, two, copied)]
    rest, dim = x.shape[3] - 2 * shape.pairs, 0 if copied is None else copied[0].shape[3]
    if 0 in (batch, time, sum(counts)):
        return
    plan = Plan.of(shape.pairs, batch, time, counts)
    pairs = [tuple(map(_bytes, pair or one)) for pair in (one, two, copied)]
    before = source.old_geometry or shape
    at = shape.turns if source.at is None else source.at
    cos, sin = (shape.turns[None, None],) * 2 if source.cos is None else (source.cos, source.sin)
    moves, block = (slots.moves, slots.block) if slots else (False, 0)
    with on(x):
        turn_kernel[(plan.programs,)](
            *(tensor for pair in pairs for tensor in pair), slots.at if slots else pairs[0][0], at,
            at if source.old is None else source.old, shape.turns, before.turns, shape.axis, shape.places, cos, sin,
            time, *counts, shape.begin, source.first, cos.shape[1], *scales,
            *(step for pair in pairs for tensor in pair for step in tensor.stride()),
            *_strides(slots and slots.at, 2), *_strides(source.at, 3), *_strides(source.old, 3),
            cos.stride(0) if cos.shape[0] > 1 else 0, cos.stride(1),
            PAIRS=shape.pairs, PAIRING=shape.pairing, SOURCE=source.name, OLD_FLOAT32=before.as_float32,
            AXES=shape.axes, GIVEN=source.at is not None, TRANSPOSED=transposed,
            ARITHMETIC=tl.float64 if x.dtype is torch.float64 else tl.float32,
            REST=0 if x.data_ptr() == y.data_ptr() else rest, BR=triton.next_power_of_2(max(1, rest)),
            DIM=dim, BD=triton.next_power_of_2(max(1, dim)),
            X0_BLOCK=block if moves else 0, Y0_BLOCK=block if moves else 0, Y_BLOCK=0 if moves else block,
            BT=plan.tokens, BP=plan.pairs, HEADS=plan.heads, num_warps=plan.warps, **FUSION,
        )  # fmt: skip


def _bytes(x: Tensor) -> Tensor:
    return x.view(torch.uint8) if x.dtype is torch.float8_e4m3fn else x


def _strides(tensor: Tensor | None, axes: int) -> tuple[int, ...]:
    return (0,) * axes if tensor is None else tensor.stride()


class Plan(NamedTuple):
    """How a launch is cut into programs."""

    tokens: int
    pairs: int
    heads: int
    warps: int
    programs: int

    @staticmethod
    def of(pairs: int, batch: int, time: int, counts: Sequence[int]) -> Plan:
        """Cosines and sines are made once for all heads of a program. Where tokens are few there are more programs, of
        fewer heads, so that every processor of the device has one."""
        wide = triton.next_power_of_2(pairs)
        tokens = min(max(1, NUMBERS // wide), triton.next_power_of_2(time))
        runs, group = batch * triton.cdiv(time, tokens), max(counts)

        def programs() -> int:
            return runs * sum(triton.cdiv(count, group) for count in counts)

        while group > 1 and programs() < PROGRAMS:
            group = (group + 1) // 2
        return Plan(tokens, wide, group, min(4, max(1, tokens * wide // 256)), programs())
