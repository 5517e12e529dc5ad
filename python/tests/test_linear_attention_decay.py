"""Linear attention whose state decays, against the recurrence in NumPy and the lightning attention of transformers."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import bearing
import bearing.torch as bt
import numpy as np
import pytest
import torch
import transformers
from transformers.models.minimax.modeling_minimax import MiniMaxLightningAttention

PRODUCTS = {"mask": "causal", "feature_map": "identity", "normaliser": "none"}


def recurrence(q, k, v, kept, state=None):
    """out and the last state; kept [batch, heads, time]: what each step leaves of the state."""
    batch, heads, time, dim = q.shape
    state = np.zeros((batch, heads, dim, v.shape[3])) if state is None else state
    out = []
    for t in range(time):
        state = kept[:, :, t, None, None] * state + k[:, :, t, :, None] * v[:, :, t, None, :]
        out.append(np.einsum("bhc,bhcd->bhd", q[:, :, t], state))
    return np.stack(out, axis=2), state


def inputs(time, heads=4, dim=6, value_dim=5, batch=2):
    rng = np.random.default_rng(time)
    return [rng.standard_normal((batch, heads, time, d)) for d in (dim, dim, value_dim)]


@pytest.mark.parametrize("time", [1, 31, 33, 100])
def test_retention_is_the_recurrence_of_retnet(time):
    q, k, v = inputs(time)
    kept = np.broadcast_to((1 - 2.0 ** (-5 - np.arange(4)))[None, :, None], q.shape[:3])
    wanted, end = recurrence(q, k, v, kept)
    retention = bearing.RetentionBias(bearing.Retention.published(4))
    got, (state, _) = bearing.linear_attention(q, k, v, retention, return_state=True, **PRODUCTS)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12 * time)
    np.testing.assert_allclose(state, end, rtol=0, atol=1e-12 * time)


@pytest.mark.parametrize("scaled", [False, True])
def test_retention_of_rows_that_turn_is_retnets_parallel_form(scaled):
    """Neighbours are a complex number that its position turns, and xPos scales too; RetNet's own code turns alone."""
    q, k, v = inputs(33)
    at, axis = np.arange(33), np.arange(3)
    turn = np.exp(1j * np.outer(at, 10_000.0 ** (-axis / 3)))
    scale = ((axis / 3 + 0.4) / 1.4) ** (at[:, None] / 512) if scaled else 1.0
    q_turned = (q[..., 0::2] + 1j * q[..., 1::2]) * turn * scale
    k_turned = (k[..., 0::2] + 1j * k[..., 1::2]) * turn / scale
    gamma = (1 - 2.0 ** (-5 - np.arange(4)))[:, None, None]
    scores = np.einsum("bhic,bhjc->bhij", q_turned, k_turned.conj()).real
    wanted = np.tril(scores * gamma ** np.maximum(at[:, None] - at, 0)) @ v

    rope = bearing.Rope(head_dim=6, pairing="interleaved")
    rows = bearing.RotaryRows(bearing.RopeTable(rope, 33, dtype="float64"))
    if scaled:
        rows = bearing.XposRows(bearing.XposTable(bearing.Xpos(rope=rope), 33, dtype="float64"))
    decay = bearing.RetentionBias(bearing.Retention.published(4))
    got = bearing.linear_attention(q, k, v, [rows, decay], **PRODUCTS)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-11)


@pytest.mark.parametrize("time", [1, 31, 33, 100])
def test_forgetting_gates_the_state(time):
    q, k, v = inputs(time)
    gates = -np.random.default_rng(5).exponential(0.3, q.shape[:3])
    gates[:, :, ::7] = -800  # nothing is kept
    start = np.random.default_rng(6).standard_normal((2, 4, 6, 5))
    wanted, end = recurrence(q, k, v, np.exp(gates), start)
    got, (state, _) = bearing.linear_attention(
        q, k, v, bearing.ForgettingBias(gates), state=(start, np.zeros((2, 4, 6))), return_state=True, **PRODUCTS
    )
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12 * time)
    np.testing.assert_allclose(state, end, rtol=0, atol=1e-12 * time)


def test_pieces_give_what_one_call_gives():
    q, k, v = inputs(70)
    retention = bearing.RetentionBias(bearing.Retention.published(4))
    whole = bearing.linear_attention(q, k, v, retention, **PRODUCTS)
    state, outs = None, []
    for first, end in [(0, 1), (1, 40), (40, 70)]:
        piece = [x[:, :, first:end] for x in (q, k, v)]
        out, state = bearing.linear_attention(
            *piece, retention, q_positions=first, k_positions=first, state=state, return_state=True, **PRODUCTS
        )
        outs.append(out)
    np.testing.assert_allclose(np.concatenate(outs, axis=2), whole, rtol=0, atol=1e-11)


