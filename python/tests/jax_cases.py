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


def close(got, wanted, times: float = 1.0, terms=None) -> None:
    """Of float64 numbers that are sums of a few dozen products: 64 roundings of what was summed, times what that was
    multiplied by.

    terms: the magnitudes that a number sums, as an array whose sum counts. Where they are not given the largest number
    of the array stands for them, as not all of many sums cancel; one number alone may, so that it needs them.
    """
    got, wanted = to_numpy(got), to_numpy(wanted)
    assert terms is not None or wanted.size != 1, "one number may be what is left of far larger terms"
    summed = np.max(np.abs(wanted), initial=1.0) if terms is None else np.sum(np.abs(to_numpy(terms)))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=64 * times * ROUNDING["float64"] * summed)


def close_trees(got, wanted) -> None:
    """The same of results and gradients of one call, which sum terms alike: of types and structures that agree too."""
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    pairs = list(zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True))
    largest = max((np.max(np.abs(to_numpy(other)), initial=1.0) for _, other in pairs), default=1.0)
    for one, other in pairs:
        assert one.dtype == other.dtype
        close(one, other, terms=largest)


def weights(like, seed: int = 7):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(like.shape), like.dtype)
