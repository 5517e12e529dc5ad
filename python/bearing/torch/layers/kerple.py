"""KERPLE, whose parameters stay where the kernel is positive definite."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ... import _core
from ..base import Bias, Described, Device
from ..score_call import Call, Term
from . import ByDistance

__all__ = ["Kerple"]


class Kerple(Described, Bias):
    """KERPLE's kernels, with parameters r1 and r2 [heads].

    They start as in the authors' code. Logarithmic kernel: r1 uniform in [0, 2), r2 in [0, 1). Power kernel: the
    exponent r2 in [0, 2), r1 in [0, 1). Both are at least ``Kerple.least``. Call :meth:`clamp` after each step of an
    optimiser, as that code does.

    spec: a ``bearing.Kerple``.
    heads: how many heads queries have.
    device, dtype: where parameters are made, and of which type.

    Chi, Fan, Ramadge, Rudnicky 2022, arXiv 2205.09921.
    """

    def __init__(
        self, spec: _core.Kerple, heads: int, *, device: Device = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__("KerpleBias", spec, heads=heads, device=device, dtype=dtype)
        self.heads = heads
        self.most = (math.inf, _core.Kerple.most_power if spec.form == "power" else math.inf)

    @torch.no_grad()
    def clamp(self) -> None:
        """Sets parameters back into the range where the kernel is positive definite."""
        for parameter, most in zip((self.r1, self.r2), self.most, strict=True):
            parameter.clamp_(_core.Kerple.least, most)


def _scores(spec: _core.Kerple, settings: dict[str, Any], tensors: dict[str, Tensor], call: Call) -> Term:
    r1, r2, power, distance = tensors["r1"], tensors["r2"], spec.form == "power", call.distance()

    def term(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        d = distance(b, i, j).abs().to(r1.dtype)
        return -r1[h] * (d ** r2[h] if power else torch.log1p(r2[h] * d))

    return term


def _numbers(spec: dict[str, Any], parameters: list[Tensor], distances: Tensor) -> Tensor:
    r1, r2 = (r.double()[:, None] for r in parameters)
    return -r1 * _kernel(spec, r2, distances.abs())


def _kernel(spec: dict[str, Any], r2: Tensor, d: Tensor) -> Tensor:
    return d**r2 if spec["form"] == "power" else torch.log1p(r2 * d)


def _gradients(spec: dict[str, Any], parameters: list[Tensor], distances: Tensor, d_numbers: Tensor) -> list[Tensor]:
    (r1, r2), d = (r.double()[:, None] for r in parameters), distances.abs()
    kernel = _kernel(spec, r2, d)
    slope = kernel * d.clamp(min=1).log() if spec["form"] == "power" else d / (1 + r2 * d)  # at d = 0 it is 0
    return [-(d_numbers * kernel).sum(-1), -(d_numbers * r1 * slope).sum(-1)]


SCORES = {"KerpleBias": _scores}
BY_DISTANCE = {"KerpleBias": ByDistance(_numbers, _gradients)}
