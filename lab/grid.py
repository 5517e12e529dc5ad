"""Questions to settings: which encodings, which tasks, which seeds, at which size."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from .setting import Setting
from .tasks import TASKS

# What a question is asked of unless somebody says others: a published encoding of each kind, and a model without any.
MAIN = (
    "nope learned sinusoidal cape rope xpos fope pope position_temperature angle_rows alibi t5_causal kerple_log fire "
    "sandwich forgetting shaw transformer_xl deberta_v2 tupe cope"
).split()
# The same for a model that sees both sides.
OF_ENCODERS = "nope learned sinusoidal rope alibi t5 fire shaw transformer_xl deberta_v2 tupe".split()

# Sizes of models and of their training. `lengths` are those that tasks are trained up to, where not the task's own.
PRESETS: dict[str, dict[str, Any]] = {
    "quick": dict(d_model=32, layers=2, heads=2, steps=300, batch=16, learning_rate=5e-3, warmup=30, measured=8192),
    "small": dict(d_model=64, layers=2, heads=4, steps=1000, batch=16, learning_rate=5e-3, warmup=100, measured=65536),
    "default": dict(
        d_model=128, layers=4, heads=4, steps=600, batch=32, learning_rate=2e-3, warmup=100, measured=65536
    ),
}
TASK_STEPS = {"quick": 1, "small": 2, "default": 2}  # rows of made tasks are shorter than text: so many times the steps
LENGTHS = {
    "quick": {"text": 32, "masked": 32},
    "small": {"text": 64, "masked": 64},
    "default": {"text": 128, "masked": 128},
}
QUESTIONS = ("text", "encoders", "tasks", "extension", "images")
TASK_OF = {"text": "text", "encoders": "masked"}  # of questions with one task


def encodings_of(words: str) -> list[str]:
    """ "main", "all", or names with spaces or commas between them; a name may carry keys: rope:base=500."""
    if words == "main":
        return MAIN
    if words == "all":
        from .positions import serving

        return serving()
    return words.split() if " " in words.strip() or ":" in words else words.replace(",", " ").split()


def seeds_of(words: str) -> list[int]:
    """ "3" is three seeds, 0 to 2; "0,1,4" are those."""
    try:
        found = [int(word) for word in words.split(",") if word.strip()]
    except ValueError:
        found = []
    if not found or min(found) < 0 or (len(found) == 1 and found[0] < 1 and "," not in words):
        raise ValueError(f"[lab] seeds: must be a number of seeds, or seeds with commas between them, got {words!r}")
    return found if "," in words else list(range(found[0]))


def preset_of(setting: dict[str, Any]) -> list[str]:
    """The words that give a row's setting its size: those of the preset that is nearest, and what differs from it."""
    found = []
    made = setting["task"] in TASKS  # other protocols choose lengths of their own
    for preset in PRESETS:
        base = base_of(preset, setting["question"], setting["task"] if made else "text", {}).to_dict()
        names = {*PRESETS[preset], "weight_decay", "clip"}
        names = names | {"length", "multiples"} if made else names - {"measured"}
        changes = [
            f"--set={name}={json.dumps(setting[name]).replace(' ', '')}"
            for name in sorted(names)
            if setting[name] != base[name]
        ]
        found.append(([] if preset == "default" else [f"--{preset}"]) + changes)
    return min(found, key=len)


def base_of(preset: str, question: str, task: str, changes: dict[str, Any]) -> Setting:
    """A setting of that size, which questions fill in."""
    of = TASKS[task]
    length = LENGTHS[preset].get(task, of.trained)
    steps = PRESETS[preset]["steps"] * (TASK_STEPS[preset] if question == "tasks" else 1)
    kind = "causal" if of.causal else "encoder"
    data = getattr(of, "sha256", "")
    members = PRESETS[preset] | {"length": length, "steps": steps, "data": data, "kind": kind} | changes
    return Setting(**{"question": question, "encoding": "nope", "task": task, "seed": 0} | members)


def settings(
    question: str,
    preset: str,
    encodings: Sequence[str],
    tasks: Sequence[str],
    seeds: Sequence[int],
    changes: dict[str, Any],
) -> list[Setting]:
    """The runs that answer a question, one seed of everything after the other, so that what comes first says something."""
    if question not in QUESTIONS:
        raise ValueError(f"[lab] question: must be one of {', '.join(QUESTIONS)}, got {question!r}")
    if question in ("extension", "images"):
        base = base_of(preset, question, "text", changes)
        return import_module(f".{question}", __package__).settings(base, encodings, seeds)
    made = [task for task in tasks if task not in TASK_OF.values()]
    wanted = [TASK_OF[question]] if question in TASK_OF else made
    if question == "encoders" and encodings == MAIN:
        encodings = OF_ENCODERS
    bases = [base_of(preset, question, task, changes) for task in wanted]
    return [base.replace(encoding=one, seed=seed) for seed in seeds for base in bases for one in encodings]


def run(setting: Setting, folder: Path, device: str = "cpu") -> dict[str, Any]:
    """A row, by the question's own protocol."""
    name = setting.question if setting.question in ("extension", "images") else "training"
    return import_module(f".{name}", __package__).run(setting, folder, device)
