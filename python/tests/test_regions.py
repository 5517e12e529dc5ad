"""Regions of one softmax, against dense programs of the papers' formulas."""

from __future__ import annotations

import copy
import json
import pickle

import bearing
import numpy as np
import pytest

HEADS, KV_HEADS, TIME, DIM = 4, 2, 61, 8
SPEC = bearing.Rope(head_dim=DIM, base=100.0, pairing="half")
ROPE = bearing.RotaryRows(bearing.RopeTable(SPEC, 64, dtype="float64"))
NARROW = bearing.RotaryRows(bearing.RopeTable(SPEC, 64))


def self_extend(m, n, group, window):
    return np.where(m - n < window, m - n, (m // group + window - window // group) - n // group)


def rerope(m, n, window, step):
    return np.where(m - n < window, m - n, window + step * (m - n - window))


def dual_chunk(m, n, chunk, local):
    s = chunk - local
    apart = m // s - n // s
    query = np.where(apart <= 0, m % s, np.where(apart == 1, np.minimum(m % s + s, chunk), min(2 * s - 1, chunk)))
    return query - n % s


OWN = [
    bearing.Region(band=bearing.DistanceBand(end=8)),
    bearing.Region(
        band=bearing.DistanceBand(begin=8), q=bearing.Placing(step=0.5, offset=4.0), k=bearing.Placing(step=0.5)
    ),
]
FAR = [
    bearing.Region(band=bearing.DistanceBand(end=5)),
    bearing.Region(
        band=bearing.DistanceBand(begin=5, end=20), q=bearing.Placing(group=2, offset=3.0), k=bearing.Placing(group=2)
    ),
    bearing.Region(
        band=bearing.DistanceBand(begin=20), q=bearing.Placing(period=1, offset=25.0), k=bearing.Placing(most=3.0)
    ),
]


def far(m, n):
    near, groups = np.where(m - n < 5, m - n, 0), m // 2 + 3 - n // 2
    return np.where(m - n < 5, near, np.where(m - n < 20, groups, 25 - np.minimum(n, 3)))


def named(one):
    """How a case is called. A function's address differs from process to process, and says nothing."""
    return repr(one) if hasattr(one, "to_dict") else ""


EXAMPLES = [
    (OWN, lambda m, n: np.where(m - n < 8, m - n, 4 + (m - n) / 2)),
    (FAR, far),
    (bearing.SelfExtend(group=3, window=10), lambda m, n: self_extend(m, n, 3, 10)),
    (bearing.SelfExtend(group=4, window=0), lambda m, n: self_extend(m, n, 4, 0)),
    (bearing.ReRope(window=7), lambda m, n: rerope(m, n, 7, 0)),
    (bearing.ReRope(window=7, step=0.25), lambda m, n: rerope(m, n, 7, 0.25)),
    (bearing.DualChunk(chunk_size=16, local_size=5), lambda m, n: dual_chunk(m, n, 16, 5)),
]


def tensors(q_len=TIME, dtype=np.float64):
    rng = np.random.default_rng(3)
    make = lambda heads, time: rng.standard_normal((2, heads, time, DIM)).astype(dtype)
    return make(HEADS, q_len), make(KV_HEADS, TIME), make(KV_HEADS, TIME)


def dense(q, k, v, distance_of, first=0):
    """Attention whose scores are q, turned by the distance's angle, times k."""
    m, n = first + np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
    k, v = (np.repeat(x, HEADS // KV_HEADS, axis=1) for x in (k, v))
    angle = distance_of(m, n)[..., None] * 100.0 ** (-np.arange(DIM // 2) / (DIM // 2))
    turn = np.exp(1j * angle)  # a pair is a complex number: its product with the key's conjugate turns by the distance
    pairs = lambda x: x[..., : DIM // 2] + 1j * x[..., DIM // 2 :]
    scores = np.einsum("bhid,bhjd,ijd->bhij", pairs(q), pairs(k).conj(), turn).real / np.sqrt(DIM)
    scores = np.where(n > m, -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize(("regions", "distance_of"), EXAMPLES, ids=named)
def test_attention_in_regions_is_the_papers_formula(regions, distance_of):
    q, k, v = tensors()
    out = bearing.attention(q, k, v, ROPE, mask="causal", regions=regions)
    np.testing.assert_allclose(out, dense(q, k, v, distance_of), atol=1e-12)
    plain = bearing.attention(q, k, v, ROPE, mask="causal")
    assert np.abs(out - plain).max() > 1e-3
    step = bearing.attention(q[:, :, -1:], k, v, ROPE, mask="causal", regions=regions, q_positions=TIME - 1)
    np.testing.assert_allclose(step, out[:, :, -1:], atol=1e-12)


ALIBI = bearing.AlibiBias(bearing.Alibi.published(HEADS))


def test_regions_without_an_encoding_that_they_turn_are_refused():
    q, k, v = tensors(dtype=np.float32)
    for encodings in (None, ALIBI):
        with pytest.raises(
            bearing.RangeError, match="encodings: must have one that turns queries and keys, as RoPE does"
        ):
            bearing.attention(q, k, v, encodings, mask="causal", regions=bearing.ReRope(window=4))


BANDS = [
    (bearing.DistanceBand(begin=0, end=1, chunk=7), lambda m, n: m // 7 == n // 7),
    (bearing.DistanceBand(begin=0, end=3, chunk=7), lambda m, n: (m // 7 >= n // 7) & (m // 7 - n // 7 < 3)),
    (bearing.DistanceBand(begin=5), lambda m, n: m - n >= 5),
    (bearing.DistanceBand(begin=-2, end=9), lambda m, n: (m - n >= -2) & (m - n < 9)),
]
PLACES = np.arange(TIME)
WRONG_BANDS = [
    ({"band": 7}, r"\[attention\] band: must be a DistanceBand or None, got 7"),
    ({"band": BANDS[0][0], "regions": bearing.ReRope(window=4)}, r"band: must be (None|empty), as each region has its own|"
     r"band: must be None beside regions"),
]  # fmt: skip


@pytest.mark.parametrize(("band", "sees"), BANDS, ids=named)
def test_a_band_hides_what_lies_outside_of_it(band, sees):
    q, k, v = tensors(dtype=np.float32)
    visible = sees(PLACES[:, None], PLACES)
    for mask in ("none", "causal", "causal_bottom_right"):
        how = dict(mask=mask, return_lse=True)
        found, wanted = (
            bearing.attention(q, k, v, ALIBI, **how, **one) for one in ({"band": band}, {"visible": visible})
        )
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)
        d_found, d_wanted = (
            bearing.attention_backward(q, k, v, *wanted, wanted[0], ALIBI, mask=mask, **one)[:3]
            for one in ({"band": band}, {"visible": visible})
        )
        for a, b in zip(d_found, d_wanted, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)
    step = bearing.attention(q[:, :, -1:], k, v, mask="causal", band=band, q_positions=TIME - 1)
    whole = bearing.attention(q, k, v, mask="causal", visible=visible)
    np.testing.assert_allclose(step, whole[:, :, -1:], atol=1e-6)


@pytest.mark.parametrize(("given", "text"), WRONG_BANDS)
def test_wrong_bands_are_refused(given, text):
    q, k, v = tensors(dtype=np.float32)
    for attention in (bearing.attention, bj.attention, lambda *x, **rest: bt.attention(*map(torch.tensor, x), **rest)):
        with pytest.raises((TypeError, bearing.RangeError), match=text):
            attention(q, k, v, mask="causal", **given)


def test_regions_beyond_the_text_change_no_bit():
    q, k, v = tensors(dtype=np.float32)
    plain = bearing.attention(q, k, v, NARROW, mask="causal")
    for regions in (
        bearing.SelfExtend(group=9, window=TIME),
        bearing.ReRope(window=TIME),
        bearing.DualChunk(chunk_size=TIME + 4, local_size=4),
    ):
        assert np.array_equal(bearing.attention(q, k, v, NARROW, mask="causal", regions=regions), plain)


def test_specs_are_values():
    for regions, _ in EXAMPLES:
        assert pickle.loads(pickle.dumps(regions)) == regions == copy.copy(regions)
        for one in regions if isinstance(regions, list) else [regions]:
            assert type(one).from_dict(one.to_dict()) == one
    assert repr(bearing.ReRope(window=4)) == "ReRope(window=4, step=0.0)"


def test_wrong_regions_are_refused_by_name():
    q, k, v = tensors()
    with pytest.raises(TypeError, match=r"\[attention\] regions: must be a DualChunk, a SelfExtend, a ReRope, a list"):
        bearing.attention(q, k, v, ROPE, mask="causal", regions="dual chunk")
    for regions in ([], [OWN[0], "far"]):
        with pytest.raises(TypeError, match=r"regions: must be .*, a list of Region or None"):
            bearing.attention(q, k, v, ROPE, mask="causal", regions=regions)
    backwards = [bearing.DistanceBand(end=5), bearing.DistanceBand(begin=5, end=3), bearing.DistanceBand(begin=3)]
    with pytest.raises(bearing.RangeError, match=r"regions: must end no earlier than they begin, got 5 to 3"):
        bearing.attention(q, k, v, ROPE, mask="causal", regions=[bearing.Region(band=one) for one in backwards])
    with pytest.raises(bearing.RangeError, match=r"regions: must leave no hole: the last band has no end, got 8"):
        bearing.attention(q, k, v, ROPE, mask="causal", regions=OWN[:1])
    with pytest.raises(bearing.RangeError, match=r"\[SelfExtend\] group: must be from 1 to 2\^31, got 0"):
        bearing.attention(q, k, v, ROPE, mask="causal", regions=bearing.SelfExtend(group=0, window=4))
    with pytest.raises(TypeError, match="window"):
        bearing.SelfExtend(group=2)


torch = pytest.importorskip("torch")
import bearing.torch as bt  # noqa: E402


@pytest.mark.parametrize("regions", [one for one, _ in EXAMPLES], ids=repr)
def test_pytorch_has_the_gradients(regions):
    torch.manual_seed(1)
    table = torch.rand(8, HEADS, dtype=torch.float64, requires_grad=True)
    t5 = bearing.T5(buckets=8, max_distance=32, direction="causal")
    sinks = torch.rand(HEADS, dtype=torch.float64, requires_grad=True)
    inputs = [torch.tensor(x[:1, :, :24], requires_grad=True) for x in tensors()]

    def run(q, k, v, table, sinks):
        encodings = [ROPE, bearing.T5Bias(t5, table)]
        return bt.attention(q, k, v, encodings, mask="causal", sinks=sinks, regions=regions, return_lse=True)

    assert torch.autograd.gradcheck(run, (*inputs, table, sinks), atol=1e-6, fast_mode=True)


@pytest.mark.parametrize(("band", "sees"), BANDS, ids=named)
def test_pytorch_takes_a_band(band, sees):
    visible = torch.tensor(sees(PLACES[:24, None], PLACES[:24]))
    inputs = [torch.tensor(x[:1, :, :24], requires_grad=True) for x in tensors()]
    run = lambda *x, **given: bt.attention(*x, mask="none", **given)
    text = json.dumps(band.to_dict())
    compiled = torch.compile(lambda *x: run(*x, band=text), fullgraph=True, backend="aot_eager")
    for out in (run(*inputs, band=band), run(*inputs, band=text), compiled(*inputs)):
        torch.testing.assert_close(out, run(*inputs, visible=visible))
    assert torch.autograd.gradcheck(lambda *x: run(*x, band=band), inputs, fast_mode=True)
    layer = bt.MultiHeadAttention(32, 4, mask="causal", band=band)
    x = torch.randn(1, 24, 32)
    torch.testing.assert_close(torch.compile(layer, fullgraph=True, backend="aot_eager")(x), layer(x))
    assert torch.equal(copy.deepcopy(layer)(x), layer(x))
    there = inputs[0].float().to("meta")
    assert bt.plan(there, there, there, mask="causal", band=band).path == "triton"


TEXTS_OF_BANDS = (json.dumps(BANDS[0][0].to_dict()), " " + json.dumps(BANDS[1][0].to_dict()))
TEXT_OF_REGIONS = json.dumps(bearing.ReRope(window=4).to_dict())
WRONG_TEXTS = [
    ("regions", TEXTS_OF_BANDS[0]), ("regions", "[]"), ("regions", "7"), ("regions", '{"window": 4}'),
    ("regions", json.dumps(SPEC.to_dict())), ("regions", '{"type": "Near"}'), ("band", TEXT_OF_REGIONS), ("band", ""),
    ("band", '{"DistanceBand"'), ("band", '{"type": "DistanceBand", "end": "far"}'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), WRONG_TEXTS)
def test_a_text_of_something_else_is_refused(name, text):
    q = torch.tensor(tensors(dtype=np.float32)[0])
    for function, call in [
        ("attention", lambda: bt.attention(q, q, q, mask="causal", **{name: text})),
        ("Attention", lambda: bt.Attention(mask="causal", **{name: text})),
        ("plan", lambda: bt.plan(*[q.to("meta")] * 3, mask="causal", **{name: text})),
    ]:
        with pytest.raises(
            ValueError, match=rf"^\[{function}\] {name}: must be JSON of a .* to_dict\(\) as a text, got "
        ):
            call()
    layer = bt.Attention(mask="causal", band=TEXTS_OF_BANDS[1])
    assert torch.equal(layer(q, q, q), bt.attention(q, q, q, mask="causal", band=BANDS[1][0]))


def test_a_compiled_module_has_the_same_numbers():
    torch.manual_seed(1)
    rope = bt.Rope(bearing.Rope(head_dim=DIM, pairing="half"))
    layer = bt.MultiHeadAttention(32, 4, [rope], mask="causal", regions=bearing.SelfExtend(group=4, window=6))
    plain = bt.MultiHeadAttention(32, 4, [rope], mask="causal")
    plain.load_state_dict(layer.state_dict())
    x = torch.randn(1, 40, 32)
    out = layer(x)
    assert not torch.allclose(out, plain(x), atol=1e-4)
    assert torch.allclose(out[:, :6], plain(x)[:, :6], atol=1e-6)
    assert torch.allclose(torch.compile(layer, fullgraph=True)(x), out, atol=1e-6)
    assert torch.equal(copy.deepcopy(layer)(x), out)


import bearing.jax as bj  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

jax.config.update("jax_enable_x64", True)


@pytest.mark.parametrize("regions", [one for one, _ in EXAMPLES], ids=repr)
def test_jax_has_the_numbers_and_gradients_of_bearing(regions):
    rng = np.random.default_rng(5)
    q, k, v = (jnp.asarray(x) for x in tensors())
    table, sinks = rng.standard_normal((8, HEADS)), rng.standard_normal(HEADS)
    t5 = bearing.T5(buckets=8, max_distance=32, direction="causal")
    given = [ROPE, bearing.T5Bias(t5, table)]
    how = dict(mask="causal", regions=regions)
    out, lse = bearing.attention(q, k, v, given, sinks=sinks, return_lse=True, **how)

    @jax.jit
    def run(q, k, v, encodings, sinks):
        return bj.attention(q, k, v, encodings, sinks=sinks, return_lse=True, **how)

    got, pull_back = jax.vjp(run, q, k, v, given, jnp.asarray(sinks))
    np.testing.assert_array_equal(got[0], out)
    np.testing.assert_array_equal(got[1], lse)
    d_out, d_lse = rng.standard_normal(out.shape), rng.standard_normal(lse.shape)
    d_q, d_k, d_v, d_parameters, d_sinks = bearing.attention_backward(
        q, k, v, out, lse, d_out, given, sinks=sinks, d_lse=d_lse, **how
    )
    grads = pull_back((jnp.asarray(d_out), jnp.asarray(d_lse)))
    for one, wanted in zip(grads[:3], (d_q, d_k, d_v), strict=True):
        np.testing.assert_array_equal(one, wanted)
    np.testing.assert_array_equal(grads[3][1].parameters["table"], d_parameters[1]["table"])
    np.testing.assert_array_equal(grads[4], d_sinks)


@pytest.mark.parametrize(("band", "sees"), BANDS, ids=named)
def test_jax_takes_a_band(band, sees):
    q, k, v = (jnp.asarray(x) for x in tensors())
    visible = sees(PLACES[:, None], PLACES)
    run = lambda given: jax.jit(jax.grad(lambda q: (bj.attention(q, k, v, mask="causal", **given) ** 2).sum()))(q)
    np.testing.assert_allclose(run({"band": band}), run({"visible": visible}), atol=1e-12)


def test_jax_maps_over_regions_and_refuses_what_are_none():
    q, k, v = (jnp.stack([jnp.asarray(x), -jnp.asarray(x)]) for x in tensors())
    run = lambda q, k, v: bj.attention(q, k, v, ROPE, mask="causal", regions=OWN)
    mapped = jax.jit(jax.vmap(run))(q, k, v)
    for one in range(2):
        np.testing.assert_allclose(mapped[one], run(q[one], k[one], v[one]), atol=1e-12)
    with pytest.raises(TypeError, match=r"\[attention\] regions: must be .*, a list of Region or None"):
        bj.attention(q[0], k[0], v[0], ROPE, mask="causal", regions="far")
    with pytest.raises(Exception, match=r"must leave no hole: the last band has no end, got 8"):
        jax.block_until_ready(bj.attention(q[0], k[0], v[0], ROPE, mask="causal", regions=OWN[:1]))
