"""SwinV2: the network that computes a window's table."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ... import _core
from ..base import Bias, Device, check_sizes, check_spec, no_autocast, placement, type_of
from ..encoding import Encoding

__all__ = ["SwinV2"]


class SwinV2(Bias):
    """SwinV2's continuous bias: a network 2 -> hidden -> heads computes the table of a window.

    Positions are [2, batch, time], y then x, as :func:`window_positions` makes them. The layers start as PyTorch's
    linear ones.

    spec: a ``bearing.SwinV2``.
    heads: how many heads queries have.
    hidden: how many units the network has.
    device, dtype: where parameters are made, and of which type.

    Liu et al. 2022, arXiv 2111.09883.
    """

    def __init__(
        self,
        spec: _core.SwinV2,
        heads: int,
        hidden: int = 512,
        *,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_spec("SwinV2", spec, ("SwinV2",))
        check_sizes("SwinV2", heads=heads, hidden=hidden)
        placed = placement("SwinV2", device, dtype)
        super().__init__(type(spec.window).__name__ + "Bias", spec.window, ["table"])
        self.heads = heads
        self.hidden = nn.Linear(2, hidden, **placed)
        self.out = nn.Linear(hidden, heads, bias=False, **placed)
        self.trained = spec.trained_height, spec.trained_width
        displacements = torch.empty(spec.window.rows(), 2, device=device, dtype=torch.float64)
        self.register_buffer("displacements", displacements, persistent=False)
        self._fill()

    def _fill_buffers(self) -> None:
        height, width = self.trained
        spec = _core.SwinV2(window=self.spec, trained_height=height, trained_width=width)
        self.displacements.copy_(torch.as_tensor(_core.swin_v2_coordinates(spec), device="cpu"))

    def table(self) -> Tensor:
        """Computes the table [window.rows(), heads]: ``16 sigmoid(w2 relu(w1 c + b1))`` of every displacement c."""
        dtype = type_of(self, torch.float32)
        with no_autocast(self.displacements):
            return 16 * torch.sigmoid(self.out(F.relu(self.hidden(self.displacements.to(dtype)))))

    def encoding(self) -> Encoding:
        return Encoding(self.form, (self.table(),))
