"""attention() against published numbers, in every kind, type and layout; its wrong calls."""

import bearing
import bearing.jax
import bearing.torch
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
    golden,
    kind_of,
    queries_and_keys,
    tensor,
    to_numpy,
    type_of,
)

# Sums of some tens of products of numbers of the order of 10 in float64, through an exponential.
TOLERANCE = 1e-12


def split_heads(table: np.ndarray, heads: int) -> np.ndarray:
    """[rows, heads · dim] as [heads, rows, dim]."""
    return table.reshape(len(table), heads, -1).swapaxes(0, 1)


def joined(table: np.ndarray) -> np.ndarray:
    return table.swapaxes(0, 1).reshape(table.shape[1], -1)


def golden_encoding(case, params):
    """The encoding of a case, and how its gradients become those of the case's parameters."""
    heads = case["heads"]
    if case["kind"] == "none":
        return None, lambda gradients: {}
    if case["kind"] == "alibi":
        return bearing.AlibiBias(bearing.Alibi(slopes=case["slopes"])), lambda gradients: {}
    if case["kind"] == "t5":
        spec = bearing.T5(buckets=case["num_buckets"], max_distance=case["max_distance"], direction="bidirectional")
        return bearing.T5Bias(spec, params["bias_table"]), lambda g: {"bias_table": g["table"]}
    if case["kind"] == "shaw":
        spec = bearing.Shaw(clip=case["max_relative_position"])
        return (
            bearing.ShawTerm(spec, params["a_k"], params["a_v"]),
            lambda g: {"a_k": g["key"], "a_v": g["value"]},
        )
    if case["kind"] == "deberta":
        spec = bearing.Deberta(
            max_relative_positions=case["max_relative_positions"], position_buckets=case["position_buckets"]
        )
        tables = [split_heads(params[name], heads) for name in ("pos_key", "pos_query")]
        return (
            bearing.DebertaTerm(spec, *tables),
            lambda g: {"pos_key": joined(g["key"]), "pos_query": joined(g["query"])},
        )
    if case["kind"] == "transformer_xl":
        spec = bearing.TransformerXL()
        r = bearing.transformer_xl_relative(spec, params["w_kr"], heads=heads, offsets=case["k_len"])

        def gradients_of(g):
            d_w = bearing.transformer_xl_relative_backward(spec, g["r"], d_model=case["r_dim"])
            return {"u": g["u"], "v_bias": g["v"], "w_kr": d_w}

        return bearing.TransformerXLTerm(spec, r, params["u"], params["v_bias"]), gradients_of
    assert case["kind"] == "tupe"
    spec = bearing.Tupe(rel_pos_bins=case["num_buckets"], max_rel_pos=case["max_distance"], cls="tied")
    pos, u_q, u_k = (params[name] for name in ("pos", "u_q", "u_k"))

    def gradients_of(g):
        d_q, d_k = joined(g["query"]), joined(g["key"])
        return {"bias_table": g["bias"], "pos": d_q @ u_q + d_k @ u_k, "u_q": d_q.T @ pos, "u_k": d_k.T @ pos}

    rows = [split_heads(pos @ u.T, heads) for u in (u_q, u_k)]
    return bearing.TupeBias(spec, *rows, params["bias_table"]), gradients_of


