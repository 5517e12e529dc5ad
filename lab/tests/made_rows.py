"""Rows of runs that never were, with numbers that tests can work out by hand."""

from __future__ import annotations

from typing import Any

from lab.compared import APART
from lab.setting import Setting
from lab.summary import Runs, groups


def row(
    encoding: str, seed: int, perplexities: dict[str, float], question: str = "text", **more: Any
) -> dict[str, Any]:
    """A row whose measures are all the given number; `more` goes into the setting."""
    members = {
        "question": question, "encoding": encoding, "task": "text", "seed": seed, "length": 64, "steps": 500, "batch": 32,
        "d_model": 64, "layers": 2, "heads": 4, "learning_rate": 3e-3, "warmup": 50,
    } | more  # fmt: skip
    setting = Setting(**members).to_dict()
    measures = {
        multiple: {
            "length": round(setting["length"] * float(multiple)), "loss": number, "perplexity": number, "tail": number,
            "accuracy": number, "exact": number, "by_position": [[0.5, number], [8.0, number], [float(multiple) * 64, number]],
        }
        for multiple, number in perplexities.items()
    }  # fmt: skip
    beyond = {one: "no row past 64" for one in ("2", "4", "8", "16") if one not in perplexities and question == "text"}
    return {
        "key": f"{question}-{encoding}-{seed}-{setting['task']}-{setting['method']}-{setting['factor']}-{setting['tuned_steps']}",
        "setting": setting, "measures": measures, "beyond": beyond, "training": [[500, 1.0]], "seconds": 20.0, "step_ms": 40.0,
        "attention_share": 0.3, "parameters": 110_000, "bearing": "0.1.0", "torch": "2.13.0", "machine": "cpu", "date": "2026-11-23",
    }  # fmt: skip


def seeds(encoding: str, numbers: dict[str, float], question: str = "text", **more: Any) -> list[dict[str, Any]]:
    """Three seeds, 1 % apart."""
    return [
        row(encoding, s, {m: n * (1 + (s - 1) / 100) for m, n in numbers.items()}, question, **more) for s in range(3)
    ]


def flat(number: float, last: float) -> dict[str, float]:
    """A perplexity that stays, and what it is at 16 times the length."""
    return {"1": number, "2": number, "4": number, "8": number, "16": last}


def text_runs() -> list[Runs]:
    return groups(seeds("rope", flat(4.0, 80.0)) + seeds("alibi", flat(4.0, 4.0)) + seeds("learned", {"1": 4.0}))


def tasks() -> dict[str, list[Runs]]:
    rows = [r for task in ("copy", "parity") for name, last in (("rope", 0.2), ("nope", 0.9))
            for r in seeds(name, {"1": 0.95, "2": last, "16": last}, "tasks", task=task)]  # fmt: skip
    return {task: groups(rows, task=task) for task in ("copy", "parity")}


def encoders() -> list[dict[str, Any]]:
    return [
        one
        for name, last in (("nope", 9.0), ("rope", 5.0), ("t5", 7.0))
        for one in seeds(name, flat(last, 9.0), "encoders", task="masked", kind="encoder")
    ]


def extension() -> list[Runs]:
    rows = seeds("rope", flat(4.0, 80.0), "extension")
    for factor in (2, 4, 8, 16):
        for method, number in (("yarn", 5.0), ("linear", 9.0)):
            rows += seeds("rope", flat(number, number), "extension", method=method, factor=factor)
            rows += seeds(
                "rope", flat(number - 1, number - 1), "extension", method=method, factor=factor, tuned_steps=50
            )
    return groups(rows, APART["extension"])


def images() -> list[Runs]:
    rows = [r for name in ("rope_axial", "swin") for method in ("none", "stretched")
            for r in seeds(name, {"1": 0.9, "1.5": 0.8, "2": 0.5}, "images", task="direction", method=method)]  # fmt: skip
    return groups(rows, APART["images"])
