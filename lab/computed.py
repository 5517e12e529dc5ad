"""What some encodings ask the model to compute from a layer's input, by the name of the parameter that is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from .positions import Place


class Gate(nn.Module):
    """WavLM's gate of a head (Chen et al. 2022, arXiv 2110.13900): r (s c - 1) + 2, where r and s are sigmoids of sums of
    four numbers each that a projection of the head's part of the input gives."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.heads = place.heads
        self.project = nn.Linear(place.dim, 8)
        self.constant = nn.Parameter(torch.ones(place.heads, 1))

    def forward(self, x: Tensor) -> Tensor:
        """x [batch, time, d_model] -> [batch, heads, time]."""
        by_head = x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        r, s = self.project(by_head).unflatten(-1, (2, 4)).sum(-1).sigmoid().unbind(-1)
        return r * (s * self.constant - 1) + 2


class Angles(nn.Module):
    """Angles as CARoPE has them (Veisi et al. 2025, arXiv 2507.23083): each token gives each head a number between 0 and
    1, pair i turns by its i-th power, and the turns add up along the sequence."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.pairs = place.dim // 2
        self.project = nn.Linear(place.d_model, place.heads, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x [batch, time, d_model] -> [batch, heads, time, pairs]."""
        turns = 1 / (1 + F.softplus(self.project(x))).transpose(1, 2)
        powers = torch.arange(1, self.pairs + 1, dtype=x.dtype, device=x.device)
        return (turns[..., None] ** powers).cumsum(dim=2)


NETWORKS = {"gate": Gate, "angles": Angles}
