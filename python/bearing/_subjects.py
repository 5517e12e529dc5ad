"""What pictures and measurements take for an encoding: its numbers in float64, whatever holds them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import _core


def subject(one: Any, place: str) -> Any:
    """What the library takes for something that is neither text nor a spec: a Model, or (an encoding in float64, the
    spec that it came from); text or a spec for an example.

    place: where it was given, "[function] argument", for errors.
    """
    if isinstance(one, _core.Model):
        return one
    if isinstance(one, _core.RopeTable):
        return (_core.RotaryRows(_in_float64(one)), None)
    if isinstance(one, _core.XposTable):
        return (_core.XposRows(_in_float64(one)), None)
    if isinstance(one, _core.Encoding):
        return (one.replace(**{name: _in_float64(value) for name, value in one.arguments.items()}), None)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(one, torch.nn.Module) and hasattr(one, "encoding"):
        return _module(one, place)
    if torch is not None and isinstance(one, tuple) and hasattr(one, "form"):
        return _torch_encoding(one, None)
    if isinstance(one, Mapping) or hasattr(one, "to_dict") or hasattr(one, "__fspath__"):
        return _core.read_hf_config(one)
    raise TypeError(
        f"{place}: must be an encoding's name, spec or table, an encoding, a model's config or a module of "
        f"bearing.torch, got {one!r}"
    )


def _in_float64(value: Any) -> Any:
    """An argument of an encoding: arrays and tables in float64, others as they are."""
    if isinstance(value, _core.RopeTable):
        return _table(value)
    if isinstance(value, _core.XposTable):
        options = {"seq_len": value.seq_len, "angles": value.angles, "memory": value.memory}
        return _core.XposTable(value.xpos, value.length, dtype="float64", **options)  # type: ignore[arg-type]
    if not hasattr(value, "shape"):
        return value
    if hasattr(value, "detach"):  # a tensor, of any type and with a gradient
        value = value.detach().cpu().double()
    return np.asarray(value, np.float64)


def _table(table: _core.RopeTable) -> _core.RopeTable:
    try:
        table.__reduce__()
    except TypeError:  # of given numbers, which are taken as they are
        of = table.frequencies
        part = _core.RotaryPart(where="window", begin=of.begin)
        rope = _core.Rope(head_dim=of.head_dim, rotary_dim=of.rotary_dim, pairing=of.pairing, part=part)  # type: ignore[arg-type]
        return _core.RopeTable.from_cos_sin(rope, np.asarray(table.cos, np.float64), np.asarray(table.sin, np.float64))
    return _core.RopeTable(table.frequencies, table.length, dtype="float64")


def _module(module: Any, place: str) -> Any:
    """A module of bearing.torch with its parameters; an example of one that has none, as a call computes all of them."""
    from .torch.encoding import encoding_of

    spec, rope = getattr(module, "spec", None), getattr(module, "rope", None)
    if isinstance(rope, _core.Rope):  # learned by factors of frequencies, which its spec states
        return rope
    try:
        encoding = encoding_of(module)
    except TypeError as error:
        kinds = {kind: name for name, kind, _ in _core._named(8, 64, 512)}
        example = kinds.get(getattr(module, "kind", None)) if spec is None else spec
        if example is None or any(True for _ in module.parameters()):
            name = type(module).__name__
            raise TypeError(
                f"{place}: must hold all of its numbers, but {name} computes some of it for each call: give "
                f"{name.lower()}.encoding(…), or the spec or name of the encoding for an example"
            ) from error
        return example
    return _torch_encoding(encoding, spec)


def _torch_encoding(encoding: Any, spec: Any) -> Any:
    """An encoding of bearing.torch, in float64."""
    from .torch.encoding import build

    torch: Any = sys.modules["torch"]
    tensors = [_tensor_in_float64(one) for one in encoding.tensors]
    (made,) = build(f"[{encoding.form}]", tensors, torch.float64)
    return (made, spec)


def _tensor_in_float64(tensor: Any) -> Any:
    tensor = tensor.detach().cpu()
    return tensor.double() if tensor.is_floating_point() else tensor
