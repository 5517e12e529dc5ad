"""Values that turn, and their sum that turns back: one call does what a model does by hand."""

from __future__ import annotations

import pickle

import bearing
import numpy as np
import pytest

HEADS, DIM, TIME = 4, 16, 9
ROPE = bearing.Rope(head_dim=DIM, rotary_dim=8, pairing="interleaved", part=bearing.RotaryPart(where="last"))
# Eleven tokens of a window, and compressed keys, each of which stands at its first token.
K_POSITIONS = np.concatenate([np.arange(11), 4 * np.arange(3)])
Q_POSITIONS = 2 + np.arange(TIME)


@pytest.fixture
def rows(rng):
    """q, and keys that are values."""
    return rng.standard_normal((1, HEADS, TIME, DIM)), rng.standard_normal((1, 1, len(K_POSITIONS), DIM))


@pytest.fixture
def table():
    return bearing.RopeTable(ROPE, 32, dtype="float64")


def both(table):
    return [bearing.RotaryRows(table), bearing.RotaryValues(table)]


def visible():
    """A window of plain keys, and the compressed ones that are complete."""
    plain = (K_POSITIONS[None, :11] <= Q_POSITIONS[:, None]) & (K_POSITIONS[None, :11] > Q_POSITIONS[:, None] - 5)
    complete = K_POSITIONS[None, 11:] + 4 <= Q_POSITIONS[:, None] + 1
    return np.broadcast_to(np.concatenate([plain, complete], axis=1), (1, HEADS, TIME, len(K_POSITIONS)))


def attend(q, kv, encodings, **options):
    return bearing.attention(
        q,
        kv,
        kv,
        encodings,
        mask="none",
        visible=visible(),
        q_positions=Q_POSITIONS,
        k_positions=K_POSITIONS,
        **options,
    )


def by_hand(q, kv, table):
    """In NumPy alone, apart from the rotation."""
    turned = bearing.rotate_to(table, kv, K_POSITIONS)
    s = bearing.rotate_to(table, q, Q_POSITIONS) @ turned.swapaxes(-1, -2) / DIM**0.5
    s = np.where(visible(), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return bearing.rotate_backward_to(table, (p / p.sum(-1, keepdims=True)) @ turned, Q_POSITIONS)


def test_one_call_does_what_a_model_does_by_hand(rows, table):
    q, kv = rows
    got = attend(q, kv, both(table))
    np.testing.assert_allclose(got, by_hand(q, kv, table), rtol=0, atol=1e-14)
    assert np.abs(got - attend(q, kv, [bearing.RotaryRows(table)])).max() > 0.1  # and it does something


def test_a_decode_step_is_the_last_row(rows, table):
    q, kv = rows
    last = bearing.attention(
        q[:, :, -1:],
        kv,
        kv,
        both(table),
        mask="none",
        visible=visible()[:, :, -1:],
        q_positions=Q_POSITIONS[-1:],
        k_positions=K_POSITIONS,
    )
    np.testing.assert_allclose(last, attend(q, kv, both(table))[:, :, -1:], rtol=0, atol=1e-14)


def test_it_is_pickled_and_says_what_it_is(table):
    values = bearing.RotaryValues(table)
    assert "RotaryValues" in repr(values)
    again = pickle.loads(pickle.dumps(values))
    q = np.random.default_rng(1).standard_normal((1, 1, 3, DIM))
    assert np.array_equal(*(bearing.attention(q, q, q, one, mask="causal", q_positions=5) for one in (values, again)))


def test_wrong_calls_say_what_must_hold(rows, table):
    q, kv = rows
    with pytest.raises(TypeError, match=r"\[RotaryValues\] table: must be a RopeTable, got None"):
        bearing.RotaryValues(None)
    with pytest.raises(bearing.ShapeError, match=r"RotaryValues.head_dim: must be the last extent of v, 12, got 16"):
        bearing.attention(q, kv, kv[..., :12], bearing.RotaryValues(table), mask="none")
    with pytest.raises(bearing.ShapeError, match="must not turn values, as only probabilities are given here"):
        weights, out = np.zeros((1, HEADS, TIME, TIME)), np.zeros((1, HEADS, TIME, DIM))
        bearing.add_values(bearing.RotaryValues(table), weights, out)
    with pytest.raises(TypeError, match="RotaryValues.table: must be float32"):
        bearing.attention(*(x.astype(np.float32) for x in (q, q, q)), bearing.RotaryValues(table), mask="none")


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_pytorch_has_the_same_numbers_and_their_gradients(rows, dtype):
    torch = pytest.importorskip("torch")
    import bearing.torch as bt

    narrow = getattr(torch, dtype)
    arithmetic = "float64" if dtype == "float64" else "float32"
    encodings = both(bearing.RopeTable(ROPE, 32, dtype=arithmetic))
    q, kv = (torch.tensor(x).to(narrow).requires_grad_() for x in rows)
    place = {
        "mask": "none",
        "visible": torch.tensor(visible().copy()),
        "q_positions": torch.tensor(Q_POSITIONS),
        "k_positions": torch.tensor(K_POSITIONS),
    }
    out = bt.attention(q, kv, kv, encodings, **place)
    exact = by_hand(*(x.detach().double().numpy() for x in (q, kv)), bearing.RopeTable(ROPE, 32, dtype="float64"))
    # Outputs are below 3: half a unit of bfloat16 there is 2^-8, and float is good to some 2^-21.
    bound = {"float64": 1e-13, "float32": 2.0**-19, "bfloat16": 2.0**-7}[dtype]
    np.testing.assert_allclose(out.detach().double().numpy(), exact, rtol=0, atol=bound)
    if dtype != "float64":
        return
    assert torch.autograd.gradcheck(lambda q, kv: bt.attention(q, kv, kv, encodings, **place), (q, kv))


def test_pytorch_compiles_it(rows, table):
    torch = pytest.importorskip("torch")
    import bearing.torch as bt

    q, kv = (torch.tensor(x) for x in rows)
    encodings = [bt.encoding_of(one) for one in both(table)]
    call = lambda q, kv: bt.attention(q, kv, kv, encodings, mask="none", k_positions=0)
    assert torch.equal(torch.compile(call, fullgraph=True, backend="aot_eager")(q, kv), call(q, kv))


def test_jax_has_the_same_numbers_and_their_gradients(rows, table):
    jax = pytest.importorskip("jax")
    import bearing.jax as bj
    from jax.test_util import check_grads

    with jax.enable_x64(True):
        q, kv = (jax.numpy.asarray(x) for x in rows)
        place = {"mask": "none", "visible": jax.numpy.asarray(visible())}
        at = {"q_positions": jax.numpy.asarray(Q_POSITIONS), "k_positions": jax.numpy.asarray(K_POSITIONS)}
        call = lambda q, kv: bj.attention(q, kv, kv, both(table), **place, **at)
        np.testing.assert_allclose(jax.jit(call)(q, kv), by_hand(*rows, table), rtol=0, atol=1e-14)
        check_grads(call, (q, kv), order=1, modes=["rev"])
