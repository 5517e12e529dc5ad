"""What arrays and positions may be, and what is asked of those that are written."""

import threading

import bearing
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
