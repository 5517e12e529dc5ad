"""What queries see by positions that are tensors, as ranges of ranks: numbers of keys in the order of their positions."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .visible import FAR, Rules


class Ranges(NamedTuple):
    """The rank of each key [batch or 1, k_len], and of the keys that each query sees the least rank and the one after the most
    [batch or 1, q_len]: int32."""

    ranks: Tensor
    first: Tensor
    end: Tensor


def ranges(rules: Rules, q_at: Tensor, k_at: Tensor) -> Ranges:
    """Of positions [axes, batch or 1, time]. A causal mask goes by all axes, all else by the first one. The device is not waited
    for."""
    q, k = q_at[0], k_at[0]
    least, most = rules.limits if rules.by_position else (-FAR, FAR)
    first, end = q + least, q + most + 1
    if rules.band is not None:
        chunk = q - q % rules.band.chunk
        first, end = torch.maximum(first, chunk + rules.band.first), torch.minimum(end, chunk + rules.band.end)
    q_ranks, ranks = _in_order(q_at, k_at) if rules.by_axes else _in_order(q_at[:1], k_at[:1])
    # The first axis rises with the rank, so that what is seen by it alone is a range of ranks, too.
    at, in_order = k.expand(ranks.shape).sort(dim=1).values, ranks.sort(dim=1).values
    in_order = torch.nn.functional.pad(in_order, (0, 1), value=q_at.shape[2] + k_at.shape[2])
    first, end = (
        in_order.gather(1, torch.searchsorted(at, edge.expand(q_ranks.shape).contiguous())) for edge in (first, end)
    )
    if rules.by_axes:
        end = torch.minimum(end, q_ranks + 1)
    return Ranges(*(x.to(torch.int32) for x in (ranks, first, end)))


def _in_order(q_at: Tensor, k_at: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers that compare as positions do: the first axis decides, and where it is the same the next one. [batch, time] each."""
    axes, batch = max(len(q_at), len(k_at)), max(q_at.shape[1], k_at.shape[1])
    both = torch.cat([at.expand(axes, batch, -1) for at in (q_at, k_at)], dim=2)
    order = torch.arange(both.shape[2], device=both.device).expand(both.shape[1:])
    for axis in reversed(both):  # a stable sort keeps the order of the axes after it
        order = order.gather(1, torch.sort(axis.gather(1, order), stable=True, dim=1).indices)
    at = both.gather(2, order.expand(both.shape))
    steps = torch.zeros_like(order)
    steps[:, 1:] = (at[..., 1:] != at[..., :-1]).any(0)
    numbers = torch.empty_like(order, memory_format=torch.contiguous_format).scatter_(1, order, steps.cumsum(1))
    q_numbers, k_numbers = numbers.split([q_at.shape[2], k_at.shape[2]], dim=1)
    return q_numbers.contiguous(), k_numbers.contiguous()
