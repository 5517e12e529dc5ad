"""The runs of keys that queries see, as ``visible.runs`` makes them, in one launch: for calls whose runs are not kept. A step of
decoding finds its own in the kernel that attends."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .counts import cdiv
from .device import FUSION, on
from .start import start
from .visible import Rules

BLOCK = 128  # queries of a program
NONE = (0, 0, 0, 0)  # of chunks_of() where runs depend on none


def runs(rules: Rules) -> tuple[Tensor, Tensor]:
    """The first key that each query sees and the key after the last one, of a call that is not packed: int32 [batch or 1,
    q_len] each."""
    lengths = None if rules.k_lengths is None else rules.k_lengths.to(rules.device)
    batch = 1 if lengths is None else lengths.shape[0]
    first, end = torch.empty(2, batch, rules.q_len, dtype=torch.int32, device=rules.device).unbind(0)
    if not first.numel():
        return first, end
    own, by_end, offset = places(rules)
    chunks = chunks_of(rules)
    with on(first):
        stride = 0 if lengths is None else lengths.stride(0)
        args = first, end, lengths, stride, rules.q_len, rules.k_len, offset, *rules.limits, *(chunks or NONE)
        kind = {"LENGTHS": lengths is not None, "OWN": own, "BY_END": by_end, "BANDED": chunks is not None}
        start(
            runs_kernel,
            first.device,
            cdiv(rules.q_len, BLOCK) * batch,
            args,
            {"num_warps": 1, **FUSION},
            **kind,
            BLOCK=BLOCK,
        )
    return first, end


def places(rules: Rules) -> tuple[bool, bool, int]:
    """Whether runs depend on a query's place, whether the last query's is the last key, and how far to the right of its index
    it is else."""
    by_end = rules.mask == "causal_bottom_right"
    own = by_end or not rules.by_position or rules.offset is not None
    return own, by_end, (rules.offset or 0) if rules.by_position else 0


def chunks_of(rules: Rules) -> tuple[int, int, int, int] | None:
    """What runs depend on of a band: how many queries a chunk has, the place of query 0 in its chunk, and the keys that it sees, as
    columns to the right of its chunk's first query; None if they depend on none."""
    if rules.band is None or rules.offset is None:
        return None
    chunk, phase, first, end = rules.band
    return chunk, phase, first + rules.offset, end + rules.offset


@triton.jit
def run_of(
    b, i, lengths, lengths_stride, q_len, k_len, offset, least, most, chunk, phase, chunk_first, chunk_end,
    LENGTHS: tl.constexpr, OWN: tl.constexpr, BY_END: tl.constexpr, BANDED: tl.constexpr,
):  # fmt: skip
    """The first key that queries i see and the key after the last one, int32. lengths: how many keys a sequence has, or
    None; OWN, BY_END and offset as places() gives them; the four numbers of chunks_of() if BANDED."""
    i = i.to(tl.int64)
    low = i * 0
    high = low + k_len
    if LENGTHS:
        high = tl.minimum(high, tl.maximum(low + tl.load(lengths + b * lengths_stride).to(tl.int64), 0))
    if OWN:
        own = i + high - q_len if BY_END else i + offset
        low = tl.maximum(own + least, 0)
        high = tl.minimum(high, own + most + 1)
    if BANDED:
        start = i - (i + phase) % chunk
        low = tl.maximum(low, start + chunk_first)
        high = tl.minimum(high, start + chunk_end)
    low = tl.minimum(low, k_len)
    return low.to(tl.int32), tl.maximum(high, low).to(tl.int32)


@triton.jit(do_not_specialize=["q_len", "k_len", "offset", "phase", "chunk_first", "chunk_end"])
def runs_kernel(
    first, end, lengths, lengths_stride, q_len, k_len, offset, least, most, chunk, phase, chunk_first, chunk_end,
    LENGTHS: tl.constexpr, OWN: tl.constexpr, BY_END: tl.constexpr, BANDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Writes run_of() all queries of sequences."""
    blocks = tl.cdiv(q_len, BLOCK)
    b = (tl.program_id(0) // blocks).to(tl.int64)  # no other axis of programs has more than 65,535
    i = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    low, high = run_of(
        b, i, lengths, lengths_stride, q_len, k_len, offset, least, most, chunk, phase, chunk_first, chunk_end,
        LENGTHS, OWN, BY_END, BANDED,
    )  # fmt: skip
    to = b * q_len + i
    tl.store(first + to, low, mask=i < q_len)
    tl.store(end + to, high, mask=i < q_len)
