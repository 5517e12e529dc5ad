"""What arrays and positions may be, and what is asked of those that are written."""

import threading

import bearing
import bearing.torch as bt
import jax.numpy as jnp
import numpy as np
import pytest
import torch

TABLE = bearing.RopeTable(bearing.Rope(head_dim=16, pairing="half"), 64)
X = np.random.default_rng(0).standard_normal((2, 3, 5, 16), dtype=np.float32)


def turned(at: object) -> np.ndarray:
    return bearing.rotate_to(TABLE, X, at)


@pytest.mark.parametrize(
    "past", [np.int64(3), np.uint8(3), np.array(3), np.array(3, ">i4").astype("i4"), torch.tensor(3), jnp.array(3)]
)
def test_a_cache_may_count_in_any_integer(past: object) -> None:
    np.testing.assert_array_equal(turned(past), turned(3))


@pytest.mark.parametrize("code", "bBhHiIlLqQ")
def test_positions_may_be_of_any_integer_type(code: str) -> None:
    np.testing.assert_array_equal(turned(np.arange(5, dtype=code)), turned(0))
    np.testing.assert_array_equal(turned(np.arange(10, dtype=code).reshape(2, 5)), turned(np.arange(10).reshape(2, 5)))


@pytest.mark.parametrize("code", "bBhHiIlLqQ")
def test_lengths_may_be_of_any_integer_type(code: str) -> None:
    some = bearing.attention(X, X, X, mask="none", k_lengths=np.array([2, 4], dtype=code))
    np.testing.assert_array_equal(some, bearing.attention(X, X, X, mask="none", k_lengths=np.array([2, 4])))


@pytest.mark.parametrize("kind", [np.int64, np.int16, np.float64, np.float32])
def test_positions_of_one_grid_serve_the_batch(kind: type) -> None:
    rope = bearing.Rope(head_dim=16, pairing="half", axes=bearing.RopeAxes.axial([4, 4]))
    grid = bearing.grid_positions(1, 5).astype(kind)
    whole, d_y = np.repeat(grid, 2, axis=1), np.random.default_rng(1).standard_normal(X.shape, dtype=np.float32)
    scores, x, tensor = np.zeros((2, 3, 5, 5), np.float32), X[:, 0], torch.from_numpy(X)
    swin = bearing.SwinBias(bearing.Swin(height=1, width=5), np.arange(27, dtype=np.float32).reshape(9, 3))
    fourier = bearing.Fourier(axes=2, frequencies=8, unit="radians", layout="sines_first")
    lines = bearing.FourierInputs(fourier, np.random.default_rng(2).random((8, 2), np.float32))

    def in_place(function, *arguments):  # type: ignore[no-untyped-def]
        arrays = [one.copy() if one is X or one is scores else one for one in arguments]
        function(*arrays)
        return [one for one, given in zip(arrays, arguments, strict=True) if one is not given]

    def both(at, mask="none"):  # type: ignore[no-untyped-def]
        return {"q_positions": at, "k_positions": at, "mask": mask}

    for call in [
        lambda at: bearing.rotate_to(rope, X, at),
        lambda at: bearing.rotate_backward_to(rope, X, at),
        lambda at: in_place(bearing.rotate, rope, X, X, at),
        lambda at: in_place(bearing.rotate, rope, X, at),
        lambda at: in_place(bearing.rebase, rope, at, rope, at + 1, X),
        lambda at: bearing.rotate_parameter_gradients(rope, X, d_y, at)["inv_freq"],
        lambda at: bearing.turn(rope, X, at, side="key"),
        lambda at: bearing.turn_backward(rope, X, d_y, at, side="key")[0],
        lambda at: bearing.attention(X, X, X, rope, **both(at)),
        lambda at: bearing.linear_attention(X, X, X, rope, **both(at)),
        lambda at: bearing.linear_attention_backward(X, X, X, d_y, rope, **both(at))[0],
        lambda at: in_place(lambda to: bearing.add_scores(swin, to, q_positions=at, k_positions=at), scores),
        lambda at: bearing.add_scores_backward(swin, np.ones_like(scores), q_positions=at, k_positions=at)[2][0][
            "table"
        ],
        lambda at: bearing.add(lines, x, at),
        lambda at: bt.rotate(tensor, rope=rope, positions=at),
        lambda at: bt.attention(tensor, tensor, tensor, rope, **both(at)),
    ]:
        np.testing.assert_array_equal(call(grid), call(whole))
    with pytest.raises(bearing.ShapeError, match=r"positions: must have 2 sequences, got 3"):
        bearing.rotate_to(rope, X, np.repeat(grid, 3, axis=1))


def test_positions_of_one_sequence_serve_the_batch() -> None:
    np.testing.assert_array_equal(turned(np.arange(7, 12)[None]), turned(7))


@pytest.mark.parametrize(
    ("positions", "text"),
    [
        (True, "must be None, an int, or an array .* got <class 'bool'>"),
        (np.bool_(True), "got <class 'numpy.bool'> of bool"),
        (2**70, "must be None, an int that fits 64 bits"),
        (np.float64(3), "of float64"),
        (torch.tensor(3.0), r"got tensor\(3"),
        (np.arange(5, dtype=">i8"), "got >i8"),
        (np.arange(5, dtype="f2"), "16-bit floats cannot count past 2048.*float16"),
        (torch.arange(5).bfloat16(), "16-bit floats cannot count past 2048.*bfloat16"),
        (np.array([2**63] * 5, "u8"), "must be integers that fit 64 bits with a sign, got 9223372036854775808"),
        (np.array([True] * 5), "must be integers, float64 or float32, got bool"),
        (torch.arange(5.0).requires_grad_(), "positions have no gradient"),
    ],
)
def test_other_positions_are_refused(positions: object, text: str) -> None:
    with pytest.raises(TypeError, match=r"\[rotate_to\] positions: .*" + text):
        turned(positions)


def test_negated_views_are_refused() -> None:
    negated = torch.randn(1, 1, 5, 16, dtype=torch.complex64).conj().imag
    assert negated.is_neg()
    with pytest.raises(TypeError, match=r"resolve_neg\(\)"):
        bearing.rotate_to(TABLE, negated)
    bearing.rotate_to(TABLE, negated.resolve_neg())


def test_autograd_is_told_of_what_is_written() -> None:
    weight = torch.randn(1, 1, 5, 16, requires_grad=True)
    saved = torch.randn(1, 1, 5, 16)
    loss = (weight * saved).sum()
    bearing.rotate(TABLE, saved, 1)
    assert saved._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    with torch.inference_mode():
        bearing.rotate(TABLE, torch.randn(1, 1, 5, 16), 1)


def test_other_threads_go_on_while_one_measures() -> None:
    """A thread that counts gets on during a call that takes tenths of a second; with the lock held it would stand."""
    rows = np.random.default_rng(0).standard_normal((1500, 64))
    stop, count = threading.Event(), 0

    def spin() -> None:
        nonlocal count
        while not stop.is_set():
            count += 1

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        before = count
        bearing.products(rows, rows)
        during = count - before
    finally:
        stop.set()
        thread.join()
    assert during > 1000
