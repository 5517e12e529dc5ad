"""bearing.jax: values and gradients are those of bearing, under jit, vmap and grad."""

import functools
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from support import (
    BATCH, DIM, HEADS, K_LEN, KV_HEADS, Q_LEN, ROUNDING, examples, kind_of, names, queries_and_keys, to_numpy,
)

import bearing
import bearing.jax
from bearing.jax import attention, ffi

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


# Attention


@pytest.mark.parametrize("name", names("scores") + names("rows"))
def test_attention_and_its_gradients_are_those_of_bearing(name, rng):
    example = examples(rng)[name]
    q, k, v = queries_and_keys(rng, HEADS)  # as many key heads as encodings of rows have sets for
    d_out, sinks = rng.standard_normal(q.shape), rng.standard_normal(HEADS)
    options = dict(mask="none", soft_cap=3.0, sinks=sinks, q_at=example.q_at, k_at=example.k_at)
    out, lse = bearing.attention(q, k, v, example.encoding, **options, return_lse=True)
    *grads, d_parameters, d_sinks = bearing.attention_backward(q, k, v, out, lse, d_out, example.encoding, **options)

    positions = {"q_at": example.q_at, "k_at": example.k_at}

    @jax.jit
    def function(q, k, v, encoding, sinks):
        return attention(q, k, v, encoding, mask="none", soft_cap=3.0, sinks=sinks, **positions)

    got, pull_back = jax.vjp(function, q, k, v, example.encoding, sinks)
    assert kind_of(got) == "jax"
    close(got, out)
    *got_grads, got_encoding, got_sinks = pull_back(jnp.asarray(d_out))
    for one, wanted in zip(got_grads, grads, strict=True):
        close(one, wanted)
    close(got_sinks, d_sinks)
    assert got_encoding.parameters.keys() == d_parameters[0].keys()
    for parameter, wanted in d_parameters[0].items():
        close(got_encoding.parameters[parameter], wanted)


def test_attention_is_what_jax_computes_from_its_formula(rng):
    q, k, v = arrays(rng)
    table = t5_bias(rng).parameters["table"]

    def ours(q, k, v, table):
        return attention(q, k, v, bearing.T5Bias(T5, table), mask="none", q_at=K_LEN - Q_LEN)

    def plain(q, k, v, table):
        return plain_attention(q, k, v, plain_t5(table, Q_LEN, K_LEN))

    out, pull_back = jax.vjp(ours, q, k, v, table)
    wanted, plain_back = jax.vjp(plain, q, k, v, table)
    close(out, wanted)
    for one, other in zip(pull_back(weights(out)), plain_back(weights(out)), strict=True):
        close(one, other)


def test_gradients_are_those_of_differences(rng):
    q, k, v = arrays(rng)
    table, sinks = t5_bias(rng).parameters["table"], jnp.asarray(rng.standard_normal(HEADS))

    def function(q, k, v, table, sinks):
        return attention(
            q, k, v, bearing.T5Bias(T5, table), mask="causal", q_at=2, sinks=sinks, soft_cap=5.0, return_lse=True
        )

    check_grads(function, (q, k, v, table, sinks), order=1, modes=["rev"])


