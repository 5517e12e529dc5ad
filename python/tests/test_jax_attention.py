"""bearing.jax.attention and merge: values and gradients are those of bearing, and of their formulas."""

import bearing
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bearing.jax import attention, merge
from jax.test_util import check_grads
from jax_cases import T5, arrays, close, close_trees, plain_attention, plain_t5, t5_bias, weights
from support import (
    BATCH,
    DIM,
    HEADS,
    K_LEN,
    KV_HEADS,
    Q_LEN,
    ROUNDING,
    examples,
    kind_of,
    names,
    queries_and_keys,
    to_numpy,
)


@pytest.mark.parametrize("name", names("scores") + names("rows"))
def test_attention_and_its_gradients_are_those_of_bearing(name, rng):
    example = examples(rng)[name]
    q, k, v = queries_and_keys(rng, HEADS)  # as many key heads as encodings of rows have sets for
    d_out, sinks = rng.standard_normal(q.shape), rng.standard_normal(HEADS)
    options = dict(
        mask="none", soft_cap=3.0, sinks=sinks, q_positions=example.q_positions, k_positions=example.k_positions
    )
    out, lse = bearing.attention(q, k, v, example.encoding, **options, return_lse=True)
    *grads, d_parameters, d_sinks = bearing.attention_backward(q, k, v, out, lse, d_out, example.encoding, **options)

    positions = {"q_positions": example.q_positions, "k_positions": example.k_positions}

    @jax.jit
    def function(q, k, v, encoding, sinks):
        return attention(q, k, v, encoding, mask="none", soft_cap=3.0, sinks=sinks, **positions)

    got, pull_back = jax.vjp(function, q, k, v, example.encoding, sinks)
    assert kind_of(got) == "jax"
    close(got, out)
    *got_grads, got_encoding, got_sinks = pull_back(jnp.asarray(d_out))
    close_trees([*got_grads, got_sinks, got_encoding.parameters], [*grads, d_sinks, d_parameters[0]])


def test_attention_is_what_jax_computes_from_its_formula(rng):
    q, k, v = arrays(rng)
    table = t5_bias(rng).parameters["table"]

    def ours(q, k, v, table):
        return attention(q, k, v, bearing.T5Bias(T5, table), mask="none", q_positions=K_LEN - Q_LEN)

    def plain(q, k, v, table):
        return plain_attention(q, k, v, plain_t5(table, Q_LEN, K_LEN))

    out, pull_back = jax.vjp(ours, q, k, v, table)
    wanted, plain_back = jax.vjp(plain, q, k, v, table)
    close(out, wanted)
    close_trees(pull_back(weights(out)), plain_back(weights(out)))


def test_gradients_are_those_of_differences(rng):
    q, k, v = arrays(rng)
    table, sinks = t5_bias(rng).parameters["table"], jnp.asarray(rng.standard_normal(HEADS))

    def function(q, k, v, table, sinks):
        return attention(
            q, k, v, bearing.T5Bias(T5, table), mask="causal", q_positions=2, sinks=sinks, soft_cap=5.0, return_lse=True
        )

    check_grads(function, (q, k, v, table, sinks), order=1, modes=["rev"])


