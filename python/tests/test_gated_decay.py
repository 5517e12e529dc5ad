"""Gates for each token and channel of the state, against the recurrence of gated linear attention in NumPy."""

from __future__ import annotations

import bearing
import bearing.jax as bj
import bearing.torch as bt
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

jax.config.update("jax_enable_x64", True)

PRODUCTS = {"mask": "causal", "feature_map": "identity", "normaliser": "none"}
FEATURES = {"mask": "causal"}


def inputs(time, heads=2, dim=6, value_dim=5, batch=2):
    rng = np.random.default_rng(time)
    tensors = [rng.standard_normal((batch, heads, time, d)) for d in (dim, dim, value_dim)]
    return [*tensors, -rng.exponential(0.3, (batch, heads, time, dim))]


def feature(x):
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def recurrence(q, k, v, gates, state=None, divided=False):
    """out and the last state, token by token."""
    batch, heads, time, dim = q.shape
    s, z = state or (np.zeros((batch, heads, dim, v.shape[3])), np.zeros((batch, heads, dim)))
    if divided:
        q, k = feature(q), feature(k)
    out = []
    for t in range(time):
        kept = np.exp(gates[:, :, t])
        s = kept[..., None] * s + k[:, :, t, :, None] * v[:, :, t, None, :]
        z = kept * z + k[:, :, t]
        o = np.einsum("bhc,bhcd->bhd", q[:, :, t], s)
        out.append(o / np.einsum("bhc,bhc->bh", q[:, :, t], z)[..., None] if divided else o)
    return np.stack(out, axis=2), (s, z)


@pytest.mark.parametrize("how", [PRODUCTS, FEATURES], ids=["products", "divided"])
@pytest.mark.parametrize("time", [1, 31, 33, 100])
def test_the_state_decays_channel_by_channel(time, how):
    q, k, v, gates = inputs(time)
    gates[:, :, 6::7, :3] = -np.inf  # nothing is kept
    rng = np.random.default_rng(1)
    start = rng.standard_normal((2, 2, 6, 5)), rng.uniform(0, 1, (2, 2, 6))
    wanted, (s, z) = recurrence(q, k, v, gates, start, divided=how is FEATURES)
    got, (s_end, z_end) = bearing.linear_attention(
        q, k, v, bearing.GatedDecayTerm(gates), state=start, return_state=True, **how
    )
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12 * time)
    np.testing.assert_allclose(s_end, s, rtol=0, atol=1e-12 * time)
    if how is FEATURES:
        np.testing.assert_allclose(z_end, z, rtol=0, atol=1e-12 * time)


@pytest.mark.parametrize("how", [PRODUCTS, FEATURES], ids=["products", "divided"])
def test_decoding_token_by_token_gives_what_one_call_gives(how):
    q, k, v, gates = inputs(40)
    whole = bearing.linear_attention(q, k, v, bearing.GatedDecayTerm(gates), **how)
    state, outs = None, []
    for t in range(40):
        one = [x[:, :, t : t + 1] for x in (q, k, v)]
        out, state = bearing.linear_attention(
            *one, bearing.GatedDecayTerm(gates[:, :, t : t + 1].copy()), state=state, return_state=True, **how
        )
        outs.append(out)
    np.testing.assert_allclose(np.concatenate(outs, axis=2), whole, rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    "make",
    [
        lambda gates: (bearing.ForgettingBias(gates[..., 0].copy()), gates[..., :1]),
        lambda gates: (
            bearing.RetentionBias(bearing.Retention(rates=[0.1, 0.4])),
            np.array([-0.1, -0.4])[:, None, None],
        ),
    ],
    ids=["forgetting", "retention"],
)
def test_other_decays_divide_by_the_sum_of_their_weights_too(make):
    q, k, v, gates = inputs(70)
    encoding, alike = make(gates)
    wanted, _ = recurrence(q, k, v, np.broadcast_to(alike, gates.shape), divided=True)
    np.testing.assert_allclose(bearing.linear_attention(q, k, v, encoding, **FEATURES), wanted, rtol=0, atol=1e-11)