@pytest.mark.parametrize(
    "name",
    [
        "none_b2h4kv2q7k7d16c",
        "alibi_b1h2kv2q5k5d8c",
        "t5_b1h3kv3q9k4d8",
        "shaw_b2h4kv2q7k7d16c",
        "deberta_b2h2l9d8_bk8_mr32_c2p_p2c",
        "transformer_xl_b2h2q4k7d8c",
        "tupe_b2h4kv2q7k7d16c",
    ],
)
def test_attention_and_its_gradients_are_the_published_ones(name):
    case = golden(f"attention/{name}.json")
    params = {key: tensor(value) for key, value in case["params"].items()}
    q, k, v, d_out = (tensor(case[key]) for key in ("q", "k", "v", "grad_out"))
    layout = "bhtd"
    if q.ndim == 3:  # DeBERTa's: [batch, time, heads · dim]
        q, k, v, d_out = (x.reshape(*x.shape[:2], case["heads"], -1) for x in (q, k, v, d_out))
        layout = "bthd"
    encoding, gradients_of = golden_encoding(case, params)
    encodings = [] if encoding is None else [encoding]
    call = dict(
        mask="causal" if case["causal"] else "none",
        scale=case["scale"],
        q_positions=case["k_len"] - case["q_len"],
        layout=layout,
    )
    out, lse = bearing.attention(q, k, v, encodings, **call, return_lse=True)
    np.testing.assert_allclose(out.ravel(), tensor(case["out"]).ravel(), atol=TOLERANCE)
    if "logsumexp" in case:
        np.testing.assert_allclose(lse.ravel(), tensor(case["logsumexp"]).ravel(), atol=TOLERANCE)
    d_q, d_k, d_v, gradients, _ = bearing.attention_backward(q, k, v, out, lse, d_out, encodings, **call)
    for key, gradient in {"grad_q": d_q, "grad_k": d_k, "grad_v": d_v}.items():
        np.testing.assert_allclose(gradient.ravel(), tensor(case[key]).ravel(), atol=10 * TOLERANCE, err_msg=key)
    found = gradients_of(gradients[0] if gradients else {})
    assert found.keys() == params.keys()
    for key, gradient in found.items():
        wanted = tensor(case["grad_params"][key]) if "grad_params" in case else tensor(case[f"grad_{key}"])
        np.testing.assert_allclose(gradient, wanted, atol=10 * TOLERANCE, err_msg=key)


@pytest.mark.parametrize("call", [bearing.attention, bearing.torch.attention, bearing.jax.attention])
def test_a_causal_mask_goes_by_all_axes_of_positions(rng, call):
    """A picture of 2 x 3 patches between words, as Qwen2-VL counts them: as by index, whole and after a cache."""
    at = np.array([[0, 1, 2, 2, 2, 2, 2, 2, 5], [0, 1, 2, 2, 2, 3, 3, 3, 5], [0, 1, 2, 3, 4, 2, 3, 4, 5]])[:, None]
    rope = bearing.Rope(head_dim=8, pairing="half", axes=bearing.RopeAxes.sections([2, 1, 1]))
    table = bearing.RotaryRows(bearing.RopeTable(rope, 16))
    q, k, v = rng.standard_normal((3, 1, 2, 9, 8), np.float32)
    made = {bearing.torch.attention: torch.from_numpy, bearing.jax.attention: jnp.asarray}.get(call, np.asarray)
    for past in (0, 4):
        rows, there = [made(x) for x in (q[:, :, past:].copy(), k, v)], [made(x) for x in (at[..., past:].copy(), at)]
        options = {"q_positions": there[0], "k_positions": there[1]}
        out = call(*rows, table, mask="causal", **options)
        np.testing.assert_array_equal(out, call(*rows, table, mask="causal_bottom_right", **options))


def test_a_row_that_sees_nothing_is_zero():
    case = golden("attention/onnx_fully_masked_row.json")
    mask = np.array(case["attn_mask"]["bool"]).reshape(case["attn_mask"]["shape"])
    q, k, v = (tensor(case[key]) for key in "QKV")
    out, lse = bearing.attention(
        q, k, v, mask="none", visible=np.broadcast_to(mask, (*q.shape[:3], k.shape[2])), return_lse=True
    )
    np.testing.assert_allclose(out, tensor(case["expected"]), atol=TOLERANCE)
    assert (lse[:, :, ~mask.any(axis=1)] == -np.inf).all()


def test_query_heads_share_keys_in_order():
    case = golden("attention/onnx_gqa.json")
    out = bearing.attention(*(tensor(case[key]) for key in "QKV"), mask="none")
    np.testing.assert_allclose(out, tensor(case["expected"]), atol=TOLERANCE)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", TYPES)
