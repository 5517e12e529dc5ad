"""attention() and its gradients."""

from __future__ import annotations

import functools
import math
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp

from .. import _core
from . import ffi
from .arrays import (
    Layout,
    Positions,
    flags_of,
    given_bits,
    is_time_first,
    like,
    numbers_of,
    positions_of,
    present,
    same_type,
    tensor_of,
    threads_of,
    with_axes,
)
from .encodings import arithmetic_of, plan_of

Mask = Literal["none", "causal", "causal_top_left", "causal_bottom_right"]


class _Options(NamedTuple):
    """What is static in a call: the attributes of its handlers."""

    plan: str
    mask: str
    window_before: int
    window_after: int
    q_first: int
    k_first: int
    scaled: bool
    scale: float
    soft_cap: float
    time_first: bool
    threads: int


class _Learned(NamedTuple):
    """What has gradients."""

    q: jax.Array
    k: jax.Array
    v: jax.Array
    sinks: jax.Array | None
    parameters: tuple[jax.Array, ...]


class _Given(NamedTuple):
    """What has none."""

    q_at: jax.Array | None
    k_at: jax.Array | None
    k_lengths: jax.Array | None
    key_mask: jax.Array | None
    visible: jax.Array | None
    q_starts: jax.Array | None
    k_starts: jax.Array | None


