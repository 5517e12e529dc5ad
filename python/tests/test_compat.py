"""The calls of tutorials, as they are written there, and what else apply_rope takes."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import bearing
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[2]


def test_the_documents_calls_run_as_written_with_numpy() -> None:
    from bearing import alibi_bias, apply_rope, rotary_embedding, sinusoidal_encoding

    seq_len, d_model, num_heads, d_k = 100, 64, 8, 64
    rng = np.random.default_rng(0)
    X = rng.standard_normal((seq_len, d_model), np.float32)
    Q, K = rng.standard_normal((2, seq_len, d_k), np.float32)
    positions = np.arange(seq_len)

    pos_enc = sinusoidal_encoding(seq_len, d_model)
    X = X + pos_enc
    assert X.shape == (seq_len, d_model) and X.dtype == np.float32

    Q_rotated = apply_rope(Q, positions)
    K_rotated = apply_rope(K, positions)
    scores = Q_rotated @ K_rotated.T / np.sqrt(d_k)
    assert scores.shape == (seq_len, seq_len)

    scores = Q @ K.T / np.sqrt(d_k)
    scores = scores + alibi_bias(seq_len, num_heads)
    assert scores.shape == (num_heads, seq_len, seq_len)

    cos, sin = rotary_embedding(seq_len, d_k)
    assert cos.shape == sin.shape == (seq_len, d_k // 2)


def test_the_documents_calls_run_as_written_with_jax_numpy() -> None:
    from bearing import alibi_bias, apply_rope, sinusoidal_encoding

    seq_len, d_model, num_heads, d_k = 100, 64, 8, 64
    X = jnp.ones((seq_len, d_model), jnp.float32)
    Q = K = jnp.ones((seq_len, d_k), jnp.float32)
    positions = jnp.arange(seq_len)
    assert isinstance(X + sinusoidal_encoding(seq_len, d_model), jnp.ndarray)
    Q_rotated = apply_rope(Q, positions)
    K_rotated = apply_rope(K, positions)
    scores = Q_rotated @ K_rotated.T / jnp.sqrt(d_k)
    assert isinstance(scores, jnp.ndarray)
    assert isinstance(scores + alibi_bias(seq_len, num_heads), jnp.ndarray)


def test_the_documents_calls_run_with_torch() -> None:
    from bearing import alibi_bias, apply_rope, sinusoidal_encoding

    seq_len, d_model, num_heads, d_k = 100, 64, 8, 64
    X = torch.ones(seq_len, d_model, requires_grad=True)
    X = X + sinusoidal_encoding(seq_len, d_model, like=X)
    Q = K = torch.ones(seq_len, d_k)
    positions = torch.arange(seq_len)
    Q_rotated = apply_rope(Q, positions)
    K_rotated = apply_rope(K, positions)
    scores = Q_rotated @ K_rotated.T / math.sqrt(d_k)
    scores = scores + alibi_bias(seq_len, num_heads, like=scores)
    assert isinstance(scores, torch.Tensor) and scores.shape == (num_heads, seq_len, seq_len)
    assert X.requires_grad


def test_the_documents_worked_example_has_its_numbers() -> None:
    example = json.loads((ROOT / "tests/golden/seeds/worked_examples.json").read_text())["seed_003_worked_example"]
    wanted = [float(number) for number in example["exact"]]
    q = np.array(example["q"], np.float64)
    # Its frequencies [1, 0.1] are those of base 100.
    got = bearing.apply_rope(q, example["m"], base=100)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=4 * np.finfo(np.float64).eps)
    np.testing.assert_allclose(bearing.apply_rope(torch.tensor(q), torch.tensor(2), base=100), wanted, rtol=1e-15)


def test_a_sinusoidal_table_is_the_papers_formula() -> None:
    got = bearing.sinusoidal_encoding(50, 10, dtype="float64")
    p, i = np.arange(50)[:, None], np.arange(5)
    angle = p * 10_000.0 ** (-2 * i / 10)
    wanted = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(50, 10)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=50 * 2 * np.finfo(np.float64).eps)


@pytest.mark.parametrize("heads", [8, 12])
def test_alibis_matrix_is_slope_times_distance(heads: int) -> None:
    slopes = np.array(bearing.Alibi.published(heads).slopes)
    distance = np.abs(np.arange(20)[:, None] - np.arange(20))
    wanted = -slopes[:, None, None] * distance
    np.testing.assert_allclose(bearing.alibi_bias(20, heads, dtype="float64"), wanted, rtol=4e-16)
    if heads == 8:
        assert slopes[0] == 0.5 and slopes[-1] == 2.0**-8
    causal = bearing.alibi_bias(20, heads, form="causal", dtype="float64")
    assert np.array_equal(causal, np.tril(np.broadcast_to(wanted, causal.shape)) + 0.0)


def test_a_rotated_tensor_keeps_its_gradient() -> None:
    x = torch.randn(3, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: bearing.apply_rope(x, torch.tensor([4, 0, 2])), x)


def test_without_ml_dtypes_bfloat16_says_what_to_install() -> None:
    program = "import sys; sys.modules['ml_dtypes'] = None; import bearing; bearing.sinusoidal_encoding(3, 6, {})"
    given = "dtype='bfloat16'"
    done = subprocess.run([sys.executable, "-c", program.format(given)], capture_output=True, text=True)
    wanted = "ImportError: NumPy's arrays of bfloat16 need ml_dtypes: pip install 'bearing-pe[bfloat16]'"
    assert done.stderr.splitlines()[-1] == wanted


def test_apply_rope_works_inside_transformations_of_jax() -> None:
    x = np.random.default_rng(5).standard_normal((10, 16), dtype=np.float32)
    wanted = bearing.apply_rope(x, np.arange(10))
    traced = jax.jit(lambda x, at: bearing.apply_rope(x, at))
    np.testing.assert_array_equal(traced(x, jnp.arange(10)), wanted)
    np.testing.assert_array_equal(jax.jit(lambda at: bearing.apply_rope(jnp.asarray(x), at))(jnp.arange(10)), wanted)
    np.testing.assert_array_equal(jax.vmap(lambda x: bearing.apply_rope(x, jnp.arange(10)))(x[None])[0], wanted)
    gradient = jax.grad(lambda x: (bearing.apply_rope(x, jnp.arange(10)) ** 2).sum())(jnp.asarray(x))
    np.testing.assert_allclose(gradient, 2 * x, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: bearing.apply_rope(x[0], np.array([2, 3])), bearing.ShapeError, r"positions: must be one.*\[2\]"),
        (lambda x: bearing.apply_rope(x, base="10"), TypeError, "base: must be a number, got '10'"),
        (lambda x: bearing.apply_rope(memoryview(x)), TypeError, "x: must be an array of NumPy, PyTorch or JAX"),
    ],
)
def test_apply_rope_refuses_by_name(call: Callable[[np.ndarray], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=r"\[apply_rope\] " + text):
        call(np.ones((4, 8), np.float32))
