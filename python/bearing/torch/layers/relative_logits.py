"""Relative logits made by content: what a layer's input takes of each profile over the distance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ... import _core
from ..base import Device, EncodingModule, Linear, check_sizes, check_spec, empty, normal, placement
from ..encoding import Encoding
from ..score_call import Call, Term
from . import Mixed

__all__ = ["RelativeLogits"]


class RelativeLogits(EncodingModule):
    """Relative logits made by content: each query mixes learned profiles over the distance into its bias.

    ``encoding(x)`` takes the queries' tokens as the layer gets them, x [batch, q_len, d_model].

    spec: a ``bearing.RelativeLogits``.
    heads: how many heads queries have.
    d_model: how many features a token has.
    rank: how many profiles there are.
    device, dtype: where parameters are made, and of which type.

    Parameters: table [extent, rank], the transpose of a model's ``rel_logits_proj.proj``; project (``r_proj``), which
    makes r; and with a clip scale [heads, rank] (``rel_l2_clip.scale``), which multiplies r before the clip and starts
    at 1. The others start normal, of standard deviation 0.02. Where the spec has a temperature, queries need
    rows of the same one as well.

    Thinking Machines Lab 2026, Inkling and Inkling 2.
    """

    def __init__(
        self,
        spec: _core.RelativeLogits,
        heads: int,
        d_model: int,
        rank: int = 16,
        *,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_spec("RelativeLogitsTerm", spec, called="RelativeLogits")
        check_sizes("RelativeLogits", heads=heads, d_model=d_model, rank=rank)
        placed = placement("RelativeLogits", device, dtype)
        super().__init__("RelativeLogitsTerm", spec, ["table", "r"])
        self.heads = heads
        self.table = empty(spec.extent, rank, **placed)
        self.project = Linear(d_model, heads * rank, bias=False, **placed)
        self.scale = None if spec.clip is None else empty(heads, rank, **placed)
        self._fill()

    @torch.no_grad()
    def _fill(self) -> None:
        normal(self.table)
        if self.scale is not None:
            self.scale.fill_(1)

    def encoding(self, x: Tensor) -> Encoding:
        r = self.project(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return Encoding(self.form, (self.table, r if self.scale is None else r * self.scale[:, None]))


def _factor(spec: Any) -> Callable[[Tensor], Tensor] | None:
    """The temperature of queries at m; in plain numbers, as compilers do not look into specs."""
    if spec is None:
        return None
    beta, length, first = spec.beta, spec.length, spec.first
    if spec.form == "power":
        return lambda m: torch.exp(beta * torch.log1p((m + first) / length))
    if spec.form == "clamped":
        return lambda m: 1 + beta * torch.log(((m + first) / length).clamp(min=1))
    return lambda m: 1 + beta * torch.log1p(torch.floor((m + first) / length))


def _norm(r: Tensor) -> Tensor:
    """What the clip divides by."""
    return torch.linalg.vector_norm(r, dim=-1, keepdim=True) + _core.RelativeLogits.clip_epsilon


def _scores(spec: _core.RelativeLogits, settings: dict[str, Any], tensors: dict[str, Tensor], call: Call) -> Term:
    r, extent, factor = tensors["r"], spec.extent, _factor(spec.temperature)
    if spec.clip is not None:
        r = r * (spec.clip / _norm(r)).clamp(max=1)
    logits, alone = r @ tensors["table"].transpose(-1, -2), r.shape[0] == 1
    place, distance = call.q_positions[0], call.distance()

    def term(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        back = -distance(b, i, j)
        added = logits[b * 0 if alone else b, h, i, back.clamp(0, extent - 1)]
        if factor is not None:
            added = added * factor(place(b, i).to(logits.dtype))
        return torch.where((back >= 0) & (back < extent), added, 0.0)

    return term


def _rows(spec: _core.RelativeLogits, distances: Tensor) -> Tensor:
    return torch.where((distances <= 0) & (distances > -spec.extent), -distances, -1)


def _tempered(spec: _core.RelativeLogits, x: Tensor, positions: Tensor) -> Tensor:
    factor = _factor(spec.temperature)
    return x if factor is None else x * factor(positions.double()).to(x.dtype)[:, None]


def _factors(spec: _core.RelativeLogits, r: Tensor, positions: Tensor) -> Tensor:
    if spec.clip is not None:
        r = r * (spec.clip / _norm(r)).clamp(max=1)
    return _tempered(spec, r, positions)


def _gradients(spec: _core.RelativeLogits, r: Tensor, positions: Tensor, d_factors: Tensor) -> Tensor:
    d = _tempered(spec, d_factors, positions)
    if spec.clip is None:
        return d
    norm = _norm(r)
    along = (r * d).sum(-1, keepdim=True) / (norm * (norm - _core.RelativeLogits.clip_epsilon))  # what would lengthen r
    return torch.where(norm > spec.clip, spec.clip / norm * (d - along * r), d)


SCORES = {"RelativeLogitsTerm": _scores}
MIXED = {"RelativeLogitsTerm": Mixed("table", "r", _rows, _factors, _gradients)}
