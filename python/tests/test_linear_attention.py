"""Linear attention against the sums that define it, in pieces, and its gradients."""

import bearing
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from support import (
    BATCH,
    DIM,
    HEADS,
    K_LEN,
    KINDS,
    KV_HEADS,
    Q_LEN,
    ROUNDING,
    TYPES,
    as_kind,
    check_gradient,
    examples,
    kind_of,
    names,
    queries_and_keys,
    to_numpy,
)


def feature(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def by_its_definition(q, k, v, turned_q, turned_k, visible) -> np.ndarray:
    groups = q.shape[1] // k.shape[1]
    k, v, turned_k = (np.repeat(x, groups, axis=1) for x in (k, v, turned_k))
    weights = np.einsum("bhid,bhjd->bhij", turned_q, turned_k) * visible
    sums = (np.einsum("bhid,bhjd->bhij", feature(q), feature(k)) * visible).sum(-1)
    return np.einsum("bhij,bhjd->bhid", weights, v) / sums[..., None]


@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize("rotated", [False, True])
def test_linear_attention_is_the_sum_that_defines_it(rng, mask, rotated):
    q, k, v = queries_and_keys(rng)
    rows = bearing.TemperatureRows(bearing.PositionTemperature(length=2, first=0))
    past = K_LEN - Q_LEN
    turned_q, turned_k = feature(q), feature(k)
    if rotated:
        turned_q = bearing.turn(rows, turned_q, past, side="query")
        turned_k = bearing.turn(rows, turned_k, side="key")
    visible = np.arange(K_LEN) <= past + np.arange(Q_LEN)[:, None] if mask == "causal" else np.ones((Q_LEN, K_LEN))
    out = bearing.linear_attention(q, k, v, [rows] if rotated else None, mask=mask, q_positions=past)
    # Sums of 5·4 products of the order of 10, divided by sums of the order of 1.
    np.testing.assert_allclose(out, by_its_definition(q, k, v, turned_q, turned_k, visible), atol=1e-13)


@pytest.mark.parametrize("return_state", [False, True])
def test_calls_that_follow_each_other_continue_as_one(rng, return_state):
    q = rng.standard_normal((BATCH, HEADS, K_LEN, DIM))
    _, k, v = queries_and_keys(rng)
    whole = bearing.linear_attention(q, k, v, mask="causal")
    state = (np.zeros((BATCH, KV_HEADS, DIM, DIM)), np.zeros((BATCH, KV_HEADS, DIM)))
    parts = []
    for part in (slice(0, 1), slice(1, 4), slice(4, 5)):
        call = dict(mask="causal", q_positions=part.start, k_positions=part.start, state=state)
        inputs = (x[:, :, part] for x in (q, k, v))
        if return_state:
            kept = [x.copy() for x in state]
            out, new = bearing.linear_attention(*inputs, **call, return_state=True)
            np.testing.assert_array_equal(state[0], kept[0])
            state = new
        else:
            out = bearing.linear_attention(*inputs, **call)
        parts.append(out)
    # The same sums in another order.
    np.testing.assert_allclose(np.concatenate(parts, axis=2), whole, atol=1e-13)
    np.testing.assert_allclose(state[1], feature(k).sum(axis=2), rtol=1e-14)


def test_a_first_state_is_zeros(rng):
    q, k, v = queries_and_keys(rng)
    out, (s, z) = bearing.linear_attention(q, k, v, mask="none", return_state=True)
    np.testing.assert_allclose(s, np.einsum("bhjd,bhje->bhde", feature(k), v), atol=1e-13)
    np.testing.assert_allclose(z, feature(k).sum(axis=2), rtol=1e-14)
    np.testing.assert_array_equal(out, bearing.linear_attention(q, k, v, mask="none"))


@pytest.mark.parametrize("name", [None, *names("rows")])
@pytest.mark.parametrize("normaliser", ["sum", "none"])
def test_gradients_are_those_of_differences(rng, name, normaliser):
    encodings = [] if name is None else [examples(rng)[name].encoding]
    at = (
        {}
        if name is None
        else dict(q_positions=examples(rng)[name].q_positions, k_positions=examples(rng)[name].k_positions)
    )
    q, k, v = queries_and_keys(rng, kv_heads=HEADS)
    d_out = rng.standard_normal(q.shape)
    rows_dim = 2 * DIM if name is not None and name.startswith("PopeRows") else DIM
    start = (rng.uniform(size=(BATCH, HEADS, rows_dim, DIM)), rng.uniform(1, 2, size=(BATCH, HEADS, DIM)))
    d_state = tuple(rng.standard_normal(x.shape) for x in start)
    call = dict(mask="none", normaliser=normaliser, **at)

    def loss() -> float:
        out, state = bearing.linear_attention(q, k, v, encodings, **call, state=start, return_state=True)
        of_state = (state[0] * d_state[0]).sum()
        if normaliser == "sum":
            of_state += (state[1] * d_state[1]).sum()
        return float((out * d_out).sum() + of_state)

    d_q, d_k, d_v, gradients, d_start = bearing.linear_attention_backward(
        q, k, v, d_out, encodings, **call, start=start, d_state=d_state
    )
    for what, value, gradient in [("q", q, d_q), ("k", k, d_k), ("v", v, d_v), ("s", start[0], d_start[0])]:
        check_gradient(loss, value, gradient, what)
    if normaliser == "sum":
        check_gradient(loss, start[1], d_start[1], "z")
    for encoding, of in zip(encodings, gradients, strict=True):
        for parameter, value in encoding.parameters.items():
            check_gradient(loss, value, of[parameter], parameter)


def test_without_a_state_there_is_no_gradient_of_one(rng):
    q, k, v = queries_and_keys(rng)
    assert bearing.linear_attention_backward(q, k, v, q, mask="causal")[-1] is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", TYPES)
def test_results_are_of_the_callers_kind_and_type(rng, kind, dtype):
    exact = queries_and_keys(rng)
    q, k, v = (as_kind(kind, x, dtype) for x in exact)
    out, (s, z) = bearing.linear_attention(q, k, v, mask="causal", q_positions=2, return_state=True)
    assert (kind_of(out), out.dtype, tuple(out.shape)) == (kind, q.dtype, tuple(q.shape))
    assert kind_of(s) == kind_of(z) == kind
    assert str(s.dtype).endswith("float64" if dtype == "float64" else "float32")
    wanted = bearing.linear_attention(*(to_numpy(x) for x in (q, k, v)), mask="causal", q_positions=2)
    # Weights sum to 1 over values of the order of 1; sums in float32 are good to 2^-20, the result is rounded once.
    np.testing.assert_allclose(
        to_numpy(out), wanted, rtol=ROUNDING[dtype], atol=2.0**-18 if dtype != "float64" else 1e-13
    )


def test_either_layout_gives_the_same_numbers(rng):
    q, k, v = queries_and_keys(rng)
    wanted = bearing.linear_attention(q, k, v, mask="causal", q_positions=2)
    swapped = bearing.linear_attention(
        *(x.swapaxes(1, 2) for x in (q, k, v)), mask="causal", q_positions=2, layout="bthd"
    )
    np.testing.assert_array_equal(swapped.swapaxes(1, 2), wanted)


def test_threads_change_no_bit(rng):
    q, k, v = queries_and_keys(rng)
    wanted = bearing.linear_attention(q, k, v, mask="none")
    for threads in (2, 0):
        np.testing.assert_array_equal(bearing.linear_attention(q, k, v, mask="none", threads=threads), wanted)


def test_no_keys_give_zeros():
    out = bearing.linear_attention(np.ones((2, 3, 4)), np.ones((2, 0, 4)), np.ones((2, 0, 5)), mask="none")
    assert out.shape == (2, 3, 5) and not out.any()
    assert bearing.linear_attention(np.ones((2, 0, 4)), np.ones((2, 3, 4)), np.ones((2, 3, 5)), mask="none").size == 0


def test_wrong_calls_are_told_by_name(rng):
    q, k, v = queries_and_keys(rng)
    zeros = (np.zeros((BATCH, KV_HEADS, DIM, DIM)), np.zeros((BATCH, KV_HEADS, DIM)))
    f = bearing.linear_attention
    for call, error, text in [
        (lambda: f(q, k, v), TypeError, "[linear_attention] mask: must be given"),
        (lambda: f(q, k, v, mask="all"), ValueError, "[linear_attention] mask: must be one of 'none', 'causal'"),
        (
            lambda: f(q, k.astype("f4"), v, mask="none"),
            TypeError,
            "[linear_attention] k: must be float64, as q is, got",
        ),
        (lambda: f(q, k, v, mask="none", state=3), TypeError, "[linear_attention] state: must be (s, z), got 3"),
        (
            lambda: f(q, k, v, mask="none", state=(None, None)),
            TypeError,
            "[linear_attention] state: must be (s, z), got (None, None)",
        ),
        (
            lambda: f(q, k, v, mask="none", state=tuple(jnp.asarray(x) for x in zeros)),
            TypeError,
            "[linear_attention] state: must be an array that may be written, got a JAX array",
        ),
        (
            lambda: f(q, k, v, mask="none", state=(zeros[0].astype("f4"), zeros[1])),
            TypeError,
            "[linear_attention] state: must be float64, got float32",
        ),
        (
            lambda: f(q, k, v, mask="none", state=zeros[::-1]),
            bearing.ShapeError,
            "[linear_attention] state: must be an array of 3",
        ),
        (lambda: f(q, k, v, mask="none", state=(zeros[0][:1], zeros[1])), bearing.ShapeError, "[linear_attention] "),
        (
            lambda: f(q, k, v, mask="none", state=(zeros[0][:1], zeros[1]), return_state=True),
            bearing.ShapeError,
            "[linear_attention] state: s must be [2, 2, 4, 4], got [1, 2, 4, 4]",
        ),
        (
            lambda: f(q, k, v, bearing.AlibiBias(bearing.Alibi.published(HEADS)), mask="none"),
            bearing.ShapeError,
            "[linear_attention] ",
        ),
        (lambda: f(q, k, v, mask="none", feature_map="identity"), bearing.RangeError, "[linear_attention] "),
        (lambda: f(q, k, v, mask="none", epsilon=-1), bearing.RangeError, "[linear_attention] epsilon"),
        (lambda: f(q, k[:, :, :, :3], v, mask="none"), bearing.ShapeError, "[linear_attention] "),
        (
            lambda: f(torch.zeros(2, 3, requires_grad=True), k, v, mask="none"),
            TypeError,
            "[linear_attention] q: must be a tensor without requires_grad",
        ),
    ]:
        with pytest.raises(error) as caught:
            call()
        assert str(caught.value).startswith(text)
    assert not any(x.any() for x in zeros)
