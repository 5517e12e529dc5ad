"""LeRoPE: RoPE whose frequencies are learned by their factors, as angles that the model gives."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ... import _core
from ..base import Device, EncodingModule, empty, placement
from ..encoding import Encoding, with_past
from ..words import in_words_of

__all__ = ["LeRope"]


class LeRope(EncodingModule):
    """LeRoPE: the frequency of each pair is multiplied by e^alpha, and alpha is learned.

    ``encoding(positions)`` takes the positions of the tokens, a tensor [time], [batch, time] or [axes, batch, time], or
    the number of tokens 0, 1, 2, …, and gives attention RoPE at the frequencies as they are now. A gradient goes back
    to alpha. To decode, give the keys' positions, or how many keys a cache has room for, and ``past``: how many tokens
    come before the first query, or None for a cache that is longer than what is filled, where rows turn by the angles of
    the tokens that their positions name.

    rope: the spec whose frequencies alpha multiplies, after their scaling; its own ``log_factors`` are where alpha
        starts, 0 if it has none.
    seq_len: how many tokens the frequencies serve, for dynamic NTK and LongRoPE; 0 for the trained length.
    device, dtype: where alpha is made, and of which type.

    Parameter: log_factors [pairs], the alpha of the paper and of a checkpoint's tensor ``lerope.alpha``. After training
    :attr:`rope` is a plain spec again, for ``bearing.torch.Rope`` and for a model's file.

    Raises ValueError for a spec with an attention factor other than 1, with which logits would be multiplied, and for
    halves of each axis' block.

    Mistral Large 4; arXiv 2607.10134.
    """

    def __init__(
        self, rope: _core.Rope, *, seq_len: int = 0, device: Device = None, dtype: torch.dtype | None = None
    ) -> None:
        if not isinstance(rope, _core.Rope):
            raise TypeError(f"[LeRope] rope: must be a bearing.Rope, got {rope!r}")
        placed = placement("LeRope", device, dtype)
        plain = rope.replace(log_factors=[])
        frequencies = in_words_of("LeRope", "resolve")(_core.resolve)(plain, seq_len)
        if frequencies.attention_factor != 1:
            raise ValueError(
                "[LeRope] rope: must have an attention factor of 1 (YarnScaling's attention_factor says so), got "
                f"{frequencies.attention_factor}"
            )
        if frequencies.blocks:
            raise ValueError("[LeRope] rope: must halve the whole head, got halves of each axis")
        part = _core.RotaryPart(where="window", begin=frequencies.begin)
        angles = _core.GivenAngles(
            head_dim=rope.head_dim, rotary_dim=frequencies.rotary_dim, pairing=rope.pairing, part=part
        )
        super().__init__("AngleRows", angles, ["angles"], group=1, past=0)
        self._members = plain.to_dict()
        self._start = tuple(rope.log_factors) or (0.0,) * len(frequencies.inv_freq)
        self._inv_freq, self._axis = tuple(frequencies.inv_freq.tolist()), tuple(frequencies.axis)
        self.log_factors = empty(len(self._start), **placed)
        self._fill()

    @torch.no_grad()
    def _fill(self) -> None:
        self.log_factors.copy_(torch.tensor(self._start, dtype=torch.float64))

    @property
    def rope(self) -> _core.Rope:
        """RoPE with alpha as it is now, a plain spec."""
        return _core.Rope.from_dict(self._members).replace(log_factors=self.log_factors.detach().double().tolist())

    def angles(self, positions: Tensor | int) -> Tensor:
        """Returns the angles [batch or 1, 1, time, pairs] of tokens at these positions, within a turn of 0."""
        at = torch.arange(positions, device=self.log_factors.device) if isinstance(positions, int) else positions
        at = at.double().reshape((1,) * (3 - at.dim()) + tuple(at.shape))
        axes = [min(axis, at.shape[0] - 1) for axis in self._axis]
        frequencies = (
            torch.tensor(self._inv_freq, dtype=torch.float64, device=at.device) * self.log_factors.double().exp()
        )
        turned = at[axes].permute(1, 2, 0) * frequencies
        # In float32 a large angle would lose what lies within a turn.
        return torch.remainder(turned, 2 * math.pi).unsqueeze(1)

    def encoding(self, positions: Tensor | int, past: int | None = 0) -> Encoding:
        """Returns RoPE at the frequencies as they are now, for one call of attention.

        positions: of the tokens, a tensor [time], [batch, time] or [axes, batch, time], or their number.
        past: how many tokens come before the first query, or None for a cache that is longer than what is filled.
        """
        return Encoding(with_past(self.form, past), (self.angles(positions),))

    def extra_repr(self) -> str:
        return repr(_core.Rope.from_dict(self._members))
