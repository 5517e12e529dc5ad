"""Numbers that callers give: errors name the function and the argument."""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from .._core import RangeError, _is_truth_value


def whole_number(function: str, name: str, number: Any, least: int = 0, *, what: str = "") -> int:
    """The number as Python's own. Raises TypeError for what is no whole number, as True is none, and RangeError for one below
    the least. what: what it says, for errors."""
    must = f"[{function}] {name}: must be {what + ', ' if what else ''}a whole number from {least} on"
    if isinstance(number, torch.SymInt):  # a size that changes, which compilers follow
        return number  # type: ignore[return-value]
    found = number if type(number) is int else index_of(number)
    if found is None:
        raise TypeError(f"{must}, got {number!r}")
    if not least <= found < 2**63:
        raise RangeError(f"{must}, got {number!r}")
    return found


def index_of(number: Any) -> int | None:
    """A whole number as Python's own; None for what is none, as True is."""
    if isinstance(number, bool) or getattr(number, "dtype", None) is torch.bool:
        return None
    try:
        return operator.index(number)
    except (TypeError, RuntimeError):  # of a tensor without memory
        return None


def check_number(function: str, name: str, number: Any) -> None:
    """Raises TypeError for what is no real number, as True is none."""
    if _is_truth_value(number) or not isinstance(number, Real):
        raise TypeError(f"[{function}] {name}: must be a number, got {number!r}")


_NUMBERS = (int, float, Real, torch.SymInt, torch.SymFloat)


def check_scores(function: str, scale: Any, soft_cap: Any) -> None:
    """Raises what is wrong with attention's scale and soft_cap, which layers, score modifiers and plans take as well."""
    for name, number in (("scale", scale), ("soft_cap", soft_cap)):
        if number is None and name == "scale":
            continue
        one = number.dim() == 0 and not number.is_sparse if isinstance(number, Tensor) else isinstance(number, _NUMBERS)
        if isinstance(number, bool) or not one:
            raise TypeError(f"[{function}] {name}: must be a number, got {number!r}")
    if isinstance(scale, (int, float, Real)) and not math.isfinite(scale):
        raise RangeError(f"[{function}] scale: must be finite, got {scale}")
    if getattr(soft_cap, "is_meta", False):
        return  # it has no number
    if not 0 <= soft_cap < math.inf:
        raise RangeError(f"[{function}] soft_cap: must be positive, or 0 for none, got {soft_cap}")
