"""Which keys each query sees, as runs of keys, and which tiles of a call lie in them. What follows from a call's sizes alone
is made once and kept; the rest is made on the device, the runs by a kernel where nothing is packed. Neither waits for the device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from .device import for_good, kept_within


class Band(NamedTuple):
    """Which keys a query sees by how far they lie behind it, whatever a mask goes by: those from `first` to `end` - 1, counted
    from where the query's chunk begins.

    chunk: how many positions one has; 1 where distances count. phase: the place of query 0 in its chunk, if positions rise by one.
    """

    chunk: int
    phase: int
    first: int
    end: int

    @staticmethod
    def of(begin: int | None, end: int | None, chunk: int, q_first: int) -> Band | None:
        """A DistanceBand's; None if it has no limits."""
        if begin is None and end is None:
            return None
        chunk = min(max(1, chunk), FAR)
        edge = lambda chunks, far: far if chunks is None else max(-4 * FAR, min((1 - chunks) * chunk, 4 * FAR))
        return Band(chunk, q_first % chunk, edge(end, -4 * FAR), edge(begin, 4 * FAR))


class Rules(NamedTuple):
    """What decides which keys a query sees, beside masks of keys and of pairs.

    mask, window: as the call has them. offset: the position of query 0 minus that of key 0, if both kinds of positions
    rise by one; None where they are tensors: then masks by position, and bands, are left to the kernel. band: its limits.
    """

    mask: str
    window: tuple[int, int]
    q_len: int
    k_len: int
    offset: int | None
    k_lengths: Tensor | None
    q_starts: Tensor | None
    k_starts: Tensor | None
    device: torch.device
    by_axes: bool = False  # whether positions are tensors, of several axes, all of which a mask goes by
    band: Band | None = None

    @property
    def counted(self) -> bool:
        """Whether sizes alone decide."""
        return self.k_lengths is None and self.q_starts is None

    @property
    def by_position(self) -> bool:
        return self.mask in ("none", "causal")

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the most distance that is seen; `FAR` where there is no limit."""
        before, after = self.window
        if self.mask != "none":
            after = 0
        return (-before if before >= 0 else -FAR), (after if after >= 0 else FAR)

    @property
    def distances(self) -> tuple[int, int]:
        """The least and the most distance of positions that is seen, as far as sizes tell."""
        least, most = self.limits
        if not self.by_position:
            least, most = self._of_indices(least, most)
        if self.band is None:
            return least, most
        return max(least, self.band.first - self.band.chunk + 1), min(most, self.band.end - 1)

    def _of_indices(self, least: int, most: int) -> tuple[int, int]:
        """Distances of positions, of those that count from the column at a query's own place."""
        if self.offset is None or self.q_starts is not None:
            return -FAR, FAR
        right = 0 if self.mask == "causal_top_left" else self.k_len - self.q_len
        if self.mask == "causal_bottom_right" and self.k_lengths is not None:
            least = -FAR  # where a sequence has fewer keys, that column is further to the left
        return least + right - self.offset, most + right - self.offset

    @property
    def checks_order(self) -> bool:
        """Whether the kernel must compare keys' ranks pair by pair (order.py), as no difference of positions says what is seen."""
        return self.by_axes or (self.band is not None and self.offset is None)

    @property
    def checks_positions(self) -> bool:
        """Whether the kernel must compare positions pair by pair."""
        return self.by_position and self.offset is None and self.limits != (-FAR, FAR) and not self.checks_order


FAR = 2**40  # further than any distance: positions are at most 2^31
NEVER = 2**30  # more than any key's index
# Kept for calls of so many queries: fewer are a step of decoding, whose keys are more with each call; more take longer than
# what is saved. Up to 512 KiB is kept of each call, 8 KiB of one with 1,024 tokens.
KEPT = range(17, 2**16 + 1)
MOST_KEPT = 2**26  # bytes of all calls


class Visible:
    """What kernels are told of a call's keys: the runs, and the tiles that lie in them."""

    def __init__(self, rules: Rules) -> None:
        self.rules, self.kept = rules, rules.counted and rules.q_len in KEPT
        self.runs: tuple[Tensor, Tensor] = _kept(runs, rules) if self.kept else _made(rules)

    def key_blocks(self, rows: int, cols: int) -> Tensor:
        """key_blocks() of the runs."""
        return _kept(_key_blocks, self.rules, rows, cols)[0] if self.kept else key_blocks(*self.runs, rows, cols)

    def query_blocks(self, rows: int, cols: int) -> Tensor:
        """query_blocks() of the runs."""
        if self.kept:
            return _kept(_query_blocks, self.rules, rows, cols)[0]
        return query_blocks(*self.runs, self.rules.k_len, rows, cols)


@kept_within(MOST_KEPT)
def _kept(make: Callable[..., tuple[Tensor, ...]], rules: Rules, *sizes: int) -> list[Tensor]:
    here = rules._replace(device=torch.device("cpu"))
    return for_good(lambda: make(here, *sizes), rules.device)


def _key_blocks(rules: Rules, rows: int, cols: int) -> tuple[Tensor]:
    return (key_blocks(*runs(rules), rows, cols),)


def _query_blocks(rules: Rules, rows: int, cols: int) -> tuple[Tensor]:
    return (query_blocks(*runs(rules), rules.k_len, rows, cols),)


def _made(rules: Rules) -> tuple[Tensor, Tensor]:
    from . import runs_kernel  # here, as it needs Triton

    return runs_kernel.runs(rules) if rules.q_starts is None else runs(rules)


