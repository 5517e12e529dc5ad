"""Self-Extend: near keys at their distances, far ones at distances that were seen in training."""

from __future__ import annotations

import math
from typing import Any

import bearing
import bearing.torch as bt
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
        self.own, self.rope = own, rope
        self.regions = bearing.SelfExtend(group=group, window=window)

    def forward(self, x: Tensor, **given: Any) -> Tensor:
        """x [batch, time, d_model], on any device; tokens stand at 0, 1, 2, …. Attention itself runs on the CPU."""
        own = self.own
        q, k, v = (project(x).unflatten(-1, (-1, own.head_dim)).cpu() for project in (own.q, own.k, own.v))
        out = bt.attention(q, k, v, self.rope, mask="causal", regions=self.regions, layout="bthd")
        return own.out(out.flatten(2).to(x.device))
