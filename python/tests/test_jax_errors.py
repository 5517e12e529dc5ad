"""What bearing.jax refuses, and when; compiled programs, and builds without JAX."""

import re
import subprocess
import sys

import bearing
import bearing.jax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from bearing.jax import attention, ffi
from bearing.jax.shards import Axes
from jax_cases import T5, arrays, t5_bias
from support import DIM


@pytest.fixture(scope="module")
def table():
    return bearing.RopeTable(bearing.Rope(head_dim=DIM, pairing="half"), 16, dtype="float64")


def test_what_shapes_tell_is_refused_while_tracing(table, rng):
    q, k, v = arrays(rng)
    bias = t5_bias(rng)

    def fails(kind, text, function):
        with pytest.raises(kind) as error:
            jax.jit(function)()
        assert str(error.value) == text

    def call(*args, **options):
        return lambda: attention(*args, **({"mask": "none"} | options))

    shapes = "[batch, kv_heads, k_len, dim], kv_heads a divisor of heads, for queries [batch, heads, q_len, dim]"
    fails(
        bearing.ShapeError,
        f"[attention] k: must be {shapes} = [2, 4, 3, 4], got [2, 3, 5, 4]",
        call(q, jnp.ones((2, 3, 5, 4)), v),
    )
    fails(
        bearing.ShapeError,
        "[attention] v: must have the first three extents of k, [2, 2, 5, 4], got [2, 2, 3, 4]",
        call(q, k, v[:, :, :3]),
    )
    fails(TypeError, "[attention] k: must be float64, as q is, got float32", call(q, k.astype(jnp.float32), v))
    fails(
        TypeError,
        "[attention] q: must be float64, float32, bfloat16 or float16, got int64",
        call(q.astype(int), k, v),
    )
    fails(
        bearing.ShapeError,
        "[attention] table: must be an array of 2 axes, got shape [8]",
        call(q, k, v, bearing.T5Bias(T5, jnp.ones(8))),
    )
    fails(TypeError, "[attention] encodings: must be encodings, got 'T5'", call(q, k, v, "T5"))
    fails(bearing.ShapeError, "[attention] sinks: must be [heads] = [4], got [3]", call(q, k, v, sinks=jnp.ones(3)))
    pairs = "[attention] visible: must be [batch, heads, q_len, k_len] = [2, 4, 3, 5], or broadcast to it, got"
    for shape in ([3, 4], [2, 3, 5], [5, 3], [2], [2, 2, 3, 5], [0]):
        fails(bearing.ShapeError, f"{pairs} {shape}", call(q, k, v, visible=jnp.ones(shape, bool)))
    fails(
        bearing.ShapeError,
        "[attention] visible: must be an array of at most 4 axes, [batch, heads, q_len, k_len], got shape [1, 2, 4, 3, 5]",
        call(q, k, v, visible=jnp.ones((1, 2, 4, 3, 5), bool)),
    )
    fails(
        TypeError,
        "[attention] visible: must be an array of truth values, got int64",
        call(q, k, v, visible=jnp.ones((3, 5), int)),
    )
    for shape in ([5], [1, 5], [2, 1]):  # as NumPy's function has it
        fails(
            bearing.ShapeError,
            f"[attention] key_mask: must be [batch, k_len] = [2, 5], got {shape}",
            call(q, k, v, key_mask=jnp.ones(shape, bool)),
        )
    fails(
        bearing.ShapeError,
        "[attention] q_positions: must have 3 tokens, got 2",
        call(q, k, v, q_positions=jnp.arange(2)),
    )
    fails(
        ValueError,
        "[attention] mask: must be one of 'none', 'causal', 'causal_top_left', 'causal_bottom_right', got 'left'",
        call(q, k, v, mask="left"),
    )
    fails(ValueError, "[attention] layout: must be 'bhtd' or 'bthd', got 'thd'", call(q, k, v, layout="thd"))
    fails(
        ValueError,
        "[attention] layout: must be 'bhtd' or 'bthd', got an array of float64",
        call(q, k, v, layout=np.ones(3)),
    )
    fails(
        bearing.RangeError,
        "[attention] soft_cap: must be positive, or 0 for none, got -1.0",
        jax.jit(call(q, k, v, soft_cap=-1)),  # while it is traced
    )
    fails(bearing.RangeError, "[attention] threads: must be at least 0 (0 for all), got -1", call(q, k, v, threads=-1))
    fails(
        TypeError,
        "[bias_matrix] dtype: must be float64, float32, bfloat16 or float16, got RopeTable(head_dim=4, rotary_dim=4, "
        "pairing='half', length=2, dtype='float32')",
        lambda: bearing.jax.bias_matrix(
            bearing.AlibiBias(bearing.Alibi.published(2)),
            heads=2,
            q_len=1,
            k_len=1,
            dtype=bearing.RopeTable(bearing.Rope(head_dim=4, pairing="half"), 2),
        ),
    )
    fails(
        TypeError,
        "[rotate] x: must be float64 for a float64 table, got float32",
        lambda: bearing.jax.rotate(table, q.astype(jnp.float32)),
    )
    fails(
        bearing.ShapeError,
        "[rotate] x: must have a last extent of head_dim = 4, got 3",
        lambda: bearing.jax.rotate(table, q[..., :3]),
    )
    fails(
        TypeError,
        f"[inputs] encoding: must be an encoding of the input, got {bias!r}",
        lambda: bearing.jax.inputs(bias, 0, 5),
    )


