"""A bias as numbers by head and distance: made by the library on the CPU, and its gradient taken back there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ... import _core
from ..encoding import build, traits_of
from .visible import Rules

# The most distances that a call may have: 4 bytes for each of them and each head.
MOST = 2**24


class Terms(NamedTuple):
    """The encodings of a call, parted: those that turn rows, and those that add a bias by distance.

    Each with its place among the call's tensors: first and end.
    """

    rows: list[tuple[dict, int, int]]
    biases: list[tuple[dict, int, int]]


def parted(encodings: str) -> Terms:
    """The forms of a call."""
    found, first = Terms([], []), 0
    for form in json.loads(encodings):
        end = first + len(form["tensors"])
        (found.rows if traits_of(form["kind"])["rows"] else found.biases).append((form, first, end))
        first = end
    return found


class Distances(NamedTuple):
    """Distances least, least + 1, …: `count` of them."""

    least: int
    count: int


def distances_of(rules: Rules, q_at: Tensor | None, k_at: Tensor | None) -> Distances:
    """Those that a call's biases are asked for. Where positions are tensors the device is waited for."""
    if q_at is None or k_at is None:
        offset = rules.offset or 0
        least, most = -(rules.q_len - 1) - offset, rules.k_len - 1 - offset
    else:
        ends = torch.stack([q_at.min(), q_at.max(), k_at.min(), k_at.max()]).tolist()
        least, most = ends[2] - ends[1], ends[3] - ends[0]
    shown = max(least, rules.limits[0]), min(most, rules.limits[1])
    if rules.by_position and shown[0] <= shown[1]:
        least, most = shown
    if most - least >= MOST:
        raise _core.RangeError(
            f"[attention] q_positions, k_positions: must be at most {MOST} distances apart on a GPU, got {least} to {most}"
        )
    return Distances(least, most - least + 1)


def numbers(biases: Sequence[tuple[dict, int, int]], parameters: Sequence[Tensor], heads: int, at: Distances) -> Tensor:
    """The sum of all biases at these distances: float32 [heads, distances] on the CPU."""
    table = torch.zeros(1, heads, 1, at.count)
    _core.add_scores(_built(biases, parameters), table, 0, at.least, threads=torch.get_num_threads())
    return table[0, :, 0]


def gradients(
    biases: Sequence[tuple[dict, int, int]], parameters: Sequence[Tensor], d_numbers: Tensor, at: Distances
) -> dict[int, Tensor]:
    """Those of the parameters, by their places in the call."""
    d_scores = d_numbers.cpu()[None, :, None].contiguous()
    *_, found = _core.add_scores_backward(
        _built(biases, parameters), d_scores, 0, at.least, threads=torch.get_num_threads()
    )
    return {
        place: one[name].to(parameters[place].device)
        for (form, first, _), one in zip(biases, found, strict=True)
        for place, name in enumerate(form["tensors"], first)
        if name in one
    }


def _built(biases: Sequence[tuple[dict, int, int]], parameters: Sequence[Tensor]) -> list[_core.Encoding]:
    given = [parameters[i].detach().cpu() for _, first, end in biases for i in range(first, end)]
    return build("[" + ", ".join(json.dumps(form) for form, _, _ in biases) + "]", given, torch.float32)
