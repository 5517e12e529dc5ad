"""What PyTorch's compiler is told of functions, without importing it, which takes longer than PyTorch itself."""

from __future__ import annotations

import atexit
import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch

P, R = ParamSpec("P"), TypeVar("R")


def constant(function: Callable[P, R]) -> Callable[P, R]:
    """As ``torch.compiler.assume_constant_result``, which sets the same attribute."""
    setattr(function, "_dynamo_marked_constant", True)  # noqa: B010
    return function


# Compiled code knows an object of the extension by its address, which nothing else may get.
_traced: dict[int, Any] = {}
atexit.register(_traced.clear)


def constant_of(function: Callable[P, R]) -> Callable[P, R]:
    """As :func:`constant`, for a function of objects that the compiler cannot look into, and that never change."""

    @functools.wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> R:
        _traced.update((id(one), one) for one in args)
        return function(*args, **named)

    return constant(call)


def eager(function: Callable[P, R]) -> Callable[P, R]:
    """As ``torch.compiler.disable``: compiled code leaves its graph to call the function."""

    @functools.wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> R:
        if torch.compiler.is_compiling():
            return torch.compiler.disable(function)(*args, **named)
        return function(*args, **named)

    return call
