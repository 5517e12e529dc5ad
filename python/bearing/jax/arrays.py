"""What calls share: their types, axes and positions."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from .. import _core

Layout = Literal["bhtd", "bthd"]
Positions = Any
"""None for 0, 1, 2, …, an int or a scalar array for a cache of so many tokens, or an array of integers, float64 or
float32 [time], [batch, time] or [axes, batch, time]."""

POSITION_AXES = "[time], [batch, time] or [axes, batch, time]"

TYPES = (jnp.float64, jnp.float32, jnp.bfloat16, jnp.float16)


def as_array(function: str, name: str, value: Any) -> jax.Array:
    if isinstance(value, jax.Array):  # asarray takes its time with those that are
        return value
    try:
        return jnp.asarray(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(
            f"[{function}] {name}: must be an array of numbers that JAX takes, got {_brief(value)}"
        ) from error


def _brief(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def whole_of(function: str, name: str, value: Any, least: int | None = None) -> int:
    """Returns a whole number that is static. A truth value is none."""
    if _core._is_truth_value(value):
        raise TypeError(f"[{function}] {name}: must be a whole number, got {_brief(value)}")
    try:
        number = operator.index(value)
    except TypeError as error:
        raise TypeError(f"[{function}] {name}: must be a whole number, got {_brief(value)}") from error
    if not -(2**63) <= number < 2**63:
        raise _core.RangeError(f"[{function}] {name}: must be a number of 64 bits, got {number}")
    if least is not None and number < least:
        raise _core.RangeError(f"[{function}] {name}: must be at least {least}, got {number}")
    return number


def array_of(function: str, name: str, value: Any) -> jax.Array:
    """Returns an array of one of the library's types."""
    array = as_array(function, name, value)
    if array.dtype not in TYPES:
        raise TypeError(f"[{function}] {name}: must be float64, float32, bfloat16 or float16, got {array.dtype}")
    return array


def same_type(function: str, name: str, array: jax.Array, other: jax.Array, other_name: str) -> None:
    if array.dtype != other.dtype:
        raise TypeError(f"[{function}] {name}: must be {other.dtype}, as {other_name} is, got {array.dtype}")


def is_time_first(function: str, layout: str) -> bool:
    if not isinstance(layout, str) or layout not in ("bhtd", "bthd"):
        raise ValueError(f"[{function}] layout: must be 'bhtd' or 'bthd', got {_brief(layout)}")
    return layout == "bthd"


def tensor_of(function: str, name: str, value: Any, time_first: bool) -> jax.Array:
    """[time, dim], [heads, time, dim] or [batch, heads, time, dim] with all four axes, in the order of the layout."""
    array = array_of(function, name, value)
    if array.ndim == 2:
        return array[None, :, None] if time_first else array[None, None]
    if array.ndim == 3:
        return array[None]
    if array.ndim != 4:
        raise _core.ShapeError(
            f"[{function}] {name}: must be an array of 2 to 4 axes, [batch, heads, time, dim], got shape {list(array.shape)}"
        )
    return array


def qkv_of(function: str, q: Any, k: Any, v: Any, time_first: bool) -> list[jax.Array]:
    """Queries, keys and values, of one type."""
    tensors = [tensor_of(function, name, x, time_first) for name, x in (("q", q), ("k", k), ("v", v))]
    same_type(function, "k", tensors[1], tensors[0], "q")
    same_type(function, "v", tensors[2], tensors[0], "q")
    return tensors


def shape_of(tensor: jax.Array, time_first: bool) -> list[int]:
    """[batch, heads, time, dim]"""
    return [tensor.shape[axis] for axis in ((0, 2, 1, 3) if time_first else range(4))]


def with_axes(array: jax.Array, rank: int, time_first: bool) -> jax.Array:
    """A result of four axes with as many as the argument had."""
    if rank == 2:
        return array[0, :, 0] if time_first else array[0, 0]
    return array[0] if rank == 3 else array


def laid(text: str, time_first: bool) -> str:
    """A text of axes (see shards) for (batch, heads, time, dim) in the order of a layout."""
    return text[0] + text[2] + text[1] + text[3] if time_first else text


def position_axes(positions: Any) -> str:
    """What may be cut in positions."""
    return ".b." if positions.ndim == 3 else "."


def token_axes(*positions: Any) -> list[str]:
    """As position_axes(), for tokens that are independent of each other. Positions that only count up must stay
    together.
    """
    together = all(one is not None and one.ndim == 3 for one in positions)
    return [".bt" if together else position_axes(one) for one in positions if one is not None]


def token_letter(*positions: Any) -> str:
    return "t" if all(one is not None and one.ndim == 3 for one in positions) else "."


