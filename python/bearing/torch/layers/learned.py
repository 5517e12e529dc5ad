"""Tables of learned positions at another length or grid, with gradients."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ... import _core

__all__ = ["resize", "resize_grid"]

How = Literal["linear", "cubic"]


def resize(
    table: Tensor,
    rows: int,
    *,
    how: How,
    prefix: int = 0,
    suffix: int = 0,
    align_corners: bool = False,
    antialias: bool = False,
) -> Tensor:
    """Resizes a table [rows, dim] of positions to another length, as :func:`bearing.resize`; the table gets gradients.

    table [rows, dim]: of any float type, on any device; the result is of that type, there.
    rows: how many rows the result has, with prefix and suffix.
    how: 'linear' or 'cubic'.
    prefix, suffix: how many rows at the start and at the end stay as they are, such as that of a class token.
    align_corners: whether the first and the last row stay in place; otherwise rows are middles of equal parts.
    antialias: whether a shorter table is made of all rows, as the mean of what lies around.

    Sums are taken in float64. Raises what :func:`bearing.resize` raises, and TypeError for what is no tensor.
    """
    options = {"how": how, "align_corners": align_corners, "antialias": antialias}
    _check_table("resize", table)
    _core.resize(_columns(table), rows, prefix=prefix, suffix=suffix, **options)  # refuses what cannot be
    return _joined(table, prefix, suffix, lambda part: _resampled(part, rows - prefix - suffix, options))


def resize_grid(
    table: Tensor,
    from_grid: tuple[int, int],
    to_grid: tuple[int, int],
    *,
    how: How,
    prefix: int = 0,
    suffix: int = 0,
    align_corners: bool = False,
    antialias: bool = False,
) -> Tensor:
    """Resizes the table of a grid's patches, as :func:`bearing.resize_grid`; the table gets gradients.

    table [prefix + height width + suffix, dim]: patches row by row, of any float type, on any device; the result is of that
        type, there.
    from_grid: the (height, width) of the table.
    to_grid: the (height, width) of the result.
    how, prefix, suffix, align_corners, antialias: as :func:`resize` takes them.

    Sums are taken in float64. Raises what :func:`bearing.resize_grid` raises, and TypeError for what is no tensor.
    """
    options = {"how": how, "align_corners": align_corners, "antialias": antialias}
    _check_table("resize_grid", table)
    _core.resize_grid(_columns(table), from_grid, to_grid, prefix=prefix, suffix=suffix, **options)

    def resized(part: Tensor) -> Tensor:
        grid = part.unflatten(0, tuple(from_grid)).transpose(0, 1)
        across = _resampled(grid, to_grid[1], options).transpose(0, 1)
        return _resampled(across, to_grid[0], options).flatten(0, 1)

    return _joined(table, prefix, suffix, resized)


def _check_table(function: str, table: Any) -> None:
    if not isinstance(table, Tensor):
        raise TypeError(f"[{function}] table: must be a PyTorch tensor, got {type(table).__name__}")
    if table.ndim != 2 or not table.is_floating_point():
        wanted = f"[{function}] table: must have 2 axes of floating-point numbers"
        raise _core.ShapeError(f"{wanted}, got {table.dtype} of shape {list(table.shape)}")


def _columns(table: Tensor) -> np.ndarray:
    """A table of as many rows, with one column, for the library to check the rows."""
    return np.zeros((len(table), 1), np.float32)


def _resampled(rows: Tensor, to: int, options: dict[str, Any]) -> Tensor:
    """Rows [from, …] at another length: each new row is a sum of some, so that what is not finite stays near its place."""
    index, weight = (torch.from_numpy(x).to(rows.device) for x in _taps(len(rows), to, options))
    padded = torch.cat([rows, torch.zeros_like(rows[:1])])
    total = rows.new_zeros(to, *rows.shape[1:])
    for at, of in zip(index, weight, strict=True):
        total = torch.addcmul(total, of.view(-1, *[1] * (rows.dim() - 1)), padded[at])
    return total


def _taps(before: int, rows: int, options: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Indices and weights [taps, rows] of the rows that each new row is made of; index `before` is of a row of zeros.

    They are a run of neighbours, of which the library's own numbers tell: it resizes tables with a column for every
    residue of the rows' index. As soon as there are more residues than a run has rows, a residue names one row of it.
    """
    residues = 8
    while (reached := np.isnan(_probe(before, rows, residues, options, np.nan))).all(1).any():
        residues *= 2
    weight = _probe(before, rows, residues, options, 1.0)
    new, heaviest = np.arange(rows), np.abs(weight).argmax(1)
    place = _probe(before, rows, residues, options, np.arange(before, dtype=np.float64)[:, None])
    heaviest_row = np.rint(place[new, heaviest] / weight[new, heaviest]).astype(np.int64)
    first = (reached & ~np.roll(reached, 1, axis=1)).argmax(1)
    first_row, count = heaviest_row - (heaviest - first) % residues, reached.sum(1)
    taps = np.arange(count.max(initial=0))[:, None]
    index = np.where(taps < count, first_row + taps, before)
    return index, np.where(taps < count, weight[new, (first + taps) % residues], 0.0)


def _probe(before: int, rows: int, residues: int, options: dict[str, Any], number: float | np.ndarray) -> np.ndarray:
    """What the library makes [rows, residues] of a table that has a number where a row's index has the column's residue,
    else 0. It gets some columns at a time."""
    residue = np.arange(before)[:, None] % residues
    columns = (range(first, min(first + 64, residues)) for first in range(0, residues, 64))
    tables = (np.where(residue == np.array(some), number, 0.0) for some in columns)
    return np.concatenate([_core.resize(table, rows, **options) for table in tables], axis=1)


def _joined(table: Tensor, prefix: int, suffix: int, resized: Any) -> Tensor:
    end = len(table) - suffix
    middle = resized(table[prefix:end].double()).to(table.dtype)
    return torch.cat([table[:prefix], middle, table[end:]])
