"""Launches of kernels that find by themselves what Triton has compiled for a call like this one. Triton asks more, and takes as
long for that as a small kernel takes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch

AMD = torch.version.hip is not None
# By all that Triton looks at: what it compiled, and the values of its constants. Kernels are functions of modules, which stay.
_compiled: dict[Hashable, tuple[Any, tuple[Any, ...]]] = {}


class Started:
    """A kernel on a device, and what its launches have beside arguments. constants stand behind these in the kernel. programs: along one
    axis, or along several."""

    def __init__(
        self, kernel: Any, device: torch.device, programs: int | Sequence[int], constants: dict[str, Any], options: dict[str, Any]
    ) -> None:  # fmt: skip
        self._kernel, self._device = kernel, device
        self._grid = (programs, 1, 1) if isinstance(programs, int) else (*programs, 1, 1)[:3]
        self._constants, self._options = constants, options
        self._known: dict[Hashable, tuple[Any, tuple[Any, ...]]] = {}

    def run(self, alike: Hashable, args: Sequence[Any]) -> None:
        """A launch on the device, which is the current one. alike: equal for launches of this object that Triton compiles once
        for. From the second one on Triton's hooks before a run, and knobs that are turned later, are not asked."""
        found = self._known.get(alike)
        if found is None:
            of_all = alike_of(args), *self._constants.values(), *self._options.values()
            key = id(self._kernel), self._device, of_all
            found = _compiled.get(key)
            if found is None:
                made = self._kernel[self._grid](*args, **self._constants, **self._options)
                if made is not None:  # nothing is compiled where Triton interprets
                    names = [name for name in self._kernel.arg_names if name in self._constants]
                    self._known[alike] = _compiled[key] = made, tuple([self._constants[name] for name in names])
                return
            self._known[alike] = found
        made, values = found
        made[self._grid](*args, *values)


def start(
    kernel: Any, device: torch.device, programs: int | Sequence[int], args: Sequence[Any], options: dict[str, Any], **constants: Any
) -> None:  # fmt: skip
    """One launch, which shares with others what Triton compiled."""
    Started(kernel, device, programs, constants, options).run(None, args)


def alike_of(args: Sequence[Any]) -> tuple[Hashable, ...]:
    """What Triton looks at in arguments, numbers and tuples of them: types; whether pointers and whole numbers are multiples of 16; which numbers
    are 1, and which need 64 bits; place_of() tensors."""
    return tuple([_number(x) if type(x) is int else None if x is None else _other(x) for x in args])


def places_of(tensors: Sequence[torch.Tensor | None]) -> tuple[int, ...]:
    """place_of() those that are there."""
    return tuple([place_of(x) for x in tensors if x is not None])


def place_of(x: torch.Tensor) -> int:
    """Whether a tensor lies at a multiple of 16: 0, or 1 if not; and on AMD's GPUs 2 more for what offsets of 32 bits may not
    reach."""
    return (x.data_ptr() & 15 != 0) + 2 * (AMD and x.untyped_storage().size() >= 2**31)


def is_wide(x: int) -> bool:
    """Whether Triton takes 64 bits for a number."""
    return not -(2**31) <= x < 2**31


def _number(x: int) -> int:
    return (4 if x & 15 else 5) if is_wide(x) else 1 if x == 1 else 2 if x & 15 else 3


def _other(x: Any) -> Hashable:
    if isinstance(x, torch.Tensor):
        return x.dtype, place_of(x)
    return float if type(x) is float else alike_of(x)
