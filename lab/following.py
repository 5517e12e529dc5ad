"""Encodings whose numbers depend on the length of the sequence: made for the length of each call."""

from __future__ import annotations

from typing import Any

import bearing
import bearing.torch as bt
import torch
from torch import Tensor, nn


class Following(nn.Module):
    """A dynamic RoPE, a normalised index, or CAPE, whose training moves positions. Nothing of it is learned."""

    def __init__(self, kind: str, spec: Any) -> None:
        super().__init__()
        self.kind, self.spec = kind, spec
        self.made: dict[int, bt.Encoding] = {}

    @staticmethod
    def follows(spec: Any) -> bool:
        """Whether a spec's numbers depend on the length of the sequence."""
        if isinstance(spec, bearing.Rope):
            return bearing.depends_on_length(spec.scaling)
        return getattr(spec, "form", "") == "normalised" or hasattr(spec, "augmentation")

    def encoding(self, time: int) -> bt.Encoding:
        """For a sequence of `time` tokens."""
        if time not in self.made:
            self.made[time] = bt.encoding_of(self._for(time))
        return self.made[time]

    def _for(self, time: int) -> Any:
        if isinstance(self.spec, bearing.Rope):
            return bt.Rope(self.spec, time, seq_len=time)
        spec = self.spec.replace(length=max(time, 2)) if hasattr(self.spec, "length") else self.spec
        return getattr(bearing, self.kind)(spec)

    def forward(self, x: Tensor, positions: Any = None) -> Tensor:
        """x [batch, time, d_model] with the rows added, of positions that training moves."""
        batch, time = x.shape[:2]
        if hasattr(self.spec, "augmentation"):
            seed = int(torch.randint(2**62, ())) if self.training else None
            given = {"time": time} if positions is None else {"positions": positions.numpy()}
            positions = torch.as_tensor(bearing.cape_positions(self.spec, batch=batch, training=seed, **given))
        return bt.add(self.encoding(time), x, positions)