def test_wrong_calls_of_other_functions_are_refused_while_tracing(table, rng):
    q, k, v = arrays(rng)
    j, bias = bearing.jax, t5_bias(rng)
    linear, merge = j.linear_attention, j.merge
    scores, state = jnp.zeros((2, 4, 3, 5)), (jnp.zeros((2, 2, 4, 4)), jnp.zeros((2, 2, 4)))
    of = "of scores with shape [2, 4, 3, 5]"
    shape, kind, value = bearing.ShapeError, TypeError, ValueError
    for error, text, call in [
        (
            shape,
            "[linear_attention] k: must be [batch, kv_heads, k_len, dim], kv_heads a divisor of heads, for queries "
            "[batch, heads, q_len, dim] = [2, 4, 3, 4], got [2, 3, 5, 4]",
            lambda: linear(q, jnp.ones((2, 3, 5, 4)), v, mask="none"),
        ),
        (
            shape,
            "[linear_attention] v: must have the first three extents of k, [2, 2, 5, 4], got [2, 2, 3, 4]",
            lambda: linear(q, k, v[:, :, :3], mask="none"),
        ),
        (kind, "[linear_attention] state: must be (s, z), got 3", lambda: linear(q, k, v, mask="none", state=3)),
        (
            kind,
            "[linear_attention] state: must be float64, got float32",
            lambda: linear(q, k, v, mask="none", state=(state[0].astype(jnp.float32), state[1])),
        ),
        (
            shape,
            "[linear_attention] state: z must be [2, 2, 4], got [1, 2, 4]",
            lambda: linear(q, k, v, mask="none", state=(state[0], state[1][:1])),
        ),
        (
            value,
            "[linear_attention] feature_map: must be one of 'elu_plus_one', 'relu', 'identity', got 'exp'",
            lambda: linear(q, k, v, mask="none", feature_map="exp"),
        ),
        (
            bearing.RangeError,
            "[linear_attention] epsilon: must be a number of at least 0, got -1",
            lambda: linear(q, k, v, mask="none", epsilon=-1),
        ),
        (
            shape,
            "[add_scores] q, k: must both be given, or neither, got one of them",
            lambda: j.add_scores(bias, scores, q=q),
        ),
        (
            shape,
            f"[add_scores] q: must be [batch, heads, q_len, dim] {of}, got [2, 4, 2, 4]",
            lambda: j.add_scores(bias, scores, q=q[:, :, :2], k=k),
        ),
        (
            shape,
            f"[add_scores] k: must be [batch, kv_heads, k_len, dim] {of} and queries with shape [2, 4, 3, 4], "
            "kv_heads a divisor of heads, got [2, 2, 4, 4]",
            lambda: j.add_scores(bias, scores, q=q, k=k[:, :, :4]),
        ),
        (
            kind,
            "[add_scores] scores: must be float64 or float32, got bfloat16",
            lambda: j.add_scores(bias, scores.astype(jnp.bfloat16)),
        ),
        (
            kind,
            "[add_values] p: must be float64, as out is, got float32",
            lambda: j.add_values(bias, q.astype("f4"), q),
        ),
        (
            shape,
            "[add_values] out: must be [batch, heads, q_len, value_dim] of probabilities with shape [2, 4, 3, 5], "
            "got [2, 2, 5, 4]",
            lambda: j.add_values(bias, scores, k),
        ),
        (
            shape,
            "[merge] part: must be of the shape of out = [2, 4, 3, 4], got [2, 2, 5, 4]",
            lambda: merge(k, k[..., 0], q, q[..., 0]),
        ),
        (
            shape,
            "[merge] lse: must be [batch, heads, q_len] = [2, 4, 3], got [2, 4, 2]",
            lambda: merge(q, q[..., 0], q, q[..., :2, 0]),
        ),
        (kind, "[merge] lse: must be float64, got float32", lambda: merge(q, q[..., 0], q, q[..., 0].astype("f4"))),
        (
            shape,
            "[rebase] k: must have a last extent of head_dim = 4, got 3",
            lambda: j.rebase(table, 0, table, 1, k[..., :3]),
        ),
        (
            shape,
            "[rebase] new_positions: must have 5 tokens, got 3",
            lambda: j.rebase(table, 0, table, jnp.arange(3), k),
        ),
        (
            shape,
            "[rebase] to: must have the same head_dim as from, 4, got 8",
            lambda: j.rebase(table, 0, bearing.Rope(head_dim=8, pairing="half"), 1, k),
        ),
        (
            kind,
            "[rebase] to: must be a RopeFrequencies, a RopeTable or a Rope, got 3",
            lambda: j.rebase(table, 0, 3, 1, k),
        ),
        (kind, "[shift] by: must be a whole number, got 1.5", lambda: j.shift(table, 1.5, k)),
    ]:
        with pytest.raises(error) as raised:
            jax.jit(call)()
        assert str(raised.value) == text


