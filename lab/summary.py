"""What runs say together: groups that differ in the seed alone, with intervals, ratios and the verdict on long inputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .results import Interval, interval

Row = dict[str, Any]

LONGEST = "16"  # multiple of the trained length that the verdict is about
EXTRAPOLATES = 1.05  # the perplexity grows at most so many times up to there
FAILS = 1.5  # and here by more
SOLVED = 0.9  # of exact match: a task is solved


@dataclass(frozen=True)
class Runs:
    """Runs that differ in the seed alone."""

    rows: tuple[Row, ...]

    @property
    def setting(self) -> dict[str, Any]:
        setting: dict[str, Any] = self.rows[0]["setting"]
        return setting

    @property
    def encoding(self) -> str:
        return str(self.setting["encoding"])

    @property
    def multiples(self) -> list[str]:
        """The multiples of the trained length that all runs were measured at, in order."""
        common = set.intersection(*(set(row["measures"]) for row in self.rows))
        return sorted(common, key=float)

    def length(self, multiple: str) -> int:
        return int(self.rows[0]["measures"][multiple]["length"])

    def measure(self, multiple: str, name: str) -> Interval | None:
        """Mean and interval over the seeds; None where it was not measured."""
        if multiple not in self.multiples:
            return None
        values = [row["measures"][multiple].get(name) for row in self.rows]
        return None if any(value is None for value in values) else interval([float(value) for value in values])

    def ratio(self, multiple: str = LONGEST) -> Interval | None:
        """How many times larger the perplexity of the last quarter of the places is there than at the trained length."""
        if multiple not in self.multiples or "1" not in self.multiples:
            return None
        tails = [[row["measures"][one].get("tail") for one in ("1", multiple)] for row in self.rows]
        if any(one is None for pair in tails for one in pair):
            return None
        return interval([there / here for here, there in tails])

    def by_position(self, multiple: str) -> list[tuple[float, Interval]]:
        """The loss at each place, with its interval."""
        curves = [row["measures"][multiple]["by_position"] for row in self.rows]
        places = [place for place, _ in curves[0]]
        if any([place for place, _ in curve] != places for curve in curves):
            raise ValueError(f"[by_position] rows: must have losses at the same places, got others for {self.encoding}")
        return [(place, interval([curve[i][1] for curve in curves])) for i, place in enumerate(places)]

    def beyond(self, multiple: str) -> str:
        """Why it could not be measured there; empty where that is not said."""
        return str(self.rows[0].get("beyond", {}).get(multiple, ""))


def _has(setting: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return all(setting.get(name) in (value if isinstance(value, tuple) else (value,)) for name, value in wanted.items())


def groups(rows: Iterable[Row], apart: Sequence[str] = ("encoding",), **wanted: Any) -> list[Runs]:
    """The runs whose settings have the wanted values (of a tuple: any of them), one group for each value of `apart`.

    All else in their settings must be the same, except the seed, so that they can be compared: ValueError otherwise.
    """
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if _has(row["setting"], wanted):
            found.setdefault(tuple(row["setting"].get(name) for name in apart), []).append(row)
    free = {"seed", *apart}
    common: dict[str, Any] | None = None
    for group in found.values():
        for row in group:
            fixed = {name: value for name, value in row["setting"].items() if name not in free}
            common = fixed if common is None else common
            if fixed != common:
                other = sorted(name for name in {*fixed, *common} if fixed.get(name) != common.get(name))
                raise ValueError(
                    f"[groups] rows: must be of one setting except {', '.join(sorted(free))}, got different {', '.join(other)}"
                )
        seeds = [row["setting"]["seed"] for row in group]
        if len(set(seeds)) != len(seeds):
            raise ValueError(f"[groups] rows: must have one run for each seed, got seeds {sorted(seeds)}")
    return [Runs(tuple(sorted(group, key=lambda row: row["setting"]["seed"]))) for group in found.values()]


def verdict(runs: Runs) -> str:
    """By the rule of docs/lab/README.md: "extrapolates", "partly", "does not extrapolate", or "cannot be asked"."""
    ratio = runs.ratio()
    if ratio is None:
        return "cannot be asked" if runs.beyond(LONGEST) else "was not measured"
    if ratio.mean <= EXTRAPOLATES:
        return "extrapolates"
    return "does not extrapolate" if not ratio.mean <= FAILS else "partly"


def on_the_edge(runs: Runs) -> bool:
    """Whether the ratio's interval reaches over a limit of the rule, so that more seeds could change the verdict."""
    ratio = runs.ratio()
    if ratio is None or ratio.count < 2:
        return False
    return any(abs(ratio.mean - limit) < ratio.half for limit in (EXTRAPOLATES, FAILS))


def said(number: Interval | None) -> str:
    """12.3 ± 0.4: the half width has two digits, and the mean as many places."""
    if number is None:
        return "–"
    if not math.isfinite(number.mean):
        return "diverged"
    if number.count < 2:
        return f"{number.mean:.4g}"
    if number.half == 0:
        return f"{number.mean:.4g} ± 0"
    places = min(max(1 - math.floor(math.log10(number.half)), 0), 4)
    return f"{number.mean:,.{places}f} ± {number.half:,.{places}f}"


def tied(a: Runs, b: Runs, multiple: str, name: str) -> bool:
    """Whether the order of the two is not known: the interval of their difference, seed by seed, holds 0.

    Runs of one seed have the same data in training and in measuring, so that the difference leaves out what both owe to
    it. One seed in common decides nothing.
    """
    of_b = {row["setting"]["seed"]: row for row in b.rows}
    pairs = [(row, of_b[seed]) for row in a.rows if (seed := row["setting"]["seed"]) in of_b]
    if len(pairs) < 2:
        return True
    difference = interval(
        [float(x["measures"][multiple][name]) - float(y["measures"][multiple][name]) for x, y in pairs]
    )
    return abs(difference.mean) <= difference.half
