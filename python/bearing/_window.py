"""What windows of attention may be, for PyTorch and JAX alike, as the library itself says it."""

from __future__ import annotations

from ._core import RangeError


def check_window(before: int, after: int) -> None:
    """Raises RangeError unless both are from 0 on, or -1 for no limit."""
    if before < -1 or after < -1:
        raise RangeError(
            f"[attention] window: must be whole numbers from 0 on, or -1 for no limit, got ({before}, {after})"
        )
