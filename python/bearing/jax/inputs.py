"""Encodings of the input."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import _core
from . import ffi
from .arrays import (
    Positions,
    array_of,
    extents_of,
    given_bits,
    length_of,
    like,
    positions_of,
    present,
    threads_of,
    token_axes,
    token_letter,
)
from .encodings import arithmetic_of, check_encodings, parameter_axes, plan_of, serving, wished_type
from .shards import Axes


class _Rows(NamedTuple):
    plan: str
    threads: int
    shape: tuple[int, int, int]
    dtype: Any

    def attributes(self) -> dict[str, Any]:
        return {"plan": self.plan, "threads": self.threads}


def inputs(
    encoding: Any,
    positions: Positions = None,
    time: int | None = None,
    *,
    dtype: Any = None,
    threads: int = 1,
) -> jax.Array:
    """Returns what an encoding adds to the input: [time, dim], or [batch, time, dim] for positions of several
    sequences.

    positions: where tokens stand, as attention() takes positions.
    time: how many tokens; it may be left out where positions are an array.
    dtype: the type of the result; None for that of the encoding's first parameter, or float32 where there is none.

    Gradients: of the encoding's parameters.
    """
    extents = extents_of("inputs", "positions", positions)
    length = length_of("inputs", "time", time, extents)
    batch = extents[0] if len(extents) == 2 else 1
    result = _inputs(
        "inputs",
        encoding,
        None,
        positions,
        (batch, length, _dim("inputs", encoding)),
        wished_type("inputs", dtype, encoding),
        threads,
    )
    return result if len(extents) == 2 else result[0]


def add(encoding: Any, x: jax.typing.ArrayLike, positions: Positions = None, *, threads: int = 1) -> jax.Array:
    """Returns x [time, dim] or [batch, time, dim] plus what the encoding adds to it. The sum is rounded once.

    positions: where tokens stand, as attention() takes positions.

    Gradients: of x and of the encoding's parameters.
    """
    rows = array_of("add", "x", x)
    if rows.ndim not in (2, 3):
        raise _core.ShapeError(
            f"[add] x: must be an array of 2 or 3 axes, [batch, time, dim], got shape {list(rows.shape)}"
        )
    one = rows if rows.ndim == 3 else rows[None]
    dim = _dim("add", encoding)
    if one.shape[2] != dim:
        raise _core.ShapeError(f"[add] x: must have a last extent of dim = {dim}, got {one.shape[2]}")
    result = _inputs("add", encoding, one, positions, one.shape, rows.dtype, threads)
    return result.reshape(rows.shape)


def _inputs(
    function: str, encoding: Any, x: jax.Array | None, positions: Positions, shape: Any, dtype: Any, threads: int
) -> jax.Array:
    plan = plan_of(function, [encoding], dtype)
    positions = positions_of(function, "positions", positions, shape[1], shape[0])
    check_encodings(function, plan, dtype, positions, batch=shape[0], q_len=shape[1], dim=shape[2])
    rows = _Rows(plan.text, threads_of(function, threads), tuple(shape), jnp.dtype(dtype))
    return _rows_compiled(rows, x, plan.parameters, positions)


def _axes(rows: _Rows, parameters: Any, positions: jax.Array | None) -> Axes:
    """One tensor of rows, or its gradient, to another."""
    text = f"b{token_letter(positions)}."
    batch, time, dim = rows.shape
    extents = {"batch": batch, "q_len": time, "dim": dim}
    serves = serving("inputs", rows.plan, parameters, rows.dtype, positions, **extents)
    return Axes((text, *token_axes(positions), *parameter_axes(rows.plan, parameters)), (text,), serves)


def _rows(rows: _Rows, x: jax.Array | None, parameters: Any, positions: jax.Array | None) -> jax.Array:
    optional = [x, positions]
    result = jax.ShapeDtypeStruct(rows.shape, rows.dtype)
    arrays = [*present(optional), *parameters]
    axes = _axes(rows, parameters, positions)
    axes = axes._replace(arrays=axes.arrays[x is None :])
    return ffi.call("inputs", [result], 3, arrays, axes, given=given_bits(optional), **rows.attributes())[0]


def _rows_backward(rows: _Rows, kept: Any, d_y: jax.Array) -> tuple[Any, Any, None]:
    has_x, parameters, positions = kept
    d_x = d_y if has_x else None
    if not parameters:
        return d_x, (), None
    arrays = [d_y.astype(arithmetic_of(d_y.dtype)), *present([positions]), *parameters]
    results = [like(one) for one in parameters]
    axes = _axes(rows, parameters, positions)
    axes = axes._replace(results=axes.arrays[-len(parameters) :], sums=True)
    attributes = rows.attributes() | {"given": given_bits([positions])}
    gradients = ffi.call("inputs_backward", results, parameters[0].ndim, arrays, axes, **attributes)
    return d_x, tuple(gradients), None


_rows_compiled = ffi.differentiable(
    1,
    _rows,
    lambda rows, x, parameters, positions: (
        _rows(rows, x, parameters, positions),
        (x is not None, parameters, positions),
    ),
    _rows_backward,
)


def _dim(function: str, encoding: Any) -> int:
    dim = getattr(getattr(encoding, "spec", None), "dim", None)
    if not isinstance(encoding, _core.Encoding) or dim is None:
        raise TypeError(f"[{function}] encoding: must be an encoding of the input, got {encoding!r}")
    return dim() if callable(dim) else dim  # what follows from other members is a method
