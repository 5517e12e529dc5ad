"""Encodings as score modifiers of PyTorch's FlexAttention, in PyTorch's own operations: for GPUs, today."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import _core
from .encoding import Encodings, encodings_of, spec_of, tensors_of
from .functional import Positions
from .ops import arithmetic_of

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
# What an encoding adds to the score of query i and key j of head h in sequence b.
Term = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
At = Callable[[Tensor, Tensor], Tensor]


def score_mod(
    encodings: Encodings,
    *,
    q: Tensor | None = None,
    k: Tensor | None = None,
    q_positions: Positions = None,
    k_positions: Positions = None,
    scale: float | None = None,
    soft_cap: float = 0.0,
    longest: int | None = None,
    device: torch.device | str | None = None,
) -> ScoreMod:
    """A score modifier: ``flex_attention(q, k, v, score_mod=score_mod(encodings, …), block_mask=…)``.

    encodings: of scores, as :func:`bearing.torch.attention` takes them, their tensors on the device of the call. Those
    of rows turn q and k before; CoPE, and Shaw's values, are no functions of one score and are refused. Learned tables
    are captured, so that FlexAttention differentiates them.

    q [batch, heads, q_len, dim], k [batch, kv_heads, k_len, dim]: needed by encodings that look at them, as they go
    into flex_attention. q_positions, k_positions: positions, an int for a cache of so many keys, or [time], [batch, time] or
    [axes, batch, time]. scale: the softmax scale, dim^-1/2 if not given. soft_cap bounds c q·k before terms are added.
    longest: the longest distance, for Sandwich without q and k. device: where numbers go that are made here, such as
    ALiBi's slopes; if not given, where the first tensor of this call lies. Masks are FlexAttention's own.
    """
    for name, x in (("q", q), ("k", k)):
        if not (x is None or isinstance(x, Tensor)):
            raise TypeError(f"[score_mod] {name}: must be a tensor or None, got {type(x)}")
    for name, x in (("q_positions", q_positions), ("k_positions", k_positions)):
        if not (x is None or isinstance(x, (Tensor, int, torch.SymInt))):
            raise TypeError(f"[score_mod] {name}: must be a tensor, an int or None, got {type(x)}")
    for name, x in (("scale", scale), ("soft_cap", soft_cap)):
        if not (isinstance(x, (float, int)) or (name == "scale" and x is None)):
            raise TypeError(f"[score_mod] {name}: must be a number, got {type(x)}")
    given = encodings_of(encodings)
    numbers = [x for x in (q, k, *(t for one in given for t in one.tensors)) if isinstance(x, Tensor)]
    if device is None:
        tensors = [*numbers, *(x for x in (q_positions, k_positions) if isinstance(x, Tensor))]
        device = tensors[0].device if tensors else None
    call = _Call(q, k, _at(q_positions), _at(k_positions), scale, longest, device, _arithmetic(q, numbers))
    terms = [_term(one.form, tensors_of([one], call.dtype), call) for one in given]

    def modify(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        if soft_cap > 0:
            score = soft_cap * torch.tanh(score / soft_cap)
        for term in terms:
            score = score + term(b, h, i, j).to(score.dtype)
        return score

    return modify


def _arithmetic(q: Tensor | None, numbers: Sequence[Tensor]) -> torch.dtype:
    """That of attention over q; without q the widest of what is given."""
    if q is not None:
        return arithmetic_of(q.dtype)
    kinds = [arithmetic_of(x.dtype) for x in numbers if x.is_floating_point()]
    return torch.float64 if torch.float64 in kinds else torch.float32


class _Call(NamedTuple):
    """What terms are made of, beside their own numbers."""

    q: Tensor | None
    k: Tensor | None
    q_positions: list[At]
    k_positions: list[At]
    given_scale: float | None
    longest: int | None
    device: torch.device | str | None
    dtype: torch.dtype

    def need(self, kind: str, *names: str) -> None:
        for name in names:
            if getattr(self, name) is None:
                raise TypeError(f"[score_mod] {name}: must be given, as {kind} looks at it")

    @property
    def scale(self) -> float:
        return self.q.shape[-1] ** -0.5 if self.given_scale is None else self.given_scale

    def distance(self, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Key minus query, on the first axis."""
        return self.k_positions[0](b, j) - self.q_positions[0](b, i)

    def by_query(self, rows: Tensor) -> Tensor:
        """q_i · rows_o: [batch, heads, q_len, offsets], of rows [offsets, dim] or [heads or 1, offsets, dim]."""
        return self.q.to(rows.dtype) @ _three_axes(rows).transpose(1, 2)

    def by_key(self, rows: Tensor) -> Tensor:
        """k_j · rows_o for every query head: [batch, heads, k_len, offsets]."""
        k = self.k.to(rows.dtype).repeat_interleave(self.q.shape[1] // self.k.shape[1], dim=1)
        return k @ _three_axes(rows).transpose(1, 2)


def _three_axes(rows: Tensor) -> Tensor:
    return rows if rows.dim() == 3 else rows.unsqueeze(0)


def _at(positions: Positions) -> list[At]:
    """The position of a token, for each axis."""
    if positions is None:
        return [lambda b, i: i]
    if not isinstance(positions, Tensor):
        return [lambda b, i: i + positions]
    if positions.dim() == 1:
        return [lambda b, i: positions[i]]
    if positions.dim() == 2:
        return [_of_sequence(positions)]
    return [_of_sequence(axis) for axis in positions]


def _of_sequence(positions: Tensor) -> At:
    if positions.shape[0] == 1:
        return lambda b, i: positions[0][i]
    return lambda b, i: positions[b, i]


# Closures hold plain numbers of their specs alone: compilers do not look into specs.


def _term(form: str, tensors: Sequence[Tensor], call: _Call) -> Term:
    members = json.loads(form)
    kind = members["kind"]
    if kind not in _TERMS:
        raise ValueError(
            f"[score_mod] encodings: must be of scores and depend on one query and one key, got {kind}"
            + (": turn q and k before flex_attention" if kind.endswith("Rows") else "")
        )
    named = dict(zip(members["tensors"], tensors, strict=True))
    return _TERMS[kind](spec_of(form), members["settings"], named, call)


def _alibi(spec: Any, settings: dict[str, Any], tensors: dict[str, Tensor], call: _Call) -> Term:
    slopes = _slopes(spec, tensors, call)
    causal = (settings.get("form") if spec is None else spec.form) == "causal"

    def term(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        d = call.distance(b, i, j)
        return slopes[h] * (d.clamp(max=0) if causal else -d.abs())

    return term


def _alibi_shifted(spec: Any, settings: dict[str, Any], tensors: dict[str, Tensor], call: _Call) -> Term:
    slopes = _slopes(spec, tensors, call)
    return lambda b, h, i, j: slopes[h] * call.k_positions[0](b, j)


def _slopes(spec: Any, tensors: dict[str, Tensor], call: _Call) -> Tensor:
    return tensors["slopes"] if spec is None else torch.tensor(spec.slopes, device=call.device, dtype=call.dtype)


def _bucket_of(spec: _core.T5, like: Tensor) -> Callable[[Tensor], Tensor]:
    """T5's bucket of a distance, by a table of whole numbers: a logarithm would miss the thresholds."""
    thresholds = torch.tensor(list(_core.t5_thresholds(spec)))
    of_size = (torch.searchsorted(thresholds, torch.arange(int(thresholds[-1]) + 1), right=True) - 1).to(like.device)
    most, after, causal = len(of_size) - 1, len(thresholds), spec.direction == "causal"

    def bucket(d: Tensor) -> Tensor:
        if causal:
            return of_size[(-d).clamp(0, most)]
        return of_size[d.abs().clamp(max=most)] + torch.where(d > 0, after, 0)

    return bucket


def _t5(spec: Any, settings: dict[str, Any], tensors: dict[str, Tensor], call: _Call) -> Term:
    table = tensors["table"]
    bucket = _bucket_of(spec, table)
    return lambda b, h, i, j: table[bucket(call.distance(b, i, j)), h]


def _kerple(spec: Any, settings: dict[str, Any], tensors: dict[str, Tensor], call: _Call) -> Term:
    r1, r2, power = tensors["r1"], tensors["r2"], spec.form == "power"

    def term(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        d = call.distance(b, i, j).abs().to(r1.dtype)
        return -r1[h] * (d ** r2[h] if power else torch.log1p(r2[h] * d))

    return term


def _fire(spec: Any, settings: dict[str, Any], tensors: dict[str, Tensor], call: _Call) -> Term:
    c, multiplier = tensors["c"], tensors["multiplier"]
    threshold, eps, width = spec.threshold, spec.eps, spec.mlp_width
    weight, bias, out, out_bias = (tensors[n] for n in ("hidden_weight", "hidden_bias", "out_weight", "out_bias"))

    def psi(d: Tensor) -> Tensor:
        return torch.log1p((c[0] * d).abs())

    def term(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        d = call.distance(b, i, j).abs().to(c.dtype)
        m = call.q_positions[0](b, i).to(c.dtype)
        x = psi(d) / (psi(torch.maximum(m, (multiplier[0] * threshold).abs())) + eps)
        # Unit by unit: score modifiers are compiled from operations on single scores.
        f = out_bias[h]
        for unit in range(width):
            f = f + out[h, unit] * torch.relu(weight[unit] * x + bias[unit])
        return f

    return term


def _sandwich(spec: Any, settings: dict[str, Any], tensors: dict[str, Tensor], call: _Call) -> Term:
    longest = call.longest
    if longest is None:
        call.need("Sandwich (or longest, in their place)", "q", "k")
        longest = max(call.q.shape[2], call.k.shape[2])
    frequencies = spec.base ** (-torch.arange(0, spec.dim, 2, dtype=torch.float64) / spec.dim)
    curve = torch.cos(torch.arange(longest + 1, dtype=torch.float64)[:, None] * frequencies).sum(1)
    by_head = spec.heads / (8 * torch.arange(1, spec.heads + 1, dtype=torch.float64))
    table = (curve[:, None] * by_head).to(call.device, call.dtype)
    return lambda b, h, i, j: table[call.distance(b, i, j).abs().clamp(max=longest), h]


def _dense(spec: Any, settings: dict[str, Any], tensors: dict[str, Tensor], call: _Call) -> Term:
    bias = tensors["bias"]
    bias = bias.reshape(*[1] * (4 - bias.dim()), *bias.shape)
    one = [extent == 1 for extent in bias.shape]

    def term(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return bias[tuple(x * 0 if alone else x for x, alone in zip((b, h, i, j), one, strict=True))]

    return term


def _swin(spec: Any, settings: dict[str, Any], tensors: dict[str, Tensor], call: _Call) -> Term:
    table = tensors["table"]
    height, width, rows, with_class = spec.height, spec.width, spec.rows(), spec.class_token == "three_rows"

    def term(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        (qy, qx), (ky, kx) = ([at(b, t) for at in axes] for axes, t in ((call.q_positions, i), (call.k_positions, j)))
        row = (qy - ky + height - 1) * (2 * width - 1) + qx - kx + width - 1
        if with_class:
            special = torch.where(qy >= 0, 2, torch.where(ky >= 0, 3, 1))
            row = torch.where((qy < 0) | (ky < 0), rows - special, row)
        return table[row, h]

    return term


def _shaw(spec: Any, settings: dict[str, Any], tensors: dict[str, Tensor], call: _Call) -> Term:
    if "value" in tensors:
        raise ValueError("[score_mod] encodings: must act on scores alone, got Shaw with a table of values")
    call.need("Shaw", "q")
    scores = call.scale * call.by_query(tensors["key"])
    clip, ends = spec.clip, spec.outside == "zero"

    def term(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        d = call.distance(b, i, j)
        added = scores[b, h, i, d.clamp(-clip, clip) + clip]
        return torch.where(d.abs() > clip, 0.0, added) if ends else added

    return term


def _bert(spec: Any, settings: dict[str, Any], tensors: dict[str, Tensor], call: _Call) -> Term:
    is_bert = isinstance(spec, _core.BertRelative)
    both = is_bert and spec.position_embedding_type == "relative_key_query"
    call.need("BertRelative", *(["q", "k"] if both else ["q"]))
    by_query = call.scale * call.by_query(tensors["table"])
    by_key = call.scale * call.by_key(tensors["table"]) if both else None
    left = spec.max_position_embeddings - 1 if is_bert else spec.left
    right = 0 if is_bert else spec.right

    def term(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        d = call.distance(b, i, j)
        row = left - d if is_bert else d.clamp(-left, right) + left
        added = by_query[b, h, i, row]
        return added if by_key is None else added + by_key[b, h, j, row]

    return term


def _transformer_xl(spec: Any, settings: dict[str, Any], tensors: dict[str, Tensor], call: _Call) -> Term:
    call.need("TransformerXL", "q", "k")
    r, u, v = tensors["r"], tensors["u"], tensors["v"]
    by_offset = call.scale * (call.by_query(r) + (v.unsqueeze(1) @ r.transpose(1, 2)))
    by_key = call.scale * call.by_key(u.unsqueeze(1)).squeeze(-1)
    first, last, clamp_len, causal = spec.first_offset, r.shape[1] - 1, spec.clamp_len, spec.direction == "causal"

    def term(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        offset = -call.distance(b, i, j)
        clamped = offset.clamp(-clamp_len, clamp_len) if clamp_len > 0 else offset
        added = by_offset[b, h, i, (clamped - first).clamp(0, last)] + by_key[b, h, j]
        return torch.where(offset < 0, 0.0, added) if causal else added

    return term


def _deberta(spec: Any, settings: dict[str, Any], tensors: dict[str, Tensor], call: _Call) -> Term:
    call.need("DeBERTa", "q", "k")
    span, most = spec.span(), spec.max_relative_positions
    buckets = [_core.deberta_bucket(spec, -x) + span for x in range(-most, most + 1)]
    row_of = torch.tensor(buckets, device=call.q.device).clamp(0, 2 * span - 1)
    c2p = call.scale * call.by_query(tensors["key"]) if spec.terms != "p2c" else None
    p2c = call.scale * call.by_key(tensors["query"]) if spec.terms != "c2p" else None
    as_code = spec.index == "code"

    def term(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        x = -call.distance(b, i, j)
        row = row_of[x.clamp(-most, most) + most]
        other = row if as_code else row_of[(-x).clamp(-most, most) + most]
        added = 0 if c2p is None else c2p[b, h, i, row]
        return added if p2c is None else added + p2c[b, h, j, other]

    return term


def _tupe(spec: Any, settings: dict[str, Any], tensors: dict[str, Tensor], call: _Call) -> Term:
    query, key, bias = tensors["query"], tensors["key"], tensors.get("bias")
    products = query @ key.transpose(1, 2) / math.sqrt(2 * query.shape[2])
    untied, bins = spec.cls == "untied", spec.rel_pos_bins
    bucket = None
    if bias is not None:
        bucket = _bucket_of(_core.T5(buckets=bins, max_distance=spec.max_rel_pos, direction="bidirectional"), bias)

    def cls(m: Tensor, n: Tensor, at_query: Any, at_key: Any, otherwise: Tensor) -> Tensor:
        """What [CLS] has in place of positions, as query and as key."""
        return torch.where(m == 0, at_query, torch.where(n == 0, at_key, otherwise)) if untied else otherwise

    def term(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        m, n = call.q_positions[0](b, i), call.k_positions[0](b, j)
        row, col = (cls(m, n, 0, 1, at + untied) for at in (m, n))
        added = products[h, row, col]
        return added if bias is None else added + bias[cls(m, n, bins // 2, bins, bucket(n - m)), h]

    return term


def _sam(spec: Any, settings: dict[str, Any], tensors: dict[str, Tensor], call: _Call) -> Term:
    call.need("SAM", "q")
    by_y, by_x = call.by_query(tensors["height_table"]), call.by_query(tensors["width_table"])
    height, width = spec.height, spec.width

    def term(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        dy, dx = (q(b, i) - k(b, j) for q, k in zip(call.q_positions, call.k_positions, strict=True))
        return by_y[b, h, i, dy + height - 1] + by_x[b, h, i, dx + width - 1]

    return term


def _xlnet_segments(spec: Any, settings: dict[str, Any], tensors: dict[str, Tensor], call: _Call) -> Term:
    call.need("XLNet", "q")
    embed, q_segments, k_segments = (tensors[n] for n in ("seg_embed", "q_segments", "k_segments"))
    rows = embed.transpose(0, 1)
    scores = call.scale * (call.by_query(rows) + tensors["r_s"].unsqueeze(1) @ rows.transpose(1, 2))

    def term(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return scores[b, h, i, torch.where(q_segments[b, i] == k_segments[b, j], 0, 1)]

    return term


def _forgetting(spec: Any, settings: dict[str, Any], tensors: dict[str, Tensor], call: _Call) -> Term:
    sums = tensors["log_forget"].cumsum(-1)
    past = settings.get("past", 0)

    def term(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.where(j > i + past, 0.0, sums[b, h, i + past] - sums[b, h, j])

    return term


_TERMS: dict[str, Callable[[Any, dict[str, Any], dict[str, Tensor], _Call], Term]] = {
    "AlibiBias": _alibi,
    "AlibiShiftedBias": _alibi_shifted,
    "BertRelativeTerm": _bert,
    "DebertaTerm": _deberta,
    "DenseBias": _dense,
    "FireBias": _fire,
    "ForgettingBias": _forgetting,
    "KerpleBias": _kerple,
    "SamTerm": _sam,
    "SandwichBias": _sandwich,
    "ShawTerm": _shaw,
    "SwinBias": _swin,
    "T5Bias": _t5,
    "TransformerXLTerm": _transformer_xl,
    "TupeBias": _tupe,
    "XlnetSegmentTerm": _xlnet_segments,
}
