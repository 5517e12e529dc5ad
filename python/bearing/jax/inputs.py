"""Encodings of the input, and biases as matrices."""

from __future__ import annotations

import functools
import operator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import _core
from . import ffi
from .arrays import TYPES, Positions, array_of, given_bits, like, positions_of, present, threads_of
from .encodings import arithmetic_of, plan_of


class _Rows(NamedTuple):
    plan: str
    first: int
    threads: int
    shape: tuple[int, int, int]
    dtype: Any

    def attributes(self) -> dict[str, Any]:
        return {"plan": self.plan, "first": self.first, "threads": self.threads}


def inputs(
    encoding: Any,
    at: Positions = None,
    time: int | None = None,
    *,
    dtype: Any = jnp.float32,
    threads: int = 1,
) -> jax.Array:
    """What an encoding adds to the input: [time, dim], or [batch, time, dim] for positions of several sequences.

    time may be left out where positions are an array. Gradients: of the encoding's parameters.
    """
    extents = _extents(at)
    length = _length("inputs", "time", time, extents)
    batch = extents[0] if len(extents) == 2 else 1
    result = _inputs("inputs", encoding, None, at, (batch, length, _dim(encoding)), _type("inputs", dtype), threads)
    return result if len(extents) == 2 else result[0]


def add(encoding: Any, x: jax.typing.ArrayLike, at: Positions = None, *, threads: int = 1) -> jax.Array:
    """x [time, dim] or [batch, time, dim] plus what the encoding adds to it, the sum rounded once.

    Gradients: of x and of the encoding's parameters.
    """
    rows = array_of("add", "x", x)
    if rows.ndim not in (2, 3):
        raise TypeError(f"[add] x: must be an array of 2 or 3 axes, got one of {rows.ndim}")
    one = rows if rows.ndim == 3 else rows[None]
    dim = _dim(encoding)
    if one.shape[2] != dim:
        raise _core.ShapeError(f"[add] x: must have a last extent of dim = {dim}, got {one.shape[2]}")
    result = _inputs("add", encoding, one, at, one.shape, rows.dtype, threads)
    return result.reshape(rows.shape)


def _inputs(
    function: str, encoding: Any, x: jax.Array | None, at: Positions, shape: Any, dtype: Any, threads: int
) -> jax.Array:
    plan = plan_of(function, [encoding], dtype)
    positions = positions_of(function, "at", at, shape[1], shape[0])
    rows = _Rows(plan.text, positions.first, threads_of(function, threads), tuple(shape), jnp.dtype(dtype))
    return _rows_compiled(rows, x, plan.parameters, positions.array)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _rows(rows: _Rows, x: jax.Array | None, parameters: Any, at: jax.Array | None) -> jax.Array:
    optional = [x, at]
    result = jax.ShapeDtypeStruct(rows.shape, rows.dtype)
    arrays = [*present(optional), *parameters]
    return ffi.call("inputs", [result], 3, arrays, given=given_bits(optional), **rows.attributes())[0]


def _rows_backward(rows: _Rows, kept: Any, d_y: jax.Array) -> tuple[Any, Any, None]:
    has_x, parameters, at = kept
    d_x = d_y if has_x else None
    if not parameters:
        return d_x, (), None
    arrays = [d_y.astype(arithmetic_of(d_y.dtype)), *present([at]), *parameters]
    results = [like(one) for one in parameters]
    gradients = ffi.call(
        "inputs_backward", results, parameters[0].ndim, arrays, given=given_bits([at]), **rows.attributes()
    )
    return d_x, tuple(gradients), None


_rows.defvjp(
    lambda rows, x, parameters, at: (_rows(rows, x, parameters, at), (x is not None, parameters, at)), _rows_backward
)
_rows_compiled = jax.jit(_rows, static_argnums=0)


class _Matrix(NamedTuple):
    plan: str
    q_first: int
    k_first: int
    threads: int
    shape: tuple[int, int, int]
    dtype: Any

    def attributes(self) -> dict[str, Any]:
        return {"plan": self.plan, "q_first": self.q_first, "k_first": self.k_first, "threads": self.threads}


