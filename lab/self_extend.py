"""Self-Extend: near keys at their distances, far ones at distances that were seen in training."""

from __future__ import annotations

import math
from typing import Any

import bearing.torch as bt
import torch
from torch import Tensor, nn


def group_for(length: int, trained: int, window: int) -> int:
    """The smallest group with which no distance passes the trained length: length ≤ (trained − window) group + window."""
    if not 0 < window < trained:
        raise ValueError(
            f"[self_extend] window: must be from 1 to {trained - 1}, below the trained length, got {window}"
        )
    return max(1, math.ceil((length - window) / (trained - window)))


class SelfExtended(nn.Module):
    """In place of the attention that it is made from, whose projections it keeps; nothing is learned anew.

    Keys at distances below `window` are met as before. Of the others, the query stands at ⌊m / group⌋ + window −
    ⌊window / group⌋ and the key at ⌊n / group⌋, so that distances go on where the window ends, `group` times as slowly.
    One softmax is taken over both.

    Jin et al. 2024, arXiv 2401.01325.
    """

    def __init__(self, own: bt.MultiHeadAttention, rope: bt.Rope, group: int, window: int) -> None:
        super().__init__()
        self.own, self.rope, self.group, self.window = own, rope, group, window

    def forward(self, x: Tensor, **given: Any) -> Tensor:
        """x [batch, time, d_model], on any device; tokens stand at 0, 1, 2, …. Attention itself runs on the CPU."""
        own, window = self.own, self.window
        q, k, v = (
            project(x).unflatten(-1, (-1, own.head_dim)).transpose(1, 2).cpu() for project in (own.q, own.k, own.v)
        )
        out, lse = self._near(q, k, v)
        if x.shape[1] > window:
            far = self._far(q, k, v)
            both, _ = bt.merge(*far, out[:, :, window:].contiguous(), lse[:, :, window:].contiguous())
            out = torch.cat((out[:, :, :window], both), dim=2)
        return own.out(out.transpose(1, 2).flatten(2).to(x.device))

    def _near(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        q, k = self.rope(q, k)
        return bt.attention(q, k, v, mask="causal", window=(self.window - 1, 0), return_lse=True)

    def _far(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Of the queries that have keys outside of the window: query i sees keys 0 to i − window."""
        window, group = self.window, self.group
        at = torch.arange(q.shape[2])
        q, k = self.rope(
            q[:, :, window:], k[:, :, :-window], at[window:] // group + window - window // group, at[:-window] // group
        )
        return bt.attention(q, k, v[:, :, :-window], mask="causal_top_left", return_lse=True)
