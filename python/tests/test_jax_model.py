"""A small transformer as a user would write it: trained with bearing.jax, then decoded with a cache."""

import bearing
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bearing.jax import attention
from support import ROUNDING

WORDS, HALF, WIDTH, HEADS = 8, 4, 32, 2
LENGTH = 2 * HALF  # a word is predicted from all before it: the second half repeats the first
ROPE = bearing.RotaryRows(bearing.RopeTable(bearing.Rope(head_dim=WIDTH // HEADS, pairing="half"), LENGTH))
T5 = bearing.T5(buckets=8, max_distance=8, direction="causal")


def initial(rng):
    def matrix(rows, columns):
        return jnp.asarray(rng.standard_normal((rows, columns)) * rows**-0.5, jnp.float32)

    def layer():
        return {
            "qkv": matrix(WIDTH, 3 * WIDTH),
            "out": matrix(WIDTH, WIDTH),
            "up": matrix(WIDTH, 2 * WIDTH),
            "down": matrix(2 * WIDTH, WIDTH),
            "bias": bearing.T5Bias(T5, jnp.zeros((8, HEADS), jnp.float32)),
        }

    return {"words": matrix(WORDS, WIDTH), "layers": [layer(), layer()], "read": matrix(WIDTH, WORDS)}


def norm(x):
    return x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)


def heads_of(x):
    return jnp.moveaxis(x.reshape(*x.shape[:2], HEADS, -1), 2, 1)


def forward(parameters, words, caches=(None, None), past=None):
    """Logits [batch, time, words] and the layers' keys and values, which are written at `past` where there are any."""
    x, kept = parameters["words"][words], []
    for layer, cache in zip(parameters["layers"], caches, strict=True):
        q, k, v = (heads_of(part) for part in jnp.split(norm(x) @ layer["qkv"], 3, axis=-1))
        if cache is not None:
            k, v = (jax.lax.dynamic_update_slice(c, new, (0, 0, past, 0)) for c, new in zip(cache, (k, v), strict=True))
        kept.append((k, v))
        attended = attention(q, k, v, [ROPE, layer["bias"]], mask="causal", q_positions=past)
        x = x + jnp.moveaxis(attended, 1, 2).reshape(x.shape) @ layer["out"]
        x = x + jax.nn.gelu(norm(x) @ layer["up"]) @ layer["down"]
    return norm(x) @ parameters["read"], kept


def loss_of(parameters, words):
    logits = jax.nn.log_softmax(forward(parameters, words[:, :-1])[0])
    chosen = jnp.take_along_axis(logits, words[:, 1:, None], axis=-1)[..., 0]
    return -chosen[:, HALF - 1 :].mean()


@jax.jit
def update(parameters, moments, words, step):
    """One step of Adam. An encoding is a part of the parameters like any array."""
    loss, gradient = jax.value_and_grad(loss_of)(parameters, words)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], gradient)
    second = jax.tree.map(lambda m, g: 0.99 * m + 0.01 * g**2, moments[1], gradient)
    scale = 0.01 * jnp.sqrt(1 - 0.99**step) / (1 - 0.9**step)
    parameters = jax.tree.map(lambda p, m, s: p - scale * m / (jnp.sqrt(s) + 1e-8), parameters, first, second)
    return parameters, (first, second), loss


@pytest.fixture(scope="module")
def trained():
    with jax.enable_x64(False):
        rng = np.random.default_rng(0)
        parameters = initial(rng)
        moments = (jax.tree.map(jnp.zeros_like, parameters),) * 2
        losses = []
        for step in range(1, 51):
            half = rng.integers(0, WORDS, (64, HALF), dtype=np.int32)
            parameters, moments, loss = update(parameters, moments, np.concatenate([half, half], axis=1), step)
            losses.append(float(loss))
        yield parameters, losses


def test_training_to_repeat_words_succeeds(trained):
    parameters, losses = trained
    # Guessing costs ln 8 = 2.1 for a word.
    assert losses[0] > 1.9 and losses[-1] < 0.5, losses
    assert all(float(jnp.abs(layer["bias"].parameters["table"]).max()) > 0.01 for layer in parameters["layers"])


def test_decoding_with_a_cache_is_the_whole_forward(trained):
    parameters, _ = trained
    with jax.enable_x64(False):
        words = np.random.default_rng(1).integers(0, WORDS, (3, LENGTH), dtype=np.int32)
        whole, _ = jax.jit(forward)(parameters, words)
        empty = [(jnp.zeros((3, HEADS, LENGTH, WIDTH // HEADS), jnp.float32),) * 2 for _ in range(2)]
        traces = 0

        def step(caches, token):
            nonlocal traces
            traces += 1
            past, word = token
            logits, caches = forward(parameters, word[:, None], caches, past)
            return caches, logits[:, 0]

        # In a compiled loop, and one compiled step after the other, with the caches given away.
        _, scanned = jax.jit(lambda: jax.lax.scan(step, empty, (jnp.arange(LENGTH), words.T)))()
        one, traces, stepped = jax.jit(step, donate_argnums=0), 0, []
        caches = jax.tree.map(jnp.copy, empty)
        for past in range(LENGTH):
            caches, logits = one(caches, (past, words[:, past]))
            stepped.append(logits)
        assert traces == 1
    # Logits are sums of some hundred products in float32, in another order.
    bound = 256 * ROUNDING["float32"] * float(jnp.abs(whole).max())
    for logits in (scanned, jnp.stack(stepped)):
        np.testing.assert_allclose(jnp.moveaxis(logits, 0, 1), whole, rtol=0, atol=bound)
