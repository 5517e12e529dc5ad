"""What windows of attention may be, for PyTorch and JAX alike, as the library itself says it."""

from __future__ import annotations

from ._core import RangeError


def check_window(before: int, after: int, function: str = "attention") -> None:
    """Raises RangeError unless both are from 0 on, or -1 for no limit. function: who was called, for errors."""
    if before < -1 or after < -1:
        raise RangeError(
            f"[{function}] window: must be whole numbers from 0 on, or -1 for no limit, got ({before}, {after})"
        )
