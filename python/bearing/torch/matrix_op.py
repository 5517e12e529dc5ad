"""The matrix of a bias as a custom op with gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import torch
from torch import Tensor

from .. import _core
from .dispatch import op
from .encoding import build, gradients
from .ops import _at, _like, _plain, _spread, arithmetic_of

# ruff: noqa: UP045  (torch.library reads annotations at run time: Optional[Tensor] on every Python)


@op("bias_matrix")
def bias_matrix(
    parameters: Sequence[Tensor],
    q_positions: Optional[Tensor],
    k_positions: Optional[Tensor],
    q_first: int,
    k_first: int,
    encodings: str,
    heads: int,
    q_len: int,
    k_len: int,
    dtype: torch.dtype,
) -> Tensor:
    """[heads, q_len, k_len]."""
    return _core.bias_matrix(
        build(encodings, _plain(parameters), arithmetic_of(dtype)),
        _at(q_positions, q_first),
        _at(k_positions, k_first),
        heads=heads,
        q_len=q_len,
        k_len=k_len,
        like=torch.empty(0, dtype=dtype),
        threads=torch.get_num_threads(),
    )


@bias_matrix.register_fake
def _(parameters, q_positions, k_positions, q_first, k_first, encodings, heads, q_len, k_len, dtype):
    device = next((t.device for t in (*parameters, q_positions, k_positions) if t is not None), None)
    return torch.empty((heads, q_len, k_len), dtype=dtype, device=device)


@op("bias_matrix_backward")
def bias_matrix_backward(
    d_bias: Tensor,
    parameters: Sequence[Tensor],
    q_positions: Optional[Tensor],
    k_positions: Optional[Tensor],
    q_first: int,
    k_first: int,
    encodings: str,
) -> list[Tensor]:
    """The gradients of the parameters."""
    arithmetic = arithmetic_of(d_bias.dtype)
    *_, found = _core.add_scores_backward(
        build(encodings, _plain(parameters), arithmetic),
        d_bias.detach().to(arithmetic),
        _at(q_positions, q_first),
        _at(k_positions, k_first),
        threads=torch.get_num_threads(),
    )
    return gradients(encodings, parameters, found)


@bias_matrix_backward.register_fake
def _(d_bias, parameters, q_positions, k_positions, q_first, k_first, encodings):
    return _like(parameters)


def _bias_context(ctx, inputs, output):
    parameters, q_positions, k_positions, q_first, k_first, encodings, *_ = inputs
    ctx.rest = q_first, k_first, encodings
    ctx.save_for_backward(q_positions, k_positions, *parameters)


def _bias_backward(ctx, d_bias):
    q_positions, k_positions, *parameters = ctx.saved_tensors
    found = bias_matrix_backward(d_bias, parameters, q_positions, k_positions, *ctx.rest) if parameters else []
    return _spread(found, parameters), *[None] * 9


bias_matrix.register_autograd(_bias_backward, setup_context=_bias_context)
