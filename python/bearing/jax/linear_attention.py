"""linear_attention(), its state and its gradients."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from .. import _core
from . import ffi
from .arrays import (
    Layout,
    Positions,
    as_array,
    finite,
    given_bits,
    is_time_first,
    laid,
    like,
    position_axes,
    positions_of,
    present,
    qkv_of,
    shape_of,
    threads_of,
    with_axes,
    word_of,
)
from .attention import MASKS, Mask, check_fit
from .encodings import arithmetic_of, check_encodings, parameter_axes, plan_of, serving, turned_dim
from .shards import Axes

State = tuple[jax.Array, jax.Array]


class _Options(NamedTuple):
    """What is static in a call: the attributes of its handlers."""

    plan: str
    mask: str
    feature_map: str
    normaliser: str
    epsilon: float
    time_first: bool
    threads: int


class _Problem(NamedTuple):
    batch: int
    heads: int
    kv_heads: int
    q_len: int
    k_len: int
    dim: int
    value_dim: int


class _Learned(NamedTuple):
    """The arrays of a call that have gradients."""

    q: jax.Array
    k: jax.Array
    v: jax.Array
    start: State | None
    parameters: tuple[jax.Array, ...]


def linear_attention(
    q: jax.typing.ArrayLike,
    k: jax.typing.ArrayLike,
    v: jax.typing.ArrayLike,
    encodings: Any = None,
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
    threads: int = 1,
) -> jax.Array | tuple[jax.Array, State]:
    """Computes linear attention with rotated rows. Its time is linear in the lengths.

    ``o_i = sum_j (T f(q_i))·(T f(k_j)) v_j / (sum_j f(q_i)·f(k_j) + epsilon)``, ``f(x) = elu(x) + 1``

    q [batch, heads, q_len, dim]: the queries; the first axes may be left out, in k and v as well. With layout "bthd"
        time comes before heads.
    k [batch, kv_heads, k_len, dim]: the keys, of q's type; kv_heads divides heads.
    v [batch, kv_heads, k_len, value_dim]: the values, of q's type.
    encodings: encodings of rows, and decays of the state, which need a causal mask.
    mask: as in attention(), and so are q_positions and k_positions.
    feature_map: f: 'elu_plus_one', 'relu' or 'identity'.
    normaliser: 'sum' divides as above; 'none' does not divide.
    epsilon: is added to the denominator.
    state: (s [batch, kv_heads, rows_dim, value_dim], z [batch, kv_heads, dim]), float64 for float64, else float32: the
        sums over the keys of earlier calls, all of which every query sees. None: zeros.
    return_state: True returns (out, state after this call's keys), for a scan over tokens or chunks.

    Returns out, of q's type. Gradients: of q, k, v, the state and the parameters.

    Katharopoulos et al. 2020, arXiv 2006.16236; Su et al. 2021, arXiv 2104.09864, eq. 19.
    """
    function = "linear_attention"
    time_first = is_time_first(function, layout)
    tensors = qkv_of(function, q, k, v, time_first)
    problem = _problem(*(shape_of(x, time_first) for x in tensors))
    plan = plan_of(function, encodings, tensors[0].dtype)
    shapes = _state_shapes(problem, turned_dim(encodings, problem.dim))
    start = None if state is None else _state_of(state, shapes, arithmetic_of(tensors[0].dtype))
    options = _Options(
        plan=plan.text,
        mask=word_of(function, "mask", mask, MASKS),
        feature_map=word_of(function, "feature_map", feature_map, ("elu_plus_one", "relu", "identity")),
        normaliser=word_of(function, "normaliser", normaliser, ("sum", "none")),
        epsilon=finite(function, "epsilon", epsilon),
        time_first=time_first,
        threads=threads_of(function, threads),
    )
    if epsilon < 0:
        raise _core.RangeError(f"[{function}] epsilon: must be a number of at least 0, got {epsilon}")
    if options.feature_map == "identity" and options.normaliser == "sum":
        raise _core.RangeError(
            f"[{function}] normaliser: must be none if the feature map is identity, as its sums may vanish, got sum"
        )
    q_positions = positions_of(function, "q_positions", q_positions, problem.q_len, problem.batch)
    k_positions = positions_of(function, "k_positions", k_positions, problem.k_len, problem.batch)
    masked = int(options.mask != "none")
    check_encodings(function, plan, tensors[0].dtype, q_positions, k_positions, **problem._asdict(), masked=masked)
    learned = _Learned(*tensors, start, plan.parameters)
    stateful = shapes if start is not None or return_state else None
    out, after = _compiled(options, stateful, learned, q_positions, k_positions)
    out = with_axes(out, jnp.ndim(q), time_first)
    return (out, after) if return_state else out


def _problem(q: list[int], k: list[int], v: list[int]) -> _Problem:
    """The call's extents, if its tensors fit each other."""
    check_fit("linear_attention", q, k, v)
    return _Problem(q[0], q[1], k[1], q[2], k[2], q[3], v[3])


def _state_shapes(problem: _Problem, rows_dim: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    heads = (problem.batch, problem.kv_heads)
    return (*heads, rows_dim, problem.value_dim), (*heads, problem.dim)


def _state_of(state: Any, shapes: Any, dtype: Any) -> State:
    if not isinstance(state, (tuple, list)) or len(state) != 2:
        raise TypeError(f"[linear_attention] state: must be (s, z), got {state!r}")
    arrays = []
    for name, one, shape in zip("sz", state, shapes, strict=True):
        array = as_array("linear_attention", "state", one)
        if array.dtype != dtype:
            raise TypeError(f"[linear_attention] state: must be {jnp.dtype(dtype)}, got {array.dtype}")
        if array.shape != shape:
            raise _core.ShapeError(f"[linear_attention] state: {name} must be {list(shape)}, got {list(array.shape)}")
        arrays.append(array)
    return arrays[0], arrays[1]


def _axes(options: _Options, learned: _Learned, q_positions: Any, k_positions: Any) -> dict[str, list[str]]:
    """What may be cut in a call's arrays: batch and heads, these where every piece has keys and a state of its own."""
    problem = _problem(*(shape_of(one, options.time_first) for one in learned[:3]))
    heads = "h" if problem.kv_heads > 1 or problem.heads == 1 else "."
    return {
        "q": [laid(f"b{heads}..", options.time_first)],
        "kv": [laid("bk..", options.time_first)] * 2,
        "positions": [position_axes(one) for one in present([q_positions, k_positions])],
        "state": ["bk..", "bk."],
        # Those with heads are decays, of the keys' heads.
        "parameters": parameter_axes(options.plan, learned.parameters, heads="k"),
    }


def _serves(options: _Options, learned: _Learned, q_positions: Any, k_positions: Any) -> Any:
    problem = _problem(*(shape_of(one, options.time_first) for one in learned[:3]))
    given = options.plan, learned.parameters, learned.q.dtype, q_positions, k_positions
    return serving("linear_attention", *given, **problem._asdict())


def _linear(
    options: _Options, stateful: Any, learned: _Learned, q_positions: Any, k_positions: Any
) -> tuple[jax.Array, Any]:
    q, v = learned.q, learned.v
    arithmetic = arithmetic_of(q.dtype)
    results = [jax.ShapeDtypeStruct((*q.shape[:3], v.shape[3]), q.dtype)]
    results += [jax.ShapeDtypeStruct(shape, arithmetic) for shape in stateful or ()]
    optional = [q_positions, k_positions, *(learned.start or (None, None))]
    arrays = [learned.q, learned.k, learned.v, *present(optional), *learned.parameters]
    attributes = options._asdict() | {"given": given_bits(optional), "stateful": stateful is not None}
    cut = _axes(options, learned, q_positions, k_positions)
    axes = Axes(
        (*cut["q"], *cut["kv"], *cut["positions"], *cut["state"] * (learned.start is not None), *cut["parameters"]),
        (*cut["q"], *cut["state"] * (stateful is not None)),
        _serves(options, learned, q_positions, k_positions),
    )
    out, *after = ffi.call("linear_attention", results, 4, arrays, axes, **attributes)
    return out, tuple(after) if after else None


def _forward(
    options: _Options, stateful: Any, learned: _Learned, q_positions: Any, k_positions: Any
) -> tuple[Any, Any]:
    return _linear(options, stateful, learned, q_positions, k_positions), (learned, q_positions, k_positions)


def _backward(options: _Options, stateful: Any, kept: Any, gradients: Any) -> tuple[_Learned, None, None]:
    learned, q_positions, k_positions = kept
    d_out, d_after = gradients
    optional = [q_positions, k_positions, *(learned.start or (None, None)), *(d_after or (None, None))]
    arrays = [learned.q, learned.k, learned.v, d_out, *present(optional), *learned.parameters]
    results = [like(learned.q), like(learned.k), like(learned.v), *(like(one) for one in d_after or ())]
    results += [like(one) for one in learned.parameters]
    attributes = options._asdict() | {"given": given_bits(optional), "stateful": stateful is not None}
    cut = _axes(options, learned, q_positions, k_positions)
    tensors, ends = [*cut["q"], *cut["kv"]], cut["state"] * (d_after is not None)
    axes = Axes(
        (
            *tensors,
            *cut["q"],
            *cut["positions"],
            *cut["state"] * (learned.start is not None),
            *ends,
            *cut["parameters"],
        ),
        (*tensors, *ends, *cut["parameters"]),
        _serves(options, learned, q_positions, k_positions),
        sums=True,
    )
    d_q, d_k, d_v, *others = ffi.call("linear_attention_backward", results, 4, arrays, axes, **attributes)
    d_start = None
    if stateful is not None:
        d_s, d_z, *others = others
        d_start = (d_s, d_z) if learned.start is not None else None
    return _Learned(d_q, d_k, d_v, d_start, tuple(others)), None, None


_compiled = ffi.differentiable(2, _linear, _forward, _backward)
