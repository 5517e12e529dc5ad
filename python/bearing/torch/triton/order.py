"""Positions on several axes as numbers in their order, for masks by position."""

from __future__ import annotations

import torch
from torch import Tensor


def in_order(q_at: Tensor, k_at: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers that compare as positions [axes, batch, time] do: the first axis decides, and where it is the same the next one.
    int64 [batch, time] each. The device is not waited for."""
    both = torch.cat([q_at, k_at], dim=2)
    order = torch.arange(both.shape[2], device=both.device).expand(both.shape[1:])
    for axis in reversed(both):  # a stable sort keeps the order of the axes after it
        order = order.gather(1, torch.sort(axis.gather(1, order), stable=True, dim=1).indices)
    at = both.gather(2, order.expand(both.shape))
    steps = torch.zeros_like(order)
    steps[:, 1:] = (at[..., 1:] != at[..., :-1]).any(0)
    numbers = torch.empty_like(order, memory_format=torch.contiguous_format).scatter_(1, order, steps.cumsum(1))
    q_numbers, k_numbers = numbers.split([q_at.shape[2], k_at.shape[2]], dim=1)
    return q_numbers.contiguous(), k_numbers.contiguous()
