"""What a launch follows from beside the numbers in its tensors: made once for calls whose tensors agree in type, extents and
strides, from tensors without numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .geometry import kept_rows
from .launch import Geometry, Source
from .positions import check_range, spread

OfTensor = tuple[Sequence[int], Sequence[int], torch.dtype, torch.device]  # extents, strides, type and device


def kind_of(x: Tensor) -> OfTensor:
    """What a launch depends on of a tensor."""
    return x.shape, x.stride(), x.dtype, x.device


def kinds_of(xs: Sequence[Tensor]) -> tuple[OfTensor, ...]:
    """Of several."""
    return tuple([kind_of(x) for x in xs])


def template(kind: OfTensor) -> Tensor:
    """Such a tensor without numbers."""
    return torch.empty_strided(kind[0], kind[1], dtype=kind[2], device="meta")


def new(kind: OfTensor) -> Tensor:
    """Such a tensor, whose numbers are to be written."""
    return torch.empty_strided(kind[0], kind[1], dtype=kind[2], device=kind[3])


class Ways(NamedTuple):
    """The launches of calls that look rows of a table up, and of those that compute their cosines."""

    time: int
    rows: int  # that the table keeps
    looked_up: Any
    computed: Any

    def of(self, function: str, at: Tensor | None, first: int) -> Any:
        """That of a call with positions on the device, or counted from the first. Raises RangeError for what is too far."""
        if at is None:
            check_range(function, "positions", first, self.time)
            return self.looked_up if 0 <= first <= self.rows - self.time else self.computed
        return self.looked_up if self.rows else self.computed


def ways(
    function: str,
    table: str,
    shape: Geometry,
    at: Tensor | None,
    device: torch.device,
    wide: bool,
    sizes: Sequence[int],
    make: Callable[[Source], Any],
) -> Ways:
    """at: positions like a call's; sizes: batch and time; make: a launch by its source of cosines."""
    there = None if at is None else spread(function, "positions", at, shape.axes, sizes)
    cos, sin = kept_rows(table, device, wide) or (None, None)
    rows = 0 if cos is None else cos.shape[1]
    # Where positions are on the device, the kernel sees which of them have rows.
    name = "table" if at is None and rows else shape.angles
    looked_up, computed = make(Source(name, there, cos=cos, sin=sin)), make(Source(shape.angles, there))
    return Ways(sizes[1], rows, looked_up, computed)