def test_results_are_of_the_callers_kind_and_type(rng, kind, dtype):
    q, k, v = (as_kind(kind, x, dtype) for x in queries_and_keys(rng))
    bias = bearing.AlibiBias(bearing.Alibi.published(HEADS))
    call = dict(mask="causal", q_positions=K_LEN - Q_LEN)
    out, lse = bearing.attention(q, k, v, bias, **call, return_lse=True)
    assert (kind_of(out), out.dtype, tuple(out.shape)) == (kind, q.dtype, tuple(q.shape))
    assert kind_of(lse) == kind
    assert str(lse.dtype).endswith("float64" if dtype == "float64" else "float32")
    exact = [to_numpy(x) for x in (q, k, v)]
    wanted = bearing.attention(*exact, bias, **call)
    # Averages of values of the order of 1, in float32 good to 2^-20; weights of 16-bit types are rounded to these.
    np.testing.assert_allclose(to_numpy(out), wanted, atol=max(8 * ROUNDING[dtype], 2.0**-50))
    d = bearing.attention_backward(q, k, v, out, lse, out, bias, **call)
    for gradient, value in zip(d[:3], (q, k, v), strict=True):
        assert (kind_of(gradient), gradient.dtype) == (kind, value.dtype)
        assert tuple(gradient.shape) == tuple(value.shape)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", TYPES)
def test_results_may_keep_the_bits_of_the_arithmetic(rng, kind, dtype):
    wide = "float64" if dtype == "float64" else "float32"
    q, k, v = (as_kind(kind, x, dtype) for x in queries_and_keys(rng))
    exact = [as_kind(kind, to_numpy(x), wide) for x in (q, k, v)]
    d_out = as_kind(kind, rng.standard_normal(q.shape), wide)
    bias = bearing.AlibiBias(bearing.Alibi.published(HEADS))
    call = dict(mask="causal", q_positions=K_LEN - Q_LEN)
    out, lse = bearing.attention(q, k, v, bias, **call, out_dtype=wide, return_lse=True)
    wanted, wanted_lse = bearing.attention(*exact, bias, **call, return_lse=True)
    assert (kind_of(out), type_of(out)) == (kind, wide)
    # The same numbers in the same arithmetic, whose order may differ: sums of a few numbers of the order of 1.
    tolerance = 16 * ROUNDING[wide]
    np.testing.assert_allclose(to_numpy(out), to_numpy(wanted), atol=tolerance)
    np.testing.assert_allclose(to_numpy(lse), to_numpy(wanted_lse), atol=tolerance)
    found = bearing.attention_backward(q, k, v, out, lse, d_out, bias, **call)
    gradients = bearing.attention_backward(*exact, wanted, lse, d_out, bias, **call)
    for one, other in zip(found[:3], gradients[:3], strict=True):
        assert (kind_of(one), type_of(one)) == (kind, wide)
        np.testing.assert_allclose(to_numpy(one), to_numpy(other), atol=4 * tolerance)


def test_queries_and_keys_may_lie_anywhere(rng):
    q, k, v = queries_and_keys(rng)
    wanted = bearing.attention(q, k, v, mask="none")
    wide = np.zeros((BATCH, K_LEN, KV_HEADS, 2 * DIM))
    wide[..., ::2] = k.swapaxes(1, 2)
    wide[..., 1::2] = v.swapaxes(1, 2)
    for array in (wide, q):
        array.flags.writeable = False
    np.testing.assert_array_equal(
        bearing.attention(q, wide[..., ::2].swapaxes(1, 2), wide[..., 1::2].swapaxes(1, 2), mask="none"), wanted
    )
    # The products' sums are the same in another order.
    backwards = bearing.attention(q[..., ::-1], k[..., ::-1], v, mask="none")
    np.testing.assert_allclose(backwards, wanted, atol=TOLERANCE)


def test_either_layout_gives_the_same_numbers(rng):
    q, k, v = queries_and_keys(rng)
    wanted = bearing.attention(q, k, v, mask="none")
    swapped = bearing.attention(*(x.swapaxes(1, 2) for x in (q, k, v)), mask="none", layout="bthd")
    np.testing.assert_array_equal(swapped.swapaxes(1, 2), wanted)