def bias_matrix(
    encodings: Any,
    q_at: Positions = None,
    k_at: Positions = None,
    *,
    heads: int,
    q_len: int | None = None,
    k_len: int | None = None,
    dtype: Any = jnp.float32,
    threads: int = 1,
) -> jax.Array:
    """The scores of encodings that look at neither queries nor keys: [heads, q_len, k_len].

    Lengths may be left out where positions are arrays [time] or [axes, 1, time]. Gradients: of the parameters.
    """
    function = "bias_matrix"
    lengths = (
        _length(function, "q_len", q_len, _extents(q_at)),
        _length(function, "k_len", k_len, _extents(k_at)),
    )
    if operator.index(heads) < 1:
        raise _core.RangeError(f"[bias_matrix] heads: must be at least 1, got {heads}")
    kind = _type(function, dtype)
    plan = plan_of(function, encodings, kind)
    q_positions = positions_of(function, "q_at", q_at, lengths[0], 1)
    k_positions = positions_of(function, "k_at", k_at, lengths[1], 1)
    shape = (operator.index(heads), *lengths)
    matrix = _Matrix(
        plan.text, q_positions.first, k_positions.first, threads_of(function, threads), shape, kind
    )
    return _matrix_compiled(matrix, plan.parameters, q_positions.array, k_positions.array)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _matrix(matrix: _Matrix, parameters: Any, q_at: jax.Array | None, k_at: jax.Array | None) -> jax.Array:
    optional = [q_at, k_at]
    result = jax.ShapeDtypeStruct(matrix.shape, matrix.dtype)
    arrays = [*present(optional), *parameters]
    return ffi.call("bias_matrix", [result], 3, arrays, given=given_bits(optional), **matrix.attributes())[0]


def _matrix_backward(matrix: _Matrix, kept: Any, d_bias: jax.Array) -> tuple[Any, None, None]:
    parameters, q_at, k_at = kept
    if not parameters:
        return (), None, None
    optional = [q_at, k_at]
    arrays = [d_bias.astype(arithmetic_of(d_bias.dtype)), *present(optional), *parameters]
    gradients = ffi.call(
        "bias_matrix_backward",
        [like(one) for one in parameters],
        parameters[0].ndim,
        arrays,
        given=given_bits(optional),
        **matrix.attributes(),
    )
    return tuple(gradients), None, None


_matrix.defvjp(
    lambda matrix, parameters, q_at, k_at: (_matrix(matrix, parameters, q_at, k_at), (parameters, q_at, k_at)),
    _matrix_backward,
)
_matrix_compiled = jax.jit(_matrix, static_argnums=0)


def _type(function: str, dtype: Any) -> Any:
    kind = jnp.dtype(dtype)
    if kind not in TYPES:
        raise TypeError(f"[{function}] dtype: must be float64, float32, bfloat16 or float16, got {dtype!r}")
    if kind == jnp.float64 and not jax.config.jax_enable_x64:
        raise TypeError(f"[{function}] dtype: must be at most 32 bits wide unless jax_enable_x64 is set, got float64")
    return kind


def _extents(at: Positions) -> tuple[int, ...]:
    """The extents of positions without their axes; none unless they are an array of tokens."""
    shape = jnp.shape(at) if at is not None else ()
    return shape[1:] if len(shape) == 3 else shape


def _length(function: str, name: str, given: int | None, extents: tuple[int, ...]) -> int:
    if given is None and not extents:
        raise TypeError(f"[{function}] {name}: must be given where positions are counted, got None")
    length = extents[-1] if given is None else operator.index(given)
    if length < 0:
        raise ValueError(f"[{function}] {name}: must be at least 0, got {length}")
    return length


def _dim(encoding: Any) -> int:
    dim = getattr(getattr(encoding, "spec", None), "dim", None)
    if not isinstance(encoding, _core.Encoding) or dim is None:
        raise TypeError(f"[inputs] encoding: must be an encoding of the input, got {encoding!r}")
    return dim
