"""One of the processes that test_ring.py starts with torchrun: runs every case and writes what the first rank saw.

python -m torch.distributed.run --nproc-per-node 2 ring_worker.py results.json
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import bearing
import bearing.torch as bt
import torch
import torch.distributed as dist
from torch import Tensor

rank, world = 0, 1

# Tokens of each process; the first numbers go together where there are fewer processes.
uneven = {2: (6, 9), 4: (5, 1, 9, 0)}
uneven_keys = {2: (7, 6), 4: (0, 7, 2, 4)}


def by_sizes(sizes: dict[int, tuple[int, ...]], of: int) -> list[Tensor]:
    return list(torch.arange(sum(sizes[of])).split(sizes[of]))


def contiguous(of: int) -> list[Tensor]:
    return [bt.shard_positions(19, of, r, "contiguous") for r in range(of)]


def zigzag(of: int) -> list[Tensor]:
    return [bt.shard_positions(21, of, r, "zigzag") for r in range(of)]


def any_tokens(of: int) -> list[Tensor]:
    """A split that follows no rule, in no order."""
    return list(torch.randperm(20, generator=torch.Generator().manual_seed(3)).tensor_split(of))


def rope() -> Any:
    return bt.Rope(bearing.Rope(head_dim=8, pairing="half"))


def filled(module: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    """With parameters that differ from one another."""
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=generator))
    return module.to(dtype)


def t5(direction: str, heads: int) -> Callable[[], Any]:
    return lambda: bt.T5Bias(bearing.T5(buckets=8, max_distance=16, direction=direction), heads)


@dataclass
class Case:
    """One call, on one process and on many."""

    split: Callable[[int], list[Tensor]]
    encodings: list[Callable[[], Any]] = field(default_factory=list)
    k_split: Callable[[int], list[Tensor]] | None = None
    dtype: torch.dtype = torch.float32
    batch: int = 2
    heads: int = 4
    kv_heads: int = 2
    dim: int = 8
    value_dim: int = 6
    sinks: bool = False
    key_mask: bool = False
    positions: Callable[[Tensor, int], Tensor] | None = None  # of tokens and the batch
    options: dict[str, Any] = field(default_factory=dict)


def per_sequence(tokens: Tensor, batch: int) -> Tensor:
    """[batch, time]: every sequence starts elsewhere."""
    return tokens + 3 * torch.arange(batch)[:, None]


def on_a_grid(tokens: Tensor, batch: int) -> Tensor:
    """[2, batch, time]: rows of 5."""
    return torch.stack([tokens // 5, tokens % 5])[:, None].expand(2, batch, -1)


def cases() -> dict[str, Case]:
    f64 = torch.float64
    causal, none = {"mask": "causal"}, {"mask": "none"}

    def swin() -> Any:
        return bt.Swin(bearing.Swin(height=4, width=5), 4)

    def shaw() -> Any:
        return bt.Shaw(bearing.Shaw(clip=4), 8, 6)

    return {
        "rope, causal, contiguous": Case(contiguous, [rope], options=causal),
        "rope, causal, zigzag": Case(zigzag, [rope], options=causal),
        "rope, causal, any tokens, float64": Case(any_tokens, [rope], dtype=f64, options=causal),
        "t5, uneven": Case(lambda n: by_sizes(uneven, n), [t5("bidirectional", 4)], options={**none, "scale": 1.0}),
        "t5, causal, uneven, float64": Case(
            lambda n: by_sizes(uneven, n), [t5("causal", 4)], dtype=f64, options={**causal, "scale": 1.0}
        ),
        "alibi with learned slopes, window, zigzag": Case(
            zigzag, [lambda: bt.Alibi(4)], options={**causal, "window": (4, 0)}
        ),
        "alibi with learned slopes, window without a mask, contiguous, float64": Case(
            contiguous, [lambda: bt.Alibi(4)], dtype=f64, options={**none, "window": (3, 2)}
        ),
        "sinks, soft cap, causal, uneven, float64": Case(
            lambda n: by_sizes(uneven, n), [rope], dtype=f64, sinks=True, options={**causal, "soft_cap": 5.0}
        ),
        "rope and t5 and learned slopes, zigzag": Case(
            zigzag, [rope, t5("causal", 4), lambda: bt.Alibi(4)], options=causal
        ),
        "shaw with values, any tokens, float64": Case(any_tokens, [shaw], dtype=f64, kv_heads=4, options=none),
        "learned rotation, any tokens, float64": Case(
            any_tokens, [lambda: bt.RopeMixed(bearing.RopeMixed(head_dim=8, axes=1, pairing="half"), 4)], dtype=f64, kv_heads=4,
            options=causal,
        ),
        "positions of each sequence, time first, key mask": Case(
            zigzag, [rope], key_mask=True, positions=per_sequence, options={**causal, "layout": "bthd"}
        ),
        "positions of two axes": Case(any_tokens, [swin], positions=on_a_grid, options=none),
        "other keys than queries": Case(
            lambda n: by_sizes(uneven, n), [rope], k_split=lambda n: by_sizes(uneven_keys, n), options=none
        ),
        "no encodings": Case(contiguous, options=none),
        "bfloat16": Case(zigzag, [rope, t5("causal", 4)], dtype=torch.bfloat16, options=causal),
        "bfloat16 with results in float32": Case(
            zigzag, [rope, t5("causal", 4)], dtype=torch.bfloat16, sinks=True,
            options={**causal, "out_dtype": torch.float32},
        ),
    }  # fmt: skip


class Problem:
    """A case's tensors, whole: the same on every process."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.tokens = case.split(world)
        self.k_tokens = self.tokens if case.k_split is None else case.k_split(world)
        self.time = 1 if case.options.get("layout") == "bthd" else 2
        q_len, k_len = (sum(len(t) for t in tokens) for tokens in (self.tokens, self.k_tokens))
        generator = torch.Generator().manual_seed(7)

        def tensor(heads: int, length: int, dim: int) -> Tensor:
            shape = (case.batch, heads, length, dim)
            x = torch.randn(shape, generator=generator, dtype=torch.float64).to(case.dtype)
            return x if self.time == 2 else x.transpose(1, 2).contiguous()

        self.q = tensor(case.heads, q_len, case.dim)
        self.k, self.v = tensor(case.kv_heads, k_len, case.dim), tensor(case.kv_heads, k_len, case.value_dim)
        self.weights = tensor(case.heads, q_len, case.value_dim)  # the loss is out · weights + lse · lse_weights
        self.arithmetic = torch.float64 if case.dtype is torch.float64 else torch.float32
        self.lse_weights = torch.randn((case.batch, case.heads, q_len), generator=generator, dtype=self.arithmetic)
        self.sinks = torch.linspace(-1, 1, case.heads, dtype=self.arithmetic) if case.sinks else None
        self.key_mask = torch.rand((case.batch, k_len), generator=generator) < 0.7 if case.key_mask else None

    def positions(self, tokens: Tensor) -> Tensor:
        return tokens if self.case.positions is None else self.case.positions(tokens, self.case.batch)

    def modules(self) -> list[Any]:
        return [filled(make(), self.arithmetic) for make in self.case.encodings]

    def sharded(self, attention: Callable[..., Any], mine: Tensor, my_keys: Tensor, dtype: torch.dtype) -> dict:
        """Results and gradients of the tokens that are given."""

        def part(x: Tensor, at: Tensor) -> Tensor:
            return x.index_select(self.time, at).to(dtype).requires_grad_()

        q, k, v = part(self.q, mine), part(self.k, my_keys), part(self.v, my_keys)
        sinks = None if self.sinks is None else self.sinks.clone().requires_grad_()
        key_mask = None if self.key_mask is None else self.key_mask[:, my_keys]
        modules = self.modules()
        out, lse = attention(
            q, k, v, modules, q_positions=self.positions(mine), k_positions=self.positions(my_keys), sinks=sinks, key_mask=key_mask,
            return_lse=True, **self.case.options,
        )  # fmt: skip
        seen = torch.isfinite(lse)
        loss = (out * self.weights.index_select(self.time, mine)).sum() + (
            torch.where(seen, lse, 0) * self.lse_weights[:, :, mine]
        ).sum()
        loss.backward()
        shared = {f"d_{i}.{name}": p.grad for i, module in enumerate(modules) for name, p in module.named_parameters()}
        shared |= {} if sinks is None else {"d_sinks": sinks.grad}
        found = {"out": out.detach(), "lse": lse.detach(), "d_q": q.grad, "d_k": k.grad, "d_v": v.grad}
        return {"tokens": found, "shared": shared}

    def whole(self) -> dict[str, Tensor]:
        """On one process, 16-bit types in float32."""
        everything = torch.arange(self.q.shape[self.time]), torch.arange(self.k.shape[self.time])
        found = self.sharded(bt.attention, *everything, self.arithmetic)
        return found["tokens"] | found["shared"]

    def gathered(self, parts: list[dict]) -> dict[str, Tensor]:
        """What all processes have, in the order of tokens; shared gradients must be alike."""
        found = {}
        for name, first in parts[0]["tokens"].items():
            tokens = self.k_tokens if name in ("d_k", "d_v") else self.tokens
            axis = 2 if name == "lse" else self.time
            joined = torch.cat([part["tokens"][name] for part in parts], axis)
            found[name] = torch.empty_like(joined).index_copy_(axis, torch.cat(tokens), joined)
            assert joined.dtype == first.dtype
        for name, first in parts[0]["shared"].items():
            assert all(torch.equal(first, part["shared"][name]) for part in parts), f"{name} differs between processes"
            found[name] = first
        return found


