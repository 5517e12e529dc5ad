"""What kernels need to know of a table, as numbers on the device: made once for each table and device."""

from __future__ import annotations

import itertools
import json
import struct
from fractions import Fraction

import torch
from torch import Tensor

from ... import _core
from ..encoding import FIXED_POINT, spec_of_table, table_of
from ..given_tables import numbers_of
from .device import for_good, kept
from .launch import Geometry


@kept(64)
def geometry(form: str, device: torch.device, wide: bool = False) -> Geometry:
    """The geometry of a table's text. wide: for arithmetic in float64, which fixed point does not serve."""
    return geometry_of(frequencies_of(form), device, angles_of(form, wide))


@kept(64)
def geometry_of_given(form: str, device: torch.device) -> Geometry:
    """The geometry of the text of a table whose cosines and sines are given."""
    return geometry_of(_core.resolve(spec_of_table(form)), device)


@kept(64)
def kept_rows(form: str, device: torch.device, wide: bool) -> tuple[Tensor, Tensor] | None:
    """cos and sin [1, rows, pairs] of the rows that a table keeps, as the library has them on the CPU; None if it keeps
    none."""
    table = table_of(form, torch.float64 if wide else torch.float32)
    if not table.length or table.memory != "full" or angles_of(form, wide):
        return None
    cos, sin = for_good(lambda: [n[None] for n in numbers_of(table)], device)
    return cos, sin


def frequencies_of(form: str) -> _core.RopeFrequencies:
    """The frequencies of a table's text."""
    return table_of(form, torch.float32).frequencies


def angles_of(form: str, wide: bool) -> str:
    """FIXED_POINT where a table's text asks for that; nothing where the angles are those of its frequencies."""
    return FIXED_POINT if not wide and json.loads(form).get("angles") == FIXED_POINT else ""


def geometry_of(
    f: _core.RopeFrequencies, device: torch.device, angles: str = "", factor: float | None = None
) -> Geometry:
    """The geometry of frequencies. angles and factor: those of the frequencies if they are left out."""
    pairs, factor = f.rotary_dim // 2, factor_of(f) if factor is None else factor

    def numbers() -> list[Tensor]:
        turns = _fixed(f, factor) if angles == FIXED_POINT else _doubles(f, factor)
        return [turns, *(torch.tensor(n, dtype=torch.int32) for n in (f.axis, _places(pairs, f.blocks or (pairs,))))]

    return Geometry(
        f.head_dim,
        pairs,
        f.begin,
        "places" if f.blocks and f.pairing == "half" else f.pairing,
        angles or f.angles,
        f.axes,
        *for_good(numbers, device),
    )


def factor_of(f: _core.RopeFrequencies) -> float:
    """The attention factor, as what multiplies cosines has it."""
    single = struct.unpack("f", struct.pack("f", f.attention_factor))[0]
    return single if f.angles == "as_float32" else f.attention_factor


def members_of(f: _core.RopeFrequencies) -> tuple[list[float], list[float]]:
    """Frequencies in radians, and in quarter turns as three doubles, which only the pickled form holds in full."""
    members = f.__reduce__()[1]
    return list(members[8]), list(members[12])


def _doubles(f: _core.RopeFrequencies, factor: float) -> Tensor:
    """Quarter turns per token as three doubles; then the factor."""
    inv_freq, quarter_turns = members_of(f)
    if f.angles == "as_float32":  # the kernel takes the frequency itself, and no rest of it
        quarter_turns = [*inv_freq, *[0.0] * (2 * len(inv_freq))]
    return torch.tensor([*quarter_turns, factor], dtype=torch.float64)


def _fixed(f: _core.RopeFrequencies, factor: float) -> Tensor:
    """Turns per token in words of 32 bits: 96 bits of the fraction, the lowest first, and whole turns; then the factor
    as the sum of two of float32."""
    parts = [Fraction(t) for t in members_of(f)[1]]
    pairs = len(parts) // 3
    turns = [round(sum(parts[i::pairs]) / 4 * 2**96) for i in range(pairs)]
    words = torch.tensor([t >> (32 * word) & 0xFFFFFFFF for word in range(4) for t in turns])
    single = torch.tensor(factor, dtype=torch.float32).item()
    factors = torch.tensor([single, factor - single], dtype=torch.float32)
    return torch.cat([words.to(torch.int32), factors.view(torch.int32)])


def _places(pairs: int, blocks: tuple[int, ...]) -> list[int]:
    """Blocks of pairs, each of which halves its own elements."""
    begins = [0, *itertools.accumulate(2 * count for count in blocks)]
    first = [begin + i for begin, count in zip(begins, blocks, strict=False) for i in range(count)]
    second = [begin + count + i for begin, count in zip(begins, blocks, strict=False) for i in range(count)]
    return first + second
