"""Rotation on a GPU: beside a copy of the same bytes, transformers' function compiled, and Liger where it is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import NamedTuple

import bearing
import bearing.torch as bt
import torch
import triton
from bearing.torch.triton.hub import apply_rotary_transformers
from gpu import Case, bytes_per_microsecond
from torch import Tensor


class Sizes(NamedTuple):
    """Of a model, and of the cases."""

    heads: int = 32
    kv_heads: int = 8
    dim: int = 128
    tokens: int = 4096
    sequences: int = 64


SMALL = Sizes(2, 1, 8, 2, 2)


# Of the memory's speed that TransformerEngine reports for its fused rotation on a GB200 (its pull request 2508): 4.06 and
# 4.74 of 8 TB/s, forward and backward.
TRANSFORMER_ENGINE = {"forward": 4.06 / 8, "backward": 4.74 / 8}
BASE = 500_000.0


@triton.jit
def nothing(x):
    """A launch by itself."""


def rope_of(sizes: Sizes, pairing: str = "half", rows: int | None = None, angles: str = "exact") -> bt.Rope:
    """A model's; by default with rows for all tokens."""
    spec = bearing.Rope(head_dim=sizes.dim, base=BASE, pairing=pairing)
    return bt.Rope(spec, sizes.tokens if rows is None else rows, angles=angles)


def cases(device: str, small: bool) -> Iterator[Case]:
    """Long sequences forward and backward, and one new token of each of many sequences."""
    sizes = SMALL if small else Sizes()
    for pairing in ("half", "interleaved"):
        for dtype in (torch.bfloat16, torch.float32):
            yield from long(sizes, dtype, device, pairing)
    yield from sources(sizes, device)
    yield from normed(sizes, device)
    yield from decode(sizes, device)


def long(sizes: Sizes, dtype: torch.dtype, device: str, pairing: str) -> Iterator[Case]:
    """A long sequence's queries and keys, forward and backward, with rows for all of its tokens."""
    q, k = heads(sizes, 2, sizes.tokens, dtype, device)
    rope, name = rope_of(sizes, pairing), f"{_name(dtype)}, {pairing}, {sizes.tokens} tokens"
    copy, moved = copy_of(q, k)
    peers = peers_of(q) if pairing == "half" else {}
    forward = {"copy of the same bytes": copy, **{peer: lambda call=call: call(q, k) for peer, call in peers.items()}}
    published = lambda step: transformer_engine(step, moved, device) if pairing == "half" else {}
    ours = lambda: bt.rotate(q, k, rope=rope)
    yield Case(f"rotate, forward, {name}", ours, {**forward, **published("forward")}, moved=moved)
    in_place = {peer: call for peer, call in forward.items() if not peer.startswith("transformers")}
    mine = [x.clone() for x in (q, k)]
    yield Case(f"rotate_, forward, {name}", lambda: bt.rotate_(*mine, rope=rope), in_place, moved=moved)
    steps = {peer: backward(call, q, k) for peer, call in peers.items()}
    ours = backward(lambda q, k: bt.rotate(q, k, rope=rope), q, k)
    others = {"copy of the same bytes": copy, **steps, **published("backward")}
    yield Case(f"rotate, backward, {name}", ours, others, moved=moved)


def sources(sizes: Sizes, device: str) -> Iterator[Case]:
    """Where cosines come from: rows of a table by positions on the device, doubles, fixed point, and the model itself, as in the
    kernel hub's slot; and heads that lie one after the other."""
    q, k = heads(sizes, 2, sizes.tokens, torch.bfloat16, device)
    copy, moved = copy_of(q, k)
    limit, name = {"copy of the same bytes": copy}, f"bfloat16, half, {sizes.tokens} tokens"
    at = torch.arange(sizes.tokens, device=device).expand(2, -1)
    there, computed = rope_of(sizes), rope_of(sizes, rows=0)
    fixed, apart = rope_of(sizes, rows=0, angles="fixed_point"), [x.contiguous() for x in (q, k)]
    cos, sin = cosines(q)
    peers = {peer: lambda call=call: call(q, k) for peer, call in peers_of(q).items()}
    for source, call, others in (
        ("rows by positions on the device", lambda: bt.rotate(q, k, rope=there, positions=at), {}),
        ("computed in double", lambda: bt.rotate(q, k, rope=computed), {}),
        ("fixed point", lambda: bt.rotate(q, k, rope=fixed), {}),
        ("the model's cosines", lambda: apply_rotary_transformers(q, k, cos, sin), peers),
        ("time after heads in memory", lambda: bt.rotate(*apart, rope=there), {}),
    ):
        yield Case(f"rotate, {source}, {name}", call, {**limit, **others}, moved=moved)