def test_one_sequence_and_one_head_need_no_axes(rng):
    q, k, v = queries_and_keys(rng)
    wanted = bearing.attention(q[:1], k[:1], v[:1], mask="none")
    np.testing.assert_array_equal(bearing.attention(q[0], k[0], v[0], mask="none"), wanted[0])
    np.testing.assert_array_equal(bearing.attention(q[0, 0], k[0, 0], v[0, 0], mask="none"), wanted[0, 0])


@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
@pytest.mark.parametrize("axes", [2, 3])
def test_what_comes_without_axes_leaves_without_them(rng, axes, layout):
    q, k, v = queries_and_keys(rng, kv_heads=HEADS)
    d_out = rng.standard_normal(q.shape)
    out, lse = bearing.attention(q, k, v, mask="none", return_lse=True)
    wanted = bearing.attention_backward(q, k, v, out, lse, d_out, mask="none", d_lse=lse)[:3]

    def fewer(x: np.ndarray) -> np.ndarray:
        x = x[(0,) * (4 - axes)]
        return x.swapaxes(0, 1) if layout == "bthd" and axes == 3 else x

    some = [fewer(x) for x in (q, k, v)]
    part, part_lse = bearing.attention(*some, mask="none", layout=layout, return_lse=True)
    np.testing.assert_array_equal(part, fewer(out))
    np.testing.assert_array_equal(part_lse, lse[(0,) * (4 - axes)])
    found = bearing.attention_backward(*some, part, part_lse, fewer(d_out), mask="none", layout=layout, d_lse=part_lse)
    for one, other in zip(found[:3], wanted, strict=True):
        np.testing.assert_allclose(one, fewer(other), atol=TOLERANCE)
    if layout == "bhtd":  # merged with itself: the same rows, and twice the sums
        again, again_lse = part.copy(), part_lse.copy()
        bearing.merge(part, part_lse, again, again_lse)
        np.testing.assert_allclose(again, part, atol=TOLERANCE)
        np.testing.assert_allclose(again_lse, part_lse + np.log(2), atol=TOLERANCE)


@pytest.mark.parametrize("threads", [2, 0])
def test_threads_change_no_bit(rng, threads):
    q, k, v = queries_and_keys(rng)
    np.testing.assert_array_equal(
        bearing.attention(q, k, v, mask="none", threads=threads), bearing.attention(q, k, v, mask="none")
    )


def test_it_is_pytorchs_attention_with_a_mask(rng):
    q, k, v = (torch.from_numpy(x) for x in queries_and_keys(rng, kv_heads=HEADS))
    bias = bearing.AlibiBias(bearing.Alibi.published(HEADS))
    matrix = bearing.bias_matrix(bias, 2, heads=HEADS, q_len=Q_LEN, k_len=K_LEN, dtype=torch.float64)
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=matrix)
    torch.testing.assert_close(
        bearing.attention(q, k, v, bias, mask="none", q_positions=2), wanted, rtol=0, atol=TOLERANCE
    )


@pytest.mark.parametrize("hidden", [-1e9, np.finfo(np.float32).min, 1e30])
def test_a_row_that_a_finite_mask_hides_whole_has_pytorchs_gradients(rng, hidden):
    q, k, v = (torch.from_numpy(x.astype(np.float32)) for x in queries_and_keys(rng, kv_heads=HEADS))
    mask = torch.zeros(1, 1, Q_LEN, K_LEN)
    mask[..., 0, :] = float(hidden)
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    scores = leaves[0] @ leaves[1].mT / DIM**0.5 + mask
    wanted = scores.softmax(-1) @ leaves[2]
    d_out = torch.ones_like(wanted)
    wanted.backward(d_out)
    bias = bearing.DenseBias(mask)
    out, lse = bearing.attention(q, k, v, bias, mask="none", return_lse=True)
    # Some tens of roundings of 2^-24 of numbers of the order of 10.
    torch.testing.assert_close(out, wanted, rtol=0, atol=1e-5)
    grads = bearing.attention_backward(q, k, v, out, lse, d_out, bias, mask="none")
    for got, leaf in zip(grads[:3], leaves, strict=True):
        torch.testing.assert_close(got, leaf.grad, rtol=0, atol=1e-5)