def positions_of(function: str, name: str, at: Positions, time: int, batch: int) -> Any:
    """Positions as handlers take them: None, [axes, batch or 1, time], or [1], the first of those that are counted.

    A number is an argument like all others, so that a call for another one runs the same program.
    """
    if at is None:
        return None
    at = _known(at)
    if _is_whole(at):
        return number_of(function, name, at)
    array = numbers_of(function, name, at, (jnp.float64, jnp.float32))
    if array.ndim == 0:
        raise TypeError(
            f"[{function}] {name}: must be None, a whole number, or an array {POSITION_AXES}, got {_brief(at)}"
        )
    if array.ndim > 3:
        raise _core.ShapeError(f"[{function}] {name}: must be {POSITION_AXES}, got {array.ndim} axes")
    array = array.reshape((1,) * (3 - array.ndim) + array.shape)
    if array.shape[2] != time:
        raise _core.ShapeError(f"[{function}] {name}: must have {time} token{'s' * (time != 1)}, got {array.shape[2]}")
    if array.shape[1] not in (1, batch):
        raise _core.ShapeError(
            f"[{function}] {name}: must have {batch} sequence{'s' * (batch != 1)}, got {array.shape[1]}"
        )
    return array if jnp.issubdtype(array.dtype, jnp.integer) else _without_gradient(function, name, array)


def check_axes(function: str, name: str, positions: Any, axes: int) -> None:
    """Refuses positions, as positions_of() returns them, of another number of axes than one, or than a rotation has."""
    given = positions.shape[0] if positions is not None and positions.ndim == 3 else 1
    if given not in (1, axes):
        wanted = "1 axis" if axes == 1 else f"{axes} axes, or 1 for all of them"
        raise _core.ShapeError(f"[{function}] {name}: must have {wanted}, got {given}")


def number_of(function: str, name: str, number: Any) -> Any:
    """One whole number, traced or not, as an array [1]."""
    if not _is_whole(number):
        raise TypeError(f"[{function}] {name}: must be a whole number, got {number!r}")
    if hasattr(number, "dtype"):
        return numbers_of(function, name, number)[None]
    kind, bits = (np.int64, 64) if jax.config.jax_enable_x64 else (np.int32, 32)
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise _core.RangeError(f"[{function}] {name}: must be a number of {bits} bits, got {number}")
    return np.array([number], kind)


def _known(x: Any) -> Any:
    """An array of JAX or NumPy; others that name their types in their own words, as NumPy's."""
    if not hasattr(x, "dtype") or isinstance(x, (jax.Array, np.ndarray, np.generic)):
        return x
    try:
        return np.asarray(x)
    except (TypeError, ValueError, RuntimeError):  # a gradient would be lost, or it is elsewhere: as_array() says so
        return x


def _is_whole(x: Any) -> bool:
    if hasattr(x, "dtype"):
        return jnp.ndim(x) == 0 and jnp.issubdtype(x.dtype, jnp.integer)
    return isinstance(x, int) and not isinstance(x, bool)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _without_gradient(function: str, name: str, array: jax.Array) -> jax.Array:
    """Returns the array. Raises TypeError where its gradient is asked for, which would be lost."""
    return array


@_without_gradient.defjvp
def _refuse(function: str, name: str, *_: Any) -> Any:
    raise TypeError(f"[{function}] {name}: must be given without a gradient (jax.lax.stop_gradient), as it has none")


def numbers_of(function: str, name: str, value: Any, reals: Sequence[Any] = ()) -> jax.Array:
    """Returns whole numbers as int32 or int64, and numbers of one of the types `reals` as float32 or float64."""
    array = as_array(function, name, _held(function, name, value))
    if jnp.issubdtype(array.dtype, jnp.integer):
        return _signed(function, name, array)
    if array.dtype in reals:
        return array if array.dtype in (jnp.float32, jnp.float64) else array.astype(jnp.float32)
    if reals and array.dtype in TYPES:
        wanted = "integers, float64 or float32 (16-bit floats cannot count past 2048)"
    else:
        wanted = "whole numbers or reals" if reals else "whole numbers"
    raise TypeError(f"[{function}] {name}: must be {wanted}, got {array.dtype}")


def _signed(function: str, name: str, array: jax.Array) -> jax.Array:
    """Whole numbers as int32 or int64, none of which becomes negative."""
    if array.dtype in (jnp.int32, jnp.int64):
        return array
    if jax.config.jax_enable_x64:
        if array.dtype == jnp.uint64:  # too large a number stays too large
            array = jnp.minimum(array, np.uint64(2**63 - 1))
        return array.astype(jnp.int64)
    if array.dtype == jnp.uint32:
        raise TypeError(f"[{function}] {name}: must be int32 unless jax_enable_x64 is set, got uint32")
    return array.astype(jnp.int32)


