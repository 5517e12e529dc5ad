"""Pictures: their data against the library's other calls, what matplotlib makes of them, and what notebooks show."""

from __future__ import annotations

import copy
import dataclasses
import html.parser
import inspect
import json
import pickle
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bearing
import bearing.plot
import bearing.torch as bt
import matplotlib
import numpy as np
import pytest
import torch
from matplotlib import colormaps, style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.text import Text

ROOT = Path(__file__).parents[2]
GEMMA = ROOT / "examples/models/gemma-3-4b.json"
ROPE = bearing.Rope(head_dim=16, pairing="half")
KINDS = {kind.name: kind for kind in bearing.figure_kinds()}
STYLES = ("default", "dark_background")


# The data.


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
        (lambda: bearing.figure("curves"), bearing.ShapeError, "encodings: curves takes 1 to 8, got 0"),
        (lambda: bearing.figure("curves", *["rope"] * 9), bearing.ShapeError, "encodings: .* got 9"),
        (lambda: bearing.figure("curves", 3), TypeError, "encodings: must be an encoding's name, .* got 3"),
        (lambda: bearing.figure("curves", None), TypeError, "encodings: must be .* got None"),
        (lambda: bearing.figure("curves", "rope", dim=0), bearing.RangeError, "dim: must be at least 1, got 0"),
        (lambda: bearing.figure("curves", "rope", dim=-2), bearing.RangeError, "dim: must not be negative, got -2"),
        (lambda: bearing.figure("curves", "rope", dim=2.5), TypeError, "dim: must be int, got 2.5"),  # type: ignore[arg-type]
        (lambda: bearing.figure("curves", "rope", dims=3), TypeError, "dims: must be Sequence"),  # type: ignore[arg-type]
        (lambda: bearing.figure("curves", "rope", window=3), bearing.RangeError, "window: curves takes dim, "),
        (lambda: bearing.figure("curves", "rope", threads=-1), bearing.RangeError, "threads: must be 0"),
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
    assert {name for kind in KINDS.values() for name in kind.takes} <= set(asked)


def everything() -> bearing.Figure:
    """What figures may have, in three panels, with texts that are no formulas."""
    x = np.arange(1.0, 9.0)
    matrix = np.outer(x, x) - 30
    matrix[2, 3] = np.nan
    log = bearing.Axis(
        "length in tokens, as a title that is far too long to fit beside one panel alone", 1, 2**12, "log2"
    )
    first = bearing.Panel(
        title="all strokes of $5 and $6",
        x=log,
        y=bearing.Axis("value", -1, 9, ticks=(bearing.Tick(0, "none"), bearing.Tick(8, "e$ght$"))),
        bands=(bearing.Band("spread", 2**x, x - 1, x + 1),),
        guides=(bearing.Guide(True, 100, "trained"), bearing.Guide(False, 2, "level"), bearing.Guide(True, 1e9, "far")),
        series=(
            bearing.Series("line", 2**x, np.where(x == 4, np.nan, x)),
            bearing.Series("dots", 2**x, x / 2, "dots", 1),
            bearing.Series("steps", 2**x, x / 3, "steps", 2, faint=True),
            bearing.Series("family", 2**x, x / 4, shade=0.5),
        ),
        notes=(bearing.Note(4000, 8.5, "corner"), bearing.Note(1e9, 0, "far")),
    )
    dial = bearing.Axis("", -1.2, 1.2)
    second = bearing.Panel(
        title="hands",
        x=dial,
        y=dial,
        round=True,
        series=(bearing.Series("hands", np.cos(x), np.sin(x), "hands", 3),),
    )
    third = bearing.Panel(
        title="cells",
        x=bearing.Axis("key", -0.5, 7.5),
        y=bearing.Axis("query", 7.5, -0.5),
        cells=bearing.Cells(matrix, map="diverging", low=-34, high=34, title="score"),
        series=(bearing.Series("bars", x, x / 2, "bars", 4),),
    )
    kinds = tuple(f"kind {i}" for i in range(9))
    fourth = dataclasses.replace(
        third,
        series=(),
        cells=bearing.Cells(matrix * 0 + (np.arange(64) % 9).reshape(8, 8), map="categories", categories=kinds),
    )
    return bearing.Figure("none", "A title " * 20, "What is to be seen.", (first, second, third, fourth), 2)


def test_a_figure_is_a_value() -> None:
    one = everything()
    assert one == everything() and hash(one) == hash(everything()) and one != dataclasses.replace(one, columns=3)
    assert pickle.loads(pickle.dumps(one)) == one == copy.deepcopy(one)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.title = "another"  # type: ignore[misc]
    read = json.loads(one.to_json())
    assert read["schema"] == "bearing.figure/1" and read["panels"][2]["cells"]["values"][2][3] is None
    assert read["panels"][0]["series"][0]["y"][3] is None and read["panels"][0]["x"]["scale"] == "log2"


