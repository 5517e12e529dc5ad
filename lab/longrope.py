"""LongRoPE's divisors: a search for how much each pair of a RoPE is slowed, on a given model and text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import bearing
import numpy as np

PARENTS = 4
CHILDREN = 8
ROUNDS = 6
CHANGED = 0.3  # the share of pairs that a child changes


def searched(
    rope: bearing.Rope, factor: float, trained: int, loss: Callable[[bearing.Rope], float], random: np.random.Generator
) -> list[float]:
    """The divisors, one for each pair, with which the loss of the stretched model is least.

    As in Ding et al. 2024 (arXiv 2402.13753): the search starts from position interpolation, NTK and YaRN, changes and
    crosses the best so far, and holds divisors between 1 and a little above the factor, slower pairs never divided by
    less than faster ones. Theirs tries many more and may leave the first tokens of a text as they are; this one does not.
    """
    found = sorted((loss(stretched(rope, one, trained, factor)), one) for one in starts(rope, factor, trained))
    for _ in range(ROUNDS):
        children = [_child([one for _, one in found], factor, random) for _ in range(CHILDREN)]
        found += [(loss(stretched(rope, one, trained, factor)), one) for one in children]
        found = sorted(found)[:PARENTS]
    return list(found[0][1])


def stretched(rope: bearing.Rope, divisors: Sequence[float], trained: int, factor: float) -> bearing.Rope:
    """The RoPE with these divisors at every length, and LongRoPE's attention factor."""
    scaling = bearing.LongRopeScaling(
        short_factor=list(divisors), long_factor=list(divisors), trained_length=trained, factor=factor
    )
    return rope.replace(scaling=scaling)


def starts(rope: bearing.Rope, factor: float, trained: int) -> list[tuple[float, ...]]:
    """What the known scalings divide each pair by."""
    plain = np.array(bearing.resolve(rope.replace(scaling=bearing.NoScaling())).inv_freq)
    scalings = (
        bearing.LinearScaling(factor=factor),
        bearing.NtkScaling(factor=factor),
        bearing.YarnScaling(factor=factor, trained_length=trained),
    )
    return [tuple(plain / np.array(bearing.resolve(rope.replace(scaling=one)).inv_freq)) for one in scalings]


def _child(parents: Sequence[Sequence[float]], factor: float, random: np.random.Generator) -> tuple[float, ...]:
    """Each pair's divisor is one of two parents'; some are then drawn anew; and all are put in order."""
    two = np.array([parents[i] for i in random.integers(0, len(parents), 2)])
    child = np.where(random.random(two.shape[1]) < 0.5, *two)
    drawn = np.exp(random.uniform(0, np.log(1.25 * factor), len(child)))
    child = np.where(random.random(len(child)) < CHANGED, drawn, child)
    return tuple(float(one) for one in np.sort(child))
