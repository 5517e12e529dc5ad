"""FIRE: a network of the distance, in a layer of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ... import _core
from ..base import Bias, Device, Weights, check_sizes, check_spec, empty, placement
from ..encoding import Encoding
from ..score_call import Call, Term

__all__ = ["Fire"]


class Fire(Bias):
    """FIRE: a network 1 -> mlp_width -> heads of the distance, which is divided by the length seen so far.

    It starts as in the paper's appendix: c at 0.1, the threshold's multiplier at 1, the layers as PyTorch's linear
    ones.

    spec: a ``bearing.Fire``.
    heads: how many heads queries have.
    device, dtype: where parameters are made, and of which type.

    Li, You, Guruganesh et al. 2023, arXiv 2310.04418.
    """

    def __init__(
        self, spec: _core.Fire, heads: int, *, device: Device = None, dtype: torch.dtype | None = None
    ) -> None:
        check_spec("FireBias", spec, called="Fire")
        check_sizes("Fire", heads=heads)
        placed = placement("Fire", device, dtype)
        names = ["c", "multiplier", "hidden_weight", "hidden_bias", "out_weight", "out_bias"]
        super().__init__("FireBias", spec, names)
        self.heads = heads
        self.c, self.multiplier = empty(1, **placed), empty(1, **placed)
        self.hidden = Weights(1, spec.mlp_width, **placed)
        self.out = Weights(spec.mlp_width, heads, **placed)
        self._fill()

    def _fill(self) -> None:
        nn.init.constant_(self.c, _core.Fire.initial_c)
        nn.init.constant_(self.multiplier, _core.Fire.initial_multiplier)

    def encoding(self) -> Encoding:
        hidden, out = self.hidden, self.out
        return Encoding(
            self.form, (self.c, self.multiplier, hidden.weight.flatten(), hidden.bias, out.weight, out.bias)
        )


def _scores(spec: _core.Fire, settings: dict[str, Any], tensors: dict[str, Tensor], call: Call) -> Term:
    c, multiplier = tensors["c"], tensors["multiplier"]
    threshold, eps, width = spec.threshold, spec.eps, spec.mlp_width
    weight, bias, out, out_bias = (tensors[n] for n in ("hidden_weight", "hidden_bias", "out_weight", "out_bias"))
    distance, (at, *_) = call.distance(), call.q_positions

    def psi(d: Tensor) -> Tensor:
        return torch.log1p((c[0] * d).abs())

    def term(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        d = distance(b, i, j).abs().to(c.dtype)
        m = at(b, i).to(c.dtype)
        x = psi(d) / (psi(torch.maximum(m, (multiplier[0] * threshold).abs())) + eps)
        # Unit by unit: score modifiers are compiled from operations on single scores.
        f = out_bias[h]
        for unit in range(width):
            f = f + out[h, unit] * torch.relu(weight[unit] * x + bias[unit])
        return f

    return term


SCORES = {"FireBias": _scores}
