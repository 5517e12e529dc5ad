"""A step with bearing's attention and with PyTorch's own, side by side."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .attending import through_pytorch
from .grid import base_of
from .tasks import TASKS
from .timing import attention_share, step_ms
from .training import build, generator, loss_of


def show(preset: str, encodings: Sequence[str]) -> None:
    """Prints a table: forward and backward of the whole model on a batch of text, at the trained length and at four times
    that. PyTorch's kernel gets turned rows, and biases as a matrix."""
    print(f"ms for a step without the optimiser, {torch.get_num_threads()} threads, model {preset}")
    print(f"{'encoding':24}{'length':>8}{'bearing':>10}{'PyTorch':>10}{'attention’s share':>20}")
    for encoding in encodings:
        for factor in (1, 4):
            base = base_of(preset, "text", "text", {"encoding": encoding})
            setting = base.replace(length=base.length * factor, batch=max(1, base.batch // factor), multiples=(1,))
            batch = TASKS["text"].batch(generator(0, "speed"), setting.batch, setting.length, False)
            model = build(setting)
            share, own = attention_share(model, batch, loss_of), step_ms(model, batch, loss_of)
            other = step_ms(through_pytorch(build(setting)), batch, loss_of)
            print(f"{encoding:24}{setting.length:8}{own:10.1f}{other:10.1f}{share:19.0%}")