@pytest.mark.parametrize("how", [PRODUCTS, FEATURES], ids=["products", "divided"])
def test_pytorch_has_the_gradients(how):
    torch.manual_seed(1)
    q, k, v, gates = (torch.tensor(x[:1, :, :6], requires_grad=True) for x in inputs(40, dim=3, value_dim=2))
    start = (torch.rand(1, 2, 3, 2).double().requires_grad_(), torch.rand(1, 2, 3).double().requires_grad_())

    def run(q, k, v, gates, s, z):
        encoding = bearing.GatedDecayTerm(gates)
        out, end = bt.linear_attention(q, k, v, encoding, state=(s, z), return_state=True, **how)
        return out, end[0]

    assert torch.autograd.gradcheck(run, (q, k, v, gates, *start), atol=1e-7)


@pytest.mark.parametrize("how", [PRODUCTS, FEATURES], ids=["products", "divided"])
def test_jax_has_the_gradients_of_its_own_recurrence(how):
    divided = how is FEATURES

    def theirs(q, k, v, gates):
        if divided:
            q, k = jax.nn.elu(q) + 1, jax.nn.elu(k) + 1

        def step(state, now):
            q, k, v, gates = now
            s, z = state
            s = jnp.exp(gates)[:, None] * s + k[:, None] * v[None, :]
            z = jnp.exp(gates) * z + k
            return (s, z), (q @ s / (q @ z) if divided else q @ s)

        one = lambda *x: jax.lax.scan(step, (jnp.zeros((6, 5)), jnp.zeros(6)), x)[1]
        return jax.vmap(jax.vmap(one))(q, k, v, gates)

    def ours(q, k, v, gates):
        return bj.linear_attention(q, k, v, bearing.GatedDecayTerm(gates), **how)

    given = [jnp.asarray(x) for x in inputs(40)]
    weights = jnp.asarray(np.random.default_rng(2).standard_normal((2, 2, 40, 5)))
    for a, b in zip(
        *(jax.jit(jax.grad(lambda *x, f=f: (f(*x) * weights).sum(), (0, 1, 2, 3)))(*given) for f in (ours, theirs)),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    many = [jnp.stack([x, 0.5 * x]) for x in given]
    np.testing.assert_allclose(jax.vmap(ours)(*many)[1], ours(*(x[1] for x in many)), atol=1e-12)


def test_in_softmax_attention_products_decay():
    q, k, v, gates = inputs(20, value_dim=6)
    between = np.cumsum(gates, axis=2)
    left = np.exp(np.minimum(between[:, :, :, None] - between[:, :, None], 0))  # batch, heads, query, key, channel
    scores = np.einsum("bhic,bhjc,bhijc->bhij", q, k, left) / np.sqrt(6)
    scores = np.where(np.tril(np.ones((20, 20))) > 0, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    out = bearing.attention(q, k, v, bearing.GatedDecayTerm(gates), mask="causal")
    np.testing.assert_allclose(out, weights / weights.sum(-1, keepdims=True) @ v, atol=1e-12)


def test_the_module_has_the_gates_of_the_paper():
    torch.manual_seed(0)
    decay = bt.GatedDecay(2, 6, d_model=12, rank=4)
    x = torch.randn(2, 40, 12)
    q, k, v, _ = (torch.tensor(x, dtype=torch.float32) for x in inputs(40))
    gates = torch.sigmoid(x @ decay.down.weight.T @ decay.up.weight.T + decay.up.bias) ** (1 / 16)
    gates = gates.unflatten(-1, (2, 6)).transpose(1, 2)
    wanted = bt.linear_attention(q, k, v, bearing.GatedDecayTerm(gates.log()), **PRODUCTS)
    got = bt.linear_attention(q, k, v, decay.encoding(x), **PRODUCTS)
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
    got.square().sum().backward()
    assert all(one.grad.abs().sum() > 0 for one in decay.parameters())
    with pytest.raises(ValueError, match=r"\[GatedDecay\] temperature: must be above 0, got 0"):
        bt.GatedDecay(2, 6, 12, temperature=0)


def test_gates_that_would_make_the_state_grow_are_refused():
    q, k, v, gates = inputs(4)
    gates[1, 0, 2, 3] = 0.25
    with pytest.raises(bearing.RangeError, match=r"log_decay: must be at most 0.* got 0.25 for channel 3 of token 2"):
        bearing.linear_attention(q, k, v, bearing.GatedDecayTerm(gates), **PRODUCTS)
