"""Forgetting attention: the gates of a layer's input."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..base import EncodingModule, Linear
from ..encoding import Encoding
from ..score_call import Call, Term

__all__ = ["Forgetting"]


class Forgetting(EncodingModule):
    """Forgetting attention, or data-dependent ALiBi: a score falls by what the tokens after its key forget.

    ``encoding(x)`` takes the layer's input x [batch, time, d_model] and computes a gate ``f = sigmoid(w x + b)`` for
    each head. The gates' bias starts at 5, so that gates are nearly open, as in x-transformers.

    Lin, Nikishin, He, Courville 2025, arXiv 2503.02130.
    """

    def __init__(self, heads: int, d_model: int, bias: float = 5.0) -> None:
        super().__init__("ForgettingBias", None, ["log_forget"])
        self.gate = Linear(d_model, heads, std=None, bias_start=bias)
        self.bias = bias

    def encoding(self, x: Tensor) -> Encoding:
        return Encoding(self.form, (F.logsigmoid(self.gate(x)).transpose(1, 2),))


def _scores(spec: None, settings: dict[str, Any], tensors: dict[str, Tensor], call: Call) -> Term:
    sums = tensors["log_forget"].cumsum(-1)
    past = settings.get("past", 0)

    def term(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.where(j > i + past, 0.0, sums[b, h, i + past] - sums[b, h, j])

    return term


SCORES = {"ForgettingBias": _scores}