def test_parts_over_disjoint_keys_merge_to_the_whole(rng):
    q, k, v = queries_and_keys(rng)
    whole, whole_lse = bearing.attention(q, k, v, mask="none", return_lse=True)
    out, lse = bearing.attention(q, k[:, :, :2], v[:, :, :2], mask="none", return_lse=True)
    part, part_lse = bearing.attention(q, k[:, :, 2:], v[:, :, 2:], mask="none", return_lse=True)
    bearing.merge(part, part_lse, out, lse)
    np.testing.assert_allclose(out, whole, atol=TOLERANCE)
    np.testing.assert_allclose(lse, whole_lse, atol=TOLERANCE)
    with pytest.raises(TypeError, match=r"^\[merge\] out: must be an array that may be written"):
        bearing.merge(part, part_lse, jnp.asarray(out), lse)


def test_no_tokens_are_no_rows():
    q, none = np.ones((HEADS, 2, DIM)), np.ones((HEADS, 0, DIM))
    assert bearing.attention(none, q, q, mask="none").shape == (HEADS, 0, DIM)
    out, lse = bearing.attention(q, none, none, mask="none", return_lse=True)
    assert not out.any() and (lse == -np.inf).all()
    d_q, d_k, d_v, gradients, _ = bearing.attention_backward(q, none, none, out, lse, q, mask="none")
    assert not d_q.any() and d_k.shape == d_v.shape == (HEADS, 0, DIM) and gradients == []


LEARNED_ROWS = {
    "rope mixed": lambda rng: bearing.RopeMixedRows(
        bearing.RopeMixed(head_dim=8, pairing="half", axes=1), np.ones((1, 1, 4))
    ),
    "pope": lambda rng: bearing.PopeRows(bearing.Pope(head_dim=8), -np.ones((1, 8))),
    "lie": lambda rng: bearing.LieRopeRows(
        bearing.LieRope(head_dim=8, axes=1, block=4), rng.standard_normal((1, 1, 2, 6)) / 4
    ),
    "fope": lambda rng: bearing.FopeRows(
        bearing.Fope(head_dim=8, kept=2, pairing="half"), *rng.standard_normal((2, 1, 2, 3))
    ),
    "circulant": lambda rng: bearing.CirculantStringRows(
        bearing.CirculantString(head_dim=8, axes=1), rng.standard_normal((1, 1, 8)) / 8
    ),
    "cope": lambda rng: bearing.CopeTerm(bearing.Cope(max_pos=4), rng.standard_normal((1, 4, 8))),
}


@pytest.mark.parametrize("hidden", [np.nan, np.inf, 3e38])
@pytest.mark.parametrize("name", LEARNED_ROWS)
def test_what_nobody_sees_reaches_no_gradient(rng, name, hidden):
    def results(value):
        q, k, v, g = np.random.default_rng(0).standard_normal((4, 1, 1, 8, 8))
        k[0, 0, 5:] = v[0, 0, 5:] = value
        shown = np.arange(8) < 5
        for mask in [{"k_lengths": np.array([5])}, {"key_mask": shown[None]}, {"visible": shown[None, None, None]}]:
            kw = {"mask": "none", **mask}
            if "visible" in kw:
                kw["visible"] = np.broadcast_to(kw["visible"], (1, 1, 8, 8))
            encoding = LEARNED_ROWS[name](np.random.default_rng(1))
            out, lse = bearing.attention(q, k, v, encoding, return_lse=True, **kw)
            *grads, d_encodings, _ = bearing.attention_backward(q, k, v, out, lse, g, encoding, **kw)
            yield [out, lse, *grads, *d_encodings[0].values()]

    for got, wanted in zip(results(hidden), results(0.5), strict=True):
        for array, same in zip(got, wanted, strict=True):
            assert np.isfinite(same).all()
            np.testing.assert_array_equal(array, same)


