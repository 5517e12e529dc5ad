"""Scores and values over whole tensors, in every kind and type of array."""

import bearing
import bearing.jax as bj
import bearing.torch as bt
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import (
    BATCH,
    DIM,
    HEADS,
    K_LEN,
    KINDS,
    Q_LEN,
    ROUNDING,
    TYPES,
    as_kind,
    examples,
    golden,
    kind_of,
    numpy_type,
    queries_and_keys,
    to_numpy,
    type_of,
)


def distances(q_len: int, k_len: int, past: int = 0) -> np.ndarray:
    """Key minus query."""
    return np.arange(k_len) - (np.arange(q_len)[:, None] + past)


@pytest.mark.parametrize("heads", [1, 8, 12, 64])
def test_alibi_has_the_published_slopes(heads):
    slopes = golden("alibi/slopes_1_64.json")["heads"][str(heads)]["paper"]
    spec = bearing.Alibi.published(heads)
    # The published code takes powers of a rounded ratio: the h-th of them is off by up to h roundings.
    np.testing.assert_allclose(spec.slopes, slopes, rtol=heads * 2.0**-53)
    bias = bearing.bias_matrix(bearing.AlibiBias(spec), heads=heads, q_len=5, k_len=5, dtype="float64")
    np.testing.assert_array_equal(bias, -np.array(spec.slopes)[:, None, None] * abs(distances(5, 5)))


@pytest.mark.parametrize("name, direction", [("bi", "bidirectional"), ("causal", "causal")])
def test_t5_has_the_published_buckets(name, direction):
    data = golden(f"t5/buckets_{name}_32_128.json")
    wanted = dict(zip(range(data["first"], data["last"] + 1), data["buckets"], strict=True))
    spec = bearing.T5(direction=direction)
    assert all(bearing.t5_bucket(spec, distance) == bucket for distance, bucket in wanted.items())
    table = np.arange(32.0)[:, None]
    bias = bearing.bias_matrix(bearing.T5Bias(spec, table), heads=1, q_len=300, k_len=300)[0]
    np.testing.assert_array_equal(bias, np.vectorize(wanted.get)(distances(300, 300)))
    assert len(bearing.t5_thresholds(spec)) == (16 if direction == "bidirectional" else 32)


def test_deberta_has_the_published_buckets():
    data = golden("relative/deberta_log_buckets.json")
    for table in data["tables"]:
        spec = bearing.Deberta(position_buckets=table["bucket_size"], max_relative_positions=table["max_position"])
        wrong = [
            x
            for x, bucket in zip(range(data["first"], data["last"] + 1), table["buckets"], strict=True)
            if bearing.deberta_bucket(spec, -x) != bucket and x not in table["differs_in_float64"]
        ]  # the tables count query minus key
        assert not wrong
    assert bearing.deberta_softmax_scale(bearing.Deberta(), 64) == pytest.approx(1 / np.sqrt(192), rel=1e-15)
    assert bearing.tupe_softmax_scale(64) == pytest.approx(1 / np.sqrt(128), rel=1e-15)


def test_swin_takes_the_published_rows():
    for case in golden("relative/swin_relative_position_index.json")["cases"]:
        height, width = case["window"]
        spec = bearing.Swin(height=height, width=width)
        assert spec.rows() == case["table_rows"]
        at = bearing.grid_positions(height, width)
        bias = bearing.SwinBias(spec, np.arange(float(spec.rows()))[:, None])
        np.testing.assert_array_equal(bearing.bias_matrix(bias, at, at, heads=1)[0], case["index"])
        cells = [(y, x) for y in range(height) for x in range(width)]
        assert [[spec.row(q, k) for k in cells] for q in cells] == case["index"]
    with pytest.raises(
        bearing.RangeError, match=r"^\[Swin\] k_position: must be a token of a window of 2 x 3, got \(2, 0\)"
    ):
        bearing.Swin(height=2, width=3).row((0, 0), (2, 0))


def test_shaw_takes_the_published_rows(rng):
    data = golden("relative/shaw_index_q4_k4_K2.json")
    table = rng.standard_normal((5, DIM))
    q, k = rng.standard_normal((2, 1, 4, DIM))
    scores = np.zeros((1, 4, 4))
    bearing.add_scores(bearing.ShawTerm(bearing.Shaw(clip=data["K"]), table), scores, q=q, k=k, scale=2.0)
    wanted = 2 * np.einsum("id,ijd->ij", q[0], table[data["index"]])
    # Sums of 4 products of numbers of the order of 1: a few units of 2^-52.
    np.testing.assert_allclose(scores[0], wanted, atol=1e-14)


