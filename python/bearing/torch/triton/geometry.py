"""What kernels need to know of a table, as numbers on the device: made once for each table and device."""

from __future__ import annotations

import functools
import itertools

import torch

from ... import _core
from ..encoding import table_of
from .launch import Geometry


@functools.lru_cache(maxsize=64)
def geometry(form: str, device: torch.device) -> Geometry:
    """The geometry of a table's text."""
    return geometry_of(table_of(form, torch.float32).frequencies, device)


def geometry_of(frequencies: _core.RopeFrequencies, device: torch.device) -> Geometry:
    """The geometry of frequencies."""
    f = frequencies
    inv_freq, quarter_turns = members_of(f)
    pairs, factor = f.rotary_dim // 2, f.attention_factor
    if f.angles == "as_float32":  # the kernel takes the frequency itself, and no rest of it
        quarter_turns = [*inv_freq, *[0.0] * (2 * pairs)]
        factor = torch.tensor(factor, dtype=torch.float32).item()
    return Geometry(
        f.head_dim,
        pairs,
        f.begin,
        "places" if f.blocks and f.pairing == "half" else f.pairing,
        f.angles == "as_float32",
        f.axes,
        torch.tensor([*quarter_turns, factor], dtype=torch.float64, device=device),
        torch.tensor(f.axis, dtype=torch.int32, device=device),
        torch.tensor(_places(pairs, f.blocks or (pairs,)), dtype=torch.int32, device=device),
    )


def members_of(f: _core.RopeFrequencies) -> tuple[list[float], list[float]]:
    """Frequencies in radians, and in quarter turns as three doubles, which only the pickled form holds in full."""
    members = f.__reduce__()[1]
    return list(members[8]), list(members[12])


def _places(pairs: int, blocks: tuple[int, ...]) -> list[int]:
    """Blocks of pairs, each of which halves its own elements."""
    begins = [0, *itertools.accumulate(2 * count for count in blocks)]
    first = [begin + i for begin, count in zip(begins, blocks, strict=False) for i in range(count)]
    second = [begin + count + i for begin, count in zip(begins, blocks, strict=False) for i in range(count)]
    return first + second