def test_arguments_that_are_no_arrays_or_numbers_are_named(table):
    q = jnp.ones((2, 4, 3, DIM))
    j, learned = bearing.jax, bearing.LearnedInputs(bearing.Learned(length=8, dim=DIM), jnp.ones((8, DIM)))
    array, kind = "must be an array of numbers that JAX takes, got", TypeError
    for error, text, call in [
        (kind, f"[attention] q: {array} None", lambda: attention(None, q, q, mask="none")),
        (
            kind,
            f"[attention] k: {array} an array of object",
            lambda: attention(q, np.asarray(q).astype(object), q, mask="none"),
        ),
        (kind, f"[attention] sinks: {array} 'x'", lambda: attention(q, q, q, mask="none", sinks="x")),
        (kind, f"[attention] q_starts: {array} {{}}", lambda: attention(q, q, q, mask="none", q_starts={}, k_starts=q)),
        (kind, f"[rotate] positions: {array} [1, [2]]", lambda: j.rotate(table, q, [1, [2]])),
        (kind, f"[inputs] positions: {array} [1, [2]]", lambda: j.inputs(learned, [1, [2]])),
        (
            kind,
            f"[linear_attention] state: {array} 's'",
            lambda: j.linear_attention(q, q, q, mask="none", state=("s", "z")),
        ),
        (kind, f"[merge] part: {array} {{}}", lambda: j.merge({}, q, q, q)),
        (kind, "[attention] window: must be (before, after), got 3", lambda: attention(q, q, q, mask="none", window=3)),
        (
            bearing.RangeError,
            "[attention] window: must be whole numbers from 0 on, or -1 for no limit, got (-2, 0)",
            lambda: attention(q, q, q, mask="none", window=(-2, 0)),
        ),
        (
            kind,
            "[attention] window: must be a whole number, got 1.5",
            lambda: attention(q, q, q, mask="none", window=(1.5, 2)),
        ),
        (
            kind,
            "[attention] scale: must be a number that is not traced, got '2'",
            lambda: attention(q, q, q, mask="none", scale="2"),
        ),
        (kind, "[rotate] threads: must be a whole number, got 2.5", lambda: j.rotate(table, q, threads=2.5)),
        (
            bearing.RangeError,
            "[rotate] threads: must be a number of 64 bits, got 1000",
            lambda: j.rotate(table, q, threads=10**30),
        ),
        (kind, "[inputs] time: must be a whole number, got True", lambda: j.inputs(learned, 0, True)),
        (kind, "[attention] scale: must be a number, got True", lambda: attention(q, q, q, mask="none", scale=True)),
        (
            kind,
            "[attention] return_lse: must be bool, got 'no'",
            lambda: attention(q, q, q, mask="none", return_lse="no"),
        ),
        (kind, "[attention] mask: must be given, one of 'none', 'causal', ", lambda: attention(q, q, q, mask=None)),
        (kind, "[rotate] positions: must be None, a whole number, or an arr", lambda: j.rotate(table, q, 1.5)),
        (
            kind,
            "[rotate] positions: must be None, a whole number, or an arr",
            lambda: j.rotate(table, q, jnp.float32(1)),
        ),
        (kind, "[inputs] time: must be a whole number, got '3'", lambda: j.inputs(learned, 0, "3")),
        (kind, "[inputs] dtype: must be float64, float32, bfloat16 or", lambda: j.inputs(learned, 0, 3, dtype="x")),
        (kind, "[add] encoding: must be an encoding of the input, got 3", lambda: j.add(3, q[:, 0])),
        (
            bearing.RangeError,
            "[bias_matrix] heads: must be at least 1, got 0",
            lambda: j.bias_matrix(None, heads=0, q_len=1, k_len=1),
        ),
        (kind, "[swin_v2_table] spec: must be a SwinV2, got 3", lambda: j.swin_v2_table(3, q, q, q)),
        (
            bearing.RangeError,
            "[transformer_xl_relative] offsets: must be at least 1, got 0",
            lambda: j.transformer_xl_relative(bearing.TransformerXL(), q[0, 0], heads=1, offsets=0),
        ),
    ]:
        with pytest.raises(error) as raised:
            call()
        assert str(raised.value).startswith(text), raised.value