def test_transformer_xl_rows_are_projected_sinusoids(rng):
    w = rng.standard_normal((HEADS * DIM, 6))
    spec = bearing.TransformerXL(first_offset=-1, clamp_len=2)
    r = bearing.transformer_xl_relative(spec, w, heads=HEADS, offsets=5)
    angles = np.clip(np.arange(5) - 1, -2, 2)[:, None] * 10_000.0 ** (-np.arange(0, 6, 2) / 6)
    sinusoids = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    wanted = (sinusoids @ w.T).reshape(5, HEADS, DIM).swapaxes(0, 1)
    np.testing.assert_allclose(r, wanted, atol=1e-13)
    d_r = rng.standard_normal(r.shape)
    d_w = bearing.transformer_xl_relative_backward(spec, d_r, d_model=6)
    # The product is linear in w: <d_r, r(w)> = <d_w, w>.
    assert (d_w * w).sum() == pytest.approx((d_r * r).sum(), rel=1e-12)


def test_swin_v2_makes_a_table_and_takes_its_gradient(rng):
    spec = bearing.SwinV2(window=bearing.Swin(height=3, width=2), trained_height=4, trained_width=4)
    w1, b1, w2 = rng.standard_normal((5, 2)), rng.standard_normal(5), rng.standard_normal((HEADS, 5))
    table = bearing.swin_v2_table(spec, w1, b1, w2)
    assert table.shape == (15, HEADS)
    assert (table > 0).all() and (table < 16).all()
    d_table = rng.standard_normal(table.shape)
    gradients = bearing.swin_v2_table_backward(spec, w1, b1, w2, d_table)
    for index, value in enumerate((w1, b1, w2)):
        step = np.zeros_like(value)
        step.flat[0] = 1e-6
        moved = [[a + sign * step if i == index else a for i, a in enumerate((w1, b1, w2))] for sign in (1, -1)]
        up, down = (bearing.swin_v2_table(spec, *network) for network in moved)
        # Rounding of sums of the order of 100 over a step of 1e-6.
        assert gradients[index].flat[0] == pytest.approx(((up - down) * d_table).sum() / 2e-6, abs=1e-6)


def wavlm_parameters(rng):
    return rng.standard_normal((8, DIM)), rng.standard_normal(8), 1 + rng.standard_normal(HEADS)


@pytest.mark.parametrize(("dtype", "rounding"), [("float64", 2.0**-44), ("float32", 2.0**-17)])
def test_the_gate_of_wavlm_is_its_formula_and_gates_the_bias(rng, dtype, rounding):
    x = rng.standard_normal((BATCH, HEADS, Q_LEN, DIM)).astype(dtype)
    weight, bias, constant = (one.astype(dtype) for one in wavlm_parameters(rng))
    gate = bearing.wavlm_gate(x, weight, bias, constant)
    assert (gate.shape, gate.dtype) == ((BATCH, HEADS, Q_LEN), np.dtype(dtype))
    sums = (x.astype("float64") @ weight.T.astype("float64") + bias).reshape(BATCH, HEADS, Q_LEN, 2, 4).sum(-1)
    r, s = np.moveaxis(1 / (1 + np.exp(-sums)), -1, 0)
    # The sum of 4 (DIM + 1) products of numbers up to 4, times constants up to 4; a result below 8 is rounded once.
    np.testing.assert_allclose(gate, r * (s * constant[:, None].astype("float64") - 1) + 2, atol=rounding)
    table = rng.standard_normal((8, HEADS)).astype(dtype)
    spec = bearing.GatedT5(buckets=8, direction="bidirectional")
    places = {"heads": HEADS, "q_len": Q_LEN, "k_len": K_LEN, "dtype": dtype}
    plain = bearing.bias_matrix(bearing.T5Bias(bearing.T5(buckets=8, direction="bidirectional"), table), **places)
    scores = np.zeros((BATCH, HEADS, Q_LEN, K_LEN), dtype)
    bearing.add_scores(bearing.GatedT5Bias(spec, table, gate), scores)
    np.testing.assert_allclose(scores, gate[..., None] * plain, rtol=2.0**-22)


