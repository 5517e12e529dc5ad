"""Rotation in PyTorch on the CPU: bearing.torch against transformers' apply_rotary_pos_emb, in one run, as ratios.

    python bench/python/rotary_torch.py [--threads 1] [--compiled] [--model]

Each line is one shape: microseconds of transformers' function in eager mode (and compiled), of PyTorch's complex product
as Llama's own code has it (float32 alone, neighbours together), of bearing.torch.Rope and of bearing.rotate in place,
and how many times faster bearing.torch.Rope is. Cosines and sines are made beforehand for all. Times are the least of
many turns, taken in alternation; of whole models, medians of pairs.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable

import bearing
import bearing.torch as bt
import torch
from bearing.torch.hugging_face import replace_rotary
from measure import least
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama import modeling_llama

HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128
SHAPES = [("prefill", 1, 2048), ("prefill", 1, 512), ("batch", 8, 128), ("decode", 32, 1), ("decode", 1, 1)]


def pairs(own: Callable[[], object], ours: Callable[[], object], seconds: float = 6.0) -> tuple[float, float, float]:
    """The medians of both calls in microseconds, and of their ratio within pairs, each of which runs one after the
    other: what else the machine does falls on both."""
    taken: list[tuple[float, float]] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken) < 5:
        order = (own, ours) if len(taken) % 2 == 0 else (ours, own)
        start = time.perf_counter()
        order[0]()
        middle = time.perf_counter()
        order[1]()
        times = middle - start, time.perf_counter() - middle
        taken.append(times if order[0] is own else times[::-1])
    first, second = ([1e6 * pair[i] for pair in taken[2:]] for i in (0, 1))
    ratios = [x / y for x, y in zip(first, second, strict=True)]
    return statistics.median(first), statistics.median(second), statistics.median(ratios)


def times_complex(x: Tensor, turns: Tensor) -> Tensor:
    """x [batch, heads, time, dim] as complex numbers, times turns [time, dim/2]."""
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * turns).flatten(3)


def rotations(dtype: torch.dtype, compiled: bool) -> None:
    rope = bearing.Rope(head_dim=HEAD_DIM, pairing="half")
    config = LlamaConfig(
        hidden_size=HEADS * HEAD_DIM, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, num_hidden_layers=1
    )
    embedding = modeling_llama.LlamaRotaryEmbedding(config)
    module = bt.Rope(rope, 4096)
    table = bearing.RopeTable(rope, 4096)
    apply = modeling_llama.apply_rotary_pos_emb
    for name, batch, length in SHAPES:
        torch.compiler.reset()  # a program of its own for each shape, which would else be one too many
        fused = torch.compile(apply, dynamic=False) if compiled else None
        # As projections leave them: token-major memory, axes (batch, heads, time, dim).
        q = torch.randn(batch, length, HEADS, HEAD_DIM).to(dtype).transpose(1, 2)
        k = torch.randn(batch, length, KV_HEADS, HEAD_DIM).to(dtype).transpose(1, 2)
        at = torch.arange(length)
        cos, sin = embedding(q, at[None])
        calls: dict[str, Callable[[], object]] = {
            "eager": lambda: apply(q, k, cos, sin),  # noqa: B023
            "bearing": lambda: module(q, k, at),  # noqa: B023
            "in place": lambda: bearing.rotate(table, q, k, at, threads=torch.get_num_threads()),  # noqa: B023
        }
        if dtype is torch.float32:
            turns = torch.complex(cos[0, :, : HEAD_DIM // 2], sin[0, :, : HEAD_DIM // 2])
            calls["complex"] = lambda: (times_complex(q, turns), times_complex(k, turns))  # noqa: B023
        if fused is not None:
            calls["compiled"] = lambda: fused(q, k, cos, sin)  # noqa: B023
        found = least(calls)
        times = "  ".join(f"{call} {found[call]:9.1f} us" for call in sorted(calls, key=list(calls).index))
        ratios = "  ".join(
            f"{found[c] / found['bearing']:.2f}x {c}" for c in ("eager", "complex", "compiled") if c in found
        )
        print(f"{name:8} {batch:2} x {length:4} {dtype!s:15} {times}   bearing.torch is {ratios}")


def models() -> None:
    config = LlamaConfig(
        hidden_size=512, intermediate_size=1376, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4,
        vocab_size=1000,
    )  # fmt: skip
    own = LlamaForCausalLM(config).eval()
    # The same weights in the same memory: where they lie makes more of a difference than the rotation.
    ours = replace_rotary(copy.deepcopy(own, {id(weight): weight for weight in own.parameters()}))
    for length in (1024, 128, 1):
        ids = torch.randint(1000, (1, length))
        own_us, ours_us, ratio = pairs(lambda: own(ids), lambda: ours(ids))  # noqa: B023
        times = f"own {own_us:9.1f} us  bearing {ours_us:9.1f} us"
        print(f"a small Llama, {length:4} tokens   {times}   {ratio:.3f}x")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--compiled", action="store_true", help="transformers' function under torch.compile too")
    arguments.add_argument("--model", action="store_true", help="a small Llama's forward as well")
    given = arguments.parse_args()
    torch.set_num_threads(given.threads)
    with torch.no_grad():
        for dtype in (torch.float32, torch.bfloat16):
            rotations(dtype, given.compiled)
        if given.model:
            models()


if __name__ == "__main__":
    main()