def test_positions_of_another_framework_are_numbers(table, rng):
    q, whole = jnp.asarray(rng.standard_normal((2, 4, 3, DIM))), torch.arange(3) + 5
    wanted = bearing.jax.rotate(table, q, 5)
    for positions in (whole, whole[0], np.int64(5)):
        np.testing.assert_array_equal(bearing.jax.rotate(table, q, positions), wanted)


@pytest.mark.parametrize("positions", [2**31, np.uint64(2**63), np.array([0, 1, 2**63], np.uint64)])
def test_positions_out_of_range_are_named_when_it_runs(positions, table):
    # JAX raises a ValueError where it waits for the call, else its runtime error.
    failures = (jax.errors.JaxRuntimeError, ValueError)
    with pytest.raises(failures, match=r"\[rotate\] positions: must be from -2\^31 to 2\^31, got [29]"):
        bearing.jax.rotate(table, jnp.ones((2, 4, 3, DIM)), positions).block_until_ready()


@pytest.mark.parametrize(
    ("number", "got"),
    [
        (np.int64(2**32 + 1), "32 bits unless jax_enable_x64 is set, got 4294967297"),
        (np.arange(3) + 2**32, "32 bits unless jax_enable_x64 is set, got 4294967296"),
        ([0, 1, -(2**31) - 1], "32 bits unless jax_enable_x64 is set, got -2147483649"),
        (np.array([0, 1, 2**32 - 1], np.uint32), "32 bits unless jax_enable_x64 is set, got 4294967295"),
        (np.array([0, 1, 2**63], np.uint64), "32 bits unless jax_enable_x64 is set, got 9223372036854775808"),
        ([0.5, 1.5, 16777217.0], "float32 unless jax_enable_x64 is set, got 16777217"),
    ],
)
def test_numbers_that_jax_would_wrap_or_round_are_refused(number, got):
    rope, q = bearing.Rope(head_dim=DIM, pairing="half"), np.ones((1, 2, 3, DIM), np.float32)
    j, whole = bearing.jax, np.asarray(number).dtype.kind in "iu"
    calls = [("rotate", "positions", lambda: j.rotate(rope, q, number))]
    if np.ndim(number) == 0:
        calls += [("shift", "by", lambda: j.shift(rope, number, q))]
    elif whole:
        calls += [("attention", "k_lengths", lambda: attention(q, q, q, mask="none", k_lengths=number))]
        starts = dict(q_starts=number, k_starts=number)
        calls += [("attention", "q_starts", lambda: attention(q, q, q, mask="none", **starts))]
    with jax.enable_x64(False):
        for function, argument, call in calls:
            with pytest.raises(bearing.RangeError) as raised:
                jax.eval_shape(call)
            assert str(raised.value).startswith(f"[{function}] {argument}: must be whole numbers of {got}")


