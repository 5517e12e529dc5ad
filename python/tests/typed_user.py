"""What users write, as a strict type checker reads it: test_package.py checks and runs it.

Where a call is wrong, the checker must say so: an `ignore` that it does not need is an error.
"""

from __future__ import annotations

import sys
from pathlib import Path

import bearing
import bearing.jax
import bearing.plot
import numpy as np
from numpy.typing import NDArray

# Specs.
rope = bearing.Rope(head_dim=16, base=500_000, pairing="half", scaling=bearing.LinearScaling(factor=2.0))
longer: bearing.Rope = rope.replace(base=1e6)
assert bearing.Rope.from_dict(rope.to_dict()) == rope != longer
pairing: str = rope.pairing
slopes: tuple[float, ...] = bearing.Alibi.published(2).slopes
axes = bearing.RopeAxes.sections([2, 3, 3])


def refused() -> None:
    bearing.Rope(head_dim=16)  # type: ignore[call-arg]
    bearing.Rope(head_dim=16, pairing="halves")  # type: ignore[arg-type]
    bearing.T5(direction="both")  # type: ignore[arg-type]
    bearing.attention(q, k, v)  # type: ignore[call-arg]
    bearing.rotate(rope.scaling, q)  # type: ignore[call-overload]
    rope.base = 1e4  # type: ignore[misc]
    bearing.check("t5", length="8")  # type: ignore[arg-type]
    bearing.jax.swin_v2_tabel(1)  # type: ignore[attr-defined]
    bearing.plot.portrait("rope")  # type: ignore[attr-defined]
    bearing.plot.curves("rope", dim="8")  # type: ignore[arg-type]
    bearing.figure("curves", "rope", colour=3)  # type: ignore[call-arg]
    bearing.roate(table, q)  # type: ignore[attr-defined]


# Rotations.
rng = np.random.default_rng(0)
q, k, v = (rng.standard_normal((1, 2, 8, 16), dtype=np.float32) for _ in range(3))
table = bearing.RopeTable(rope, 64, memory="full")
bearing.rotate(table, q, k, None)
bearing.rotate(table, q, np.arange(8), layout="bhtd", threads=1)
turned: NDArray[np.float32] = bearing.rotate_to(table, q, 3)
wavelengths: NDArray[np.float64] = table.frequencies.wavelengths

# Encodings and attention.
bias = bearing.T5Bias(bearing.T5(direction="causal"), np.zeros((32, 2), np.float32))
encodings: list[bearing.Encoding] = [bearing.RotaryRows(table), bias]
out, lse = bearing.attention(q, k, v, encodings, mask="causal", window=(4, 0), return_lse=True)
gradients = bearing.attention_backward(q, k, v, out, lse, np.ones_like(out), encodings, mask="causal", window=(4, 0))
assert gradients[3][1]["table"].shape == (32, 2)
scores: NDArray[np.float32] = bearing.bias_matrix(bias, heads=2, q_len=4, k_len=4)

# Inspection.
report: list[bearing.Property] = bearing.check("alibi", length=64)
report += bearing.check(rope, heads=1, length=16)
verdicts: dict[str, str] = {one.name: one.verdict for one in report}
decays: bool = bearing.decay(bearing.rotation_similarity(table, 64)).decays

# Pictures.
picture: bearing.Figure = bearing.figure("curves", "sinusoidal", rope, length=32)
heights: NDArray[np.float64] = picture.panels[0].series[0].y
takes: dict[str, tuple[str, ...]] = {kind.name: kind.takes for kind in bearing.figure_kinds()}
bearing.plot.curves(rope, dims=[0, 1], ax=bearing.plot.draw(picture)[0])

# Files of bearing.jax.layers.
network = bearing.jax.swin_v2_table(
    bearing.SwinV2(window=bearing.Swin(height=2, width=2)), *(np.ones(s) for s in ((4, 2), 4, (2, 4)))
)
assert network.shape == (9, 2)

# Model files.
try:
    model: bearing.Model = bearing.read_hf_config(Path(sys.argv[1]))
    layers: int = len(model.layers)
    bearing.Rope.from_config({"model_type": "unheard of"})
except (bearing.ConfigError, OSError) as error:
    text: str = str(error)