def test_gradients_flow_through_the_logarithms_of_sums(rng):
    q, k, v = arrays(rng)
    bias = t5_bias(rng)

    def ours(q):
        return attention(q, k, v, bias, mask="none", q_at=2, return_lse=True)[1].sum()

    def plain(q):
        scores = jnp.einsum("bhid,bhjd->bhij", q, jnp.repeat(k, HEADS // KV_HEADS, axis=1)) / DIM**0.5
        return jax.nn.logsumexp(scores + plain_t5(bias.parameters["table"], Q_LEN, K_LEN), axis=-1).sum()

    close(jax.grad(ours)(q), jax.grad(plain)(q))


OPTIONS = {
    "window": dict(mask="causal", window=(1, 0), q_at=2),
    "scale": dict(mask="causal_top_left", scale=1.0),
    "k_lengths": dict(mask="none", k_lengths=np.array([2, 5])),
    "key_mask": dict(mask="none", key_mask=np.array([[True, False, True, True, False], [True] * 5])),
    "visible": dict(mask="none", visible=np.arange(BATCH * HEADS * Q_LEN * K_LEN).reshape(2, 4, 3, 5) % 3 > 0),
    "packed": dict(mask="causal_bottom_right", q_starts=np.array([0, 1, 3]), k_starts=np.array([0, 2, 5])),
    "positions by sequence": dict(mask="causal", q_at=np.array([[2, 3, 4], [0, 5, 1]]), k_at=np.arange(5)),
    "real positions": dict(mask="causal", q_at=np.array([0.5, 1.5, 4.0]), k_at=np.arange(5) * 0.75),
    "threads": dict(mask="causal", q_at=2, threads=2),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_mean_what_they_mean_in_bearing(name, rng):
    options = OPTIONS[name]
    q, k, v = queries_and_keys(rng)
    bias = bearing.AlibiBias(bearing.Alibi.published(HEADS))
    out, lse = bearing.attention(q, k, v, bias, **options, return_lse=True)
    d_out = rng.standard_normal(out.shape)
    wanted = bearing.attention_backward(q, k, v, out, lse, d_out, bias, **options)
    (got, got_lse), pull_back = jax.vjp(
        lambda q, k, v: attention(q, k, v, bias, **options, return_lse=True), q, k, v
    )
    np.testing.assert_array_equal(got, out)
    np.testing.assert_array_equal(got_lse, lse)
    for one, other in zip(pull_back((jnp.asarray(d_out), jnp.zeros(lse.shape))), wanted[:3], strict=True):
        np.testing.assert_array_equal(one, other)


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


# Transformations


def test_vmap_runs_each_instance_as_if_alone(rng):
    q, k, v = (jnp.asarray(rng.standard_normal((3, *x.shape))) for x in queries_and_keys(rng))
    bias, lengths = t5_bias(rng), jnp.asarray([[1, 5], [2, 4], [3, 3]])

    def function(q, k, v, lengths):
        return attention(q, k, v, bias, mask="none", k_lengths=lengths)

    for axes in [(0, 0, 0, 0), (0, None, None, None), (None, 0, None, 0), (0, 0, 0, None)]:
        given = [x if axis == 0 else x[0] for x, axis in zip((q, k, v, lengths), axes, strict=True)]
        wanted = [
            function(*(x[i] if axis == 0 else x for x, axis in zip(given, axes, strict=True))) for i in range(3)
        ]
        np.testing.assert_array_equal(jax.vmap(function, axes)(*given), jnp.stack(wanted))


def test_vmap_gives_each_instance_its_own_gradients(rng):
    q, k, v = (jnp.asarray(rng.standard_normal((3, *x.shape))) for x in queries_and_keys(rng))
    bias = t5_bias(rng)

    def loss(bias, q, k, v):
        return (attention(q, k, v, bias, mask="none", threads=2) ** 2).sum()

    alone = [jax.grad(loss, argnums=(0, 1))(bias, q[i], k[i], v[i]) for i in range(3)]
    tables = jnp.stack([d_bias.parameters["table"] for d_bias, _ in alone])
    d_bias, d_q = jax.jit(jax.vmap(jax.grad(loss, argnums=(0, 1)), (None, 0, 0, 0)))(bias, q, k, v)
    np.testing.assert_array_equal(d_bias.parameters["table"], tables)
    np.testing.assert_array_equal(d_q, jnp.stack([one for _, one in alone]))
    summed = jax.grad(lambda bias: jax.vmap(functools.partial(loss, bias))(q, k, v).sum())(bias)
    close(summed.parameters["table"], tables.sum(0))


def test_vmap_maps_parameters_and_nests(rng):
    q, k, v = arrays(rng)
    tables = jnp.asarray(rng.standard_normal((2, 3, 8, HEADS)))
    bias = bearing.T5Bias(T5, tables)
    got = jax.vmap(jax.vmap(lambda bias, k: attention(q, k, v, bias, mask="none"), (0, None)), (0, 0))(
        bias, jnp.stack([k, k + 1])
    )
    for i in range(2):
        for j in range(3):
            alone = attention(q, k + i, v, bearing.T5Bias(T5, tables[i, j]), mask="none")
            np.testing.assert_array_equal(got[i, j], alone)


def test_layers_may_be_scanned_and_rematerialised(rng):
    q, k, v = arrays(rng)
    tables = jnp.asarray(rng.standard_normal((3, 8, HEADS)))

    def layer(x, table):
        return x + attention(x, k, v, bearing.T5Bias(T5, table), mask="none"), None

    def scanned(tables):
        return jax.lax.scan(jax.checkpoint(layer), q, tables)[0].sum()

    def unrolled(tables):
        x = q
        for table in tables:
            x = layer(x, table)[0]
        return x.sum()

    close(jax.jit(jax.grad(scanned))(tables), jax.grad(unrolled)(tables))


def test_new_numbers_do_not_trace_again(rng):
    q, k, v = arrays(rng)
    traces = 0

    @jax.jit
    def function(q, bias):
        nonlocal traces
        traces += 1
        return attention(q, k, v, bias, mask="none")

    for shift in range(3):
        spec = bearing.T5(buckets=8, max_distance=6, direction="bidirectional")  # equal, not the same
        function(q + shift, bearing.T5Bias(spec, jnp.full((8, HEADS), float(shift))))
    assert traces == 1
    function(q, bearing.T5Bias(T5.replace(max_distance=5), jnp.zeros((8, HEADS))))
    assert traces == 2


def test_a_cache_is_as_long_as_a_traced_number_says(rng):
    q, k, v = arrays(rng)
    bias = bearing.AlibiBias(bearing.Alibi.published(HEADS))
    step = jax.jit(lambda past: attention(q, k, v, bias, mask="causal", q_at=past))
    for past in range(3):
        np.testing.assert_array_equal(step(past), attention(q, k, v, bias, mask="causal", q_at=past))


def test_threads_change_no_bit(rng):
    q, k, v = (jnp.asarray(rng.standard_normal((2, 4, 70, 8))) for _ in range(3))
    bias = t5_bias(rng)

    def gradients(threads):
        return jax.grad(
            lambda q, bias: attention(q, k, v, bias, mask="causal", threads=threads).sum(), argnums=(0, 1)
        )(q, bias)

    jax.tree.map(np.testing.assert_array_equal, gradients(1), gradients(0))


# Encodings as pytrees


@pytest.mark.parametrize("name", names("scores") + names("rows") + names("inputs"))
def test_encodings_are_pytrees_of_their_arrays(name, rng):
    encoding = examples(rng)[name].encoding
    leaves, tree = jax.tree.flatten(encoding)
    assert len(leaves) == len(encoding.parameters)
    again = jax.tree.unflatten(tree, leaves)
    assert type(again) is type(encoding) and again.parameters.keys() == encoding.parameters.keys()
    assert all(again.parameters[p] is encoding.parameters[p] for p in again.parameters)
    assert jax.tree.leaves(jax.tree.map(lambda _: None, encoding)) == []
    assert jax.tree.structure(again) == tree and hash(jax.tree.structure(again)) == hash(tree)
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(encoding)[0]]
    assert [str(path[0]) for path in paths] == [f".{p}" for p in encoding.parameters]


# Rows and inputs


@pytest.fixture(scope="module")
def table():
    return bearing.RopeTable(bearing.Rope(head_dim=DIM, pairing="half"), 16, dtype="float64")


@pytest.mark.parametrize("positions", [None, 3, np.array([5, 1, 7]), np.array([0.5, -1.0, 20.0])])
def test_rotations_and_their_transposes_are_those_of_bearing(positions, table, rng):
    x = rng.standard_normal((BATCH, HEADS, Q_LEN, DIM))
    y, pull_back = jax.vjp(jax.jit(lambda x: bearing.jax.rotate(table, x, positions)), x)
    np.testing.assert_array_equal(y, bearing.rotate_to(table, x, positions))
    np.testing.assert_array_equal(pull_back(jnp.asarray(x))[0], bearing.rotate_backward_to(table, x, positions))


def test_rotation_can_be_differentiated_twice_mapped_and_narrow(table, rng):
    x = jnp.asarray(rng.standard_normal((BATCH, HEADS, Q_LEN, DIM)))
    rotate = functools.partial(bearing.jax.rotate, table)
    check_grads(rotate, (x,), order=2, modes=["rev"])
    mapped = jax.vmap(rotate)(x, jnp.asarray([0, 9]))
    np.testing.assert_array_equal(mapped, jnp.stack([rotate(x[0]), rotate(x[1], 9)]))
    turned = rotate(jnp.moveaxis(x, 1, 2), layout="bthd")
    np.testing.assert_array_equal(jnp.moveaxis(turned, 1, 2), rotate(x))
    narrow = bearing.RopeTable(bearing.Rope(head_dim=DIM, pairing="half"), 16)
    half = x.astype(jnp.bfloat16)
    wanted = bearing.rotate_to(narrow, np.asarray(half), None)
    np.testing.assert_array_equal(to_numpy(bearing.jax.rotate(narrow, half)), to_numpy(wanted))


def test_rotary_attention_is_rotation_then_attention(table, rng):
    q, k, v = arrays(rng)
    rope = bearing.RotaryRows(table)
    turned = [bearing.jax.rotate(table, q, 2), bearing.jax.rotate(table, k)]
    close(attention(q, k, v, rope, mask="causal", q_at=2), attention(*turned, v, mask="causal", q_at=2))


@pytest.mark.parametrize("name", names("rows"))
def test_turning_and_its_gradients_are_those_of_bearing(name, rng):
    example = examples(rng)[name]
    x = rng.standard_normal((BATCH, HEADS, Q_LEN, DIM))
    options = dict(at=example.q_at, side="key")
    y, pull_back = jax.vjp(jax.jit(lambda e, x: bearing.jax.turn(e, x, **options)), example.encoding, x)
    np.testing.assert_array_equal(y, bearing.turn(example.encoding, x, **options))
    d_y = rng.standard_normal(y.shape)
    d_x, d_parameters = bearing.turn_backward(example.encoding, x, d_y, **options)
    got, got_x = pull_back(jnp.asarray(d_y))
    np.testing.assert_array_equal(got_x, d_x)
    for parameter, wanted in d_parameters.items():
        np.testing.assert_array_equal(got.parameters[parameter], wanted)


@pytest.mark.parametrize("name", names("inputs"))
def test_inputs_and_their_gradients_are_those_of_bearing(name, rng):
    example = examples(rng)[name]
    x = rng.standard_normal((BATCH, Q_LEN, DIM))
    y, pull_back = jax.vjp(jax.jit(lambda e, x: bearing.jax.add(e, x, example.q_at)), example.encoding, x)
    np.testing.assert_array_equal(y, bearing.add(example.encoding, x, example.q_at))
    got, got_x = pull_back(jnp.asarray(x))
    np.testing.assert_array_equal(got_x, x)
    for parameter, wanted in bearing.add_backward(example.encoding, x, example.q_at).items():
        np.testing.assert_array_equal(got.parameters[parameter], wanted)
    rows = bearing.jax.inputs(example.encoding, example.q_at, Q_LEN, dtype=jnp.float64)
    np.testing.assert_array_equal(rows, bearing.inputs(example.encoding, example.q_at, Q_LEN, dtype="float64"))


def test_inputs_are_mapped_with_their_parameters(rng):
    tables = jnp.asarray(rng.standard_normal((3, 10, DIM)))
    x = jnp.asarray(rng.standard_normal((Q_LEN, DIM)))
    spec = bearing.Learned(length=8, dim=DIM, offset=2)

    def loss(table, first):
        return (bearing.jax.add(bearing.LearnedInputs(spec, table), x, first) ** 2).sum()

    got = jax.vmap(jax.grad(loss))(tables, jnp.arange(3))
    np.testing.assert_array_equal(got, jnp.stack([jax.grad(loss)(tables[i], i) for i in range(3)]))


def test_bias_matrices_have_gradients(rng):
    bias = t5_bias(rng)

    def ours(bias):
        return bearing.jax.bias_matrix(bias, 2, heads=HEADS, q_len=3, k_len=5, dtype=jnp.float64)

    matrix, pull_back = jax.vjp(jax.jit(ours), bias)
    wanted, plain_back = jax.vjp(lambda table: plain_t5(table, 3, 5), bias.parameters["table"])
    np.testing.assert_array_equal(matrix, wanted)
    close(pull_back(weights(matrix))[0].parameters["table"], plain_back(weights(matrix))[0])
    shifted = jax.vmap(lambda at: bearing.jax.bias_matrix(bias, at, heads=HEADS, q_len=3, k_len=5))(jnp.arange(2))
    np.testing.assert_array_equal(shifted[1], bearing.jax.bias_matrix(bias, 1, heads=HEADS, q_len=3, k_len=5))


# Errors


def test_what_shapes_tell_is_refused_while_tracing(table, rng):
    q, k, v = arrays(rng)
    bias = t5_bias(rng)

    def fails(kind, text, function):
        with pytest.raises(kind) as error:
            jax.jit(function)()
        assert str(error.value) == text

    def call(*args, **options):
        return lambda: attention(*args, **({"mask": "none"} | options))

    shapes = "[batch, kv_heads, k_len, dim], kv_heads a divisor of heads, for queries [batch, heads, q_len, dim]"
    fails(
        bearing.ShapeError, f"[attention] k: must be {shapes} = [2, 4, 3, 4], got [2, 3, 5, 4]",
        call(q, jnp.ones((2, 3, 5, 4)), v),
    )
    fails(
        bearing.ShapeError, "[attention] v: must have the first three extents of k, [2, 2, 5, 4], got [2, 2, 3, 4]",
        call(q, k, v[:, :, :3]),
    )
    fails(
        TypeError, "[attention] k: must be float64, as q is, got float32", call(q, k.astype(jnp.float32), v)
    )
    fails(
        TypeError, "[attention] q: must be float64, float32, bfloat16 or float16, got int64",
        call(q.astype(int), k, v),
    )
    fails(
        TypeError, "[attention] table: must be an array of 2 axes, got one of 1",
        call(q, k, v, bearing.T5Bias(T5, jnp.ones(8))),
    )
    fails(TypeError, "[attention] encodings: must be encodings, got 'T5'", call(q, k, v, "T5"))
    fails(bearing.ShapeError, "[attention] sinks: must be [heads] = [4], got [3]", call(q, k, v, sinks=jnp.ones(3)))
    fails(bearing.ShapeError, "[attention] q_at: must have 3 tokens, got 2", call(q, k, v, q_at=jnp.arange(2)))
    fails(
        ValueError,
        "[attention] mask: must be one of 'none', 'causal', 'causal_top_left', 'causal_bottom_right', got 'left'",
        call(q, k, v, mask="left"),
    )
    fails(ValueError, "[attention] layout: must be 'bhtd' or 'bthd', got 'thd'", call(q, k, v, layout="thd"))
    fails(bearing.RangeError, "[attention] threads: must be 0 (all) or more, got -1", call(q, k, v, threads=-1))
    fails(
        TypeError, "[rotate] x: must be float64, for which the table is, got float32",
        lambda: bearing.jax.rotate(table, q.astype(jnp.float32)),
    )
    fails(
        bearing.ShapeError, "[rotate] x: must have a last extent of head_dim = 4, got 3",
        lambda: bearing.jax.rotate(table, q[..., :3]),
    )
    fails(
        TypeError, f"[inputs] encoding: must be an encoding of the input, got {bias!r}",
        lambda: bearing.jax.inputs(bias, 0, 5),
    )


def test_a_gradient_that_would_be_lost_is_refused(table, rng):
    x = jnp.ones((1, 1, 3, DIM))

    def loss(x, at):
        return bearing.jax.rotate(table, x, at).sum()

    with pytest.raises(TypeError, match=r"\[rotate\] positions: must be given without a gradient"):
        jax.grad(loss, argnums=1)(x, jnp.arange(3.0))
    assert jax.jit(jax.grad(loss))(x, jnp.arange(3.0)).shape == x.shape


def test_what_numbers_tell_is_refused_when_it_runs(rng):
    q, k, v = arrays(rng)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"\[attention\] k_lengths: must be 0 to k_len = 5, got 6"):
        attention(q, k, v, mask="none", k_lengths=jnp.asarray([1, 6])).block_until_ready()
    learned = bearing.LearnedInputs(bearing.Learned(length=8, dim=DIM), jnp.ones((8, DIM)))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"\[add\]"):
        bearing.jax.add(learned, jnp.ones((3, DIM)), 7).block_until_ready()
    bias = t5_bias(rng)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"must be an encoding of query and key rows, got T5Bias"):
        bearing.jax.turn(bias, q, side="query").block_until_ready()
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"must be encodings of rows, scores or values"):
        attention(q, k, v, learned, mask="none").block_until_ready()
    # The error leaves nothing behind.
    assert jnp.isfinite(attention(q, k, v, bias, mask="none")).all()