def lightning(layer: int, layers: int) -> MiniMaxLightningAttention:
    torch.manual_seed(layer)
    config = transformers.MiniMaxConfig(
        hidden_size=32,
        num_attention_heads=4,
        head_dim=8,
        num_hidden_layers=layers,
        block_size=16,
        layer_types=["linear_attention"] * layers,
    )
    return MiniMaxLightningAttention(config, layer)


@pytest.mark.parametrize(("layer", "layers"), [(0, 1), (0, 4), (2, 4), (3, 4), (63, 80)])
def test_lightning_rates_are_those_of_minimax(layer, layers):
    theirs = lightning(layer, layers).slope_rate.flatten().numpy()
    ours = bearing.Retention.lightning(4, layer, layers).rates
    np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=1e-7)  # they are float32 there


@pytest.mark.parametrize("time", [5, 16, 41])
def test_lightning_attention_agrees_with_minimax(time):
    """Its projections and norm stand around ours in place of its own attention: outputs and gradients."""
    model = lightning(1, 3).double()
    rates = model.slope_rate.flatten().double().clone()
    # Its factors were rounded to float32 when it was made: they are worked out again from the same rates.
    factors = model.decay_factors(model.slope_rate.double())
    model.query_decay, model.key_decay, model.diagonal_decay = factors
    x = torch.randn(2, time, 32, dtype=torch.float64, requires_grad=True)
    theirs, state = model(x, None, None)

    qkv = model.act_fn(model.qkv_proj(x)).reshape(2, time, 4, 24).transpose(1, 2)
    q, k, v = qkv.split(8, dim=3)
    out, (ours_state, _) = bt.linear_attention(
        q, k, v, bearing.RetentionBias(rates=rates), return_state=True, **PRODUCTS
    )
    out = model.norm(out.transpose(1, 2).reshape(2, time, 32))
    ours = model.out_proj(torch.sigmoid(model.output_gate(x)) * out)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(ours_state, state, rtol=1e-10, atol=1e-12)
    weights = torch.randn_like(ours)
    for a, b in zip(
        torch.autograd.grad((ours * weights).sum(), [x, model.qkv_proj.weight]),
        torch.autograd.grad((theirs * weights).sum(), [x, model.qkv_proj.weight]),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_rates_and_gates_have_the_gradients_of_the_recurrence():
    q, k, v = (torch.from_numpy(x) for x in inputs(40, heads=2))
    start = torch.randn(2, 2, 6, 5, dtype=torch.float64)
    rates = torch.tensor([0.05, 0.4], dtype=torch.float64, requires_grad=True)
    gates = torch.nn.functional.logsigmoid(torch.randn(2, 2, 40, dtype=torch.float64)).requires_grad_()
    for given, encoding, log in [
        (rates, lambda: bearing.RetentionBias(rates=rates), lambda t: -rates[None]),
        (gates, lambda: bearing.ForgettingBias(gates), lambda t: gates[:, :, t]),
    ]:
        state, outs = start, []
        for t in range(40):
            state = log(t).exp()[..., None, None] * state + k[:, :, t, :, None] * v[:, :, t, None, :]
            outs.append(torch.einsum("bhc,bhcd->bhd", q[:, :, t], state))
        theirs = torch.stack(outs, dim=2)
        ours, (end, _) = bt.linear_attention(
            q, k, v, encoding(), state=(start, torch.zeros(2, 2, 6).double()), return_state=True, **PRODUCTS
        )
        weights, end_weights = torch.randn_like(theirs), torch.randn_like(state)
        (wanted,) = torch.autograd.grad((theirs * weights).sum() + (state * end_weights).sum(), [given])
        (got,) = torch.autograd.grad((ours * weights).sum() + (end * end_weights).sum(), [given])
        torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-9)


def test_what_cannot_be_served_is_refused_by_name():
    q, k, v = inputs(4)
    retention = bearing.RetentionBias(bearing.Retention.published(4))
    with pytest.raises(bearing.RangeError, match=r"mask: must be a causal one if the state decays .*, got none"):
        bearing.linear_attention(q, k, v, retention, **PRODUCTS | {"mask": "none"})
    gates, pope = bearing.GatedDecayTerm(np.zeros((2, 4, 4, 12))), bearing.PopeRows(bearing.Pope(head_dim=6))
    with pytest.raises(
        bearing.ShapeError, match=r"normaliser: must be none .*, got sum for rows of 12 and features of 6"
    ):
        bearing.linear_attention(q, k, v, [pope, gates], mask="causal")
    with pytest.raises(bearing.ShapeError, match=r"Retention.rates: must be one for each of 4 heads, got 3"):
        bearing.linear_attention(q, k, v, bearing.RetentionBias(bearing.Retention.published(3)), **PRODUCTS)
    with pytest.raises(bearing.RangeError, match=r"rates: must be finite and at least 0, got -1"):
        bearing.linear_attention(q, k, v, bearing.RetentionBias(bearing.Retention(rates=[-1.0] * 4)), **PRODUCTS)
