"""Encodings that count tokens decode from a cache that is longer than what is filled, as all others do: by q_positions."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import bearing
import bearing.jax
import bearing.torch as bt
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

jax.config.update("jax_enable_x64", True)

BATCH, HEADS, ROOM, FILLED, DIM = 2, 3, 24, 9, 4
ANGLES = bearing.GivenAngles(head_dim=DIM, pairing="half")


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def gates(*shape: int) -> np.ndarray:
    return -np.abs(numbers(*shape, seed=1))


# Of all tokens that a cache has room for: what an encoding reads, and how it is made of that.
KINDS: dict[str, tuple[np.ndarray, Callable[..., Any]]] = {
    "ForgettingBias": (gates(BATCH, HEADS, ROOM), bearing.ForgettingBias),
    "GatedDecayTerm": (gates(BATCH, HEADS, ROOM, DIM), bearing.GatedDecayTerm),
    "AngleRows": (
        numbers(BATCH, HEADS, ROOM, DIM // 2, seed=2),
        lambda angles, past: bearing.AngleRows(ANGLES, angles, past=past),
    ),
}
named = pytest.mark.parametrize("name", KINDS)


def cache(q_len: int) -> tuple[np.ndarray, ...]:
    """Queries, and keys and values that are rubbish behind what is filled."""
    q, k, v = numbers(BATCH, HEADS, q_len, DIM), *numbers(2, BATCH, HEADS, ROOM, DIM, seed=3)
    k[:, :, FILLED:], v[:, :, FILLED:] = np.nan, np.nan
    return q, k, v


def grown(name: str, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """What a cache gives that is as long as it is filled."""
    read, make = KINDS[name]
    parts = [np.ascontiguousarray(x[:, :, :FILLED]) for x in (read, k, v)]
    encoding = make(parts[0], past=FILLED - q.shape[2])
    return bearing.attention(q, parts[1], parts[2], encoding, mask="causal_bottom_right")


@named
@pytest.mark.parametrize("q_len", [1, 4, FILLED])
def test_a_step_in_a_cache_with_room_is_that_of_a_cache_that_grew(name, q_len):
    read, make = KINDS[name]
    q, k, v = cache(q_len)
    expected = grown(name, q, k, v)
    encoding, first = make(read, past=None), FILLED - q_len
    for options in (
        {"mask": "causal", "q_positions": first},
        {"mask": "causal_bottom_right", "q_positions": first, "k_lengths": np.full(BATCH, FILLED)},
        {
            "mask": "causal",
            "q_positions": np.tile(first + np.arange(q_len), (BATCH, 1)),
            "k_positions": np.arange(ROOM),
        },
    ):
        np.testing.assert_allclose(bearing.attention(q, k, v, encoding, **options), expected, rtol=1e-12, atol=1e-12)
    tensors = [torch.from_numpy(x) for x in (q, k, v)]
    own = make(torch.from_numpy(read), past=None)
    for call in (bt.attention, torch.compile(bt.attention, backend="aot_eager", fullgraph=True)):
        found = call(*tensors, bt.encoding_of(own), mask="causal", q_positions=first)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    in_jax = jax.jit(
        lambda q, k, v, read, at: bearing.jax.attention(q, k, v, make(read, past=None), mask="causal", q_positions=at)
    )
    np.testing.assert_allclose(in_jax(q, k, v, read, first), expected, rtol=1e-12, atol=1e-12)


@named
def test_sequences_of_a_batch_may_stand_at_different_tokens(name):
    read, make = KINDS[name]
    q, k, v = cache(1)
    k, v = np.nan_to_num(k), np.nan_to_num(v)
    at = np.array([[8], [2]])
    found = bearing.attention(q, k, v, make(read, past=None), mask="causal", q_positions=at)
    for b, (last,) in enumerate(at):
        one = [np.ascontiguousarray(x[b : b + 1, :, : last + 1]) for x in (read, k, v)]
        expected = bearing.attention(q[b : b + 1], one[1], one[2], make(one[0], past=int(last)), mask="none")
        np.testing.assert_allclose(found[b : b + 1], expected, rtol=1e-12, atol=1e-12)
    step = jax.jit(lambda at: bearing.jax.attention(q, k, v, make(read, past=None), mask="causal", q_positions=at))
    np.testing.assert_allclose(step(at), found, rtol=1e-12, atol=1e-12)
    tensors = [torch.from_numpy(x) for x in (q, k, v)]
    by_torch = bt.attention(
        *tensors, make(torch.from_numpy(read), past=None), mask="causal", q_positions=torch.from_numpy(at)
    )
    np.testing.assert_allclose(by_torch, found, rtol=1e-12, atol=1e-12)


@named
def test_gradients_are_those_of_a_cache_that_grew(name):
    read, make = KINDS[name]
    q, k, v = (torch.from_numpy(x).nan_to_num() for x in cache(3))

    def gradients(length: int, past: int | None, **options: Any) -> list[torch.Tensor]:
        leaves = [x.clone().requires_grad_() for x in (q, *(x[:, :, :length] for x in (k, v, torch.from_numpy(read))))]
        out = bt.attention(*leaves[:3], make(leaves[3], past=past), **options)
        found = torch.autograd.grad(out.cos().sum(), leaves)
        return [found[0], *(torch.nn.functional.pad(d.movedim(2, -1), (0, ROOM - length)) for d in found[1:])]

    whole = gradients(ROOM, None, mask="causal", q_positions=FILLED - 3)
    grew = gradients(FILLED, FILLED - 3, mask="causal_bottom_right")
    for one, other in zip(whole, grew, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)
    loss = lambda read: jnp.cos(
        bearing.jax.attention(
            q.numpy(), k.numpy(), v.numpy(), make(read, past=None), mask="causal", q_positions=FILLED - 3
        )
    ).sum()
    np.testing.assert_allclose(np.moveaxis(jax.jit(jax.grad(loss))(read), 2, -1), whole[3], rtol=1e-11, atol=1e-11)


def test_a_decoding_loop_compiles_once_in_jax():
    read, make = KINDS["ForgettingBias"]
    q, k, v = (np.nan_to_num(x) for x in cache(1))
    traced = 0

    def step(at):
        nonlocal traced
        traced += 1
        return bearing.jax.attention(q, k, v, make(read, past=None), mask="causal", q_positions=at)

    compiled = jax.jit(step)
    for at in range(4):
        compiled(at)
    assert traced == 1


@named
def test_what_decides_is_said(name):
    read, make = KINDS[name]
    q, k, v = (np.nan_to_num(x) for x in cache(1))
    with pytest.raises(bearing.ShapeError, match="; for a cache that is longer than what is filled, past None takes"):
        bearing.attention(q, k, v, make(read, past=0), mask="causal", q_positions=FILLED)
    with pytest.raises(bearing.RangeError, match=f"where past is None, got {ROOM} for"):
        bearing.attention(q, k, v, make(read, past=None), mask="causal", q_positions=ROOM)


@named
def test_copies_know_that_there_is_no_past(name):
    read, make = KINDS[name]
    encoding = make(read, past=None)
    assert make(read, past=2).past == 2 and encoding.past is None and "past=None" in repr(encoding)
    for other in (
        pickle.loads(pickle.dumps(encoding)),
        copy.deepcopy(encoding),
        encoding.replace(),
        jax.tree.map(lambda x: x, encoding),
    ):
        assert other.past is None
    assert '"past": null' in bt.encoding_of(make(torch.from_numpy(read), past=None)).form


def test_modules_of_gates_decode():
    torch.manual_seed(0)
    x = torch.randn(BATCH, FILLED, 16)
    q, k, v = (torch.from_numpy(one).float() for one in cache(1))
    kept = slice(0, FILLED)
    for module, read in (
        (bt.Forgetting(HEADS, 16), "log_forget"),
        (bt.GatedDecay(HEADS, DIM, 16, rank=4), "log_decay"),
    ):
        with torch.no_grad():
            gates = getattr(module, read)(x)
            room = torch.zeros(*gates.shape[:2], ROOM, *gates.shape[3:])
            room[:, :, kept] = gates
            found = bt.attention(q, k, v, module.of_gates(room, past=None), mask="causal", q_positions=FILLED - 1)
            grew = module.of_gates(gates, past=FILLED - 1)
            expected = bt.attention(q, k[:, :, kept], v[:, :, kept], grew, mask="none")
            torch.testing.assert_close(found, expected)
            torch.testing.assert_close(module.encoding(x).tensors[0], gates)


def test_le_rope_decodes():
    lerope = bt.LeRope(bearing.Rope(head_dim=DIM, pairing="half"))
    q, k, v = (torch.from_numpy(one).float() for one in cache(1))
    kept = slice(0, FILLED)
    with torch.no_grad():
        found = bt.attention(q, k, v, lerope.encoding(ROOM, past=None), mask="causal", q_positions=FILLED - 1)
        grew = lerope.encoding(FILLED, past=FILLED - 1)
        torch.testing.assert_close(found, bt.attention(q, k[:, :, kept], v[:, :, kept], grew, mask="none"))
        rope = bt.attention(q, k, v, lerope.rope, mask="causal", q_positions=FILLED - 1)
        torch.testing.assert_close(found, rope)


def test_a_module_of_angles_decodes():
    read = torch.from_numpy(KINDS["AngleRows"][0])
    q, k, v = cache(1)
    module = bt.AngleRows(ANGLES, past=None)
    found = bt.attention(
        *map(torch.from_numpy, (q, k, v)), module.encoding(read), mask="causal", q_positions=FILLED - 1
    )
    np.testing.assert_allclose(found, grown("AngleRows", q, k, v), rtol=1e-12, atol=1e-12)


def test_flex_attention_has_the_same_scores():
    read, make = KINDS["ForgettingBias"]
    q, k, _ = (torch.from_numpy(np.nan_to_num(x)) for x in cache(2))
    own = make(torch.from_numpy(read), past=None)
    for at in (FILLED - 2, torch.tensor([[7, 8], [3, 4]])):
        mod = bt.score_mod(own, q=q, k=k, q_positions=at)
        b, h, i, j = torch.meshgrid(*map(torch.arange, (BATCH, HEADS, 2, ROOM)), indexing="ij")
        scores = torch.zeros(BATCH, HEADS, 2, ROOM, dtype=torch.float64)
        torch.testing.assert_close(mod(scores, b, h, i, j), bt.add_scores(own, scores, at))
