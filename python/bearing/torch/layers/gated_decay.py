"""Gated linear attention: the gates of a layer's input."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from ..base import EncodingModule
from ..encoding import Encoding

__all__ = ["GatedDecay"]


class GatedDecay(EncodingModule):
    """Gated linear attention's decay: each token says, per head and channel, what is kept of all before it.

    ``encoding(x)`` takes the layer's input x [batch, time, d_model] and computes the gates as the paper does, through a
    narrow layer: ``a = sigmoid(x W1 W2 + b)^(1/temperature)``. For linear attention ``heads`` are those of the keys,
    and ``head_dim`` is the dimension of the rows as they enter the product.

    Yang, Wang, Shen, Panda, Kim 2023, arXiv 2312.06635.
    """

    def __init__(self, heads: int, head_dim: int, d_model: int, rank: int = 16, temperature: float = 16.0) -> None:
        super().__init__("GatedDecayTerm", None, ["log_decay"])
        if not temperature > 0:
            raise ValueError(f"[GatedDecay] temperature: must be above 0, got {temperature}")
        self.heads, self.head_dim, self.temperature = heads, head_dim, temperature
        self.down = nn.Linear(d_model, rank, bias=False)
        self.up = nn.Linear(rank, heads * head_dim)

    def encoding(self, x: Tensor) -> Encoding:
        log = F.logsigmoid(self.up(self.down(x))) / self.temperature
        return Encoding(self.form, (log.unflatten(-1, (self.heads, self.head_dim)).transpose(1, 2),))
