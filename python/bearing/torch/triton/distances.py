"""The biases of a call: which distances they are asked for, their sum by head and distance, and its gradients."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ... import _core
from ..encoding import traits_of
from . import bias_numbers
from .bias_numbers import Distances
from .visible import Rules

# The most distances that a call may have: 4 bytes for each of them and each head.
MOST = 2**24


class Terms(NamedTuple):
    """The encodings of a call, parted: those that turn rows, and those that add a bias by distance.

    Each with its place among the call's tensors: first and end.
    """

    rows: list[tuple[dict, int, int]]
    biases: list[tuple[dict, int, int]]


@functools.lru_cache(maxsize=256)
def parted(encodings: str) -> Terms:
    """The forms of a call."""
    found, first = Terms([], []), 0
    for form in json.loads(encodings):
        end = first + len(form["tensors"])
        (found.rows if traits_of(form["kind"])["rows"] else found.biases).append((form, first, end))
        first = end
    return found


def distances_of(rules: Rules, q_at: Tensor | None, k_at: Tensor | None) -> Distances:
    """Those that a call's biases are asked for. Where positions are tensors the device is waited for."""
    if q_at is None or k_at is None:
        offset = rules.offset or 0
        least, most = -(rules.q_len - 1) - offset, rules.k_len - 1 - offset
    else:
        ends = torch.stack([q_at.min(), q_at.max(), k_at.min(), k_at.max()]).tolist()
        least, most = ends[2] - ends[1], ends[3] - ends[0]
    shown = max(least, rules.distances[0]), min(most, rules.distances[1])
    if shown[0] <= shown[1]:
        least, most = shown
    if most - least >= MOST:
        raise _core.RangeError(
            f"[attention] q_positions, k_positions: must be at most {MOST} distances apart on a GPU, got {least} to {most}"
        )
    return Distances(least, most - least + 1)


def numbers(
    biases: Sequence[tuple[dict, int, int]],
    parameters: Sequence[Tensor],
    heads: int,
    at: Distances,
    device: torch.device,
) -> Tensor:
    """The sum of all biases at these distances: float32 [heads, distances] on the device."""
    found = [bias_numbers.numbers(form, parameters[first:end], heads, at, device) for form, first, end in biases]
    return sum(found[1:], found[0])


def gradients(
    biases: Sequence[tuple[dict, int, int]], parameters: Sequence[Tensor], d_numbers: Tensor, at: Distances
) -> dict[int, Tensor]:
    """Those of the parameters, by their places in the call."""
    return {
        first + i: one
        for form, first, end in biases
        for i, one in enumerate(bias_numbers.gradients(form, parameters[first:end], d_numbers, at))
    }
