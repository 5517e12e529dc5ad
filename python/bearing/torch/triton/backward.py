"""The backward of attention on GPUs, with biases and rows of tables by distance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from . import attend_backward, attend_diagonals
from .attend_backward import Grads
from .counts import cdiv
from .device import FUSION, on
from .distances import Distances, gradients
from .launches import launch
from .options import Options
from .start import start
from .tables import SIDES
from .tables import gradients as table_gradients
from .work import Work, bhtd, in_rows, stride_of


def backward(
    d_out: Tensor,
    d_lse: Tensor | None,
    out: Tensor,
    lse: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    parameters: Sequence[Tensor],
    encodings: str,
    options: Options,
    learns: bool,
) -> list[Tensor]:
    """The gradients of q, k, v, of the sinks if there are any, and of the parameters that are real numbers.

    learns: whether those of the parameters are wanted; else they are 0.
    """
    work = Work(q, k, v, parameters, encodings, options)
    found = [x.new_empty(x.shape) for x in (q, k, v)]
    d_mix = None if work.call.mix is None else torch.empty_like(work.call.mix, dtype=torch.float32)
    d_sinks, of_parameters = [], {}
    with on(q):
        grads = _grads(work, d_out, d_lse, out, lse)
        _d_rows(work, grads, found, d_mix)
        if options.sinks is not None:
            logarithm = options.sinks.float()[None, :, None] - grads.lse
            weight = torch.exp(logarithm).nan_to_num(0.0)  # no key, and a sink of -inf
            d_sinks = [-(weight * grads.sums).sum((0, 2), dtype=torch.float64).to(options.sinks.dtype)]
        if learns and work.bias_at is not None:
            if work.rules.offset is None:
                raise TypeError(
                    "[attention] q_positions, k_positions: must rise by one (None or the first position) where a bias is "
                    "learned on a GPU, got tensors"
                )
            of_parameters = _of_parameters(work, grads, work.bias_at)
            if d_mix is not None:
                of_parameters |= work.mixed.gradients(d_mix)
    found[:2] = work.turned(*found[:2], back=True)
    rest = [
        of_parameters[i] if i in of_parameters else torch.zeros_like(t)
        for i, t in enumerate(parameters)
        if t.is_floating_point()
    ]
    return [*found, *d_sinks, *rest]


def _grads(work: Work, d_out: Tensor, d_lse: Tensor | None, out: Tensor, lse: Tensor) -> Grads:
    d_out = d_out.to(work.call.q.dtype)  # which products take it in: out may be float32 beside rows of 16 bits
    d_out, out = (in_rows(bhtd(x, work.options.layout)) for x in (d_out, out))
    lse = lse.contiguous().view(work.batch, work.heads, work.q_len)
    sums = torch.empty_like(lse)
    if sums.numel():
        kind = work.kind.of(64, 16)
        programs = cdiv(work.q_len, kind.rows) * work.batch * work.heads
        given = lse if d_lse is None else d_lse.contiguous()
        args = work.call, out, out.stride()[:3], d_out, d_out.stride()[:3], given, sums
        # Not fused: threads that add up the same products would round them in different ways, and store different sums.
        start(attend_backward.row_sums, sums.device, programs, args, FUSION, KIND=kind, HAS_D_LSE=d_lse is not None)
    return Grads(d_out, d_out.stride()[:3], lse, sums)


def _d_rows(work: Work, grads: Grads, found: Sequence[Tensor], d_mix: Tensor | None) -> None:
    """Writes d_q, d_k and d_v, and the gradients of what rows by distance are multiplied with beside q and k."""
    d_q, d_k, d_v = (bhtd(x, work.options.layout) for x in found)
    dtype = d_q.dtype
    if d_q.numel():
        kind, how = launch("d_queries", work.kind, dtype)
        blocks = work.visible.key_blocks(kind.rows, kind.cols)
        programs = cdiv(work.q_len, kind.rows) * work.batch * work.heads
        args = work.call_for(kind), grads, blocks, stride_of(blocks), d_q, d_q.stride()[:3], d_mix
        start(attend_backward.d_queries, d_q.device, programs, args, how, KIND=kind)
    if not work.q_len:
        d_k.zero_(), d_v.zero_()
    elif d_k.numel():
        kind, how = launch("d_keys", work.kind, dtype)
        blocks = work.visible.query_blocks(kind.rows, kind.cols)
        programs = cdiv(work.k_len, kind.cols) * work.batch * d_k.shape[1]
        args = work.call_for(kind), grads, blocks, stride_of(blocks), d_k, d_k.stride()[:3], d_v, d_v.stride()[:3]
        start(attend_backward.d_keys, d_k.device, programs, args, how, KIND=kind)


def _of_parameters(work: Work, grads: Grads, at: Distances) -> dict[int, Tensor]:
    """The gradients of parameters, by their places in the call."""
    found: dict[int, Tensor] = {}
    d_numbers = None
    biases = [(form, first, end) for form, first, end in work.biases if first < end]  # those that have any
    if biases or work.tables.bias is not None:
        d_numbers = _d_numbers(work, grads, at)
    if biases:
        found |= gradients(biases, work.parameters, d_numbers, at)
    if work.products:
        d_tables = {
            side: _d_table(work, grads, at, side, one)
            for side, one in zip(SIDES, work.tables.sides, strict=True)
            if one is not None
        }
        found |= table_gradients(work.products, work.parameters, work.scale, d_tables, d_numbers)
    return found


class _Diagonals(NamedTuple):
    """How the tiles of a call lie on diagonals, and how these are cut into parts."""

    lowest: int
    count: int
    chunks: int

    @staticmethod
    def of(work: Work, size: int, tables: int, at: Distances) -> _Diagonals:
        """Those that meet any of the distances. tables: how many sums each has, by head or for several heads together."""
        q_blocks, k_blocks = cdiv(work.q_len, size), cdiv(work.k_len, size)
        least = at.least + work.rules.offset
        most = least + at.count - 1
        lowest = max(1 - q_blocks, least // size)
        count = min(k_blocks - 1, cdiv(most, size)) - lowest + 1
        # Parts for some thousand programs: enough for any GPU, and by the shapes alone.
        chunks = max(1, min(work.batch * q_blocks * (work.heads // tables), 2048 // (count * tables)))
        return _Diagonals(lowest, count, chunks)

    def by_distance(self, parts: Tensor, work: Work, at: Distances, size: int) -> Tensor:
        """From parts [chunks, tables, diagonals, 2 size, …] to [tables, distances, …]: the parts are added up in order."""
        halves = parts.sum(0).unflatten(2, (2, size))
        # The first half of diagonal n ends at column n of blocks, the second one begins behind it.
        summed = halves.new_zeros(halves.shape[0], self.count + 1, *halves.shape[3:])
        summed[:, :-1] += halves[:, :, 0]
        summed[:, 1:] += halves[:, :, 1]
        # Entry 0 is the difference of indices lowest · size - (size - 1).
        first = at.least + work.rules.offset - (self.lowest * size - (size - 1))
        return summed.flatten(1, 2)[:, first : first + at.count].contiguous()


def _d_numbers(work: Work, grads: Grads, at: Distances) -> Tensor:
    """The gradients of a bias by head and distance."""
    kind, how = launch("d_distances", work.kind, work.call.q.dtype)
    size = kind.rows
    on_diagonals = _Diagonals.of(work, size, work.heads, at)
    lowest, count, chunks = on_diagonals
    blocks = work.visible.key_blocks(size, size)
    parts = grads.lse.new_empty(chunks, work.heads, count, 2 * size)
    args = work.call_for(kind), grads, blocks, stride_of(blocks), parts, lowest, count, chunks, work.batch
    in_chunks = work.rules.band is not None and work.rules.band.chunk > 1  # they hide tiles of each diagonal
    checked = kind.holes or in_chunks or not work.rules.counted
    programs = count * work.heads * chunks
    start(attend_diagonals.d_distances, parts.device, programs, args, how, KIND=kind, CHECKED=checked)
    return on_diagonals.by_distance(parts, work, at, size)


def _d_table(work: Work, grads: Grads, at: Distances, side: str, table: Tensor) -> Tensor:
    """What operands and gradients of the products with a table's rows give by distance: [heads or 1, distances, dim]."""
    kind, how = launch("d_tables", work.kind, work.call.q.dtype)
    size, tables, dim = kind.rows, table.shape[0], table.shape[2]
    on_diagonals = _Diagonals.of(work, size, tables, at)
    lowest, count, chunks = on_diagonals
    blocks = work.visible.key_blocks(size, size)
    parts = grads.lse.new_empty(chunks, tables, count, 2 * size, dim)
    shared = work.heads // tables
    args = work.call_for(kind), grads, blocks, stride_of(blocks), parts, lowest, count, chunks, work.batch, shared
    start(attend_diagonals.d_tables, parts.device, count * tables * chunks, args, how, KIND=kind, SIDE=side)
    return on_diagonals.by_distance(parts, work, at, size)
