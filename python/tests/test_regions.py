"""Regions of one softmax, against dense programs of the papers' formulas."""

from __future__ import annotations

import copy
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


EXAMPLES = [
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


@pytest.mark.parametrize(("regions", "distance_of"), EXAMPLES, ids=lambda x: repr(x) if hasattr(x, "to_dict") else "")
def test_attention_in_regions_is_the_papers_formula(regions, distance_of):
    q, k, v = tensors()
    out = bearing.attention(q, k, v, ROPE, mask="causal", regions=regions)
    np.testing.assert_allclose(out, dense(q, k, v, distance_of), atol=1e-12)
    plain = bearing.attention(q, k, v, ROPE, mask="causal")
    assert np.abs(out - plain).max() > 1e-3
    step = bearing.attention(q[:, :, -1:], k, v, ROPE, mask="causal", regions=regions, q_positions=TIME - 1)
    np.testing.assert_allclose(step, out[:, :, -1:], atol=1e-12)


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
        assert type(regions).from_dict(regions.to_dict()) == regions
    assert repr(bearing.ReRope(window=4)) == "ReRope(window=4, step=0.0)"


def test_wrong_regions_are_refused_by_name():
    q, k, v = tensors()
    with pytest.raises(TypeError, match=r"\[attention\] regions: must be a DualChunk, a SelfExtend, a ReRope or None"):
        bearing.attention(q, k, v, ROPE, mask="causal", regions="dual chunk")
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
