"""Modules of the input: called with x [batch, time, dim], they give x + p."""

from __future__ import annotations

from torch import Tensor

from .. import _core
from .base import Described
from .functional import Positions, add


class Input(Described):
    """An encoding of the input."""

    def forward(self, x: Tensor, positions: Positions = None) -> Tensor:
        """x [batch, time, dim] plus the positions' rows; x itself is not changed."""
        return add(self, x, positions)


class LearnedPositions(Input):
    """A learned row for every position: table [length + offset, dim].

    Starts normal, of standard deviation 0.02, as in BERT and GPT-2; the row of padding at 0. A position without a row
    raises RangeError.

    Gehring et al. 2017, arXiv 1705.03122; BERT, GPT-2, ViT.
    """

    def __init__(self, spec: _core.Learned) -> None:
        super().__init__("LearnedInputs", spec)


class Sinusoidal(Input):
    """Sinusoids; scale and frequencies may be learned.

    The learned scale starts at dim^-1/2, as in x-transformers, frequencies at the spec's.

    Vaswani et al. 2017, arXiv 1706.03762.
    """

    def __init__(self, spec: _core.Sinusoidal, *, learn_scale: bool = False, learn_frequencies: bool = False) -> None:
        wanted = {"scale": learn_scale, "frequencies": learn_frequencies}
        super().__init__("SinusoidalInputs", spec, without=[name for name, one in wanted.items() if not one])
