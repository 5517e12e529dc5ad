"""A model's folder in, its encodings with their numbers out."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import _core
from ._types import Array


@dataclass(frozen=True, eq=False)  # which holds arrays: each is equal to itself alone, as an encoding is
class PerCall:
    """An encoding of which the model computes a parameter from its input, for each call: call it with that parameter.

    kind: the name of the encoding's class.
    spec: its spec; None where the class takes none.
    parameters: the tables that the weights hold, by the names that the class gives them.
    wanted: the names of the parameters that a call gives.
    factors: what the model multiplies those by first, by their names, and what is multiplied here.
    """

    kind: str
    spec: Any
    parameters: dict[str, Array] = field(repr=False)
    wanted: tuple[str, ...]
    factors: dict[str, Array] = field(repr=False, default_factory=dict)

    def __call__(self, **given: Array) -> Any:
        """The encoding, for attention(): loaded.layers[0][0](r=r)."""
        if set(given) != set(self.wanted):
            wanted, got = (", ".join(names) or "none" for names in (self.wanted, given))
            raise TypeError(f"[{self.kind}] must be called with {wanted}, by name, got {got}")
        for name, factor in self.factors.items():
            given[name] = np.asarray(given[name]) * factor[:, None]
        spec = () if self.spec is None else (self.spec,)
        return getattr(_core, self.kind)(*spec, **self.parameters, **given)


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """What load() returns: the encodings of a model, with the numbers that its weights hold.

    model: what config.json says, as read_hf_config() returns it, with warnings.
    inputs: an encoding for each of model.inputs; None where it is missing.
    layers: the encodings of each layer, to be given to attention(); an empty list for a layer without any. One that
    needs numbers of each call is a PerCall.
    tensors: the tables that were read, by the tensors' names.
    missing: a text for each encoding whose numbers the weights do not hold as they are.
    towers: the same of each of model.towers.
    """

    model: _core.Model = field(repr=False)
    inputs: tuple[Any, ...]
    layers: tuple[list[Any], ...]
    tensors: dict[str, Array] = field(repr=False)
    missing: tuple[str, ...] = ()
    towers: tuple[LoadedModel, ...] = ()


def _encoding(found: dict[str, Any], model: _core.Model, length: int) -> Any:
    """None where there is none."""
    kind, spec = found["kind"], found["spec"]
    if not kind:
        return None
    if kind in ("RotaryRows", "RotaryValues"):
        kept = max(model.context_length, model.trained_length, length, 1)
        return getattr(_core, kind)(_core.RopeTable(spec, kept, memory="compact", seq_len=length or kept))
    parameters, factors = ({name: numbers for name, _, numbers in found[of]} for of in ("parameters", "factors"))
    if found["per_call"]:
        return PerCall(kind, spec, parameters, found["per_call"], factors)
    return getattr(_core, kind)(spec, **parameters)


def _place(found: dict[str, Any]) -> str:
    of = f" of the {found['part']}" if found["part"] else ""
    if not found["layers"]:
        return f"the input{of}"
    layers = ", ".join(str(layer) for layer in found["layers"][:8]) + (", …" if len(found["layers"]) > 8 else "")
    return f"layers {layers}{of}"


def _loaded(read: tuple[Any, Any, Any, Any, str], length: int) -> LoadedModel:
    model, inputs, groups, towers, reason = read
    layers: list[list[Any]] = [[] for _ in model.layers]
    tensors: dict[str, Array] = {}
    missing: list[str] = [reason] if reason else []
    for found in [*inputs, *groups]:
        for of in ("parameters", "factors"):
            tensors.update({tensor: numbers for _, tensor, numbers in found[of]})
        if found["missing"]:
            missing.append(f"{_place(found)}: {found['missing']}")
    for found in groups:
        encoding = _encoding(found, model, length)
        for layer in found["layers"]:
            if encoding is not None:
                layers[layer].append(encoding)
    made = tuple(_encoding(found, model, length) for found in inputs)
    parts = tuple(_loaded(tower, length) for tower in towers)
    return LoadedModel(model, made, tuple(layers), tensors, tuple(missing), parts)


def load(folder: str | bytes | os.PathLike[str], *, length: int = 0) -> LoadedModel:
    """Reads a model's folder and returns its encodings, with the numbers that training gave them.

    folder: holds config.json, and model.safetensors or an index with its files.
    length: the tokens to serve, for dynamic NTK and LongRoPE, whose frequencies depend on it: 0 for the model's own. And
    for Transformer-XL, XLNet and Parakeet, whose rows are computed for each distance: without clamp_len they need it.

    config.json says which encodings there are and how large they are. Their tables are found in the weights by the
    names that the model's type gives them. Frequencies that old checkpoints
    hold are compared with the config's; where they differ, a warning says both.

    Raises ConfigError for a table that is not there, for a shape that contradicts the config, and for numbers that are
    not finite; in a tower, `missing` says it. Nothing is fetched, executed or written.
    """
    if not 0 <= length <= 2**31:
        raise _core.RangeError(f"[load] length: must be from 0 to 2^31, got {length}")
    return _loaded(_core._load_model(folder, length), length)