def test_sinks_take_their_share_and_have_a_gradient(rng):
    q, k, v = queries_and_keys(rng)
    sinks = rng.standard_normal(HEADS)
    out, lse = bearing.attention(q, k, v, mask="none", sinks=sinks, return_lse=True)
    plain, plain_lse = bearing.attention(q, k, v, mask="none", return_lse=True)
    np.testing.assert_allclose(lse, np.logaddexp(plain_lse, sinks[:, None]), atol=TOLERANCE)
    np.testing.assert_allclose(out, plain * np.exp(plain_lse - lse)[..., None], atol=TOLERANCE)
    d_sinks = bearing.attention_backward(q, k, v, out, lse, q, mask="none", sinks=sinks)[4]
    wanted = -(np.exp(sinks[:, None] - lse) * (out * q).sum(-1)).sum(axis=(0, 2))
    np.testing.assert_allclose(d_sinks, wanted, atol=TOLERANCE)


def test_wrong_calls_are_told_by_name(rng):
    q, k, v = queries_and_keys(rng)
    f = bearing.attention
    for call, error, text in [
        (lambda: f(q, k, v), TypeError, "[attention] mask: must be given"),
        (lambda: f(q, k, v, mask="all"), ValueError, "[attention] mask: must be one of 'none', 'causal'"),
        (lambda: f(q, k, v, mask="none", windows=3), TypeError, "[attention] has no argument windows"),
        (lambda: f(q, k, v, mask="none", window=3), TypeError, "[attention] window: must be (before, after)"),
        (lambda: f(q, k, v, mask="none", window=[3]), TypeError, "[attention] window: must be (before, after)"),
        (
            lambda: f(q, k, v, mask="none", layout="b"),
            ValueError,
            "[attention] layout: must be 'bhtd' or 'bthd', got 'b'",
        ),
        (
            lambda: f(q, k.astype("f4"), v, mask="none"),
            TypeError,
            "[attention] k: must be float64, as q is, got float32",
        ),
        (lambda: f(q, k, v[..., :2, :], mask="none"), bearing.ShapeError, "[attention] "),
        (lambda: f(q, k[..., :2], v, mask="none"), bearing.ShapeError, "[attention] "),
        (lambda: f(q[:, :3], k, v, mask="none"), bearing.ShapeError, "[attention] "),
        (lambda: f("q", k, v, mask="none"), TypeError, "[attention] q: must be an array"),
        (lambda: f(q.astype(int), k, v, mask="none"), TypeError, "[attention] q: must be an array of float64, float32"),
        (
            lambda: f(q, k, v, mask="none", q_positions=1.5),
            TypeError,
            "[attention] q_positions: must be None, an int, or an array",
        ),
        (lambda: f(q, k, v, mask="none", q_positions=2**40), bearing.RangeError, "[attention] q_positions"),
        (lambda: f(q, k, v, mask="none", scale="x"), TypeError, "[attention] scale: must be float, got 'x'"),
        (lambda: f(q, k, v, mask="none", key_mask=np.ones((BATCH, K_LEN))), TypeError, "[attention] key_mask: must be"),
        (lambda: f(q, k, v, 3, mask="none"), TypeError, "[attention] encodings: must be encodings, got 3"),
        (
            lambda: f(q, k, v, mask="none", out_dtype="float32"),
            TypeError,
            "[attention] out_dtype: must be float64, as q is, got float32",
        ),
        (
            lambda: f(*(x.astype("f2") for x in (q, k, v)), mask="none", out_dtype="float64"),
            TypeError,
            "[attention] out_dtype: must be float16, as q is, or float32, which sums are taken in, got float64",
        ),
        (
            lambda: f(torch.zeros(2, 2, requires_grad=True), k, v, mask="none"),
            TypeError,
            "[attention] q: must be a tensor without requires_grad",
        ),
        (
            lambda: f(q, k, v, mask="none", threads=-2),
            bearing.RangeError,
            "[attention] threads: must be at least 0 (0 for all)",
        ),
    ]:
        with pytest.raises(error) as caught:
            call()
        assert str(caught.value).startswith(text)


