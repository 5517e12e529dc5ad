"""Attention on a GPU: beside FlexAttention compiled with the same bias, and PyTorch's flash kernel without one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import bearing
import bearing.torch as bt
import torch
from gpu import Case
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

HEADS, KV_HEADS = 32, 8
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def cases(device: str, small: bool) -> Iterator[Case]:
    """Long sequences under a causal mask, forward and backward: ALiBi with its published slopes and with slopes that are
    learned, T5 that is learned, and no bias."""
    heads, kv_heads = (2, 1) if small else (HEADS, KV_HEADS)
    for dim in (64,) if small else (64, 128):
        for time in (16,) if small else (1024, 4096):
            yield from of_size(device, time, heads, kv_heads, dim)
    for sequences, time in ((2, 16),) if small else ((16, 4096), (1, 32768)):
        yield from decode(device, sequences, time, heads, kv_heads)


def of_size(device: str, time: int, heads: int, kv_heads: int, dim: int) -> Iterator[Case]:
    t5 = bt.T5Bias(bearing.T5(buckets=32, max_distance=128, direction="causal"), heads, 64).to(device)
    published = bt.Alibi(heads, spec=bearing.Alibi.published(heads)).to(device)
    alibi = bt.Alibi(heads).to(device)
    inputs = [
        torch.randn(2, count, time, dim, dtype=torch.bfloat16, device=device, requires_grad=True)
        for count in (heads, kv_heads, kv_heads)
    ]
    for name, bias in (("ALiBi", published), ("ALiBi, learned slopes", alibi), ("learned T5", t5), ("no bias", None)):

        def ours(q: Tensor, k: Tensor, v: Tensor, bias: torch.nn.Module | None = bias) -> Tensor:
            return bt.attention(q, k, v, bias, mask="causal")

        peers = {"SDPA's flash kernel": flash} if bias is None else {}
        peers["FlexAttention"] = flex(bias, time, device)
        learned = [p for p in (bias.parameters() if bias is not None else []) if p.requires_grad]
        size = f"{name}, bfloat16, {heads} heads of {dim}, {time} tokens"
        plain = [x.detach() for x in inputs]
        forwards = {peer: lambda call=call, plain=plain: call(*plain) for peer, call in peers.items()}
        yield Case(f"attention, forward, {size}", lambda ours=ours, plain=plain: ours(*plain), forwards)
        steps = {peer: training(call, inputs, learned) for peer, call in peers.items()}
        yield Case(f"attention, training, {size}", training(ours, inputs, learned), steps)


def decode(device: str, sequences: int, time: int, heads: int, kv_heads: int, dim: int = 128) -> Iterator[Case]:
    """A step of decoding: one query of each sequence and all keys before it."""
    q, k, v = (
        torch.randn(sequences, count, length, dim, dtype=torch.bfloat16, device=device)
        for count, length in ((heads, 1), (kv_heads, time), (kv_heads, time))
    )
    moved = (k.numel() + v.numel()) * k.element_size()
    for name, bias in (("ALiBi", bt.Alibi(heads).to(device)), ("no bias", None)):

        def ours(bias: torch.nn.Module | None = bias) -> Tensor:
            return bt.attention(q, k, v, bias, mask="causal", q_positions=time - 1)

        peers = {"SDPA": lambda: sdpa(q, k, v)} if bias is None else {}
        attend = flex(bias, time, device, first=time - 1)
        peers["FlexAttention"] = lambda attend=attend: attend(q, k, v)
        case = f"attention, decode, {name}, bfloat16, {sequences} sequences, {heads} heads of {dim}, {time} tokens"
        yield Case(case, ours, peers, moved=moved)


def training(call: Attend, inputs: list[Tensor], learned: list[Tensor]) -> Callable[[], object]:
    """Forward and backward, to the rows and to what is learned."""
    return lambda: torch.autograd.grad(call(*inputs).float().sum(), [*inputs, *learned])


def flash(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """PyTorch's own, and no other of its kernels: where flash attention cannot be had, the peer fails."""
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """PyTorch's own, whichever of its kernels it takes."""
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def flex(bias: torch.nn.Module | None, time: int, device: str, first: int = 0) -> Attend:
    """FlexAttention, compiled, with the same bias as a score modifier. Modifier and mask are made once and not counted.
    first: the position of the first query; the last query is the last token."""

    @functools.cache
    def made() -> Attend:
        mask = create_block_mask(lambda b, h, i, j: j <= i + first, None, None, time - first, time, device=device)
        change = None if bias is None else bt.score_mod(bias, q_positions=first, longest=time - 1, device=device)
        compiled = torch.compile(flex_attention, dynamic=False)
        return lambda q, k, v: compiled(q, k, v, score_mod=change, block_mask=mask, enable_gqa=True)

    return lambda q, k, v: made()(q, k, v)
