"""The tasks, by name."""

from __future__ import annotations

from pathlib import Path

from ..task import Task
from .addition import Addition
from .brackets import Brackets
from .copying import Copy, Reverse
from .counting import Parity, Summation
from .induction import Induction
from .masked import Masked
from .needle import Needle
from .nth_back import NthBack
from .sorting import Sorting
from .text import Text

_ALL: tuple[Task, ...] = (
    Copy(),
    Reverse(),
    Addition(),
    Sorting(),
    Parity(),
    Summation(),
    Induction(),
    NthBack(),
    Brackets(),
    Needle(),
    Text(),
    Masked(Text()),
)

TASKS: dict[str, Task] = {task.name: task for task in _ALL}


def use_text(file: Path) -> None:
    """From now on the tasks of text are about this file."""
    TASKS["text"], TASKS["masked"] = Text(file), Masked(Text(file))
