"""Linear attention and its state: a custom op with gradients, and the function that calls it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Optional

import torch
from torch import Tensor

from .. import _core
from .dispatch import Op, needs_op, op
from .encoding import Encodings, build, encodings_of, forms_of, gradients, tensors_of, turned_dim
from .functional import Layout, Mask, Positions, _batch, autocast, positions_of
from .ops import _at, _like, _optional, _plain, _spread, arithmetic_of

# ruff: noqa: UP045  (torch.library reads annotations at run time: Optional[Tensor] on every Python)

State = tuple[Tensor, Tensor]


def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encodings: Encodings = None,
    *,
    mask: Mask,
    feature_map: Literal["elu_plus_one", "relu", "identity"] = "elu_plus_one",
    normaliser: Literal["sum", "none"] = "sum",
    epsilon: float = 0.0,
    q_positions: Positions = None,
    k_positions: Positions = None,
    state: State | None = None,
    return_state: bool = False,
    layout: Layout = "bhtd",
) -> Tensor | tuple[Tensor, State]:
    """Computes linear attention with rotated rows. It is differentiable; its time is linear in the lengths.

    ``o_i = sum_j (T f(q_i))·(T f(k_j)) v_j / (sum_j f(q_i)·f(k_j) + epsilon)``, ``f(x) = elu(x) + 1``

    q [batch, heads, q_len, dim]: the queries; the first axes may be left out, in k and v as well. With layout "bthd"
        time comes before heads.
    k [batch, kv_heads, k_len, dim]: the keys; kv_heads divides heads.
    v [batch, kv_heads, k_len, value_dim]: the values.
    encodings: encodings of rows, and decays of the state, which need a causal mask, as :func:`bearing.torch.attention`
        takes encodings.
    mask: as in :func:`bearing.torch.attention`, and so are q_positions and k_positions.
    feature_map: f: 'elu_plus_one', 'relu' or 'identity'.
    normaliser: 'sum' divides as above; 'none' does not divide.
    epsilon: is added to the denominator.
    state: (s [batch, kv_heads, rows_dim, value_dim], z [batch, kv_heads, dim]), float64 for float64, else float32: the
        sums over the keys of earlier calls, all of which every query sees. None: zeros. It is only read.
    return_state: True returns (out, state after this call's keys), for the next token or chunk.

    Returns out, which is contiguous, of q's type. Gradients: of q, k, v, the state and every parameter, through out and
    through the state. Under autocast q, k and v are cast as in :func:`bearing.torch.attention`.

    Katharopoulos et al. 2020, arXiv 2006.16236; Su et al. 2021, arXiv 2104.09864, eq. 19.
    """
    q, k, v = autocast("linear_attention", q, k, v)
    given = encodings_of(encodings, "linear_attention")
    q_positions, q_first = positions_of("linear_attention", "q_positions", q_positions, _batch(q, 4))
    k_positions, k_first = positions_of("linear_attention", "k_positions", k_positions, _batch(k, 4))
    parameters = tensors_of(given, arithmetic_of(q.dtype))
    s, z = _state_of(state)
    watched = needs_op([q, k, v, *parameters, *([] if state is None else state)])
    out, *after = (_linear if watched else _linear.now)(
        q,
        k,
        v,
        parameters,
        s,
        z,
        q_positions,
        k_positions,
        forms_of(given),
        mask,
        feature_map,
        normaliser,
        epsilon,
        q_first,
        k_first,
        layout,
    )
    return (out, (after[0], after[1])) if return_state else out


def _state_of(state: State | None) -> tuple[Tensor | None, Tensor | None]:
    if state is None:
        return None, None
    if not isinstance(state, (tuple, list)) or len(state) != 2 or not all(isinstance(x, Tensor) for x in state):
        raise TypeError(f"[linear_attention] state: must be (s, z), two tensors, got {state!r}")
    s, z = state
    if s.dim() != 4 or z.dim() != 3:
        raise _core.ShapeError(
            "[linear_attention] state: must be s [batch, kv_heads, rows_dim, value_dim] and z [batch, kv_heads, dim], "
            f"got {list(s.shape)} and {list(z.shape)}"
        )
    return s, z


def _linear_now(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    parameters: Sequence[Tensor],
    s: Optional[Tensor],
    z: Optional[Tensor],
    q_positions: Optional[Tensor],
    k_positions: Optional[Tensor],
    encodings: str,
    mask: str,
    feature_map: str,
    normaliser: str,
    epsilon: float,
    q_first: int,
    k_first: int,
    layout: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """out, and the state after the call."""
    out, after = _core.linear_attention(
        q.detach(),
        k.detach(),
        v.detach(),
        build(encodings, _plain(parameters), arithmetic_of(q.dtype)),
        mask=mask,
        feature_map=feature_map,
        normaliser=normaliser,
        epsilon=epsilon,
        q_positions=_at(q_positions, q_first),
        k_positions=_at(k_positions, k_first),
        state=_pair(s, z),
        return_state=True,
        layout=layout,
        threads=torch.get_num_threads(),
    )
    return out, *after


def _pair(s: Tensor | None, z: Tensor | None) -> tuple[Tensor | None, Tensor | None] | None:
    return None if s is None and z is None else (_optional(s), _optional(z))


_linear = Op("linear_attention", _linear_now)


@_linear.register_fake
def _(q, k, v, parameters, s, z, q_positions, k_positions, encodings, mask, feature_map, normaliser, epsilon, q_first, k_first,
      layout):  # fmt: skip
    heads_axis = -2 if layout == "bthd" else -3
    heads = k.shape[0] if k.dim() == 4 else 1, k.shape[heads_axis] if k.dim() > 2 else 1
    dim = k.shape[-1]
    arithmetic = arithmetic_of(q.dtype)
    return (
        q.new_empty((*q.shape[:-1], v.shape[-1])),
        q.new_empty((*heads, turned_dim(encodings, dim), v.shape[-1]), dtype=arithmetic),
        q.new_empty((*heads, dim), dtype=arithmetic),
    )


@op("linear_attention_backward")
def _linear_backward(
    d_out: Tensor,
    d_s: Optional[Tensor],
    d_z: Optional[Tensor],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    parameters: Sequence[Tensor],
    s: Optional[Tensor],
    z: Optional[Tensor],
    q_positions: Optional[Tensor],
    k_positions: Optional[Tensor],
    encodings: str,
    mask: str,
    feature_map: str,
    normaliser: str,
    epsilon: float,
    q_first: int,
    k_first: int,
    layout: str,
) -> list[Tensor]:
    """The gradients of q, k, v, of the state before the call if there is one, and of the parameters."""
    d_q, d_k, d_v, found, d_start = _core.linear_attention_backward(
        q.detach(),
        k.detach(),
        v.detach(),
        d_out.detach(),
        build(encodings, _plain(parameters), arithmetic_of(q.dtype)),
        mask=mask,
        feature_map=feature_map,
        normaliser=normaliser,
        epsilon=epsilon,
        q_positions=_at(q_positions, q_first),
        k_positions=_at(k_positions, k_first),
        start=_pair(s, z),
        d_state=_pair(d_s, d_z),
        layout=layout,
        threads=torch.get_num_threads(),
    )
    return [
        d_q,
        d_k,
        d_v,
        *(() if s is None else d_start),
        *gradients(encodings, parameters, found),
    ]


@_linear_backward.register_fake
def _(d_out, d_s, d_z, q, k, v, parameters, s, z, q_positions, k_positions, encodings, mask, feature_map, normaliser, epsilon,
      q_first, k_first, layout):  # fmt: skip
    return _like([q, k, v, *([] if s is None else [s, z]), *parameters])


def _context(ctx, inputs, output):
    q, k, v, parameters, s, z, q_positions, k_positions, *ctx.settings = inputs
    ctx.save_for_backward(q, k, v, s, z, q_positions, k_positions, *parameters)
    ctx.set_materialize_grads(False)


def _backward(ctx, d_out, d_s, d_z):
    q, k, v, s, z, q_positions, k_positions, *parameters = ctx.saved_tensors
    none = [None] * (2 + len(ctx.settings))
    if d_out is None and d_s is None and d_z is None:
        return None, None, None, [None] * len(parameters), None, None, *none
    if d_out is None:
        d_out = q.new_zeros((*q.shape[:-1], v.shape[-1]))
    d_q, d_k, d_v, *found = _linear_backward(
        d_out, d_s, d_z, q, k, v, parameters, s, z, q_positions, k_positions, *ctx.settings
    )
    d_start = (None, None) if s is None else (found.pop(0), found.pop(0))
    return d_q, d_k, d_v, _spread(found, parameters), *d_start, *none


_linear.register_autograd(_backward, setup_context=_context)
