"""Draws any Figure with matplotlib. It knows no kind, and pyplot is left alone."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._figures import Axis, Band, Cells, Figure, Guide, Note, Panel, Series

try:
    import matplotlib
    from matplotlib import axes, colors, figure, font_manager, lines, patches, ticker
except ImportError as error:
    raise ImportError("bearing.plot needs matplotlib: pip install 'bearing-pe[plot]'") from error

# The dash goes with the colour, so that lines are told apart in grey.
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
_PANEL_WIDTH = {1: 7.0, 2: 4.7, 3: 3.8}  # inches, by the panels in a row
_SMALL = "small"


class Key(NamedTuple):
    """A line of a legend: its text, what stands beside it, and what tells that from others."""

    text: str
    mark: Any
    look: str


def drawn(of: Figure, ax: Any = None) -> Any:
    """The axes of all panels: those that were given, or new ones."""
    if not of.panels:
        raise _core.ShapeError("[plot] figure: must have at least one panel, got none")
    own = ax is None or isinstance(ax, figure.FigureBase)
    if ax is None:
        ax = figure.Figure(figsize=_size(of), layout="constrained")
    places = _new_axes(of, ax) if own else _given_axes(of, ax)
    keys = [_draw_panel(panel, place) for panel, place in zip(of.panels, places, strict=True)]
    _add_colour_bars(of, places)
    if own:
        _add_title(of, places, ax)
        _add_legends(keys, places, ax)
        _settle(of, ax)
    else:
        _add_legends(keys, places, None)
    if len(places) == 1:
        return places[0]
    array = np.empty(len(places), dtype=object)
    array[:] = places
    return array


def _size(of: Figure) -> tuple[float, float]:
    columns = min(of.columns, len(of.panels))
    rows = -(-len(of.panels) // columns)
    width = _PANEL_WIDTH.get(columns, 3.1)
    height = width + 0.2 if any(panel.round for panel in of.panels) else max(width * 0.62, 2.6)
    if columns == 1:
        height = min(height, 4.6 if rows == 1 else 3.4)
        width = min(width, height * 1.5) if all(panel.round for panel in of.panels) else width
    return columns * width, rows * height + 0.9


def _new_axes(of: Figure, parent: Any) -> list[axes.Axes]:
    columns = min(of.columns, len(of.panels))
    grid = parent.add_gridspec(-(-len(of.panels) // columns), columns)
    return [parent.add_subplot(grid[i // columns, i % columns]) for i in range(len(of.panels))]


def _given_axes(of: Figure, ax: Any) -> list[axes.Axes]:
    given = [ax] if isinstance(ax, axes.Axes) else list(np.asarray(ax, dtype=object).flat)
    if not all(isinstance(one, axes.Axes) for one in given):
        raise TypeError(f"[plot] ax: must be axes of matplotlib, several of them, or a figure, got {ax!r}")
    if len(given) != len(of.panels):
        raise _core.ShapeError(f"[plot] ax: must be {len(of.panels)} axes, one for each panel, got {len(given)}")
    return given


def _draw_panel(panel: Panel, ax: axes.Axes) -> list[Key]:
    """What the legend says of it."""
    _set_scale(ax.xaxis, ax.set_xscale, panel.x)
    _set_scale(ax.yaxis, ax.set_yscale, panel.y)
    keys: list[Key] = []
    if panel.cells is not None:
        keys += _draw_cells(panel.cells, panel, ax)
    for band in panel.bands:
        keys += _draw_band(band, ax)
    for guide in panel.guides:
        _draw_guide(guide, panel, ax)
    for series in panel.series:
        keys += _draw_series(series, ax)
    for note in panel.notes:
        _draw_note(note, panel, ax)
    ax.set_xlim(panel.x.first, panel.x.last)
    ax.set_ylim(panel.y.first, panel.y.last)
    ax.set_aspect("equal" if panel.round else "auto", adjustable="box")
    width = ax.get_position().width * _inches(ax)[0]
    ax.set_title(_wrapped(panel.title, width), fontsize="medium", parse_math=False)
    ax.set_xlabel(_wrapped(panel.x.title, width), parse_math=False)
    ax.set_ylabel(_wrapped(panel.y.title, ax.get_position().height * _inches(ax)[1]), parse_math=False)
    return keys


def _inches(ax: axes.Axes) -> tuple[float, float]:
    box = ax.get_figure(root=True).get_size_inches()  # type: ignore[union-attr]
    return float(box[0]), float(box[1])


def _letter(size: str) -> float:
    """About how wide one is, in inches, where the style has text of that size."""
    style: Any = matplotlib.rcParams
    points = font_manager.FontProperties(size=style[size]).get_size_in_points()
    return float(points) * 0.56 / 72


def _wrapped(text: str, inches: float, size: str = "axes.labelsize") -> str:
    """Lines of about that width: what is longer than its panel would be cut at the border."""
    return "\n".join(textwrap.wrap(text, max(12, int(inches / _letter(size))))) if text else ""


def _set_scale(axis: Any, set_scale: Callable[..., None], of: Axis) -> None:
    if of.scale == "linear":
        set_scale("linear")
    else:
        set_scale("log", base=2 if of.scale == "log2" else 10)
        if of.scale == "log2":
            axis.set_major_formatter(ticker.FuncFormatter(_plain_number))
        axis.set_minor_formatter(ticker.NullFormatter())
    if of.ticks:
        axis.set_ticks([tick.at for tick in of.ticks])
        axis.set_ticks([], minor=True)
        axis.set_ticklabels([tick.text for tick in of.ticks], parse_math=False)


def _plain_number(x: float, _: Any = None) -> str:
    return f"{x:,.0f}" if 1 <= abs(x) < 1e7 else f"{x:g}"


def _draw_cells(cells: Cells, panel: Panel, ax: axes.Axes) -> list[Key]:
    rows, columns = cells.values.shape
    x = cells.x_first + cells.x_step * (np.arange(columns + 1) - 0.5)
    y = cells.y_first + cells.y_step * (np.arange(rows + 1) - 0.5)
    colour_map, norm = _colours(cells)
    for axis, of, at in (
        (ax.xaxis, panel.x, (cells.x_first, cells.x_step)),
        (ax.yaxis, panel.y, (cells.y_first, cells.y_step)),
    ):
        if of.scale == "linear" and not of.ticks and all(number == round(number) for number in at):
            axis.set_major_locator(ticker.MaxNLocator("auto", integer=True))  # between cells there is nothing to name
    values = np.ma.masked_invalid(cells.values)
    if panel.x.scale == panel.y.scale == "linear":
        ax.imshow(
            values, origin="lower", extent=(x[0], x[-1], y[0], y[-1]), cmap=colour_map, norm=norm, zorder=0,
            interpolation="nearest" if cells.map == "categories" else "antialiased",
        )  # fmt: skip
    else:
        ax.pcolormesh(x, y, values, cmap=colour_map, norm=norm, zorder=0)
    palette = _core.palette()
    return [_patch(name, palette[i % len(palette)]) for i, name in enumerate(cells.categories)]


def _patch(text: str, colour: Any, alpha: float = 1.0) -> Key:
    return Key(text, patches.Patch(color=tuple(colour), alpha=alpha, linewidth=0), f"patch {tuple(colour)} {alpha}")


def _colours(cells: Cells) -> tuple[colors.Colormap, colors.Normalize]:
    if cells.map == "categories":
        count = max(len(cells.categories), int(np.nanmax(cells.values, initial=0)) + 1)
        palette = _core.palette()
        rows = palette[np.arange(count) % len(palette)]
        return colors.ListedColormap(list(map(tuple, rows))), colors.BoundaryNorm(np.arange(count + 1) - 0.5, count)
    of = _core.diverging_colour if cells.map == "diverging" else _core.sequential_colour
    low, high = cells.low, cells.high
    if not high > low:
        low, high = low - 0.5, low + 0.5  # one number has the colour in the middle
    return colors.ListedColormap(list(map(tuple, of(np.linspace(0, 1, 256))))), colors.Normalize(low, high, clip=True)


def _draw_band(band: Band, ax: axes.Axes) -> list[Key]:
    colour = _core.palette()[band.colour % len(_core.palette())]
    ax.fill_between(band.x, band.low, band.high, color=colour, alpha=0.3, linewidth=0, zorder=1)
    return [_patch(band.label, colour, 0.3)] if band.label else []


def _within(axis: Axis, at: float) -> bool:
    return min(axis.first, axis.last) <= at <= max(axis.first, axis.last)


def _part(axis: Axis, at: float) -> float:
    """Where a place lies between the axis' ends, 0 ... 1."""
    ends = np.array([axis.first, at, axis.last], np.float64)
    if axis.scale != "linear":
        ends = np.log(ends)
    return float((ends[1] - ends[0]) / (ends[2] - ends[0]))


