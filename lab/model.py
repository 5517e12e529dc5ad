"""The transformer of the lab: the same for every encoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bearing.torch as bt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .positions import Place, Positions, make
from .setting import Setting
from .task import PAD

Make = Callable[[str, Place, int], Positions]


class Block(nn.Module):
    """Attention, then a network of four times the width, each behind a LayerNorm and added to what comes in."""

    def __init__(self, setting: Setting, scale: float | None) -> None:
        super().__init__()
        width, mask = setting.d_model, "causal" if setting.kind == "causal" else "none"
        self.attention_norm, self.network_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = bt.MultiHeadAttention(width, setting.heads, mask=mask, scale=scale)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor, layer: Any, **given: Any) -> Tensor:
        """layer: what says this layer's encodings."""
        y = self.attention_norm(x)
        x = x + self.attention(y, more=layer.encodings(y), **given)
        return x + self.down(F.gelu(self.up(self.network_norm(x))))


class Blocks(nn.Module):
    """The stack without tokens: x [batch, time, d_model] -> the same, normalised. The encoding is in it.

    Weights of a seed are the same whatever the encoding: they are drawn before its parameters.
    make: what makes the encoding of a place and a number of layers.
    """

    def __init__(self, setting: Setting, place: Place, make: Make = make) -> None:
        super().__init__()
        scale = make(setting.encoding, place, 1).scale
        self.blocks = nn.ModuleList(Block(setting, scale) for _ in range(setting.layers))
        self.norm = nn.LayerNorm(setting.d_model)
        torch.manual_seed(setting.seed)
        for block in self.blocks:
            _draw(block, setting.layers)
        torch.manual_seed(setting.seed + 2**32)
        self.positions = make(setting.encoding, place, setting.layers)

    def forward(self, x: Tensor, positions: Any = None, **given: Any) -> Tensor:
        """positions: [time], [batch, time] or [axes, batch, time]; given: what attention takes besides, such as q_starts."""
        x = self.positions(x, positions)
        if positions is not None:
            given |= {"q_positions": positions, "k_positions": positions}
        for block, layer in zip(self.blocks, self.positions.layers, strict=True):
            x = block(x, layer, **given)
        return self.norm(x)

    @torch.no_grad()
    def clamp(self) -> None:
        """After a step of the optimiser: holds parameters where their encoding wants them."""
        for module in self.positions.modules():
            if hasattr(module, "clamp"):
                module.clamp()


class Transformer(nn.Module):
    """Tokens to logits. The table of tokens serves both ends; rows that come in are multiplied by √d_model, as in Vaswani
    et al. 2017, so that they are as large as what encodings of the input add."""

    def __init__(self, setting: Setting, vocabulary: int, place: Place) -> None:
        super().__init__()
        self.blocks = Blocks(setting, place)
        generator = torch.Generator().manual_seed(setting.seed)
        start = torch.randn(vocabulary, setting.d_model, generator=generator) * setting.d_model**-0.5
        self.tokens = nn.Parameter(start)
        self.sees_all = setting.kind == "encoder"

    def forward(self, tokens: Tensor, positions: Any = None, **given: Any) -> Tensor:
        """tokens [batch, time] -> [batch, time, vocabulary]; the rest as in :class:`Blocks`. An encoder sees no pads."""
        if self.sees_all:
            given |= {"k_lengths": (tokens != PAD).sum(1)}
        x = F.embedding(tokens.to(self.tokens.device), self.tokens) * self.tokens.shape[1] ** 0.5
        return self.blocks(x, positions, **given) @ self.tokens.T

    def clamp(self) -> None:
        self.blocks.clamp()


@torch.no_grad()
def _draw(block: Block, layers: int) -> None:
    """Weights as large as keep the size of what comes in; those that are added to the stream share it out."""
    attention = block.attention
    for linear in (attention.q, attention.k, attention.v, block.up):
        nn.init.normal_(linear.weight, std=linear.in_features**-0.5)
    for linear in (attention.out, block.down):
        nn.init.normal_(linear.weight, std=(2 * layers * linear.in_features) ** -0.5)


def place_of(setting: Setting, trained: int, longest: int) -> Place:
    """The place of an encoding in the setting's model; lengths in tokens."""
    return Place(setting.heads, setting.head_dim, setting.d_model, trained, longest)


def parameters(model: nn.Module) -> int:
    """How many numbers are learned."""
    return sum(one.numel() for one in model.parameters())