# Kinds against the library's other calls.


def cells(of: bearing.Figure, panel: int = 0) -> np.ndarray:
    found = of.panels[panel].cells
    assert found is not None
    return found.values


def test_a_heat_map_has_the_rows_of_an_encoding() -> None:
    drawn = bearing.figure("heatmap", "sinusoidal", dim=12, length=20)
    np.testing.assert_array_equal(cells(drawn), bearing.Specimen("sinusoidal", dim=12, length=20).inputs(20)[0])


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


# What matplotlib makes of it.


def pixels(canvas: Canvas) -> np.ndarray:
    agg = FigureCanvasAgg(canvas)
    agg.draw()
    return np.asarray(agg.buffer_rgba())[..., :3].astype(int)


def check_picture(places: Any, wanted: int) -> np.ndarray:
    """That all panels are drawn, something is to be seen in each, and no text is cut."""
    axes = np.atleast_1d(np.asarray(places, dtype=object))
    assert len(axes) == wanted
    canvas = axes[0].get_figure(root=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        picture = pixels(canvas)
    background = picture[0, 0]
    other = np.abs(picture - background).max(axis=-1) > 24
    border = np.concatenate([other[:1].ravel(), other[-1:].ravel(), other[:, :1].ravel(), other[:, -1:].ravel()])
    assert not border.any(), "something touches the border"
    height, width = picture.shape[:2]
    for ax in axes:
        box = ax.get_window_extent()
        inside = picture[int(height - box.y1) + 3 : int(height - box.y0) - 3, int(box.x0) + 3 : int(box.x1) - 3]
        assert inside.size and (np.abs(inside - inside[0, 0]).max(axis=-1) > 24).mean() > 0.001, ax.get_title()
        assert min(box.width, box.height) > 60, "nothing to be seen in so little room"
    if canvas.get_suptitle():
        above = canvas._suptitle.get_window_extent().y0
        assert all(ax.title.get_window_extent().y1 <= above for ax in axes if ax.get_title()), "titles overlap"
    for text in canvas.findobj(Text):
        if text.get_visible() and text.get_text() and not is_tick(text, axes):
            box = text.get_window_extent()
            assert -1 <= box.x0 and box.x1 <= width + 1 and -1 <= box.y0 and box.y1 <= height + 1, text.get_text()
    return picture


def is_tick(text: Text, axes: np.ndarray) -> bool:
    """Ticks' texts, some of which are not drawn: the border's pixels tell of them."""
    return any(
        text in axis.get_ticklabels(which="both") or text is axis.get_offset_text()
        for ax in text.figure.axes
        for axis in (ax.xaxis, ax.yaxis)
    )


SHOWN = ("sinusoidal", "rope_yarn", "t5_causal", "alibi", "shaw", "swin")


def drawable(kind: str, most: int) -> list[str]:
    """Encodings that have something of that kind to show."""
    found = []
    for name in SHOWN:
        try:
            bearing.figure(kind, name)
        except (bearing.RangeError, bearing.ShapeError):
            continue
        found.append(name)
    return found[:most]


@pytest.mark.parametrize("look", STYLES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn_whole(kind: str, look: str) -> None:
    of = KINDS[kind]
    names = drawable(kind, 3)
    assert names or of.fewest == 0, "none of the encodings has anything to show"
    for said in ([] if of.fewest == 0 else names[: of.fewest], names[: of.most]):
        data = bearing.figure(kind, *said)
        with style.context(look):
            places = getattr(bearing.plot, kind)(*said)
            check_picture(places, len(data.panels))
            first = np.atleast_1d(np.asarray(places, dtype=object))[0]
            assert first.xaxis.label.get_color() == matplotlib.rcParams["axes.labelcolor"]
        assert data.title and data.text


@pytest.mark.parametrize("look", STYLES)
def test_all_that_a_figure_may_have_is_drawn_whole(look: str) -> None:
    of = everything()
    with style.context(look):
        places = bearing.plot.draw(of)
        check_picture(places, 4)
        texts = {text.get_text() for text in places[0].get_figure(root=True).findobj(Text)}
    assert {"all strokes of $5 and $6", "e$ght$", "trained", "level", "corner", "kind 8", "score", "bars"} <= texts
    assert "far" not in texts  # stands outside
    assert places[0].get_xscale() == "log" and places[2].yaxis_inverted() and places[1].get_aspect() == 1
    legends = [text.get_text() for ax in places[0].get_figure(root=True).legends for text in ax.get_texts()]
    assert legends and len(legends) == len(set(legends))


@pytest.mark.parametrize("panels", range(1, 9))
def test_any_number_of_panels_is_drawn_whole(panels: int) -> None:
    names = [f"rope:base={10**i}" for i in range(2, 2 + panels)]
    check_picture(bearing.plot.curves(*names, length=32), panels)


def test_lines_are_where_the_data_has_them() -> None:
    data = bearing.figure("curves", "sinusoidal", length=32)
    ax = bearing.plot.draw(data)
    for line, series in zip(ax.lines, data.panels[0].series, strict=True):
        np.testing.assert_array_equal(line.get_xydata(), np.stack([series.x, series.y], axis=1))
        np.testing.assert_allclose(line.get_color(), bearing.palette()[series.colour])
    assert ax.get_xlim() == (data.panels[0].x.first, data.panels[0].x.last)
    assert ax.get_xlabel() == data.panels[0].x.title
    assert len({repr(line._dash_pattern) for line in ax.lines}) > 3  # told apart in grey


def test_cells_are_where_the_data_has_them() -> None:
    values = np.array([[0.0, 1.0, np.nan], [1.0, 0.0, 0.5]])
    cells = bearing.Cells(values, x_first=10, x_step=2, y_first=0)
    panel = bearing.Panel("cells", bearing.Axis("x", 9, 15), bearing.Axis("y", -0.5, 1.5), cells=cells)
    ax = bearing.plot.draw(bearing.Figure("none", "Cells", "", (panel,)))
    (image,) = ax.images
    assert list(image.get_extent()) == [9, 15, -0.5, 1.5] and image.origin == "lower"
    colours = image.to_rgba(image.get_array())
    np.testing.assert_allclose(colours[0, 0, :3], bearing.sequential_colour([0])[0])
    np.testing.assert_allclose(colours[0, 1, :3], bearing.sequential_colour([1])[0])
    assert colours[0, 2, 3] == 0  # nothing


def test_cells_that_are_counted_have_whole_numbers_at_their_middles() -> None:
    panel = bearing.Panel("", bearing.Axis("", -0.5, 1.5), bearing.Axis("", -0.5, 1.5), cells=bearing.Cells(np.eye(2)))
    ax = bearing.plot.draw(bearing.Figure("none", "Cells", "", (panel,)))
    pixels(ax.figure)
    for ticks in (ax.get_xticks(), ax.get_yticks()):
        np.testing.assert_array_equal(ticks, np.round(ticks))


def test_axes_that_are_given_are_drawn_in_and_returned() -> None:
    canvas = Canvas(layout="constrained")
    one = canvas.add_subplot(1, 2, 1)
    assert bearing.plot.curves("rope", ax=one) is one and one.lines and not canvas.get_suptitle()
    assert one.get_legend() is not None
    several = Canvas(figsize=(10, 5), layout="constrained").subplots(1, 2)
    drawn = bearing.plot.curves("rope", "sinusoidal", ax=several)
    assert list(drawn) == list(several)
    check_picture(drawn, 2)
    whole = Canvas(figsize=(9, 4), layout="constrained")
    for part in whole.subfigures(1, 2):
        bearing.plot.curves("rope", ax=part)
    assert len(whole.axes) == 2
    pixels(whole)


@pytest.mark.parametrize(
    ("ax", "error", "text"),
    [
        (lambda: Canvas().subplots(1, 3), bearing.ShapeError, "must be 2 axes, one for each panel, got 3"),
        (lambda: Canvas().subplots(), bearing.ShapeError, "must be 2 axes, one for each panel, got 1"),
        (lambda: "axes", TypeError, "must be axes of matplotlib, several of them, or a figure, got 'axes'"),
    ],
)
def test_axes_that_cannot_be_drawn_in_are_refused(ax: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=rf"\[plot\] ax: {text}"):
        bearing.plot.curves("rope", "sinusoidal", ax=ax())


def test_there_is_a_function_for_every_kind_that_says_what_it_takes() -> None:
    assert bearing.plot.__all__ == ["draw", *KINDS] and dir(bearing.plot) == sorted(bearing.plot.__all__)
    for name, kind in KINDS.items():
        found = inspect.signature(getattr(bearing.plot, name)).parameters
        assert list(found) == ["encodings", "ax", *kind.takes, "threads"], name
        assert kind.shows in (getattr(bearing.plot, name).__doc__ or "")
    with pytest.raises(AttributeError):
        _ = bearing.plot.portrait  # type: ignore[attr-defined]


def test_colours_are_those_of_viridis_and_cividis() -> None:
    x = np.linspace(0, 1, 256)
    for ours, theirs in ((bearing.sequential_colour, "viridis"), (bearing.diverging_colour, "cividis")):
        np.testing.assert_allclose(ours(x[::255]), colormaps[theirs](x[::255])[:, :3], rtol=0, atol=1 / 255)
        # Between 17 places a straight line leaves the map by a few of 255 steps.
        np.testing.assert_allclose(ours(x), colormaps[theirs](x)[:, :3], rtol=0, atol=12 / 255)
    assert bearing.palette().shape[1] == 3 and len(bearing.palette()) >= 8
    np.testing.assert_array_equal(bearing.family_colour([0.5, np.nan])[1], bearing.family_colour([0])[0])
    assert bearing.sequential_colour([]).shape == (0, 3)


# What importing does.


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)


def test_matplotlib_is_imported_when_something_is_drawn_and_pyplot_never() -> None:
    code = (
        "import sys, bearing; assert 'matplotlib' not in sys.modules\n"
        "import bearing.plot; assert 'matplotlib' not in sys.modules and bearing.plot.curves.__doc__\n"
        "bearing.figure('curves', 'rope'); assert 'matplotlib' not in sys.modules\n"
        "bearing.plot.curves('rope').figure.savefig('/dev/null', format='png')\n"
        "import matplotlib; assert 'matplotlib.pyplot' not in sys.modules\n"
        "assert matplotlib.rcParams._get_backend_or_none() is None; print('left alone')"
    )
    done = run(code)
    assert done.stdout.strip() == "left alone", done.stderr


def test_without_matplotlib_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import bearing, bearing.plot\n"
        "print(bearing.figure('curves', 'rope')._repr_html_())\n"
        "try:\n    bearing.plot.curves('rope')\nexcept ImportError as error:\n    print(error)"
    )
    shown, error = run(code).stdout.strip().split("\n")
    assert error == "bearing.plot needs matplotlib: pip install 'bearing-pe[plot]'"
    assert "Curves of" in shown and "<img" not in shown
    project = (ROOT / "pyproject.toml").read_text()
    assert 'name = "bearing-pe"' in project and "\nplot = [" in project


