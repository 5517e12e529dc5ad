"""Encodings that have files of their own: modules whose parameters a network computes for each call, and scores in
PyTorch's own operations.

A file is called like the encoding's page, and found by its name alone. ``__all__`` has its modules. ``SCORES``, if the
file has it, is what :func:`bearing.torch.score_mod` adds for an encoding, in place of what its form gives. ``BY_DISTANCE``
has formulas of biases by distance with their gradients, for kernels on GPUs; ``PROPORTIONAL`` names such biases that are a
parameter of the head times a function of the distance.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, NamedTuple


@functools.cache
def _files() -> tuple[ModuleType, ...]:
    return tuple(import_module(f"{__name__}.{file.name}") for file in iter_modules(__path__))


def classes() -> dict[str, type]:
    """The modules of all files, by name."""
    return {name: getattr(file, name) for file in _files() for name in file.__all__}


def scores() -> dict[str, Any]:
    """What is added to a score, by the encoding's name."""
    return {kind: term for file in _files() for kind, term in getattr(file, "SCORES", {}).items()}


class ByDistance(NamedTuple):
    """A bias by distance in PyTorch's own operations.

    numbers(spec, parameters, distances): float64 [heads, distances]. spec: its members, as in a form.
    gradients(spec, parameters, distances, d_numbers): one for each parameter, in float64.
    """

    numbers: Callable[..., Any]
    gradients: Callable[..., list[Any]]


@functools.cache
def by_distance() -> dict[str, ByDistance]:
    """Such formulas, by the encoding's name."""
    return {kind: one for file in _files() for kind, one in getattr(file, "BY_DISTANCE", {}).items()}


@functools.cache
def proportional() -> frozenset[str]:
    """Biases by distance that are a parameter of the head times a function of the distance."""
    return frozenset(kind for file in _files() for kind in getattr(file, "PROPORTIONAL", ()))
