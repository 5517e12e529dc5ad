"""The runs of keys that queries see, as ``visible.runs`` makes them, in one launch: for calls whose runs are not kept, as a
step of decoding has others than the one before."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .device import on
from .visible import Rules

BLOCK = 128  # queries of a program


def runs(rules: Rules) -> tuple[Tensor, Tensor]:
    """The first key that each query sees and the key after the last one, of a call that is not packed: int32 [batch or 1,
    q_len] each."""
    lengths = None if rules.k_lengths is None else rules.k_lengths.to(rules.device)
    batch = 1 if lengths is None else lengths.shape[0]
    first, end = torch.empty(2, batch, rules.q_len, dtype=torch.int32, device=rules.device).unbind(0)
    if not first.numel():
        return first, end
    by_end = rules.mask == "causal_bottom_right"
    own = by_end or not rules.by_position or rules.offset is not None
    offset = (rules.offset or 0) if rules.by_position else 0
    with on(first):
        runs_kernel[(triton.cdiv(rules.q_len, BLOCK), batch)](
            first, end, lengths, 0 if lengths is None else lengths.stride(0), rules.q_len, rules.k_len, offset, *rules.limits,
            OWN=own, BY_END=by_end, BLOCK=BLOCK, num_warps=1,
        )  # fmt: skip
    return first, end


@triton.jit(do_not_specialize=["q_len", "k_len", "offset"])
def runs_kernel(
    first, end, lengths, lengths_stride, q_len, k_len, offset, least, most, OWN: tl.constexpr, BY_END: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """lengths: how many keys a sequence has, or None. OWN: whether runs depend on a query's place, which is `offset` to the
    right of its index; BY_END: the last query's is the last key."""
    b = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    low = tl.full([BLOCK], 0, tl.int64)
    high = low + k_len
    if lengths is not None:
        high = tl.minimum(high, tl.maximum(low + tl.load(lengths + b * lengths_stride).to(tl.int64), 0))
    if OWN:
        own = i + high - q_len if BY_END else low + i + offset
        low = tl.maximum(own + least, 0)
        high = tl.minimum(high, own + most + 1)
    low = tl.minimum(low, k_len)
    to = b * q_len + i
    tl.store(first + to, low.to(tl.int32), mask=i < q_len)
    tl.store(end + to, tl.maximum(high, low).to(tl.int32), mask=i < q_len)
