"""bearing.jax's scores and values over whole tensors: those of bearing, with their gradients."""

import bearing
import bearing.jax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bearing.jax import add_scores, add_values, attention
from jax.test_util import check_grads
from jax_cases import T5, arrays, close, close_trees, plain_t5, t5_bias, weights
from support import BATCH, DIM, HEADS, K_LEN, KV_HEADS, Q_LEN, examples, names, queries_and_keys

VALUES = ["ShawTerm"]  # which act on values


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


def test_a_result_has_the_type_of_the_parameters_unless_another_is_asked_for(rng):
    sizes = dict(heads=HEADS, q_len=3, k_len=5)
    alibi = bearing.AlibiBias(bearing.Alibi.published(HEADS))
    for kind in (jnp.float64, jnp.float32):
        bias = bearing.T5Bias(T5, jnp.asarray(rng.standard_normal((T5.buckets, HEADS)), kind))
        learned = bearing.LearnedInputs(bearing.Learned(length=8, dim=DIM), jnp.ones((8, DIM), kind))
        for ours in (bearing, bearing.jax):
            assert ours.bias_matrix([alibi, bias], **sizes).dtype == kind
            assert ours.inputs(learned, 0, 3).dtype == kind
    for ours in (bearing, bearing.jax):
        assert ours.bias_matrix(alibi, **sizes).dtype == jnp.float32
        assert ours.bias_matrix(bias, **sizes, dtype="float32" if ours is bearing.jax else None).dtype == jnp.float32


@pytest.mark.parametrize("name", names("scores"))
def test_added_scores_and_their_gradients_are_those_of_bearing(name, rng):
    example = examples(rng)[name]
    q, k, _ = queries_and_keys(rng)
    scores, d = rng.standard_normal((2, BATCH, HEADS, Q_LEN, K_LEN))
    options = dict(q_positions=example.q_positions, k_positions=example.k_positions, scale=0.7)
    wanted = scores.copy()
    bearing.add_scores(example.encoding, wanted, **options, q=q, k=k)
    d_q, d_k, d_parameters = bearing.add_scores_backward(example.encoding, d, **options, q=q, k=k)

    @jax.jit
    def function(scores, q, k, encoding):
        return add_scores(encoding, scores, **options, q=q, k=k)

    got, pull_back = jax.vjp(function, scores, q, k, example.encoding)
    np.testing.assert_array_equal(got, wanted)
    got_scores, got_q, got_k, got_encoding = pull_back(jnp.asarray(d))
    np.testing.assert_array_equal(got_scores, d)
    np.testing.assert_array_equal(got_q, d_q)
    np.testing.assert_array_equal(got_k, d_k)
    for parameter, gradient in d_parameters[0].items():
        np.testing.assert_array_equal(got_encoding.parameters[parameter], gradient)


@pytest.mark.parametrize("name", VALUES)
def test_added_values_and_their_gradients_are_those_of_bearing(name, rng):
    example = examples(rng)[name]
    p = rng.uniform(0, 1, (BATCH, HEADS, Q_LEN, K_LEN))
    out, d = rng.standard_normal((2, BATCH, HEADS, Q_LEN, DIM))
    options = dict(q_positions=example.q_positions, k_positions=example.k_positions)
    wanted = out.copy()
    bearing.add_values(example.encoding, p, wanted, **options)
    d_p, d_parameters = bearing.add_values_backward(example.encoding, p, d, **options)
    got, pull_back = jax.vjp(
        jax.jit(lambda *given: add_values(given[2], *given[:2], **options)), p, out, example.encoding
    )
    np.testing.assert_array_equal(got, wanted)
    got_p, got_out, got_encoding = pull_back(jnp.asarray(d))
    np.testing.assert_array_equal(got_p, d_p)
    np.testing.assert_array_equal(got_out, d)
    for parameter, gradient in d_parameters[0].items():
        np.testing.assert_array_equal(got_encoding.parameters[parameter], gradient)


