"""One run: a setting in, a row out."""

from __future__ import annotations

import datetime
import fcntl
import functools
import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import bearing
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from .attending import through_pytorch
from .measuring import longest, measure
from .model import Transformer, parameters, place_of
from .setting import Setting
from .task import NOTHING, Batch, Task
from .tasks import TASKS
from .timing import attention_share

POINTS = 40  # of the curve of a training


class Trained(NamedTuple):
    """A model and how it came about. curve: [step, mean loss of the steps since the point before]."""

    model: Transformer
    curve: list[list[float]]
    seconds: float
    step_ms: float


def generator(seed: int, purpose: str) -> np.random.Generator:
    """Random numbers of a seed for one purpose."""
    return np.random.default_rng([seed, *purpose.encode()])


def batches(task: Task, setting: Setting, purpose: str = "training") -> Iterator[Batch]:
    """Training's batches without end: the same for every encoding."""
    random = generator(setting.seed, purpose)
    while True:
        yield task.batch(random, setting.batch, setting.length, True)


def build(setting: Setting) -> Transformer:
    """The setting's model, untrained."""
    task = TASKS[setting.task]
    if setting.kind == "encoder" and not task.for_encoders:
        raise ValueError(f"[lab] kind: must be causal for {setting.task}, whose rows hold their answers, got encoder")
    place = place_of(setting, task.time(setting.length), task.time(longest(setting)))
    return Transformer(setting, task.vocabulary, place)


def loss_of(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean over all places where something is asked."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten().to(logits.device), ignore_index=NOTHING)


def train(model: Transformer, given: Iterator[Any], setting: Setting, steps: int | None = None) -> Trained:
    """Trains a model by AdamW; the rate rises for `warmup` steps and falls along half a cosine to a tenth."""
    steps = setting.steps if steps is None else steps
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": setting.weight_decay}, {"params": others, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=setting.learning_rate, betas=(0.9, 0.98))
    torch.manual_seed(setting.seed + 2**33)
    curve: list[list[float]] = []
    since: list[float] = []
    durations: list[float] = []
    model.train()
    begin = time.perf_counter()
    for step in range(1, steps + 1):
        before = time.perf_counter()
        for group in optimiser.param_groups:
            group["lr"] = setting.learning_rate * rate(step, steps, setting.warmup)
        since.append(_step(model, next(given), optimiser, setting.clip))
        durations.append(time.perf_counter() - before)
        if step * POINTS // steps > (step - 1) * POINTS // steps:
            curve.append([step, float(np.mean(since))])
            since = []
    seconds = time.perf_counter() - begin
    return Trained(model, curve, seconds, 1000 * float(np.median(durations)) if durations else 0.0)


def rate(step: int, steps: int, warmup: int) -> float:
    """The learning rate's factor."""
    if step <= warmup:
        return step / warmup
    done = (step - warmup) / max(1, steps - warmup)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * done))


def _step(model: Transformer, batch: Batch, optimiser: torch.optim.Optimizer, clip: float) -> float:
    optimiser.zero_grad(set_to_none=True)
    loss = loss_of(model(torch.from_numpy(batch.tokens)), torch.from_numpy(batch.targets))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimiser.step()
    model.clamp()
    return float(loss.detach())


def trained(
    setting: Setting,
    folder: Path,
    build: Callable[[Setting], Any] = build,
    given: Callable[[Setting], Iterator[Any]] | None = None,
) -> Trained:
    """The setting's model, trained, and kept in the folder under the setting's key, so that it is trained once.

    build: what makes the model; given: what makes its batches, the task's own if it is left out.
    """
    given = given or (lambda of: batches(TASKS[of.task], of))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{setting.key}.pt"
    with open(folder / f"{setting.key}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be training it
        if not path.exists():
            found = train(build(setting), given(setting), setting)
            part = path.with_suffix(f".{os.getpid()}")
            torch.save({"model": found.model.state_dict(), "record": found[1:]}, part)
            part.replace(path)
            return found
    kept = torch.load(path)
    model = build(setting)
    model.load_state_dict(kept["model"])
    return Trained(model, *kept["record"])


def run(setting: Setting, folder: Path, device: str = "cpu") -> dict[str, Any]:
    """A row: the setting's model is trained, and measured at every multiple of its length."""
    task = TASKS[setting.task]
    model = build(setting) if device == "cpu" else through_pytorch(build(setting), device)
    found = train(model, batches(task, setting), setting)
    measures, beyond = measure(found.model, task, setting, generator(setting.seed, "measuring"))
    sample = task.batch(generator(setting.seed, "timing"), setting.batch, setting.length, False)
    return row_of(setting, found, measures, beyond, attention_share(found.model, sample, loss_of))


def row_of(
    setting: Setting, found: Trained, measures: dict[str, Any], beyond: dict[str, str], share: float
) -> dict[str, Any]:
    """A row of the results' file."""
    return {
        "key": setting.key,
        "setting": setting.to_dict(),
        "measures": measures,
        "beyond": beyond,
        "training": [[int(step), round(loss, 4)] for step, loss in found.curve],
        "seconds": round(found.seconds, 2),
        "step_ms": round(found.step_ms, 2),
        "attention_share": round(share, 3),
        "parameters": parameters(found.model),
        "bearing": bearing.__version__,
        "torch": torch.__version__,
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
    }


@functools.cache
def machine() -> str:
    """The processor, and how many threads a run had."""
    threads = torch.get_num_threads()
    name = "unknown processor"
    with open("/proc/cpuinfo") if os.path.exists("/proc/cpuinfo") else open(os.devnull) as lines:
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    return f"{name}, {threads} thread{'s' if threads > 1 else ''}"
