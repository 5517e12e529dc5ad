"""Gates that a model computes for its biases, in JAX's own operations."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ... import _core

__all__ = ["wavlm_gate"]


def wavlm_gate(
    x: jax.typing.ArrayLike,
    weight: jax.typing.ArrayLike,
    bias: jax.typing.ArrayLike,
    constant: jax.typing.ArrayLike,
) -> jax.Array:
    """Computes WavLM's gate [batch, heads, time] for its bias by distance, under jit, vmap and grad of any order.

    ``gate = r (s constant − 1) + 2``, r and s the sigmoids of the sums of the first and of the last four of
    ``x weight^T + bias``

    x [batch, heads, time, head_dim]: the layer's input, cut into heads.
    weight [8, head_dim], bias [8]: gru_rel_pos_linear's.
    constant [heads]: gru_rel_pos_const, without its other axes.

    Computed in float64 for float64, else in float32, and rounded to x's type once. Raises ShapeError unless the shapes
    fit, TypeError for numbers that are not real.
    """
    given = {"x": x, "weight": weight, "bias": bias, "constant": constant}
    arrays = {name: _array(name, one) for name, one in given.items()}
    rows = arrays["x"]
    if rows.ndim != 4:
        raise _core.ShapeError(f"[wavlm_gate] x: must have 4 axes, got shape {list(rows.shape)}")
    shapes = {
        "weight": ("[8, head_dim]", [8, rows.shape[3]]),
        "bias": ("[8]", [8]),
        "constant": ("[heads]", [rows.shape[1]]),
    }
    for name, (axes, shape) in shapes.items():
        if list(arrays[name].shape) != shape:
            raise _core.ShapeError(f"[wavlm_gate] {name}: must be {axes} = {shape}, got {list(arrays[name].shape)}")
    wide = jnp.float64 if rows.dtype == jnp.float64 else jnp.float32
    wide_rows, by, plus, of_head = (arrays[name].astype(wide) for name in given)
    precise = jax.lax.Precision.HIGHEST
    sums = jnp.einsum("bhtd,sd->bhts", wide_rows, by.reshape(2, 4, -1).sum(1), precision=precise)
    r, s = jnp.moveaxis(jax.nn.sigmoid(sums + plus.reshape(2, 4).sum(1)), -1, 0)
    return (r * (s * of_head[:, None] - 1) + 2).astype(rows.dtype)


def _array(name: str, given: jax.typing.ArrayLike) -> jax.Array:
    try:
        array = jnp.asarray(given)
    except (TypeError, ValueError):
        raise TypeError(f"[wavlm_gate] {name}: must be an array, got {given!r}") from None
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise TypeError(f"[wavlm_gate] {name}: must be of a floating type, got {array.dtype}")
    return array
