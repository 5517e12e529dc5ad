"""Sizes of tiles and numbers of them. Triton's own functions for that take longer than a call may."""

from __future__ import annotations


def cdiv(n: int, size: int) -> int:
    """How many pieces of such a size n has; the last may be smaller."""
    return -(-n // size)


def power_of_2(n: int) -> int:
    """The least one that is at least n."""
    return 1 << max(0, n - 1).bit_length()