def test_numbers_of_the_host_that_fit_32_bits_are_taken_in_any_type():
    rope, q = bearing.Rope(head_dim=DIM, pairing="half"), np.ones((1, 2, 3, DIM), np.float32)
    at = [5, 6, 2**24]
    with jax.enable_x64(False):
        wanted = bearing.rotate_to(rope, q, np.array(at))
        for kind in (np.int64, np.uint64, np.uint32, np.int32, np.float64, np.float32):
            np.testing.assert_array_equal(bearing.jax.rotate(rope, q, np.array(at, kind)), wanted)
        np.testing.assert_array_equal(bearing.jax.rotate(rope, q, at), wanted)
        np.testing.assert_array_equal(bearing.jax.rotate(rope, q, [jnp.int32(n) for n in at]), wanted)
        traced = jax.jit(lambda x: bearing.jax.rotate(rope, q, [x, x + 1, at[2]]))
        np.testing.assert_array_equal(traced(5), wanted)
        with pytest.raises(
            TypeError, match=r"\[rotate\] positions: must be int32 unless jax_enable_x64 is set, got uint"
        ):
            bearing.jax.rotate(rope, q, jnp.arange(3, dtype=jnp.uint32))


@pytest.mark.parametrize("kind", [jnp.bfloat16, jnp.float16])
def test_positions_of_16_bits_are_refused(kind):
    rope, q = bearing.Rope(head_dim=DIM, pairing="half"), np.ones((1, 2, 3, DIM), np.float32)
    at = jnp.arange(256, 259).astype(kind)
    text = r"positions: must be integers, float64 or float32 \(16-bit floats cannot count past 2048\), got (bfloat|float)16"
    for call in (
        lambda: bearing.jax.rotate(rope, q, at),
        lambda: bearing.jax.rotate(rope, q, np.asarray(at)),
        lambda: attention(q, q, q, mask="causal", q_positions=at),
        lambda: bearing.rotate_to(rope, q, at),
    ):
        with pytest.raises(TypeError, match=text):
            call()
    sinks = jnp.zeros(2, kind)
    assert attention(q, q, q, mask="none", sinks=sinks).shape == q.shape


