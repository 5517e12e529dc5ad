"""One bias as numbers by head and distance, and its gradients, without waiting for the device.

The library makes what no parameter changes, once: the bias itself, or which row of a table a distance picks, or what a
head's parameter is multiplied by. That is kept on the device. The rest is a few of PyTorch's own operations there.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ... import _core
from ..encoding import build, traits_of
from ..index_map import HOST
from ..layers import by_distance, proportional
from .counts import power_of_2
from .device import for_good, kept

# What may be kept at once of an encoding: 64 MiB. More is made again for each call.
MOST_KEPT = 2**24
# How far a number may lie from a line, of the larger one of its two outermost numbers: what rounding makes of a line.
NEAR = 2.0**-22
# Numbers on each side that kernels may read: a tile may go past the last distance that anybody sees, by less than its rows and
# its columns.
BESIDE = 2 * 64
PIECE = 64  # so many numbers are added up in a row


class Distances(NamedTuple):
    """Distances least, least + 1, …: `count` of them."""

    least: int
    count: int


def numbers(form: dict[str, Any], parameters: Sequence[Tensor], heads: int, at: Distances, device: Any) -> Tensor:
    """float32 [heads, distances] on the device."""
    text = json.dumps(form)
    given = [t.to(device) for t in parameters]
    how = _how(form, [t.shape for t in given], heads)
    if how == "fixed":
        return _kept(_fixed, heads, text, (heads,), at, device).contiguous()
    if how == "picked":
        table = torch.nn.functional.pad(given[0].float(), (0, 0, 1, 0))  # row 0 is that of distances that pick none
        return table.t().index_select(1, _kept(_rows, 1, text, given[0].shape, at, device))
    if how == "proportional":
        return given[0].float()[:, None] * _kept(_unit, 1, text, (), at, device)
    if how == "formula":
        found = by_distance()[form["kind"]].numbers(form.get("spec"), given, _counted(at, device))
        return found.float()
    return _by_library([form], [t.cpu() for t in given], heads, at).to(device)


def padded(bias: Tensor) -> Tensor:
    """The same numbers [heads, distances], with BESIDE more on each side. The stride is a multiple of 16: Triton compiles anew for others."""
    count = bias.shape[1]
    return torch.nn.functional.pad(bias, (BESIDE, BESIDE + -count % 16))[:, BESIDE : BESIDE + count]


class Parts(NamedTuple):
    """A bias as kernels read it. "numbers": bias [heads, distances], no factors; "proportional": bias [distances] times factors
    [heads]; "picked": factors [rows, heads] at the rows bias [distances], counted from 1, and nothing at row 0."""

    bias: Tensor | None
    factors: Tensor | None
    form: str


def parts_of(
    encodings: str, parameters: Sequence[Tensor], heads: int, at: Distances, device: torch.device
) -> Parts | None:
    """The only bias of a call's encodings, with its own parameters, without an operation on the device, and with BESIDE numbers
    more on each side; None where it needs one."""
    how, text, shape = _route(encodings, tuple([t.shape for t in parameters]), heads)
    if how not in _MADE:
        return None
    wide, first = _wider(Distances(at.least - BESIDE, at.count + 2 * BESIDE))
    if heads * wide.count > MOST_KEPT:
        return None
    numbers = _on_device(_MADE[how], text, shape, wide, device)[..., first + BESIDE : first + BESIDE + at.count]
    if how == "fixed":
        return Parts(numbers, None, "numbers")
    factors = parameters[0].to(device)
    return Parts(numbers, factors if factors.stride(-1) == 1 else factors.contiguous(), how)


@functools.lru_cache(maxsize=256)
def _route(encodings: str, shapes: tuple[torch.Size, ...], heads: int) -> tuple[str, str, tuple[int, ...]]:
    """How the only bias among encodings is made, its text, and the shape that what is kept of it goes by."""
    (form,) = (form for form in json.loads(encodings) if traits_of(form["kind"])["form"] == "distance")
    how = _how(form, shapes, heads)
    return how, json.dumps(form), {"fixed": (heads,), "picked": tuple(shapes[0]) if shapes else ()}.get(how, ())


def are_straight(form: dict[str, Any], parameters: Sequence[Tensor], heads: int, at: Distances) -> bool:
    """Whether the numbers are known to lie on a line, whatever the parameters are."""
    how = _how(form, [t.shape for t in parameters], heads)
    return how in ("fixed", "proportional") and _straight(how, json.dumps(form), heads, at)


@functools.lru_cache(maxsize=4096)
def _straight(how: str, text: str, heads: int, at: Distances) -> bool:
    return is_straight(_fixed(text, (heads,), at) if how == "fixed" else _unit(text, (), at))


def is_straight(numbers: Tensor) -> bool:
    """Whether a bias on the CPU, [..., distances], is a line from end to end."""
    first, last = numbers[..., :1].double(), numbers[..., -1:].double()
    way = torch.linspace(0, 1, numbers.shape[-1], dtype=torch.float64, device=HOST)
    return bool(
        ((numbers - (first + (last - first) * way)).abs() <= NEAR * torch.maximum(first.abs(), last.abs())).all()
    )


def gradients(form: dict[str, Any], parameters: Sequence[Tensor], d_numbers: Tensor, at: Distances) -> list[Tensor]:
    """Those of the parameters, of d_numbers [heads, distances]. Sums are float64, in an order that follows from shapes."""
    text, device = json.dumps(form), d_numbers.device
    given = [t.to(device) for t in parameters]
    how = _how(form, [t.shape for t in given], d_numbers.shape[0])
    d = d_numbers.double()
    if how == "fixed":
        found = []
    elif how == "picked":
        wide, first = _wider(at)
        d = torch.nn.functional.pad(d, (first, wide.count - first - at.count))
        found = [_sums_of_rows(d, *_pieces(text, given[0].shape, wide, device)).t()]
    elif how == "proportional":
        found = [(d * _kept(_unit, 1, text, (), at, device)).sum(-1)]
    elif how == "formula":
        formula = by_distance()[form["kind"]]
        found = formula.gradients(form.get("spec"), given, _counted(at, device), d)
    else:
        built = build(f"[{text}]", [t.cpu() for t in given], torch.float32)
        *_, (one,) = _core.add_scores_backward(built, d_numbers.cpu()[None, :, None].contiguous(), 0, at.least)
        found = [one[name] for name in form["tensors"]]
    return [
        one.to(device=t.device, dtype=t.dtype, copy=False).contiguous()
        for one, t in zip(found, parameters, strict=True)
    ]


def _how(form: dict[str, Any], shapes: Sequence[torch.Size], heads: int) -> str:
    """How the numbers are made. What the library would refuse goes to the library, which says why."""
    traits = traits_of(form["kind"])["parameters"]
    if not shapes:
        return "fixed"
    if len(shapes) == 1 and traits[form["tensors"][0]]["picked"]:
        return "picked" if _fits(form, shapes[0], heads) else "library"
    if any(list(shape) != [heads] for shape in shapes):
        return "library"
    if form["kind"] in proportional():
        return "proportional"
    return "formula" if form["kind"] in by_distance() else "library"


def _fits(form: dict[str, Any], shape: Sequence[int], heads: int) -> bool:
    rows = (form.get("spec") or {}).get("buckets")
    return len(shape) == 2 and shape[1] == heads and rows in (None, shape[0])


def _counted(at: Distances, device: Any) -> Tensor:
    return torch.arange(at.least, at.least + at.count, device=device).double()


# What is kept.


def _kept(
    make: Callable[..., Tensor], heads: int, text: str, shape: Sequence[int], at: Distances, device: Any
) -> Tensor:
    """Numbers of these distances on the device, out of those of more distances: where a cache grows token by token, one
    table serves many calls."""
    wide, first = _wider(at)
    if heads * wide.count > MOST_KEPT:
        return make(text, tuple(shape), at).to(device)
    return _on_device(make, text, tuple(shape), wide, device)[..., first : first + at.count]


def _wider(at: Distances) -> tuple[Distances, int]:
    """The distances around these that are made at once, at most three times as many; and the place of the first of these."""
    size = max(256, power_of_2(at.count))
    least = at.least // size * size
    return Distances(least, -(-(at.least + at.count - least) // size) * size), at.least - least


@kept(64)
def _on_device(
    make: Callable[..., Tensor], text: str, shape: tuple[int, ...], at: Distances, device: torch.device
) -> Tensor:
    return for_good(lambda: (make(text, shape, at),), device)[0]


def _fixed(text: str, shape: tuple[int, ...], at: Distances) -> Tensor:
    """The bias of an encoding without parameters, [heads, distances]."""
    return _by_library([json.loads(text)], [], shape[0], at)


def _unit(text: str, shape: tuple[int, ...], at: Distances) -> Tensor:
    """The bias at a parameter of 1, [distances]."""
    return _by_library([json.loads(text)], [torch.ones(1, dtype=torch.float32, device=HOST)], 1, at)[0]


def _rows(text: str, shape: tuple[int, ...], at: Distances) -> Tensor:
    """Which row of a table each distance picks, from 1 on; 0: none. The rows' numbers tell."""
    told = torch.arange(1, shape[0] + 1, dtype=torch.float32, device=HOST)[:, None]
    return _by_library([json.loads(text)], [told], 1, at)[0].to(torch.int64)


