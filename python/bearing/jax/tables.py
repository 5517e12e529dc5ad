"""Rotary tables by their numbers: of those that are equal, compiled programs keep one."""

from __future__ import annotations

import functools
import hashlib
import sys
from typing import Any

import jax
import numpy as np

from .. import _core

KINDS = (_core.RopeTable, _core.XposTable)


class HeldTable:
    """A table with its text, which is the same for the same numbers in any process. Tables compare by identity, this by
    the text.
    """

    __slots__ = ("rotates", "table", "text")

    def __init__(self, table: Any, text: str) -> None:
        self.table = table
        self.text = text
        self.rotates = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HeldTable) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return repr(self.table)


# What stands for the numbers of tables in use, so that each is read once.
_seen: dict[Any, HeldTable] = {}
# By text. Compiled programs name these for as long as the process lives.
_kept: dict[str, HeldTable] = {}


def register() -> None:
    """Makes tables pytrees without leaves, whose structures are equal where their numbers are."""
    for kind in KINDS:
        jax.tree_util.register_pytree_node(kind, parts, whole)


@functools.cache
def table_of(rope: _core.Rope, dtype: str) -> _core.RopeTable:
    """What a Rope whose frequencies are the same at every length stands for: its table of 2,048 rows. Other rows are
    computed when they are needed.
    """
    return _core.RopeTable(rope, 2048, dtype=dtype)  # type: ignore[arg-type]


def parts(table: Any) -> tuple[tuple[()], HeldTable]:
    return (), held(table)


def whole(one: HeldTable, _: Any) -> Any:
    return one.table


def held(table: Any) -> HeldTable:
    """What stands for a table's numbers: with the table that is kept, or else the one that had them first."""
    one = _seen.get(table)
    if one is None:
        _forget()
        own = HeldTable(table, _text(table))
        one = _seen[table] = _kept.get(own.text, own)
    return one


def keep(one: HeldTable) -> HeldTable:
    """Keeps a table for compiled programs. Returns the one that is kept for its numbers."""
    return _kept.setdefault(one.text, one)


def table_text(table: _core.RopeTable) -> str:
    """The text of a table, registered for rotations."""
    one = held(table)
    if not one.rotates:
        _core._jax_add_table(one.text, keep(one).table)
        one.rotates = True
    return one.text


def _forget() -> None:
    """Lets go of tables that nobody else has. They have no weak references, so that references are counted; one that
    goes too early is read again.
    """
    for table, one, references in _counted(_seen):
        if references <= _ALONE + (one.table is table):
            _seen.pop(table, None)  # another thread may have


def _counted(seen: dict[Any, HeldTable]) -> list[tuple[Any, HeldTable, int]]:
    return [(*pair, sys.getrefcount(pair[0])) for pair in list(seen.items())]


_ALONE = _counted({object(): HeldTable(None, "")})[0][2]


def _text(table: Any) -> str:
    if isinstance(table, _core.XposTable):
        return f"XposTable:{_digest(table.q)}:{_digest(table.k)}"
    return "RopeTable:" + _digest(table)


def _digest(table: _core.RopeTable) -> str:
    """Of all that a table's rotations depend on: its frequencies, the rows that it keeps, and xPos' decay."""
    digest = hashlib.sha256(f"{table!r} {table.memory} {table.frequencies.to_dict()}".encode())
    if table.memory == "full":
        digest.update(table.cos.tobytes())
        digest.update(table.sin.tobytes())
    ones = np.ones((1, table.frequencies.head_dim), table.dtype)
    for at in (1, 64):  # which shows the decay, of tables that keep no rows too
        try:
            digest.update(_core.rotate_to(table, ones, at).tobytes())
        except _core.RangeError:  # a table that was given its rows, or a decay out of range
            digest.update(b"none")
    return digest.hexdigest()
