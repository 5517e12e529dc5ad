"""ALiBi's scores, for FlexAttention: any positions, on the slopes' own device. And that its slopes are factors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..score_call import Call, Term

__all__: list[str] = []


def _slopes(spec: Any, tensors: dict[str, Tensor], call: Call) -> Tensor:
    return tensors["slopes"] if spec is None else torch.tensor(spec.slopes, device=call.device, dtype=call.dtype)


def _alibi(spec: Any, settings: dict[str, Any], tensors: dict[str, Tensor], call: Call) -> Term:
    slopes, distance = _slopes(spec, tensors, call), call.distance()
    causal = (settings.get("form") if spec is None else spec.form) == "causal"

    def term(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        d = distance(b, i, j)
        return slopes[h] * (d.clamp(max=0) if causal else -d.abs())

    return term


def _shifted(spec: Any, settings: dict[str, Any], tensors: dict[str, Tensor], call: Call) -> Term:
    slopes, (at, *_) = _slopes(spec, tensors, call), call.k_positions
    return lambda b, h, i, j: slopes[h] * at(b, j)


PROPORTIONAL = ("AlibiBias",)
SCORES = {"AlibiBias": _alibi, "AlibiShiftedBias": _shifted}
