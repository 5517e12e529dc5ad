"""A model's folder in, its encodings with their numbers out."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from . import _core
from ._types import Array


@dataclass(frozen=True)
class LoadedModel:
    """What load() returns: the encodings of a model, with the numbers that its weights hold.

    model: what config.json says, as read_hf_config() returns it, with warnings.
    inputs: an encoding for each of model.inputs; None where it is missing.
    layers: the encodings of each layer, to be given to attention(); an empty list for a layer without any.
    tensors: the tables that were read, by the tensors' names.
    missing: a text for each encoding whose numbers the weights do not hold as they are.
    """

    model: _core.Model = field(repr=False)
    inputs: tuple[Any, ...]
    layers: tuple[list[Any], ...]
    tensors: dict[str, Array] = field(repr=False)
    missing: tuple[str, ...] = ()


def _encoding(found: dict[str, Any], model: _core.Model, length: int) -> Any:
    """None where there is none."""
    kind, spec = found["kind"], found["spec"]
    if not kind:
        return None
    if kind in ("RotaryRows", "RotaryValues"):
        kept = max(model.context_length, model.trained_length, length, 1)
        return getattr(_core, kind)(_core.RopeTable(spec, kept, memory="compact", seq_len=length or kept))
    return getattr(_core, kind)(spec, **{name: numbers for name, _, numbers in found["parameters"]})


def _place(found: dict[str, Any]) -> str:
    of = f" of the {found['part']}" if found["part"] else ""
    if not found["layers"]:
        return f"the input{of}"
    layers = ", ".join(str(layer) for layer in found["layers"][:8]) + (", …" if len(found["layers"]) > 8 else "")
    return f"layers {layers}{of}"


def load(folder: str | os.PathLike[str], *, length: int = 0) -> LoadedModel:
    """Reads a model's folder and returns its encodings, with the numbers that training gave them.

    folder: holds config.json, and model.safetensors or an index with its files.
    length: the tokens to serve, for dynamic NTK and LongRoPE, whose frequencies depend on it; 0 for the model's own.

    config.json says which encodings there are and how large they are. Their tables are found in the weights by the
    names that the model's type gives them. Frequencies that old checkpoints
    hold are compared with the config's; where they differ, a warning says both.

    Raises ConfigError for a table that is not there, for a shape that contradicts the config, and for numbers that are
    not finite. Nothing is fetched, executed or written.
    """
    if length < 0:
        raise _core.RangeError(f"[load] length: must be at least 0, got {length}")
    model, inputs, groups = _core._load_model(os.fsdecode(folder))
    layers: list[list[Any]] = [[] for _ in model.layers]
    tensors: dict[str, Array] = {}
    missing: list[str] = []
    for found in [*inputs, *groups]:
        tensors.update({tensor: numbers for _, tensor, numbers in found["parameters"]})
        if found["missing"]:
            missing.append(f"{_place(found)}: {found['missing']}")
    for found in groups:
        encoding = _encoding(found, model, length)
        for layer in found["layers"]:
            if encoding is not None:
                layers[layer].append(encoding)
    made = tuple(_encoding(found, model, length) for found in inputs)
    return LoadedModel(model, made, tuple(layers), tensors, tuple(missing))
