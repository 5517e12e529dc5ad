"""Launches of the kernel that turns heads: what it needs to know of a rotation, as numbers on the device, and how the work
is cut into programs. It knows nothing of the library, so that it serves alone too (``hub.py``)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton.language as tl
from torch import Tensor

from .counts import cdiv, power_of_2
from .device import FUSION, on
from .rotate_kernel import turn_kernel
from .start import Started, is_wide, places_of

THREADS = 256 if torch.version.hip else 128  # of a program: four warps
NUMBERS = 8 * THREADS  # pairs of a tile: 16 bytes of the first elements for each thread, and of the second
PROGRAMS = 512  # at least, if there are heads enough: some for each processor of a large device
HEADS = 8  # of a program at most, unless it has all heads


class Geometry(NamedTuple):
    """Which elements of a head turn, and by which frequencies."""

    head_dim: int
    pairs: int
    begin: int
    pairing: str  # "half", "interleaved", or "places": the elements are listed
    angles: str  # "exact", "as_float32" or "fixed_point"
    axes: int
    turns: Tensor  # [3 · pairs + 1] float64: quarter turns per token as three doubles, then the attention factor;
    # of fixed point [4 · pairs + 1] int32: words of turns per token, then the bits of the factor as float32
    axis: Tensor  # [pairs] int32: which coordinate turns the pair
    places: Tensor  # [2 · pairs] int32: where a pair's elements stand, counted from begin


class Source(NamedTuple):
    """Where a launch takes its cosines and sines from."""

    name: str  # "table", "exact", "as_float32", "fixed_point"; or "difference", "difference32" of two angles
    at: Tensor | None  # [axes, batch, time]; None: counted …
    first: int = 0  # … from here
    step: int = 1  # … by this
    cos: Tensor | None = None  # [batch or 1, rows, pairs]: all there are for "table", else those of the first positions
    sin: Tensor | None = None
    old: Tensor | None = None  # for a difference: the positions before …
    old_first: int = 0
    old_geometry: Geometry | None = None  # … and the frequencies before

    @property
    def cosines(self) -> str:
        """How a program has its cosines, as plans ask."""
        if self.cos is not None:
            return "looked up"
        return "fixed point" if self.name == "fixed_point" else "computed"


class Slots(NamedTuple):
    """Rows of a paged cache [blocks, heads, block_size, head_dim] that tokens stand at: block · block_size + row."""

    at: Tensor  # [batch, time]; −1: nowhere
    block: int
    moves: bool  # the first tensor is the cache, read and written; else the second and the third are written to one


Pair = tuple[Tensor, Tensor]  # from and to, each [batch, heads, time, head_dim]


class Launch:
    """A launch of the kernel, except its tensors and the positions that are counted from: calls whose tensors agree in type,
    extents and strides share it."""

    def __init__(
        self, programs: int, kept: tuple[Tensor, ...], sizes: tuple[int, ...], step: int, rest: tuple[Any, ...], warps: int,
        **constants: Any,
    ) -> None:  # fmt: skip
        self.kept, self.sizes, self.step, self.rest = kept, sizes, step, rest
        self._started = Started(turn_kernel, kept[0].device, programs, constants, {"num_warps": warps, **FUSION})

    def run(
        self,
        tensors: Sequence[Tensor],
        slots: Tensor | None,
        at: Tensor | None,
        old: Tensor | None,
        first: int = 0,
        old_first: int = 0,
        cosines: Pair | None = None,
    ) -> None:
        """tensors: x0, y0, x1, y1, x2 and y2; what there is none of may be any. cosines: and sines, in place of those that it
        was prepared with, which were like these."""
        nothing, kept = self.kept[0], self.kept if cosines is None else (*self.kept[:-2], *cosines)
        given = (*tensors, *[nothing if x is None else x for x in (slots, at, old)])
        args = (*given, *kept, *self.sizes, first, self.step, old_first, *self.rest)
        # All else that Triton looks at is the same.
        alike = is_wide(first), is_wide(old_first), places_of(given if cosines is None else (*given, *cosines))
        with on(tensors[0]):
            self._started.run(alike, args)


def launch(
    one: Pair,
    two: Pair | None,
    copied: Pair | None,
    shape: Geometry,
    source: Source,
    slots: Slots | None = None,
    transposed: bool = False,
) -> None:
    """Turns one tensor, or two, and copies a third, in one launch. All agree in batch, time and type."""
    made = prepared(one, two, copied, shape, source, slots=slots, transposed=transposed)
    if made:
        tensors = [bytes_of(x) for pair in (one, two, copied) for x in pair or one]
        made.run(tensors, slots and slots.at, source.at, source.old, source.first, source.old_first)


def prepared(
    one: Pair,
    two: Pair | None,
    copied: Pair | None,
    shape: Geometry,
    source: Source,
    *,
    transposed: bool = False,
    slots: Slots | None = None,
    scales: tuple[float, float] = (1.0, 1.0),
) -> Launch | None:
    """What launch() does for tensors like these, which may be on the meta device; None if there is nothing to do. A cache may
    have float8_e4m3fn: then scales divide what goes there from the second and the third."""
    x = one[0]
    batch, time = slots.at.shape if slots and slots.moves else (x.shape[0], x.shape[2])
    counts = [0 if pair is None else pair[0].shape[1] for pair in (one, two, copied)]
    rest, dim = x.shape[3] - 2 * shape.pairs, 0 if copied is None else copied[0].shape[3]
    if 0 in (batch, time, sum(counts)):
        return None
    plan = Plan.of(shape.pairs, batch, time, counts, heads_lie_together(x), source.cosines, x.element_size())
    before = source.old_geometry or shape
    cos, sin = (shape.turns[None, None],) * 2 if source.cos is None or source.sin is None else (source.cos, source.sin)
    moves, block = (slots.moves, slots.block) if slots else (False, 0)
    return Launch(
        plan.programs,
        (shape.turns, before.turns, shape.axis, shape.places, cos, sin),
        (time, *counts, shape.begin),
        source.step,
        (
            cos.shape[1], *scales, *(step for pair in (one, two, copied) for x in pair or one for step in x.stride()),
            *_strides(slots and slots.at, 2), *_strides(source.at, 3), *_strides(source.old, 3),
            cos.stride(0) if cos.shape[0] > 1 else 0, cos.stride(1),
        ),
        PAIRS=shape.pairs, PAIRING=shape.pairing, SOURCE=source.name, KEPT=source.cos is not None,
        OLD_FLOAT32=before.angles == "as_float32", AXES=shape.axes, GIVEN=source.at is not None,
        OLD_GIVEN=source.old is not None, TRANSPOSED=transposed,
        ARITHMETIC=tl.float64 if x.dtype is torch.float64 else tl.float32,
        REST=0 if one[0] is one[1] else rest, BR=power_of_2(rest), DIM=dim, BD=power_of_2(dim),
        X0_BLOCK=block if moves else 0, Y0_BLOCK=block if moves else 0, Y_BLOCK=0 if moves else block,
        BT=plan.tokens, BH=plan.tile, BP=plan.pairs, HEADS=plan.heads, SHARED=plan.shared, warps=plan.warps,
    )  # fmt: skip


def bytes_of(x: Tensor) -> Tensor:
    """As kernels take 8-bit numbers."""
    return x.view(torch.uint8) if x.dtype is torch.float8_e4m3fn else x


def _strides(tensor: Tensor | None, axes: int) -> tuple[int, ...]:
    return (0,) * axes if tensor is None else tensor.stride()


def heads_lie_together(x: Tensor) -> bool:
    """Whether the heads of a token are nearer to each other in memory than the tokens of a head."""
    return x.stride(1) < x.stride(2)


class Plan(NamedTuple):
    """How a launch is cut into programs."""

    tokens: int  # of a tile
    tile: int  # of heads
    pairs: int
    heads: int  # of a program, which works through them tile by tile
    warps: int
    programs: int
    shared: bool = False  # whether a program turns the heads of both tensors

    @staticmethod
    def of(
        pairs: int, batch: int, time: int, counts: Sequence[int], heads_together: bool, cosines: str, element: int
    ) -> Plan:
        """A tile is a piece of memory, as whole as can be: many heads of some tokens, or many tokens of a head. Where tokens
        are few there are more programs, of fewer heads, so that every processor of the device has one. Else where heads lie
        together a program has all of them, of both tensors if they share what it takes to have their cosines, which are
        "looked up", "computed" in double, or in "fixed point". element: bytes of one.

        Of some ways these were the fastest on an H100, or as fast as any."""
        return _plan(pairs, batch, time, tuple(counts), heads_together, cosines, element, PROGRAMS)


@functools.lru_cache(maxsize=256)
def _plan(
    pairs: int, batch: int, time: int, counts: tuple[int, ...], together: bool, cosines: str, element: int, fewest: int
) -> Plan:
    wide, in_double, narrow = power_of_2(pairs), cosines == "computed", together and element == 2
    rows, group = max(1, NUMBERS // wide), max(counts)
    if not together:
        tokens = rows
    elif cosines == "looked up" and narrow:
        tokens = max(1, rows // power_of_2(group))
    else:
        tokens = max(1, THREADS // wide)  # each thread makes one cosine at least
    tokens = min(tokens, power_of_2(time))
    runs = batch * cdiv(time, tokens)
    shared = min(counts[:2]) > 0 and runs >= fewest and (in_double or (narrow and cosines == "looked up"))
    if not (narrow or in_double):
        group = min(group, HEADS)

    def programs() -> int:
        if shared:
            return runs * (1 + cdiv(counts[2], group))
        return runs * sum(cdiv(count, group) for count in counts)

    while group > 1 and programs() < fewest and not shared:
        group = (group + 1) // 2
    tile = min(max(1, rows // tokens), power_of_2(group))
    return Plan(tokens, tile, wide, group, min(4, max(1, tokens * tile * wide // 256)), programs(), shared)
