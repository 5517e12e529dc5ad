"""The four calls that tutorials make, on top of everything else here: NumPy's arrays, PyTorch's or JAX's.

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
    """Errors name the function that was called and its arguments, not what it is made of: arguments say what those are
    called there."""

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
    """The spec's class and the encoding's of a name of the catalog."""
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
    """The sinusoidal table of Vaswani et al. 2017 (arXiv 1706.03762), a new array [seq_len, d_model].

        PE(p, 2i) = sin(p · base^(−2i/d_model)),   PE(p, 2i + 1) = cos(p · base^(−2i/d_model))

    Each number is rounded once from the real one. layout: the paper's columns, or what others made of them. NumPy's
    float32, or another dtype; ``like=X`` gives X's kind and type, so that X + the table is a tensor as X is.
    """
    spec, rows = _classes("sinusoidal")
    encoding = rows(spec(dim=d_model, base=base, layout=layout))
    return _core.inputs(encoding, time=seq_len, dtype=dtype, like=like, threads=threads)


@_named(length="seq_len", head_dim="dim", rotary_dim="dim")
def rotary_embedding(
    seq_len: int, dim: int, *, base: float = 10_000.0, dtype: Literal["float32", "float64"] = "float32"
) -> tuple[Array, Array]:
    """cos and sin of p·base^(−2i/dim) (Su et al. 2021, arXiv 2104.09864): two read-only NumPy arrays [seq_len, dim/2].

    ``RopeTable`` holds them for ``rotate()``, with scalings, partial heads and several axes.
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
    """Queries or keys turned by their positions (Su et al. 2021, arXiv 2104.09864), as a new array of x's kind and type.

        (x_2i, x_2i+1) ← (x_2i cos pθ_i − x_2i+1 sin pθ_i, x_2i sin pθ_i + x_2i+1 cos pθ_i),   θ_i = base^(−2i/rotary_dim)

    x [batch, heads, time, dim]; the first axes may be left out, for a single vector all but dim. positions: None for
    0, 1, 2, …, an int for a cache of so many tokens, or integers or reals [time] or [batch, time]; of a vector, its
    position. pairing: neighbours turn together, as the paper has it; 'half' is Hugging Face's rotate_half. rotary_dim:
    how many dimensions turn; 0: all. A tensor that requires gradients keeps them. In place, faster, and with
    everything that models add to RoPE: ``rotate()``.
    """
    axes = getattr(x, "ndim", None)
    if axes is None or not hasattr(x, "dtype"):
        raise TypeError(f"[apply_rope] x: must be an array of NumPy, PyTorch or JAX, got {type(x)}")
    if getattr(x, "is_nested", False):  # such a tensor has no shape to ask for
        raise TypeError("[apply_rope] x: must be an array of one shape, got a nested tensor of torch")
    if not 1 <= axes <= 4:
        raise TypeError(f"[apply_rope] x: must be an array of 1 to 4 axes, of which the last is dim, got one of {axes}")
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
    """ALiBi's bias (Press, Smith, Lewis 2022, arXiv 2108.12409), a new array [num_heads, seq_len, seq_len].

        bias[h, i, j] = −slope_h · |i − j|,   slope_h = 2^(−8(h + 1)/num_heads)

    for a power of two; for other numbers of heads the published slopes. To be added to the scaled scores. form:
    'causal' gives keys after the query 0. NumPy's float32, or another dtype; ``like=scores`` gives their kind and type.
    ``attention()`` takes the encoding itself and never makes this matrix.
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
    """rotate(x) for functions that want all four axes."""
    missing = 4 - x.ndim
    if missing == 0:
        return rotate(x, **options)
    if x.ndim == 3 and options["layout"] == "bthd":
        return rotate(x[None], **options)[0]
    return rotate(x[(None,) * missing], **options)[(0,) * missing]


def _scalar(position: Any) -> Any:
    """The only position of an array, or a number."""
    shape = tuple(getattr(position, "shape", ()))
    if math.prod(shape) != 1:
        raise _core.ShapeError(f"[apply_rope] positions: must be one, for a single vector, got {list(shape)}")
    one = position.reshape(1) if shape != () or hasattr(position, "reshape") else [position]
    return one


def _number(name: str, value: Any) -> float:
    if not isinstance(value, numbers.Real):
        raise TypeError(f"[apply_rope] {name}: must be a number, got {value!r}")
    return float(value)