def test_a_mask_of_ones_own_may_lack_axes_and_have_extents_of_1(rng) -> None:
    q, k, v = (rng.standard_normal((2, 3, 5, 8), dtype=np.float32) for _ in range(3))
    own = rng.random((2, 3, 5, 5)) < 0.6
    for visible in (own[0, 0], own[0, :1], own[:1, 0][:, None], own[:, :, :1], own[..., :1], own[0, 0, 0], own):
        whole = np.ascontiguousarray(np.broadcast_to(visible, own.shape))
        for kind in KINDS[:2]:
            some = [as_kind(kind, x, "float32") for x in (q, k, v)]
            np.testing.assert_array_equal(
                to_numpy(bearing.attention(*some, mask="none", visible=visible)),
                to_numpy(bearing.attention(*some, mask="none", visible=whole)),
            )
    out, lse = bearing.attention(q, k, v, mask="none", visible=own[0, 0], return_lse=True)
    got = bearing.attention_backward(q, k, v, out, lse, out, mask="none", visible=own[0, 0])
    whole = np.broadcast_to(own[0, 0], own.shape)
    for a, b in zip(got[:3], bearing.attention_backward(q, k, v, out, lse, out, mask="none", visible=whole)):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(bearing.ShapeError, match=r"\[attention\] visible: must be \[batch, heads, q_len, k_len\]"):
        bearing.attention(q, k, v, mask="none", visible=own[0, 0, :, :4])
    with pytest.raises(
        bearing.ShapeError, match=r"\[attention\] visible: must be an array of at most 4 axes, got shape \[1"
    ):
        bearing.attention(q, k, v, mask="none", visible=own[None])


def test_a_table_or_a_rope_counts_as_rotary_rows_of_it(rng) -> None:
    rope = bearing.Rope(head_dim=16, pairing="half")
    dynamic = rope.replace(scaling=bearing.DynamicNtkScaling(factor=2, trained_length=8))
    for dtype in ("float32", "float64"):
        q, k, v = (rng.standard_normal((1, 2, 5, 16)).astype(dtype) for _ in range(3))
        table = bearing.RopeTable(rope, 64, dtype=dtype)
        wanted = bearing.attention(q, k, v, bearing.RotaryRows(table), mask="causal")
        for encodings in (table, rope, [table], (rope,)):
            np.testing.assert_array_equal(bearing.attention(q, k, v, encodings, mask="causal"), wanted)
        np.testing.assert_array_equal(bearing.turn(rope, q, side="key"), bearing.rotate_to(rope, q))
        np.testing.assert_array_equal(bearing.rotate_to(rope, q, 3), bearing.rotate_to(table, q, 3))
        with pytest.raises(
            TypeError, match=r"; RotaryRows\(RopeTable\(rope, length, seq_len=…\)\) makes an encoding of it"
        ):
            bearing.attention(q, k, v, dynamic, mask="causal")
        with pytest.raises(TypeError, match=r"\[rotate_to\] table: must be a RopeTable, or a Rope whose frequencies"):
            bearing.rotate_to(dynamic, q)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: bearing.T5(direction="causal"), r"T5\(.*; T5Bias\(spec, …\) makes an encoding of it"),
        (lambda: bearing.Shaw(clip=3), r"ShawTerm\(spec, …\)"),
        (lambda: bearing.resolve(bearing.Rope(head_dim=8, pairing="half")), r"RotaryRows\(RopeTable\(frequencies, len"),
        (
            lambda: bearing.Xpos(rope=bearing.Rope(head_dim=8, pairing="half")),
            r"XposRows\(XposTable\(xpos, length, seq_len=…\)\)",
        ),
    ],
)
def test_a_spec_in_place_of_an_encoding_is_refused_with_what_to_write(make, text) -> None:
    x = np.ones((1, 1, 2, 8), np.float32)
    with pytest.raises(TypeError, match=r"\[attention\] encodings: must be encodings, got .*" + text):
        bearing.attention(x, x, x, make(), mask="none")


