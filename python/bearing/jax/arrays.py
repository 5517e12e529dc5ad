"""What calls share: types, axes and positions."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from .. import _core

Layout = Literal["bhtd", "bthd"]
Positions = Any
"""None for 0, 1, 2, …, an int or a scalar array for a cache of so many tokens, or an array of whole or real numbers
[time], [batch, time] or [axes, batch, time]."""

TYPES = (jnp.float64, jnp.float32, jnp.bfloat16, jnp.float16)


def array_of(function: str, name: str, value: Any) -> jax.Array:
    """An array of one of the library's types."""
    array = jnp.asarray(value)
    if array.dtype not in TYPES:
        raise TypeError(f"[{function}] {name}: must be float64, float32, bfloat16 or float16, got {array.dtype}")
    return array


def same_type(function: str, name: str, array: jax.Array, other: jax.Array, other_name: str) -> None:
    if array.dtype != other.dtype:
        raise TypeError(f"[{function}] {name}: must be {other.dtype}, as {other_name} is, got {array.dtype}")


def is_time_first(function: str, layout: str) -> bool:
    if layout not in ("bhtd", "bthd"):
        raise ValueError(f"[{function}] layout: must be 'bhtd' or 'bthd', got {layout!r}")
    return layout == "bthd"


def tensor_of(function: str, name: str, value: Any, time_first: bool) -> jax.Array:
    """[time, dim], [heads, time, dim] or [batch, heads, time, dim] with all four axes, in the order of the layout."""
    array = array_of(function, name, value)
    if array.ndim == 2:
        return array[None, :, None] if time_first else array[None, None]
    if array.ndim == 3:
        return array[None]
    if array.ndim != 4:
        raise TypeError(f"[{function}] {name}: must be an array of 2 to 4 axes, got one of {array.ndim}")
    return array


def with_axes(array: jax.Array, rank: int, time_first: bool) -> jax.Array:
    """A result of four axes with as many as the argument had."""
    if rank == 2:
        return array[0, :, 0] if time_first else array[0, 0]
    return array[0] if rank == 3 else array


class At(NamedTuple):
    """Positions of a call: first, first + 1, …, or an array [axes, batch or 1, time]."""

    first: int
    array: jax.Array | None


def positions_of(function: str, name: str, at: Positions, time: int, batch: int) -> At:
    if at is None:
        return At(0, None)
    if not isinstance(at, bool) and not hasattr(at, "dtype"):
        try:
            return At(operator.index(at), None)
        except TypeError:
            pass
    array = numbers_of(function, name, at, real=True)
    if array.ndim == 0:
        array = array + jnp.arange(time, dtype=array.dtype)
    if array.ndim > 3:
        raise TypeError(
            f"[{function}] {name}: must be [time], [batch, time] or [axes, batch, time], got {array.ndim} axes"
        )
    array = array.reshape((1,) * (3 - array.ndim) + array.shape)
    if array.shape[2] != time:
        raise _core.ShapeError(f"[{function}] {name}: must have {time} tokens, got {array.shape[2]}")
    if array.shape[1] not in (1, batch):
        raise _core.ShapeError(f"[{function}] {name}: must have {batch} sequences, got {array.shape[1]}")
    return At(0, array if jnp.issubdtype(array.dtype, jnp.integer) else _without_gradient(function, name, array))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _without_gradient(function: str, name: str, array: jax.Array) -> jax.Array:
    """The array itself; a TypeError where its gradient is asked for, which would be lost."""
    return array


@_without_gradient.defjvp
def _refuse(function: str, name: str, *_: Any) -> Any:
    raise TypeError(f"[{function}] {name}: must be given without a gradient (jax.lax.stop_gradient), as it has none")


def numbers_of(function: str, name: str, value: Any, real: bool = False) -> jax.Array:
    """Whole numbers as int32 or int64; with `real` others too, as float32 or float64."""
    array = jnp.asarray(value)
    if jnp.issubdtype(array.dtype, jnp.integer):
        return array if array.dtype in (jnp.int32, jnp.int64) else array.astype(jnp.int32)
    if real and jnp.issubdtype(array.dtype, jnp.floating):
        return array if array.dtype in (jnp.float32, jnp.float64) else array.astype(jnp.float32)
    raise TypeError(f"[{function}] {name}: must be whole numbers{' or reals' if real else ''}, got {array.dtype}")


def flags_of(function: str, name: str, value: Any) -> jax.Array:
    array = jnp.asarray(value)
    if array.dtype != jnp.bool_:
        raise TypeError(f"[{function}] {name}: must be an array of truth values, got {array.dtype}")
    return array


def threads_of(function: str, threads: int) -> int:
    if operator.index(threads) < 0:
        raise _core.RangeError(f"[{function}] threads: must be 0 (all) or more, got {threads}")
    return operator.index(threads)


def given_bits(arrays: Sequence[Any]) -> int:
    """Bit n says that the nth of a call's optional arrays is there."""
    return sum(1 << n for n, array in enumerate(arrays) if array is not None)


def present(arrays: Sequence[Any]) -> list[Any]:
    return [array for array in arrays if array is not None]


def like(array: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)
