"""A plugin of pytest: each launch of a Triton kernel runs in the emulated GPU, on the CPU's tensors.

pytest -p emulated.launches, with BEARING_GPU=cpu, in a process of its own.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator
from typing import Any

import torch
from compiled import Launch, kinds_of, made_of
from triton.runtime.jit import JITFunction

from .machine import launch
from .memory import Memory

TARGET = "sm_90"
_texts: dict[str, str] = {}


def pytest_configure() -> None:
    """Tensors on the CPU go to kernels, and kernels to the emulator."""
    import bearing.torch as bt
    from bearing.torch import direct
    from bearing.torch.triton import device, plan

    assert bt
    device.takes = plan.takes = lambda tensor: True
    direct.attention = lambda *_: (None, None)
    direct.rotate = lambda *_: None
    direct.rotate_ = lambda *_: False
    JITFunction.run = _run


def _run(kernel: JITFunction, *args: Any, grid: tuple[int, ...], warmup: bool = False, **named: Any) -> _Compiled:
    made = _Compiled(kernel, args, named)
    made.launch(grid, {**dict(zip(kernel.arg_names, args, strict=False)), **named})
    return made


class _Compiled:
    """A kernel as it was compiled for some arguments, which serves others as far as that goes. These come without names."""

    def __init__(self, kernel: JITFunction, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        one = Launch(kernel, args, named)
        key = f"{kernel.fn.__module__}.{kernel.fn.__qualname__} {kinds_of(one)} {named.get('num_warps')} {named.get('num_stages')}"
        if key not in _texts:
            _texts[key] = made_of(one, TARGET).asm["ptx"]
        self.kernel, self.text, self.threads = kernel, _texts[key], 32 * named.get("num_warps", 4)
        values = dict(zip(kernel.arg_names, args, strict=False)) | named
        self.passed = [_is_passed(value, one) for one, value in self._leaves_of(values)]

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return lambda *args: self.launch(grid, dict(zip(self.kernel.arg_names, args, strict=True)))

    def launch(self, grid: tuple[int, ...], values: dict[str, Any]) -> None:
        """Runs it."""
        given = [value for _, value in self._leaves_of(values)]
        given = [value for value, passed in zip(given, self.passed, strict=True) if passed]
        parameters = [_number(value) for value in given] + [0, 0]  # memory beside, which these kernels do not ask for
        launch(self.text, self.threads, grid, parameters, Memory([x for x in given if isinstance(x, torch.Tensor)]))

    def _leaves_of(self, values: dict[str, Any]) -> list[tuple[Any, Any]]:
        """Parameters that are no constants, with each number and tensor of theirs."""
        variable = [one for one in self.kernel.params if not one.is_constexpr]
        return [(one, value) for one in variable for value in _leaves(values[one.name])]


def _is_passed(value: Any, parameter: Any) -> bool:
    """Whether Triton does not make a constant of it."""
    return value is not None and not (type(value) is int and value == 1 and not parameter.do_not_specialize)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for one in value:
            yield from _leaves(one)
    else:
        yield value


@functools.singledispatch
def _number(value: Any) -> int:
    """A parameter as a number without a sign."""
    raise TypeError(value)


@_number.register
def _(value: torch.Tensor) -> int:
    return value.data_ptr()


@_number.register
def _(value: float) -> int:
    return struct.unpack("I", struct.pack("f", value))[0]


@_number.register
def _(value: int) -> int:
    return value & (2**32 - 1 if -(2**31) <= value < 2**31 else 2**64 - 1)
