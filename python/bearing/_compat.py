"""Four functions that tutorials have, for arrays of NumPy, PyTorch or JAX. They call the rest of the package.

pos_enc = sinusoidal_encoding(seq_len, d_model)
X = X + pos_enc
Q_rotated = apply_rope(Q, positions)
scores = Q_rotated @ K_rotated.T / sqrt(d_k) + alibi_bias(seq_len, num_heads)
"""

from __future__ import annotations

import functools
import math
import numbers
import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal, TypeVar

from . import _core
from ._types import Array, ArrayLike, DType, Layout, Positions

SinusoidalLayout = Literal["interleaved", "concatenated", "tensor2tensor", "cos_first", "cos_first_shifted"]

Function = TypeVar("Function", bound=Callable[..., Any])


def _named(**arguments: str) -> Callable[[Function], Function]:
    """Lets errors name the function that the user called, not the one that it calls.

    arguments: what the arguments of the inner function are called in the outer one.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def call(*args: Any, **given: Any) -> Any:
            try:
                return function(*args, **given)
            except (TypeError, ValueError) as error:
                found = re.match(r"\[[^\]]*\] (\w+)(?=:)", str(error))
                if found is None:
                    raise
                name = arguments.get(found[1], found[1])
                raise type(error)(f"[{function.__name__}] {name}{str(error)[found.end() :]}") from None

        return call  # type: ignore[return-value]

    return decorate


@functools.cache
def _classes(name: str) -> tuple[Any, Any]:
    """The class of the spec and the class of the encoding that a name of the catalog stands for."""
    kind, spec = next((kind, spec) for one, kind, spec in _core._named(1, 4, 1) if one == name)
    return type(spec), getattr(_core, kind)


@_named(time="seq_len", dim="d_model")
def sinusoidal_encoding(
    seq_len: int,
    d_model: int,
    *,
    base: float = 10_000.0,
    layout: SinusoidalLayout = "interleaved",
    dtype: DType | None = None,
    like: ArrayLike | None = None,
    threads: int = 1,
) -> Array:
    """Makes the sinusoidal table of Vaswani et al. 2017 (arXiv 1706.03762): a new array [seq_len, d_model].

        PE(p, 2i) = sin(p · base^(−2i/d_model)),   PE(p, 2i + 1) = cos(p · base^(−2i/d_model))

    Each number is the exact one, rounded once (float64: within 2 ulp).

    seq_len: how many positions: 0 … seq_len − 1.
    d_model: how many columns.
    base: the base of the frequencies.
    layout: the order of the columns. 'interleaved' is the paper's; the text of the encoding's spec has the others.
    dtype: the type of the result; NumPy's float32 if neither dtype nor like is given.
    like: an array whose kind and type the result gets. With like=X the table is a tensor if X is one.
    threads: how many threads the call may use; 0 for all.

    Raises ShapeError or RangeError for sizes or a base out of range, TypeError for another type.
    """
    spec, rows = _classes("sinusoidal")
    encoding = rows(spec(dim=d_model, base=base, layout=layout))
    return _core.inputs(encoding, time=seq_len, dtype=dtype, like=like, threads=threads)


@_named(length="seq_len", head_dim="dim", rotary_dim="dim")
def rotary_embedding(
    seq_len: int, dim: int, *, base: float = 10_000.0, dtype: DType = "float32"
) -> tuple[Array, Array]:
    """Makes cos and sin of p·base^(−2i/dim) (Su et al. 2021, arXiv 2104.09864): two read-only NumPy arrays [seq_len,
    dim/2].

    Row p belongs to position p, column i to pair i. ``RopeTable`` holds the same numbers for ``rotate()``; it also has
    scalings, partial heads and several axes.

    Raises ShapeError if dim is odd, RangeError for a negative seq_len or a base that is not above 0.
    """
    table = _core.RopeTable(_core.Rope(head_dim=dim, base=base, pairing="interleaved"), seq_len, dtype=dtype)
    return table.cos, table.sin


@_named(positions="positions")
def apply_rope(
    x: ArrayLike,
    positions: Positions = None,
    *,
    base: float = 10_000.0,
    pairing: Literal["interleaved", "half"] = "interleaved",
    rotary_dim: int = 0,
    layout: Layout = "bhtd",
    threads: int = 1,
) -> Array:
    """Turns queries or keys by their positions (Su et al. 2021, arXiv 2104.09864): a new array of x's kind and type.

        (x_2i, x_2i+1) ← (x_2i cos pθ_i − x_2i+1 sin pθ_i, x_2i sin pθ_i + x_2i+1 cos pθ_i),   θ_i = base^(−2i/rotary_dim)

    x [batch, heads, time, dim]: the first axes may be left out; a single vector is [dim].
    positions: None for 0, 1, 2, …; an int p for p, p + 1, … (p tokens are in the cache already); or integers or reals
        [time] or [batch, time]. For a single vector: its position.
    base: the base of the frequencies.
    pairing: 'interleaved' turns neighbours together, as the paper does; 'half' turns elements i and i + rotary_dim/2
        together, as Hugging Face's rotate_half does.
    rotary_dim: how many dimensions turn; 0 for all.
    layout: 'bhtd' for [batch, heads, time, dim], 'bthd' for [batch, time, heads, dim].
    threads: how many threads the call may use; 0 for all.

    A tensor that requires gradients gets them. ``rotate()`` works in place, is faster, and has all that models add to
    RoPE. Raises ShapeError, RangeError or TypeError, whose text names the argument.
    """
    axes = getattr(x, "ndim", None)
    if axes is None or not hasattr(x, "dtype"):
        raise TypeError(f"[apply_rope] x: must be an array of NumPy, PyTorch or JAX, got {type(x)}")
    if getattr(x, "is_nested", False):  # such a tensor has no shape to ask for
        raise TypeError("[apply_rope] x: must be an array of one shape, got a nested tensor of torch")
    if not 1 <= axes <= 4:
        shape = list(x.shape)
        raise _core.ShapeError(
            f"[apply_rope] x: must be an array of 1 to 4 axes, [batch, heads, time, dim], got shape {shape}"
        )
    if axes == 1:
        at = positions if positions is None or isinstance(positions, int) else _scalar(positions)
        rows = apply_rope(x[None], at, base=base, pairing=pairing, rotary_dim=rotary_dim, threads=threads)
        return rows[0]
    rope = _rope(int(x.shape[-1]), rotary_dim, _number("base", base), pairing)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor) and x.requires_grad:
        return _of_four(import_module("bearing.torch").rotate, x, rope=rope, positions=positions, layout=layout)
    jax = sys.modules.get("jax")
    if jax is not None and (isinstance(x, jax.core.Tracer) or isinstance(positions, jax.core.Tracer)):
        return import_module("bearing.jax").rotate(rope, x, positions, layout=layout, threads=threads)
    table = _table(rope, "float64" if "float64" in str(x.dtype) else "float32")
    return _core.rotate_to(table, x, positions, layout=layout, threads=threads)


@_named(heads="num_heads", q_len="seq_len", k_len="seq_len")
def alibi_bias(
    seq_len: int,
    num_heads: int,
    *,
    form: Literal["symmetric", "causal"] = "symmetric",
    dtype: DType | None = None,
    like: ArrayLike | None = None,
    threads: int = 1,
) -> Array:
    """Makes ALiBi's bias (Press, Smith, Lewis 2022, arXiv 2108.12409): a new array [num_heads, seq_len, seq_len].

        bias[h, i, j] = −slope_h · |i − j|,   slope_h = 2^(−8(h + 1)/num_heads)

    The formula of the slopes is for a power of two. For other numbers of heads they are the published ones. Add the
    bias to the scores after they are multiplied by the softmax scale. ``attention()`` takes the encoding itself and
    never makes this matrix.

    seq_len: how many tokens, of queries and of keys.
    num_heads: how many heads.
    form: 'symmetric' as above; 'causal' gives 0 to keys after the query.
    dtype: the type of the result; NumPy's float32 if neither dtype nor like is given.
    like: an array whose kind and type the result gets.
    threads: how many threads the call may use; 0 for all.

    Raises RangeError for sizes out of range, TypeError for another type.
    """
    spec, bias = _classes("alibi")
    encoding = bias(spec.published(num_heads).replace(form=form))
    return _core.bias_matrix(
        encoding, heads=num_heads, q_len=seq_len, k_len=seq_len, dtype=dtype, like=like, threads=threads
    )


@functools.lru_cache(maxsize=64)
def _rope(head_dim: int, rotary_dim: int, base: float, pairing: str) -> _core.Rope:
    return _core.Rope(head_dim=head_dim, rotary_dim=rotary_dim, base=base, pairing=pairing)  # type: ignore[arg-type]


@functools.lru_cache(maxsize=16)
def _table(rope: _core.Rope, dtype: Literal["float32", "float64"]) -> _core.RopeTable:
    return _core.RopeTable(rope, 4096, dtype=dtype)


@functools.lru_cache(maxsize=16)
def _rotary_rows(rope: _core.Rope, dtype: Literal["float32", "float64"]) -> _core.RotaryRows:
    return _core.RotaryRows(_table(rope, dtype))


def _of_four(rotate: Any, x: Any, **options: Any) -> Any:
    """Calls rotate(x), which takes all four axes, for an x with fewer."""
    missing = 4 - x.ndim
    if missing == 0:
        return rotate(x, **options)
    if x.ndim == 3 and options["layout"] == "bthd":
        return rotate(x[None], **options)[0]
    return rotate(x[(None,) * missing], **options)[(0,) * missing]


def _scalar(position: Any) -> Any:
    """The only position in an array, or a number."""
    shape = tuple(getattr(position, "shape", ()))
    if math.prod(shape) != 1:
        raise _core.ShapeError(
            f"[apply_rope] positions: must be one position for a single vector, got shape {list(shape)}"
        )
    one = position.reshape(1) if shape != () or hasattr(position, "reshape") else [position]
    return one


def _number(name: str, value: Any) -> float:
    if not isinstance(value, numbers.Real):
        raise TypeError(f"[apply_rope] {name}: must be a number, got {value!r}")
    return float(value)
