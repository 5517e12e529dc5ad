"""How the benchmarks in Python measure: all sides in one run, in alternation, so that others' work disturbs all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def least(
    calls: Mapping[str, Callable[[], object]], seconds: float = 1.0, turns: int = 5, untimed: int = 0
) -> dict[str, float]:
    """Microseconds of each call: the least of at least `turns` turns, and of those that fit `seconds` a call.

    untimed: how many calls of each turn come before the one that is timed. Calls of microseconds want some: what another
    side's call left in the caches would else be part of them, and that is more after a longer call.
    """
    for call in calls.values():
        call()
        call()
    found = dict.fromkeys(calls, float("inf"))
    end = time.perf_counter() + seconds * len(calls)
    while turns > 0 or time.perf_counter() < end:
        turns -= 1
        for name, call in calls.items():
            for _ in range(untimed):
                call()
            start = time.perf_counter()
            call()
            found[name] = min(found[name], 1e6 * (time.perf_counter() - start))
    return found


def ratios(found: Mapping[str, float], ours: str) -> str:
    """`1.50x eager, 2.10x compiled`: how many times as fast `ours` is."""
    return ", ".join(f"{found[name] / found[ours]:.2f}x {name}" for name in found if name != ours)