def test_encodings_that_cannot_serve_are_refused_while_tracing(rng):
    q, k, v = arrays(rng)
    j, bias = bearing.jax, t5_bias(rng)
    learned = bearing.LearnedInputs(bearing.Learned(length=8, dim=DIM), jnp.ones((8, DIM)))
    narrow = bearing.T5Bias(T5, jnp.ones((8, 3)))
    mixed = bearing.RopeMixedRows(bearing.RopeMixed(head_dim=DIM, axes=1, pairing="half"), jnp.ones((1, 1, 2)), group=4)
    shaw = bearing.ShawTerm(bearing.Shaw(clip=2), jnp.ones((5, DIM)), jnp.ones((5, 3)))
    rope, three = bearing.Rope(head_dim=DIM, pairing="half"), np.zeros((3, 1, 3), int)
    turned_values = bearing.RotaryValues(bearing.RopeTable(rope, 8, dtype="float64"))
    table = "T5.table: must be [buckets, heads] = [8, 4], got shape [8, 3]"
    for error, text, call in [
        (bearing.ShapeError, f"[attention] {table}", lambda: attention(q, k, v, [bias, narrow], mask="none")),
        (bearing.ShapeError, f"[add_scores] {table}", lambda: j.add_scores(narrow, jnp.zeros((4, 3, 5)))),
        (bearing.ShapeError, f"[bias_matrix] {table}", lambda: j.bias_matrix(narrow, heads=4, q_len=3, k_len=5)),
        (
            bearing.ShapeError,
            "[add_values] Shaw.value: must",
            lambda: j.add_values(shaw, jnp.zeros((4, 3, 5)), jnp.zeros((4, 3, 4))),
        ),
        (
            bearing.ShapeError,
            "[linear_attention] RopeMixed: must",
            lambda: j.linear_attention(q, k, v, mixed, mask="none"),
        ),
        (
            bearing.ShapeError,
            "[linear_attention] encodings: must all be encodings of rows or decays of the state, as there are no scores "
            "to add to, got one that acts elsewhere as number 2 of 2",
            lambda: j.linear_attention(q, k, v, [rope, bias], mask="causal"),
        ),
        (
            bearing.ShapeError,
            "[add_values] encodings: must not turn values, as only probabilities are given here, got one that does as "
            "number 1 of 1",
            lambda: j.add_values(turned_values, jnp.zeros((4, 3, 5)), jnp.zeros((4, 3, 4))),
        ),
        (
            bearing.RangeError,
            "[linear_attention] mask: must be a causal one if the state decays from key to key, got none",
            lambda: j.linear_attention(q, k, v, bearing.RetentionBias(rates=jnp.ones(2)), mask="none"),
        ),
        (
            bearing.RangeError,
            "[linear_attention] normaliser: must be none if the feature map is identity",
            lambda: j.linear_attention(q, k, v, mask="none", feature_map="identity"),
        ),
        *(
            (bearing.ShapeError, f"[{name}: must have 1 axis, got 3", call)
            for name, call in [
                ("rotate] positions", lambda: j.rotate(rope, q, three)),
                ("rebase] old_positions", lambda: j.rebase(rope, three, rope, 0, q)),
                ("rebase] new_positions", lambda: j.rebase(bearing.Xpos(rope=rope), 0, three, q)),
            ]
        ),
        (
            bearing.ShapeError,
            "[turn] positions: must",
            lambda: j.turn(mixed, q, jnp.zeros((3, 2, 3), int), side="query"),
        ),
        (
            TypeError,
            "[turn] encoding: must be an encoding of query and key rows, got T5Bias",
            lambda: j.turn(bias, q, side="query"),
        ),
        (
            TypeError,
            "[attention] encodings: must be encodings of rows, scores or values, got LearnedInputs",
            lambda: attention(q, k, v, learned, mask="none"),
        ),
    ]:
        with pytest.raises(error) as raised:
            jax.eval_shape(call)
        assert str(raised.value).startswith(text)


