"""Attention with the same encodings through PyTorch's own kernel: to compare with, and for devices other than the CPU."""

from __future__ import annotations

import json
from typing import Any

import bearing.torch as bt
import torch
from bearing import _core
from torch import Tensor, nn
from torch.nn import functional as F


class PytorchAttention(nn.Module):
    """In place of the :class:`bearing.torch.Attention` that it is made from: same call, same numbers to rounding.

    Rows are turned by *bearing*, biases become a matrix that scaled_dot_product_attention adds. The library computes both
    on the CPU, also for queries on another device. Scores that look at queries and keys have no such matrix: attention
    with them runs as it did, on the CPU.
    """

    def __init__(self, own: bt.Attention) -> None:
        super().__init__()
        self.own = own

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *, more: list[bt.Encoding], **given: Any) -> Tensor:
        """q, k, v [batch, time, heads, dim]; given: q_positions and k_positions, and what attention takes besides."""
        kinds = [_core._traits(_kind(one)) for one in more]
        others = set(given) - {"q_positions", "k_positions"}
        if others or any(_needs_own(of) for of in kinds):
            return self.own(q.cpu(), k.cpu(), v.cpu(), more=more, **given).to(q.device)
        scale = self.own.options["scale"] or q.shape[-1] ** -0.5
        at = [given.get(name) for name in ("q_positions", "k_positions")]
        biases = []
        for one, of in zip(more, kinds, strict=True):
            if of["rows"]:
                q = bt.turn(one, q.cpu(), at[0], side="query", layout="bthd").to(q.device)
                k = bt.turn(one, k.cpu(), at[1], side="key", layout="bthd").to(k.device)
            else:
                biases.append(one)
        causal, lengths = self.own.options["mask"] == "causal", (q.shape[1], k.shape[1])
        mask = _mask(biases, at, q, lengths, causal) if biases else None
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal and mask is None, scale=scale)
        return out.transpose(1, 2)


def _mask(biases: list[bt.Encoding], at: list[Any], q: Tensor, lengths: tuple[int, int], causal: bool) -> Tensor:
    """[heads, q_len, k_len]: the sum of the biases, and -inf for keys after the query."""
    bias = bt.bias_matrix(biases, *at, heads=q.shape[2], q_len=lengths[0], k_len=lengths[1])
    if causal:
        bias = bias.masked_fill(torch.ones(lengths, dtype=torch.bool).triu(1), -torch.inf)
    return bias.to(q.device)


def _needs_own(traits: dict[str, Any]) -> bool:
    """Whether an encoding is no matrix of biases that serves the whole batch."""
    by_row = any("batch" in of["extents"] for of in traits["parameters"].values())
    return by_row or traits["reads_content"] or traits["values"] or traits["by_index"]


def _kind(encoding: bt.Encoding) -> str:
    return json.loads(encoding.form)["kind"]


def through_pytorch(model: nn.Module, device: str = "cpu") -> nn.Module:
    """The model with PyTorch's own attention, on a device. Encodings stay on the CPU, where the library computes them."""
    model.to(device)
    for block in model.blocks.blocks:
        block.attention.attention = PytorchAttention(block.attention.attention)
    model.blocks.positions.cpu()
    return model
