"""TUPE: position vectors, normalised and projected as queries and as keys."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from torch import Tensor, nn

from ... import _core
from ..base import Bias, Device, Linear, by_head, check_sizes, check_spec, empty, no_autocast, normal, placement
from ..encoding import Encoding, form_of
from ..functional import bias_matrix
from ..score_call import Call, Term

__all__ = ["Tupe"]


class Tupe(Bias):
    """TUPE: position meets position through projections of its own, with [CLS] untied.

    Parameters: positions [length + 1, d_model] ([length, d_model] if [CLS] is tied), which are normalised, then
    projected by query and key; in TUPE-R also bias [rel_pos_bins + 1, heads]. They start normal, of standard deviation
    0.02, biases at 0, as in BERT, on which the authors' code builds. One module serves all layers. Give attention
    ``scale=bearing.tupe_softmax_scale(dim)``.

    spec: a ``bearing.Tupe``.
    heads: how many heads queries have.
    dim: how many dimensions a head has.
    d_model: how many features a position's vector has.
    length: how many positions there are.
    device, dtype: where parameters are made, and of which type.

    Ke, He, Liu 2021, arXiv 2006.15595.
    """

    def __init__(
        self,
        spec: _core.Tupe,
        heads: int,
        dim: int,
        d_model: int,
        length: int,
        *,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_spec("TupeBias", spec, called="Tupe")
        check_sizes("Tupe", heads=heads, dim=dim, d_model=d_model, length=length)
        placed = placement("Tupe", device, dtype)
        untied = spec.cls == "untied"
        super().__init__("TupeBias", spec, ["query", "key", "bias"] if spec.rel_pos_bins else ["query", "key"])
        self.heads = heads
        self.positions = empty(length + untied, d_model, **placed)
        self.norm = nn.LayerNorm(d_model, **placed)
        self.query = Linear(d_model, heads * dim, **placed)
        self.key = Linear(d_model, heads * dim, **placed)
        self.bias = empty(spec.rel_pos_bins + untied, heads, **placed) if spec.rel_pos_bins else None
        self._fill()

    def _fill(self) -> None:
        normal(self.positions, self.bias)

    def encoding(self) -> Encoding:
        with no_autocast(self.positions):
            p = self.norm(self.positions)
            tables = (by_head(self.query(p), self.heads), by_head(self.key(p), self.heads))
        return Encoding(self.form, tables if self.bias is None else (*tables, self.bias))


def _scores(spec: _core.Tupe, settings: dict[str, Any], tensors: dict[str, Tensor], call: Call) -> Term:
    query, key, bias = tensors["query"], tensors["key"], tensors.get("bias")
    products = query @ key.transpose(1, 2) / math.sqrt(2 * query.shape[2])
    untied, picked = int(spec.cls == "untied"), None
    (m_of, *_), (n_of, *_) = call.q_positions, call.k_positions
    if bias is not None:
        form = form_of("TupeBias", spec, ["query", "key", "bias"])
        picked = _picked(form, bias.shape[0], untied, query.shape[1] - untied).to(call.device)

    def term(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        m, n = m_of(b, i), n_of(b, j)
        row, col = m + untied, n + untied
        if untied:  # what [CLS] has in place of positions, as query and as key
            row, col = (torch.where(m == 0, 0, torch.where(n == 0, 1, at)) for at in (row, col))
        added = products[h, row, col]
        return added if picked is None else added + bias[picked[m, n], h]

    return term


@functools.lru_cache(maxsize=8)
def _picked(form: str, rows: int, untied: int, length: int) -> Tensor:
    """The bias' row of each pair of positions, which the library tells: the rows' numbers, without products."""
    nothing = torch.zeros(1, length + untied, 1, dtype=torch.float64)
    one = Encoding(form, (nothing, nothing, torch.arange(rows, dtype=torch.float64)[:, None]))
    return bias_matrix(one, heads=1, q_len=length, k_len=length, dtype=torch.float64)[0].long()


SCORES = {"TupeBias": _scores}
