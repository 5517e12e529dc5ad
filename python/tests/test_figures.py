"""Figures as data: their numbers against the library's other calls, and every way to say what is drawn."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bearing
import bearing.torch as bt
import numpy as np
import pytest
import torch
from figure_samples import everything

ROOT = Path(__file__).parents[2]
GEMMA = ROOT / "examples/models/gemma-3-4b.json"
ROPE = bearing.Rope(head_dim=16, pairing="half")


def curves(*encodings: Any, **options: Any) -> list[np.ndarray]:
    """The curves of each encoding, [dims, positions]."""
    made = bearing.figure("curves", *encodings, **options)
    return [np.stack([series.y for series in panel.series]) for panel in made.panels]


def test_a_figure_has_the_numbers_of_other_calls() -> None:
    rows, turned = curves("sinusoidal", "rope", dim=8, length=20, dims=range(8))
    specimen = bearing.Specimen("sinusoidal", heads=1, dim=8, length=20)
    np.testing.assert_array_equal(rows, specimen.inputs(20)[0].T)
    rope = bearing.Specimen("rope", heads=1, dim=8, length=20)
    np.testing.assert_array_equal(turned, rope.turn(np.ones((1, 20, 8)), side="key")[0].T)


def learned(dtype: torch.dtype) -> torch.nn.Module:
    return bt.LearnedPositions(bearing.Learned(length=20, dim=6)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_module_is_drawn_with_its_own_parameters(dtype: torch.dtype) -> None:
    module = learned(dtype)
    (table,) = module.parameters()
    (drawn,) = curves(module, dims=range(6))
    np.testing.assert_array_equal(drawn, table.detach().double().numpy().T)
    with torch.no_grad():
        table.mul_(2)
    np.testing.assert_array_equal(curves(module, dims=range(6))[0], 2 * drawn)


def test_an_encoding_and_a_table_are_drawn_with_their_own_numbers() -> None:
    numbers = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    inputs = bearing.LearnedInputs(bearing.Learned(length=5, dim=4), numbers)
    np.testing.assert_array_equal(curves(inputs, dims=range(4))[0], numbers.T)

    (wanted,) = curves(ROPE, length=12)
    table = bearing.RopeTable(ROPE, 12)
    module = bt.Rope(ROPE)
    for one in (table, bearing.RotaryRows(table), module, copy.deepcopy(module)):
        np.testing.assert_array_equal(curves(one, length=12)[0], wanted)
    given = bearing.RopeTable.from_cos_sin(ROPE, np.cos(np.ones((12, 8))), np.sin(np.ones((12, 8))))
    held = curves(given, dims=[0])[0]  # as long as the table, and the same angle at each position
    assert held.shape == (1, 12)
    np.testing.assert_allclose(held, np.cos(1) - np.sin(1), rtol=1e-15)
    xpos = bearing.XposTable(bearing.Xpos(rope=ROPE), 12)
    np.testing.assert_array_equal(curves(xpos)[0], curves(xpos.xpos)[0])


def test_a_module_whose_calls_compute_its_parameters_is_drawn_as_an_example() -> None:
    spec = bearing.encoding("angle_rows:pairing=half", dim=8)
    module = bt.AngleRows(spec)
    with pytest.raises(TypeError, match=r"must be given to encoding\(\)"):
        module.encoding()
    np.testing.assert_array_equal(curves(module, dim=8), curves(spec, dim=8))
    with pytest.raises(bearing.RangeError, match=r"\[figure\] forgetting: must have rows"):
        curves(bt.ForgettingBias())


def test_a_model_is_said_by_text_by_its_file_and_by_what_was_read() -> None:
    wanted = bearing.figure("curves", f"@{GEMMA}")
    assert [panel.title.rsplit("#")[1] for panel in wanted.panels] == ["0", "5"]
    assert wanted.panels[0].series[-1].label == "dimension 255"
    for one in (bearing.read_hf_config(GEMMA), GEMMA):
        assert bearing.figure("curves", one) == wanted
    config = json.loads(GEMMA.read_text())
    for panel, same in zip(bearing.figure("curves", config).panels, wanted.panels, strict=True):
        assert panel.series == same.series and panel.title.startswith("@config#")


def test_a_figure_is_of_the_encodings_own_size_unless_another_is_asked_for() -> None:
    assert curves("rope:head_dim=12", dims=[11], length=3)[0].shape == (1, 3)
    assert curves(ROPE, dims=[15])[0].shape == (1, 128)
    with pytest.raises(bearing.RangeError, match=r"\[figure\] dims: must be from 0 to 15, got 16"):
        curves(ROPE, dims=[16])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: bearing.figure("portrait", "rope"), bearing.RangeError, "kind: must be one of .*curves"),
        (lambda: bearing.figure(3, "rope"), TypeError, "kind: must be str, got 3"),  # type: ignore[arg-type]
        (lambda: bearing.figure("curves"), bearing.ShapeError, "encodings: curves takes 1 to 8 encodings, got 0"),
        (lambda: bearing.figure("curves", *["rope"] * 9), bearing.ShapeError, "encodings: .* got 9"),
        (lambda: bearing.figure("curves", 3), TypeError, "encodings: must be an encoding's name, .* got 3"),
        (lambda: bearing.figure("curves", None), TypeError, "encodings: must be .* got None"),
        (lambda: bearing.figure("curves", "rope", dim=0), bearing.RangeError, "dim: must be at least 1, got 0"),
        (lambda: bearing.figure("curves", "rope", dim=-2), bearing.RangeError, "dim: must be at least 0, got -2"),
        (lambda: bearing.figure("curves", "rope", dim=2.5), TypeError, "dim: must be int, got 2.5"),  # type: ignore[arg-type]
        (lambda: bearing.figure("curves", "rope", dims=3), TypeError, "dims: must be Sequence"),  # type: ignore[arg-type]
        (lambda: bearing.figure("curves", "rope", window=3), bearing.RangeError, "window: curves takes dim, "),
        (lambda: bearing.figure("curves", "rope", threads=-1), bearing.RangeError, "threads: must be at least 0"),
        (lambda: bearing.figure("curves", "alibi"), bearing.RangeError, "alibi: must have rows"),
    ],
)
def test_what_cannot_be_drawn_says_why(call: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=rf"\[figure\] {text}"):
        call()


def test_the_documents_figures_can_be_made() -> None:
    found = bearing.document_figures()
    assert {one.document for one in found} <= {"000", "001", "002", "003"} and found
    for one in found:
        assert bearing.figure(one.kind, *one.encodings, **one.options).panels, one


def members(struct: str) -> list[str]:
    """Of a struct of the header, in their order."""
    header = (ROOT / "include/bearing/figures.hpp").read_text()
    (body,) = re.findall(rf"^struct {struct} {{\n(.*?)^}};", header, re.MULTILINE | re.DOTALL)
    code = re.sub(r"//.*", "", body)
    code = re.sub(r"^.*\(.*$|= *[^,;]*", "", code, flags=re.MULTILINE)
    return [one.split()[-1] for declared in code.split(";") for one in declared.split(",") if one.strip()]


@pytest.mark.parametrize("struct", ["Tick", "Axis", "Series", "Band", "Cells", "Guide", "Note", "Panel", "Figure"])
def test_python_has_the_members_that_the_library_has(struct: str) -> None:
    found = [one for one in members(struct) if one not in ("rows", "cols")]  # the array's shape
    assert found and found == [one.name for one in dataclasses.fields(getattr(bearing, struct))]


def test_a_figure_is_asked_for_with_the_options_that_the_library_has() -> None:
    asked = [name for name in inspect.signature(bearing.figure).parameters if name not in ("kind", "encodings")]
    assert [*(one for one in members("FigureOptions") if one != "on"), "threads"] == asked
    assert {name for kind in bearing.figure_kinds() for name in kind.takes} <= set(asked)


def test_a_figure_is_a_value() -> None:
    one = everything()
    assert one == everything() and hash(one) == hash(everything()) and one != dataclasses.replace(one, columns=3)
    assert pickle.loads(pickle.dumps(one)) == one == copy.deepcopy(one)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.title = "another"  # type: ignore[misc]
    read = json.loads(one.to_json())
    assert read["schema"] == "bearing.figure/1" and read["panels"][2]["cells"]["values"][2][3] is None
    assert read["panels"][0]["series"][0]["y"][3] is None and read["panels"][0]["x"]["scale"] == "log2"


def test_figures_of_documents_are_values() -> None:
    one, same = bearing.document_figures(), bearing.document_figures()
    assert one == same and len({*one, *same}) == len(one) and one[0] != one[1]


def test_a_figure_is_read_from_what_it_was_written_to(tmp_path: Path) -> None:
    for one in (bearing.figure("decay", "rope", length=64), bearing.figure("heatmap", "alibi", length=8)):
        assert bearing.Figure.from_json(one.to_json()) == one
        file = tmp_path / "figure.json"
        file.write_text(one.to_json(), encoding="utf-8")
        assert bearing.read_figure(file) == one == bearing.read_figure(str(file))
    with pytest.raises(bearing.ConfigError, match="/panels: must be"):
        bearing.Figure.from_json('{"schema": "bearing.figure/1", "panels": 3}')
    with pytest.raises(bearing.ConfigError, match=r"nowhere\.json: must be a readable file"):
        bearing.read_figure(tmp_path / "nowhere.json")


# Kinds against the library's other calls.


def cells(of: bearing.Figure, panel: int = 0) -> np.ndarray:
    found = of.panels[panel].cells
    assert found is not None
    return found.values


def test_a_heat_map_has_the_rows_of_an_encoding() -> None:
    drawn = bearing.figure("heatmap", "sinusoidal", dim=12, length=20)
    np.testing.assert_array_equal(cells(drawn), bearing.Specimen("sinusoidal", dim=12, length=20).inputs(20)[0])


@pytest.mark.parametrize(
    "module",
    [bt.Forgetting(4, 16), bt.RelativeLogits(bearing.RelativeLogits(extent=8), 4, 16)],
    ids=["gates", "logits"],
)
def test_of_a_module_that_computes_for_each_call_a_call_is_drawn(module: torch.nn.Module) -> None:
    name = type(module).__name__
    with pytest.raises(TypeError, match=rf"\[figure\] encodings: .* {name} computes .* give {name.lower()}\.encoding"):
        bearing.figure("heatmap", module)
    x = torch.randn(1, 12, 16)
    drawn, same, other = (
        bearing.figure("heatmap", module.encoding(at), length=12, heads=4) for at in (x, x.clone(), 2 * x)
    )
    assert drawn == same != other


def test_learned_factors_of_frequencies_are_drawn_as_they_are() -> None:
    module = bt.LeRope(ROPE)
    with torch.no_grad():
        module.log_factors.fill_(0.5)
    assert bearing.figure("wavelengths", module) == bearing.figure("wavelengths", module.rope)
    assert bearing.figure("wavelengths", module) != bearing.figure("wavelengths", ROPE)


@pytest.mark.parametrize("made_of", ["array", "module"])
def test_a_heat_map_of_a_learned_bias_has_its_own_scores_and_heads(made_of: str) -> None:
    t5 = bearing.T5(direction="causal")
    table = np.random.default_rng(0).standard_normal((32, 3)).astype(np.float32)
    bias: Any = bearing.T5Bias(t5, table)
    if made_of == "module":
        bias = bt.T5Bias(t5, heads=3)
        with torch.no_grad():
            bias.table.copy_(torch.from_numpy(table))
    drawn = bearing.figure("heatmap", bias, what="scores", length=24)
    wanted = bearing.bias_matrix(
        bearing.T5Bias(t5, table.astype(np.float64)), heads=3, q_len=24, k_len=24, dtype="float64"
    )
    assert len(drawn.panels) == 3
    later = np.triu(np.ones((24, 24), bool), 1)
    for head in range(3):
        np.testing.assert_array_equal(cells(drawn, head), np.where(later, np.nan, wanted[head]))


def test_wavelengths_are_the_librarys() -> None:
    rope = bearing.Rope(head_dim=64, pairing="half", scaling=bearing.LinearScaling(factor=4))
    drawn = bearing.figure("wavelengths", rope).panels[0].series
    plain = bearing.wavelengths(rope.replace(scaling=bearing.NoScaling()))
    found = {series.label: series.y for series in drawn}
    for wanted in (plain, bearing.wavelengths(rope)):
        assert any(np.array_equal(y, wanted) for y in found.values()), found.keys()


def test_scores_over_distance_are_the_biases() -> None:
    drawn = bearing.figure("decay", "alibi", heads=4, length=32).panels[0].series
    for slope in bearing.Alibi.published(4).slopes:
        assert any(np.array_equal(series.y, -slope * series.x) for series in drawn), slope


def test_a_similarity_falls_as_a_rotations_sum_of_cosines() -> None:
    rope = bearing.Rope(head_dim=64, pairing="half")
    drawn = bearing.figure("similarity", rope, length=128)
    wanted = bearing.rotation_similarity(rope, 128)
    curve = next(series.y for series in drawn.panels[1].series if series.label == "product")
    np.testing.assert_allclose(curve / curve[0], wanted / wanted[0], rtol=0, atol=64 * 2.0**-50)


def test_correlations_are_of_the_words_and_weights_that_are_given() -> None:
    rng = np.random.default_rng(0)
    words, w_q, w_k = rng.standard_normal((12, 8)), rng.standard_normal((8, 4)), rng.standard_normal((8, 4))
    drawn = bearing.figure("correlations", "sinusoidal", words=words, w_q=w_q, w_k=w_k)
    positions = bearing.Specimen("sinusoidal", dim=8, length=12).inputs(12)[0]
    for panel, wanted in enumerate(bearing.correlations(words, positions, w_q, w_k).values()):
        np.testing.assert_allclose(cells(drawn, panel), wanted, rtol=0, atol=1e-12)
    with pytest.raises(TypeError, match=r"\[figure\] words: must be numbers, got <class 'str'>"):
        bearing.figure("correlations", "sinusoidal", words="words")
