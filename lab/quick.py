"""A minute or two of models so small that they know little, and what must be true of them all the same."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from . import grid, results, running

Rows = dict[tuple[str, str], dict[str, Any]]  # by task and encoding


class Contrast(NamedTuple):
    """What is known, the two numbers that show it, and how they must stand: the first below the second."""

    says: str
    less: Callable[[Rows], float]
    more: Callable[[Rows], float]


def _of(task: str, encoding: str, multiple: str, measure: str = "perplexity") -> Callable[[Rows], float]:
    return lambda rows: rows[task, encoding]["measures"][multiple][measure]


def _times(factor: float, number: Callable[[Rows], float]) -> Callable[[Rows], float]:
    return lambda rows: factor * number(rows)


ENCODINGS = {"text": "nope learned sinusoidal rope alibi".split(), "copy": []}
CONTRASTS: list[Contrast] = []


def run(out: Path | None, processes: int) -> int:
    """Runs the grid, prints each contrast, and returns 1 if one does not hold."""
    with tempfile.TemporaryDirectory() as folder:
        out = out or Path(folder) / "rows.jsonl"
        given = []
        for task, encodings in ENCODINGS.items():
            question = "text" if task == "text" else "tasks"
            given += grid.settings(question, "quick", encodings, [task], [0], {})
        failed = running.run_all(given, out, processes, "cpu", None)
        keys = {one.key for one in given}
        rows = {(r["setting"]["task"], r["setting"]["encoding"]): r for r in results.read(out) if r["key"] in keys}
    return 1 if failed else judged(rows)


def judged(rows: Rows) -> int:
    """Prints what holds and what does not."""
    wrong = 0
    for (task, encoding), row in rows.items():
        first, last = row["training"][0][1], row["training"][-1][1]
        wrong += _said(f"{task}, {encoding}: the loss falls", last, 0.9 * first)
    for one in CONTRASTS:
        wrong += _said(one.says, one.less(rows), one.more(rows))
    learned = rows["text", "learned"]["beyond"]
    beyond = len({"2", "4", "8", "16"} - set(learned))
    wrong += _said("text, learned: no rows past the trained length, so lengths not refused are 0", beyond, 1)
    return 1 if wrong else 0


def _said(says: str, less: float, more: float) -> int:
    holds = less < more
    print(f"{'holds' if holds else 'FAILS'}: {says}: {less:.3f} < {more:.3f}")
    return 0 if holds else 1