def normed(sizes: Sizes, device: str) -> Iterator[Case]:
    """Queries normalised and rotated, forward and backward, and with keys."""
    q, k = heads(sizes, 2, sizes.tokens, torch.bfloat16, device)
    rope, weight = rope_of(sizes), torch.ones(sizes.dim, device=device)
    name = f"bfloat16, {sizes.tokens} tokens"
    copy, moved = copy_of(q)
    call = lambda: bt.norm_rotate(q, weight, rope=rope, eps=1e-6)
    yield Case(f"norm_rotate, forward, {name}", call, {"copy of the same bytes": copy}, moved=moved)
    both = lambda: bt.norm_rotate(q, weight, k=k, k_weight=weight, rope=rope, eps=1e-6)
    apart = lambda: tuple(bt.norm_rotate(x, weight, rope=rope, eps=1e-6) for x in (q, k))
    copy, moved = copy_of(q, k)
    others = {"copy of the same bytes": copy, "two calls": apart}
    yield Case(f"norm_rotate, queries and keys, {name}", both, others, moved=moved)
    leaf = q.detach().requires_grad_()
    turned = bt.norm_rotate(leaf, weight.requires_grad_(), rope=rope, eps=1e-6)
    d, (three, bytes_of_three) = torch.randn_like(turned), copy_of(q, q[: (q.shape[0] + 1) // 2])
    step = lambda: torch.autograd.grad(turned, [leaf, weight], d, retain_graph=True)  # reads two tensors, writes one
    limit = {"copy of the same bytes": three}
    yield Case(f"norm_rotate, backward, {name}", step, limit, moved=bytes_of_three)


def decode(sizes: Sizes, device: str) -> Iterator[Case]:
    """One new token of each of many sequences, in a graph of many steps, and with what Python takes to launch it."""
    q, k = heads(sizes, sizes.sequences, 1, torch.bfloat16, device)
    at = torch.arange(sizes.sequences, device=device)[:, None] * (sizes.tokens // sizes.sequences)
    copy, _ = copy_of(q, k)
    limits = {"empty launch": lambda: nothing[(1,)](q), "copy of the same bytes": copy}
    ropes = {
        "rows": rope_of(sizes),
        "computed in double": rope_of(sizes, rows=0),
        "fixed point": rope_of(sizes, rows=0, angles="fixed_point"),
    }
    for source, rope in ropes.items():
        call = lambda rope=rope: bt.rotate(q, k, rope=rope, positions=at)
        yield Case(f"rotate, decode, {sizes.sequences} sequences, {source}", call, limits, "step")
    call = lambda: bt.rotate(q, k, rope=ropes["rows"], positions=at)
    yield Case(f"rotate, decode from Python, {sizes.sequences} sequences", call, limits, "host")
    for kind in (torch.bfloat16, torch.float8_e4m3fn):
        k_cache, v_cache = (
            torch.zeros(sizes.sequences, *k.shape[1:2], 16, sizes.dim, device=device).to(kind) for _ in "kv"
        )
        slots = torch.arange(sizes.sequences, device=device)[:, None] * 16

        def write(k_cache: Tensor = k_cache, v_cache: Tensor = v_cache, slots: Tensor = slots) -> Tensor:
            return bt.rotate_to_cache(q, k, k, k_cache, v_cache, slots, rope=ropes["rows"], positions=at)

        yield Case(f"rotate_to_cache, decode, {sizes.sequences} sequences, {_name(kind)}", write, limits, "step")


def copy_of(*xs: Tensor) -> tuple[Callable[[], object], int]:
    """A copy of these tensors, and the bytes that it reads and writes."""
    outs = [torch.empty_like(x) for x in xs]

    def copy() -> None:
        for out, x in zip(outs, xs, strict=True):
            out.copy_(x)

    return copy, 2 * sum(x.numel() * x.element_size() for x in xs)


def transformer_engine(step: str, moved: int, device: str) -> dict[str, float]:
    """What the same bytes would take at the share of the memory's speed that TransformerEngine published."""
    most = bytes_per_microsecond(device)
    return {"TransformerEngine's published share": moved / most / TRANSFORMER_ENGINE[step]} if most else {}


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


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


def cosines(q: Tensor) -> tuple[Tensor, Tensor]:
    """As a model of transformers makes them, in the type of the queries."""
    time, dim = q.shape[2:]
    half = BASE ** -(torch.arange(0, dim, 2, device=q.device) / dim)
    angles = torch.arange(time, device=q.device)[:, None] * half
    angles = torch.cat([angles, angles], -1)[None]
    return angles.cos().to(q.dtype), angles.sin().to(q.dtype)


def peers_of(q: Tensor) -> dict[str, Callable[[Tensor, Tensor], tuple[Tensor, ...]]]:
    """What else turns queries and keys, where it is installed. They are given cosines, which nobody counts."""
    cos, sin = cosines(q)
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
