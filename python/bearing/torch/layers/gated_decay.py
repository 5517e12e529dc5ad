"""Gated linear attention: the gates of a layer's input."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..base import Device, EncodingModule, as_parameters, check_sizes, no_autocast, placement
from ..encoding import Encoding, with_past
from ..given_numbers import check_number

__all__ = ["GatedDecay"]


class GatedDecay(EncodingModule):
    """Gated linear attention's decay: each token says, per head and channel, what is kept of all before it.

    ``encoding(x)`` takes the layer's input x [batch, time, d_model] and computes the gates as the paper does, through a
    narrow layer: ``a = sigmoid(x W1 W2 + b)^(1/temperature)``. For linear attention ``heads`` are those of the keys,
    and ``head_dim`` is the dimension of the rows as they enter the product.

    d_model: how many features a token has.
    rank: how narrow the layer is.
    temperature: the root that is taken of the gates.
    device, dtype: where parameters are made, and of which type.

    To decode with softmax attention, keep :meth:`log_decay` of each token in a cache beside its key and value, with 0 where
    no token is yet, and give attention ``of_gates(cache, past=None)`` with q_positions.

    Yang, Wang, Shen, Panda, Kim 2023, arXiv 2312.06635.
    """

    def __init__(
        self,
        heads: int,
        head_dim: int,
        d_model: int,
        rank: int = 16,
        temperature: float = 16.0,
        *,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_sizes("GatedDecay", heads=heads, head_dim=head_dim, d_model=d_model, rank=rank)
        check_number("GatedDecay", "temperature", temperature)
        placed = placement("GatedDecay", device, dtype)
        super().__init__("GatedDecayTerm", None, ["log_decay"])
        if not temperature > 0:
            raise ValueError(f"[GatedDecay] temperature: must be above 0, got {temperature}")
        self.heads, self.head_dim, self.temperature = heads, head_dim, temperature
        self.down = nn.Linear(d_model, rank, bias=False, **placed)
        self.up = nn.Linear(rank, heads * head_dim, **placed)

    def log_decay(self, x: Tensor) -> Tensor:
        """Computes the logarithms of the gates of x [batch, time, d_model]: [batch, heads, time, head_dim]."""
        with no_autocast(x):
            log = F.logsigmoid(self.up(self.down(as_parameters(x, self.down)))) / self.temperature
        return log.unflatten(-1, (self.heads, self.head_dim)).transpose(1, 2)

    def encoding(self, x: Tensor) -> Encoding:
        return Encoding(self.form, (self.log_decay(x),))

    def of_gates(self, log_decay: Tensor, past: int | None = 0) -> Encoding:
        """Returns the encoding of gates that :meth:`log_decay` gave.

        log_decay [batch, heads, k_len, head_dim]: of every key's token.
        past: how many tokens come before the first query; None: a query is the token that its position names.
        """
        return Encoding(with_past(self.form, past), (log_decay,))