def runs(rules: Rules) -> tuple[Tensor, Tensor]:
    """The first key that each query sees and the key after the last one: int32 [batch or 1, q_len] each."""
    i = torch.arange(rules.q_len, device=rules.device)
    if rules.q_starts is None or rules.k_starts is None:
        q_first, q_end = torch.zeros_like(i), torch.full_like(i, rules.q_len)
        k_first, k_end = torch.zeros_like(i), torch.full_like(i, rules.k_len)
    else:
        q_starts, k_starts = (x.to(rules.device, torch.int64).contiguous() for x in (rules.q_starts, rules.k_starts))
        pack = torch.searchsorted(q_starts[1:-1].contiguous(), i, right=True)
        q_first, q_end = q_starts[pack], q_starts[pack + 1]
        k_first, k_end = (x[pack].clamp(0, rules.k_len) for x in (k_starts[:-1], k_starts[1:]))
    existing = torch.full((1, 1), rules.k_len, device=rules.device, dtype=torch.int64)
    if rules.k_lengths is not None:
        existing = rules.k_lengths.to(rules.device, torch.int64).clamp(0, rules.k_len)[:, None]
    k_end = torch.minimum(k_end[None], existing)
    first, end = k_first[None].expand_as(k_end), torch.maximum(k_end, k_first[None])
    own = _own_column(rules, i, q_first, q_end, first, end)
    if own is not None:
        least, most = rules.limits
        first, end = torch.maximum(first, own + least), torch.minimum(end, own + most + 1)
    if rules.band is not None and rules.offset is not None:
        chunk = i + rules.offset - (i + rules.band.phase) % rules.band.chunk
        first, end = torch.maximum(first, chunk + rules.band.first), torch.minimum(end, chunk + rules.band.end)
    first = first.clamp(0, rules.k_len)
    return first.to(torch.int32).contiguous(), torch.maximum(end, first).to(torch.int32).contiguous()


def _own_column(
    rules: Rules, i: Tensor, q_first: Tensor, q_end: Tensor, k_first: Tensor, k_end: Tensor
) -> Tensor | None:
    """The column at a query's own place, from which distances count; None if runs do not depend on it."""
    if rules.by_position:
        return None if rules.offset is None else (i + rules.offset)[None]
    if rules.mask == "causal_top_left":
        return (i - q_first)[None] + k_first
    return (i - q_end)[None] + k_end


def key_blocks(first: Tensor, end: Tensor, rows: int, cols: int) -> Tensor:
    """For each block of `rows` queries, where its keys begin and end, and between these where all its queries see all:
    int32 [batch or 1, blocks, 4], in order. The inner two are multiples of `cols`, as the first one is. Behind
    them are up to three blocks of nothing."""
    blocks = -(-first.shape[1] // rows)
    spare = blocks * rows - first.shape[1]
    nothing = first >= end
    least = _by_block(torch.where(nothing, NEVER, first), spare, blocks, NEVER).amin(2)
    most = _by_block(torch.where(nothing, 0, end), spare, blocks, 0).amax(2)
    full_first = _up(_by_block(first, spare, blocks, 0).amax(2), cols)
    full_end = _down(_by_block(end, spare, blocks, 0).amin(2), cols)
    return _in_order(_down(torch.minimum(least, most), cols), full_first, full_end, most)


def query_blocks(first: Tensor, end: Tensor, k_len: int, rows: int, cols: int) -> Tensor:
    """For each block of `cols` keys, where the queries that see any of it begin and end, and between these where all see
    all of it: int32 [batch or 1, blocks, 4], in order. All but the last are multiples of `rows`. Behind them are up to three
    blocks of nothing."""
    blocks = -(-k_len // cols)
    start = torch.arange(blocks, device=first.device, dtype=torch.int32)[None].expand(first.shape[0], -1) * cols
    start, stop = start.contiguous(), (start + cols).contiguous()
    # The least from a query on, and the most up to a query, never fall.
    later = lambda x: x.flip(1).cummin(1).values.flip(1).contiguous()
    so_far = lambda x: x.cummax(1).values.contiguous()
    any_first = torch.searchsorted(so_far(end), start, right=True)
    any_end = torch.searchsorted(later(first), stop)
    all_first = torch.searchsorted(later(end), stop)
    all_end = torch.searchsorted(so_far(first), start, right=True)
    return _in_order(
        _down(torch.minimum(any_first, any_end), rows),
        _up(all_first, rows),
        _down(torch.minimum(all_end, any_end), rows),
        any_end,
    )


def _by_block(x: Tensor, spare: int, blocks: int, filled: int) -> Tensor:
    return torch.nn.functional.pad(x, (0, spare), value=filled).unflatten(1, (blocks, -1))


def _down(x: Tensor, step: int) -> Tensor:
    return x // step * step


def _up(x: Tensor, step: int) -> Tensor:
    return (x + step - 1) // step * step


def _in_order(begin: Tensor, full_first: Tensor, full_end: Tensor, end: Tensor) -> Tensor:
    full_first = torch.maximum(full_first, begin)
    some = (full_first < full_end) & (full_end <= end)
    inner = [torch.where(some, full_first, begin), torch.where(some, full_end, begin)]
    found = torch.stack([begin, *inner, torch.maximum(end, begin)], -1).to(torch.int32)
    # Strides that are multiples of 16, whatever lengths are: Triton compiles anew for others.
    return torch.nn.functional.pad(found, (0, 0, 0, -found.shape[1] % 4)).contiguous()