def test_tracing_needs_no_memory_for_parameters():
    def call(q, k, table):
        return attention(q, k, k, bearing.DenseBias(table), mask="none")

    length = 2**20  # a bias of 4 TB
    q, k, table = (jax.ShapeDtypeStruct(s, jnp.float32) for s in ((length, 4), (length, 4), (1, length, length)))
    assert jax.eval_shape(call, q, k, table).shape == (length, 4)
    with pytest.raises(bearing.ShapeError, match="DenseBias"):
        jax.eval_shape(call, q, k, jax.ShapeDtypeStruct((1, length, 5), jnp.float32))


def test_a_gradient_that_would_be_lost_is_refused(table, rng):
    x = jnp.ones((1, 1, 3, DIM))

    def loss(x, at):
        return bearing.jax.rotate(table, x, at).sum()

    with pytest.raises(TypeError, match=r"\[rotate\] positions: must be given without a gradient"):
        jax.grad(loss, argnums=1)(x, jnp.arange(3.0))
    assert jax.jit(jax.grad(loss))(x, jnp.arange(3.0)).shape == x.shape


def test_what_numbers_tell_is_refused_when_it_runs(rng):
    q, k, v = arrays(rng)
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=r"\[attention\] k_lengths: must be from 0 to k_len = 5, got 6"
    ):
        attention(q, k, v, mask="none", k_lengths=jnp.asarray([1, 6])).block_until_ready()
    learned = bearing.LearnedInputs(bearing.Learned(length=8, dim=DIM), jnp.ones((8, DIM)))
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=r"\[linear_attention\] k_positions: must not fall from token to"
    ):
        bearing.jax.linear_attention(q, k, v, mask="causal", k_positions=jnp.arange(5)[::-1]).block_until_ready()
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"\[add\]"):
        bearing.jax.add(learned, jnp.ones((3, DIM)), 7).block_until_ready()
    # The error leaves nothing behind.
    assert jnp.isfinite(attention(q, k, v, t5_bias(rng), mask="none")).all()


PROGRAM = """
import jax, jax.numpy as jnp
import bearing, bearing.jax
table = bearing.RopeTable(bearing.Rope(head_dim=4, pairing="half"), 16)
bias = bearing.T5Bias(bearing.T5(direction="causal"), jnp.ones((32, 2)))
rows = jnp.ones((1, 2, 3, 4), jnp.float32)
call = lambda x: bearing.jax.attention(x, x, x, [bearing.RotaryRows(table), bias], mask="none")
text = jax.jit(call).lower(rows).as_text()
"""


def test_programs_are_the_same_in_every_process():
    # Programs are kept on disk by their text, so that it may not depend on what a process did before.
    done = subprocess.run([sys.executable, "-c", PROGRAM + "print(text)"], capture_output=True, text=True)
    own = {}
    with jax.enable_x64(False):
        exec(PROGRAM, own)
    assert done.stdout.strip() == own["text"].strip() and "T5Bias" in own["text"], done.stderr


def test_a_program_from_elsewhere_asks_for_its_encodings():
    x = jnp.ones((1, 1, 3, DIM))
    options = dict(time_first=False, threads=1, side="", backward=False, given=0)
    axes = Axes(("....",), ("....",))
    with pytest.raises(jax.errors.JaxRuntimeError, match='must be known in this process, got "RopeTable:0"'):
        ffi.call("rotate", [x], 4, [x], axes, plan="RopeTable:0", **options)[0].block_until_ready()


