"""What tests of bearing.load() share: a small model of transformers in a folder, and its own numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import bearing
import numpy as np
import torch

SMALL = {"vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 16}
LEARNED = ("bias", "position", "distance", "rel_", "proj", "scale", "pe_k", "box")


def save(folder: Path, model_class: Any, config: Any, **options: Any) -> Any:
    """A model whose tables are drawn: tables that start at 0 would equal anything."""
    torch.manual_seed(1)
    model = model_class(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if any(word in name for word in LEARNED):
                parameter.normal_()
    model.save_pretrained(folder, **options)
    return model


def write(folder: Path, config: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    (folder / "config.json").write_text(json.dumps(config))
    bearing.write_safetensors(folder / "model.safetensors", tensors)


def change(folder: Path, **members: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | members))


def rows_of(encoding: Any, count: int) -> np.ndarray:
    return np.asarray(bearing.inputs(encoding, 0, count))


def equal(ours: Any, theirs: torch.Tensor) -> None:
    np.testing.assert_array_equal(np.asarray(ours), theirs.detach().numpy())
