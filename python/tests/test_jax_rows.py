"""bearing.jax's rotations, moved keys, encodings of rows and of the input: those of bearing, with their gradients."""

import functools

import bearing
import bearing.jax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bearing.jax import attention, rebase, rotate, shift
from jax.test_util import check_grads
from jax_cases import arrays, close
from support import BATCH, DIM, HEADS, Q_LEN, ROUNDING, TYPES, examples, names, to_numpy

ROPE = bearing.Rope(head_dim=DIM, pairing="half")


@pytest.fixture(scope="module")
def table():
    return bearing.RopeTable(bearing.Rope(head_dim=DIM, pairing="half"), 16, dtype="float64")


@pytest.mark.parametrize("positions", [None, 3, np.array([5, 1, 7]), np.array([0.5, -1.0, 20.0])])
def test_rotations_and_their_transposes_are_those_of_bearing(positions, table, rng):
    x = rng.standard_normal((BATCH, HEADS, Q_LEN, DIM))
    y, pull_back = jax.vjp(jax.jit(lambda x: bearing.jax.rotate(table, x, positions)), x)
    np.testing.assert_array_equal(y, bearing.rotate_to(table, x, positions))
    np.testing.assert_array_equal(pull_back(jnp.asarray(x))[0], bearing.rotate_backward_to(table, x, positions))


def test_rotation_can_be_differentiated_twice_mapped_and_narrow(table, rng):
    x = jnp.asarray(rng.standard_normal((BATCH, HEADS, Q_LEN, DIM)))
    rotate = functools.partial(bearing.jax.rotate, table)
    check_grads(rotate, (x,), order=2, modes=["rev"])
    mapped = jax.vmap(rotate)(x, jnp.asarray([0, 9]))
    np.testing.assert_array_equal(mapped, jnp.stack([rotate(x[0]), rotate(x[1], 9)]))
    turned = rotate(jnp.moveaxis(x, 1, 2), layout="bthd")
    np.testing.assert_array_equal(jnp.moveaxis(turned, 1, 2), rotate(x))
    narrow = bearing.RopeTable(bearing.Rope(head_dim=DIM, pairing="half"), 16)
    half = x.astype(jnp.bfloat16)
    wanted = bearing.rotate_to(narrow, np.asarray(half), None)
    np.testing.assert_array_equal(to_numpy(bearing.jax.rotate(narrow, half)), to_numpy(wanted))


def test_rotary_attention_is_rotation_then_attention(table, rng):
    q, k, v = arrays(rng)
    rope = bearing.RotaryRows(table)
    turned = [bearing.jax.rotate(table, q, 2), bearing.jax.rotate(table, k)]
    close(attention(q, k, v, rope, mask="causal", q_positions=2), attention(*turned, v, mask="causal", q_positions=2))


@pytest.mark.parametrize("name", names("rows"))
def test_turning_and_its_gradients_are_those_of_bearing(name, rng):
    example = examples(rng)[name]
    x = rng.standard_normal((BATCH, HEADS, Q_LEN, DIM))
    options = dict(positions=example.q_positions, side="key")
    y, pull_back = jax.vjp(jax.jit(lambda e, x: bearing.jax.turn(e, x, **options)), example.encoding, x)
    np.testing.assert_array_equal(y, bearing.turn(example.encoding, x, **options))
    d_y = rng.standard_normal(y.shape)
    d_x, d_parameters = bearing.turn_backward(example.encoding, x, d_y, **options)
    got, got_x = pull_back(jnp.asarray(d_y))
    np.testing.assert_array_equal(got_x, d_x)
    for parameter, wanted in d_parameters.items():
        np.testing.assert_array_equal(got.parameters[parameter], wanted)


@pytest.mark.parametrize("name", names("inputs"))
def test_inputs_and_their_gradients_are_those_of_bearing(name, rng):
    example = examples(rng)[name]
    x = rng.standard_normal((BATCH, Q_LEN, DIM))
    y, pull_back = jax.vjp(jax.jit(lambda e, x: bearing.jax.add(e, x, example.q_positions)), example.encoding, x)
    np.testing.assert_array_equal(y, bearing.add(example.encoding, x, example.q_positions))
    got, got_x = pull_back(jnp.asarray(x))
    np.testing.assert_array_equal(got_x, x)
    for parameter, wanted in bearing.add_backward(example.encoding, x, example.q_positions).items():
        np.testing.assert_array_equal(got.parameters[parameter], wanted)
    rows = bearing.jax.inputs(example.encoding, example.q_positions, Q_LEN, dtype=jnp.float64)
    np.testing.assert_array_equal(rows, bearing.inputs(example.encoding, example.q_positions, Q_LEN, dtype="float64"))