PROGRAM = """
import jax, jax.numpy as jnp
import bearing, bearing.jax
table = bearing.RopeTable(bearing.Rope(head_dim=4, pairing="half"), 16)
bias = bearing.T5Bias(bearing.T5(direction="causal"), jnp.ones((32, 2)))
rows = jnp.ones((1, 2, 3, 4), jnp.float32)
call = lambda x: bearing.jax.attention(x, x, x, [bearing.RotaryRows(table), bias], mask="none")
text = jax.jit(call).lower(rows).as_text()
"""


def test_programs_are_the_same_in_every_process():
    # Programs are kept on disk by their text, so that it may not depend on what a process did before.
    done = subprocess.run([sys.executable, "-c", PROGRAM + "print(text)"], capture_output=True, text=True)
    own = {}
    with jax.enable_x64(False):
        exec(PROGRAM, own)
    assert done.stdout.strip() == own["text"].strip() and "T5Bias" in own["text"], done.stderr


def test_a_program_from_elsewhere_asks_for_its_encodings():
    x = jnp.ones((1, 1, 3, DIM))
    options = dict(time_first=False, threads=1, side="", backward=False, given=0)
    with pytest.raises(jax.errors.JaxRuntimeError, match='must be known in this process, got "RopeTable:0"'):
        ffi.call("rotate", [x], 4, [x], plan="RopeTable:0", **options)[0].block_until_ready()


def test_a_build_without_jax_says_how_to_get_one(monkeypatch):
    monkeypatch.delattr(ffi._core, "_jax_handlers")
    with pytest.raises(ImportError, match="built without JAX's headers.*pip install --no-build-isolation"):
        ffi.register()


def test_a_build_for_another_jax_says_so(monkeypatch):
    built = ffi._core._jax_api_version()
    assert built[0] == ffi.interface_version()[0]
    monkeypatch.setattr(ffi, "interface_version", lambda: (built[0] + 1, 0))
    with pytest.raises(ImportError, match=r"built for version 0\.\d+ of XLA's foreign functions, jaxlib \S+ has 1\.0"):
        ffi.register()
