"""The file of results: a row for each finished run, one JSON object a line."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats


class Interval(NamedTuple):
    """A mean over seeds with its 95 % interval: mean ± half. half is NaN for one seed, which says nothing about others."""

    mean: float
    half: float
    count: int


def interval(values: Sequence[float]) -> Interval:
    """Student's t over seeds."""
    count = len(values)
    if count == 0:
        raise ValueError("[interval] values: must be at least one, got none")
    mean = float(np.mean(values))
    if count == 1:
        return Interval(mean, float("nan"), 1)
    half = stats.t.ppf(0.975, count - 1) * np.std(values, ddof=1) / count**0.5
    return Interval(mean, float(half), count)


def read(path: Path | str) -> list[dict[str, Any]]:
    """All rows; the last of a key counts. A last line that is cut off, as after a loss of power, is left out."""
    path = Path(path)
    rows: dict[str, dict[str, Any]] = {}
    lines = path.read_text().split("\n") if path.exists() else []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            rows[row["key"]] = row
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):
                continue
            raise ValueError(
                f"[results] {path}, line {number}: must be a row of JSON with a key, got {error}"
            ) from None
    return list(rows.values())


def keys(path: Path | str) -> set[str]:
    """Of the runs that are done."""
    return {row["key"] for row in read(path)}


def append(path: Path | str, row: dict[str, Any]) -> None:
    """Writes a row in one piece, behind whatever other processes wrote."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(row, allow_nan=False) + "\n"
    with open(path, "ab+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        whole = file.read()
        last = whole[whole.rfind(b"\n") + 1 :]
        if last:  # a line that was cut off must not spoil this one
            file.truncate(len(whole) - len(last))
        file.write(line.encode())
