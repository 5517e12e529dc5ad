"""Results as figures of bearing: `bearing plot --figure` and bearing.plot.draw draw them like any other picture."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from bearing import Axis, Band, Cells, Figure, Guide, Panel, Series, Tick, catalog

from .results import Interval
from .summary import Runs, said

MULTIPLES = ("1", "2", "4", "8", "16")


@functools.cache
def titles() -> dict[str, str]:
    """What the catalog calls each encoding."""
    return {entry.name: entry.title for entry in catalog()}


def title_of(encoding: str) -> str:
    """Of "rope:base=100" too: its options stay. In a sentence a comma would end it: "T5 buckets (causal)"."""
    name, _, options = encoding.partition(":")
    title, _, more = titles().get(name, name).partition(":")[0].partition(", ")
    return title + "".join(f" ({one})" for one in (more, options) if one)


def bounds(intervals: Sequence[Interval | None]) -> tuple[float, float]:
    """From the lowest to the highest end of intervals; what is not finite is left out."""
    ends = []
    for one in intervals:
        if one is not None and math.isfinite(one.mean):
            half = one.half if one.count > 1 else 0.0
            ends += [one.mean - half, one.mean + half]
    if not ends:
        raise ValueError("[bounds] intervals: must have a finite one, got none")
    return min(ends), max(ends)


def axis(title: str, intervals: Sequence[Interval | None], low: float | None = None, high: float | None = None) -> Axis:
    """That holds the intervals; logarithmic where the largest is far above the smallest."""
    first, last = bounds(intervals)
    means = [one.mean for one in intervals if one is not None and math.isfinite(one.mean)]
    if low is None and min(means) > 0 and max(means) > 8 * min(means):
        return Axis(title=title, first=max(first, min(means) / 2) / 1.1, last=last * 1.1, scale="log10")
    room = 0.05 * (last - first) or 0.05 * abs(last) or 1.0
    return Axis(title=title, first=first - room if low is None else low, last=last + room if high is None else high)


def curve(label: str, points: Sequence[tuple[float, Interval]], colour: int) -> tuple[Series, list[Band]]:
    """A line with the band of its intervals, where there is more than one seed."""
    x = np.array([place for place, _ in points], float)
    mean = np.array([one.mean for _, one in points])
    series = Series(label=label, x=x, y=mean, colour=colour)
    half = np.array([one.half for _, one in points])
    if not np.isfinite(half).any():
        return series, []
    return series, [Band(x=x, low=mean - half, high=mean + half, colour=colour)]


def panel_of(
    curves: Sequence[tuple[str, Sequence[tuple[float, Interval]]]],
    title: str,
    x: Axis,
    y_title: str,
    guides: tuple[Guide, ...] = (),
    colours: Sequence[int] | None = None,
) -> Panel:
    """Lines with their bands; colours are those of the palette in turn unless others are given."""
    numbers = range(len(curves)) if colours is None else colours
    drawn = [curve(label, points, number) for number, (label, points) in zip(numbers, curves, strict=True)]
    y = axis(y_title, [one for _, points in curves for _, one in points])
    bands = tuple(band for _, some in drawn for band in some)
    if y.scale == "log10":  # a band that reaches below 0 ends at the picture's lower edge
        bands = tuple(Band(x=b.x, low=np.maximum(b.low, y.first), high=b.high, colour=b.colour) for b in bands)
    return Panel(title=title, x=x, y=y, bands=bands, guides=guides, series=tuple(series for series, _ in drawn))


def multiples_axis(title: str, multiples: Sequence[str] = MULTIPLES) -> Axis:
    values = [float(one) for one in multiples]
    ticks = tuple(Tick(at=value, text=f"{one}×") for one, value in zip(multiples, values, strict=True))
    return Axis(title=title, first=min(values) / 1.08, last=max(values) * 1.08, scale="log2", ticks=ticks)


def by_position(runs: Sequence[Runs], unit: str) -> Panel:
    """The loss at each place, from 1 on, of the longest inputs that each could be measured at."""
    curves = [
        (title_of(one.encoding), [(place + 1, number) for place, number in one.by_position(one.multiples[-1])])
        for one in runs
    ]
    places = [place for _, points in curves for place, _ in points]
    trained = Guide(upright=True, at=float(runs[0].length("1")), text="trained length")
    x = Axis(title=f"place in the input ({unit})", first=min(places), last=max(places) * 1.02, scale="log2")
    return panel_of(
        curves, "Loss by place, at the longest inputs", x, f"loss (nats per {unit.removesuffix('s')})", (trained,)
    )


def by_length(runs: Sequence[Runs], name: str = "perplexity") -> Panel:
    """The mean over whole inputs of each length."""
    curves = []
    for one in runs:
        points = [(float(m), value) for m in one.multiples if (value := one.measure(m, name)) is not None]
        curves.append((title_of(one.encoding), points))
    return panel_of(
        curves, f"{name.capitalize()} by length", multiples_axis("length of inputs, over the trained length"), name
    )


def sentence(runs: Runs, name: str = "perplexity") -> str:
    """In words, for who cannot see the picture."""
    parts = [f"{said(runs.measure(m, name))} at {m}×" for m in (runs.multiples[0], runs.multiples[-1])]
    return f"{title_of(runs.encoding)}: {name} {parts[0]}" + (f", {parts[1]}." if len(runs.multiples) > 1 else ".")


def text_figure(runs: Sequence[Runs], title: str, unit: str = "bytes") -> Figure:
    """Loss by place and perplexity by length, of some encodings on text."""
    words = " ".join(sentence(one) for one in runs)
    return Figure(kind="lab", title=title, text=words, panels=(by_position(runs, unit), by_length(runs)), columns=2)


def matrix_panel(
    title: str, rows: Sequence[str], columns: Sequence[str], value: Callable[[int, int], float], unit: str
) -> Panel:
    """A number between 0 and 1 for each row and column."""
    numbers = np.array([[value(r, c) for c in range(len(columns))] for r in range(len(rows))], float)
    return Panel(
        title=title,
        x=Axis(first=-0.5, last=len(columns) - 0.5, ticks=tuple(Tick(float(i), one) for i, one in enumerate(columns))),
        y=Axis(first=len(rows) - 0.5, last=-0.5, ticks=tuple(Tick(float(i), one) for i, one in enumerate(rows))),
        cells=Cells(values=numbers, low=0.0, high=1.0, title=unit),
    )


def ranking_panel(title: str, ranked: Sequence[tuple[str, Interval]], x_title: str) -> Panel:
    """A dot with its interval for each name, the first at the top."""
    x = axis(x_title, [one for _, one in ranked])
    dots = Series(
        x=np.array([one.mean for _, one in ranked]),
        y=np.arange(len(ranked), dtype=float),
        stroke="dots",
        label="mean over seeds",
    )
    lines = tuple(
        Series(
            x=np.array([max(one.mean - one.half, x.first), one.mean + one.half]), y=np.array([i, i], float), faint=True
        )
        for i, (_, one) in enumerate(ranked)
        if one.count > 1
    )
    ticks = tuple(Tick(float(i), name) for i, (name, _) in enumerate(ranked))
    return Panel(title=title, x=x, y=Axis(first=len(ranked) - 0.5, last=-0.5, ticks=ticks), series=(*lines, dots))


def methods_panel(
    title: str,
    methods: Sequence[tuple[str, Sequence[tuple[float, Interval]]]],
    factors: Sequence[str],
    colours: Sequence[int | None],
) -> Panel:
    """The perplexity of each way of extension, by factor; without a colour of the palette a line has one of its own."""
    x = multiples_axis("length of inputs, over the trained length", factors)
    panel = panel_of(methods, title, x, "perplexity", colours=[colour or 0 for colour in colours])
    shown = (
        one if colour is not None else replace(one, shade=1.0)
        for one, colour in zip(panel.series, colours, strict=True)
    )
    return replace(panel, series=tuple(shown))
