"""What users of PyTorch write, as a strict type checker reads it: test_package.py checks and runs it.

Where a call is wrong, the checker must say so: an `ignore` that it does not need is an error.
"""

from __future__ import annotations

import bearing
import bearing.torch as bt
import torch
from torch import Tensor

kerple = bt.Kerple(bearing.Kerple(form="power"), 8)
kerple.clamp()
shaw: bt.Described = bt.Shaw(bearing.Shaw(clip=4), 16, values=False)
t5 = bt.T5Bias(bearing.T5(direction="causal"), heads=8, d_model=512)
table: Tensor = t5.table
bias: Tensor = t5(4, 4)
alibi = bt.Alibi(8, form="causal", device="cpu", dtype=torch.bfloat16)
rows = bt.RopeMixed(bearing.RopeMixed(head_dim=8, axes=2, pairing="half"), 4, base=100.0)
q, k = rows(torch.zeros(1, 4, 2, 8), torch.zeros(1, 4, 2, 8), torch.zeros(2, 1, 2))
segments = bt.XlnetSegments(4, 8)
given: bt.Encoding = segments.encoding(torch.zeros(1, 2), torch.zeros(1, 2))
fire = bt.Fire(bearing.Fire(), 8, device=torch.device("cpu"), dtype=torch.float32)
layer = bt.MultiHeadAttention(64, 8, [t5, kerple, fire], mask="causal")
modifier: bt.ScoreMod = bt.score_mod([t5, alibi])


def refused() -> None:
    bt.Kerple(bearing.Kerple(form="power"))  # type: ignore[call-arg]
    bt.T5Bias(bearing.Kerple(form="power"), 8)  # type: ignore[arg-type]
    bt.Alibi(8, form="both")  # type: ignore[arg-type]
    bt.Alibi(8, dtype="float32")  # type: ignore[arg-type]
    bt.Kerpel(8)  # type: ignore[attr-defined]
