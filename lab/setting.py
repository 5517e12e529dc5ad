"""A setting: everything that decides the numbers of a run, and nothing else."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Setting:
    """Everything that decides a run. Two equal settings give the same numbers on one machine.

    question: which protocol runs it: "text", "encoders", "tasks", "extension", "images".
    encoding: a name of the catalog, or NAME:KEY=VALUE,… as ``bearing check`` takes it.
    length: what is trained up to, in the task's own unit. multiples: at how many times that it is measured.
    measured: how many tokens are measured at each multiple. data: the SHA-256 of a text, if the task has one.
    method, factor, tuned_steps: how a trained model was extended. variant: how positions were given in training.
    grid: the side of the images that were trained on, in patches.
    """

    question: str
    encoding: str
    task: str
    seed: int
    length: int
    steps: int
    batch: int
    d_model: int
    layers: int
    heads: int
    learning_rate: float
    warmup: int
    weight_decay: float = 0.1
    clip: float = 1.0
    kind: str = "causal"
    multiples: tuple[float, ...] = (1, 2, 4, 8, 16)
    measured: int = 16384
    data: str = ""
    method: str = "none"
    factor: float = 1
    tuned_steps: int = 0
    variant: str = "whole"
    grid: int = 0

    def __post_init__(self) -> None:
        whole = (int(one) if one == int(one) else one for one in self.multiples)
        object.__setattr__(self, "multiples", tuple(whole))
        for name in ("length", "steps", "batch", "d_model", "layers", "heads"):
            if getattr(self, name) < 1:
                raise ValueError(f"[Setting] {name}: must be at least 1, got {getattr(self, name)}")
        if self.d_model % (2 * self.heads):
            raise ValueError(
                f"[Setting] d_model: must give each of {self.heads} heads an even number of dimensions, got {self.d_model}"
            )
        if self.kind not in ("causal", "encoder"):
            raise ValueError(f"[Setting] kind: must be causal or encoder, got {self.kind!r}")

    @property
    def head_dim(self) -> int:
        return self.d_model // self.heads

    @property
    def key(self) -> str:
        """Twelve digits that stand for all members. Those at their defaults do not count, so that a new one changes no key."""
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        told = {name: value for name, value in vars(self).items() if value != defaults[name]}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]

    def replace(self, **changes: Any) -> Setting:
        """A copy with some members changed."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """The members as JSON can hold them."""
        return dataclasses.asdict(self) | {"multiples": list(self.multiples)}

    @staticmethod
    def from_dict(members: dict[str, Any]) -> Setting:
        """The setting of a row."""
        known = {field.name for field in dataclasses.fields(Setting)}
        if others := sorted(set(members) - known):
            raise ValueError(f"[Setting] members: must be among {', '.join(sorted(known))}, got {', '.join(others)}")
        return Setting(**members)
