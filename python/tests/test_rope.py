"""RoPE: specs, frequencies, tables, rotations and their gradients, against independent numbers and formulas."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import bearing
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from transformers import AutoConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
EPS = np.finfo(np.float64).eps


def golden(folder: str) -> list[Any]:
    return [pytest.param(json.loads(p.read_text()), id=p.stem) for p in sorted((GOLDEN / folder).glob("*.json"))]


def tensor(of: dict[str, Any]) -> np.ndarray:
    return np.array(of["data"]).reshape(of["shape"])


def turned(x: np.ndarray, angle: np.ndarray, pairing: str, rotary_dim: int, factor: float = 1.0) -> np.ndarray:
    """The formula, in float64: x [..., time, dim], angle [..., time, pairs]."""
    out = x.astype(np.float64).copy()
    part = x[..., :rotary_dim].astype(np.float64)
    if pairing == "half":
        u, v = part[..., : rotary_dim // 2], part[..., rotary_dim // 2 :]
        to = slice(0, rotary_dim // 2), slice(rotary_dim // 2, rotary_dim)
    else:
        u, v = part[..., 0::2], part[..., 1::2]
        to = slice(0, rotary_dim, 2), slice(1, rotary_dim, 2)
    out[..., to[0]] = factor * (u * np.cos(angle) - v * np.sin(angle))
    out[..., to[1]] = factor * (u * np.sin(angle) + v * np.cos(angle))
    return out


# Specs are values.

SPECS = [
    bearing.Rope(head_dim=128, base=500_000, pairing="half", scaling=bearing.Llama3Scaling()),
    bearing.Rope(head_dim=64, rotary_dim=32, pairing="interleaved", part=bearing.RotaryPart(where="last")),
    bearing.Rope(head_dim=128, pairing="half", axes=bearing.RopeAxes.sections([16, 24, 24])),
    bearing.Rope(head_dim=64, pairing="half", axes=bearing.RopeAxes.blocks([16, 16]), log_factors=[0.1] * 32),
    bearing.Rope(
        head_dim=128, pairing="half", scaling=bearing.YarnScaling(factor=4.0, trained_length=32768, mscale=0.7)
    ),
    bearing.Rope(head_dim=4, pairing="half", scaling=bearing.LinearScaling(factor=2.0), attention_factor=1.25),
    bearing.Rope(head_dim=4, pairing="half", scaling=bearing.ExplicitFrequencies(inv_freq=[1.0, 0.1])),
    bearing.Rope(
        head_dim=4,
        pairing="half",
        scaling=bearing.LongRopeScaling(short_factor=[1, 2], long_factor=[3, 4], trained_length=8, factor=2.0),
    ),
]


@pytest.mark.parametrize("rope", SPECS, ids=lambda rope: bearing.scaling_name(rope.scaling))
def test_a_spec_comes_back_from_a_dictionary_from_json_and_from_its_own_text(rope: bearing.Rope) -> None:
    assert bearing.Rope.from_dict(json.loads(json.dumps(rope.to_dict()))) == rope
    assert bearing.Rope.from_json(rope.to_json()) == rope
    assert eval(repr(rope), vars(bearing)) == rope
    assert hash(rope) == hash(rope.replace()) and rope.replace(base=7.0) != rope


def test_a_spec_cannot_be_changed_and_has_no_default_pairing() -> None:
    with pytest.raises(AttributeError):
        SPECS[0].base = 1.0  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"\[Rope\] pairing: must be given"):
        bearing.Rope(head_dim=8)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match=r"\[Rope\] pairing: must be one of 'interleaved', 'half'"):
        bearing.Rope(head_dim=8, pairing="neox")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="has no theta"):
        bearing.Rope(head_dim=8, pairing="half", theta=1.0)  # type: ignore[call-arg]


# Frequencies.


@pytest.mark.parametrize("case", golden("hf_rope"))
def test_frequencies_are_those_of_the_published_models(case: dict[str, Any]) -> None:
    layer = next(x for x in bearing.read_hf_config(case["config"]).layers if x.name == "rope" and layer_fits(x, case))
    frequencies = bearing.resolve(layer.encoding, seq_len=case["seq_len"] or 0)
    assert frequencies.pairing == case["layout"]
    assert frequencies.rotary_dim == case["rotary_dim"]
    # Both have been rounded to float64 a few times at most: powers, a ramp, quotients.
    np.testing.assert_allclose(frequencies.inv_freq, case["inv_freq_f64"], rtol=64 * EPS)
    assert frequencies.attention_factor == pytest.approx(case["attention_factor_f64"], rel=64 * EPS)


def layer_fits(layer: bearing.Layer, case: dict[str, Any]) -> bool:
    """Gemma 3 has two kinds of layers, and a file for each."""
    if "gemma3" not in case["name"]:
        return True
    return (layer.type == "sliding_attention") == case["name"].endswith("local")


CONFIGS: dict[str, dict[str, Any]] = {
    "default": {"rope_type": "default", "rope_theta": 10_000.0},
    "linear": {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 2.0},
    "yarn": {
        "rope_type": "yarn",
        "rope_theta": 1_000_000.0,
        "factor": 4.0,
        "original_max_position_embeddings": 512,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
    },
    "longrope": {
        "rope_type": "longrope",
        "rope_theta": 10_000.0,
        "short_factor": [1.0 + 0.01 * i for i in range(32)],
        "long_factor": [1.0 + 0.5 * i for i in range(32)],
        "original_max_position_embeddings": 512,
    },
    "llama3": {
        "rope_type": "llama3",
        "rope_theta": 500_000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 512,
    },
    "proportional": {"rope_type": "proportional", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5},
}


def test_every_rope_type_of_transformers_is_in_these_tests() -> None:
    assert set(CONFIGS) >= set(ROPE_INIT_FUNCTIONS) | {"default"}


@pytest.mark.parametrize("kind", sorted(CONFIGS))
@pytest.mark.parametrize("seq_len", [100, 2048])
def test_rotations_are_those_of_transformers_own_rotary_embedding(kind: str, seq_len: int) -> None:
    """transformers 5.24.0; its frequencies are float32, so that its angles are off by a few of its ulps of p·θ."""
    from transformers.models.llama.modeling_llama import LlamaConfig, LlamaRotaryEmbedding, apply_rotary_pos_emb

    config = LlamaConfig(
        hidden_size=256,
        num_attention_heads=4,
        num_hidden_layers=1,
        max_position_embeddings=2048,
        rope_parameters=CONFIGS[kind],
    )
    theirs = LlamaRotaryEmbedding(config)
    at = torch.arange(seq_len)[None]
    q, k = torch.randn(2, 1, 4, seq_len, 64, generator=torch.Generator().manual_seed(1)).unbind(0)
    cos, sin = theirs(q, at)
    wanted_q, wanted_k = apply_rotary_pos_emb(q, k, cos, sin)

    rope = bearing.Rope.from_config(config)
    table = bearing.RopeTable(rope, seq_len, seq_len=seq_len, angles="as_float32")
    # Rows of as_float32 tables follow their order of roundings: what is left is the rounding of float32 cosines, of
    # powers in float32, which differ in their last bits between libraries, times the position.
    angle_error = 8 * np.finfo(np.float32).eps * seq_len
    got_q, got_k = bearing.rotate_to(table, q), bearing.rotate_to(table, k)
    bound = float(torch.max(torch.linalg.norm(q, dim=-1))) * (angle_error + 8 * np.finfo(np.float32).eps) * 2
    torch.testing.assert_close(got_q, wanted_q, rtol=0, atol=bound)
    torch.testing.assert_close(got_k, wanted_k, rtol=0, atol=bound)
    np.testing.assert_allclose(
        bearing.resolve(rope, seq_len=seq_len, angles="as_float32").inv_freq, theirs.inv_freq.double(), rtol=1e-6
    )


def test_a_config_object_of_transformers_says_what_its_file_says(tmp_path: Path) -> None:
    config = AutoConfig.for_model("llama", hidden_size=256, num_attention_heads=4, rope_parameters=CONFIGS["llama3"])
    config.save_pretrained(tmp_path)
    from_object = bearing.read_hf_config(config)
    from_file = bearing.read_hf_config(tmp_path / "config.json")
    from_dict = bearing.read_hf_config(json.loads((tmp_path / "config.json").read_text()))
    assert from_object.layers == from_file.layers == from_dict.layers
    assert bearing.Rope.from_config(str(tmp_path / "config.json")) == from_file.layers[0].encoding


# Tables.


def test_a_tables_rows_are_its_own_memory_and_outlive_it() -> None:
    table = bearing.RopeTable(SPECS[0], 64)
    cos = table.cos
    assert cos.dtype == np.float32 and cos.shape == (64, 64) and not cos.flags.writeable
    assert cos.ctypes.data == table.cos.ctypes.data
    wanted = cos.copy()
    del table
    assert np.array_equal(cos, wanted)


def test_rows_are_the_truth_rounded() -> None:
    truth = json.loads((GOLDEN / "truth" / "cos_sin_truth.json").read_text())
    columns = {name: i for i, name in enumerate(truth["columns"])}
    for row in truth["rows"]:
        base, d, i, position = (row[columns[name]] for name in ("base", "d", "i", "position"))
        frequencies = bearing.resolve(bearing.Rope(head_dim=d, base=base, pairing="half"))
        cos, sin = bearing.cos_sin(frequencies, [position], dtype="float64")
        for got, name in ((cos, "cos"), (sin, "sin")):
            wanted = float(row[columns[name]])
            assert abs(got[0, i] - wanted) <= 2 * np.spacing(abs(wanted)), (row, name)


def test_compact_tables_and_rows_past_a_table_agree_with_long_tables() -> None:
    rope = bearing.Rope(head_dim=32, pairing="half")
    x = np.random.default_rng(0).standard_normal((1, 1, 8, 32))
    at = np.array([0, 1, 100, 5_000, 99_999, 2, 3, 4])
    long = bearing.rotate_to(bearing.RopeTable(rope, 100_000, dtype="float64"), x, at)
    for table in (
        bearing.RopeTable(rope, 100_000, dtype="float64", memory="compact"),
        bearing.RopeTable(rope, 0, dtype="float64"),
        bearing.RopeTable(bearing.resolve(rope), 16, dtype="float64"),
    ):
        # Two roundings of cos and sin, each at most 2 ulp off, and two products and a sum.
        np.testing.assert_allclose(bearing.rotate_to(table, x, at), long, rtol=0, atol=8 * EPS * np.abs(x).max())
    with pytest.raises(bearing.ShapeError, match="cos"):
        _ = bearing.RopeTable(rope, 8, memory="compact").cos


# Rotations.


@pytest.mark.parametrize("case", golden("apply_rope"))
def test_rotations_and_gradients_are_the_models_own(case: dict[str, Any]) -> None:
    layout = {"bhsd": "bhtd", "bshd": "bthd"}[case["axes"]]
    axes = bearing.RopeAxes()
    if "mrope_section" in case:
        make = bearing.RopeAxes.interleaved if "interleaved" in case["layout"] else bearing.RopeAxes.sections
        axes = make(case["mrope_section"])
    pairing = "half" if case["layout"].startswith("half") else "interleaved"
    rope = bearing.Rope(
        head_dim=case["head_dim"], rotary_dim=case["rotary_dim"], base=case["rope_theta"], pairing=pairing, axes=axes
    )
    table = bearing.RopeTable(rope, 4096, dtype="float64")
    at = np.array(case["positions"])
    for name in ("q", "k"):
        x, wanted = tensor(case[name]), tensor(case[f"expected_{name}"])
        bound = 2048 * 4 * EPS * np.abs(x).max()  # their angles are rounded: half an ulp of position·θ ≤ 2048
        np.testing.assert_allclose(bearing.rotate_to(table, x, at, layout=layout), wanted, rtol=0, atol=bound)
        d, d_wanted = tensor(case[f"grad_out_{name}"]), tensor(case[f"expected_grad_{name}"])
        got = bearing.rotate_backward_to(table, d, at, layout=layout)
        np.testing.assert_allclose(got, d_wanted, rtol=0, atol=bound)
        bearing.rotate(table, x, at, layout=layout)
        assert np.array_equal(x, bearing.rotate_to(table, tensor(case[name]), at, layout=layout))
        bearing.rotate_backward(table, d, at, layout=layout)
        assert np.array_equal(d, got)


@pytest.mark.parametrize("case", golden("onnx_rotary"))
def test_given_cosines_turn_as_in_onnx(case: dict[str, Any]) -> None:
    x, wanted = tensor(case["input"]), tensor(case["expected"])
    layout = "bhtd"
    if x.ndim == 3:
        heads = case["attributes"]["num_heads"]
        x = x.reshape(*x.shape[:2], heads, -1)
        layout = "bthd"
    cos, sin = tensor(case["cos_cache"]), tensor(case["sin_cache"])
    rotary_dim = case["attributes"].get("rotary_embedding_dim", 0)
    pairing = "interleaved" if case["attributes"]["interleaved"] else "half"
    rope = bearing.Rope(head_dim=x.shape[-1], rotary_dim=rotary_dim, pairing=pairing)
    if case["position_ids"] is not None:
        at = tensor(case["position_ids"]).astype(np.int64)
        got = bearing.rotate_to(bearing.RopeTable.from_cos_sin(rope, cos, sin), x, at, layout=layout)
    else:  # one row for each token of each sequence
        tables = [bearing.RopeTable.from_cos_sin(rope, c, s) for c, s in zip(cos, sin)]
        got = np.concatenate([bearing.rotate_to(t, x[b : b + 1], layout=layout) for b, t in enumerate(tables)])
    np.testing.assert_allclose(got.reshape(wanted.shape), wanted, rtol=0, atol=8 * EPS * np.abs(x).max())


@given(
    st.data(),
    st.sampled_from(["half", "interleaved"]),
    st.sampled_from(["bhtd", "bthd"]),
    st.sampled_from([np.float64, np.float32]),
)
@settings(max_examples=200, deadline=None)
def test_any_shape_strides_and_positions_follow_the_formula(data: Any, pairing: str, layout: str, dtype: Any) -> None:
    pairs = data.draw(st.integers(1, 9))
    head_dim = 2 * pairs + data.draw(st.integers(0, 5))
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4))
    steps = [data.draw(st.sampled_from([1, 2, -1])) for _ in (*shape, head_dim)]
    x = (
        np.random.default_rng(data.draw(st.integers(0, 99)))
        .standard_normal([n * abs(s) for n, s in zip((*shape, head_dim), steps)])
        .astype(dtype)[tuple(slice(None, None, s) for s in steps)]
    )
    time_first = layout == "bthd" and x.ndim > 2
    time, batch = x.shape[-3 if time_first else -2], x.shape[0] if x.ndim == 4 else 1
    whole = data.draw(st.booleans())
    number = st.integers(-(2**20), 2**20) if whole else st.floats(-100, 100)
    at = np.array(
        data.draw(st.lists(number, min_size=batch * time, max_size=batch * time)), np.int64 if whole else np.float64
    ).reshape(batch, time)

    rope = bearing.Rope(head_dim=head_dim, rotary_dim=2 * pairs, pairing=pairing)
    table = bearing.RopeTable(rope, 16, dtype=np.dtype(dtype).name)
    got = bearing.rotate_to(table, x, at, layout=layout)

    angle = at[:, :, None] * bearing.resolve(rope).inv_freq  # [batch, time, pairs]
    rows = np.moveaxis(x, -3, -2) if time_first else x  # [batch, heads, time, dim]
    angle = angle[:, None] if rows.ndim == 4 else angle[0]
    wanted = turned(rows, angle, pairing, 2 * pairs)
    wanted = np.moveaxis(wanted, -2, -3) if time_first else wanted
    # The formula's angle is rounded, half an ulp of at most 2^20, in float64; the rest is arithmetic in x's type.
    bound = (2**20 * EPS + 4 * np.finfo(dtype).eps) * 2 * max(1.0, np.abs(x).max(initial=0))
    assert got.dtype == dtype and got.shape == x.shape
    np.testing.assert_allclose(got, wanted, rtol=0, atol=bound)
    bearing.rotate(table, x, at, layout=layout)
    assert np.array_equal(x, got)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_results_leave_in_the_callers_kind_and_are_the_same_bits(dtype: str) -> None:
    rope = bearing.Rope(head_dim=16, pairing="half")
    table = bearing.RopeTable(rope, 32, dtype="float64" if dtype == "float64" else "float32")
    numbers = np.random.default_rng(2).standard_normal((2, 3, 5, 16))
    as_numpy = numbers.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    as_torch = torch.tensor(numbers).to(getattr(torch, dtype))
    wanted = bearing.rotate_to(table, as_numpy, 7)
    assert isinstance(wanted, np.ndarray) and wanted.dtype == as_numpy.dtype
    got = bearing.rotate_to(table, as_torch, 7)
    assert isinstance(got, torch.Tensor) and got.dtype == as_torch.dtype
    assert np.array_equal(got.double().numpy(), wanted.astype(np.float64))
    if dtype != "float64":  # which JAX leaves out by default
        of_jax = bearing.rotate_to(table, jnp.asarray(as_numpy), 7)
        assert isinstance(of_jax, jnp.ndarray) and of_jax.dtype == as_numpy.dtype
        assert np.array_equal(np.asarray(of_jax), wanted)
    bearing.rotate(table, as_torch, 7)
    assert torch.equal(as_torch, got)
    bearing.rotate(table, as_numpy, 7)
    assert np.array_equal(as_numpy, wanted)


def test_queries_and_keys_that_overlap_are_refused_and_slices_of_one_buffer_are_not() -> None:
    table = bearing.RopeTable(bearing.Rope(head_dim=8, pairing="half"), 8)
    m = np.arange(56, dtype=np.float32).reshape(1, 1, 7, 8)
    before = m.copy()
    with pytest.raises(
        bearing.ShapeError, match=r"^\[rotate\] k: must share no memory with q, got tensors that overlap$"
    ):
        bearing.rotate(table, m[:, :, :4], m[:, :, 2:6], 0)
    np.testing.assert_array_equal(m, before)
    fused = np.ones((1, 5, 3, 2, 8), np.float32)  # batch, time, (q, k, v), heads, dim
    q, k, v = (fused[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    bearing.rotate(table, q, k, 0)
    np.testing.assert_array_equal(fused[:, :, 0], fused[:, :, 1])
    np.testing.assert_array_equal(v, np.ones_like(v))


def test_queries_and_keys_in_one_call_are_two_calls() -> None:
    table = bearing.RopeTable(bearing.Rope(head_dim=16, pairing="half"), 32)
    rng = np.random.default_rng(3)
    q, k = rng.standard_normal((1, 4, 6, 16), np.float32), rng.standard_normal((1, 2, 6, 16), np.float32)
    wanted = bearing.rotate_to(table, q, 3), bearing.rotate_to(table, k, 3), bearing.rotate_to(table, k, 9)
    q1, k1, k2 = q.copy(), k.copy(), k.copy()
    bearing.rotate(table, q1, k1, 3)
    assert np.array_equal(q1, wanted[0]) and np.array_equal(k1, wanted[1])
    bearing.rotate(table, q.copy(), k2, 3, k_positions=9, threads=2)
    assert np.array_equal(k2, wanted[2])
    fewer = k[:, :, :4].copy()
    with pytest.raises(
        bearing.ShapeError, match=r"^\[rotate\] k: must have the batch and time of q, \[1, 4, 6, 16\], "
    ):
        bearing.rotate(table, q, fewer, 3)
    assert np.array_equal(fewer, k[:, :, :4])
    bearing.rotate(table, q, fewer, 3, k_positions=3)
    assert np.array_equal(fewer, wanted[1][:, :, :4])


def test_moved_keys_are_keys_cached_at_the_new_place() -> None:
    rope = bearing.Rope(head_dim=16, pairing="half", scaling=bearing.DynamicNtkScaling(factor=2.0, trained_length=64))
    short, long = bearing.resolve(rope, 64), bearing.resolve(rope, 256)
    k = np.random.default_rng(4).standard_normal((1, 2, 6, 16))
    bound = 16 * EPS * np.abs(k).max()

    def of(frequencies: bearing.RopeFrequencies, at: int) -> np.ndarray:
        return bearing.rotate_to(bearing.RopeTable(frequencies, 8, dtype="float64"), k, at)

    moved = of(short, 3)
    bearing.shift(short, 100, moved)
    np.testing.assert_allclose(moved, of(short, 103), rtol=0, atol=bound)
    bearing.rebase(short, 103, long, 5, moved)
    np.testing.assert_allclose(moved, of(long, 5), rtol=0, atol=bound)

    xpos = bearing.Xpos(rope=bearing.Rope(head_dim=16, pairing="half"), centre=50.0)
    table = bearing.XposTable(xpos, 8, dtype="float64")
    moved = bearing.rotate_to(table.k, k, 3)
    bearing.rebase(xpos, 3, 40, moved)
    np.testing.assert_allclose(moved, bearing.rotate_to(table.k, k, 40), rtol=0, atol=bound)


def test_parameter_gradients_are_the_slopes_of_the_loss() -> None:
    rope = bearing.Rope(head_dim=8, base=100.0, pairing="interleaved")
    rng = np.random.default_rng(5)
    x, d_y = rng.standard_normal((2, 1, 2, 5, 8))
    at = np.array([0.5, 2.0, 3.25, 7.0, 1.0])

    def loss(inv_freq: np.ndarray, at: np.ndarray) -> float:
        frequencies = bearing.resolve_explicit(rope, inv_freq)
        return float((d_y * bearing.rotate_to(bearing.RopeTable(frequencies, 0, dtype="float64"), x, at)).sum())

    inv_freq = bearing.resolve(rope).inv_freq
    y = bearing.rotate_to(bearing.RopeTable(rope, 0, dtype="float64"), x, at)
    got = bearing.rotate_parameter_gradients(rope, y, d_y, at)
    step = 1e-6  # central differences: step² of the third derivative, and roundings over the step
    for i in range(4):
        h = step * np.eye(4)[i]
        slope = (loss(inv_freq + h, at) - loss(inv_freq - h, at)) / (2 * step)
        assert got["inv_freq"][i] == pytest.approx(slope, abs=1e-7)
    for t in range(5):
        h = step * np.eye(5)[t]
        slope = (loss(inv_freq, at + h) - loss(inv_freq, at - h)) / (2 * step)
        assert got["positions"][0, 0, t] == pytest.approx(slope, abs=1e-7)
    base_step = 1e-4
    slope = (
        loss(bearing.resolve(rope.replace(base=100.0 + base_step)).inv_freq, at)
        - loss(bearing.resolve(rope.replace(base=100.0 - base_step)).inv_freq, at)
    ) / (2 * base_step)
    assert bearing.base_gradient(rope, got["inv_freq"]) == pytest.approx(slope, abs=1e-7)


def test_a_table_is_told_the_length_that_its_frequencies_depend_on() -> None:
    ones = (1.0,) * 4
    scalings = {
        "dynamic": bearing.DynamicNtkScaling(factor=2.0, trained_length=64),
        "longrope": bearing.LongRopeScaling(short_factor=ones, long_factor=ones, trained_length=64, factor=2.0),
    }
    for name, scaling in scalings.items():
        rope = bearing.Rope(head_dim=8, pairing="half", scaling=scaling)
        text = rf"^\[RopeTable\] seq_len: must be given, as the frequencies of {name} depend on how long .*, got 0$"
        with pytest.raises(bearing.RangeError, match=text):
            bearing.RopeTable(rope, 4096)
        table = bearing.RopeTable(rope, 16, seq_len=128)
        np.testing.assert_array_equal(table.frequencies.inv_freq, bearing.resolve(rope, 128).inv_freq)


def test_tables_of_xpos_are_told_it_too_and_keep_what_they_were_told() -> None:
    scaling = bearing.DynamicNtkScaling(factor=2.0, trained_length=64)
    xpos = bearing.Xpos(rope=bearing.Rope(head_dim=8, pairing="half", scaling=scaling))
    text = r"^\[XposTable\] seq_len: must be given, as the frequencies of dynamic depend on how long .*, got 0$"
    with pytest.raises(bearing.RangeError, match=text):
        bearing.XposTable(xpos, 4096)
    table = bearing.XposTable(xpos, 16, seq_len=128, angles="as_float32", memory="compact", dtype="float64")
    wanted = bearing.resolve(xpos.rope, 128, "as_float32")
    for one in (table, pickle.loads(pickle.dumps(table))):
        assert one.q.frequencies == wanted and one.k.memory == "compact"
        assert (one.xpos, one.length, one.dtype, one.seq_len) == (xpos, 16, "float64", 128)
        ending = ", length=16, dtype='float64', angles='as_float32', memory='compact', seq_len=128)"
        assert repr(one) == f"XposTable({xpos!r}{ending}"
    assert len(bearing.XposTable(bearing.Xpos(rope=bearing.Rope(head_dim=8, pairing="half")), 4).__reduce__()[1]) == 3


def test_frequencies_of_a_length_are_refused_where_no_length_is_said() -> None:
    rope = bearing.Rope(head_dim=8, pairing="half", scaling=bearing.DynamicNtkScaling(factor=2.0, trained_length=64))
    plain, x = bearing.Rope(head_dim=8, pairing="half"), np.ones((1, 1, 2, 8), np.float32)
    for function, argument, call in [
        ("shift", "frequencies", lambda of: bearing.shift(of, 1, x.copy())),
        ("rebase", "from_", lambda of: bearing.rebase(of, 0, plain, 1, x.copy())),
        ("rebase", "to", lambda of: bearing.rebase(plain, 0, of, 1, x.copy())),
        ("cos_sin", "frequencies", lambda of: bearing.cos_sin(of, length=4)),
        ("rotate_parameter_gradients", "frequencies", lambda of: bearing.rotate_parameter_gradients(of, x, x)),
        ("high_frequency", "frequencies", lambda of: bearing.high_frequency(of, 64)),
        ("negative_angle", "frequencies", bearing.negative_angle),
    ]:
        wanted = "a RopeFrequencies, a RopeTable, or a Rope whose frequencies are the same at every length"
        end = r"; resolve\(rope, seq_len\) makes the frequencies of a length$"
        with pytest.raises(TypeError, match=rf"^\[{function}\] {argument}: must be {wanted}, got Rope\(.*{end}"):
            call(rope)
        for frequencies in (plain, bearing.resolve(rope, 256), bearing.RopeTable(rope, 4, seq_len=256)):
            call(frequencies)


def test_text_gives_parameter_gradients_of_one_axis_of_positions() -> None:
    rope = bearing.Rope(head_dim=8, pairing="half", axes=bearing.RopeAxes.sections([1, 1, 2]))
    y, d_y = np.random.default_rng(7).standard_normal((2, 2, 3, 5, 8))
    text = bearing.rotate_parameter_gradients(rope, y, d_y)
    three = bearing.rotate_parameter_gradients(rope, y, d_y, np.broadcast_to(np.arange(5), (3, 2, 5)))
    assert text["positions"].shape == (1, 2, 5) and three["positions"].shape == (3, 2, 5)
    np.testing.assert_allclose(text["positions"][0], three["positions"].sum(0), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(text["inv_freq"], three["inv_freq"])


def test_keys_whose_angles_are_not_known_are_not_moved() -> None:
    rope = bearing.Rope(head_dim=8, pairing="half", scaling=bearing.DynamicNtkScaling(factor=2.0, trained_length=64))
    k = np.ones((1, 1, 2, 8), np.float32)
    for rounded in (
        bearing.resolve(rope, angles="as_float32"),
        bearing.RopeTable(rope, 4, seq_len=4, angles="as_float32"),
    ):
        with pytest.raises(bearing.RangeError, match=r"^\[shift\] frequencies: must have exact angles, .* rebase\(\)"):
            bearing.shift(rounded, 1, k)
    xpos = bearing.Xpos(rope=rope)
    with pytest.raises(bearing.RangeError, match=r"^\[rebase\] rope.scaling: must give the same .*, got dynamic$"):
        bearing.rebase(xpos, 0, 1, k)
    assert (k == 1).all()
    table = bearing.XposTable(xpos, 512, seq_len=512)
    moved, fresh = bearing.rotate_to(table.k, k, 3), bearing.rotate_to(table.k, k, 400)
    given = bearing.ExplicitFrequencies(inv_freq=table.k.frequencies.inv_freq)
    bearing.rebase(xpos.replace(rope=rope.replace(scaling=given)), 3, 400, moved)
    np.testing.assert_allclose(moved, fresh, rtol=0, atol=2**-20)
    with pytest.raises(bearing.RangeError, match=r"^\[XposTable\] length: must be from 0 to 2\^31, got -1$"):
        bearing.XposTable(xpos, -1, seq_len=512)


@pytest.mark.parametrize("word", ["float32", "float64"])
def test_the_type_of_a_table_may_be_given_by_any_name(word: str) -> None:
    rope = bearing.Rope(head_dim=8, pairing="half")
    for name in (word, np.dtype(word), getattr(np, word), getattr(torch, word), getattr(jnp, word)):
        assert bearing.RopeTable(rope, 4, dtype=name).dtype == word
        assert bearing.XposTable(bearing.Xpos(rope=rope), 4, dtype=name).q.dtype == word
        assert bearing.cos_sin(rope, length=4, dtype=name)[0].dtype == word
        assert bearing.rotary_embedding(4, 8, dtype=name)[0].dtype == word
    for wrong in (np.float16, "single-minded", "xx.float32", ">f4", int):
        with pytest.raises(TypeError, match=r"^\[RopeTable\] dtype: must be float32 or float64, got "):
            bearing.RopeTable(rope, 4, dtype=wrong)


def test_what_numpy_calls_a_type_names_it() -> None:
    rope = bearing.Rope(head_dim=8, pairing="half")
    for word, name in [("f4", "float32"), ("single", "float32"), ("double", "float64"), (float, "float64")]:
        assert bearing.RopeTable(rope, 4, dtype=word).dtype == name
    for word, name in [("half", "float16"), ("f8", "float64"), ("torch.float32", "float32")]:
        assert str(bearing.sinusoidal_encoding(3, 4, dtype=word).dtype) == name


def test_rows_of_a_table_serve_attention() -> None:
    rng = np.random.default_rng(6)
    q, k, v = rng.standard_normal((3, 1, 2, 7, 16))
    table = bearing.RopeTable(bearing.Rope(head_dim=16, pairing="half"), 16, dtype="float64")
    got = bearing.attention(q, k, v, [bearing.RotaryRows(table)], mask="causal")
    wanted = bearing.attention(bearing.rotate_to(table, q), bearing.rotate_to(table, k), v, mask="causal")
    np.testing.assert_allclose(got, wanted, rtol=0, atol=16 * EPS * np.abs(v).max())
    with pytest.raises(TypeError, match=r"\[attention\] RotaryRows.table: must be float32, the arith"):
        bearing.attention(*(a.astype(np.float32) for a in (q, k, v)), [bearing.RotaryRows(table)], mask="causal")
    xpos = bearing.XposTable(bearing.Xpos(rope=bearing.Rope(head_dim=16, pairing="half")), 16, dtype="float64")
    got = bearing.attention(q, k, v, [bearing.XposRows(xpos)], mask="causal")
    wanted = bearing.attention(bearing.rotate_to(xpos.q, q), bearing.rotate_to(xpos.k, k), v, mask="causal")
    np.testing.assert_allclose(got, wanted, rtol=0, atol=16 * EPS * np.abs(v).max())


@pytest.mark.parametrize("shape", [(5, 16), (2, 5, 16), (1, 2, 5, 16)])
def test_keys_in_the_place_of_positions_are_told_apart(shape) -> None:
    rope = bearing.Rope(head_dim=16, pairing="half")
    wanted = r"\[rotate\] positions: must be those of x, .* rotate\(table, q, k, positions\), with None .* of shape \["
    for make in (np.ones, torch.ones):
        q, k = make(shape), make(shape)
        for k_given in (k, k[..., :3, :]):
            with pytest.raises(TypeError, match=wanted):
                bearing.rotate(rope, q, k_given)
        assert (q == 1).all()


def test_positions_of_as_many_tokens_as_a_head_is_wide_are_positions() -> None:
    rope = bearing.Rope(head_dim=16, pairing="half")
    for shape, layout, at in (
        ((16, 16), "bhtd", np.arange(16)[None]),
        ((2, 16, 16), "bhtd", np.arange(16)[None, None]),
        ((16, 2, 16), "bthd", np.arange(16)[None, None]),
    ):
        x, same = np.ones(shape), np.ones(shape)
        bearing.rotate(rope, x, at, layout=layout)
        bearing.rotate(rope, same, layout=layout)
        np.testing.assert_array_equal(x, same)


def test_one_sequence_and_one_token_are_singular() -> None:
    rope, x = bearing.Rope(head_dim=16, pairing="half"), np.ones((1, 2, 1, 16))
    with pytest.raises(bearing.ShapeError, match=r"positions: must have 1 token, got 2$"):
        bearing.rotate_to(rope, x, [3, 4])
    with pytest.raises(bearing.ShapeError, match=r"positions: must have 1 sequence, got 2$"):
        bearing.rotate_to(rope, x, [[3], [4]])