def test_the_gradients_of_the_gate_of_wavlm_are_central_differences(rng):
    given = [rng.standard_normal((BATCH, HEADS, Q_LEN, DIM)), *wavlm_parameters(rng)]
    d_gate = rng.standard_normal((BATCH, HEADS, Q_LEN))
    gradients = bearing.wavlm_gate_backward(*given, d_gate)
    assert [one.shape for one in gradients] == [one.shape for one in given]
    for index, value in enumerate(given):
        for at in (0, value.size // 2, value.size - 1):
            step = np.zeros_like(value)
            step.flat[at] = 1e-5
            moved = [[a + sign * step if i == index else a for i, a in enumerate(given)] for sign in (1, -1)]
            up, down = (bearing.wavlm_gate(*all_of_it) for all_of_it in moved)
            # Rounding of sums of the order of 100 over a step of 1e-5, and a third derivative of a hundred times 1e-11.
            assert gradients[index].flat[at] == pytest.approx(((up - down) * d_gate).sum() / 2e-5, abs=1e-7)


def test_the_gate_of_wavlm_is_the_same_in_pytorch_and_jax(rng):
    given = [rng.standard_normal((BATCH, HEADS, Q_LEN, DIM)), *wavlm_parameters(rng)]
    d_gate = rng.standard_normal((BATCH, HEADS, Q_LEN))
    wanted, gradients = bearing.wavlm_gate(*given), bearing.wavlm_gate_backward(*given, d_gate)
    tensors = [torch.tensor(one, requires_grad=True) for one in given]
    gate = bt.wavlm_gate(*tensors)
    # Sums of 4 (DIM + 1) products of numbers up to 4 in float64, times constants up to 4.
    np.testing.assert_allclose(gate.detach(), wanted, rtol=0, atol=2.0**-44)
    for ours, truth in zip(torch.autograd.grad(gate, tensors, torch.tensor(d_gate)), gradients, strict=True):
        np.testing.assert_allclose(ours, truth, rtol=0, atol=2.0**-40)
    assert torch.autograd.gradcheck(bt.wavlm_gate, tensors)
    np.testing.assert_allclose(
        torch.compile(bt.wavlm_gate, fullgraph=True, backend="eager")(*tensors).detach(), gate.detach()
    )
    half = bt.wavlm_gate(*(one.detach().bfloat16() for one in tensors))
    assert half.dtype == torch.bfloat16
    with jax.enable_x64(True):
        arrays = [jnp.asarray(one) for one in given]
        gate, backward = jax.vjp(jax.jit(bj.wavlm_gate), *arrays)
        np.testing.assert_allclose(gate, wanted, rtol=0, atol=2.0**-44)
        for ours, truth in zip(backward(jnp.asarray(d_gate)), gradients, strict=True):
            np.testing.assert_allclose(ours, truth, rtol=0, atol=2.0**-40)


@pytest.mark.parametrize("kind", ["torch", "jax"])
def test_the_frameworks_gates_of_wavlm_refuse_what_does_not_fit(rng, kind):
    call = bt.wavlm_gate if kind == "torch" else bj.wavlm_gate
    made = torch.tensor if kind == "torch" else jnp.asarray
    x, weight, bias, constant = map(
        made, (np.ones((1, HEADS, 3, DIM), "f4"), np.ones((8, DIM), "f4"), np.ones(8, "f4"), np.ones(HEADS, "f4"))
    )
    for wrong, text in [
        ((x[0], weight, bias, constant), rf"x: must have 4 axes, got shape \[4, 3, {DIM}\]"),
        ((x, weight[:7], bias, constant), rf"weight: must be \[8, head_dim\] = \[8, {DIM}\], got \[7, {DIM}\]"),
        ((x, weight, bias[:1], constant), r"bias: must be \[8\] = \[8\], got \[1\]"),
        ((x, weight, bias, constant[:1]), r"constant: must be \[heads\] = \[4\], got \[1\]"),
    ]:
        with pytest.raises(bearing.ShapeError, match=rf"^\[wavlm_gate\] {text}$"):
            call(*wrong)
    with pytest.raises(TypeError, match=r"^\[wavlm_gate\] x: must be"):
        call("x", weight, bias, constant)
    with pytest.raises(TypeError, match=r"^\[wavlm_gate\] x: must be of a floating type, got int32$"):
        call(made(np.ones((1, HEADS, 3, DIM), "i4")), weight, bias, constant)


def test_the_gate_of_wavlm_refuses_shapes_and_types_that_do_not_fit(rng):
    x, (weight, bias, constant) = rng.standard_normal((1, HEADS, 3, DIM)), wavlm_parameters(rng)
    for call, text in [
        (lambda: bearing.wavlm_gate(x[0], weight, bias, constant), "x: must have 4 axes"),
        (lambda: bearing.wavlm_gate(x, weight[:7], bias, constant), "weight: must be"),
        (lambda: bearing.wavlm_gate(x, weight, bias, constant[:1]), "constant: must be"),
    ]:
        with pytest.raises(bearing.ShapeError, match=rf"^\[wavlm_gate\] {text}"):
            call()
    with pytest.raises(TypeError, match=r"^\[wavlm_gate\] bias: must be float64, as x is, got float32$"):
        bearing.wavlm_gate(x, weight, bias.astype("float32"), constant)
    with pytest.raises(bearing.ShapeError, match=r"^\[wavlm_gate_backward\] d_gate: must be"):
        bearing.wavlm_gate_backward(x, weight, bias, constant, np.ones((1, HEADS, 4)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", TYPES)
def test_a_matrix_is_of_the_kind_and_type_of_like(kind, dtype):
    bias = bearing.AlibiBias(bearing.Alibi.published(3))
    exact = bearing.bias_matrix(bias, 2, heads=3, q_len=4, k_len=6, dtype="float64")
    like = as_kind(kind, np.zeros(1), dtype)
    made = bearing.bias_matrix(bias, 2, heads=3, q_len=4, k_len=6, like=like)
    assert (kind_of(made), made.dtype, tuple(made.shape)) == (kind, like.dtype, (3, 4, 6))
    # Computed in float64 or float32 (one more rounding of 2^-24), rounded once.
    np.testing.assert_allclose(to_numpy(made), exact, rtol=ROUNDING[dtype] + 2.0**-23)


@pytest.mark.parametrize(
    "dtype, kind, name",
    [
        ("float64", "numpy", "float64"),
        (np.float16, "numpy", "float16"),
        (np.dtype("float32"), "numpy", "float32"),
        (ml_dtypes.bfloat16, "numpy", "bfloat16"),
        (np.dtype(ml_dtypes.bfloat16), "numpy", "bfloat16"),
        (torch.bfloat16, "torch", "bfloat16"),
        (torch.float64, "torch", "float64"),
        (jnp.bfloat16, "jax", "bfloat16"),
        (jnp.float32, "jax", "float32"),
    ],
)
def test_a_type_is_named_as_its_owner_names_it(dtype, kind, name):
    made = bearing.bias_matrix(bearing.AlibiBias(bearing.Alibi.published(1)), heads=1, q_len=1, k_len=2, dtype=dtype)
    assert (kind_of(made), type_of(made)) == (kind, name)


def test_dtype_overrides_the_type_of_like():
    bias = bearing.AlibiBias(bearing.Alibi.published(1))
    made = bearing.bias_matrix(bias, heads=1, q_len=1, k_len=2, dtype="float64", like=torch.zeros(1))
    assert made.dtype == torch.float64


def test_without_a_wish_a_matrix_is_like_the_first_parameter():
    spec = bearing.T5(direction="causal")
    call = dict(heads=2, q_len=1, k_len=1)
    assert bearing.bias_matrix(bearing.T5Bias(spec, torch.zeros(32, 2).double()), **call).dtype == torch.float64
    assert bearing.bias_matrix(bearing.T5Bias(spec, jnp.zeros((32, 2), jnp.float32)), **call).dtype == jnp.float32
    assert bearing.bias_matrix(None, **call).dtype == np.float32


def test_lengths_come_from_positions_where_those_are_arrays():
    bias = bearing.AlibiBias(bearing.Alibi.published(2))
    made = bearing.bias_matrix(bias, [4, 5], np.arange(6), heads=2, dtype="float64")
    np.testing.assert_array_equal(made, bearing.bias_matrix(bias, 4, heads=2, q_len=2, k_len=6, dtype="float64"))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scores_are_added_in_place_to_any_strides(rng, dtype):
    bias = bearing.AlibiBias(bearing.Alibi.published(HEADS))
    wide = rng.standard_normal((Q_LEN, HEADS, 2 * K_LEN)).astype(dtype)
    kept = wide.copy()
    scores = wide.swapaxes(0, 1)[:, :, ::2]
    bearing.add_scores(bias, scores, q_positions=2)
    added = bearing.bias_matrix(bias, 2, heads=HEADS, q_len=Q_LEN, k_len=K_LEN, dtype=dtype)
    np.testing.assert_array_equal(scores, kept.swapaxes(0, 1)[:, :, ::2] + added)
    np.testing.assert_array_equal(wide[:, :, 1::2], kept[:, :, 1::2])


def test_scores_in_torch_are_added_where_they_lie():
    scores = torch.zeros(2, 3, 3)
    bearing.add_scores(bearing.AlibiBias(bearing.Alibi.published(2)), scores)
    assert scores[0, 0, 2] == -2 * 2.0**-4


@pytest.mark.parametrize(
    "scores, text",
    [
        (jnp.zeros((1, 2, 2)), "scores: must be an array that may be written, got a JAX array, which never may"),
        (np.broadcast_to(np.zeros(1), (1, 2, 2)), "scores: must be an array that may be written, got one that is read"),
        (np.zeros((1, 2, 2), np.float16), "scores: must be float64 or float32, got float"),
        (np.zeros((1, 2, 2), ml_dtypes.bfloat16), "scores: must be float64 or float32"),
        (np.zeros((1, 2, 2), np.int64), "scores: must be an array of float64, float32, bfloat16 or float16, got int64"),
        (torch.zeros(1, 2, 2, requires_grad=True), "scores: must be a tensor without requires_grad"),
        ([[0.0]], "scores: must be an array"),
        (np.zeros(3), "scores: must be an array of 2 to 4 axes"),
    ],
    ids=str,
)
def test_scores_that_cannot_be_written_in_place_are_refused(scores, text):
    with pytest.raises(bearing.ShapeError if "axes" in text else TypeError) as caught:
        bearing.add_scores(bearing.AlibiBias(bearing.Alibi.published(1)), scores)
    assert str(caught.value).startswith("[add_scores] " + text)


def test_nothing_is_written_after_a_wrong_call(rng):
    scores = np.zeros((HEADS, 3, 3))
    with pytest.raises(bearing.ShapeError, match=r"^\[add_scores\] "):
        bearing.add_scores(bearing.AlibiBias(bearing.Alibi.published(HEADS + 1)), scores)
    with pytest.raises(bearing.ShapeError):
        bearing.add_scores(examples(rng)["ShawTerm"].encoding, scores)  # looks at q and k, which are not there
    with pytest.raises(TypeError, match=r"^\[add_scores\] q: must be float64, as scores is, got float32$"):
        q = np.zeros((HEADS, 3, DIM), np.float32)
        bearing.add_scores(examples(rng)["ShawTerm"].encoding, scores, q=q, k=q)
    with pytest.raises(ValueError, match="layout: must be 'bhtd' or 'bthd', got 'tbhd'"):
        bearing.add_scores(None, scores, layout="tbhd")
    with pytest.raises(bearing.RangeError, match="heads: must be at least 1, got 0"):
        bearing.bias_matrix(None, heads=0, q_len=1, k_len=1)
    with pytest.raises(bearing.RangeError, match="q_len: must be at least 0, got -1"):
        bearing.bias_matrix(None, heads=1, q_len=-1, k_len=1)
    with pytest.raises(TypeError, match="dtype: must be float64, float32, bfloat16 or float16, got 'int8'"):
        bearing.bias_matrix(None, heads=1, q_len=1, k_len=1, dtype="int8")
    with pytest.raises(TypeError, match="like: must be an array, got 3"):
        bearing.bias_matrix(None, heads=1, q_len=1, k_len=1, like=3)
    assert not scores.any()


@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
def test_queries_and_keys_come_in_either_layout(rng, layout):
    term = examples(rng)["ShawTerm"].encoding
    q, k, _ = queries_and_keys(rng)
    wanted, scores = np.zeros((2, BATCH, HEADS, Q_LEN, K_LEN))
    bearing.add_scores(term, wanted, 2, q=q, k=k)
    given = [x.swapaxes(1, 2) if layout == "bthd" else x for x in (q, k)]
    bearing.add_scores(term, scores, 2, q=given[0], k=given[1], layout=layout)
    np.testing.assert_array_equal(scores, wanted)
    d_q, d_k, _ = bearing.add_scores_backward(term, scores, 2, q=given[0], k=given[1], layout=layout)
    assert (d_q.shape, d_k.shape) == (given[0].shape, given[1].shape)


def test_several_encodings_add_up(rng):
    alibi, t5 = bearing.AlibiBias(bearing.Alibi.published(HEADS)), examples(rng)["T5Bias"].encoding
    call = dict(heads=HEADS, q_len=3, k_len=3, dtype="float64")
    both = bearing.bias_matrix([alibi, t5], **call)
    np.testing.assert_allclose(both, bearing.bias_matrix(alibi, **call) + bearing.bias_matrix([t5], **call), rtol=1e-15)
    assert not bearing.bias_matrix(None, **call).any()
    assert not bearing.bias_matrix([], **call).any()


@pytest.mark.parametrize("q_len, k_len", [(0, 3), (3, 0), (0, 0)])
def test_no_tokens_are_no_scores(rng, q_len, k_len):
    bias = examples(rng)["T5Bias"].encoding
    assert bearing.bias_matrix(bias, heads=HEADS, q_len=q_len, k_len=k_len).shape == (HEADS, q_len, k_len)
    scores = np.zeros((BATCH, HEADS, q_len, k_len))
    bearing.add_scores(bias, scores)
    d_q, d_k, [gradients] = bearing.add_scores_backward(bias, scores)
    assert d_q is None and d_k is None
    assert not gradients["table"].any()


@given(
    q_len=st.integers(1, 9),
    k_len=st.integers(1, 9),
    past=st.integers(-20, 20),
    direction=st.sampled_from(["bidirectional", "causal"]),
    threads=st.sampled_from([1, 3]),
)
def test_a_bias_is_its_table_at_the_buckets(q_len, k_len, past, direction, threads):
    spec = bearing.T5(buckets=10, max_distance=12, direction=direction)
    table = np.random.default_rng(q_len).standard_normal((10, 2)).astype(np.float32)
    buckets = np.vectorize(lambda n: bearing.t5_bucket(spec, int(n)))(distances(q_len, k_len, past))
    bias = bearing.bias_matrix(bearing.T5Bias(spec, table), past, heads=2, q_len=q_len, k_len=k_len, threads=threads)
    np.testing.assert_array_equal(bias, table.T[:, buckets])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values_are_added_in_place(rng, dtype):
    table = rng.standard_normal((5, DIM)).astype(dtype)
    p = rng.uniform(size=(HEADS, Q_LEN, K_LEN)).astype(dtype)
    out = np.ones((HEADS, Q_LEN, DIM), dtype)
    term = bearing.ShawTerm(bearing.Shaw(clip=2), value=table)
    bearing.add_values(term, p, out, 2)
    rows = np.clip(distances(Q_LEN, K_LEN, 2), -2, 2) + 2
    wanted = 1 + np.einsum("hij,ijd->hid", p.astype(np.float64), table.astype(np.float64)[rows])
    # Sums of 6 numbers below 4.
    np.testing.assert_allclose(out, wanted, atol=24 * 2 * ROUNDING[dtype])
    with pytest.raises(TypeError, match="out: must be an array that may be written"):
        bearing.add_values(term, jnp.asarray(p), jnp.asarray(out))


def test_bfloat16_of_all_frameworks_has_the_same_bits():
    bias = bearing.AlibiBias(bearing.Alibi.published(5))
    call = dict(heads=5, q_len=7, k_len=7)
    bits = [
        np.asarray(bearing.bias_matrix(bias, **call, dtype=ml_dtypes.bfloat16)).view(np.uint16),
        np.asarray(bearing.bias_matrix(bias, **call, dtype=jnp.bfloat16)).view(np.uint16),
        bearing.bias_matrix(bias, **call, dtype=torch.bfloat16).view(torch.uint16).numpy(),
    ]
    wanted = bearing.bias_matrix(bias, **call).astype(numpy_type("bfloat16")).view(np.uint16)
    for one in bits:
        np.testing.assert_array_equal(one, wanted)
