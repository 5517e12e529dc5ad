"""Modules of query and key rows: called with queries and keys, they give both turned."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from .. import _core
from .base import Described
from .encoding import Encoding, form_of, grouped, spec_of_table, table_form
from .functional import Layout, Positions, rotate, turn


class Rope(nn.Module):
    """RoPE: a spec and its table of cos and sin, which nothing learns and no state_dict holds.

    ``q, k = rope(q, k)``, or give it to :func:`bearing.torch.rotate` or :class:`bearing.torch.Attention`. length: how
    many rows of the table are kept; others are computed when they are needed. angles: "exact", or "as_float32" for the
    float32 order of operations that Hugging Face's models were trained with. seq_len: for dynamic NTK and LongRoPE.

    Su et al. 2021, arXiv 2104.09864.
    """

    def __init__(self, rope: _core.Rope, length: int = 2048, *, angles: str = "exact", seq_len: int = 0) -> None:
        super().__init__()
        self.table = table_form(rope, length, angles, seq_len)
        self.form = form_of("RotaryRows", table=self.table)

    @classmethod
    def from_config(cls, config: Any, length: int = 2048, *, layer: int | None = None, **options: Any) -> Rope:
        """The encoding of a Hugging Face model: a config.json's path, its members, or transformers' own object."""
        return cls(_core.Rope.from_config(config, layer), length, **options)

    @property
    def spec(self) -> _core.Rope:
        """The spec that it was made from."""
        return spec_of_table(self.table)

    def encoding(self) -> Encoding:
        """RoPE as one of attention's encodings: the same numbers, rotated inside."""
        return Encoding(self.form)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        q_positions: Positions = None,
        k_positions: Positions = None,
        *,
        layout: Layout = "bhtd",
    ) -> tuple[Tensor, Tensor]:
        """q and k [batch, heads, time, head_dim], rotated; keys stand where queries do if k_positions is left out."""
        if k_positions is None or k_positions is q_positions:
            return rotate(q, k, rope=self.table, positions=q_positions, layout=layout)
        turned = rotate(q, rope=self.table, positions=q_positions, layout=layout)
        return turned, rotate(k, rope=self.table, positions=k_positions, layout=layout)

    def extra_repr(self) -> str:
        return repr(self.spec)


class Rows(Described):
    """An encoding of rows with parameters: ``sets`` of them, shared evenly by the heads.

    With grouped queries there are as many sets as key heads, or fewer.
    """

    def __init__(self, kind: str, spec: Any, sets: int, **settings: Any) -> None:
        super().__init__(kind, spec, settings=settings, sets=sets)
        self.sets = sets

    def encoding(self, heads: int | None = None) -> Encoding:
        """For that many heads: as many as there are sets if it is left out."""
        one = super().encoding()
        return one if heads is None else Encoding(grouped(one.form, int(heads // self.sets)), one.tensors)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        q_positions: Positions = None,
        k_positions: Positions = None,
        *,
        layout: Layout = "bhtd",
    ) -> tuple[Tensor, Tensor]:
        """q and k [batch, heads, time, head_dim], turned; keys stand where queries do if k_positions is left out."""
        k_positions = q_positions if k_positions is None else k_positions
        axis = 2 if layout == "bthd" else 1
        q_turned = turn(self.encoding(q.shape[axis]), q, q_positions, side="query", layout=layout)
        return q_turned, turn(self.encoding(k.shape[axis]), k, k_positions, side="key", layout=layout)


class Xpos(Rows):
    """xPos: RoPE whose queries shrink and keys grow with their positions, so that scores fall with the distance.

    ``q, k = xpos(q, k)``. Nothing to learn; the same for all heads. length: how many rows of the tables are kept.
    Positions must stay near ``spec.centre``: factors beyond 2^100 raise RangeError.

    Sun et al. 2022, arXiv 2212.10554.
    """

    def __init__(self, spec: _core.Xpos, length: int = 2048) -> None:
        super().__init__("XposRows", spec, 1, length=length)


class RopeMixed(Rows):
    """RoPE-Mixed: frequencies [axes, sets, head_dim/2], in which all coordinates of a position share.

    Starts as in the authors' code, for two axes: in directions drawn per head. For other numbers of axes: as RoPE's on
    each axis.

    Heo, Park, Han, Yun 2024, arXiv 2403.13298.
    """

    def __init__(self, spec: _core.RopeMixed, heads: int, base: float = 10.0) -> None:
        super().__init__("RopeMixedRows", spec, heads)
        self.base = base
        if base != 10.0:
            self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        self.frequencies.copy_(_mixed_frequencies(self.spec, self.sets, self.base))


def _mixed_frequencies(spec: _core.RopeMixed, heads: int, base: float) -> Tensor:
    if spec.axes == 2:
        seed = int(torch.randint(2**62, (), device="cpu"))
        return torch.as_tensor(_core.rope_mixed_frequencies(spec, heads, seed, base)).float()
    pairs = spec.head_dim // 2
    return (base ** (-torch.arange(pairs) / pairs)).expand(spec.axes, heads, pairs).clone()


class CayleyString(Rows):
    """Cayley-STRING: RoPE-Mixed in a learned basis. skew [sets, head_dim (head_dim - 1)/2] starts at 0: the basis that
    there is.

    Schenck et al. 2025, arXiv 2502.02562.
    """

    def __init__(self, spec: _core.CayleyString, heads: int, base: float = 10.0) -> None:
        super().__init__("CayleyStringRows", spec, heads)
        self.base = base
        if base != 10.0:
            self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        self.frequencies.copy_(_mixed_frequencies(self.spec.rope, self.sets, self.base))
        self.skew.zero_()


class CirculantString(Rows):
    """Circulant-STRING: c [axes, sets, head_dim], of which the odd part matters; starts normal, of deviation std.

    Schenck et al. 2025, arXiv 2502.02562.
    """

    def __init__(self, spec: _core.CirculantString, heads: int, std: float = 0.02) -> None:
        super().__init__("CirculantStringRows", spec, heads)
        self.std = std
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.c, 0, self.std)


class LieRope(Rows):
    """LieRE: generators [sets, axes, head_dim/block, block (block - 1)/2], uniform in [0, 2 pi), the authors' start.

    Ostmeier et al. 2024, arXiv 2406.10322.
    """

    def __init__(self, spec: _core.LieRope, heads: int) -> None:
        super().__init__("LieRopeRows", spec, heads)


class Fope(Rows):
    """FoPE: Fourier coefficients cos, sin [sets, kept, kept], one set per key head.

    They start at the identity, which is RoPE, plus Glorot-normal numbers times gain.

    Hua et al. 2024, arXiv 2412.17739.
    """

    def __init__(self, spec: _core.Fope, heads: int, gain: float = 0.3) -> None:
        super().__init__("FopeRows", spec, heads)
        self.gain = gain
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        kept = self.cos.shape[-1]
        for coefficients in (self.cos, self.sin):
            coefficients.normal_(0, self.gain / math.sqrt(kept)).add_(torch.eye(kept, device=coefficients.device))


class Pope(Rows):
    """PoPE: rows [head_dim] become [2 head_dim]; offsets [sets, head_dim] turn keys, held within [-2 pi, 0], from 0 on.

    Gopalakrishnan, Csordas, Schmidhuber, Mozer 2025, arXiv 2509.10534.
    """

    def __init__(self, spec: _core.Pope, heads: int) -> None:
        super().__init__("PopeRows", spec, heads)
