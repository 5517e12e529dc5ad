"""What one call at one token costs from PyTorch: bearing.torch beside transformers' rotation and SDPA.

    python bench/python/small_calls_torch.py [--threads 1]

A decode step of one sequence: queries of 32 heads and keys of 8, of 128 numbers each, in rotation; 8 heads of 64 in
attention. The arithmetic takes less than a microsecond, so that a call's own cost is what is seen. `forward` runs without
gradients, `compiled` too, under torch.compile; `with gradients` runs forward and backward into queries, keys and values. Cosines and sines, and the encoding of
attention, are made beforehand for all. Times are the least of many turns, taken in alternation; in each turn a side is
called some times before it is timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import bearing
import bearing.torch as bt
import torch
from attention_torch import kind_of
from measure import least
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa
from transformers import LlamaConfig
from transformers.models.llama import modeling_llama

HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128
UNTIMED = 4  # calls before each that is timed
Calls = dict[str, Callable[[], Sequence[Tensor] | Tensor]]


def rotations(dtype: torch.dtype, grads: bool) -> tuple[list[Tensor], Calls]:
    """The inputs, and what turns them."""
    spec = bearing.Rope(head_dim=HEAD_DIM, pairing="half")
    config = LlamaConfig(
        hidden_size=HEADS * HEAD_DIM, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, num_hidden_layers=1
    )
    q, k = (torch.randn(1, heads, 1, HEAD_DIM).to(dtype).requires_grad_(grads) for heads in (HEADS, KV_HEADS))
    at = torch.tensor([99])
    cos, sin = modeling_llama.LlamaRotaryEmbedding(config)(q, at[None])
    module = bt.Rope(spec, 4096)
    return [q, k], {
        "transformers": lambda: modeling_llama.apply_rotary_pos_emb(q, k, cos, sin),
        "bt.Rope": lambda: module(q, k, at),
        "bt.rotate(rope=spec)": lambda: bt.rotate(q, k, rope=spec, positions=at),
    }


def attentions(dtype: torch.dtype, grads: bool) -> tuple[list[Tensor], Calls]:
    q, k, v = (torch.randn(1, 8, 1, 64).to(dtype).requires_grad_(grads) for _ in range(3))
    spec = bearing.encoding("alibi", heads=8)
    alibi = getattr(bearing, kind_of(spec))(spec)
    return [q, k, v], {
        "SDPA": lambda: sdpa(q, k, v),
        "bt.attention": lambda: bt.attention(q, k, v, mask="none"),
        "bt.attention, ALiBi": lambda: bt.attention(q, k, v, alibi, mask="none"),
    }


def with_gradients(inputs: list[Tensor], call: Callable[[], Sequence[Tensor] | Tensor]) -> Callable[[], object]:
    out = call()
    outs = [out] if isinstance(out, Tensor) else list(out)
    d_outs = [torch.randn_like(x) for x in outs]

    def step() -> object:
        made = call()
        return torch.autograd.grad([made] if isinstance(made, Tensor) else list(made), inputs, d_outs)

    return step


def report(what: str, dtype: torch.dtype, make: Callable[[torch.dtype, bool], tuple[list[Tensor], Calls]]) -> None:
    with torch.no_grad():
        _, forward = make(dtype, False)
        found = least(forward, untimed=UNTIMED)
        torch.compiler.reset()
        compiled = {name: torch.compile(call, fullgraph=True) for name, call in forward.items()}
        for call in compiled.values():
            call()
        of_compiled = least(compiled, untimed=UNTIMED)
    inputs, trained = make(dtype, True)
    both = least({name: with_gradients(inputs, call) for name, call in trained.items()}, untimed=UNTIMED)
    for name in found:
        times = (
            f"forward {found[name]:7.1f} us  compiled {of_compiled[name]:7.1f} us  with gradients {both[name]:7.1f} us"
        )
        print(f"{what:9} one token  {dtype!s:14}  {name:22} {times}", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--threads", type=int, default=1)
    torch.set_num_threads(arguments.parse_args().threads)
    for dtype in (torch.float32, torch.bfloat16):
        report("rotation", dtype, rotations)
        report("attention", dtype, attentions)


if __name__ == "__main__":
    main()
