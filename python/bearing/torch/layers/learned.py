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

    Takes a table of any float type on any device, and returns one of that type there. Sums are taken in float64.
    """
    options = {"how": how, "align_corners": align_corners, "antialias": antialias}
    _check_table("resize", table)
    _core.resize(_columns(table), rows, prefix=prefix, suffix=suffix, **options)  # refuses what cannot be
    return _joined(table, prefix, suffix, lambda part: _weights(part, rows - prefix - suffix, options) @ part)


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

    The table is [prefix + height width + suffix, dim], patches row by row, and grids are (height, width). It may have any
    float type, on any device, and the result has its type. Sums are taken in float64.
    """
    options = {"how": how, "align_corners": align_corners, "antialias": antialias}
    _check_table("resize_grid", table)
    _core.resize_grid(_columns(table), from_grid, to_grid, prefix=prefix, suffix=suffix, **options)

    def resized(part: Tensor) -> Tensor:
        grid = part.unflatten(0, tuple(from_grid))
        down, across = _weights(grid, to_grid[0], options), _weights(grid[0], to_grid[1], options)
        return torch.einsum("yh,xw,hwd->yxd", down, across, grid).flatten(0, 1)

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


def _weights(part: Tensor, rows: int, options: dict[str, Any]) -> Tensor:
    """The rows that each of ``rows`` is made of: what the library makes of a table that tells its rows apart."""
    return torch.from_numpy(_core.resize(np.eye(len(part)), rows, **options)).to(part.device)


def _joined(table: Tensor, prefix: int, suffix: int, resized: Any) -> Tensor:
    end = len(table) - suffix
    middle = resized(table[prefix:end].double()).to(table.dtype)
    return torch.cat([table[:prefix], middle, table[end:]])
