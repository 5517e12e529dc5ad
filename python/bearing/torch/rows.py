"""RoPE and xPos as modules. Called with queries and keys, they return both turned."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor

from .. import _core
from .base import EncodingModule, Rows, check_spec
from .compiling import constant_of
from .encoding import FIXED_POINT, Encoding, form_of, spec_of_table, table_form
from .functional import Layout, Positions, rotate
from .given_numbers import whole_number
from .words import in_words_of

ANGLES = ("exact", "as_float32", FIXED_POINT)


class Rope(EncodingModule):
    """RoPE: a spec and its table of cos and sin. Nothing is learned, and no state_dict holds the table.

    ``q, k = rope(q, k)``, or give it to :func:`bearing.torch.rotate` or :class:`bearing.torch.Attention`.

    rope: a ``bearing.Rope``.
    length: how many rows of the table are kept, also on a GPU; other rows are computed when they are needed.
    angles: "exact", or "as_float32" for the float32 order of operations that Hugging Face's models were trained with.
        "fixed_point" is "exact" on the CPU. On a GPU it makes cosines and sines of float32 by whole numbers, each within
        one ulp of the exact one: without table and float64, which many GPUs are slow at. float64 stays exact.
    seq_len: how many tokens the frequencies serve. Dynamic NTK and LongRoPE, whose frequencies depend on it, need it;
        for others it may be left out.

    Raises what ``bearing.RopeTable`` raises of a spec that has no frequencies, or none without seq_len.

    Su et al. 2021, arXiv 2104.09864.
    """

    def __init__(self, rope: _core.Rope, length: int = 2048, *, angles: str = "exact", seq_len: int = 0) -> None:
        super(EncodingModule, self).__init__()
        if not isinstance(rope, _core.Rope):
            raise TypeError(f"[Rope] rope: must be a bearing.Rope, got {rope!r}")
        length, seq_len = whole_number("Rope", "length", length), whole_number("Rope", "seq_len", seq_len)
        if not isinstance(angles, str) or angles not in ANGLES:
            raise ValueError(f"[Rope] angles: must be one of {', '.join(map(repr, ANGLES))}, got {angles!r}")
        texts = _constant_texts if torch.compiler.is_compiling() else _texts
        self.table, self.form = texts(rope, length, angles, seq_len)

    @classmethod
    def from_config(cls, config: Any, *, layer: int | None = None, length: int = 2048, **options: Any) -> Rope:
        """Makes the rotary encoding of a Hugging Face model.

        config: the path of a config.json, its members in a dictionary, or transformers' own config object.
        layer: the layer whose encoding it is, by its name alone; None if all rotary layers have the same.
        length: how many rows of the table are kept, by its name alone.
        options: other arguments of the constructor.

        Raises ConfigError for a model without a rotary encoding, or with several different ones if no layer is given.
        """
        return cls(_core.Rope.from_config(config, layer), length, **options)

    @property
    def spec(self) -> _core.Rope:
        """The spec that the module was made from."""
        return spec_of_table(self.table)

    def encoding(self) -> Encoding:
        """Returns RoPE as an encoding for attention, which then rotates queries and keys with the same numbers."""
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
        """Returns q and k [batch, heads, time, head_dim], both rotated.

        q_positions: where queries stand, as :func:`bearing.torch.attention` takes positions.
        k_positions: where keys stand; where the queries stand if it is left out.
        layout: 'bhtd', or 'bthd' for tensors with time before heads.
        """
        if k_positions is None or k_positions is q_positions:
            return rotate(q, k, rope=self.table, positions=q_positions, layout=layout)
        turned = rotate(q, rope=self.table, positions=q_positions, layout=layout)
        return turned, rotate(k, rope=self.table, positions=k_positions, layout=layout)

    def extra_repr(self) -> str:
        return repr(self.spec)


def _texts(rope: _core.Rope, length: int, angles: str, seq_len: int) -> tuple[str, str]:
    """The texts of the table and of the encoding, of a spec that has frequencies."""
    in_words_of("Rope", "RopeTable", "resolve")(_core.RopeTable)(rope, 0, seq_len=seq_len)
    table = table_form(rope, length, angles, seq_len)
    return table, form_of("RotaryRows", table=table)


_constant_texts = constant_of(_texts)


class Xpos(Rows):
    """xPos: RoPE whose queries shrink and whose keys grow with their positions, so that scores fall with the distance.

    ``q, k = xpos(q, k)``. Nothing is learned; all heads turn alike.

    spec: a ``bearing.Xpos``.
    length: how many rows of the tables are kept.
    seq_len: how many tokens the frequencies serve. Dynamic NTK and LongRoPE, whose frequencies depend on it, need it;
        for others it may be left out.

    Positions must stay near ``spec.centre``: a factor beyond 2^100 raises RangeError, and so does a spec whose
    frequencies depend on the length without seq_len.

    Sun et al. 2022, arXiv 2212.10554.
    """

    def __init__(self, spec: _core.Xpos, length: int = 2048, *, seq_len: int = 0) -> None:
        length, seq_len = whole_number("Xpos", "length", length), whole_number("Xpos", "seq_len", seq_len)
        check_spec("XposRows", spec, called="Xpos")
        super().__init__("XposRows", of_one_length(spec, seq_len), settings={"length": length})
        self._given, self.sets = json.dumps(spec.to_dict()), 1

    @property
    def spec(self) -> _core.Xpos:
        """The spec that the module was made from."""
        return _core.Xpos.from_dict(json.loads(self._given))


def of_one_length(spec: _core.Xpos, seq_len: int) -> _core.Xpos:
    """The spec with frequencies that are the same at every length, those of seq_len if they depend on it."""
    if not _core.depends_on_length(spec.rope.scaling):
        return spec
    frequencies = in_words_of("Xpos", "RopeTable", "resolve")(_core.RopeTable)(
        spec.rope, 0, seq_len=seq_len
    ).frequencies
    explicit = _core.ExplicitFrequencies(inv_freq=frequencies.inv_freq.tolist())
    rope = spec.rope.replace(
        scaling=explicit,
        attention_factor=frequencies.attention_factor,
        log_factors=(),  # which the frequencies have in them
    )
    return spec.replace(rope=rope)
