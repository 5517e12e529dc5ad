"""bearing.jax.linear_attention: values, states and gradients are those of bearing, and of the formula."""

import bearing
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bearing.jax import linear_attention
from jax.test_util import check_grads
from jax_cases import arrays, close, weights
from support import BATCH, DIM, HEADS, KV_HEADS, ROUNDING, examples, names, queries_and_keys, to_numpy


def plain(q, k, v, at, mask_after):
    """What linear attention is, written out; at: the first query's position."""
    k, v = (jnp.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    q, k = jax.nn.elu(q) + 1, jax.nn.elu(k) + 1
    products = jnp.einsum("bhid,bhjd->bhij", q, k)
    if mask_after:
        seen = jnp.arange(k.shape[2]) <= jnp.arange(q.shape[2])[:, None] + at
        products = jnp.where(seen, products, 0)
    return jnp.einsum("bhij,bhjd->bhid", products, v) / products.sum(-1, keepdims=True)


def start_of(rng, rows_dim=DIM, heads=KV_HEADS):
    s = rng.standard_normal((BATCH, heads, rows_dim, DIM))
    return s, rng.uniform(1, 2, (BATCH, heads, DIM))


@pytest.mark.parametrize("name", [None, *names("rows")])
@pytest.mark.parametrize("normaliser", ["sum", "none"])
def test_linear_attention_and_its_gradients_are_those_of_bearing(name, normaliser, rng):
    example = None if name is None else examples(rng)[name]
    encodings = None if example is None else example.encoding
    at = {} if example is None else dict(q_positions=example.q_positions, k_positions=example.k_positions)
    q, k, v = queries_and_keys(rng, HEADS)
    options = dict(mask="none", normaliser=normaliser, epsilon=0.25, **at)
    rows_dim = DIM * (2 if name is not None and name.startswith("Pope") else 1)
    start, d_out, d_state = start_of(rng, rows_dim, HEADS), rng.standard_normal(q.shape), start_of(rng, rows_dim, HEADS)
    wanted = bearing.linear_attention(q, k, v, encodings, **options, state=start, return_state=True)
    *grads, d_parameters, d_start = bearing.linear_attention_backward(
        q, k, v, d_out, encodings, **options, start=start, d_state=d_state
    )

    @jax.jit
    def function(q, k, v, encodings, start):
        return linear_attention(q, k, v, encodings, **options, state=start, return_state=True)

    got, pull_back = jax.vjp(function, q, k, v, encodings, start)
    jax.tree.map(np.testing.assert_array_equal, got, wanted)
    *got_grads, got_encodings, got_start = pull_back(jax.tree.map(jnp.asarray, (d_out, d_state)))
    for one, gradient in zip(got_grads, grads, strict=True):
        np.testing.assert_array_equal(one, gradient)
    jax.tree.map(np.testing.assert_array_equal, got_start, d_start)
    for parameter, gradient in d_parameters[0].items() if d_parameters else ():
        np.testing.assert_array_equal(got_encodings.parameters[parameter], gradient)


@pytest.mark.parametrize(
    ("decay", "shape"),
    [
        (lambda array: bearing.RetentionBias(rates=-array), (KV_HEADS,)),
        (bearing.ForgettingBias, (BATCH, KV_HEADS, 6)),
        (bearing.GatedDecayTerm, (BATCH, KV_HEADS, 6, DIM)),
    ],
)
def test_states_of_key_heads_that_several_query_heads_read_decay_as_in_bearing(decay, shape, rng):
    q, k, v = (rng.standard_normal((BATCH, heads, 6, DIM)) for heads in (HEADS, KV_HEADS, KV_HEADS))
    encoding, d_out = decay(-rng.uniform(0.1, 1, shape)), rng.standard_normal(q.shape)
    options = dict(mask="causal", epsilon=0.25)
    *grads, (d_parameters,), _ = bearing.linear_attention_backward(q, k, v, d_out, encoding, **options)
    out, pull_back = jax.vjp(jax.jit(lambda *given: linear_attention(*given, **options)), q, k, v, encoding)
    np.testing.assert_array_equal(out, bearing.linear_attention(q, k, v, encoding, **options))
    *got, got_encoding = pull_back(jnp.asarray(d_out))
    jax.tree.map(np.testing.assert_array_equal, got, grads)
    for name, gradient in d_parameters.items():
        np.testing.assert_array_equal(got_encoding.parameters[name], gradient)
    of_query_heads = bearing.RetentionBias(bearing.Retention.published(HEADS))
    with pytest.raises(bearing.ShapeError, match=f"must be one for each of {KV_HEADS} heads, got {HEADS}"):
        jax.eval_shape(lambda: linear_attention(q, k, v, of_query_heads, **options))


@pytest.mark.parametrize("mask", ["none", "causal"])
def test_linear_attention_is_what_jax_computes_from_its_formula(mask, rng):
    q, k, v = arrays(rng)

    def ours(q, k, v):
        return linear_attention(q, k, v, mask=mask, q_positions=2)

    out, pull_back = jax.vjp(ours, q, k, v)
    wanted, plain_back = jax.vjp(lambda q, k, v: plain(q, k, v, 2, mask == "causal"), q, k, v)
    close(out, wanted)
    for one, other in zip(pull_back(weights(out)), plain_back(weights(out)), strict=True):
        close(one, other, 4)  # divided by sums of a few positive numbers, some small


def test_gradients_are_those_of_differences(rng):
    q, k, v = arrays(rng)
    rows = examples(rng)["PopeRows"].encoding
    state = tuple(jnp.asarray(x) for x in start_of(rng, 2 * DIM))
    offsets = rows.parameters["offsets"]

    def function(q, k, v, offsets, state):
        encoding = bearing.PopeRows(bearing.Pope(head_dim=DIM), offsets, group=KV_HEADS)
        options = dict(mask="causal", q_positions=2, state=state, return_state=True)
        return linear_attention(q[:, :KV_HEADS], k, v, encoding, **options)

    check_grads(function, (q, k, v, jnp.asarray(offsets), state), order=1, modes=["rev"])


@pytest.mark.parametrize("chunk", [1, 2])
def test_a_scan_that_carries_the_state_is_one_call(chunk, rng):
    time = 6
    q, k, v = (jnp.asarray(rng.standard_normal((BATCH, n, time, DIM))) for n in (HEADS, KV_HEADS, KV_HEADS))
    rope = bearing.RotaryRows(bearing.RopeTable(bearing.Rope(head_dim=DIM, pairing="half"), 16, dtype="float64"))
    empty = (jnp.zeros((BATCH, KV_HEADS, DIM, DIM)), jnp.zeros((BATCH, KV_HEADS, DIM)))

    def step(state, token):
        at, q, k, v = token
        options = dict(mask="causal", q_positions=at, k_positions=at, state=state, return_state=True)
        out, state = linear_attention(q, k, v, rope, **options)
        return state, out

    def scanned(q, k, v):
        chunks = [jnp.stack(jnp.split(x, time // chunk, axis=2)) for x in (q, k, v)]
        _, outs = jax.lax.scan(step, empty, (chunk * jnp.arange(time // chunk), *chunks))
        return jnp.concatenate(list(outs), axis=2)

    def whole(q, k, v):
        return linear_attention(q, k, v, rope, mask="causal")

    out, pull_back = jax.vjp(jax.jit(scanned), q, k, v)
    wanted, whole_back = jax.vjp(whole, q, k, v)
    close(out, wanted, 4)
    jax.tree.map(lambda one, other: close(one, other, 16), pull_back(weights(out)), whole_back(weights(out)))


def test_instances_are_mapped_with_their_states(rng):
    q, k, v = (jnp.asarray(rng.standard_normal((3, *x.shape))) for x in queries_and_keys(rng))
    state = tuple(jnp.asarray(np.stack([x] * 3)) * jnp.arange(1, 4).reshape(3, *[1] * x.ndim) for x in start_of(rng))

    def loss(q, k, v, state, at):
        out, (s, z) = linear_attention(q, k, v, mask="causal", q_positions=at, state=state, return_state=True)
        return (out**2).sum() + (s**2).sum() + (z**2).sum()

    at = jnp.asarray([2, 4, 3])
    got = jax.jit(jax.vmap(jax.grad(loss, (0, 1, 2, 3)), (0, 0, None, 0, 0)))(q, k, v[0], state, at)
    for i in range(3):
        own = jax.tree.map(lambda x: x[i], state)  # noqa: B023
        alone = jax.grad(loss, (0, 1, 2, 3))(q[i], k[i], v[0], own, at[i])
        jax.tree.map(np.testing.assert_array_equal, jax.tree.map(lambda x: x[i], got), alone)  # noqa: B023
    summed = jax.grad(lambda v: jax.vmap(loss, (0, 0, None, 0, 0))(q, k, v, state, at).sum())(v[0])
    close(summed, got[2].sum(0))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_narrow_types_keep_their_type_and_sums_are_float32(dtype, rng):
    q, k, v = arrays(rng, dtype)
    out, (s, z) = linear_attention(q, k, v, mask="none", return_state=True)
    assert out.dtype == dtype and s.dtype == z.dtype == jnp.float32
    wide = linear_attention(*(x.astype(jnp.float64) for x in (q, k, v)), mask="none")
    # Weights sum to 1 over values of the order of 1; sums in float32 are good to 2^-20, the result is rounded once.
    bound = ROUNDING[dtype] * float(jnp.abs(wide).max()) + 2.0**-18
    np.testing.assert_allclose(to_numpy(out), to_numpy(wide), rtol=0, atol=bound)
    d_q = jax.grad(lambda q: linear_attention(q, k, v, mask="none", state=(s, z)).astype(jnp.float32).sum())(q)
    assert d_q.dtype == dtype and jnp.isfinite(d_q).all()


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_layouts_and_ranks_give_the_same_numbers(rank, rng):
    q, k, v = (x[(0,) * (4 - rank)] for x in queries_and_keys(rng, HEADS))
    wanted, state = linear_attention(q, k, v, mask="causal", q_positions=2, return_state=True)
    np.testing.assert_array_equal(wanted, bearing.linear_attention(q, k, v, mask="causal", q_positions=2))
    turned = [x if rank == 2 else np.moveaxis(x, -2, -3) for x in (q, k, v)]
    out, other = linear_attention(*turned, mask="causal", q_positions=2, layout="bthd", return_state=True)
    np.testing.assert_array_equal(out if rank == 2 else np.moveaxis(out, -3, -2), wanted)
    jax.tree.map(np.testing.assert_array_equal, other, state)


def test_threads_change_no_bit(rng):
    q, k, v = (jnp.asarray(rng.standard_normal((2, 4, 70, 8))) for _ in range(3))

    def gradients(threads):
        return jax.grad(lambda q: linear_attention(q, k, v, mask="causal", threads=threads).sum())(q)

    np.testing.assert_array_equal(gradients(1), gradients(0))