def _held(function: str, name: str, value: Any) -> Any:
    """The value, without jax_enable_x64 in numbers of 32 bits. RangeError for whole numbers that these do not hold: JAX
    would wrap or round them.
    """
    if isinstance(value, jax.Array) or jax.config.jax_enable_x64:
        return value
    try:
        host = np.asarray(value)
    except (TypeError, ValueError, OverflowError):  # of traced numbers, or of what as_array() refuses
        return value
    if host.dtype.kind in "iu":
        wrong, kind = (host < -(2**31)) | (host > 2**31 - 1), "32 bits"
        narrow = np.int32
    elif host.dtype == np.float64:
        with np.errstate(over="ignore"):
            wrong, kind = (host.astype(np.float32) != host) & (host == np.floor(host)), "float32"
        narrow = np.float32
    else:
        return value
    if wrong.any():
        raise _core.RangeError(
            f"[{function}] {name}: must be whole numbers of {kind} unless jax_enable_x64 is set, got {host[wrong][0]}"
        )
    return host.astype(narrow)


def flags_of(function: str, name: str, value: Any) -> jax.Array:
    array = as_array(function, name, value)
    if array.dtype != jnp.bool_:
        raise TypeError(f"[{function}] {name}: must be an array of truth values, got {array.dtype}")
    return array


def type_of(function: str, dtype: Any, name: str = "dtype") -> Any:
    try:
        kind = jnp.dtype(dtype)
    except (TypeError, ValueError):
        kind = None
    if dtype is None or kind not in TYPES:
        raise TypeError(f"[{function}] {name}: must be float64, float32, bfloat16 or float16, got {dtype!r}")
    if kind == jnp.float64 and not jax.config.jax_enable_x64:
        raise TypeError(f"[{function}] {name}: must be at most 32 bits wide unless jax_enable_x64 is set, got float64")
    return kind


def extents_of(function: str, name: str, at: Positions) -> tuple[int, ...]:
    """The extents of positions, or none unless they are an array of tokens."""
    if at is None or _is_whole(at := _known(at)):
        return ()
    shape = as_array(function, name, at).shape
    if len(shape) > 3:
        raise _core.ShapeError(f"[{function}] {name}: must be {POSITION_AXES}, got {len(shape)} axes")
    return shape[1:] if len(shape) == 3 else shape


def length_of(function: str, name: str, given: int | None, extents: tuple[int, ...]) -> int:
    if given is None and not extents:
        raise TypeError(f"[{function}] {name}: must be given, unless positions are an array, got None")
    return extents[-1] if given is None else whole_of(function, name, given, 0)


def threads_of(function: str, threads: int) -> int:
    number = whole_of(function, "threads", threads)
    if number < 0:
        raise _core.RangeError(f"[{function}] threads: must be at least 0 (0 for all), got {threads}")
    return number


def check_shape(function: str, name: str, array: jax.Array, axes: str, shape: Sequence[int]) -> None:
    if array.shape != tuple(shape):
        raise _core.ShapeError(f"[{function}] {name}: must be {axes} = {list(shape)}, got {list(array.shape)}")


def finite(function: str, name: str, value: float) -> float:
    if _core._is_truth_value(value):
        raise TypeError(f"[{function}] {name}: must be a number, got {_brief(value)}")
    try:
        number = math.fsum([value])  # refuses text, which float() reads
    except (TypeError, ValueError, OverflowError) as error:  # of traced numbers too
        raise TypeError(f"[{function}] {name}: must be a number that is not traced, got {_brief(value)}") from error
    if not math.isfinite(number):
        raise _core.RangeError(f"[{function}] {name}: must be finite, got {number}")
    return number


def word_of(function: str, name: str, word: str, words: Sequence[str], arrays: str = "") -> str:
    """word, if it is one of words. arrays: where an array goes that was given in its place, for errors."""
    if word is None:
        raise TypeError(f"[{function}] {name}: must be given, one of {', '.join(map(repr, words))}, got None")
    if isinstance(word, str) and word in words:
        return word
    choices = ", ".join(repr(one) for one in words)
    if hasattr(word, "shape"):
        choices, got = choices + arrays, f"{type(word)} of shape {list(word.shape)}"
    else:
        got = repr(word)
    raise ValueError(f"[{function}] {name}: must be one of {choices}, got {got}")


def given_bits(arrays: Sequence[Any]) -> int:
    """Bit n is set if the nth of a call's optional arrays is given."""
    return sum(1 << n for n, array in enumerate(arrays) if array is not None)


def present(arrays: Sequence[Any]) -> list[Any]:
    return [array for array in arrays if array is not None]


def like(array: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def times(rows: np.ndarray | jax.Array, matrix: jax.Array) -> jax.Array:
    """rows · matrixᵀ in the matrix's type."""
    return jnp.matmul(jnp.asarray(rows, matrix.dtype), matrix.T, precision="highest")
