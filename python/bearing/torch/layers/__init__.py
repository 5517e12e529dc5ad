"""Encodings that have files of their own: modules whose parameters a network computes for each call, and scores in
PyTorch's own operations.

A file is called like the encoding's page, or like its function, and found by its name alone. ``__all__`` has its
modules, and functions beside them. ``SCORES``, if the file has it, is what :func:`bearing.torch.score_mod` adds for an
encoding, in place of what its form gives. ``BY_DISTANCE`` has formulas of biases by distance with their gradients, for kernels on GPUs; ``PROPORTIONAL`` names
such biases that are a parameter of the head times a function of the distance. ``MIXED`` has, for the same kernels, scores
that are a product of numbers of the query with a row of a table by distance.
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


def _public() -> dict[str, Any]:
    return {name: getattr(file, name) for file in _files() for name in file.__all__}


def classes() -> dict[str, type]:
    """The modules of all files, by name."""
    return {name: one for name, one in _public().items() if isinstance(one, type)}


def functions() -> dict[str, Any]:
    """The functions of all files, by name."""
    return {name: one for name, one in _public().items() if not isinstance(one, type)}


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


class Mixed(NamedTuple):
    """A score that is numbers of the query, which its content does not make here, times a row of a table by distance.

    table, numbers: the names of its two parameters, [heads or 1, rows, rank] or [rows, rank], and [batch or 1, heads,
    q_len, rank].
    rows(spec, distances): which row each distance has, int64; -1: none.
    factors(spec, numbers, positions): what rows are multiplied with, like the numbers. positions: the queries', int64 [q_len].
    gradients(spec, numbers, positions, d_factors): those of the numbers, [batch, heads, q_len, rank].
    """

    table: str
    numbers: str
    rows: Callable[..., Any]
    factors: Callable[..., Any]
    gradients: Callable[..., Any]


@functools.cache
def mixed() -> dict[str, Mixed]:
    """Such scores, by the encoding's name."""
    return {kind: one for file in _files() for kind, one in getattr(file, "MIXED", {}).items()}


@functools.cache
def proportional() -> frozenset[str]:
    """Biases by distance that are a parameter of the head times a function of the distance."""
    return frozenset(kind for file in _files() for kind in getattr(file, "PROPORTIONAL", ()))
