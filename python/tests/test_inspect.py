"""What encodings do, in numbers: the catalog, checks, and measures against NumPy."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bearing
import bearing.torch as bt
import jax.numpy as jnp
import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[2]
EPS = np.finfo(np.float64).eps


def test_the_catalog_names_every_encoding_once() -> None:
    stems = [entry.name for entry in bearing.catalog()]
    assert len(stems) == len(set(stems)) and {"rope", "alibi", "t5", "sinusoidal", "learned"} <= set(stems)
    rope = next(entry for entry in bearing.catalog() if entry.name == "rope")
    assert rope.year == 2021 and "2104.09864" in rope.source and rope.title
    json.dumps(rope.to_dict())


@pytest.mark.parametrize("stem", ["rope", "alibi", "sinusoidal"])
def test_a_check_has_a_verdict_and_its_evidence(stem: str) -> None:
    properties = {p.name: p for p in bearing.check(stem, heads=4, dim=16, length=64)}
    assert properties["relative"].verdict == ("no" if stem == "sinusoidal" else "yes")
    assert properties["deterministic"].verdict == "yes"
    assert all(p.evidence for p in properties.values())
    assert bearing.check(stem, heads=4, dim=16, length=64) == list(properties.values())


def test_a_comparison_is_a_row_of_the_table() -> None:
    row = bearing.compare("t5", heads=4, dim=16, length=64)
    assert row.name == "t5" and row.sites == "score" and row.learnable and row.past_length == "seen values"
    assert row.memory == "O(1)" and row.parameters == 32 * 4


SMALL = {"heads": 2, "dim": 8, "length": 32}
WIDE = bearing.T5(buckets=8, direction="causal")


def ways_to_say(tmp_path: Path) -> list[Any]:
    file = tmp_path / "t5.json"
    file.write_text(json.dumps({"type": "T5", "buckets": 8, "direction": "causal"}))
    text = file.read_text()
    return [WIDE, "T5-causal:buckets=8", text, f"t5_causal:{text}", str(file)]


def test_an_encoding_is_said_in_every_way_and_measured_alike(tmp_path: Path) -> None:
    wanted = bearing.check(WIDE, **SMALL)
    assert {p.name: p.number for p in wanted}["parameters"] == 16
    row = bearing.compare(WIDE, **SMALL)
    assert row.name == "t5_causal" and row.parameters == 16
    for said in ways_to_say(tmp_path):
        assert bearing.check(said, **SMALL) == wanted, said
        assert bearing.compare(said, **SMALL).parameters == 16
        assert bearing.Specimen(said, **SMALL).parameters == 16
        assert bearing.encoding(said) == WIDE
    assert bearing.compare("T5-causal", **SMALL).name == "t5_causal"
    assert bearing.compare("t5:buckets=8", **SMALL).name == "t5:buckets=8"


def test_a_models_encoding_is_measured_at_its_sizes() -> None:
    llama = f"@{ROOT / 'examples/models/llama-3.1-8b.json'}"
    specimen = bearing.Specimen(llama, length=16)
    assert specimen.turn(np.zeros((32, 4, 128))).shape == (32, 4, 128)
    norm = {p.name: p for p in bearing.check(llama, heads=1, length=64)}["norm"]
    assert norm.verdict == "yes"
    gemma = f"@{ROOT / 'examples/models/gemma-3-4b.json'}"
    with pytest.raises(bearing.ShapeError, match=r"says several: must be one of .*#0, "):
        bearing.check(gemma)
    assert bearing.compare(f"{gemma}#0", heads=1, length=32).sites == "query/key"


def test_a_spec_is_measured_at_its_own_size() -> None:
    rope = bearing.Rope(head_dim=12, pairing="half")
    for said in (rope, "rope:head_dim=12", bearing.Xpos(rope=rope)):
        assert bearing.Specimen(said, heads=1, length=4).turn(np.zeros((1, 2, 12))).shape == (1, 2, 12)
    with pytest.raises(ValueError, match="head_dim = 12"):
        bearing.check(rope, dim=8, heads=1, length=4)


@pytest.mark.parametrize("call", [bearing.check, bearing.compare, bearing.Specimen, bearing.encoding])
def test_what_says_no_encoding_is_refused_by_every_function_alike(call: Callable[[Any], object]) -> None:
    told = "name or spec" if call is bearing.encoding else "name, spec or table, .* or a module of bearing.torch"
    for said, error, text in (
        ("t6", bearing.ShapeError, r"\[encoding\] 't6' is not an encoding; did you mean 't5'"),
        ("t5:bucket=3", bearing.ShapeError, r"\[encoding\] t5: 'bucket' is not a key; did you mean 'buckets'\?"),
        ('{"type": "T5"}', bearing.ConfigError, "/direction: must be there"),
        ("no.json", bearing.ConfigError, "no.json: must be a readable file"),
        ("@no/config.json", bearing.ConfigError, "must be a readable file"),
        (bearing.LinearScaling(factor=2), bearing.ConfigError, r"\[encoding\] LinearScaling is no encoding by itself"),
        (3, TypeError, rf"\[{call.__name__}\] \w+: must be an encoding's {told}, got 3"),
        (None, TypeError, f"must be an encoding's {told}, got None"),
    ):
        with pytest.raises(error, match=text):
            call(said)


def drawn(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


T5_TABLE = drawn(8, 2)
OWN_T5 = bearing.T5Bias(WIDE, T5_TABLE)


def module_of_t5() -> torch.nn.Module:
    module = bt.T5Bias(WIDE, heads=2)
    with torch.no_grad():
        module.table.copy_(torch.from_numpy(T5_TABLE))
    return module


def test_numbers_of_a_trained_encoding_are_measured_alike_wherever_they_lie() -> None:
    wanted = bearing.check(OWN_T5, dim=8, length=32)
    found = {p.name: p for p in wanted}
    assert found["parameters"].evidence == "16 numbers of its own, as trained, none drawn: as many at any length"
    assert all(p.verdict != "learned" for p in wanted) and found["decay"].verdict == "no"
    module = module_of_t5()
    for one in (
        module,
        module.double(),
        module.encoding(),
        OWN_T5.replace(table=torch.from_numpy(T5_TABLE)),
        OWN_T5.replace(table=jnp.asarray(T5_TABLE)),
        OWN_T5.replace(table=T5_TABLE.astype(np.float64)),
    ):
        assert bearing.check(one, dim=8, length=32) == wanted
        assert bearing.check(one, dim=8, length=32, seed=2)[-2:] == wanted[-2:]
    row, example = (bearing.compare(one, heads=2, dim=8, length=32) for one in (module, WIDE))
    assert (row.name, row.own_numbers, row.decay, row.memory) == ("t5_causal", True, "no", "O(1)")
    assert (example.name, example.own_numbers, example.decay) == ("t5_causal", False, "learned")
    with torch.no_grad():  # what the module holds now
        module.table.copy_(-torch.arange(8.0)[:, None].expand(8, 2))
    assert bearing.compare(module, dim=8, length=32).decay == "yes"


def test_a_specimen_with_its_own_numbers_has_its_scores_and_keeps_them() -> None:
    table = T5_TABLE.astype(np.float64)
    specimen = bearing.Specimen(bearing.T5Bias(WIDE, table), dim=8, length=32)
    zeros = np.zeros((2, 12, 8))
    wanted = bearing.bias_matrix(OWN_T5, heads=2, q_len=12, k_len=12, dtype="float32")
    table[:] = 0
    seen = np.tril(np.ones((12, 12), bool))
    np.testing.assert_array_equal(specimen.logits(zeros, zeros)[:, seen], wanted[:, seen])
    assert specimen.own_numbers and specimen.own_tokens == 0 and specimen.parameters == 16


def test_a_learned_table_is_measured_up_to_its_end() -> None:
    table = bearing.LearnedInputs(bearing.Learned(length=20, dim=6), drawn(20, 6))
    row = bearing.compare(table, heads=2)
    assert (row.length, row.past_length, row.memory, row.parameters) == (20, "error", "ends at 20", 120)
    evidence = {p.name: p.evidence for p in bearing.check(table, heads=2)}
    assert evidence["extensible"].startswith("error: L = 20, error from L: positions: must be ")
    assert evidence["parameters"].endswith("none drawn: they end at 20 tokens")
    for call in (bearing.check, bearing.compare, bearing.Specimen):
        with pytest.raises(bearing.RangeError, match=rf"\[{call.__name__}\] length: must be at most 20, .* got 21"):
            call(table, heads=2, length=21)
    assert bearing.Specimen(table, heads=2).own_tokens == 20


BERT = bearing.BertRelative(max_position_embeddings=12, position_embedding_type="relative_key")
OF_TWELVE_TOKENS = {
    "gates": bearing.ForgettingBias(-np.abs(drawn(1, 2, 12)), past=0),
    "dense": bearing.DenseBias(drawn(2, 12, 12)),
    "vectors by distance": bearing.BertRelativeTerm(BERT, drawn(23, 8)),
}


@pytest.mark.parametrize("kind", ["heatmap", "similarity", "decay"])
@pytest.mark.parametrize("one", OF_TWELVE_TOKENS.values(), ids=OF_TWELVE_TOKENS)
def test_numbers_of_each_token_are_drawn_and_measured_at_their_own_length(kind: str, one: Any) -> None:
    assert bearing.compare(one, heads=2).length == 12
    made = bearing.figure(kind, one)
    assert made == bearing.figure(kind, one, length=12) != bearing.figure(kind, one, length=5)
    with pytest.raises(bearing.RangeError, match="length: must be at most 12"):
        bearing.figure(kind, one, length=13)


def test_heads_that_share_sets_of_parameters_are_as_many_as_the_sets_serve() -> None:
    mixed = bearing.RopeMixedRows(bearing.RopeMixed(head_dim=4, pairing="half"), drawn(2, 3, 2), group=2)
    assert bearing.Specimen(mixed, length=16).turn(np.zeros((6, 4, 4))).shape == (6, 4, 4)
    assert bearing.figure("heatmap", mixed).panels


def test_a_table_is_measured_as_its_spec_is_and_given_numbers_up_to_their_end() -> None:
    rope = bearing.Rope(head_dim=8, pairing="half")
    wanted = {p.name: p.verdict for p in bearing.check(rope, heads=2, length=32)}
    for one in (bearing.RopeTable(rope, 32), bearing.RotaryRows(bearing.RopeTable(rope, 64)), bt.Rope(rope)):
        assert {p.name: p.verdict for p in bearing.check(one, heads=2, length=32)} == wanted
        assert not bearing.compare(one, heads=2, length=32).own_numbers
        assert bearing.compare(one, heads=2, length=32).memory == "O(L)"
    given = bearing.RopeTable.from_cos_sin(rope, np.ones((10, 4)), np.zeros((10, 4)))
    row = bearing.compare(given, heads=2)
    assert (row.length, row.past_length, row.own_numbers, row.memory) == (10, "error", True, "ends at 10")
    assert bearing.check(bearing.XposTable(bearing.Xpos(rope=rope), 16), heads=2, length=16)


def test_what_a_checkpoint_holds_and_a_model_of_one_encoding_are_measured(tmp_path: Path) -> None:
    config = {"model_type": "bert", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}
    config |= {"max_position_embeddings": 16, "vocab_size": 30, "intermediate_size": 16}
    (tmp_path / "config.json").write_text(json.dumps(config))
    name = "bert.embeddings.position_embeddings.weight"
    bearing.write_safetensors(tmp_path / "model.safetensors", {name: drawn(16, 8)})
    (inputs,) = bearing.load(tmp_path).inputs
    row = bearing.compare(inputs, heads=2)
    assert row.own_numbers and row.length == 16
    llama = bearing.read_hf_config(ROOT / "examples/models/llama-3.1-8b.json")
    assert bearing.compare(llama, heads=1, length=32).sites == "query/key"
    gemma = bearing.read_hf_config(ROOT / "examples/models/gemma-3-4b.json")
    with pytest.raises(bearing.ConfigError, match=r"\[check\] encoding: must be one encoding, .* a model with 2: "):
        bearing.check(gemma)


def test_learned_factors_of_frequencies_are_measured_as_they_are() -> None:
    module = bt.LeRope(bearing.Rope(head_dim=8, pairing="half"))
    with torch.no_grad():
        module.log_factors.copy_(torch.tensor([0.5, -1.0, 0.0, 2.0]))
    row = bearing.compare(module, heads=2, length=32)
    assert (row.name, row.own_numbers, row.parameters, row.relative, row.memory) == ("rope", True, 4, "yes", "O(L)")
    assert bearing.check(module, heads=2, length=32) == bearing.check(module.rope, heads=2, length=32)


def test_of_a_module_that_computes_for_each_call_a_call_is_measured() -> None:
    module = bt.Forgetting(4, 16)
    with pytest.raises(TypeError, match=r"\[compare\] encoding: .* Forgetting computes .* give forgetting\.encoding"):
        bearing.compare(module)
    row = bearing.compare(module.encoding(torch.randn(1, 12, 16)))
    assert row.own_numbers and row.length == 12 and row.memory == "ends at 12"
    with pytest.raises(bearing.ShapeError, match="numbers: must be those of one sequence, got 2"):
        bearing.compare(module.encoding(torch.randn(2, 12, 16)))


def test_windows_that_are_no_squares_are_measured() -> None:
    window = bearing.Swin(height=3, width=4)
    example = bearing.Specimen(window, heads=2, length=100)
    assert (example.height, example.width) == (3, 4)
    assert bearing.compare(window, heads=2, length=12).length == 12
    assert bearing.compare("swin", heads=2, length=30).length == 25
    assert {one.name: one.verdict for one in bearing.check(window, heads=2)}["relative"] == "yes"
    assert bearing.figure("buckets", window).panels[0].cells.values.shape == (5, 7)


def test_claims_are_measured() -> None:
    claims = bearing.claims()
    assert claims and all(claim.says and claim.measured for claim in claims)
    assert any(claim.picture is None for claim in claims)
    assert all(claim.trained is None or (claim.holds == "n/a" and claim.trained.endswith(".md")) for claim in claims)
    for claim in claims:
        if claim.picture is not None:
            picture = bearing.figure(claim.picture["kind"], *claim.picture["encodings"], **claim.picture["options"])
            assert picture.kind == claim.picture["kind"] and picture.panels


def test_a_specimen_is_the_encoding() -> None:
    specimen = bearing.Specimen("rope", heads=2, dim=8, length=32)
    assert specimen.sites == "query/key" and specimen.parameters == 0
    x = np.random.default_rng(0).standard_normal((2, 5, 8))
    turned = specimen.turn(x, first=3)
    np.testing.assert_allclose(np.linalg.norm(turned, axis=-1), np.linalg.norm(x, axis=-1), rtol=16 * EPS)
    logits = specimen.logits(x, x)
    moved = specimen.logits(x, x, q_first=7, k_first=7)
    np.testing.assert_allclose(moved, logits, rtol=0, atol=64 * EPS * np.abs(x).max() ** 2)
    rows = bearing.Specimen("sinusoidal", heads=1, dim=8, length=32).inputs(5)
    assert rows.shape == (1, 5, 8) and np.array_equal(rows[0, 0], [0, 1] * 4)
    with pytest.raises(ValueError, match="side: must be one of 'query', 'key'"):
        specimen.turn(x, side="value")  # type: ignore[arg-type]


def test_decay_says_what_a_curve_does() -> None:
    curve = bearing.Specimen("alibi", heads=2, dim=8, length=64).mean_scores()
    assert curve.shape == (1, 2, 64)
    decay = bearing.decay(curve[0, 0])
    assert decay.decays and decay.rises == 0 and decay.negative == 63
    assert np.array_equal(decay.curve, curve[0, 0]) and np.all(np.diff(decay.envelope) <= 0)
    with pytest.raises(bearing.RangeError):
        bearing.decay([math.nan])


def test_similarities_are_those_of_numpy() -> None:
    x, y = np.random.default_rng(1).standard_normal((2, 6, 5))
    got = bearing.similarity(x[0], y[0])
    assert got.dot == pytest.approx(x[0] @ y[0], rel=64 * EPS)
    assert got.distance == pytest.approx(np.linalg.norm(x[0] - y[0]), rel=64 * EPS)
    assert got.cosine == pytest.approx(got.dot / np.linalg.norm(x[0]) / np.linalg.norm(y[0]), rel=64 * EPS)
    np.testing.assert_allclose(bearing.products(x, y), x @ y.T, rtol=0, atol=64 * EPS)
    with pytest.raises(bearing.ShapeError):
        bearing.similarity(x[0], y[0, :3])


def test_what_a_rotation_leaves_is_a_sum_of_cosines() -> None:
    rope = bearing.Rope(head_dim=16, pairing="half")
    theta = bearing.resolve(rope).inv_freq
    wanted = np.cos(np.arange(20)[:, None] * theta).sum(axis=1)
    np.testing.assert_allclose(bearing.rotation_similarity(rope, 20), wanted, rtol=0, atol=8 * 20 * EPS)


def test_a_sinusoidal_shift_is_one_linear_map() -> None:
    rows = bearing.sinusoidal_encoding(64, 8, dtype="float64")
    fit = bearing.shift_map(rows, 3)
    assert fit.rank == 8 and fit.held_out < 1e-9
    pair = bearing.pair_shift_map(1.0, 3)
    np.testing.assert_allclose(pair, [[math.cos(3), math.sin(3)], [-math.sin(3), math.cos(3)]], rtol=4 * EPS)
    # The first pair of the rows turns by itself: its block of the fitted map is M transposed.
    np.testing.assert_allclose(rows[:-3, :2] @ pair.T, rows[3:, :2], rtol=0, atol=128 * EPS)


def test_runs_are_buckets() -> None:
    runs = bearing.runs([1, 1, 2, 2, 2, 1], first=-2)
    assert [(r.first, r.last, r.value) for r in runs] == [(-2, -1, 1.0), (0, 2, 2.0), (3, 3, 1.0)]


def test_correlations_are_the_four_products() -> None:
    rng = np.random.default_rng(2)
    w, p = rng.standard_normal((2, 6, 4))
    w_q, w_k = rng.standard_normal((2, 4, 3))
    got = bearing.correlations(w, p, w_q, w_k)
    for name, (a, b) in {
        "word_word": (w, w),
        "word_position": (w, p),
        "position_word": (p, w),
        "position_position": (p, p),
    }.items():
        np.testing.assert_allclose(got[name], (a @ w_q) @ (b @ w_k).T, rtol=0, atol=256 * EPS)
    np.testing.assert_allclose(bearing.correlations(w, p)["word_word"], w @ w.T, rtol=0, atol=64 * EPS)


def test_a_rotary_report_is_about_its_frequencies() -> None:
    rope = bearing.Rope(head_dim=128, base=500_000, pairing="half", scaling=bearing.Llama3Scaling())
    frequencies = bearing.resolve(rope)
    np.testing.assert_allclose(bearing.wavelengths(rope), 2 * np.pi / frequencies.inv_freq, rtol=2 * EPS)
    runs = bearing.pair_runs(rope)
    assert [run.change for run in runs] == ["kept", "blended", "scaled"]
    assert tuple(frequencies.change[runs[0].first : runs[0].last + 1]) == ("kept",) * (runs[0].last + 1)
    wanted = [i for i, length in enumerate(frequencies.wavelengths) if length > 8192]
    assert bearing.unfinished_pairs(rope, 8192) == wanted
    assert bearing.float32_angle_error(rope, 131_072).radians > 2.0**-9
    assert bearing.rope_warnings(rope, trained=8192, longest=131_072)
    assert bearing.depends_on_length(bearing.DynamicNtkScaling()) and not bearing.depends_on_length(rope.scaling)


def test_other_rotations_have_their_own_frequencies() -> None:
    rope = bearing.Rope(head_dim=32, pairing="half")
    plain = bearing.resolve(rope).inv_freq
    high = bearing.high_frequency(rope, 1000).inv_freq
    assert np.array_equal(high, np.where(plain < 2 * np.pi / 1000, 0, plain))
    assert np.array_equal(bearing.negative_angle(rope).inv_freq, -plain)
    xpos = bearing.Xpos(rope=rope)
    np.testing.assert_allclose(bearing.xpos_decay(xpos), (2 * np.arange(16) / 32 + 0.4) / 1.4, rtol=4 * EPS)


@pytest.mark.parametrize("numbers", ["text", object(), [[1.0, 2.0], [3.0]], None])
def test_what_is_no_numbers_is_refused(numbers: object) -> None:
    with pytest.raises(TypeError):
        bearing.similarity(numbers, [1.0])


@pytest.mark.parametrize("name", ["check", "compare"])
def test_several_encodings_at_once_are_refused_with_what_to_write(name: str) -> None:
    text = rf"\[{name}\] encoding: must be one encoding; \[{name}\(one\) for one in encodings\] asks several, got 3"
    with pytest.raises(TypeError, match=text):
        getattr(bearing, name)("rope", "alibi", "t5")
