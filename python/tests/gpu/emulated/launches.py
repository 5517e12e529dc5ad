"""A plugin of pytest: each launch of a Triton kernel runs in the emulated GPU, on the CPU's tensors.

pytest -p emulated.launches, with BEARING_GPU=cpu, in a process of its own.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator
from typing import Any

import torch
from compiled import Launch, code_of, kinds_of
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
    direct.serves_attention = lambda *_: False
    direct.rotate = lambda *_: None
    JITFunction.run = _run


def _run(kernel: JITFunction, *args: Any, grid: tuple[int, ...], warmup: bool = False, **named: Any) -> None:
    one = Launch(kernel, args, named)
    key = f"{kernel.fn.__module__}.{kernel.fn.__qualname__} {kinds_of(one)} {named.get('num_warps')} {named.get('num_stages')}"
    if key not in _texts:
        _texts[key] = code_of(one, TARGET).text
    values = dict(zip(kernel.arg_names, args, strict=False)) | named
    parameters, tensors = [], []
    for parameter in kernel.params:
        if not parameter.is_constexpr:
            for value in _leaves(values[parameter.name]):
                # Triton makes a constant of these.
                if value is None or (type(value) is int and value == 1 and not parameter.do_not_specialize):
                    continue
                if isinstance(value, torch.Tensor):
                    tensors.append(value)
                parameters.append(_number(value))
    parameters += [0, 0]  # memory beside, which these kernels do not ask for
    launch(_texts[key], 32 * named.get("num_warps", 4), grid, parameters, Memory(tensors))


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
