"""RoPE and xPos as modules: called with queries and keys, they give both turned."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from .. import _core
from .base import Rows
from .encoding import Encoding, form_of, spec_of_table, table_form
from .functional import Layout, Positions, rotate


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


class Xpos(Rows):
    """xPos: RoPE whose queries shrink and keys grow with their positions, so that scores fall with the distance.

    ``q, k = xpos(q, k)``. Nothing to learn; the same for all heads. length: how many rows of the tables are kept.
    Positions must stay near ``spec.centre``: factors beyond 2^100 raise RangeError.

    Sun et al. 2022, arXiv 2212.10554.
    """

    def __init__(self, spec: _core.Xpos, length: int = 2048) -> None:
        super().__init__("XposRows", spec, settings={"length": length})
        self.sets = 1
