"""How a sequence is split among processes: which tokens each of them holds."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Split = Literal["contiguous", "zigzag"]


def shard_positions(length: int, world: int, rank: int, layout: Split = "contiguous") -> Tensor:
    """The tokens that a process holds of a sequence: int64 [time], rising.

    "contiguous": the rank-th of ``world`` pieces. "zigzag": of ``2 * world`` pieces the rank-th and the rank-th from the
    end, so that under a causal mask every process has as much to compute. Pieces differ by one token at most, longer
    ones first; some are empty where there are more pieces than tokens.
    """
    if not 0 <= rank < world:
        raise ValueError(f"[shard_positions] rank: must be 0 to world - 1 = {world - 1}, got {rank}")
    if length < 0:
        raise ValueError(f"[shard_positions] length: must not be negative, got {length}")
    if layout == "contiguous":
        return _piece(length, world, rank)
    if layout == "zigzag":
        return torch.cat([_piece(length, 2 * world, rank), _piece(length, 2 * world, 2 * world - 1 - rank)])
    raise ValueError(f"[shard_positions] layout: must be 'contiguous' or 'zigzag', got {layout!r}")


def shard(x: Tensor, dim: int, world: int, rank: int, layout: Split = "contiguous") -> Tensor:
    """The part of x along dim that a process holds: those of :func:`shard_positions`. Differentiable; a copy."""
    return x.index_select(dim, shard_positions(x.shape[dim], world, rank, layout).to(x.device))


def _piece(length: int, pieces: int, number: int) -> Tensor:
    short, longer = divmod(length, pieces)
    first = number * short + min(number, longer)
    return torch.arange(first, first + short + (number < longer))
