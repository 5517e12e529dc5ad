"""What terms of a score modifier are made of: the tensors and positions of a call of FlexAttention."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Union

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from .functional import Positions

# What an encoding adds to the score of query i and key j of head h in sequence b.
Term = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
At = Callable[[Tensor, Tensor], Tensor]
Device = Union[torch.device, str, None]


class Call(NamedTuple):
    """What terms are made of, beside their own numbers."""

    q: Tensor | None
    k: Tensor | None
    q_given: Positions
    k_given: Positions
    given_scale: float | None
    longest: int | None
    device: Device
    dtype: torch.dtype

    def need(self, kind: str, *names: str) -> None:
        for name in names:
            if getattr(self, name) is None:
                raise TypeError(f"[score_mod] {name}: must be given, as {kind} looks at it")

    @property
    def q_positions(self) -> list[At]:
        return _at(self.q_given)

    @property
    def k_positions(self) -> list[At]:
        return _at(self.k_given)

    @property
    def scale(self) -> float:
        return self.q.shape[-1] ** -0.5 if self.given_scale is None else self.given_scale

    def distance(self, axis: int = 0) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        """Key minus query, on an axis."""
        q, k = self.q_positions[axis], self.k_positions[axis]
        return lambda b, i, j: k(b, j) - q(b, i)

    def by_query(self, rows: Tensor) -> Tensor:
        """q_i · rows_o: [batch, heads, q_len, offsets], of rows [heads or 1, offsets, dim]."""
        return self.q.to(rows.dtype) @ rows.transpose(1, 2)

    def by_key(self, rows: Tensor) -> Tensor:
        """k_j · rows_o for every query head: [batch, heads, k_len, offsets]."""
        k = self.k.to(rows.dtype).repeat_interleave(self.q.shape[1] // self.k.shape[1], dim=1)
        return k @ rows.transpose(1, 2)

    @property
    def is_real(self) -> bool:
        """Whether positions are other than whole numbers."""
        return any(isinstance(at, Tensor) and at.is_floating_point() for at in (self.q_given, self.k_given))

    def lengths(self) -> tuple[int, int] | None:
        """Of queries and keys, where something tells them."""
        found = [_length(x, at) for x, at in ((self.q, self.q_given), (self.k, self.k_given))]
        return None if None in found else (found[0], found[1])

    def farthest(self) -> int | None:
        """The longest distance, where something tells it."""
        if self.longest is not None:
            return self.longest
        found = [_range(x, at) for x, at in ((self.q, self.q_given), (self.k, self.k_given))]
        if None in found:
            return None
        (q_least, q_most), (k_least, k_most) = found
        return max(abs(k_most - q_least), abs(k_least - q_most))

    @staticmethod
    def ends(x: Tensor | None, at: Positions) -> Tensor | None:
        """The least and the most position of every sequence, on each axis: [batch or 1, 2] or [axes, batch or 1, 2]."""
        if not isinstance(at, Tensor):
            found = _range(x, at)
            return None if found is None else torch.tensor([found])
        if at.device.type == "meta" or isinstance(at, FakeTensor) or not at.numel():
            return None
        at = at.detach()[None] if at.dim() == 1 else at.detach()
        return torch.stack([at.amin(-1), at.amax(-1)], -1).cpu()


def _length(x: Tensor | None, at: Positions) -> int | None:
    return x.shape[2] if x is not None else at.shape[-1] if isinstance(at, Tensor) else None


def _range(x: Tensor | None, at: Positions) -> tuple[int, int] | None:
    """The least and the most position, on the first axis."""
    if isinstance(at, Tensor):
        first = at[0] if at.dim() == 3 else at
        return None if at.device.type == "meta" or not at.numel() else (int(first.amin()), int(first.amax()))
    return None if x is None else ((at or 0), (at or 0) + x.shape[2] - 1)


# Closures hold plain numbers alone: compilers do not look into specs.


def _at(positions: Positions) -> list[At]:
    """The position of a token, for each axis."""
    if positions is None:
        return [lambda b, i: i]
    if not isinstance(positions, Tensor):
        return [lambda b, i: i + positions]
    if positions.dim() == 1:
        return [lambda b, i: positions[i]]
    if positions.dim() == 2:
        return [_of_sequence(positions)]
    return [_of_sequence(axis) for axis in positions]


def _of_sequence(positions: Tensor) -> At:
    if positions.shape[0] == 1:
        return lambda b, i: positions[0][i]
    return lambda b, i: positions[b, i]
