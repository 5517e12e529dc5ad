"""Pictures of encodings as data. The library works them out and bearing.plot draws them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np

from . import _core
from ._types import ArrayLike, Float64Array

_EMPTY = np.zeros(0)


class _Part:
    """What all parts of a figure can do: they are compared and become dictionaries, with their arrays."""

    def to_dict(self) -> dict[str, Any]:
        """The members by name, in plain Python types that JSON can hold. NaN, which stands for a gap, becomes None."""
        return {one.name: _plain(getattr(self, one.name)) for one in fields(self)}  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(repr(self.to_dict()))


def _plain(value: Any) -> Any:
    if isinstance(value, _Part):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


@dataclass(frozen=True, eq=False)
class Tick(_Part):
    """A place on an axis and the text that stands there."""

    at: float
    text: str


@dataclass(frozen=True, eq=False)
class Axis(_Part):
    """An axis. ``first`` is the value at the left or at the bottom, ``last`` the value at the other end."""

    title: str = ""
    first: float = 0.0
    last: float = 1.0
    scale: Literal["linear", "log2", "log10"] = "linear"
    ticks: tuple[Tick, ...] = ()


@dataclass(frozen=True, eq=False)
class Series(_Part):
    """Points in order. A y that is NaN leaves a gap.

    stroke: "line", "dots", "steps", "bars" from 0 to the point, or "hands" from (0, 0) to the point.
    colour: an index of palette().
    shade: 0 ... 1, a colour of an ordered family, used in place of colour.
    faint: True draws the series behind the others.
    """

    label: str = ""
    x: Float64Array = field(default_factory=lambda: _EMPTY)
    y: Float64Array = field(default_factory=lambda: _EMPTY)
    stroke: Literal["line", "dots", "steps", "bars", "hands"] = "line"
    colour: int = 0
    shade: float | None = None
    faint: bool = False


@dataclass(frozen=True, eq=False)
class Band(_Part):
    """The area between two curves over the same x."""

    label: str = ""
    x: Float64Array = field(default_factory=lambda: _EMPTY)
    low: Float64Array = field(default_factory=lambda: _EMPTY)
    high: Float64Array = field(default_factory=lambda: _EMPTY)
    colour: int = 0


@dataclass(frozen=True, eq=False)
class Cells(_Part):
    """A matrix [rows, cols]. The middle of values[row, col] is x_first + col * x_step, y_first + row * y_step.

    values: the numbers; nothing is drawn for NaN.
    map: "sequential" from low to high; "diverging" with 0 in the middle; or "categories", whole numbers, whose names
        are in ``categories``.
    """

    values: Float64Array
    x_first: float = 0.0
    x_step: float = 1.0
    y_first: float = 0.0
    y_step: float = 1.0
    map: Literal["sequential", "diverging", "categories"] = "sequential"
    low: float = 0.0
    high: float = 1.0
    title: str = ""
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Guide(_Part):
    """A straight line across the panel: at an x if it is upright, else at a y."""

    upright: bool = False
    at: float = 0.0
    text: str = ""


@dataclass(frozen=True, eq=False)
class Note(_Part):
    """A short text at a point."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, eq=False)
