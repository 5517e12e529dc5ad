"""Launches of kernels that find by themselves what Triton has compiled for a call like this one. Triton asks more, and takes as
long for that as a small kernel takes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch

AMD = torch.version.hip is not None
# By what calls have in common: what Triton compiled, and the values of its constants.
Compiled = dict[Hashable, tuple[Any, tuple[Any, ...]]]


def start(
    compiled: Compiled, alike: Hashable, kernel: Any, programs: int, args: Sequence[Any], constants: dict[str, Any], options: dict[str, Any]
) -> None:  # fmt: skip
    """Launches a kernel. alike: equal for calls that Triton compiles once for. constants stand behind args in the kernel. From the
    second call on Triton's hooks before a run, and knobs that are turned later, are not asked."""
    grid = programs, 1, 1
    found = compiled.get(alike)
    if found is not None:
        made, values = found
        made[grid](*args, *values)
        return
    made = kernel[grid](*args, **constants, **options)
    if made is not None:  # nothing is compiled where Triton interprets
        compiled[alike] = made, tuple(constants[name] for name in kernel.arg_names if name in constants)


def alike_of(args: Sequence[Any]) -> tuple[Hashable, ...]:
    """What Triton looks at in arguments, numbers and tuples of them: types; whether pointers and whole numbers are multiples of 16; which numbers
    are 1, and which need 64 bits; place_of() tensors."""
    return tuple([_number(x) if type(x) is int else None if x is None else _other(x) for x in args])


def place_of(x: torch.Tensor) -> int:
    """Whether a tensor lies at a multiple of 16: 0, or 1 if not; and on AMD's GPUs 2 more for what offsets of 32 bits may not
    reach."""
    return (x.data_ptr() & 15 != 0) + 2 * (AMD and x.untyped_storage().size() >= 2**31)


def _number(x: int) -> int:
    return (1 if x == 1 else 2 if x & 15 else 3) if -(2**31) <= x < 2**31 else 4 if x & 15 else 5


def _other(x: Any) -> Hashable:
    if isinstance(x, torch.Tensor):
        return x.dtype, place_of(x)
    return float if type(x) is float else alike_of(x)
