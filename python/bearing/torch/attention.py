"""Attention as a module: any encodings, a mask, and projections if they are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .base import EncodingModule
from .encoding import Encoding, EncodingLike, Encodings, encoding_of, encodings_of
from .functional import Layout, Mask, Positions, attention
from .rows import Rope, Rows


class Fixed(EncodingModule):
    """An encoding with nothing to learn, or of ``bearing``'s own objects, as a module: its arrays are buffers."""

    def __init__(self, encoding: EncodingLike) -> None:
        nn.Module.__init__(self)
        self.form, tensors = encoding_of(encoding)
        for i, tensor in enumerate(tensors):
            self.register_buffer(f"tensor_{i}", tensor.detach())
        self._names = tuple(f"tensor_{i}" for i in range(len(tensors)))

    def encoding(self) -> Encoding:
        return Encoding(self.form, tuple(getattr(self, name) for name in self._names))


class Attention(nn.Module):
    """Scaled attention with a list of encodings; nothing is projected.

    encodings: modules of this package or ``bearing``'s own encodings. Those of rows (Rope, RopeMixed, …) turn queries
    and keys first, in their order; the others act on scores and values. The parameters of all are this module's. mask,
    window, scale and soft_cap as in :func:`bearing.torch.attention`. sinks: a number of heads, each of which then
    learns a logit that takes part in the sum and has no value; they start at 0.
    """

    def __init__(
        self,
        encodings: Sequence[EncodingLike] = (),
        *,
        mask: Mask,
        window: tuple[int, int] | None = None,
        scale: float | None = None,
        soft_cap: float = 0.0,
        sinks: int = 0,
        layout: Layout = "bhtd",
    ) -> None:
        super().__init__()
        modules = [one if isinstance(one, nn.Module) else Fixed(one) for one in encodings]
        self.rows = nn.ModuleList(one for one in modules if isinstance(one, (Rope, Rows)))
        self.scores = nn.ModuleList(one for one in modules if not isinstance(one, (Rope, Rows)))
        self.sinks = nn.Parameter(torch.zeros(sinks)) if sinks else None
        self.options = {"mask": mask, "window": window, "scale": scale, "soft_cap": soft_cap, "layout": layout}

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        q_at: Positions = None,
        k_at: Positions = None,
        more: Encodings = None,
        **given: Any,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """q [batch, heads, q_len, dim], k and v [batch, kv_heads, k_len, …]: what attention() takes and gives.

        more: encodings of this call alone, such as ``Forgetting.encoding(x)``. given: k_lengths, key_mask, visible,
        q_starts, k_starts, return_lse, as in :func:`bearing.torch.attention`.
        """
        k_positions = 0 if k_at is None and q_at is not None else k_at
        for rows in self.rows:
            q, k = rows(q, k, q_at, k_positions, layout=self.options["layout"])
        encodings = [one.encoding() for one in self.scores] + encodings_of(more)
        return attention(q, k, v, encodings, q_at=q_at, k_at=k_at, sinks=self.sinks, **self.options, **given)


class MultiHeadAttention(nn.Module):
    """Attention over x [batch, time, d_model], with the four projections of a transformer's layer.

    kv_heads: fewer than heads for grouped queries. head_dim: d_model / heads if not given. Everything else as in
    :class:`Attention`; layout is the projections' own.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        encodings: Sequence[EncodingLike] = (),
        *,
        mask: Mask,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        bias: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        self.head_dim = head_dim or d_model // heads
        kv_dim = (kv_heads or heads) * self.head_dim
        self.q = nn.Linear(d_model, heads * self.head_dim, bias=bias)
        self.k = nn.Linear(d_model, kv_dim, bias=bias)
        self.v = nn.Linear(d_model, kv_dim, bias=bias)
        self.out = nn.Linear(heads * self.head_dim, d_model, bias=bias)
        self.attention = Attention(encodings, mask=mask, layout="bthd", **options)

    def forward(self, x: Tensor, context: Tensor | None = None, **given: Any) -> Tensor:
        """x [batch, time, d_model]; context: what keys and values are made of, x if not given."""
        context = x if context is None else context
        q, k, v = (
            project(of).unflatten(-1, (-1, self.head_dim))
            for project, of in ((self.q, x), (self.k, context), (self.v, context))
        )
        return self.out(self.attention(q, k, v, **given).flatten(2))