@pytest.mark.parametrize("given", [{"mask": "causal"}, {}])
def test_arguments_of_other_libraries_are_refused_with_what_to_write(given) -> None:
    x = np.ones((1, 1, 2, 8), np.float32)
    for word, text in [
        ("is_causal", "mask='causal' or mask='none' says it"),
        ("attn_mask", "visible takes truth values"),
        ("bias", r"DenseBias\(bias=…\) among the encodings takes it"),
        ("alibi_slopes", r"AlibiBias\(slopes=…\) among the encodings takes it$"),
        ("softmax_scale", "it is scale"),
        ("q_at", "it is q_positions"),
    ]:
        with pytest.raises(TypeError, match=rf"\[attention\] has no argument {word}: .*{text}"):
            bearing.attention(x, x, x, **given, **{word: True})
    with pytest.raises(TypeError, match=r"\[linear_attention\] has no argument is_causal: mask='causal' or mask="):
        bearing.linear_attention(x, x, x, **given, is_causal=True)
    with pytest.raises(TypeError, match=r"\[attention\] has no argument nonsense$"):
        bearing.attention(x, x, x, **given, nonsense=1)


def test_truth_values_as_a_dense_bias_are_sent_to_visible() -> None:
    x = np.ones((1, 1, 2, 8), np.float32)
    bias = bearing.DenseBias(np.ones((2, 2), bool))
    with pytest.raises(TypeError, match=r"\[attention\] DenseBias.bias: must be .*attention\(\)'s visible takes truth"):
        bearing.attention(x, x, x, bias, mask="none")


@pytest.mark.parametrize("type_name", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("q_len", [1, 5, 100])
def test_a_sequence_has_its_bits_in_every_batch_layout_and_cache(type_name: str, q_len: int) -> None:
    kind, length, block = getattr(torch, type_name), 257, 16
    torch.manual_seed(0)
    blocks = -(-length // block)
    q, k, v = (
        torch.randn(3, heads, n, 64).to(kind) for heads, n in ((8, q_len), (2, blocks * block), (2, blocks * block))
    )
    spec = bearing.Rope(head_dim=64, pairing="half")
    table = bearing.RopeTable(spec, 512, dtype="float64" if type_name == "float64" else "float32")
    for encoding in (None, bearing.RotaryRows(table), bearing.AlibiBias(bearing.Alibi.published(8))):
        how = dict(encodings=encoding, mask="causal", q_positions=length - q_len)
        lengths = torch.full((3,), length)
        out = bearing.attention(q, k, v, **how, k_lengths=lengths)
        assert torch.equal(out, bearing.attention(q, k, v, **how, k_lengths=lengths, threads=2))
        one = bearing.attention(q[1:2], k[1:2], v[1:2], **how, k_lengths=lengths[:1])
        assert torch.equal(out[1:2], one)
        other = bearing.attention(*(x.transpose(1, 2) for x in (q, k, v)), **how, k_lengths=lengths, layout="bthd")
        assert torch.equal(out, other.transpose(1, 2))
        places = torch.randperm(3 * blocks)
        pages = [torch.empty(3 * blocks, 2, block, 64, dtype=kind) for _ in range(2)]
        for page, x in zip(pages, (k, v), strict=True):
            page[places] = x.unflatten(2, (blocks, block)).transpose(1, 2).flatten(0, 1)
        paged = dict(block_table=places.view(3, blocks), k_lengths=lengths)
        assert torch.equal(out, bearing.attention(q, *pages, **how, **paged))


@pytest.mark.parametrize("type_name", ["float32", "float64", "float16"])
@pytest.mark.parametrize("q_len", [1, 4, 6])
def test_a_step_over_many_keys_has_its_bits_in_every_batch_and_room(type_name: str, q_len: int) -> None:
    """The keys are cut for workers by how many are seen."""
    torch.manual_seed(0)
    lengths, kind = torch.full((20,), 4000), getattr(torch, type_name)
    q, k, v = (torch.randn(20, heads, n, 16).to(kind) for heads, n in ((4, q_len), (2, 4200), (2, 4200)))
    how = dict(encodings=bearing.AlibiBias(bearing.Alibi.published(4)), mask="causal", q_positions=4000 - q_len)
    out = bearing.attention(q, k, v, **how, k_lengths=lengths)
    for threads in (1, 2):
        alone = bearing.attention(q[1:2], k[1:2], v[1:2], **how, k_lengths=lengths[:1], threads=threads)
        assert torch.equal(out[1:2], alone)
    assert torch.equal(out, bearing.attention(q, k[:, :, :4000], v[:, :, :4000], **how))
