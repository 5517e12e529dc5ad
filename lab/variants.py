"""How positions are given in training: models around a model, called with tokens alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

PIECES = 4  # a packed row is cut into one to so many
SPREAD = 2  # random positions come from so many times what is measured


class Variant(nn.Module):
    """A model whose positions are drawn. The draws of a seed are the same each time training or measuring begins."""

    def __init__(self, model: nn.Module, seed: int) -> None:
        super().__init__()
        self.model, self.seed = model, seed
        self.random = torch.Generator()

    def train(self, mode: bool = True) -> Variant:
        self.random.manual_seed(2 * self.seed + mode)
        return super().train(mode)

    def __getattr__(self, name: str) -> Any:
        """What else is asked of the model, such as its blocks."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("model"), name)


class RandomPositions(Variant):
    """Tokens stand at random places in their order, drawn evenly from a range that is longer than what is measured.

    A place is drawn at most once; a batch's rows share their places. Measuring draws as training does, as the authors'
    code has it: no length brings a place that was not seen.

    Ruoss et al. 2023, arXiv 2305.16843.
    """

    def __init__(self, model: nn.Module, seed: int, longest: int) -> None:
        super().__init__(model, seed)
        self.range = SPREAD * longest

    def forward(self, tokens: Tensor) -> Tensor:
        time = tokens.shape[1]
        if time > self.range:
            raise ValueError(f"[RandomPositions] tokens: must be at most {self.range} long, got {time}")
        at = torch.randperm(self.range, generator=self.random)[:time].sort().values
        return self.model(tokens, at[None])


class Packed(Variant):
    """Training's rows are cut into pieces at random places; a piece counts its places from 0 and sees itself alone.

    So are short documents packed to rows of one length. A row has one to four pieces; what is measured is not cut.
    """

    def forward(self, tokens: Tensor) -> Tensor:
        if not self.training:
            return self.model(tokens)
        rows, time = tokens.shape
        starts = self._starts(rows, time)
        at = torch.arange(rows * time)
        first = starts[torch.searchsorted(starts, at, right=True) - 1]
        return self.model(tokens.reshape(1, -1), (at - first)[None], q_starts=starts, k_starts=starts).view(
            rows, time, -1
        )

    def _starts(self, rows: int, time: int) -> Tensor:
        """Where pieces begin when the rows stand behind each other, and where the last one ends."""
        pieces = torch.randint(1, PIECES + 1, (rows,), generator=self.random)
        cuts = torch.randint(0, time, (rows, PIECES - 1), generator=self.random)
        cuts[torch.arange(PIECES - 1) >= pieces[:, None] - 1] = 0  # cut where the row begins anyway
        begin = time * torch.arange(rows + 1)
        return torch.unique(torch.cat((begin, (begin[:-1, None] + cuts).flatten())))
