"""Tables that were made from_cos_sin: what PyTorch's calls are given of them, and the tables of what they are given."""

from __future__ import annotations

import atexit
import functools
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from .. import _core
from .dispatch import is_ordinary, is_transformed


def numbers_of(table: _core.RopeTable) -> tuple[Tensor, Tensor]:
    """Copies of cos and sin. They outlive a transformation of torch.func that is at work, as theirs would not."""
    outside = is_transformed() and not is_in_torch_dispatch_mode()
    cos, sin = (torch.from_dlpack(np.array(x)) if outside else torch.tensor(x) for x in (table.cos, table.sin))
    return cos, sin


# A given table's copies live as long as it does, or as who holds them, and calls that get them copy nothing back. Tensors
# of others are not looked up: what is written to them through `.data` or NumPy counts nowhere.
_copies: weakref.WeakKeyDictionary[_core.RopeTable, _Copies] = weakref.WeakKeyDictionary()
_tables: dict[tuple[Any, ...], _Given] = {}


class _Copies(NamedTuple):
    numbers: tuple[Tensor, Tensor]
    versions: tuple[int, int]


class _Given(NamedTuple):
    """The table whose copies these are."""

    cos: weakref.ref[Tensor]
    sin: weakref.ref[Tensor]
    versions: tuple[int, int]
    table: Callable[[], _core.RopeTable | None]


def given_numbers(table: _core.RopeTable) -> tuple[Tensor, Tensor]:
    """cos and sin of a table that was made from_cos_sin: copies, the same ones for each call, until they are written to."""
    found = _copies.get(table)
    if found is not None and found.versions == _versions(*found.numbers):
        return found.numbers
    with torch.inference_mode(False):  # whose tensors count no writes
        numbers = numbers_of(table)
    if _counts_writes(*numbers):
        _copies[table] = _Copies(numbers, _versions(*numbers))
        _keep(geometry_of(table), *numbers, weakref.ref(table))
    return numbers


def table_given(rope: _core.Rope, cos: Tensor, sin: Tensor) -> _core.RopeTable:
    """The table of these numbers."""
    if not _counts_writes(cos, sin):
        return _core.RopeTable.from_cos_sin(rope, cos, sin)
    found = _tables.get(_key(rope, cos, sin))
    known = found is not None and found.cos() is not None and found.sin() is not None
    if not known or found.versions != _versions(cos, sin):
        return _core.RopeTable.from_cos_sin(rope, cos, sin)
    table = found.table()
    if table is None:  # it is gone, but not its copies
        table = _core.RopeTable.from_cos_sin(rope, cos, sin)
        _keep(rope, found.cos(), found.sin(), functools.partial(_itself, table))
    return table


def _itself(table: _core.RopeTable) -> _core.RopeTable:
    return table


def _counts_writes(*tensors: Tensor) -> bool:
    return all(type(one) is Tensor and one.is_cpu and is_ordinary(one) and not one.is_inference() for one in tensors)


def _versions(cos: Tensor, sin: Tensor) -> tuple[int, int]:
    return cos._version, sin._version


def _key(rope: _core.Rope, cos: Tensor, sin: Tensor) -> tuple[Any, ...]:
    return rope, *((one.data_ptr(), one.dtype, one.shape, one.stride()) for one in (cos, sin))


def _keep(rope: _core.Rope, cos: Tensor, sin: Tensor, table: Callable[[], _core.RopeTable | None]) -> None:
    key = _key(rope, cos, sin)

    def forget(gone: weakref.ref[Tensor]) -> None:
        if key in _tables and _tables[key].cos is gone:
            del _tables[key]

    _tables[key] = _Given(weakref.ref(cos, forget), weakref.ref(sin), _versions(cos, sin), table)


def geometry_of(table: _core.RopeTable) -> _core.Rope:
    """Which elements of a head it turns, as from_cos_sin takes it."""
    of = table.frequencies
    part = _core.RotaryPart(where="window", begin=of.begin)
    axes = _core.RopeAxes.listed(of.axis) if of.axes > 1 else _core.RopeAxes()
    if of.blocks:  # of each axis one, and one of pairs that stand still
        turning, still = of.blocks[: of.axes], sum(of.blocks[of.axes :])
        axes = _core.RopeAxes.blocks(turning).replace(still=still)
    return _core.Rope(head_dim=of.head_dim, rotary_dim=of.rotary_dim, pairing=of.pairing, part=part, axes=axes)


# Nothing of the extension outlives the interpreter.
atexit.register(_tables.clear)
atexit.register(_copies.clear)
