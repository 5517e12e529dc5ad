"""What attention costs in a step, and how fast a step is beside PyTorch's own attention."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

REPEATS = 5


def best_ms(call: Callable[[], Any], repeats: int = REPEATS) -> float:
    """The shortest of several calls, after one that does not count."""
    call()
    found = []
    for _ in range(repeats):
        before = time.perf_counter()
        call()
        found.append(time.perf_counter() - before)
    return 1000 * min(found)


def step_ms(model: nn.Module, batch: Any, loss_of: Callable[[Tensor, Tensor], Tensor]) -> float:
    """A step without the optimiser: forward and backward."""
    tokens, targets = torch.from_numpy(batch.tokens), torch.from_numpy(batch.targets)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        loss_of(model(tokens), targets).backward()

    model.train()
    return best_ms(step)


def attention_ms(blocks: Any, size: int, time: int, **given: Any) -> float:
    """Attention with its encoding in all layers, without the projections around it, forward and backward, on queries and
    keys of `size` rows of `time` tokens. given: what attention takes besides, such as positions."""
    first, layer = blocks.blocks[0].attention, blocks.positions.layers[0]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(size, time, first.q.in_features, generator=generator)
    q, k, v, d_out = (
        torch.randn(size, time, x.shape[2] // first.head_dim, first.head_dim, generator=generator) for _ in range(4)
    )
    for one in (q, k, v):
        one.requires_grad_()

    def attend() -> None:
        first.attention(q, k, v, more=layer.encodings(x), **given).backward(d_out)

    return len(blocks.blocks) * best_ms(attend)


def attention_share(model: Any, batch: Any, loss_of: Callable[[Tensor, Tensor], Tensor]) -> float:
    """The share of a step that is attention with its encoding."""
    return min(1.0, attention_ms(model.blocks, *batch.tokens.shape) / step_ms(model, batch, loss_of))
