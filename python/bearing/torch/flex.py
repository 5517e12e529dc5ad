"""Encodings as score modifiers of PyTorch's FlexAttention, in PyTorch's own operations. They run on GPUs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .. import _core
from .encoding import Encodings, encodings_of, spec_of, tensors_of
from .forms import by_form
from .functional import Positions, positions_of
from .given_numbers import check_scores, whole_number
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
    q_positions: where queries stand, as :func:`bearing.torch.attention` takes positions: None for 0, 1, 2, …; an int p for
        p, p + 1, … (p keys are in the cache already); or a tensor [time], [batch, time] or [axes, batch, time].
    k_positions: where keys stand, in the same forms.
    scale: the softmax scale; dim^-1/2 if not given.
    soft_cap: bounds scale q·k before terms are added; 0 for no bound.
    longest: the longest distance, for tables by distance, if q and k are not given.
    device: where the numbers lie that are made here; if not given, where the first tensor of this call lies.

    FlexAttention differentiates the parameters, as the modifier captures them. If an encoding has no formula in
    PyTorch's operations, the library computes numbers on the CPU when the modifier is made: rows to pick, a table by
    distance, or else a matrix [batch or 1, heads, q_len, k_len]. Masks are FlexAttention's own.

    Raises ValueError for terms of values and for scores that look at the tokens between query and key, as no score
    modifier can compute them. Raises TypeError if q, k or longest is needed and missing, and refuses other arguments as
    :func:`bearing.torch.attention` does.
    """
    for name, x in (("q", q), ("k", k)):
        if not (x is None or isinstance(x, Tensor)):
            raise TypeError(f"[score_mod] {name}: must be a tensor or None, got {type(x)}")
        if x is not None and x.dim() != 4:
            raise _core.ShapeError(f"[score_mod] {name}: must be [batch, heads, time, dim], got shape {list(x.shape)}")
    check_scores("score_mod", scale, soft_cap)
    longest = None if longest is None else whole_number("score_mod", "longest", longest)
    given = encodings_of(encodings, "score_mod")
    numbers = [x for x in (q, k, *(t for one in given for t in one.tensors)) if isinstance(x, Tensor)]
    if device is None:
        tensors = [*numbers, *(x for x in (q_positions, k_positions) if isinstance(x, Tensor))]
        device = tensors[0].device if tensors else None
    q_at, k_at = _place("q_positions", q_positions, q, device), _place("k_positions", k_positions, k, device)
    call = Call(q, k, q_at, k_at, scale, longest, device, _arithmetic(q, numbers))
    terms = [_term(one.form, tensors_of([one], call.dtype), call) for one in given]

    def modify(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        if soft_cap > 0:
            score = soft_cap * torch.tanh(score / soft_cap)
        for term in terms:
            score = score + term(b, h, i, j).to(score.dtype)
        return score

    return modify


def _place(name: str, positions: Positions, x: Tensor | None, device: torch.device | str | None) -> Positions:
    """Positions of rows x as terms read them: a number, or a tensor with axes. Lists and arrays are copied to where the
    numbers lie."""
    at, first = positions_of("score_mod", name, positions)
    if at is None:
        return first
    if at.layout is not torch.strided:
        raise TypeError(f"[score_mod] {name}: must be a dense tensor, got one of {at.layout}")
    if at.dtype not in _REAL and (at.is_floating_point() or at.is_complex() or at.dtype is torch.bool):
        raise TypeError(f"[score_mod] {name}: must be integers, float64 or float32, got {at.dtype}")
    if at.dim() > 3 or (at.dim() == 0 and (at.is_floating_point() or at.device.type == "meta")):
        raise _core.ShapeError(
            f"[score_mod] {name}: must be None, an int, or a tensor [time], [batch, time] or [axes, batch, time], got shape "
            f"{list(at.shape)}"
        )
    if at.dim() == 0:
        return int(at)
    if x is not None and (at.shape[-1] != x.shape[2] or (at.dim() > 1 and at.shape[-2] not in (1, x.shape[0]))):
        raise _core.ShapeError(
            f"[score_mod] {name}: must be of {x.shape[2]} tokens, for 1 or {x.shape[0]} sequences, got shape {list(at.shape)}"
        )
    return positions if isinstance(positions, Tensor) else at.to(device)


_REAL = (torch.float64, torch.float32)


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
