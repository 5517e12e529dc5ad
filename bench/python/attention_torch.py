"""Attention with biases in PyTorch on the CPU: bearing.torch against SDPA with a mask and FlexAttention, as ratios.

    python bench/python/attention_torch.py [--threads 1] [--tokens 512 2048] [--no-flex]

SDPA takes a bias as a matrix [1, heads, time, time], causal mask included, made beforehand; without a bias it gets
`is_causal`. FlexAttention is compiled for the shape, with the causal mask in blocks; on the CPU it has no backward. A
training step is forward and backward into q, k, v and the table of buckets: SDPA's bias is then indexed from the table in
the step, as models do. Times are the least of many turns, taken in alternation.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import bearing
import bearing.torch as bt
import numpy as np
import torch
from measure import least, ratios
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention as sdpa

HEADS, HEAD_DIM = 8, 64
Calls = dict[str, Callable[[], object]]


def inputs(length: int, dtype: torch.dtype, *, grads: bool = False) -> list[Tensor]:
    return [torch.randn(1, HEADS, length, HEAD_DIM).to(dtype).requires_grad_(grads) for _ in range(3)]


def kind_of(spec: Any) -> str:
    """The class of an encoding with that spec."""
    return next(kind for _, kind, other in bearing._core._named(HEADS, HEAD_DIM, 1) if type(other) is type(spec))


def t5() -> tuple[nn.Module, Callable[[int], Tensor]]:
    """The module, and what makes its causal matrix [1, heads, time, time] from its table."""
    spec = bearing.encoding("t5:direction=causal")
    module = getattr(bt, kind_of(spec))(spec, heads=HEADS, d_model=HEADS * HEAD_DIM)
    torch.nn.init.normal_(module.table)
    numbered = np.repeat(np.arange(len(module.table), dtype=np.float32)[:, None], HEADS, axis=1)
    numbers = getattr(bearing, kind_of(spec))(spec, numbered)  # adds the number of a pair's bucket
    buckets: dict[int, Tensor] = {}

    def matrix(length: int) -> Tensor:
        if length not in buckets:
            rows = bearing.bias_matrix(numbers, q_len=length, k_len=length, heads=HEADS)
            buckets[length] = torch.from_numpy(np.asarray(rows)[0]).long()
        return masked(module.table[buckets[length]].permute(2, 0, 1))

    return module, matrix


def masked(bias: Tensor) -> Tensor:
    length = bias.shape[-1]
    return bias.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), float("-inf"))[None]


def forward(length: int, dtype: torch.dtype, flex: bool) -> dict[str, Calls]:
    q, k, v = inputs(length, dtype)
    at = torch.arange(length)
    spec = bearing.encoding("alibi", heads=HEADS)
    alibi = getattr(bearing, kind_of(spec))(spec)
    slopes = torch.tensor(spec.slopes)
    module, matrix = t5()
    alibi_matrix = masked(-slopes[:, None, None] * (at[:, None] - at[None, :]).abs()).to(dtype)
    t5_matrix = matrix(length).detach().to(dtype)
    found: dict[str, Calls] = {
        "none": {
            "SDPA": lambda: sdpa(q, k, v, is_causal=True),
            "bearing": lambda: bt.attention(q, k, v, mask="causal"),
        },
        "alibi": {
            "SDPA with a mask": lambda: sdpa(q, k, v, attn_mask=alibi_matrix),
            "bearing": lambda: bt.attention(q, k, v, alibi, mask="causal"),
        },
        "t5": {
            "SDPA with a mask": lambda: sdpa(q, k, v, attn_mask=t5_matrix),
            "bearing": lambda: bt.attention(q, k, v, module, mask="causal"),
        },
    }
    if flex and dtype == torch.float32:
        compiled = torch.compile(flex_attention, dynamic=False)
        causal = create_block_mask(lambda b, h, i, j: i >= j, None, None, length, length, device="cpu")
        for name, of in {"none": None, "alibi": alibi}.items():
            score_mod = None if of is None else bt.score_mod(of)
            found[name]["FlexAttention"] = lambda m=score_mod: compiled(q, k, v, score_mod=m, block_mask=causal)
    return found


def training(length: int) -> dict[str, Calls]:
    q, k, v = inputs(length, torch.float32, grads=True)
    d_out = torch.randn(1, HEADS, length, HEAD_DIM)
    module, matrix = t5()

    def step(out: Callable[[], Tensor], *parameters: Tensor) -> Callable[[], object]:
        return lambda: torch.autograd.grad(out(), [q, k, v, *parameters], d_out)

    return {
        "none": {
            "SDPA": step(lambda: sdpa(q, k, v, is_causal=True)),
            "bearing": step(lambda: bt.attention(q, k, v, mask="causal")),
        },
        "t5": {
            "SDPA with a mask": step(lambda: sdpa(q, k, v, attn_mask=matrix(length)), module.table),
            "bearing": step(lambda: bt.attention(q, k, v, module, mask="causal"), module.table),
        },
    }


def report(what: str, length: int, cases: dict[str, Calls]) -> None:
    for name, calls in cases.items():
        found = least(calls)
        times = "  ".join(f"{call} {1e-3 * found[call]:8.2f} ms" for call in calls)
        print(f"{what:16} {length:5} tokens  {name:5}  {times}   bearing is {ratios(found, 'bearing')}", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--tokens", type=int, nargs="+", default=[512, 2048])
    arguments.add_argument(
        "--no-flex", action="store_true", help="leave FlexAttention out, which takes time to compile"
    )
    given = arguments.parse_args()
    torch.set_num_threads(given.threads)
    torch.set_flush_denormal(True)
    for length in given.tokens:
        with torch.no_grad():
            report("forward float32", length, forward(length, torch.float32, not given.no_flex))
            report("forward bfloat16", length, forward(length, torch.bfloat16, False))
        report("training float32", length, training(length))


if __name__ == "__main__":
    main()