def _by_library(forms: Sequence[dict[str, Any]], given: Sequence[Tensor], heads: int, at: Distances) -> Tensor:
    """float32 [heads, distances] on the CPU."""
    table = torch.zeros(1, heads, 1, at.count, dtype=torch.float32, device=HOST)
    threads = torch.get_num_threads()
    _core.add_scores(build(json.dumps(list(forms)), given, torch.float32), table, 0, at.least, threads=threads)
    return table[0, :, 0]


_MADE = {"fixed": _fixed, "picked": _rows, "proportional": _unit}


# Sums of what picked the same row, in one order.


@kept(64)
def _pieces(text: str, shape: torch.Size, at: Distances, device: torch.device) -> tuple[Tensor, Tensor]:
    """Distances that pick one row, in pieces [pieces, PIECE], and the pieces of each row [rows, most of any row]. What is
    left of a line names the zero behind the last number."""
    pieces, of_rows = for_good(lambda: _cut(_rows(text, tuple(shape), at), shape[0], at.count), device)
    return pieces, of_rows


def _cut(rows: Tensor, count: int, behind: int) -> tuple[Tensor, Tensor]:
    parts: list[Tensor] = []
    of_rows: list[Tensor] = []
    for row in range(1, count + 1):
        mine = (rows == row).nonzero().flatten()
        found = mine.split(PIECE) if len(mine) else ()
        of_rows.append(torch.arange(len(parts), len(parts) + len(found), device=HOST))
        parts.extend(found)
    if not parts:
        parts = [torch.full((1,), behind, device=HOST)]
    pieces = pad_sequence(parts, batch_first=True, padding_value=behind)
    return pieces, pad_sequence(of_rows, batch_first=True, padding_value=len(parts))


def _sums_of_rows(d: Tensor, pieces: Tensor, of_rows: Tensor) -> Tensor:
    """[heads, rows], of d [heads, distances]."""
    behind = torch.nn.functional.pad
    return behind(behind(d, (0, 1))[:, pieces].sum(-1), (0, 1))[:, of_rows].sum(-1)
