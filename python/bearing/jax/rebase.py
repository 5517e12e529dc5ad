"""Moves keys of a cache, which are rotated already, to other positions."""

from __future__ import annotations

from typing import Any, NamedTuple, overload

import jax
import jax.numpy as jnp
import numpy as np

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
    number_of,
    positions_of,
    present,
    shape_of,
    tensor_of,
    threads_of,
    token_axes,
    token_letter,
    with_axes,
)
from .encodings import arithmetic_of, frequencies_text, xpos_text
from .rows import rotate_by
from .shards import Axes

Frequencies = _core.RopeFrequencies | _core.RopeTable | _core.Rope


class _Options(NamedTuple):
    plan: str
    time_first: bool
    threads: int


@overload
def rebase(
    from_: Frequencies,
    old_positions: Positions,
    to: Frequencies,
    new_positions: Positions,
    k: jax.typing.ArrayLike,
    *,
    layout: Layout = "bhtd",
    threads: int = 1,
) -> jax.Array: ...
@overload
def rebase(
    from_: _core.Xpos,
    old_positions: Positions,
    new_positions: Positions,
    k: jax.typing.ArrayLike,
    /,
    *,
    layout: Layout = "bhtd",
    threads: int = 1,
) -> jax.Array: ...
def rebase(
    from_: Any,
    old_positions: Positions,
    to: Any,
    new_positions: Any,
    k: Any = None,
    *,
    layout: Layout = "bhtd",
    threads: int = 1,
) -> jax.Array:
    """Returns cached keys k [batch, kv_heads, time, head_dim], which are rotated already, at other positions: a new
    array.

    from_: the encoding that k was rotated with: a RopeFrequencies, a RopeTable, or a Rope whose frequencies are the same
        at every length.
    old_positions: where the keys stood.
    to: the encoding that they shall have.
    new_positions: where they shall stand.

    Use it for a chunk that is reused elsewhere, and for dynamic NTK or LongRoPE at another length. For xPos call
    ``rebase(xpos, old_positions, new_positions, k)``: RangeError for a scaling that depends on the length. The result is
    linear in k, which has a gradient.
    """
    time_first = is_time_first("rebase", layout)
    xpos = isinstance(from_, _core.Xpos)
    given, new_positions = (new_positions, to) if xpos else (k, new_positions)
    keys = tensor_of("rebase", "k", given, time_first)
    batch, _, time, head_dim = shape_of(keys, time_first)
    before = _core.resolve(from_.rope) if xpos else _core._turning_frequencies(from_, "rebase", "from_")
    if head_dim != before.head_dim:
        raise _core.ShapeError(f"[rebase] k: must have a last extent of head_dim = {before.head_dim}, got {head_dim}")
    old, new = (
        positions_of("rebase", n, at, time, batch)
        for n, at in (("old_positions", old_positions), ("new_positions", new_positions))
    )
    check_axes("rebase", "old_positions", old, before.axes)
    check_axes("rebase", "new_positions", new, before.axes)
    if xpos:
        # A move is what the keys' own table does at new - old, with the centre at 0; it has no attention factor.
        text = xpos_text(from_, "float64" if arithmetic_of(keys.dtype) == jnp.float64 else "float32")
        moved = rotate_by(text, keys, _per_token(new, time) - _per_token(old, time), time_first, threads)
        moved = moved if before.attention_factor == 1 else moved / before.attention_factor
    else:
        plan = frequencies_text(before, _core._turning_frequencies(to, "rebase", "to"))
        options = _Options(plan, time_first, threads_of("rebase", threads))
        moved = _rebase_compiled(options, False, keys, old, new)
    return with_axes(moved, jnp.ndim(given), time_first)


def _rebase(options: _Options, backward: bool, k: jax.Array, old: Any, new: Any) -> jax.Array:
    attributes = options._asdict() | {"backward": backward, "given": given_bits([old, new])}
    rows = laid(f"bh{token_letter(old, new)}.", options.time_first)
    axes = Axes((rows, *token_axes(old, new)), (rows,))
    return ffi.call("rebase", [like(k)], 4, [k, *present([old, new])], axes, **attributes)[0]


_rebase_compiled = ffi.differentiable(
    2,
    _rebase,
    lambda options, backward, k, old, new: (_rebase_compiled(options, backward, k, old, new), (old, new)),
    lambda options, backward, kept, d: (_rebase_compiled(options, not backward, d, *kept), None, None),
)


def shift(
    frequencies: Frequencies, by: Any, k: jax.typing.ArrayLike, *, layout: Layout = "bhtd", threads: int = 1
) -> jax.Array:
    """Returns cached keys k [batch, kv_heads, time, head_dim], moved by a number of tokens: the K-shift.

    frequencies: the encoding that k was rotated with: a RopeFrequencies, a RopeTable, or a Rope whose frequencies are
        the same at every length.
    by: how many tokens, traced or not; negative moves to earlier positions.

    The result is linear in k, which has a gradient. Raises RangeError for angles as float32, whose roundings depend on
    both positions: rebase() takes them.
    """
    time_first = is_time_first("shift", layout)
    keys = tensor_of("shift", "k", k, time_first)
    at = _core._turning_frequencies(frequencies, "shift", "frequencies")
    if keys.shape[3] != at.head_dim:
        raise _core.ShapeError(f"[shift] k: must have a last extent of head_dim = {at.head_dim}, got {keys.shape[3]}")
    _core.shift(at, 0, np.empty((0, at.head_dim)))  # refuses what no shift serves
    tokens = number_of("shift", "by", by)
    options = _Options(frequencies_text(at, at), time_first, threads_of("shift", threads))
    return with_axes(_shift_compiled(options, keys, tokens), jnp.ndim(k), time_first)


def _shift(options: _Options, k: jax.Array, by: jax.Array) -> jax.Array:
    rows = laid("bht.", options.time_first)
    return ffi.call("shift", [like(k)], 4, [k, by], Axes((rows, "."), (rows,)), **options._asdict())[0]


_shift_compiled = ffi.differentiable(
    1,
    _shift,
    lambda options, k, by: (_shift_compiled(options, k, by), by),
    lambda options, by, d: (_shift_compiled(options, d, -by), None),
)


def _per_token(at: Any, time: int) -> jax.Array:
    """Positions as [axes, batch or 1, time]."""
    if at is None:
        return jnp.arange(time)[None, None]
    return at if at.ndim == 3 else (at + jnp.arange(time, dtype=at.dtype))[None, None]
