"""Forgetting attention: the gates of a layer's input."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..base import Device, EncodingModule, Linear, as_parameters, check_sizes, no_autocast, placement
from ..encoding import Encoding, with_past
from ..given_numbers import check_number
from ..score_call import Call, Term

__all__ = ["Forgetting"]


class Forgetting(EncodingModule):
    """Forgetting attention, or data-dependent ALiBi: a score falls by what the tokens after its key forget.

    ``encoding(x)`` takes the layer's input x [batch, time, d_model] and computes a gate ``f = sigmoid(w x + b)`` for
    each head. The gates' bias starts at 5, so that gates are nearly open, as in x-transformers.

    heads: how many heads queries have.
    d_model: how many features a token has.
    bias: where the gates' bias starts.
    device, dtype: where parameters are made, and of which type.

    To decode, keep :meth:`log_forget` of each token in a cache beside its key and value, with 0 where no token is yet,
    and give attention ``of_gates(cache, past=None)`` with q_positions.

    Lin, Nikishin, He, Courville 2025, arXiv 2503.02130.
    """

    def __init__(
        self,
        heads: int,
        d_model: int,
        bias: float = 5.0,
        *,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_sizes("Forgetting", heads=heads, d_model=d_model)
        check_number("Forgetting", "bias", bias)
        super().__init__("ForgettingBias", None, ["log_forget"])
        self.gate = Linear(d_model, heads, std=None, bias_start=bias, **placement("Forgetting", device, dtype))
        self.bias = bias

    def log_forget(self, x: Tensor) -> Tensor:
        """Computes the logarithms of the gates of x [batch, time, d_model]: [batch, heads, time]."""
        with no_autocast(x):
            log = F.logsigmoid(self.gate(as_parameters(x, self.gate)))
        return log.transpose(1, 2)

    def encoding(self, x: Tensor) -> Encoding:
        return Encoding(self.form, (self.log_forget(x),))

    def of_gates(self, log_forget: Tensor, past: int | None = 0) -> Encoding:
        """Returns the encoding of gates that :meth:`log_forget` gave.

        log_forget [batch, heads, k_len]: of every key's token.
        past: how many tokens come before the first query; None: a query is the token that its position names.
        """
        return Encoding(with_past(self.form, past), (log_forget,))


def _scores(spec: None, settings: dict[str, Any], tensors: dict[str, Tensor], call: Call) -> Term:
    sums = tensors["log_forget"].cumsum(-1)
    past = settings.get("past", 0)
    at = call.q_positions[0] if past is None else lambda b, i: i + past

    def term(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        token = at(b, i)
        return torch.where(j > token, 0.0, sums[b, h, token] - sums[b, h, j])

    return term


SCORES = {"ForgettingBias": _scores}
