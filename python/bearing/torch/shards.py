"""Splits a sequence among processes: which tokens each of them holds."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from .._core import RangeError
from .given_numbers import index_of, whole_number

Split = Literal["contiguous", "zigzag"]


def shard_positions(length: int, world: int, rank: int, layout: Split = "contiguous") -> Tensor:
    """Returns the tokens of a sequence that a process holds: int64 [time], rising.

    length: how many tokens the sequence has.
    world: how many processes there are.
    rank: which of them this is, from 0.
    layout: "contiguous" gives the rank-th of ``world`` pieces. "zigzag" gives, of ``2 * world`` pieces, the rank-th and
        the rank-th from the end, so that under a causal mask every process has as much to compute.

    Pieces differ by at most one token, longer ones come first. Some are empty if there are more pieces than tokens.
    Raises RangeError for a rank outside 0 … world − 1 or a negative length, ValueError for another layout, and TypeError for
    what is no whole number.
    """
    return _tokens("shard_positions", length, world, rank, layout)


def _tokens(function: str, length: int, world: int, rank: int, layout: Split) -> Tensor:
    length, rank = whole_number(function, "length", length), whole_number(function, "rank", rank)
    world = whole_number(function, "world", world, 1)
    if rank >= world:
        raise RangeError(f"[{function}] rank: must be from 0 to world - 1 = {world - 1}, got {rank}")
    if layout == "contiguous":
        return _piece(length, world, rank)
    if layout == "zigzag":
        return torch.cat([_piece(length, 2 * world, rank), _piece(length, 2 * world, 2 * world - 1 - rank)])
    raise ValueError(f"[{function}] layout: must be 'contiguous' or 'zigzag', got {layout!r}")


def shard(x: Tensor, dim: int, world: int, rank: int, layout: Split = "contiguous") -> Tensor:
    """Returns the part of x along dim that a process holds: the tokens of :func:`shard_positions`, as a copy.
    Differentiable.

    x: a tensor with all tokens of the sequence, of any shape.
    dim: the axis along which tokens lie; below 0 it is counted from the end.
    world: how many processes there are.
    rank: which of them this is, from 0.
    layout: 'contiguous' or 'zigzag', as :func:`shard_positions` takes it.

    Raises what :func:`shard_positions` raises, and RangeError for an axis that x does not have.
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"[shard] x: must be a tensor, got {type(x)}")
    axes = x.dim()
    if index_of(dim) is None:
        raise TypeError(f"[shard] dim: must be a whole number, got {dim!r}")
    if not -axes <= dim < axes:
        raise RangeError(f"[shard] dim: must be an axis of x, which has {axes}, got {dim}")
    return x.index_select(dim, _tokens("shard", x.shape[dim], world, rank, layout).to(x.device))


def _piece(length: int, pieces: int, number: int) -> Tensor:
    short, longer = divmod(length, pieces)
    first = number * short + min(number, longer)
    return torch.arange(first, first + short + (number < longer))
