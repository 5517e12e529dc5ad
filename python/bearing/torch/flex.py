"""Encodings as score modifiers of PyTorch's FlexAttention, in PyTorch's own operations. They run on GPUs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .. import _core
from .encoding import Encodings, encodings_of, spec_of, tensors_of
from .forms import by_form
from .functional import Positions
from .layers import scores
from .ops import arithmetic_of
from .score_call import Call, Term

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


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
    """Makes a score modifier: ``flex_attention(q, k, v, score_mod=score_mod(encodings, …), block_mask=…)``.

    encodings: encodings of scores, as :func:`bearing.torch.attention` takes them. Their tensors lie on the device of
        the call. Encodings of rows turn q and k before the call.
    q [batch, heads, q_len, dim]: the queries that flex_attention gets, for encodings that look at them.
    k [batch, kv_heads, k_len, dim]: the keys that flex_attention gets, for encodings that look at them.
    q_positions: where queries stand: None for 0, 1, 2, …; an int p for p, p + 1, … (p keys are in the cache already);
        or a tensor [time], [batch, time] or [axes, batch, time].
    k_positions: where keys stand, in the same forms.
    scale: the softmax scale; dim^-1/2 if not given.
    soft_cap: bounds scale q·k before terms are added; 0 for no bound.
    longest: the longest distance, for tables by distance, if q and k are not given.
    device: where the numbers lie that are made here; if not given, where the first tensor of this call lies.

    FlexAttention differentiates the parameters, as the modifier captures them. If an encoding has no formula in
    PyTorch's operations, the library computes numbers on the CPU when the modifier is made: rows to pick, a table by
    distance, or else a matrix [batch or 1, heads, q_len, k_len]. Masks are FlexAttention's own.

    Raises ValueError for terms of values and for scores that look at the tokens between query and key, as no score
    modifier can compute them. Raises TypeError if q, k or longest is needed and missing.
    """
    for name, x in (("q", q), ("k", k)):
        if not (x is None or isinstance(x, Tensor)):
            raise TypeError(f"[score_mod] {name}: must be a tensor or None, got {type(x)}")
        if x is not None and x.dim() != 4:
            raise _core.ShapeError(f"[score_mod] {name}: must be [batch, heads, time, dim], got shape {list(x.shape)}")
    for name, x in (("q_positions", q_positions), ("k_positions", k_positions)):
        if not (x is None or isinstance(x, (Tensor, int, torch.SymInt))):
            raise TypeError(f"[score_mod] {name}: must be a tensor, an int or None, got {type(x)}")
    for name, x in (("scale", scale), ("soft_cap", soft_cap)):
        if not (isinstance(x, (float, int)) or (name == "scale" and x is None)):
            raise TypeError(f"[score_mod] {name}: must be a number, got {type(x)}")
    given = encodings_of(encodings, "score_mod")
    numbers = [x for x in (q, k, *(t for one in given for t in one.tensors)) if isinstance(x, Tensor)]
    if device is None:
        tensors = [*numbers, *(x for x in (q_positions, k_positions) if isinstance(x, Tensor))]
        device = tensors[0].device if tensors else None
    call = Call(q, k, q_positions, k_positions, scale, longest, device, _arithmetic(q, numbers))
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


def _term(form: str, tensors: Sequence[Tensor], call: Call) -> Term:
    """By the encoding's own file, or by its form."""
    members = json.loads(form)
    kind, spec = members["kind"], spec_of(form)
    named = dict(zip(members["tensors"], tensors, strict=True))
    own = scores().get(kind)
    return by_form(form, kind, spec, named, call) if own is None else own(spec, members["settings"], named, call)
