"""A Rope and a RopeTable of bearing itself, wherever bearing.jax takes an encoding."""

from __future__ import annotations

import functools

import bearing
import bearing.jax as bj
import jax
import numpy as np
import pytest

jax.config.update("jax_enable_x64", True)

ROPE = bearing.Rope(head_dim=16, pairing="half")
DYNAMIC = ROPE.replace(scaling=bearing.DynamicNtkScaling(factor=2, trained_length=8))


def calls(q, k, v, one):
    return {
        "attention": lambda *xs: bj.attention(*xs, one, mask="causal", q_positions=5000, k_positions=4998),
        "linear_attention": lambda *xs: bj.linear_attention(*xs, one, mask="causal"),
        "turn": lambda *xs: bj.turn(one, xs[0], 3, side="key"),
    }


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["attention", "linear_attention", "turn"])
def test_they_are_rotary_rows(name, dtype, rng):
    xs = [rng.standard_normal((1, 2, 5, 16)).astype(dtype) for _ in range(3)]
    table = bearing.RopeTable(ROPE, 64, dtype=dtype)

    def results(one):
        call = calls(*xs, one)[name]
        return jax.jit(call)(*xs), *jax.grad(lambda *xs: call(*xs).sum(), argnums=(0, 1, 2))(*xs)

    wanted = results(bearing.RotaryRows(table))
    for one in (table, ROPE):
        for found, same in zip(results(one), wanted, strict=True):
            np.testing.assert_array_equal(found, same)


def test_a_rope_may_be_an_argument_of_a_compiled_function(rng):
    q = rng.standard_normal((1, 2, 5, 16)).astype(np.float32)
    attend = jax.jit(lambda one: bj.attention(q, q, q, [one], mask="causal"))
    for base in (10_000.0, 500.0):
        rope = ROPE.replace(base=base)
        np.testing.assert_array_equal(attend(rope), bearing.attention(q, q, q, rope, mask="causal"))


def test_rotations_refuse_frequencies_of_a_length():
    x, frequencies = np.ones((1, 2, 5, 16), np.float32), bearing.resolve(DYNAMIC, 64)
    for text, call in {
        r"\[rotate\] table: must be a RopeTable, or a Rope whose": lambda rope: bj.rotate(rope, x, 100),
        r"\[shift\] frequencies: must be a RopeFrequencies, a RopeTable, or a Rope whose": lambda rope: bj.shift(
            rope, 1, x
        ),
        r"\[rebase\] from_: must be a RopeFrequencies, a RopeTable, or": lambda rope: bj.rebase(rope, 0, ROPE, 1, x),
        r"\[rebase\] to: must be a RopeFrequencies, a RopeTable, or": lambda rope: bj.rebase(ROPE, 0, rope, 1, x),
    }.items():
        with pytest.raises(TypeError, match=f"{text}.* frequencies are the same at every length, got Rope"):
            jax.eval_shape(functools.partial(call, DYNAMIC))
        call(bearing.RopeTable(frequencies, 64))


@pytest.mark.parametrize("name", ["attention", "linear_attention", "turn"])
def test_frequencies_of_a_length_are_refused_with_what_to_write(name):
    x = np.ones((1, 2, 5, 16), np.float32)
    text = rf"\[{name}\] encodings: must be encodings, got Rope\(.*RotaryRows\(RopeTable\(rope, length, seq_len=…\)\)"
    with pytest.raises(TypeError, match=text):
        calls(x, x, x, DYNAMIC)[name](x, x, x)