def _draw_guide(guide: Guide, panel: Panel, ax: axes.Axes) -> None:
    colour = matplotlib.rcParams["text.color"]
    style: dict[str, Any] = {"color": colour, "linewidth": 0.9, "linestyle": (0, (2, 2)), "alpha": 0.7, "zorder": 1.5}
    axis = panel.x if guide.upright else panel.y
    if not _within(axis, guide.at):
        return
    (ax.axvline if guide.upright else ax.axhline)(guide.at, **style)
    late = _part(axis, guide.at) > 0.5
    if guide.upright:
        ax.annotate(
            guide.text, (guide.at, 0.98), xycoords=("data", "axes fraction"), xytext=(-3 if late else 3, 0),
            textcoords="offset points", rotation=90, ha="right" if late else "left", va="top", fontsize=_SMALL,
            parse_math=False,
        )  # fmt: skip
    else:
        ax.annotate(
            guide.text, (0.99, guide.at), xycoords=("axes fraction", "data"), xytext=(0, -2 if late else 2),
            textcoords="offset points", ha="right", va="top" if late else "bottom", fontsize=_SMALL, parse_math=False,
        )  # fmt: skip


def _draw_note(note: Note, panel: Panel, ax: axes.Axes) -> None:
    if not (_within(panel.x, note.x) and _within(panel.y, note.y)):
        return
    right, upper = _part(panel.x, note.x) > 0.6, _part(panel.y, note.y) > 0.8
    ax.annotate(
        note.text, (note.x, note.y), xytext=(-4 if right else 4, -3 if upper else 3), textcoords="offset points",
        ha="right" if right else "left", va="top" if upper else "bottom", fontsize=_SMALL, zorder=4, parse_math=False,
    )  # fmt: skip


