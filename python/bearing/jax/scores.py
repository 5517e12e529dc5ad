"""Scores and values of encodings over whole tensors, for callers that want the matrix."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import _core
from . import ffi
from .arrays import (
    Layout,
    Positions,
    array_of,
    extents_of,
    finite,
    given_bits,
    is_time_first,
    laid,
    length_of,
    like,
    position_axes,
    positions_of,
    present,
    same_type,
    shape_of,
    tensor_of,
    threads_of,
    whole_of,
    with_axes,
)
from .encodings import arithmetic_of, check_encodings, parameter_axes, plan_of, serving, wished_type
from .shards import Axes


class _Options(NamedTuple):
    """What is static in a call: the attributes of its handlers."""

    plan: str
    scale: float
    time_first: bool
    threads: int


def bias_matrix(
    encodings: Any,
    q_positions: Positions = None,
    k_positions: Positions = None,
    *,
    heads: int,
    q_len: int | None = None,
    k_len: int | None = None,
    dtype: Any = None,
    threads: int = 1,
) -> jax.Array:
    """Makes the scores of encodings that look at neither queries nor keys: [heads, q_len, k_len].

    q_positions: where queries stand, as attention() takes positions; as an array [time] or [axes, 1, time].
    k_positions: where keys stand.
    q_len: how many queries; it may be left out where q_positions is an array.
    k_len: how many keys; it may be left out where k_positions is an array.
    dtype: the type of the result; None for that of the encodings' first parameter, or float32 where there is none.

    Gradients: of the parameters.
    """
    function = "bias_matrix"
    lengths = (
        length_of(function, "q_len", q_len, extents_of(function, "q_positions", q_positions)),
        length_of(function, "k_len", k_len, extents_of(function, "k_positions", k_positions)),
    )
    heads = whole_of(function, "heads", heads, 1)
    kind = wished_type(function, dtype, encodings)
    plan = plan_of(function, encodings, kind)
    q_positions = positions_of(function, "q_positions", q_positions, lengths[0], 1)
    k_positions = positions_of(function, "k_positions", k_positions, lengths[1], 1)
    extents = {"heads": heads, "q_len": lengths[0], "k_len": lengths[1]}
    check_encodings(function, plan, kind, q_positions, k_positions, **extents, kv_heads=extents["heads"])
    options = _Options(plan.text, 1.0, False, threads_of(function, threads))
    shape = tuple(extents.values())
    return _matrix_compiled(options, shape, kind, plan.parameters, q_positions, k_positions)


def _position_axes(*positions: Any) -> list[str]:
    return [position_axes(one) for one in present(positions)]


def _matrix(options: _Options, shape: Any, kind: Any, parameters: Any, q_positions: Any, k_positions: Any) -> jax.Array:
    arrays = [*present([q_positions, k_positions]), *parameters]
    result = jax.ShapeDtypeStruct(shape, kind)
    given = options.plan, parameters, kind, q_positions, k_positions
    axes = Axes(
        (*_position_axes(q_positions, k_positions), *parameter_axes(options.plan, parameters)),
        ("h..",),
        serving("bias_matrix", *given, heads=shape[0], kv_heads=shape[0], q_len=shape[1], k_len=shape[2]),
    )
    attributes = options._asdict() | {"given": given_bits([q_positions, k_positions])}
    return ffi.call("bias_matrix", [result], 3, arrays, axes, **attributes)[0]


def _matrix_backward(options: _Options, shape: Any, kind: Any, kept: Any, d_bias: jax.Array) -> tuple[Any, None, None]:
    parameters, q_positions, k_positions = kept
    d_scores = d_bias.astype(arithmetic_of(kind))[None]
    return _scores_gradients(options, d_scores, None, None, parameters, q_positions, k_positions)[2], None, None


_matrix_compiled = ffi.differentiable(
    3,
    _matrix,
    lambda options, shape, kind, *arrays: (_matrix(options, shape, kind, *arrays), arrays),
    _matrix_backward,
)


def add_scores(
    encodings: Any,
    scores: jax.typing.ArrayLike,
    q_positions: Positions = None,
    k_positions: Positions = None,
    *,
    q: jax.typing.ArrayLike | None = None,
    k: jax.typing.ArrayLike | None = None,
    scale: float = 1.0,
    layout: Layout = "bhtd",
    threads: int = 1,
) -> jax.Array:
    """Returns scores plus every encoding's term: a new array, float64 or float32. First axes may be left out.

    scores [batch, heads, q_len, k_len]: the scores.
    q [batch, heads, q_len, dim]: the queries, for encodings that look at them; given together with k.
    k [batch, kv_heads, k_len, dim]: the keys.
    q_positions: where queries stand, as attention() takes positions.
    k_positions: where keys stand.
    scale: the softmax scale, for terms inside the product.
    layout: of q and k: 'bhtd' or 'bthd'.

    Gradients: of scores, q, k and the parameters.
    """
    function = "add_scores"
    time_first = is_time_first(function, layout)
    sums = _unrounded(function, "scores", scores)
    q_rows = k_rows = None
    if q is not None or k is not None:
        if q is None or k is None:
            raise _core.ShapeError("[add_scores] q, k: must both be given, or neither, got one of them")
        q_rows, k_rows = (tensor_of(function, name, x, time_first) for name, x in (("q", q), ("k", k)))
        same_type(function, "q", q_rows, sums, "scores")
        same_type(function, "k", k_rows, sums, "scores")
        _check_rows(sums, shape_of(q_rows, time_first), shape_of(k_rows, time_first))
    plan = plan_of(function, encodings, sums.dtype)
    batch, heads, q_len, k_len = sums.shape
    q_positions = positions_of(function, "q_positions", q_positions, q_len, batch)
    k_positions = positions_of(function, "k_positions", k_positions, k_len, batch)
    extents = {"batch": batch, "heads": heads, "kv_heads": heads, "q_len": q_len, "k_len": k_len}
    if q_rows is not None:
        extents |= {"kv_heads": shape_of(k_rows, time_first)[1], "dim": q_rows.shape[3]}
    check_encodings(function, plan, sums.dtype, q_positions, k_positions, **extents)
    options = _Options(plan.text, finite(function, "scale", scale), time_first, threads_of(function, threads))
    added = _scores_compiled(options, sums, q_rows, k_rows, plan.parameters, q_positions, k_positions)
    return with_axes(added, jnp.ndim(scores), False)


def _check_rows(scores: jax.Array, q: list[int], k: list[int]) -> None:
    batch, heads, q_len, k_len = scores.shape
    of = f"of scores with shape {list(scores.shape)}"
    if q[:3] != [batch, heads, q_len]:
        raise _core.ShapeError(f"[add_scores] q: must be [batch, heads, q_len, dim] {of}, got {q}")
    grouped = heads % k[1] == 0 if k[1] > 0 else heads == 0
    if k != [batch, k[1], k_len, q[3]] or not grouped:
        raise _core.ShapeError(
            f"[add_scores] k: must be [batch, kv_heads, k_len, dim] {of} and queries with shape {q}, "
            f"kv_heads a divisor of heads, got {k}"
        )


def _scores_axes(
    options: _Options, scores: jax.Array, q: Any, k: Any, parameters: Any, q_positions: Any, k_positions: Any
) -> Axes:
    """Scores, or their gradient, and what else is given, to scores."""
    batch, heads, q_len, k_len = scores.shape
    extents = {"batch": batch, "heads": heads, "kv_heads": heads, "q_len": q_len, "k_len": k_len}
    rows = []
    if q is not None:
        extents |= {"kv_heads": shape_of(k, options.time_first)[1], "dim": q.shape[3]}
        rows = [laid("bh..", options.time_first), laid("bk..", options.time_first)]
    return Axes(
        ("bh..", *rows, *_position_axes(q_positions, k_positions), *parameter_axes(options.plan, parameters)),
        ("bh..",),
        serving("add_scores", options.plan, parameters, scores.dtype, q_positions, k_positions, **extents),
    )


def _scores(
    options: _Options, scores: Any, q: Any, k: Any, parameters: Any, q_positions: Any, k_positions: Any
) -> jax.Array:
    optional = [q, k, q_positions, k_positions]
    arrays = [scores, *present(optional), *parameters]
    axes = _scores_axes(options, scores, q, k, parameters, q_positions, k_positions)
    return ffi.call("add_scores", [like(scores)], 4, arrays, axes, given=given_bits(optional), **options._asdict())[0]


def _scores_gradients(
    options: _Options, d_scores: jax.Array, q: Any, k: Any, parameters: Any, q_positions: Any, k_positions: Any
) -> tuple[Any, Any, Any]:
    wanted = [*present([q, k]), *parameters]
    if not wanted:
        return None, None, ()
    optional = [q, k, q_positions, k_positions]
    axes = _scores_axes(options, d_scores, q, k, parameters, q_positions, k_positions)
    rows = axes.arrays[1:3] if q is not None else ()
    found = ffi.call(
        "add_scores_backward",
        [like(one) for one in wanted],
        wanted[0].ndim,
        [d_scores, *present(optional), *parameters],
        axes._replace(results=(*rows, *parameter_axes(options.plan, parameters)), sums=True),
        given=given_bits(optional),
        **options._asdict(),
    )
    return (None, None, tuple(found)) if q is None else (found[0], found[1], tuple(found[2:]))


_scores_compiled = ffi.differentiable(
    1,
    _scores,
    lambda options, scores, *others: (_scores(options, scores, *others), others),
    lambda options, others, d: (d, *_scores_gradients(options, d, *others), None, None),
)


def add_values(
    encodings: Any,
    p: jax.typing.ArrayLike,
    out: jax.typing.ArrayLike,
    q_positions: Positions = None,
    k_positions: Positions = None,
    *,
    layout: Layout = "bhtd",
    threads: int = 1,
) -> jax.Array:
    """Returns out plus every encoding's value term: a new array, float64 or float32. First axes may be left out.

    p [batch, heads, q_len, k_len]: the probabilities.
    out [batch, heads, q_len, value_dim]: what attention gave without the encodings.
    q_positions: where queries stand, as attention() takes positions.
    k_positions: where keys stand.
    layout: of out: 'bhtd' or 'bthd'.

    Encodings without a value site add nothing. Gradients: of p, out and the parameters.
    """
    function = "add_values"
    time_first = is_time_first(function, layout)
    rows = _unrounded(function, "out", out, time_first)
    weights = tensor_of(function, "p", p, False)
    same_type(function, "p", weights, rows, "out")
    if shape_of(rows, time_first)[:3] != list(weights.shape[:3]):
        raise _core.ShapeError(
            "[add_values] out: must be [batch, heads, q_len, value_dim] of probabilities with shape "
            f"{list(weights.shape)}, got {shape_of(rows, time_first)}"
        )
    plan = plan_of(function, encodings, rows.dtype)
    batch, heads, q_len, k_len = weights.shape
    q_positions = positions_of(function, "q_positions", q_positions, q_len, batch)
    k_positions = positions_of(function, "k_positions", k_positions, k_len, batch)
    extents = {"batch": batch, "heads": heads, "kv_heads": heads, "q_len": q_len, "k_len": k_len}
    check_encodings(function, plan, rows.dtype, q_positions, k_positions, **extents, value_dim=rows.shape[3])
    options = _Options(plan.text, 1.0, time_first, threads_of(function, threads))
    added = _values_compiled(options, weights, rows, plan.parameters, q_positions, k_positions)
    return with_axes(added, jnp.ndim(out), time_first)


def _values_axes(options: _Options, p: Any, out: Any, parameters: Any, q_positions: Any, k_positions: Any) -> Axes:
    """Probabilities and rows, or their gradient, to rows."""
    batch, heads, q_len, k_len = p.shape
    extents = {"batch": batch, "heads": heads, "kv_heads": heads, "q_len": q_len, "k_len": k_len}
    rows = laid("bh..", options.time_first)
    given = options.plan, parameters, p.dtype, q_positions, k_positions
    return Axes(
        ("bh..", rows, *_position_axes(q_positions, k_positions), *parameter_axes(options.plan, parameters)),
        (rows,),
        serving("add_values", *given, **extents, value_dim=out.shape[3]),
    )


def _values(options: _Options, p: Any, out: Any, parameters: Any, q_positions: Any, k_positions: Any) -> jax.Array:
    arrays = [p, out, *present([q_positions, k_positions]), *parameters]
    attributes = options._asdict() | {"given": given_bits([q_positions, k_positions])}
    axes = _values_axes(options, p, out, parameters, q_positions, k_positions)
    return ffi.call("add_values", [like(out)], 4, arrays, axes, **attributes)[0]


def _values_backward(options: _Options, kept: Any, d_out: jax.Array) -> tuple[Any, ...]:
    p, parameters, q_positions, k_positions = kept
    results = [like(p), *(like(one) for one in parameters)]
    arrays = [p, d_out, *present([q_positions, k_positions]), *parameters]
    attributes = options._asdict() | {"given": given_bits([q_positions, k_positions])}
    axes = _values_axes(options, p, d_out, parameters, q_positions, k_positions)
    axes = axes._replace(results=("bh..", *parameter_axes(options.plan, parameters)), sums=True)
    d_p, *others = ffi.call("add_values_backward", results, 4, arrays, axes, **attributes)
    return d_p, d_out, tuple(others), None, None


_values_compiled = ffi.differentiable(
    1,
    _values,
    lambda options, p, out, *others: (_values(options, p, out, *others), (p, *others)),
    _values_backward,
)


def _unrounded(function: str, name: str, value: Any, time_first: bool = False) -> jax.Array:
    """A tensor that terms are added to as they are."""
    array = array_of(function, name, value)
    if array.dtype not in (jnp.float64, jnp.float32):
        raise TypeError(f"[{function}] {name}: must be float64 or float32, got {array.dtype}")
    return tensor_of(function, name, array, time_first)
