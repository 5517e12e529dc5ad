"""What a trained model does at lengths that it has and has not seen."""

from __future__ import annotations

import math
from typing import Any

import bearing
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from .setting import Setting
from .task import NOTHING, Batch, Task

BINS = 32  # of places, in the loss by position
AT_ONCE = 8192  # tokens that go through the model together


def longest(setting: Setting) -> int:
    """The longest length that is measured, in the task's unit."""
    return round(setting.length * max(setting.multiples))


def measure(
    model: nn.Module, task: Task, setting: Setting, random: np.random.Generator
) -> tuple[dict[str, Any], dict[str, str]]:
    """Measures at every multiple, by its name ("1", "2", "1.5"); and why others could not be measured."""
    measures: dict[str, Any] = {}
    beyond: dict[str, str] = {}
    model.eval()
    for multiple in setting.multiples:
        length = round(setting.length * multiple)
        try:
            measures[f"{multiple:g}"] = measured(model, task, length, setting.measured, random)
        except (bearing.RangeError, bearing.ShapeError) as error:
            beyond[f"{multiple:g}"] = str(error)
    return measures, beyond


@torch.no_grad()
def measured(
    model: nn.Module, task: Task, length: int, tokens: int, random: np.random.Generator, **given: Any
) -> dict[str, Any]:
    """Of rows with exactly that length: at least `tokens` of them together, and at least 4. given: what the model takes besides."""
    time = task.time(length)
    left, sums = max(4, -(-tokens // time)), Sums()
    while left > 0:
        size = min(left, max(1, AT_ONCE // time))
        batch = task.batch(random, size, length, False)
        logits = model(torch.from_numpy(batch.tokens), **given)
        sums.add(batch, logits)
        left -= size
    return {"length": length, **sums.summary()}


class Sums:
    """Losses and hits by place, over batches of one length."""

    def __init__(self) -> None:
        self.losses = self.asked = self.right = None
        self.rows = self.exact = 0

    def add(self, batch: Batch, logits: torch.Tensor) -> None:
        """logits [size, time, vocabulary] of the batch."""
        targets = torch.from_numpy(batch.targets)
        losses = F.cross_entropy(
            logits.cpu().flatten(0, 1).double(), targets.flatten(), ignore_index=NOTHING, reduction="none"
        )
        asked = (targets != NOTHING).numpy()
        right = (logits.argmax(-1).cpu() == targets).numpy() & asked
        for name, found in (("losses", losses.view_as(targets).numpy()), ("asked", asked), ("right", right)):
            sums, more = getattr(self, name), found.sum(0, dtype=np.float64)
            setattr(self, name, more if sums is None else sums + more)
        self.rows += len(asked)
        self.exact += int((right.sum(1) == asked.sum(1)).sum())

    def summary(self) -> dict[str, Any]:
        """The means. exact: the share of rows of which every token that is asked is the likeliest, so that saying one
        token after the other gives the whole answer. tail: the perplexity of the last quarter of the places."""
        time, count = len(self.asked), self.asked.sum()
        last = slice(time - max(1, time // 4), None)
        loss = self.losses.sum() / count
        return {
            "loss": float(loss),
            "perplexity": math.exp(min(loss, 700)),
            "tail": math.exp(min(self.losses[last].sum() / max(self.asked[last].sum(), 1), 700)),
            "accuracy": float(self.right.sum() / count),
            "exact": self.exact / self.rows,
            "rows": self.rows,
            "by_position": self._by_position(),
        }

    def _by_position(self) -> list[list[float]]:
        """[middle of a bin of places, mean loss there], where something is asked. Bins are as wide on a logarithmic axis."""
        found, time = [], len(self.asked)
        edges = np.unique(np.geomspace(1, time + 1, BINS + 1).round().astype(int)) - 1
        for places in (np.arange(*ends) for ends in zip(edges[:-1], edges[1:], strict=True)):
            if asked := self.asked[places].sum():
                found.append([float(places.mean()), float(self.losses[places].sum() / asked)])
        return found