def _draw_series(series: Series, ax: axes.Axes) -> list[Key]:
    palette = _core.palette()
    colour = palette[series.colour % len(palette)] if series.shade is None else _core.family_colour([series.shade])[0]
    dash = _DASHES[series.colour % len(_DASHES)] if series.shade is None else "-"
    style: dict[str, Any] = {
        "color": tuple(colour),
        "linestyle": dash,
        "linewidth": 1.0 if series.faint else 1.5,
        "alpha": 0.6 if series.faint else 1.0,
        "zorder": 2 if series.faint else 3,
    }
    x, y = series.x, series.y
    if series.stroke == "dots":
        style |= {"linestyle": "none", "marker": "o", "markersize": 3.5}
    elif series.stroke == "steps":
        style |= {"drawstyle": "steps-post"}
    elif series.stroke == "hands":
        x, y = _from_zero(x), _from_zero(y)
        style |= {"marker": "o", "markersize": 5, "markevery": slice(1, None, 3), "linewidth": 2, "linestyle": "-"}
    if series.stroke == "bars":
        width = 0.8 * float(np.min(np.diff(np.unique(x)), initial=np.inf)) if len(np.unique(x)) > 1 else 0.8
        ax.bar(x, y, width=width, color=tuple(colour), alpha=style["alpha"], zorder=style["zorder"])
        return [_patch(series.label, colour, style["alpha"])] if series.label else []
    ax.plot(x, y, **style)
    if not series.label:
        return []
    shown = {name: value for name, value in style.items() if name not in ("drawstyle", "markevery", "zorder")}
    return [Key(series.label, lines.Line2D([], [], **shown), repr(shown))]


def _from_zero(ends: Any) -> Any:
    """From 0 to each end, and a gap."""
    return np.stack([np.zeros(len(ends)), ends, np.full(len(ends), np.nan)], axis=1).ravel()


def _add_colour_bars(of: Figure, places: Sequence[axes.Axes]) -> None:
    """One for all panels with the same scale, else one for each."""
    scales: dict[Any, list[axes.Axes]] = {}
    titles = {}
    for panel, ax in zip(of.panels, places, strict=True):
        cells = panel.cells
        if cells is not None and cells.map != "categories":
            scale = (cells.map, cells.low, cells.high, cells.title)
            scales.setdefault(scale, []).append(ax)
            titles[scale] = cells.title
    for scale, group in scales.items():
        first = group[0]
        image = first.images[0] if first.images else first.collections[0]
        parent: Any = first.get_figure()
        whole = group if len(scales) == 1 and len(group) == len(places) else None
        for one in [whole] if whole else [[ax] for ax in group]:
            bar = parent.colorbar(image, ax=one, pad=0.02, shrink=0.95)
            bar.set_label(titles[scale], parse_math=False)
            bar.outline.set_linewidth(0.5)


def _add_title(of: Figure, places: Sequence[axes.Axes], parent: Any) -> None:
    if of.title:
        if len(of.panels) == 1 and of.panels[0].title in of.title:
            places[0].set_title("")  # which would say it twice
        width = float(parent.get_figure(root=True).get_size_inches()[0])
        parent.suptitle(_wrapped(of.title, width, "figure.titlesize"), parse_math=False)


def _settle(of: Figure, parent: Any) -> None:
    """A layout knows how much room square panels leave when it was worked out once."""
    root = parent.get_figure(root=True)
    engine = root.get_layout_engine()
    if engine is not None and any(panel.round for panel in of.panels):
        engine.execute(root)


def _add_legends(keys: Sequence[list[Key]], places: Sequence[axes.Axes], parent: Any) -> None:
    """One below all panels where they agree on what is what, else one in each."""
    every = [key for own in keys for key in own]
    marks = {key.text: key.mark for key in every}
    agree = len({(key.text, key.look) for key in every}) == len(marks)
    if parent is not None and agree and len(marks) <= 16:
        if marks:
            width = float(parent.get_figure(root=True).get_size_inches()[0])
            columns = int(width / (_letter("font.size") * max(map(len, marks)) + 0.6))
            _legend(parent, marks, loc="outside lower center", ncols=max(1, min(len(marks), columns)))
        return
    for own, ax in zip(keys, places, strict=True):
        if own:
            points = sum(len(np.asarray(line.get_xdata())) for line in ax.lines)
            loc = "best" if points < 5000 else "upper right"  # the best one takes long to find
            _legend(ax, {key.text: key.mark for key in own}, loc=loc)


def _legend(parent: Any, marks: dict[str, Any], **where: Any) -> None:
    legend = parent.legend(list(marks.values()), list(marks), fontsize=_SMALL, **where)
    for text in legend.get_texts():
        text.set_parse_math(False)