def late(attention: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        time.sleep(seconds)
        return attention(*args, **options)

    return call


def run(case: Case) -> dict[str, Any]:
    problem = Problem(case)
    mine, my_keys = problem.tokens[rank], problem.k_tokens[rank]
    first = problem.sharded(bt.ring_attention, mine, my_keys, case.dtype)
    # Again, with processes that come late.
    again = problem.sharded(late(bt.ring_attention, 0.02 * ((rank * 7 + 3) % 4)), mine, my_keys, case.dtype)
    same = all(torch.equal(x, again[of][name]) for of in first for name, x in first[of].items())
    parts: list[Any] = [None] * world
    dist.all_gather_object(parts, (first, same))
    if rank > 0:
        return {}
    found, wanted = problem.gathered([part for part, _ in parts]), problem.whole()
    compared = {}
    for name, x in wanted.items():
        y = found[name].to(x.dtype)
        seen = torch.isfinite(x)
        assert torch.equal(seen, torch.isfinite(y)), name
        difference = torch.where(seen, y - x, 0).abs().max().item()
        compared[name] = {"difference": difference, "largest": torch.where(seen, x, 0).abs().max().item()}
    types = {name: str(found[name].dtype) for name in ("out", "d_q", "d_k", "d_v")}
    return {"compared": compared, "types": types, "same bits": all(same for _, same in parts)}


def message(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def wrong_calls() -> dict[str, list[str]]:
    """Texts of errors, of each process."""
    last = rank == world - 1
    x, at = torch.zeros(1, 2, 3, 4), torch.arange(3)
    given = {"mask": "causal", "q_positions": at, "k_positions": at}
    calls = {
        "keys of another dim on one process": lambda: bt.ring_attention(x, x[..., :3] if last else x, x, **given),
        "another mask on one process": lambda: bt.ring_attention(x, x, x, **given | ({"mask": "none"} if last else {})),
        "another type on one process": lambda: bt.ring_attention(*[x.double() if last else x] * 3, **given),
        "other parameters on one process": lambda: bt.ring_attention(
            x, x, x, bearing.AlibiBias(slopes=torch.tensor([1.0, 2.0 + last])), **given
        ),
        "the same parameters in another order on one process": lambda: bt.ring_attention(
            x, x, x, bearing.AlibiBias(slopes=torch.tensor([2.0, 1.0] if last else [1.0, 2.0])), **given
        ),
        "no gradient on one process": lambda: bt.ring_attention(x.clone().requires_grad_(not last), x, x, **given),
        "positions of too few tokens": lambda: bt.ring_attention(x, x, x, **given | {"k_positions": at[:2]}),
        "no positions": lambda: bt.ring_attention(x, x, x, **given | {"q_positions": None}),
        "a mask by index": lambda: bt.ring_attention(x, x, x, **given | {"mask": "causal_top_left"}),
        "an encoding by index": lambda: bt.ring_attention(x, x, x, bt.Cope(bearing.Cope(max_pos=4), 4), **given),
        "rows of three axes": lambda: bt.ring_attention(x[0], x[0], x[0], **given),
        "positions of four axes": lambda: bt.ring_attention(x, x, x, **given | {"q_positions": at[None, None, None]}),
        "a scale that is no number": lambda: bt.ring_attention(x, x, x, **given, scale=True),
        "results of another type": lambda: bt.ring_attention(x, x, x, **given, out_dtype=torch.float16),
    }
    texts: dict[str, list[str]] = {}
    for name, call in calls.items():
        all_of_them: list[Any] = [None] * world
        dist.all_gather_object(all_of_them, message(call))
        texts[name] = all_of_them
    return texts


def local_shares() -> float:
    """How far sum_gradients=False, summed by hand, is from the sum; of the largest."""
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, 12, 8, dtype=torch.float64)
    at = bt.shard_positions(12, world, rank)
    grads = []
    for summed in (True, False):
        bias = filled(bt.Alibi(2), torch.float64)
        out = bt.ring_attention(
            q[:, :, at],
            k[:, :, at],
            v[:, :, at],
            bias,
            mask="none",
            q_positions=at,
            k_positions=at,
            sum_gradients=summed,
        )
        out.square().sum().backward()
        grads.append(bias.slopes.grad)
    dist.all_reduce(grads[1])
    return ((grads[0] - grads[1]).abs().max() / grads[0].abs().max()).item()


def subgroups() -> float:
    """Two rings at once, of every other process: the largest difference from one process."""
    groups = [dist.new_group(list(range(first, world, 2))) for first in range(2)]
    group, seed = groups[rank % 2], rank % 2
    torch.manual_seed(seed)
    q, k, v = torch.randn(3, 1, 2, 10, 8, dtype=torch.float64)
    at = bt.shard_positions(10, dist.get_world_size(group), dist.get_rank(group), "zigzag")
    q_part, k_part, v_part = (x[:, :, at].requires_grad_() for x in (q, k, v))
    out = bt.ring_attention(q_part, k_part, v_part, mask="causal", q_positions=at, k_positions=at, group=group)
    out.square().sum().backward()
    k.requires_grad_()
    whole = bt.attention(q, k, v, mask="causal")
    whole.square().sum().backward()
    return max((out - whole[:, :, at]).abs().max().item(), (k_part.grad - k.grad[:, :, at]).abs().max().item())


def peak_memory(length: int) -> dict[str, int]:
    """Bytes that forward and backward add to this process at most at a time, and those of its shard of keys."""
    at = bt.shard_positions(length, world, rank)
    q, k, v = (torch.ones(8, 2, len(at), 256).requires_grad_() for _ in range(3))
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
    out = bt.ring_attention(q, k, v, bt.Alibi(2), mask="none", q_positions=at, k_positions=at)
    out.sum().backward()
    return {"peak": resident("VmHWM") - before, "keys": k.nbytes}


def resident(name: str) -> int:
    """Bytes of this process in memory: now (VmRSS), or at most (VmHWM)."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status[name].split()[0]) * 1024


def main() -> None:
    global rank, world
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank, world = dist.get_rank(), dist.get_world_size()
    results: dict[str, Any] = {"cases": {name: run(case) for name, case in cases().items()}}
    results["wrong calls"] = wrong_calls()
    results["local shares"] = local_shares()
    results["memory"] = peak_memory(2048)
    if world == 4:
        results["subgroups"] = subgroups()
    if rank == 0:
        Path(sys.argv[1]).write_text(json.dumps(results))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