def test_without_jax_the_import_says_what_to_install():
    program = "import sys; sys.modules['jax'] = None; import bearing; import bearing.jax"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "ImportError: bearing.jax needs JAX: pip install 'bearing-pe[jax]'"


def test_traced_values_are_sent_to_bearing_jax(rng):
    q = jnp.ones((1, 2, 3, DIM), jnp.float32)
    rope = bearing.Rope(head_dim=DIM, pairing="half")
    text = (
        "must be an array that has its numbers: bearing.jax has the functions that JAX can trace, got a traced value of"
    )
    for call, given, start in [
        (lambda x: bearing.attention(x, x, x, mask="causal"), q, f"[attention] q: {text} float32"),
        (
            lambda at: bearing.rotate_to(rope, q, at),
            jnp.arange(3, dtype=jnp.int32),
            f"[rotate_to] positions: {text} int32",
        ),
        (lambda at: bearing.rotate_to(rope, q, at), jnp.int32(3), f"[rotate_to] positions: {text} int32"),
    ]:
        with pytest.raises(TypeError) as raised:
            jax.jit(call)(given)
        assert str(raised.value) == start
    with pytest.raises(TypeError, match="bearing.jax has the functions that JAX can trace"):
        jax.grad(lambda x: bearing.attention(x, x, x, mask="causal").sum())(q)


def test_a_build_without_jax_says_how_to_get_one(monkeypatch):
    monkeypatch.delattr(ffi._core, "_jax_handlers")
    with pytest.raises(ImportError, match="built without JAX's headers") as raised:
        ffi.register()
    # Not by a name that no package index has.
    command = "pip install --no-build-isolation --force-reinstall --no-deps ."
    assert str(raised.value).endswith(f"where they can be seen: in its checkout, {command}")


def test_a_build_for_another_jax_says_so(monkeypatch):
    built = ffi._core._jax_api_version()
    assert built[0] == ffi.interface_version()[0]
    monkeypatch.setattr(ffi, "interface_version", lambda: (built[0] + 1, 0))
    with pytest.raises(
        ImportError, match=r"built for version 0\.\d+ of XLA's foreign functions, jaxlib \S+ has 1\.0"
    ) as raised:
        ffi.register()
    assert str(raised.value).endswith("build it for this one: in its checkout, " + ffi.REBUILD.split(", ")[1])


def test_scores_refuse_encodings_that_turn_rows() -> None:
    rope = bearing.Rope(head_dim=8, pairing="half")
    alibi = bearing.AlibiBias(bearing.Alibi.published(2))
    text = (
        "encodings: must add to scores, as q and k are turned (rotate, turn) before they are multiplied, got one that"
    )
    scores = jnp.zeros((1, 2, 4, 4))
    with pytest.raises(bearing.ShapeError, match=re.escape(f"[add_scores] {text} turns them as number 1 of 2")):
        bearing.jax.add_scores([rope, alibi], scores)
    with pytest.raises(bearing.ShapeError, match=re.escape(f"[bias_matrix] {text} turns them as number 2 of 2")):
        bearing.jax.bias_matrix([alibi, rope], heads=2, q_len=4, k_len=4)


@pytest.mark.parametrize("platforms", [("cuda",), ("cpu", "tpu")])
def test_programs_for_other_devices_are_refused_while_they_are_compiled(table, platforms):
    x = jnp.ones((1, 2, 3, DIM))
    for call in (lambda x: bearing.jax.rotate(table, x), jax.grad(lambda x: bearing.jax.rotate(table, x).sum())):
        text = (
            rf"^\[rotate\] arrays: must be on the CPU, got a program for {platforms[-1]}: set JAX_PLATFORMS=cpu before"
        )
        with pytest.raises(TypeError, match=text):
            jax.jit(jax.vmap(call)).trace(x[None]).lower(lowering_platforms=platforms)
        jax.jit(call).trace(x).lower(lowering_platforms=("cpu",))
