"""Rotation on a GPU: beside a copy of the same bytes, transformers' function compiled, and Liger where it is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import NamedTuple

import bearing
import bearing.torch as bt
import torch
import triton
from gpu import Case
from torch import Tensor


class Sizes(NamedTuple):
    """Of a model, and of the cases."""

    heads: int = 32
    kv_heads: int = 8
    dim: int = 128
    tokens: int = 4096
    sequences: int = 64


SMALL = Sizes(2, 1, 8, 2, 2)


@triton.jit
def nothing(x):
    """A launch by itself."""


def cases(device: str, small: bool) -> Iterator[Case]:
    """Long sequences forward and backward, and one new token of each of many sequences."""
    sizes = SMALL if small else Sizes()
    for pairing in ("half", "interleaved"):
        for dtype in (torch.bfloat16, torch.float32):
            rope = bt.Rope(bearing.Rope(head_dim=sizes.dim, base=500_000, pairing=pairing))
            yield from long(rope, sizes, dtype, device, pairing)
    rope, sequences = bt.Rope(bearing.Rope(head_dim=sizes.dim, base=500_000, pairing="half")), sizes.sequences
    q, k = heads(sizes, sequences, 1, torch.bfloat16, device)
    at = torch.arange(sequences, device=device)[:, None] * 100
    empty = {"empty launch": lambda: nothing[(1,)](q)}
    yield Case(f"rotate, decode, {sequences} sequences", lambda: bt.rotate(q, k, rope=rope, positions=at), empty, True)
    for kind in (torch.bfloat16, torch.float8_e4m3fn):
        k_cache, v_cache = (torch.zeros(sequences, *k.shape[1:2], 16, sizes.dim, device=device).to(kind) for _ in "kv")
        slots = torch.arange(sequences, device=device)[:, None] * 16

        def write(k_cache: Tensor = k_cache, v_cache: Tensor = v_cache, slots: Tensor = slots) -> Tensor:
            return bt.rotate_to_cache(q, k, k, k_cache, v_cache, slots, rope=rope, positions=at)

        yield Case(f"rotate_to_cache, decode, {sequences} sequences, {_name(kind)}", write, empty, True)
    yield from normed(rope, sizes, device)


def normed(rope: bt.Rope, sizes: Sizes, device: str) -> Iterator[Case]:
    """Queries normalised and rotated, forward and backward."""
    q, _ = heads(sizes, 2, sizes.tokens, torch.bfloat16, device)
    weight, out = torch.ones(sizes.dim, device=device), torch.empty_like(q)
    name = f"bfloat16, {sizes.tokens} tokens"
    copy = {"copy of the same bytes": lambda: out.copy_(q)}
    yield Case(f"norm_rotate, forward, {name}", lambda: bt.norm_rotate(q, weight, rope=rope, eps=1e-6), copy)
    leaf = q.detach().requires_grad_()
    turned = bt.norm_rotate(leaf, weight.requires_grad_(), rope=rope, eps=1e-6)
    d = torch.randn_like(turned)
    step = lambda: torch.autograd.grad(turned, [leaf, weight], d, retain_graph=True)
    yield Case(f"norm_rotate, backward, {name}", step, copy)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def long(rope: bt.Rope, sizes: Sizes, dtype: torch.dtype, device: str, pairing: str) -> Iterator[Case]:
    """A long sequence's queries and keys, forward and backward."""
    q, k = heads(sizes, 2, sizes.tokens, dtype, device)
    name = f"{_name(dtype)}, {pairing}, {sizes.tokens} tokens"
    out = [torch.empty_like(x) for x in (q, k)]

    def copy() -> None:
        out[0].copy_(q)
        out[1].copy_(k)

    peers = peers_of(q) if pairing == "half" else {}
    forward = {peer: lambda call=call: call(q, k) for peer, call in peers.items()}
    forward = {"copy of the same bytes": copy, **forward}
    yield Case(f"rotate, forward, {name}", lambda: bt.rotate(q, k, rope=rope), forward)
    in_place = {peer: call for peer, call in forward.items() if not peer.startswith("transformers")}
    mine = [x.clone() for x in (q, k)]
    yield Case(f"rotate_, forward, {name}", lambda: bt.rotate_(*mine, rope=rope), in_place)
    steps = {peer: backward(call, q, k) for peer, call in peers.items()}
    ours = backward(lambda q, k: bt.rotate(q, k, rope=rope), q, k)
    yield Case(f"rotate, backward, {name}", ours, {"copy of the same bytes": copy, **steps})


def heads(sizes: Sizes, batch: int, time: int, dtype: torch.dtype, device: str) -> list[Tensor]:
    """Queries and keys as a projection leaves them: time before heads in memory."""
    return [
        torch.randn(batch, time, count, sizes.dim, dtype=dtype, device=device).transpose(1, 2)
        for count in (sizes.heads, sizes.kv_heads)
    ]


def backward(call: Callable[[Tensor, Tensor], tuple[Tensor, ...]], q: Tensor, k: Tensor) -> Callable[[], object]:
    """The backward alone."""
    inputs = [x.detach().requires_grad_() for x in (q, k)]
    outs = call(*inputs)
    grads = [x.detach() for x in (q, k)]  # the same for all sides
    return lambda: torch.autograd.grad(outs, inputs, grads, retain_graph=True)


def peers_of(q: Tensor) -> dict[str, Callable[[Tensor, Tensor], tuple[Tensor, ...]]]:
    """What else turns queries and keys, where it is installed. They are given cosines, which nobody counts."""
    time, dim = q.shape[2:]
    half = 500_000.0 ** -(torch.arange(0, dim, 2, device=q.device) / dim)
    angles = torch.arange(time, device=q.device)[:, None] * half
    angles = torch.cat([angles, angles], -1)[None]
    cos, sin = angles.cos().to(q.dtype), angles.sin().to(q.dtype)
    found = {}
    if importlib.util.find_spec("transformers"):
        from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

        compiled = torch.compile(apply_rotary_pos_emb)
        found["transformers compiled"] = lambda q, k: compiled(q, k, cos, sin)
    if importlib.util.find_spec("liger_kernel"):
        from liger_kernel.transformers.rope import liger_rotary_pos_emb

        # It works in place, so a copy of its own would be its users' to pay: it is given the same tensors again.
        found["Liger"] = lambda q, k: liger_rotary_pos_emb(q, k, cos, sin)
    return found
