"""Functions that pickle and copy call to make specs, encodings and tables again.

Pickles name these functions. Their arguments may become more; they may never change.
"""

from __future__ import annotations

from typing import Any

from . import _core


def spec(kind: Any, members: dict[str, Any]) -> Any:
    """A spec from its ``to_dict()``."""
    made = kind.from_dict(members)
    return made if type(made) is kind else _core._of_class(made, kind)


def encoding(kind: Any, arguments: dict[str, Any]) -> Any:
    """An encoding from its ``arguments``."""
    return kind(**arguments)


def frequencies(*members: Any) -> _core.RopeFrequencies:
    """A RopeFrequencies from its members in the C++ struct's order."""
    return _core._frequencies(*members)


def table(of: _core.RopeFrequencies, length: int, dtype: str, memory: str) -> _core.RopeTable:
    """A RopeTable from its frequencies, whose rows are computed again."""
    return _core.RopeTable(of, length, dtype=dtype, memory=memory)


def xpos_table(
    xpos: _core.Xpos, length: int, dtype: str, seq_len: int = 0, angles: Any = "exact", memory: Any = "full"
) -> _core.XposTable:
    """An XposTable from its spec, whose rows are computed again."""
    return _core.XposTable(xpos, length, dtype=dtype, seq_len=seq_len, angles=angles, memory=memory)
