"""Splits a sequence among processes: which tokens each of them holds."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Split = Literal["contiguous", "zigzag"]


def shard_positions(length: int, world: int, rank: int, layout: Split = "contiguous") -> Tensor:
    """Returns the tokens of a sequence that a process holds: int64 [time], rising.

    length: how many tokens the sequence has.
    world: how many processes there are.
    rank: which of them this is, from 0.
    layout: "contiguous" gives the rank-th of ``world`` pieces. "zigzag" gives, of ``2 * world`` pieces, the rank-th and
        the rank-th from the end, so that under a causal mask every process has as much to compute.

    Pieces differ by at most one token, longer ones come first. Some are empty if there are more pieces than tokens.
    Raises ValueError for a rank outside 0 … world − 1, a negative length or another layout.
    """
    if world < 1:
        raise ValueError(f"[shard_positions] world: must be at least 1, got {world}")
    if not 0 <= rank < world:
        raise ValueError(f"[shard_positions] rank: must be from 0 to world - 1 = {world - 1}, got {rank}")
    if length < 0:
        raise ValueError(f"[shard_positions] length: must be at least 0, got {length}")
    if layout == "contiguous":
        return _piece(length, world, rank)
    if layout == "zigzag":
        return torch.cat([_piece(length, 2 * world, rank), _piece(length, 2 * world, 2 * world - 1 - rank)])
    raise ValueError(f"[shard_positions] layout: must be 'contiguous' or 'zigzag', got {layout!r}")


def shard(x: Tensor, dim: int, world: int, rank: int, layout: Split = "contiguous") -> Tensor:
    """Returns the part of x along dim that a process holds: the tokens of :func:`shard_positions`, as a copy.
    Differentiable.
    """
    return x.index_select(dim, shard_positions(x.shape[dim], world, rank, layout).to(x.device))


def _piece(length: int, pieces: int, number: int) -> Tensor:
    short, longer = divmod(length, pieces)
    first = number * short + min(number, longer)
    return torch.arange(first, first + short + (number < longer))
