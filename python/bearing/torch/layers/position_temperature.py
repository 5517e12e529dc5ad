"""Position temperature, whose learned form has a factor for each head of queries."""

from __future__ import annotations

import torch

from ... import _core
from ..base import Device, Rows
from ..encoding import Encoding

__all__ = ["TemperatureRows"]


class TemperatureRows(Rows):
    """Attention temperature by position: queries far into the sequence grow, keys stay as they are.

    ``q, k = temperature(q, k)``, or give it to :class:`bearing.torch.Attention`.

    spec: a ``bearing.PositionTemperature``.
    heads: how many heads of queries have a scale and a bias, in the learned form alone. They may be 1, for all heads.

    device, dtype: where parameters are made, and of which type.

    Parameters of the learned form: scale [heads], which starts at 0, and bias [heads], at 1, so that nothing is scaled
    at first. A head's factor at position p is ``scale ln(max(1, p + first)) + bias``. With grouped queries there may be
    fewer heads of keys.

    Nakanishi 2025, arXiv 2501.19399.
    """

    def __init__(
        self,
        spec: _core.PositionTemperature,
        heads: int | None = None,
        *,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        learned = getattr(spec, "form", None) == "learned"
        if learned and heads is None:
            raise TypeError("[TemperatureRows] heads: must be given for the learned form, got None")
        if not learned and heads is not None:
            raise TypeError(f"[TemperatureRows] heads: must be left out except in the learned form, got {heads}")
        sets = {} if heads is None else {"sets": heads}
        super().__init__("TemperatureRows", spec, device=device, dtype=dtype, **sets)
        self.sets = 1 if heads is None else heads

    def encoding(self, heads: int | None = None) -> Encoding:
        return super().encoding(None if heads is None or heads < self.sets else heads)
