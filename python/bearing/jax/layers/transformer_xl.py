"""Transformer-XL's projected sinusoids: in JAX's own operations, with all their derivatives."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from ... import _core
from ..arrays import array_of, finite, times, whole_of
from ..encodings import arithmetic_of

__all__ = ["transformer_xl_relative"]


def transformer_xl_relative(
    spec: _core.TransformerXL, w_r: jax.typing.ArrayLike, *, heads: int, offsets: int, base: float = 10_000.0
) -> jax.Array:
    """Computes r [heads, offsets, dim] of a TransformerXLTerm: sinusoids [sin | cos] of the offsets times w_r.

    spec: a TransformerXL.
    w_r [heads * dim, d_model]: the projection, r_net.weight in the files.
    heads: how many heads.
    offsets: how many rows; the first is for spec.first_offset.
    base: the base of the sinusoids' frequencies.

    r is float64 for float64, else float32. Dai et al. 2019, arXiv 1901.02860.
    """
    function = "transformer_xl_relative"
    weights = array_of(function, "w_r", w_r)
    heads, offsets = whole_of(function, "heads", heads, 1), whole_of(function, "offsets", offsets, 1)
    base = finite(function, "base", base)
    if not isinstance(spec, _core.TransformerXL):
        raise TypeError(f"[{function}] spec: must be a TransformerXL, got {spec!r}")
    # raises what shapes tell
    _core.transformer_xl_relative(spec, np.zeros(weights.shape), heads=heads, offsets=offsets, base=base)
    weights = weights.astype(arithmetic_of(weights.dtype))
    rows = times(_sinusoids(spec, weights.shape[1], offsets, base), weights)
    return jnp.moveaxis(rows.reshape(offsets, heads, -1), 1, 0)


@functools.lru_cache(maxsize=64)
def _sinusoids(spec: _core.TransformerXL, d_model: int, offsets: int, base: float) -> np.ndarray:
    """[offsets, d_model]: the result for a projection that changes nothing."""
    return _core.transformer_xl_relative(spec, np.eye(d_model), heads=1, offsets=offsets, base=base)[0]
