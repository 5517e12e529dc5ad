"""Modules of the input: called with x [batch, time, dim], they give x + p."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import _core
from .base import EncodingModule, empty, normal
from .encoding import Encoding
from .functional import Positions, add


class Input(EncodingModule):
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
        super().__init__("LearnedInputs", spec, ["table"])
        self.table = empty(spec.rows(), spec.dim)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        normal(self.table)
        padding = self.spec.padding_row
        if padding is not None:
            self.table[padding] = 0

    def encoding(self) -> Encoding:
        return Encoding(self.form, (self.table,))


class Sinusoidal(Input):
    """Sinusoids; scale and frequencies may be learned.

    The learned scale starts at dim^-1/2, as in x-transformers, frequencies at the spec's.

    Vaswani et al. 2017, arXiv 1706.03762.
    """

    def __init__(self, spec: _core.Sinusoidal, *, learn_scale: bool = False, learn_frequencies: bool = False) -> None:
        names = [name for name, wanted in (("scale", learn_scale), ("frequencies", learn_frequencies)) if wanted]
        super().__init__("SinusoidalInputs", spec, names)
        self.scale = empty(1) if learn_scale else None
        self.frequencies = empty(len(_core.sinusoidal_frequencies(spec))) if learn_frequencies else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        if self.scale is not None:
            self.scale.fill_(self.spec.dim**-0.5)
        if self.frequencies is not None:
            self.frequencies.copy_(torch.tensor(list(_core.sinusoidal_frequencies(self.spec))))

    def encoding(self) -> Encoding:
        return Encoding(self.form, tuple(p for p in (self.scale, self.frequencies) if p is not None))
