"""What the tests of bearing.jax share: arrays, formulas written out, and how close results must be."""

import bearing
import jax
import jax.numpy as jnp
import numpy as np
from support import HEADS, ROUNDING, queries_and_keys, to_numpy

T5 = bearing.T5(buckets=8, max_distance=6, direction="bidirectional")


def arrays(rng: np.random.Generator, dtype: str = "float64") -> tuple[jax.Array, ...]:
    return tuple(jnp.asarray(x, dtype) for x in queries_and_keys(rng))


def t5_bias(rng: np.random.Generator) -> bearing.T5Bias:
    return bearing.T5Bias(T5, jnp.asarray(rng.standard_normal((8, HEADS))))


def plain_attention(q, k, v, bias, scale=None):
    """What attention is, written out."""
    k, v = (jnp.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = scale * jnp.einsum("bhid,bhjd->bhij", q, k) + bias
    return jnp.einsum("bhij,bhjd->bhid", jax.nn.softmax(scores, axis=-1), v)


def plain_t5(table, q_len, k_len):
    past = k_len - q_len
    buckets = [[bearing.t5_bucket(T5, j - i - past) for j in range(k_len)] for i in range(q_len)]
    return jnp.moveaxis(table[jnp.asarray(buckets)], -1, 0)


def close(got, wanted, times: float = 1.0) -> None:
    """Of float64 numbers that are sums of a few dozen products: 64 roundings, times what they were multiplied by."""
    wanted = to_numpy(wanted)
    largest = np.max(np.abs(wanted), initial=1.0)
    np.testing.assert_allclose(to_numpy(got), wanted, rtol=0, atol=64 * times * ROUNDING["float64"] * largest)


def weights(like, seed: int = 7):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(like.shape), like.dtype)
