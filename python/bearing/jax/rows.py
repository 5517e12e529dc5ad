"""Rotations, and encodings of query and key rows."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from .. import _core
from . import ffi
from .arrays import (
    Layout,
    Positions,
    check_axes,
    given_bits,
    is_time_first,
    laid,
    like,
    positions_of,
    present,
    shape_of,
    tensor_of,
    threads_of,
    token_axes,
    token_letter,
    with_axes,
    word_of,
)
from .encodings import arithmetic_of, check_encodings, parameter_axes, plan_of, serving, turned_dim
from .shards import Axes
from .tables import table_of, table_text


class _Options(NamedTuple):
    plan: str
    time_first: bool
    threads: int
    side: str = ""


def rotate(
    table: _core.RopeTable | _core.Rope,
    x: jax.typing.ArrayLike,
    positions: Positions = None,
    *,
    layout: Layout = "bhtd",
    threads: int = 1,
) -> jax.Array:
    """Returns queries or keys x [batch, heads, time, head_dim], turned by RoPE: a new array of x's type.

    table: a RopeTable, which is static: make it once. A float32 table serves float32, bfloat16 and float16, a float64
        table float64. A Rope stands for its table of 2,048 rows; other rows are computed when they are needed.
        TypeError for a Rope whose frequencies depend on the length.
    x [batch, heads, time, head_dim]: the first axes may be left out. With layout "bthd" time comes before heads.
    positions: where tokens stand, as attention() takes positions. They have no gradient.

    The gradient of x is the transposed rotation of the result's gradient.
    """
    time_first = is_time_first("rotate", layout)
    rows = tensor_of("rotate", "x", x, time_first)
    if isinstance(table, _core.Rope):
        _core._check_fixed(table, "[rotate] table", "a RopeTable, or ")
        table = table_of(table, jnp.dtype(arithmetic_of(rows.dtype)).name)
    if not isinstance(table, _core.RopeTable):
        raise TypeError(f"[rotate] table: must be a RopeTable or a Rope, got {table!r}")
    if jnp.dtype(table.dtype) != arithmetic_of(rows.dtype):
        served = "float64" if table.dtype == "float64" else "float32, bfloat16 or float16"
        raise TypeError(f"[rotate] x: must be {served} for a {table.dtype} table, got {rows.dtype}")
    if rows.shape[3] != table.frequencies.head_dim:
        raise _core.ShapeError(
            f"[rotate] x: must have a last extent of head_dim = {table.frequencies.head_dim}, got {rows.shape[3]}"
        )
    positions = positions_of("rotate", "positions", positions, rows.shape[1 if time_first else 2], rows.shape[0])
    check_axes("rotate", "positions", positions, table.frequencies.axes)
    turned = rotate_by(table_text(table), rows, positions, time_first, threads_of("rotate", threads))
    return with_axes(turned, jnp.ndim(x), time_first)


def rotate_by(table: str, x: jax.Array, positions: jax.Array | None, time_first: bool, threads: int) -> jax.Array:
    """x of four axes, turned by the table of a text."""
    return _rotate_compiled(_Options(table, time_first, threads), False, x, positions)


def _rotate(options: _Options, backward: bool, x: jax.Array, positions: jax.Array | None) -> jax.Array:
    attributes = options._asdict() | {"backward": backward, "given": given_bits([positions])}
    rows = laid(f"bh{token_letter(positions)}.", options.time_first)
    axes = Axes((rows, *token_axes(positions)), (rows,))
    return ffi.call("rotate", [like(x)], 4, [x, *present([positions])], axes, **attributes)[0]


# The transpose is a rotation as well, whose gradient is the rotation: any number of derivatives.
_rotate_compiled = ffi.differentiable(
    2,
    _rotate,
    lambda options, backward, x, positions: (_rotate_compiled(options, backward, x, positions), positions),
    lambda options, backward, positions, d_y: (_rotate_compiled(options, not backward, d_y, positions), None),
)


def turn(
    encoding: Any,
    x: jax.typing.ArrayLike,
    positions: Positions = None,
    *,
    side: Literal["query", "key"],
    layout: Layout = "bhtd",
    threads: int = 1,
) -> jax.Array:
    """Returns queries or keys x [batch, heads, time, dim] as an encoding of rows turns them: [batch, heads, time,
    out_dim].

    x [batch, heads, time, dim]: the first axes may be left out. With layout "bthd" time comes before heads.
    positions: where tokens stand, as attention() takes positions.
    side: 'query' or 'key'.

    Gradients: of x and of the encoding's parameters.
    """
    time_first = is_time_first("turn", layout)
    word_of("turn", "side", side, ("query", "key"))
    rows = tensor_of("turn", "x", x, time_first)
    batch, heads, time, dim = shape_of(rows, time_first)
    positions = positions_of("turn", "positions", positions, time, batch)
    plan = plan_of("turn", [encoding], rows.dtype)
    extents = {"batch": batch, "heads": heads, "q_len": time, "dim": dim}
    check_encodings("turn", plan, rows.dtype, positions, **extents)
    options = _Options(plan.text, time_first, threads_of("turn", threads), side)
    turned = _turn_compiled(options, turned_dim([encoding], dim), rows, plan.parameters, positions)
    return with_axes(turned, jnp.ndim(x), time_first)


def _turn_axes(options: _Options, x: jax.Array, parameters: Any, positions: jax.Array | None) -> Axes:
    """One tensor of rows to another; the gradients' call has two of them."""
    rows = laid(f"bh{token_letter(positions)}.", options.time_first)
    batch, heads, time, dim = shape_of(x, options.time_first)
    extents = {"batch": batch, "heads": heads, "q_len": time, "dim": dim}
    arrays = (rows, *token_axes(positions), *parameter_axes(options.plan, parameters))
    return Axes(arrays, (rows,), serving("turn", options.plan, parameters, x.dtype, positions, **extents))


def _turn(options: _Options, out_dim: int, x: jax.Array, parameters: Any, positions: jax.Array | None) -> jax.Array:
    result = jax.ShapeDtypeStruct((*x.shape[:3], out_dim), x.dtype)
    arrays = [x, *present([positions]), *parameters]
    axes = _turn_axes(options, x, parameters, positions)
    return ffi.call("turn", [result], 4, arrays, axes, given=given_bits([positions]), **options._asdict())[0]


def _turn_backward(options: _Options, out_dim: int, kept: Any, d_y: jax.Array) -> tuple[Any, Any, None]:
    x, parameters, positions = kept
    wide = x.astype(arithmetic_of(x.dtype))  # gradients are not rounded before they are added up
    arrays = [wide, d_y.astype(wide.dtype), *present([positions]), *parameters]
    results = [like(wide), *(like(one) for one in parameters)]
    axes = _turn_axes(options, x, parameters, positions)
    rows, *others = axes.arrays
    axes = axes._replace(arrays=(rows, *axes.arrays), results=(rows, *others[len(present([positions])) :]), sums=True)
    attributes = options._asdict() | {"given": given_bits([positions])}
    d_x, *others = ffi.call("turn_backward", results, 4, arrays, axes, **attributes)
    return d_x.astype(x.dtype), tuple(others), None


_turn_compiled = ffi.differentiable(
    2,
    _turn,
    lambda options, out_dim, x, parameters, positions: (
        _turn(options, out_dim, x, parameters, positions),
        (x, parameters, positions),
    ),
    _turn_backward,
)
