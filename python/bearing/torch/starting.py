"""How modules start again: also what is within them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn


def start(modules: Iterable[nn.Module]) -> None:
    """Starts modules again. Each knows how, or else those within it do."""
    for module in modules:
        again: Any = getattr(module, "reset_parameters", None)
        if again is None:
            start(module.children())
        else:
            again()