class Panel(_Part):
    """One pair of axes with what is drawn there: cells at the bottom, then bands, guides, series and notes.

    round: True draws one unit equally long on both axes.
    """

    title: str = ""
    x: Axis = Axis()
    y: Axis = Axis()
    round: bool = False
    cells: Cells | None = None
    bands: tuple[Band, ...] = ()
    guides: tuple[Guide, ...] = ()
    series: tuple[Series, ...] = ()
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, eq=False)
class Figure(_Part):
    """A picture as data.

    text: what the picture shows, with numbers.
    columns: how many panels stand in a row.
    """

    kind: str = ""
    title: str = ""
    text: str = ""
    panels: tuple[Panel, ...] = ()
    columns: int = 1

    def to_json(self) -> str:
        """The figure as JSON, as ``bearing plot --json`` writes it. NaN becomes null."""
        return json.dumps({"schema": "bearing.figure/1"} | self.to_dict(), ensure_ascii=False, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> Figure:
        """Makes a figure of JSON, of the schema bearing.figure/1, such as to_json() returns.

        text: the JSON.

        Raises ConfigError. Its text names the line and column or the JSON pointer, what must hold and what was found.
        """
        made: Figure = _core._parse_figure(text)
        return made

    def _repr_html_(self) -> str:
        from . import _html

        return _html.figure(self)


@dataclass(frozen=True)
class FigureKind:
    """A kind of picture: how many encodings it draws side by side, and which options of figure() it takes.

    name: what figure() calls it.
    shows: what the picture shows.
    fewest: the fewest encodings that it draws.
    most: the most encodings that it draws.
    takes: the options of figure() that it takes.
    """

    name: str
    shows: str
    fewest: int
    most: int
    takes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class DocumentFigure(_Part):
    """A picture that a founding document shows or describes: ``figure(one.kind, *one.encodings, **one.options)``."""

    document: str
    name: str
    says: str
    kind: str
    encodings: tuple[str, ...]
    options: dict[str, Any]


def figure_kinds() -> tuple[FigureKind, ...]:
    """All kinds of pictures, in the order in which the command lists them."""
    return tuple(_core._figure_kinds())


def document_figures() -> tuple[DocumentFigure, ...]:
    """The pictures of all founding documents, in the order of the documents."""
    return tuple(_core._document_figures())


def read_figure(path: str | bytes | os.PathLike[str]) -> Figure:
    """Reads a figure from a file of JSON, of the schema bearing.figure/1, such as ``bearing plot --json`` writes.

    path: the file.

    Raises ConfigError. Its text names the file, the line and column or the JSON pointer, what must hold and what was found.
    """
    made: Figure = _core._read_figure(path)
    return made


def figure(
    kind: str,
    *encodings: Any,
    heads: int | None = None,
    dim: int | None = None,
    length: int | None = None,
    seed: int = 1,
    what: str | None = None,
    positions: Sequence[int] | None = None,
    dims: Sequence[int] | None = None,
    head: int | None = None,
    offset: int | None = None,
    causal: bool | None = None,
    window: int | None = None,
    sinks: int | None = None,
    packed: Sequence[int] | None = None,
    words: ArrayLike | None = None,
    w_q: ArrayLike | None = None,
    w_k: ArrayLike | None = None,
    threads: int = 1,
) -> Figure:
    """Makes a picture of encodings as data: side by side, on one scale. bearing.plot draws it.

        bearing.figure("heatmap", "sinusoidal", length=128, dim=256)
        bearing.figure("wavelengths", "@config.json")                   every kind of a model's layers
        bearing.figure("curves", bearing.Rope(head_dim=64, pairing="half"), "rope:base=500000")

    kind: the name of a kind. figure_kinds() lists the kinds and the options that each of them takes.
    encodings: each is text as check() takes it, a spec, a table, an encoding with its numbers, a Model, a config of
        transformers, or a module of bearing.torch, whose parameters are drawn as they are now. Of a module that computes
        some of them for each call, give what its encoding(…) returns.
    heads: sizes of the example: heads, dim and length. A size that is not given is the encoding's own, else the kind's.
    window: how many keys up to its own a query sees, for "masks": window=4 is window=(3, 0) of attention().
    sinks: how many first tokens every query sees beside its window. Those of attention() are logits of heads.
    words [time, dim]: what tokens mean, for "correlations".
    w_q [dim, head_dim]: the projection of queries, for "correlations"; given together with w_k.
    w_k [dim, head_dim]: the projection of keys.
    threads: how many threads the call may use; 0 for all.

    Returns a Figure. Raises RangeError or ShapeError for an option that the kind does not take or that is out of range,
    TypeError for something that is not an encoding.
    """
    options = {
        "heads": heads,
        "dim": dim,
        "length": length,
        "seed": seed,
        "what": what,
        "positions": positions,
        "dims": dims,
        "head": head,
        "offset": offset,
        "causal": causal,
        "window": window,
        "sinks": sinks,
        "packed": packed,
        "words": words,
        "w_q": w_q,
        "w_k": w_k,
    }
    given = {name: value for name, value in options.items() if value is not None}
    for name in ("heads", "dim", "length"):
        if given.get(name) == 0:  # which stands for "as the kind has it" in the library
            raise _core.RangeError(f"[figure] {name}: must be at least 1, got 0")
    made: Figure = _core._figure(kind, list(encodings), given, threads)
    return made
