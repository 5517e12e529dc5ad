"""DeBERTa: relative embeddings, projected as keys and as queries."""

from __future__ import annotations

import torch

from ... import _core
from ..base import (
    Device,
    EncodingModule,
    Linear,
    by_head,
    check_sizes,
    check_spec,
    empty,
    no_autocast,
    normal,
    placement,
)
from ..encoding import Encoding

__all__ = ["Deberta"]


class Deberta(EncodingModule):
    """DeBERTa's disentangled attention: content meets position as query (c2p) and as key (p2c).

    Parameters: embeddings [2 spec.span(), d_model]; key, their projection as keys (pos_proj, or the layer's own key
    projection if it is shared); query, their projection as queries (pos_q_proj). They start normal, of standard
    deviation 0.02, biases at 0. Give attention ``scale=bearing.deberta_softmax_scale(spec, dim)``.

    spec: a ``bearing.Deberta``.
    heads: how many heads queries have.
    dim: how many dimensions a head has.
    d_model: how many features an embedding has.
    device, dtype: where parameters are made, and of which type.

    He, Liu, Gao, Chen 2021, arXiv 2006.03654.
    """

    def __init__(
        self,
        spec: _core.Deberta,
        heads: int,
        dim: int,
        d_model: int,
        *,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_spec("DebertaTerm", spec, called="Deberta")
        check_sizes("Deberta", heads=heads, dim=dim, d_model=d_model)
        placed = placement("Deberta", device, dtype)
        names = [name for name, wanted in (("key", spec.terms != "p2c"), ("query", spec.terms != "c2p")) if wanted]
        super().__init__("DebertaTerm", spec, names)
        self.heads = heads
        self.embeddings = empty(2 * spec.span(), d_model, **placed)
        self.key = Linear(d_model, heads * dim, bias=False, **placed) if spec.terms != "p2c" else None
        self.query = Linear(d_model, heads * dim, **placed) if spec.terms != "c2p" else None
        self._fill()

    def _fill(self) -> None:
        normal(self.embeddings)

    def encoding(self) -> Encoding:
        with no_autocast(self.embeddings):
            tables = [by_head(one(self.embeddings), self.heads) for one in (self.key, self.query) if one is not None]
        return Encoding(self.form, tuple(tables))
