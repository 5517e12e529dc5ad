"""Modules in which position meets content: terms of scores and values that look at queries and keys."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .. import _core
from .base import Bias, Described, EncodingModule, empty, normal
from .encoding import Encoding


class Shaw(Described):
    """Relative position representations: a vector for each clipped distance, added to keys and to values.

    key, value [2 clip + 1, dim], shared by all heads. They start Glorot-uniform, as in Tensor2Tensor. value_dim: of the
    values, dim if not given; values=False leaves their table out.

    Shaw, Uszkoreit, Vaswani 2018, arXiv 1803.02155.
    """

    def __init__(self, spec: _core.Shaw, dim: int, value_dim: int | None = None, values: bool = True) -> None:
        without = () if values else ("value",)
        super().__init__("ShawTerm", spec, without=without, dim=dim, value_dim=value_dim or dim)


class BertRelative(Described):
    """BERT's and Wav2Vec2-BERT's vectors by distance: table [spec.rows(), dim], shared by all heads.

    Starts normal, of standard deviation 0.02 (initializer_range).

    Huang, Liang, Xu, Xiang 2020, arXiv 2009.13658.
    """

    def __init__(self, spec: _core.BertRelative | _core.Wav2Vec2BertRelative, dim: int) -> None:
        super().__init__("BertRelativeTerm", spec, dim=dim)


class TransformerXL(EncodingModule):
    """Transformer-XL's terms (b), (c) and (d): ``scale [u k_j + (q_i + v) W_R R_{m-n}]``.

    u, v [heads, dim] are the files' r_w_bias and r_r_bias, ``w_r`` the projection r_net [heads * dim, d_model].
    offsets: how many rows r has, the first for spec.first_offset: q_len + memory for causal models. All start normal,
    of standard deviation 0.02, as in the authors' code.

    Dai, Yang, Yang, Carbonell, Le, Salakhutdinov 2019, arXiv 1901.02860.
    """

    def __init__(
        self, spec: _core.TransformerXL, heads: int, dim: int, d_model: int, offsets: int, base: float = 10_000.0
    ) -> None:
        super().__init__("TransformerXLTerm", spec, ["r", "u", "v"])
        self.heads, self.base = heads, base
        self.u, self.v = empty(heads, dim), empty(heads, dim)
        self.w_r = empty(heads * dim, d_model)
        self.register_buffer("sinusoids", torch.empty(offsets, d_model, dtype=torch.float64), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        normal(self.u, self.v, self.w_r)
        offsets, d_model = self.sinusoids.shape
        self.sinusoids.copy_(_offset_sinusoids(self.spec, d_model, offsets, self.base))

    def r(self) -> Tensor:
        """The projected sinusoids of every offset: [heads, offsets, dim]."""
        r = self.sinusoids.to(self.w_r.dtype) @ self.w_r.T
        return r.unflatten(1, (self.heads, -1)).transpose(0, 1).contiguous()

    def encoding(self) -> Encoding:
        return Encoding(self.form, (self.r(), self.u, self.v))


def _offset_sinusoids(spec: _core.TransformerXL, d_model: int, offsets: int, base: float) -> Tensor:
    at = torch.arange(spec.first_offset, spec.first_offset + offsets, dtype=torch.float64)
    if spec.clamp_len > 0:
        at = at.clamp(-spec.clamp_len, spec.clamp_len)
    frequencies = base ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angles = at[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class XlnetSegments(Described):
    """XLNet's term by segment: ``scale (q_i + r_s) seg_embed[0 if i and j are of the same segment, else 1]``.

    seg_embed [2, heads, dim], r_s [heads, dim]; ``encoding(q_segments, k_segments)`` of whole numbers [batch, tokens].
    Starts normal, of standard deviation 0.02 (initializer_range).

    Yang, Dai, Yang, Carbonell, Salakhutdinov, Le 2019, arXiv 1906.08237.
    """

    def __init__(self, heads: int, dim: int) -> None:
        super().__init__("XlnetSegmentTerm", heads=heads, dim=dim)

    def encoding(self, q_segments: Tensor, k_segments: Tensor) -> Encoding:
        return super().encoding(q_segments=q_segments.long(), k_segments=k_segments.long())


class Deberta(EncodingModule):
    """DeBERTa's disentangled attention: content meets position as query (c2p) and as key (p2c).

    embeddings [2 spec.span(), d_model] and their projections key (pos_proj, or the layer's own key projection when it
    is shared) and query (pos_q_proj). All start normal, of standard deviation 0.02, biases at 0. Give attention
    ``scale=bearing.deberta_softmax_scale(spec, dim)``.

    He, Liu, Gao, Chen 2021, arXiv 2006.03654.
    """

    def __init__(self, spec: _core.Deberta, heads: int, dim: int, d_model: int) -> None:
        names = [name for name, wanted in (("key", spec.terms != "p2c"), ("query", spec.terms != "c2p")) if wanted]
        super().__init__("DebertaTerm", spec, names)
        self.heads = heads
        self.embeddings = empty(2 * spec.span(), d_model)
        self.key = nn.Linear(d_model, heads * dim, bias=False) if spec.terms != "p2c" else None
        self.query = nn.Linear(d_model, heads * dim) if spec.terms != "c2p" else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        normal(self.embeddings)
        _reset(self.key, self.query)

    def encoding(self) -> Encoding:
        tables = [_by_head(one(self.embeddings), self.heads) for one in (self.key, self.query) if one is not None]
        return Encoding(self.form, tuple(tables))


class Tupe(Bias):
    """TUPE: position meets position through projections of its own, with [CLS] untied.

    positions [length + 1, d_model] ([length, d_model] with [CLS] tied), normalised, then projected by query and key;
    bias [rel_pos_bins + 1, heads] in TUPE-R. All start normal, of standard deviation 0.02, biases at 0, as BERT's, on
    which the authors' code builds. One module serves all layers. Give attention
    ``scale=bearing.tupe_softmax_scale(dim)``.

    Ke, He, Liu 2021, arXiv 2006.15595.
    """

    def __init__(self, spec: _core.Tupe, heads: int, dim: int, d_model: int, length: int) -> None:
        untied = spec.cls == "untied"
        super().__init__("TupeBias", spec, ["query", "key", "bias"] if spec.rel_pos_bins else ["query", "key"])
        self.heads = heads
        self.positions = empty(length + untied, d_model)
        self.norm = nn.LayerNorm(d_model)
        self.query = nn.Linear(d_model, heads * dim)
        self.key = nn.Linear(d_model, heads * dim)
        self.bias = empty(spec.rel_pos_bins + untied, heads) if spec.rel_pos_bins else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        normal(self.positions, self.bias)
        _reset(self.query, self.key)

    def encoding(self) -> Encoding:
        p = self.norm(self.positions)
        tables = (_by_head(self.query(p), self.heads), _by_head(self.key(p), self.heads))
        return Encoding(self.form, tables if self.bias is None else (*tables, self.bias))


class Cope(Described):
    """CoPE: a position counts those tokens that the query cares to count. embeddings [1, max_pos, dim], for all heads.

    Starts at 0, as in the paper's code.

    Golovneva, Wang, Weston, Sukhbaatar 2024, arXiv 2405.18719.
    """

    def __init__(self, spec: _core.Cope, dim: int, heads: int = 1) -> None:
        super().__init__("CopeTerm", spec, heads=heads, dim=dim)


class Sam(Described):
    """Decomposed relative positions of Segment Anything: height_table [2 height - 1, dim], width_table alike.

    Positions [2, batch, time], y then x: :func:`bearing.torch.window_positions`. Starts at 0, as in the authors' code.

    Li et al. 2022, arXiv 2112.01526.
    """

    def __init__(self, spec: _core.Sam, dim: int) -> None:
        super().__init__("SamTerm", spec, dim=dim)


def _reset(*projections: nn.Linear | None) -> None:
    for linear in projections:
        if linear is not None:
            normal(linear.weight)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)


def _by_head(rows: Tensor, heads: int) -> Tensor:
    """[rows, heads * dim] as [heads, rows, dim]."""
    return rows.unflatten(-1, (heads, -1)).transpose(0, 1).contiguous()