def attention(
    q: jax.typing.ArrayLike,
    k: jax.typing.ArrayLike,
    v: jax.typing.ArrayLike,
    encodings: Any = None,
    *,
    mask: Mask,
    window: tuple[int, int] | None = None,
    q_at: Positions = None,
    k_at: Positions = None,
    scale: float | None = None,
    soft_cap: float = 0.0,
    sinks: jax.typing.ArrayLike | None = None,
    k_lengths: jax.typing.ArrayLike | None = None,
    key_mask: jax.typing.ArrayLike | None = None,
    visible: jax.typing.ArrayLike | None = None,
    q_starts: jax.typing.ArrayLike | None = None,
    k_starts: jax.typing.ArrayLike | None = None,
    layout: Layout = "bhtd",
    threads: int = 1,
    return_lse: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Softmax attention with any list of encodings, in memory linear in the lengths.

    ``s_ij = cap(c (T q_i)·(T k_j)) + terms``, ``o_i = sum_j softmax(s)_ij (v_j + V[rho(i, j)])``

    q [batch, heads, q_len, dim], k [batch, kv_heads, k_len, dim], v [batch, kv_heads, k_len, value_dim], all of one
    type and without the first axes for one sequence or one head; layout "bthd" has time before heads. mask has no
    default. Returns out, of q's type, and with return_lse the logarithms of the rows' sums [batch, heads, q_len].

    encodings: one of ``bearing``'s encodings, or a list of them, whose arrays may be traced. window: (before, after)
    in tokens, -1 for no limit. q_at, k_at: positions; a scalar, traced or not, for a cache of so many keys. soft_cap
    bounds c q·k before terms are added. sinks [heads]. k_lengths [batch]. key_mask [batch, k_len] and visible
    [batch, heads, q_len, k_len]: True may be seen. q_starts, k_starts [sequences + 1]: packed sequences.
    threads: how many the call may use, 0 for all. window, scale, soft_cap, layout and threads are static.
    """
    time_first = is_time_first("attention", layout)
    if mask not in get_args(Mask):
        choices = ", ".join(repr(word) for word in get_args(Mask))
        raise ValueError(f"[attention] mask: must be one of {choices}, got {mask!r}")
    tensors = [tensor_of("attention", name, x, time_first) for name, x in (("q", q), ("k", k), ("v", v))]
    qs, ks, vs = tensors
    same_type("attention", "k", ks, qs, "q")
    same_type("attention", "v", vs, qs, "q")
    batch, heads, q_len, k_len = _check_shapes(qs, ks, vs, time_first)
    q_positions = positions_of("attention", "q_at", q_at, q_len, batch)
    k_positions = positions_of("attention", "k_at", k_at, k_len, batch)
    if sinks is not None:
        sinks = jnp.asarray(sinks).astype(arithmetic_of(qs.dtype))
        _check_shape("sinks", sinks, (heads,))
    if k_lengths is not None:
        k_lengths = numbers_of("attention", "k_lengths", k_lengths)
        _check_shape("k_lengths", k_lengths, (batch,))
    if key_mask is not None:
        key_mask = flags_of("attention", "key_mask", key_mask)
        _check_shape("key_mask", key_mask, (batch, k_len))
    if visible is not None:
        visible = flags_of("attention", "visible", visible)
        _check_shape("visible", visible, (batch, heads, q_len, k_len))
    before, after = (-1, -1) if window is None else window
    plan = plan_of("attention", encodings, qs.dtype)
    options = _Options(
        plan=plan.text,
        mask=mask,
        window_before=int(before),
        window_after=int(after),
        q_first=q_positions.first,
        k_first=k_positions.first,
        scaled=scale is not None,
        scale=_finite("scale", 1.0 if scale is None else scale),
        soft_cap=_finite("soft_cap", soft_cap),
        time_first=time_first,
        threads=threads_of("attention", threads),
    )
    given = _Given(
        q_positions.array,
        k_positions.array,
        k_lengths,
        key_mask,
        visible,
        None if q_starts is None else numbers_of("attention", "q_starts", q_starts),
        None if k_starts is None else numbers_of("attention", "k_starts", k_starts),
    )
    out, lse = _compiled(options, _Learned(qs, ks, vs, sinks, plan.parameters), given)
    out = with_axes(out, jnp.ndim(q), time_first)
    return (out, lse) if return_lse else out


def _finite(name: str, value: float) -> float:
    if not math.isfinite(value):
        raise _core.RangeError(f"[attention] {name}: must be finite, got {value}")
    return float(value)


def _check_shape(name: str, array: jax.Array, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise _core.ShapeError(f"[attention] {name}: must be {list(shape)}, got {list(array.shape)}")


def _check_shapes(q: jax.Array, k: jax.Array, v: jax.Array, time_first: bool) -> tuple[int, int, int, int]:
    """batch, heads, q_len and k_len, if the three fit each other."""
    q_shape, k_shape, v_shape = ([x.shape[i] for i in ((0, 2, 1, 3) if time_first else range(4))] for x in (q, k, v))
    grouped = q_shape[1] % k_shape[1] == 0 if k_shape[1] > 0 else q_shape[1] == 0
    if k_shape[0] != q_shape[0] or k_shape[3] != q_shape[3] or not grouped:
        raise _core.ShapeError(
            "[attention] k: must be [batch, kv_heads, k_len, dim], kv_heads a divisor of heads, for queries "
            f"[batch, heads, q_len, dim] = {q_shape}, got {k_shape}"
        )
    if v_shape[:3] != k_shape[:3]:
        raise _core.ShapeError(f"[attention] v: must have the first three extents of k, {k_shape}, got {v_shape}")
    return q_shape[0], q_shape[1], q_shape[2], k_shape[2]


def _optional(learned: _Learned, given: _Given) -> list[jax.Array | None]:
    """In the order of the handlers."""
    return [learned.sinks, *given]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attention(options: _Options, learned: _Learned, given: _Given) -> tuple[jax.Array, jax.Array]:
    q, v = learned.q, learned.v
    rows = (q.shape[0], q.shape[2], q.shape[1]) if options.time_first else q.shape[:3]
    results = [
        jax.ShapeDtypeStruct((*q.shape[:3], v.shape[3]), q.dtype),
        jax.ShapeDtypeStruct(rows, arithmetic_of(q.dtype)),
    ]
    optional = _optional(learned, given)
    arrays = [learned.q, learned.k, learned.v, *present(optional), *learned.parameters]
    out, lse = ffi.call("attention", results, 4, arrays, given=given_bits(optional), **options._asdict())
    return out, lse


def _forward(options: _Options, learned: _Learned, given: _Given) -> tuple[Any, Any]:
    results = _attention(options, learned, given)
    return results, (learned, given, *results)


def _backward(options: _Options, kept: Any, gradients: Any) -> tuple[_Learned, None]:
    learned, given, out, lse = kept
    optional = _optional(learned, given)
    wanted = [learned.q, learned.k, learned.v, *present([learned.sinks]), *learned.parameters]
    arrays = [learned.q, learned.k, learned.v, out, lse, *gradients, *present(optional), *learned.parameters]
    results = ffi.call(
        "attention_backward", [like(x) for x in wanted], 4, arrays, given=given_bits(optional), **options._asdict()
    )
    d_q, d_k, d_v, *others = results
    d_sinks = None if learned.sinks is None else others.pop(0)
    return _Learned(d_q, d_k, d_v, d_sinks, tuple(others)), None


_attention.defvjp(_forward, _backward)
_compiled = jax.jit(_attention, static_argnums=0)
