"""Scores and values of encodings over whole tensors, for callers that want the matrix: custom ops with gradients, and
the functions that call them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import torch
from torch import Tensor

from .. import _core
from .dispatch import op
from .encoding import Encodings, build, encodings_of, forms_of, gradients, tensors_of
from .functional import Layout, Positions, _batch, check_device, positions_of
from .ops import _at, _like, _optional, _plain, _spread, arithmetic_of

# ruff: noqa: UP045  (torch.library reads annotations at run time: Optional[Tensor] on every Python)


def add_scores(
    encodings: Encodings,
    scores: Tensor,
    q_positions: Positions = None,
    k_positions: Positions = None,
    *,
    q: Tensor | None = None,
    k: Tensor | None = None,
    scale: float = 1.0,
    layout: Layout = "bhtd",
) -> Tensor:
    """Returns scores plus every encoding's term: a new tensor, float64 or float32. First axes may be left out.

    scores [batch, heads, q_len, k_len]: the scores; :func:`bearing.torch.attention` never makes this matrix.
    q [batch, heads, q_len, dim]: the queries, for encodings that look at them; given together with k.
    k [batch, kv_heads, k_len, dim]: the keys.
    q_positions: where queries stand, as :func:`bearing.torch.attention` takes positions.
    k_positions: where keys stand.
    scale: the softmax scale, for terms inside the product.
    layout: of q and k: 'bhtd' or 'bthd'.

    Gradients: of scores, q, k and the parameters.
    """
    check_device("add_scores", scores, *(x for x in (q, k) if x is not None))
    if (q is None) != (k is None):
        raise _core.ShapeError("[add_scores] q, k: must both be given, or neither, got one of them")
    given = encodings_of(encodings, "add_scores")
    q_positions, q_first = positions_of("add_scores", "q_positions", q_positions, _batch(scores, 4))
    k_positions, k_first = positions_of("add_scores", "k_positions", k_positions, _batch(scores, 4))
    parameters = tensors_of(given, arithmetic_of(scores.dtype))
    return _scores(
        scores,
        q,
        k,
        parameters,
        q_positions,
        k_positions,
        forms_of(given),
        q_first,
        k_first,
        scale,
        layout,
    )


def add_values(
    encodings: Encodings,
    p: Tensor,
    out: Tensor,
    q_positions: Positions = None,
    k_positions: Positions = None,
    *,
    layout: Layout = "bhtd",
) -> Tensor:
    """Returns out plus every encoding's value term: a new tensor, float64 or float32. First axes may be left out.

    p [batch, heads, q_len, k_len]: the probabilities.
    out [batch, heads, q_len, value_dim]: what attention gave without the encodings.
    q_positions: where queries stand, as :func:`bearing.torch.attention` takes positions.
    k_positions: where keys stand.
    layout: of out: 'bhtd' or 'bthd'.

    Encodings without a value site add nothing. Gradients: of p, out and the parameters.
    """
    check_device("add_values", p, out)
    given = encodings_of(encodings, "add_values")
    q_positions, q_first = positions_of("add_values", "q_positions", q_positions, _batch(p, 4))
    k_positions, k_first = positions_of("add_values", "k_positions", k_positions, _batch(p, 4))
    parameters = tensors_of(given, arithmetic_of(out.dtype))
    return _values(out, p, parameters, q_positions, k_positions, forms_of(given), q_first, k_first, layout)


# Scores.


@op("add_scores")
def _scores(
    scores: Tensor,
    q: Optional[Tensor],
    k: Optional[Tensor],
    parameters: Sequence[Tensor],
    q_positions: Optional[Tensor],
    k_positions: Optional[Tensor],
    encodings: str,
    q_first: int,
    k_first: int,
    scale: float,
    layout: str,
) -> Tensor:
    """scores + the terms."""
    added = scores.detach().clone(memory_format=torch.contiguous_format)
    _core.add_scores(
        build(encodings, _plain(parameters), arithmetic_of(scores.dtype)),
        added,
        _at(q_positions, q_first),
        _at(k_positions, k_first),
        q=_optional(q),
        k=_optional(k),
        scale=scale,
        layout=layout,
        threads=torch.get_num_threads(),
    )
    return added


@_scores.register_fake
def _(scores, q, k, parameters, q_positions, k_positions, encodings, q_first, k_first, scale, layout):
    return scores.new_empty(scores.shape)


@op("add_scores_backward")
def _scores_backward(
    d_scores: Tensor,
    q: Optional[Tensor],
    k: Optional[Tensor],
    parameters: Sequence[Tensor],
    q_positions: Optional[Tensor],
    k_positions: Optional[Tensor],
    encodings: str,
    q_first: int,
    k_first: int,
    scale: float,
    layout: str,
) -> list[Tensor]:
    """The gradients of q and k if they are there, and of the parameters; that of scores is d_scores itself."""
    d_q, d_k, found = _core.add_scores_backward(
        build(encodings, _plain(parameters), arithmetic_of(d_scores.dtype)),
        d_scores.detach(),
        _at(q_positions, q_first),
        _at(k_positions, k_first),
        q=_optional(q),
        k=_optional(k),
        scale=scale,
        layout=layout,
        threads=torch.get_num_threads(),
    )
    return [
        *(() if q is None else (d_q, d_k)),
        *gradients(encodings, parameters, found),
    ]


@_scores_backward.register_fake
def _(d_scores, q, k, parameters, q_positions, k_positions, encodings, q_first, k_first, scale, layout):
    return _like([*(() if q is None else (q, k)), *parameters])


def _scores_context(ctx, inputs, output):
    _, q, k, parameters, q_positions, k_positions, *ctx.settings = inputs
    ctx.save_for_backward(q, k, q_positions, k_positions, *parameters)


def _scores_gradients(ctx, d_scores):
    q, k, q_positions, k_positions, *parameters = ctx.saved_tensors
    found, d_q, d_k = [], None, None
    if q is not None or parameters:
        found = _scores_backward(d_scores, q, k, parameters, q_positions, k_positions, *ctx.settings)
    if q is not None:
        d_q, d_k, *found = found
    return (
        d_scores,
        d_q,
        d_k,
        _spread(found, parameters),
        *[None] * (2 + len(ctx.settings)),
    )


_scores.register_autograd(_scores_gradients, setup_context=_scores_context)


# Values.


@op("add_values")
def _values(
    out: Tensor,
    p: Tensor,
    parameters: Sequence[Tensor],
    q_positions: Optional[Tensor],
    k_positions: Optional[Tensor],
    encodings: str,
    q_first: int,
    k_first: int,
    layout: str,
) -> Tensor:
    """out + the value terms."""
    added = out.detach().clone(memory_format=torch.contiguous_format)
    _core.add_values(
        build(encodings, _plain(parameters), arithmetic_of(out.dtype)),
        p.detach(),
        added,
        _at(q_positions, q_first),
        _at(k_positions, k_first),
        layout=layout,
        threads=torch.get_num_threads(),
    )
    return added


@_values.register_fake
def _(out, p, parameters, q_positions, k_positions, encodings, q_first, k_first, layout):
    return out.new_empty(out.shape)


@op("add_values_backward")
def _values_backward(
    d_out: Tensor,
    p: Tensor,
    parameters: Sequence[Tensor],
    q_positions: Optional[Tensor],
    k_positions: Optional[Tensor],
    encodings: str,
    q_first: int,
    k_first: int,
    layout: str,
) -> list[Tensor]:
    """The gradients of p and of the parameters; that of out is d_out itself."""
    d_p, found = _core.add_values_backward(
        build(encodings, _plain(parameters), arithmetic_of(d_out.dtype)),
        p.detach(),
        d_out.detach(),
        _at(q_positions, q_first),
        _at(k_positions, k_first),
        layout=layout,
        threads=torch.get_num_threads(),
    )
    return [d_p, *gradients(encodings, parameters, found)]


@_values_backward.register_fake
def _(d_out, p, parameters, q_positions, k_positions, encodings, q_first, k_first, layout):
    return _like([p, *parameters])


def _values_context(ctx, inputs, output):
    _, p, parameters, q_positions, k_positions, *ctx.settings = inputs
    ctx.save_for_backward(p, q_positions, k_positions, *parameters)


def _values_gradients(ctx, d_out):
    p, q_positions, k_positions, *parameters = ctx.saved_tensors
    d_p, *found = _values_backward(d_out, p, parameters, q_positions, k_positions, *ctx.settings)
    return d_out, d_p, _spread(found, parameters), *[None] * (2 + len(ctx.settings))


_values.register_autograd(_values_gradients, setup_context=_values_context)