def test_gradients_flow_through_the_logarithms_of_sums(rng):
    q, k, v = arrays(rng)
    bias = t5_bias(rng)

    def ours(q):
        return attention(q, k, v, bias, mask="none", q_positions=2, return_lse=True)[1].sum()

    def plain(q):
        scores = jnp.einsum("bhid,bhjd->bhij", q, jnp.repeat(k, HEADS // KV_HEADS, axis=1)) / DIM**0.5
        return jax.nn.logsumexp(scores + plain_t5(bias.parameters["table"], Q_LEN, K_LEN), axis=-1).sum()

    close(jax.grad(ours)(q), jax.grad(plain)(q))


OPTIONS = {
    "window": dict(mask="causal", window=(1, 0), q_positions=2),
    "scale": dict(mask="causal_top_left", scale=1.0),
    "k_lengths": dict(mask="none", k_lengths=np.array([2, 5])),
    "key_mask": dict(mask="none", key_mask=np.array([[True, False, True, True, False], [True] * 5])),
    "visible": dict(mask="none", visible=np.arange(BATCH * HEADS * Q_LEN * K_LEN).reshape(2, 4, 3, 5) % 3 > 0),
    "packed": dict(mask="causal_bottom_right", q_starts=np.array([0, 1, 3]), k_starts=np.array([0, 2, 5])),
    "positions by sequence": dict(
        mask="causal", q_positions=np.array([[2, 3, 4], [0, 5, 1]]), k_positions=np.arange(5)
    ),
    "real positions": dict(mask="causal", q_positions=np.array([0.5, 1.5, 4.0]), k_positions=np.arange(5) * 0.75),
    "threads": dict(mask="causal", q_positions=2, threads=2),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_mean_what_they_mean_in_bearing(name, rng):
    options = OPTIONS[name]
    q, k, v = queries_and_keys(rng)
    bias = bearing.AlibiBias(bearing.Alibi.published(HEADS))
    out, lse = bearing.attention(q, k, v, bias, **options, return_lse=True)
    d_out = rng.standard_normal(out.shape)
    wanted = bearing.attention_backward(q, k, v, out, lse, d_out, bias, **options)
    (got, got_lse), pull_back = jax.vjp(lambda q, k, v: attention(q, k, v, bias, **options, return_lse=True), q, k, v)
    np.testing.assert_array_equal(got, out)
    np.testing.assert_array_equal(got_lse, lse)
    for one, other in zip(pull_back((jnp.asarray(d_out), jnp.zeros(lse.shape))), wanted[:3], strict=True):
        np.testing.assert_array_equal(one, other)


def seen(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).random(shape) < 0.6


SERVES_ALL = {
    "pairs": seen(Q_LEN, K_LEN),
    "keys": seen(K_LEN),
    "queries": seen(Q_LEN, 1),
    "one": np.array(True),
    "one of all axes": seen(1, 1, 1, 1),
    "heads": seen(HEADS, Q_LEN, K_LEN),
    "keys of heads": seen(HEADS, 1, K_LEN),
    "pairs, three axes": seen(1, Q_LEN, K_LEN),
    "sequences": seen(BATCH, 1, Q_LEN, K_LEN),
    "keys of sequences": seen(BATCH, 1, 1, K_LEN),
    "queries of sequences and heads": seen(BATCH, HEADS, Q_LEN, 1),
    "pairs of heads, four axes": seen(1, HEADS, Q_LEN, K_LEN),
    "all": seen(BATCH, HEADS, Q_LEN, K_LEN),
    "a list": seen(Q_LEN, K_LEN).tolist(),
}


@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
@pytest.mark.parametrize("name", SERVES_ALL)
def test_what_is_visible_may_serve_all_as_in_bearing(name, layout, rng):
    options = dict(mask="none", layout=layout, visible=SERVES_ALL[name])
    q, k, v = (x if layout == "bhtd" else np.moveaxis(x, 1, 2).copy() for x in queries_and_keys(rng))
    out, lse = bearing.attention(q, k, v, **options, return_lse=True)
    d_out = rng.standard_normal(out.shape)
    wanted = bearing.attention_backward(q, k, v, out, lse, d_out, **options)[:3]
    options = options if name == "a list" else options | {"visible": jnp.asarray(options["visible"])}
    np.testing.assert_array_equal(attention(q, k, v, **options), out)

    @jax.jit
    def function(q, k, v, visible):
        return attention(q, k, v, **options | {"visible": visible})

    got, pull_back = jax.vjp(lambda q, k, v: function(q, k, v, jnp.asarray(options["visible"])), q, k, v)
    np.testing.assert_array_equal(got, out)
    for one, other in zip(pull_back(jnp.asarray(d_out)), wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("rank", [2, 3])
def test_what_is_visible_may_have_axes_that_queries_lack(rank, rng):
    q, k, v = (x[(0,) * (4 - rank)] for x in queries_and_keys(rng))
    for visible in (seen(Q_LEN, K_LEN), seen(1, 1, Q_LEN, K_LEN), seen(1, K_LEN)):
        wanted = bearing.attention(q, k, v, mask="none", visible=visible)
        np.testing.assert_array_equal(attention(q, k, v, mask="none", visible=visible), wanted)


def test_what_is_visible_serves_a_paged_cache(paged):
    q, k, v, k_blocks, v_blocks, table = paged
    options = dict(mask="none", k_lengths=jnp.asarray([5, 3]), visible=seen(6))
    wanted = attention(q, k, v, **options)
    np.testing.assert_array_equal(attention(q, k_blocks, v_blocks, block_table=table, **options), wanted)


def test_what_is_visible_is_mapped(rng):
    q, k, v = (jnp.asarray(rng.standard_normal((3, *x.shape))) for x in queries_and_keys(rng))
    visible = jnp.asarray(rng.random((3, HEADS, 1, K_LEN)) < 0.6)

    def loss(q, k, v, visible):
        return (attention(q, k, v, mask="none", visible=visible) ** 2).sum()

    def gradient(*arrays):
        return jax.value_and_grad(loss, (0, 1, 2))(*arrays)

    for axes in [(0, 0, 0, 0), (0, 0, 0, None), (None, None, None, 0)]:
        given = [x if axis == 0 else x[0] for x, axis in zip((q, k, v, visible), axes, strict=True)]
        alone = [gradient(*(x[i] if axis == 0 else x for x, axis in zip(given, axes, strict=True))) for i in range(3)]
        got = jax.jit(jax.vmap(gradient, axes))(*given)
        jax.tree.map(np.testing.assert_array_equal, got[1], jax.tree.map(lambda *x: jnp.stack(x), *alone)[1])


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_time_may_come_before_heads_and_first_axes_may_be_left_out(rank, rng):
    q, k, v = (x[(0,) * (4 - rank)] for x in queries_and_keys(rng))
    bias = bearing.AlibiBias(bearing.Alibi.published(1 if rank == 2 else HEADS))
    wanted, wanted_lse = bearing.attention(q, k, v, bias, mask="none", return_lse=True)
    turned = [x if rank == 2 else np.moveaxis(x, -2, -3) for x in (q, k, v)]
    out, lse = attention(*turned, bias, mask="none", layout="bthd", return_lse=True)
    np.testing.assert_array_equal(out if rank == 2 else np.moveaxis(out, -3, -2), wanted)
    np.testing.assert_array_equal(lse, wanted_lse)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_narrow_types_keep_their_type_and_their_parameters_theirs(dtype, rng):
    q, k, v = arrays(rng, dtype)
    bias = jax.tree.map(lambda x: x.astype(jnp.float32), t5_bias(rng))

    def loss(q, bias):
        return attention(q, k, v, bias, mask="none").astype(jnp.float32).sum()

    d_q, d_bias = jax.jit(jax.grad(loss, argnums=(0, 1)))(q, bias)
    assert d_q.dtype == dtype and d_bias.parameters["table"].dtype == jnp.float32
    got = attention(q, k, v, bias, mask="none")
    wide = attention(*(x.astype(jnp.float64) for x in (q, k, v)), bias, mask="none")
    # The result is rounded once; 32 roundings of float32 went before.
    bound = ROUNDING[dtype] + 32 * ROUNDING["float32"]
    np.testing.assert_allclose(to_numpy(got), to_numpy(wide), rtol=0, atol=bound * float(jnp.abs(wide).max()))
    assert got.dtype == dtype


def test_sums_of_narrow_types_have_gradients_in_float32(rng):
    q, k, v = arrays(rng, "bfloat16")
    wide = [x.astype(jnp.float64) for x in (q, k, v)]

    def loss(q, k, v):
        out, lse = attention(q, k, v, mask="none", return_lse=True)
        assert lse.dtype == (jnp.float64 if q.dtype == jnp.float64 else jnp.float32)
        return (lse * weights(lse)).sum()

    # The gradient is rounded once; 64 roundings of float32 went before.
    for one, wanted in zip(jax.grad(loss, (0, 1, 2))(q, k, v), jax.grad(loss, (0, 1, 2))(*wide), strict=True):
        assert one.dtype == jnp.bfloat16
        bound = (ROUNDING["bfloat16"] + 64 * ROUNDING["float32"]) * max(1.0, float(jnp.abs(wanted).max()))
        np.testing.assert_allclose(to_numpy(one), to_numpy(wanted), rtol=0, atol=bound)


def test_without_64_bits_positions_and_sums_have_32(rng):
    q, k, v = queries_and_keys(rng)
    wanted = bearing.attention(q, k, v, mask="causal", q_positions=2)
    with jax.enable_x64(False):
        out, lse = attention(q, k, v, mask="causal", q_positions=2, return_lse=True)
        assert out.dtype == lse.dtype == jnp.float32
        np.testing.assert_allclose(out, wanted, rtol=0, atol=64 * ROUNDING["float32"] * np.abs(wanted).max())
        far = bearing.jax.attention(q, k, v, mask="none", q_positions=2**31 - 4, k_positions=-(2**31))
        assert jnp.isfinite(far).all()
        with pytest.raises(
            bearing.RangeError, match=r"\[attention\] q_positions: must be a number of 32 bits, got 4294967296"
        ):
            attention(q, k, v, mask="none", q_positions=2**32)


# Paged caches


@pytest.fixture
def paged(rng):
    """Keys and values of two sequences, three blocks of two rows each, and the same as a cache of seven blocks."""
    q, k, v = (
        jnp.asarray(rng.standard_normal((BATCH, n, t, DIM))) for n, t in ((HEADS, 1), (KV_HEADS, 6), (KV_HEADS, 6))
    )
    table = jnp.asarray([[4, 0, 6], [1, 5, 2]])

    def blocks(x):
        pages = jnp.moveaxis(x.reshape(BATCH, KV_HEADS, 3, 2, DIM), 2, 1)
        return jnp.zeros((7, KV_HEADS, 2, DIM)).at[table].set(pages)

    return q, k, v, blocks(k), blocks(v), table


def test_a_paged_cache_is_the_same_cache(paged):
    q, k, v, k_blocks, v_blocks, table = paged
    lengths, at = jnp.asarray([5, 3]), jnp.asarray([[4], [2]])
    wanted = attention(q, k, v, mask="causal", q_positions=at, k_lengths=lengths)
    step = jax.jit(
        lambda table, lengths: attention(
            q, k_blocks, v_blocks, mask="causal", q_positions=at, k_lengths=lengths, block_table=table
        )
    )
    np.testing.assert_array_equal(step(table, lengths), wanted)
    shuffled = jax.vmap(step, (0, None))(jnp.stack([table, table[::-1]]), lengths)
    np.testing.assert_array_equal(shuffled, jnp.stack([step(table, lengths), step(table[::-1], lengths)]))


def test_wrong_paged_caches_are_refused(paged):
    q, _, _, k, v, table = paged
    options = dict(mask="none", k_lengths=jnp.asarray([5, 3]))

    def fails(text, function):
        with pytest.raises(bearing.ShapeError) as error:
            jax.jit(function)()
        assert str(error.value) == text

    fails(
        "[attention_backward] block_table: must be empty, as a paged cache has no gradients, got shape [2, 3]",
        lambda: jax.grad(lambda q: attention(q, k, v, block_table=table, **options).sum())(q),
    )
    fails(
        "[attention] k_lengths: must be given for a paged cache",
        lambda: attention(q, k, v, mask="none", block_table=table),
    )
    fails(
        "[attention] block_table: must be [batch, blocks of a sequence] with batch = 2, got [1, 3]",
        lambda: attention(q, k, v, block_table=table[:1], **options),
    )
    fails(
        "[attention] k: must be [blocks, kv_heads, block_size, dim], kv_heads a divisor of heads, for queries "
        "[batch, heads, q_len, dim] = [2, 4, 1, 4], got [7, 2, 2, 3]",
        lambda: attention(q, k[..., :3], v, block_table=table, **options),
    )
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"block_table: must name one of 7 blocks, got 7 for block 0"):
        attention(q, k, v, block_table=table.at[1, 0].set(7), **options).block_until_ready()


# Results over slices of keys


def test_slices_of_keys_are_merged_as_if_they_had_been_one(rng):
    q, k, v = arrays(rng)
    bias = t5_bias(rng)

    def part(q, k, v, bias, keys):
        options = dict(mask="causal", q_positions=1, k_positions=keys.start, return_lse=True)
        return attention(q, k[:, :, keys], v[:, :, keys], bias, **options)

    def merged(q, k, v, bias):
        early, late = part(q, k, v, bias, slice(0, 2)), part(q, k, v, bias, slice(2, K_LEN))
        return merge(*late, *early)  # the first query sees no late key

    def whole(q, k, v, bias):
        return attention(q, k, v, bias, mask="causal", q_positions=1, return_lse=True)

    results, pull_back = jax.vjp(jax.jit(merged), q, k, v, bias)
    wanted, whole_back = jax.vjp(whole, q, k, v, bias)
    jax.tree.map(close, results, wanted)
    grads = jax.tree.map(weights, results)
    jax.tree.map(close, pull_back(grads), whole_back(grads))


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_merging_is_that_of_bearing_and_has_its_gradients(rank, rng):
    arrays = [rng.standard_normal((BATCH, HEADS, Q_LEN, DIM)[4 - rank :][: rank - n]) for n in (0, 1, 0, 1)]
    out, lse = merge(*arrays)
    wanted = [x.copy() for x in arrays]
    bearing.merge(*wanted)
    np.testing.assert_array_equal(out, wanted[2])
    np.testing.assert_array_equal(lse, wanted[3])
    check_grads(merge, tuple(jnp.asarray(x) for x in arrays), order=1, modes=["rev"])


def test_merging_rows_without_keys_has_finite_gradients(rng):
    part, out = (jnp.asarray(rng.standard_normal((2, 3, 4))) for _ in range(2))
    part_lse, lse = jnp.asarray([[0.5, -np.inf, -np.inf]] * 2), jnp.asarray([[-np.inf, 0.25, -np.inf]] * 2)

    def loss(*given):
        return jax.vmap(merge)(*given)[0].sum()

    d_part, d_part_lse, d_out, d_lse = jax.grad(loss, (0, 1, 2, 3))(part, part_lse, out, lse)
    assert not d_part_lse.any() and not d_lse.any()  # each row has all of one side, or of none
    np.testing.assert_array_equal(d_part[..., 0], [[1, 0, 0]] * 2)
    np.testing.assert_array_equal(d_out[..., 0], [[0, 1, 0]] * 2)


def test_partial_results_of_narrow_types_may_keep_all_bits(rng):
    q, k, v = arrays(rng, "bfloat16")

    def loss(q, out_dtype):
        out = attention(q, k, v, mask="none", out_dtype=out_dtype)
        assert out.dtype == (out_dtype or jnp.bfloat16)
        return (out.astype(jnp.float32) * weights(out.astype(jnp.float32))).sum()

    kept = attention(q, k, v, mask="none", out_dtype="float32")
    np.testing.assert_array_equal(kept.astype(jnp.bfloat16), attention(q, k, v, mask="none"))
    grads = [jax.jit(jax.grad(loss), static_argnums=1)(q, kind) for kind in (None, jnp.float32)]
    assert grads[0].dtype == grads[1].dtype == jnp.bfloat16
    # Two roundings to bfloat16 of what goes in and out, over sums of 5 products.
    bound = 16 * ROUNDING["bfloat16"] * float(jnp.abs(grads[1]).max())
    np.testing.assert_allclose(to_numpy(grads[0]), to_numpy(grads[1]), rtol=0, atol=bound)
    text = r"\[attention\] out_dtype: must be bfloat16, as q is, or float32, which sums are taken in, got float16"
    with pytest.raises(TypeError, match=text):
        attention(q, k, v, mask="none", out_dtype=jnp.float16)
