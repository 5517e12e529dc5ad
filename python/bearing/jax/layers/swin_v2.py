"""The network of a window's table: in JAX's own operations, with all their derivatives."""

from __future__ import annotations

import functools

import jax
import numpy as np

from ... import _core
from ..arrays import array_of, same_type, times
from ..encodings import arithmetic_of

__all__ = ["swin_v2_table"]


def swin_v2_table(
    spec: _core.SwinV2, w1: jax.typing.ArrayLike, b1: jax.typing.ArrayLike, w2: jax.typing.ArrayLike
) -> jax.Array:
    """Computes a window's table [window.rows(), heads]: ``16 sigmoid(w2 relu(w1 c + b1))`` of every displacement
    c.

    spec: a SwinV2.
    w1 [hidden, 2]: the first layer's weights, of (y, x).
    b1 [hidden]: the first layer's biases.
    w2 [heads, hidden]: the second layer's weights.

    The table is float64 for float64, else float32. Liu et al. 2022, arXiv 2111.09883.
    """
    if not isinstance(spec, _core.SwinV2):
        raise TypeError(f"[swin_v2_table] spec: must be a SwinV2, got {spec!r}")
    arrays = [array_of("swin_v2_table", name, x) for name, x in (("w1", w1), ("b1", b1), ("w2", w2))]
    same_type("swin_v2_table", "b1", arrays[1], arrays[0], "w1")
    same_type("swin_v2_table", "w2", arrays[2], arrays[0], "w1")
    _core.swin_v2_table(spec, *(np.zeros(x.shape) for x in arrays))  # raises what shapes tell
    first, bias, second = (x.astype(arithmetic_of(x.dtype)) for x in arrays)
    hidden = jax.nn.relu(times(_displacements(spec), first) + bias)
    return 16 * jax.nn.sigmoid(times(hidden, second))


@functools.lru_cache(maxsize=64)
def _displacements(spec: _core.SwinV2) -> np.ndarray:
    """``sign(d) log2(1 + 8 |d|/(W - 1)) / log2 8`` of every displacement (dy, dx) in the window: [rows, 2]."""
    axes = []
    for size, trained in ((spec.window.height, spec.trained_height), (spec.window.width, spec.trained_width)):
        d = np.arange(1 - size, size)
        axes.append(np.sign(d) * np.log2(1 + 8 * np.abs(d) / ((trained or size) - 1)) / 3)
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
