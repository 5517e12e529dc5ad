"""What matplotlib makes of figures: whole pictures on light and on dark, in axes that are new or given."""

from __future__ import annotations

import inspect
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bearing
import bearing.plot
import matplotlib
import numpy as np
import pytest
from figure_samples import everything
from matplotlib import colormaps, style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.text import Text

ROOT = Path(__file__).parents[2]
KINDS = {kind.name: kind for kind in bearing.figure_kinds()}
STYLES = ("default", "dark_background")


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
    most = names[: of.most] if look == "default" else []  # on dark one picture tells
    for said in [names[: of.fewest], *([most] if most else [])]:
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
    assert bearing.plot.__all__ == ["claim", "draw", *KINDS] and dir(bearing.plot) == sorted(bearing.plot.__all__)
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
    assert "rope: values from" in shown and "<img" not in shown
    project = (ROOT / "pyproject.toml").read_text()
    assert 'name = "bearing-pe"' in project and "\nplot = [" in project


def test_the_picture_of_a_claim_is_drawn() -> None:
    claims = bearing.claims()
    claim = next(one for one in claims if one.encoding == "shaw")
    axes = bearing.plot.claim(claim)
    assert axes.get_ylabel() == "row of key"
    check_picture(axes, 1)
    without = next(one for one in claims if one.picture is None)
    with pytest.raises(ValueError, match=r"\[claim\] of: must have a picture, got the claim"):
        bearing.plot.claim(without)


def test_errors_name_the_function_that_was_called() -> None:
    with pytest.raises(TypeError, match=r"^heatmap\(\) got an unexpected keyword argument 'wat'"):
        bearing.plot.heatmap("rope", wat=1)
    with pytest.raises(TypeError, match=r"^heatmap\(\) got an unexpected keyword argument 'kind'"):
        bearing.plot.heatmap("rope", kind="curves")
    with pytest.raises(bearing.RangeError, match=r"^\[heatmap\] dims: heatmap takes heads, dim, length"):
        bearing.plot.heatmap("rope", dims=[0])
    with pytest.raises(TypeError, match=r"^\[heatmap\] encodings: must be an encoding's name, .* got 3$"):
        bearing.plot.heatmap(3)