def test_inputs_are_mapped_with_their_parameters(rng):
    tables = jnp.asarray(rng.standard_normal((3, 10, DIM)))
    x = jnp.asarray(rng.standard_normal((Q_LEN, DIM)))
    spec = bearing.Learned(length=8, dim=DIM, offset=2)

    def loss(table, first):
        return (bearing.jax.add(bearing.LearnedInputs(spec, table), x, first) ** 2).sum()

    got = jax.vmap(jax.grad(loss))(tables, jnp.arange(3))
    np.testing.assert_array_equal(got, jnp.stack([jax.grad(loss)(tables[i], i) for i in range(3)]))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64", "uint64", "float32"])
def test_positions_may_be_of_any_type_of_number(dtype, table, rng):
    x = jnp.asarray(rng.standard_normal((BATCH, HEADS, Q_LEN, DIM)))
    at = jnp.asarray([5, 1, 120], dtype)
    np.testing.assert_array_equal(rotate(table, x, at), rotate(table, x, np.array([5, 1, 120])))
    if dtype in ("uint32", "uint64"):
        far = jnp.full(Q_LEN, 2**31, dtype)  # the last there is
        np.testing.assert_array_equal(rotate(table, x, far), rotate(table, x, np.full(Q_LEN, 2**31)))


def test_a_spec_stands_for_its_table(rng):
    for dtype in ("float64", "float32"):
        x = jnp.asarray(rng.standard_normal((BATCH, HEADS, Q_LEN, DIM)), dtype)
        table = bearing.RopeTable(ROPE, 2048, dtype=dtype)
        np.testing.assert_array_equal(rotate(ROPE, x, 2047), rotate(table, x, 2047))