# Notebooks.


class Tags(html.parser.HTMLParser):
    """That what is opened is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.words = ""
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data + " "


def shown(of: Any) -> Tags:
    text = of._repr_html_()
    assert len(text) < 20_000 or "<img" in text
    assert not re.search(r"colou?r\s*[:=]|background|<script|https?:", text)
    return Tags(text)


def test_notebooks_show_a_spec_with_its_members_formula_and_source() -> None:
    found = shown(bearing.T5(direction="causal"))
    assert "table" in found.seen and "pre" in found.seen
    for part in ("T5 buckets, causal", "max_distance", "128", "table[bucket(n - m), h]", "arXiv 1910.10683"):
        assert part in found.words, part
    assert "YaRN" in shown(bearing.YarnScaling(factor=2, trained_length=64)).words


@pytest.mark.parametrize("name", [entry.name for entry in bearing.catalog()])
def test_notebooks_show_every_spec(name: str) -> None:
    try:
        spec = bearing.encoding(name, heads=4, dim=8)
    except ValueError as error:
        assert "has no spec" in str(error) or "must be given" in str(error)
        return
    found = shown(spec)
    assert all(member in found.words for member in spec.to_dict() if member != "type")


def test_notebooks_show_tables_encodings_and_models() -> None:
    table = shown(bearing.RopeTable(bearing.Rope(head_dim=64, pairing="half"), 4096))
    assert "4,096" in table.words and "6.283 to " in table.words
    bias = bearing.T5Bias(bearing.T5(direction="causal"), np.zeros((32, 4), np.float32))
    assert "array (32, 4)" in shown(bias).words
    model = bearing.read_hf_config(GEMMA)
    found = shown(model)
    for part in ("0-4, 6-10, 12-16", "sliding_attention", "1024", "LinearScaling(factor=8.0)", "Warnings"):
        assert part in found.words, part
    assert model.warnings[0].text in found.words


def test_what_a_file_says_is_no_html() -> None:
    config = {"model_type": "<script>alert(1)</script>", "hidden_size": 64, "num_attention_heads": 4,
              "num_hidden_layers": 1, "rope_theta": 1e4, "max_position_embeddings": 128}  # fmt: skip
    found = shown(bearing.read_hf_config(config))
    assert "script" not in found.seen and "<script>alert(1)</script>" in found.words
    one = bearing.Figure("none", '"><script>', '"><script>', everything().panels)
    assert set(shown(one).seen) == {"img"}


def test_notebooks_show_a_figure_as_a_picture_with_its_text() -> None:
    text = bearing.figure("curves", "sinusoidal")._repr_html_()
    assert text.startswith('<img alt="Curves of 5 dimensions') and "data:image/png;base64," in text
