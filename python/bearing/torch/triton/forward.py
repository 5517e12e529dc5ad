"""The forward of attention on GPUs: its launches, and what steps of decoding that are alike share of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from . import attend_forward
from .counts import cdiv
from .device import Kept, on
from .launches import DECODED, PROGRAMS, launch, packed, shares
from .options import Options, check_result
from .recipe import kind_of, kinds_of
from .start import Started, places_of
from .tiles import Call
from .work import Work, precision_of, stride_of


def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    parameters: Sequence[Tensor],
    encodings: str,
    options: Options,
    out_dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """out and lse."""
    key = None
    if _may_be_step(q, k, v, options.layout):  # then equal for those that share a Step
        of_tensors = kinds_of((q, k, v, *parameters)), *[None if x is None else kind_of(x) for x in options.tensors]
        key = *of_tensors, encodings, *options.numbers, out_dtype, precision_of(q)
    step = None if key is None else _steps.get(key)
    if step is not None:
        return step.run(q, k, v, parameters, options)
    check_result(q.dtype, out_dtype)
    work = Work(q, k, v, parameters, encodings, options, forward=True)
    launches = Forward(work, (*q.shape[:-1], v.shape[-1]), out_dtype)
    if key is not None and work.is_step:
        _steps.put(key, Step(work, launches))
    if launches.is_empty:
        return launches.run(work.call, None, None)
    with on(q):  # what is made for this call alone takes launches too
        blocks = None if work.decodes else work.visible.key_blocks(*launches.tile)
        call = work.call_for(launches.kind)
    return launches.run(call, blocks, options.sinks)


class Forward:
    """The launches of a call, except its tensors."""

    def __init__(self, work: Work, shape: Sequence[int], dtype: torch.dtype) -> None:
        """shape and dtype: of out, in the caller's order of axes."""
        self._device = work.call.q.device
        batch, heads, q_len, value_dim = work.batch, work.heads, work.q_len, work.kind.value_dim
        self._out, self._dtype, self._lse = shape, dtype, (batch, heads, q_len)
        self._own_lse = self._lse[4 - len(shape) :]  # without a batch where rows have none
        self.is_empty = 0 in (batch, heads, q_len, value_dim)
        if self.is_empty:
            return
        kind, how = launch("decode" if work.decodes else "forward", work.kind, work.call.q.dtype)
        if work.decodes:
            kind = packed(kind, q_len, work.call.q.dtype)
        self.kind, self.tile = kind, (kind.rows, kind.cols)
        blocks_of_queries = 1 if kind.packed else cdiv(q_len, kind.rows) * kind.group
        programs = blocks_of_queries * batch * (heads // kind.group)
        self._parts, self._share = shares(programs, work.k_len, kind.cols)
        self._all_parts = self._parts * batch, heads, q_len
        in_order = heads * q_len * value_dim, q_len * value_dim, value_dim
        own = (in_order[0], value_dim, heads * value_dim) if work.options.layout == "bthd" else in_order
        self._strides = own if self._parts == 1 else in_order
        self._attend = Started(attend_forward.forward, self._device, programs * self._parts, {"KIND": kind}, how)
        self._merge = None
        if self._parts > 1:
            sizes = {"VALUE_DIM": value_dim, "WIDTH": kind.value_width, "MOST": PROGRAMS}
            how = {"num_warps": 4, "enable_fp_fusion": True}
            self._merge = Started(attend_forward.merge_parts, self._device, batch * heads * q_len, sizes, how)
            self._merged = own  # strides

    def run(
        self, call: Call, blocks: Tensor | None, sinks: Tensor | None, places: Hashable = None
    ) -> tuple[Tensor, Tensor]:
        """out, and lse [batch, heads, q_len] or as rows without a batch. blocks: of visible.key_blocks(), for tiles of such a kind; places: what differs in
        tensors between launches of this object, as Triton sees it."""
        device = self._device
        out = torch.empty(self._out, dtype=self._dtype, device=device)
        lse = torch.empty(self._own_lse, dtype=torch.float32, device=device)
        if self.is_empty:
            return out, lse
        to, to_lse = out, lse
        if self._merge is not None:
            to = torch.empty((*self._all_parts, out.shape[-1]), dtype=torch.float32, device=device)
            to_lse = torch.empty(self._all_parts, dtype=torch.float32, device=device)
        sinks = None if sinks is None else sinks.contiguous()
        with on(lse):
            self._attend.run(places, (call, blocks, stride_of(blocks), sinks, to, self._strides, to_lse, self._share))
            if self._merge is not None:
                self._merge.run(None, (to, to_lse, self._parts, *self._lse, out, self._merged, lse))
        return out, lse


# What differs between steps that are alike, in the order of Call.
_GIVEN = [Call._fields.index(name) for name in ("q", "k", "v", "lengths", "factors", "key_mask", "pairs", "pages")]


class Step:
    """A step of decoding, except the caller's tensors."""

    def __init__(self, work: Work, launches: Forward) -> None:
        self._launches = launches
        self._call = [None if i in _GIVEN else x for i, x in enumerate(work.call)]
        self._scaled = work.call.factors is not None

    def run(
        self, q: Tensor, k: Tensor, v: Tensor, parameters: Sequence[Tensor], options: Options
    ) -> tuple[Tensor, Tensor]:
        """out and lse. Views give a kernel the same as what they are of: it is told strides beside."""
        mask, pairs = (None if x is None else x.view(torch.uint8) for x in (options.key_mask, options.visible))
        factors = parameters[0] if self._scaled else None
        given = q, k, v, options.k_lengths, factors, mask, pairs, options.block_table
        call = self._call.copy()
        for i, x in zip(_GIVEN, given, strict=True):
            call[i] = x
        return self._launches.run(Call._make(call), None, options.sinks, places_of((*given, options.sinks)))


_steps: Kept[Step] = Kept(256)


def _may_be_step(q: Tensor, k: Tensor, v: Tensor, layout: str) -> bool:
    """Whether queries are as few as in a step of decoding, and rows are dense."""
    time = -2 if layout == "bhtd" else -3
    return q.dim() >= 3 and q.shape[time] <= DECODED and q.stride(-1) == k.stride(-1) == v.stride(-1) == 1