def test_tables_that_keep_no_rows_are_not_taken_for_each_other(rng):
    x = jnp.asarray(rng.standard_normal((BATCH, HEADS, Q_LEN, DIM)))
    for scale_base in (512.0, 64.0):
        xpos = bearing.XposTable(bearing.Xpos(rope=ROPE, scale_base=scale_base), 0, dtype="float64")
        np.testing.assert_array_equal(rotate(xpos.k, x, 40), bearing.rotate_to(xpos.k, np.asarray(x), 40))
        rows = [bearing.XposRows(xpos)]
        wanted = bearing.attention(*[np.asarray(x)] * 3, rows, mask="none", q_positions=40)
        np.testing.assert_array_equal(attention(x, x, x, rows, mask="none", q_positions=40), wanted)
    for base in (10_000.0, 10_000.0 + 1e-6):  # which differ in the eleventh digit
        table = bearing.RopeTable(bearing.Rope(head_dim=DIM, base=base, pairing="half"), 0, dtype="float64")
        np.testing.assert_array_equal(rotate(table, x, 2**30), bearing.rotate_to(table, np.asarray(x), 2**30))
    own = bearing.RopeTable.from_cos_sin(ROPE, np.ones((8, DIM // 2)), np.full((8, DIM // 2), 0.5))
    np.testing.assert_array_equal(rotate(own, x, 4), bearing.rotate_to(own, np.asarray(x), 4))


# Keys that are moved

LONG = bearing.Rope(
    head_dim=DIM, pairing="half", scaling=bearing.YarnScaling(factor=4.0, trained_length=64)
)  # whose attention factor is not 1
MOVES = {
    "numbers": (3, 10),
    "counted from 0": (None, 5),
    "by token": (np.array([4, 0, 7]), np.array([0, 1, 2])),
    "by sequence": (np.array([[4, 0, 7], [1, 2, 3]]), 6),
    "real": (np.array([0.5, 2.0, -1.0]), np.array([0.0, 0.25, 9.0])),
}


@pytest.mark.parametrize("move", MOVES)
def test_moved_keys_are_those_of_bearing_and_their_gradients_the_transpose(move, rng):
    old, new = MOVES[move]
    k, d = rng.standard_normal((2, BATCH, HEADS, Q_LEN, DIM))
    wanted = k.copy()
    bearing.rebase(ROPE, old, LONG, new, wanted)
    moved, pull_back = jax.vjp(jax.jit(lambda k: rebase(ROPE, old, LONG, new, k)), k)
    np.testing.assert_array_equal(moved, wanted)
    d_k = pull_back(jnp.asarray(d))[0]
    close(jnp.vdot(d_k, k), np.vdot(d, wanted), terms=d * wanted)
    check_grads(lambda k: rebase(ROPE, old, LONG, new, k), (jnp.asarray(k),), order=2, modes=["rev"])


def test_moving_is_rotating_at_the_new_place(rng):
    k = jnp.asarray(rng.standard_normal((BATCH, HEADS, Q_LEN, DIM)))
    before, after = (bearing.RopeTable(rope, 16, dtype="float64") for rope in (ROPE, LONG))
    close(rebase(before, 3, after.frequencies, 9, rotate(before, k, 3)), rotate(after, k, 9))
    close(shift(ROPE, -2, rotate(before, k, 3)), rotate(before, k, 1))


def test_keys_whose_angles_are_not_known_are_not_moved():
    k = jnp.ones((BATCH, HEADS, Q_LEN, DIM))
    with pytest.raises(bearing.RangeError, match=r"^\[shift\] frequencies: must have exact angles"):
        shift(bearing.resolve(ROPE, angles="as_float32"), 1, k)
    stretched = ROPE.replace(scaling=bearing.DynamicNtkScaling(factor=2.0, trained_length=64))
    with pytest.raises(bearing.RangeError, match=r"^\[rebase\] rope.scaling: must give the same frequencies"):
        rebase(bearing.Xpos(rope=stretched), 0, 1, k)


def test_xpos_keys_are_moved_with_their_decay(rng):
    xpos = bearing.Xpos(rope=ROPE, scale_base=32.0, centre=3.0)
    k, d = rng.standard_normal((2, BATCH, HEADS, Q_LEN, DIM))
    wanted = k.copy()
    bearing.rebase(xpos, 2, np.array([9, 0, 4]), wanted)
    moved, pull_back = jax.vjp(jax.jit(lambda k: rebase(xpos, 2, np.array([9, 0, 4]), k)), k)
    close(moved, wanted)
    close(jnp.vdot(pull_back(jnp.asarray(d))[0], k), np.vdot(d, wanted), terms=d * wanted)


def test_shifts_may_be_traced_mapped_and_differentiated(rng):
    k = jnp.asarray(rng.standard_normal((BATCH, HEADS, Q_LEN, DIM)))
    moved = jax.jit(jax.vmap(lambda by, k: shift(LONG, by, k), (0, None)))(jnp.asarray([-3, 0, 8]), k)
    for by, one in zip((-3, 0, 8), moved, strict=True):
        wanted = np.array(k)
        bearing.shift(LONG, by, wanted)
        np.testing.assert_array_equal(one, wanted)
    check_grads(functools.partial(shift, LONG, 5), (k,), order=2, modes=["rev"])
    each = jax.vmap(lambda old, k: rebase(ROPE, old, ROPE, 0, k))(jnp.asarray([4, 9]), k)
    np.testing.assert_array_equal(each[1], rebase(ROPE, 9, ROPE, 0, k[1]))


@pytest.mark.parametrize("dtype", TYPES)
def test_moved_keys_keep_their_type_and_layout(dtype, rng):
    k = jnp.asarray(rng.standard_normal((Q_LEN, HEADS, DIM)), dtype)
    wide = jnp.moveaxis(k, 0, 1).astype(jnp.float64)
    for function in (
        lambda k, **layout: rebase(ROPE, 1, ROPE, 6, k, **layout),
        lambda k, **layout: shift(ROPE, 5, k, **layout),
        lambda k, **layout: rebase(bearing.Xpos(rope=ROPE), 1, 6, k, **layout),
    ):
        moved = function(k, layout="bthd")
        assert moved.dtype == dtype and moved.shape == k.shape
        wanted = to_numpy(function(wide))
        # Rounded once, or in float64 twice; the rotation has a few roundings of its arithmetic.
        atol = (ROUNDING[dtype] + 8 * max(ROUNDING["float64"], (dtype != "float64") * ROUNDING["float32"])) * 4
        np.testing.assert_allclose(to_numpy(jnp.moveaxis(moved, 0, 1)), wanted, rtol=0, atol=atol)