def test_attention_is_scores_softmax_and_values(rng):
    q, k, v = arrays(rng)
    shaw = examples(rng)["ShawTerm"].encoding

    def pieces(q, k, v, encodings):
        k, v = (jnp.repeat(x, HEADS // KV_HEADS, axis=1) for x in (k, v))
        scores = jnp.einsum("bhid,bhjd->bhij", q, k) / DIM**0.5
        p = jax.nn.softmax(add_scores(encodings, scores, 2, q=q, k=k, scale=DIM**-0.5), axis=-1)
        return add_values(encodings, p, jnp.einsum("bhij,bhjd->bhid", p, v), 2)

    def whole(q, k, v, encodings):
        return attention(q, k, v, encodings, mask="none", q_positions=2)

    given = (q, k, v, [shaw, t5_bias(rng)])
    (one, back), (other, other_back) = jax.vjp(jax.jit(pieces), *given), jax.vjp(whole, *given)
    close(one, other)
    close_trees(back(weights(one)), other_back(weights(one)))


def test_gradients_of_added_scores_are_those_of_the_formula_and_of_differences(rng):
    scores = jnp.asarray(rng.standard_normal((HEADS, Q_LEN, K_LEN)))
    bias = t5_bias(rng)

    def ours(scores, bias):
        return jnp.tanh(add_scores(bias, scores, 2))

    def plain(scores, bias):
        return jnp.tanh(scores + plain_t5(bias.parameters["table"], Q_LEN, K_LEN))

    got, back = jax.vjp(ours, scores, bias)
    wanted, plain_back = jax.vjp(plain, scores, bias)
    close(got, wanted)
    close_trees(back(weights(got)), plain_back(weights(got)))
    shaw, p = examples(rng)["ShawTerm"].encoding, jax.nn.softmax(scores)
    out = jnp.asarray(rng.standard_normal((HEADS, Q_LEN, DIM)))
    check_grads(lambda p, out, shaw: add_values(shaw, p, out, 2), (p, out, shaw), order=1, modes=["rev"])
    q, k = (jnp.asarray(rng.standard_normal((HEADS, n, DIM))) for n in (Q_LEN, K_LEN))
    check_grads(lambda *x: add_scores(shaw, x[0], 2, q=x[1], k=x[2]), (scores, q, k), order=1, modes=["rev"])


def test_scores_are_mapped_with_their_parameters_and_positions(rng):
    tables, scores = jnp.asarray(rng.standard_normal((3, 8, HEADS))), jnp.asarray(rng.standard_normal((HEADS, 3, 5)))

    def loss(table, scores, at):
        return (add_scores(bearing.T5Bias(T5, table), scores, at) ** 2).sum()

    at = jnp.arange(3)
    got = jax.jit(jax.vmap(jax.grad(loss, (0, 1)), (0, None, 0)))(tables, scores, at)
    for i in range(3):
        jax.tree.map(
            np.testing.assert_array_equal, [x[i] for x in got], list(jax.grad(loss, (0, 1))(tables[i], scores, i))
        )
    summed = jax.grad(lambda scores: jax.vmap(loss, (0, None, 0))(tables, scores, at).sum())(scores)
    close(summed, got[1].sum(0))
    shaw = bearing.Shaw(clip=2)
    values = jnp.asarray(rng.standard_normal((2, 5, DIM)))
    p, out = jax.nn.softmax(scores), jnp.zeros((HEADS, 3, DIM))
    mapped = jax.vmap(lambda value: add_values(bearing.ShawTerm(shaw, value, value), p, out))(values)
    np.testing.assert_array_equal(mapped[1], add_values(bearing.ShawTerm(shaw, values[1], values[1]), p, out))


def test_layouts_are_those_of_rows(rng):
    q, k, _ = arrays(rng)
    shaw = examples(rng)["ShawTerm"].encoding
    scores = jnp.zeros((BATCH, HEADS, Q_LEN, K_LEN))
    wanted = add_scores(shaw, scores, q=q, k=k)
    turned = [jnp.moveaxis(x, 1, 2) for x in (q, k)]
    np.testing.assert_array_equal(add_scores(shaw, scores, q=turned[0], k=turned[1], layout="bthd"), wanted)
    p, out = jax.nn.softmax(scores), jnp.zeros((BATCH, HEADS, Q_LEN, DIM))
    swapped = add_values(shaw, p, jnp.moveaxis(out, 1, 2), layout="bthd")
    np.testing.assert_array_equal(jnp.moveaxis(swapped, 1, 2), add_values(shaw, p, out))


def test_float32_scores_stay_float32(rng):
    bias = jax.tree.map(lambda x: x.astype(jnp.float32), t5_bias(rng))
    scores = jnp.zeros((HEADS, 3, 5), jnp.float32)
    got, back = jax.vjp(lambda bias: add_scores(bias, scores), bias)
    assert got.dtype == jnp.float32 and back(got)[0].parameters["table"].dtype == jnp.float32
    np.testing.assert_array_equal(got, bearing.jax.bias_matrix(bias, heads=HEADS, q_len=3, k_len=5))


@pytest.mark.parametrize(
    "spec",
    [
        bearing.SwinV2(window=bearing.Swin(height=3, width=2)),
        bearing.SwinV2(window=bearing.Swin(height=3, width=4), trained_height=5, trained_width=6),
    ],
)
def test_swin_v2s_table_and_its_gradients_are_those_of_bearing(spec, rng):
    given = [jnp.asarray(rng.standard_normal(shape)) for shape in ((7, 2), (7,), (HEADS, 7))]
    table, pull_back = jax.vjp(jax.jit(lambda *x: bearing.jax.swin_v2_table(spec, *x)), *given)
    close(table, bearing.swin_v2_table(spec, *given))
    d = weights(table)
    jax.tree.map(close, pull_back(d), bearing.swin_v2_table_backward(spec, *given, d))
    narrow = bearing.jax.swin_v2_table(spec, *(x.astype(jnp.bfloat16) for x in given))
    assert narrow.dtype == jnp.float32
    with pytest.raises(bearing.ShapeError, match=r"\[swin_v2_table\]"):
        bearing.jax.swin_v2_table(spec, given[0][:, :1], *given[1:])


@pytest.mark.parametrize(
    "spec",
    [
        bearing.TransformerXL(),
        bearing.TransformerXL(first_offset=-3, clamp_len=2, direction="bidirectional"),
    ],
)
def test_transformer_xls_rows_and_their_gradient_are_those_of_bearing(spec, rng):
    w_r = jnp.asarray(rng.standard_normal((HEADS * DIM, 6)))
    options = dict(heads=HEADS, offsets=7)
    r, pull_back = jax.vjp(jax.jit(lambda w: bearing.jax.transformer_xl_relative(spec, w, **options)), w_r)
    close(r, bearing.transformer_xl_relative(spec, w_r, **options))
    d = weights(r)
    close(pull_back(d)[0], bearing.transformer_xl_relative_backward(spec, d, d_model=6))
    with pytest.raises(bearing.ShapeError, match=r"\[transformer_xl_relative\]"):
        bearing.jax.transformer_xl_relative(spec, w_r[:, :5], **options)
