"""How modules start again: also what is within them, and parameters that processes share as one draw."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


def start(modules: Iterable[nn.Module]) -> None:
    """Starts modules again. Each knows how, or else those within it do."""
    for module in modules:
        again: Any = getattr(module, "reset_parameters", None)
        if again is None:
            start(module.children())
        else:
            with whole(module):
                again()


@contextmanager
def whole(module: nn.Module, parameters: bool = True) -> Iterator[None]:
    """Inside, parameters and buffers of the module itself that processes share (DTensors) are whole, to be filled.

    Then each process takes its part of what the first one has: random numbers are one draw, whatever the seeds are. What
    was not filled stays as it was. parameters: False leaves these as they are, where buffers alone are filled.
    """
    own: tuple[dict[str, Any], ...] = (module._parameters, module._buffers) if parameters else (module._buffers,)
    shared = [(of, name, tensor) for of in own for name, tensor in of.items() if is_shared(tensor)]
    fulls = [_empty_as(tensor) for _, _, tensor in shared]
    before = [full._version for full in fulls]
    try:
        for (of, name, _), full in zip(shared, fulls, strict=True):
            of[name] = full
        yield
    finally:
        for of, name, tensor in shared:
            of[name] = tensor
    for (_, _, tensor), full, version in zip(shared, fulls, before, strict=True):
        if full._version != version and tensor.device.type != "meta":
            _take_part(tensor, full)


def _empty_as(tensor: torch.Tensor) -> torch.Tensor:
    full = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    return nn.Parameter(full, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else full


def is_shared(tensor: Any) -> bool:
    """Whether it is a DTensor. Where nobody has imported them there are none."""
    distributed = sys.modules.get("torch.distributed.tensor")
    return distributed is not None and isinstance(tensor, distributed.DTensor)


def check_local(function: str, given: Iterable[Any]) -> None:
    """Raises TypeError for DTensors: no function adds up what processes hold."""
    if any(is_shared(x) for x in given):
        raise TypeError(
            f"[{function}] tensors: must be local, got a DTensor: give each process its own part, as to_local() and "
            "ColwiseParallel() do"
        )


@torch.no_grad()
def _take_part(tensor: Any, full: torch.Tensor) -> None:
    from torch.distributed.tensor import distribute_tensor

    part = distribute_tensor(full.detach(), tensor.device_mesh, tensor.placements)
    tensor.to_local().copy_(part.to_local())
