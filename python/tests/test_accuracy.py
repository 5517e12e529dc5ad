"""What pages say about errors that rotary tables do not have: of attention, of biases far into a text, of edges of buckets."""

import bearing
import numpy as np
import pytest


def drawn(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("bias", [0, 1000, 100_000])
@pytest.mark.parametrize(("keys", "dim", "times"), [(16, 128, 1), (16, 128, 20), (256, 64, 30), (1024, 64, 10)])
def test_attention_in_float32_errs_by_the_size_of_what_logits_are_summed_of(keys, dim, times, bias):
    """1e-6 + S 2^-23 of the largest output, S = c |q| |k| + |bias|; so does lse, and gradients by twice that."""
    rng = np.random.default_rng(keys + times)
    q, k, v, d_out = (drawn(rng, 1, 2, keys, dim) for _ in range(4))
    q *= times
    results = []
    for dtype in (np.float32, np.float64):
        encodings = [bearing.DenseBias(np.full((2, keys, keys), bias, dtype))] if bias else []
        arrays = [x.astype(dtype) for x in (q, k, v)]
        out, lse = bearing.attention(*arrays, *encodings, mask="causal", return_lse=True)
        grads = bearing.attention_backward(*arrays, out, lse, d_out.astype(dtype), *encodings, mask="causal")[:3]
        results.append((lse, out, *grads))
    lengths = [np.linalg.norm(x.astype(np.float64), axis=-1).max() for x in (q, k)]
    bound = 1e-6 + (lengths[0] * lengths[1] / np.sqrt(dim) + bias) * 2**-23
    (lse, out, *grads), (exact_lse, exact_out, *exact_grads) = results
    assert np.abs(lse - exact_lse).max() <= bound
    assert np.abs(out - exact_out).max() <= bound * np.abs(exact_out).max()
    for grad, exact in zip(grads, exact_grads, strict=True):
        assert np.abs(grad - exact).max() <= 2 * bound * np.abs(exact).max()


def test_weights_that_count_as_0_show_where_values_differ_far():
    values = np.array([[[[1.0], [1e30]]]])
    q, k = np.ones((1, 1, 1, 1)), np.array([[[[0.0], [-45.0]]]])
    exact = bearing.attention(q, k, values, mask="none", scale=1.0).item()
    found = bearing.attention(*(x.astype(np.float32) for x in (q, k, values)), mask="none", scale=1.0).item()
    assert found == 1
    assert exact == pytest.approx(1e30 * np.exp(-45.0))
    assert abs(found - exact) <= 2 * 2.0**-64 * 1e30


def test_values_near_the_largest_float_overflow_in_a_mean():
    q, k = np.zeros((1, 1, 1, 4), np.float32), np.zeros((1, 1, 8, 4), np.float32)
    largest = 3.4e38 / 8
    assert np.isfinite(bearing.attention(q, k, np.full((1, 1, 8, 4), largest, np.float32), mask="none")).all()
    assert np.isinf(bearing.attention(q, k, np.full((1, 1, 8, 4), 8 * largest, np.float32), mask="none")).all()


@pytest.mark.parametrize("first", [0, 131_072, 2**24])
def test_alibi_by_the_keys_place_loses_digits_far_into_a_text_and_by_distance_none(first):
    rng = np.random.default_rng(0)
    q, k, v = (drawn(rng, 1, 8, 64, 64) for _ in range(3))
    spec = bearing.Alibi.published(8)
    at = {"mask": "causal", "q_positions": first, "k_positions": first}
    exact = bearing.attention(*(x.astype(np.float64) for x in (q, k, v)), bearing.AlibiBias(spec), **at)
    causal, shifted = (
        np.abs(bearing.attention(q, k, v, bias(spec), **at) - exact).max() / np.abs(exact).max()
        for bias in (bearing.AlibiBias, bearing.AlibiShiftedBias)
    )
    assert causal <= 3e-6
    # A score that is off by e moves weights by a part 2e of them.
    assert shifted <= 3e-6 + 2 * spec.slopes[0] * (first + 64) * 2**-23
    if first:
        assert shifted > 100 * causal


@pytest.mark.parametrize(
    ("buckets", "most", "edges"),
    [(9, 128, (8, 16, 64)), (20, 320, (20, 40, 160)), (48, 81, (36, 54)), (32, 939, (728,)), (24, 889, (621,))],
)
def test_buckets_of_t5_begin_where_whole_numbers_say_it_and_logarithms_err(buckets, most, edges):
    spec = bearing.T5(buckets=buckets, max_distance=most, direction="causal")
    exact, count = buckets // 2, buckets - buckets // 2

    def wanted(x):  # the largest step with (x/e)^count >= (D/e)^step
        steps = [n for n in range(count) if x**count * exact**n >= most**n * exact**count]
        return exact + steps[-1]

    for edge in edges:
        for x in (edge - 1, edge, edge + 1):
            assert bearing.t5_bucket(spec, -x) == wanted(x)
        if buckets in (9, 20):  # the last bits of NumPy's logarithms in float32 differ between processors
            step = int(np.log(edge / exact) / np.log(most / exact) * count)
            assert exact + step == wanted(edge) - 1


@pytest.mark.parametrize(("number", "found"), [(-36, 1), (-38, 0)])
def test_linear_attention_in_float32_loses_rows_of_small_features(number, found):
    x = np.full((1, 1, 4, 8), number, np.float32)
    out = bearing.linear_attention(x, x, np.ones_like(x), mask="causal")
    np.testing.assert_allclose(out, found, rtol=1e-5)


def test_a_cosine_nearer_to_a_quarter_turn_than_three_doubles_tell():
    theta, position = 7.633004150610958, 2_137_161_337
    f = bearing.resolve_explicit(bearing.Rope(head_dim=2, pairing="half"), [theta])
    cos, _ = bearing.cos_sin(f, np.array([position]), dtype="float64")
    exact = -5.731087443792132e-25  # at 600 bits
    assert abs(float(np.ravel(cos)[0]) / exact - 1) <= 29 * 2**-52
