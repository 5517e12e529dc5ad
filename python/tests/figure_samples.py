"""A figure that has all that figures may have."""

from __future__ import annotations

import dataclasses

import bearing
import numpy as np


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
