"""Rows that attention picks by distance: every table of a call laid out by distance on the device, and their gradients taken
back to the tables. The library says which row a distance has."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..encoding import traits_of
from ..index_map import HOST, products_of, rows_at, shapes_of, value_rows
from .bias_numbers import PIECE
from .device import for_good, kept_within
from .distances import Distances

SIDES = ("query", "key", "value", "mixed")  # what rows are multiplied with, or added to
MOST_KEPT = 2**26  # bytes of the rows of distances of all calls
Placed = tuple[dict, int, int]  # a form, and the place of its tensors in the call: first and end


class View(NamedTuple):
    """A part of a parameter: [heads or 1, rows, dim], or [heads, dim]."""

    place: int
    first: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def of(self, tensors: Sequence[Tensor]) -> Tensor:
        return tensors[self.place].contiguous().as_strided(self.shape, self.strides, self.first)

    def add_to(self, grads: dict[int, Tensor], like: Sequence[Tensor], rows: Tensor | None, found: Tensor) -> None:
        """Adds what belongs to these rows, or to the whole, to the gradient of the parameter."""
        whole = grads.setdefault(self.place, torch.zeros_like(like[self.place], memory_format=torch.contiguous_format))
        part = whole.as_strided(self.shape, self.strides, self.first)
        if self.shape[0] == 1 and found.shape[0] > 1:
            found = found.sum(0, keepdim=True)
        if rows is None:
            part += found.to(part.dtype)
        else:
            part[:, rows] += found.to(part.dtype)  # each row is named once


class Rows(NamedTuple):
    """The row of each distance, on the device: what a call needs without waiting for it.

    Rows rise or fall with the distance, so the distances of one row stand side by side.
    """

    of: Tensor  # int64 [distances]; -1: none
    pieces: Tensor  # lengths of the pieces that the runs of distances with one row are cut into
    counts: Tensor  # how many pieces each run has
    runs: Tensor  # the runs that have a row
    named: Tensor  # and which

    @staticmethod
    def on(device: torch.device, rows: Tensor) -> Rows:
        """Kept over calls."""

        def made() -> tuple[Tensor, ...]:
            of = rows.clone()  # on this thread
            named, lengths = torch.unique_consecutive(of, return_counts=True)
            runs = (named >= 0).nonzero()[:, 0]
            counts = -(-lengths // PIECE)
            pieces = torch.full((int(counts.sum()),), PIECE, device=HOST)
            pieces[counts.cumsum(0) - 1] = lengths - (counts - 1) * PIECE  # the last one of each run
            return of, pieces, counts, runs, named[runs]

        return Rows(*for_good(made, device))

    def sums(self, x: Tensor) -> Tensor:
        """Of x float32 [heads, distances, dim] over the distances of each row that is named: float64 [heads, rows, dim], in one
        order. Pieces are summed beside each other, as one run may be nearly all distances."""
        x = x.transpose(0, 1).to(torch.float64, memory_format=torch.contiguous_format)  # in one copy
        for lengths in (self.pieces, self.counts):
            x = torch.segment_reduce(x, "sum", lengths=lengths, axis=0, unsafe=True)
        return x.transpose(0, 1)[:, self.runs]


class Product(NamedTuple):
    """A table, what its rows are multiplied with, and the row of each distance."""

    side: str
    table: View
    shift: View | None
    rows: Rows
    first: int = 0  # the column of the side's rows at which these begin


def unserved(form: dict[str, Any], tensors: Sequence[Tensor]) -> str:
    """Why the kernels do not take an encoding of the form rows_by_index; nothing if they do."""
    for one in products_of(json.dumps(form), shapes_of(tensors)):
        if one["q_segments"] is not None:
            return "picks rows by segments"
        if one["axis"] or not one["scaled"]:
            return "picks rows by several axes, or outside the softmax scale"
    return ""


def products(
    placed: Iterable[Placed], parameters: Sequence[Tensor], at: Distances, device: torch.device
) -> list[Product]:
    """All products of a call."""
    found = []
    for form, first, end in placed:
        own = parameters[first:end]
        found += _products(json.dumps(form), shapes_of(own), first, at.least, at.count, device)
    return found


@kept_within(MOST_KEPT)
def _products(form: str, shapes: Any, first: int, least: int, count: int, device: torch.device) -> tuple[Product, ...]:
    names, parameters = json.loads(form)["tensors"], traits_of(json.loads(form)["kind"])["parameters"]

    def view(at: Any) -> View | None:
        return None if at is None else View(first + names.index(at[0]), *at[1:])

    distances = torch.arange(least, least + count, device=HOST)
    found: list[Product] = []
    for one in products_of(form, shapes):
        side = "key" if one["of_key"] else "query"
        rows = Rows.on(device, rows_at(one, distances))
        found.append(Product(side, view(one["table"]), view(one["shift"]), rows))
    for place, (name, (shape, _)) in enumerate(zip(names, shapes, strict=True), first):
        if "value_dim" in parameters[name]["extents"]:
            shape = (1,) * (3 - len(shape)) + shape
            whole = View(place, 0, shape, (shape[1] * shape[2], shape[2], 1))
            rows = Rows.on(device, value_rows(form, name, shapes, least, count))
            found.append(Product("value", whole, None, rows))
    return tuple(found)


class Tables(NamedTuple):
    """What kernels get: rows by distance of each side, [heads or 1, distances, dim] or None, and a bias by distance that the
    shifts of queries and keys make, float32 [heads, distances] or None."""

    sides: tuple[Tensor | None, ...]
    bias: Tensor | None


def _by_distance(one: Product, parameters: Sequence[Tensor]) -> Tensor:
    table = one.table.of(parameters)
    rows = one.rows.of
    return torch.where((rows >= 0)[:, None], table[:, rows.clamp(min=0)], 0)


def _joined(x: Tensor, y: Tensor, side: str) -> Tensor:
    """Rows of one side from two products: added up where one operand serves both, else side by side."""
    if side != "mixed":
        return x + y
    heads = max(x.shape[0], y.shape[0])
    return torch.cat([x.expand(heads, -1, -1), y.expand(heads, -1, -1)], -1)


def tables(
    found: Sequence[Product], parameters: Sequence[Tensor], heads: int, scale: float, dtype: torch.dtype
) -> Tables:
    """They are rounded to the type of the rows once, after those of one side were added up."""
    sides: dict[str, Tensor] = {}
    bias = None
    for one in found:
        rows = _by_distance(one, parameters)
        sides[one.side] = _joined(sides[one.side], rows, one.side) if one.side in sides else rows
        if one.shift is not None:
            # scale · (x + shift) · row: the second part is a number for each head and distance.
            # No product of matrices: autocast would take 16 bits for it, and cuBLAS other bits with other settings.
            added = scale * (rows * one.shift.of(parameters)[:, None]).sum(-1).expand(heads, -1)
            bias = added if bias is None else bias + added
    return Tables(tuple(sides[s].to(dtype).contiguous() if s in sides else None for s in SIDES), bias)


def gradients(
    found: Sequence[Product],
    parameters: Sequence[Tensor],
    scale: float,
    d_tables: dict[str, Tensor],
    d_bias: Tensor | None,
) -> dict[int, Tensor]:
    """Those of the parameters, by their places in the call.

    d_tables: by side, what operands and gradients of products give for each distance: float32 [heads or 1, distances, dim].
    d_bias: the gradients of scores by distance, [heads, distances], where there are shifts.
    """
    grads: dict[int, Tensor] = {}
    for one in found:
        last = one.first + one.table.shape[2]
        d_rows = d_tables[one.side][..., one.first : last] * (scale if one.side in SIDES[:2] else 1.0)
        if one.shift is not None:
            shift, by_distance = one.shift.of(parameters), _by_distance(one, parameters)
            d_rows = d_rows + scale * d_bias[:, :, None] * shift[:, None]
            d_shift = scale * (d_bias[:, :, None] * by_distance).sum(1, dtype=torch.float64)
            one.shift.add_to(grads, parameters, None, d_shift)
        one.table.add_to(grads, parameters, one.rows.named, one.rows.sums(d_rows))
    return grads
