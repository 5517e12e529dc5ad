"""A call of attention on a GPU, made ready: rows turned, tensors checked and laid out, the bias as numbers by distance."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ... import _core
from ..encoding import traits_of
from ..index_map import check_ends, shapes_of
from ..layers import mixed
from .bias_lines import Lines, lines
from .bias_numbers import Parts, are_straight, padded, parts_of
from .counts import power_of_2
from .device import INTERPRETED
from .distances import Distances, distances_of, numbers, parted
from .launches import DECODED
from .mixed import Operands
from .options import Options, check
from .order import Ranges, ranges
from .runs_kernel import NONE, chunks_of, places
from .start import AMD
from .tables import Product, Tables, products, tables
from .tiles import Call, Kind
from .visible import Band, Rules, Visible


class Work:
    """What kernels are launched with. Raises ShapeError for what does not fit together. forward: nothing is asked for the
    backward, so that a step of decoding needs no runs."""

    def __init__(
        self, q: Tensor, k: Tensor, v: Tensor, parameters: Sequence[Tensor], encodings: str, options: Options,
        forward: bool = False,
    ) -> None:  # fmt: skip
        self.options, self.terms, self.parameters, self._encodings = options, parted(encodings), parameters, encodings
        self.biases = [one for one in self.terms.biases if traits_of(one[0]["kind"])["form"] == "distance"]
        self.picked = [one for one in self.terms.biases if traits_of(one[0]["kind"])["form"] == "rows_by_index"]
        self.mixed = Operands(
            [one for one in self.terms.biases if one[0]["kind"] in mixed()], parameters, options.q_first
        )
        # `turn` is torch's own rotation of this package, on whatever device rows are.
        q, k = self.turned(q, k)
        q, k, v = (in_rows(bhtd(x, options.layout)) for x in (q, k, v))
        check(q, k, v, options)
        self.batch, self.heads, self.q_len, _ = q.shape
        group, page = q.shape[1] // k.shape[1], 0 if options.block_table is None else k.shape[2]
        self.k_len = k.shape[2] if options.block_table is None else options.block_table.shape[1] * page
        band = options.band and Band.of(*options.band, options.q_first)
        q_at, k_at = self._positions(q.device, band)
        self.rules = Rules(
            options.mask, (options.window[0], options.window[1]), self.q_len, self.k_len,
            None if q_at is not None else options.q_first - options.k_first,
            options.k_lengths, options.q_starts, options.k_starts, q.device,
            by_axes=options.mask == "causal" and q_at is not None and len(q_at) + len(k_at) > 2, band=band,
        )  # fmt: skip
        order = ranges(self.rules, q_at, k_at) if self.rules.checks_order else None
        some = bool(self.terms.biases) and self.q_len > 0 and self.k_len > 0
        q_at, k_at = (
            at[0] if at is not None and (some or self.rules.checks_positions) else None for at in (q_at, k_at)
        )
        self.decodes = forward and self.q_len <= DECODED
        self._finds_runs = self.decodes and options.q_starts is None
        self.visible = None if self._finds_runs else Visible(self.rules)
        own, by_end, self._offset = places(self.rules) if self._finds_runs else (False, False, 0)
        self._chunks = chunks_of(self.rules) if self._finds_runs else None
        self.bias_at: Distances | None = distances_of(self.rules, q_at, k_at) if some else None
        self.products = self._products(q.shape[3], v.shape[3])
        self.tables = Tables((None,) * 4, None)
        self.scale = 1 / math.sqrt(max(1, q.shape[3])) if options.scale is None else float(options.scale)
        if self.products:
            self.tables = tables(self.products, parameters, self.heads, self.scale, q.dtype)
        with_q, with_k, with_v, with_mix = (one is not None for one in self.tables.sides)
        mix_dim = self.tables.sides[3].shape[2] if with_mix else 0
        self._keeps_bias = self.bias_at is None
        self._bias = self._made_bias(q.device)
        self.kind = Kind(
            0, 0, 1, q.shape[3], _width(q.shape[3]), v.shape[3], _width(v.shape[3]), group,
            biased=some and (bool(self.biases) or self.tables.bias is not None), bias_is=self._bias.form, one_query=self.decodes and self.q_len == 1, line_step=0, straight=self._is_straight(),
            q_table=with_q, k_table=with_k, v_table=with_v, mixed=with_mix, mix_dim=mix_dim, mix_width=_width(mix_dim), capped=options.soft_cap > 0, keys=options.key_mask is not None,
            pairs=options.visible is not None, placed=q_at is not None, checked=self.rules.checks_positions, ordered=order is not None,
            sinks=options.sinks is not None, page=page, precision=precision_of(q), widened=INTERPRETED and q.dtype is torch.bfloat16,
            finds_runs=self._finds_runs, lengths=self._finds_runs and options.k_lengths is not None, own=own, by_end=by_end, banded=self._chunks is not None,
        )  # fmt: skip
        self.call = self._call(q, k, v, q_at, k_at, order)
        self._lines: dict[tuple[int, int], Lines] = {}

    @property
    def is_step(self) -> bool:
        """Whether this is a step of decoding whose kernels read the caller's own tensors, if rows are dense, and beside these only
        what is kept."""
        call, options = self.call, self.options
        given = [x for x in (*self.parameters, *options.tensors) if x is not None]
        return (
            self._finds_runs
            and not (self.terms.rows or self.products)
            and self.rules.offset is not None
            and self._keeps_bias
            and all(x.device == call.q.device for x in given)
            and (call.factors is None or call.factors is self.parameters[0])
            and call.pages is options.block_table
        )

    def _is_straight(self) -> bool:
        """Whether the bias is known to be a line. Steps of decoding have no lines, and do not ask."""
        at, tables = self.bias_at, self.tables
        if (
            at is None
            or self.q_len <= DECODED
            or not self.biases
            or tables.bias is not None
            or self.rules.offset is None
        ):
            return False
        return all(are_straight(form, self.parameters[first:end], self.heads, at) for form, first, end in self.biases)

    def call_for(self, kind: Kind) -> Call:
        """The call as kernels with such tiles take it."""
        if not kind.line_step:
            return self.call
        size = kind.rows, kind.cols
        if size not in self._lines:
            self._lines[size] = lines(self.call.bias, self.call.zero, self.q_len, self.k_len, *size, kind.straight)
        found = self._lines[size]
        return self.call._replace(lines=found.numbers, line_stride=found.numbers.stride(0), line_least=found.least)

    def turned(self, q: Tensor, k: Tensor, back: bool = False) -> tuple[Tensor, Tensor]:
        """q and k after the encodings of rows; back: their gradients before them."""
        from ..ops import rotate  # ops calls this module

        options = self.options
        for form, first, end in reversed(self.terms.rows) if back else self.terms.rows:
            given = self.parameters[first:end]
            table = form["settings"]["table"] if not given else json.dumps({"rope": form["spec"]})
            cos, sin = given or (None, None)
            (q,) = rotate.plain([q], options.q_positions, options.q_first, table, options.layout, back, cos, sin)
            (k,) = rotate.plain([k], options.k_positions, options.k_first, table, options.layout, back, cos, sin)
        return q, k

    def _positions(self, device: torch.device, band: Band | None) -> tuple[Tensor | None, Tensor | None]:
        """Positions as tensors [axes, batch or 1, time], if either kind is one and somebody reads them."""
        given = self.options.q_positions, self.options.k_positions
        by_position = self.options.mask == "causal" or tuple(self.options.window) != (-1, -1) or band is not None
        if given == (None, None) or not (by_position or self.terms.biases):
            return None, None
        sides = zip(given, (self.options.q_first, self.options.k_first), (self.q_len, self.k_len), strict=True)
        q_at, k_at = (_as_rows(at, first, count, self.batch, device) for at, first, count in sides)
        if self.options.mask == "causal" and len(q_at) != len(k_at) and min(len(q_at), len(k_at)) > 1:
            raise _core.ShapeError(
                f"[attention] k_positions: must have as many axes as q_positions, {len(q_at)}, or one for a causal mask, "
                f"got {len(k_at)}"
            )
        return q_at, k_at

    def _products(self, dim: int, value_dim: int) -> list[Product]:
        """What picks rows by distance, after the library has checked it."""
        if self.bias_at is None:
            return []
        first = self.options.q_first, self.options.k_first
        q_ends, k_ends = ((at, at + n - 1) for at, n in zip(first, (self.q_len, self.k_len), strict=True))
        for form, begin, end in self.picked + self.mixed.placed:
            shapes = shapes_of(self.parameters[begin:end])
            check_ends(json.dumps(form), shapes, (self.batch, self.heads, self.q_len), (dim, value_dim), q_ends, k_ends)
        found = products(self.picked, self.parameters, self.bias_at, self.rules.device)
        return found + self.mixed.products(self.bias_at, self.rules.device)

    def _made_bias(self, device: torch.device) -> Parts:
        """The sum of all biases. Those of the library come as numbers; in a step of decoding, which meets each once, one alone
        may come in parts."""
        at, bias = self.bias_at, None
        if at is None:
            return Parts(None, None, "numbers")
        # Triton 3.9 does not compile rows that are picked beside pairs of one's own.
        if self.decodes and len(self.biases) == 1 and self.tables.bias is None and self.options.visible is None:
            _, first, end = self.biases[0]
            found = parts_of(self._encodings, self.parameters[first:end], self.heads, at, device)
            if found is not None:
                self._keeps_bias = True
                return found
        if self.biases:
            bias = numbers(self.biases, self.parameters, self.heads, at, device)
        if self.tables.bias is not None:
            bias = self.tables.bias if bias is None else bias + self.tables.bias
        if bias is not None:
            bias = padded(bias)
        return Parts(bias, None, "numbers")

    def _call(
        self, q: Tensor, k: Tensor, v: Tensor, q_at: Tensor | None, k_at: Tensor | None, order: Ranges | None
    ) -> Call:
        options = self.options
        first, end = (None, None) if self.visible is None else self.visible.runs
        lengths = options.k_lengths.to(q.device) if self._finds_runs and options.k_lengths is not None else None
        at, (bias, factors, _) = self.bias_at, self._bias
        q_table, k_table, v_table, mix_table = self.tables.sides
        mix = None if mix_table is None else self.mixed.rows(self.batch, self.q_len, q.dtype, q.device)
        key_mask = None if options.key_mask is None else options.key_mask.to(q.device).expand(self.batch, self.k_len)
        pairs = options.visible
        if pairs is not None:
            pairs = pairs.to(q.device).expand(self.batch, self.heads, self.q_len, self.k_len).view(torch.uint8)
        offset = self.rules.offset or 0
        return Call(
            q, k, v, first, end, lengths, bias, factors, None, q_table, k_table, v_table, mix, mix_table,
            None if key_mask is None else key_mask.view(torch.uint8), pairs, q_at, k_at, *(order or (None,) * 3),
            None if options.block_table is None else options.block_table.to(q.device).contiguous(),
            q_strides=q.stride()[:3], k_strides=k.stride()[:3], v_strides=v.stride()[:3], run_stride=stride_of(first),
            lengths_stride=0 if lengths is None else lengths.stride(0), offset=self._offset, chunks=self._chunks or NONE,
            bias_stride=0 if bias is None else bias.stride(0), factor_stride=0 if factors is None else factors.stride(0),
            distances=0 if at is None else at.count, zero=0 if at is None else -offset - at.least,
            line_stride=0, line_least=0, q_table_stride=stride_of(q_table), k_table_stride=stride_of(k_table),
            v_table_stride=stride_of(v_table), mix_table_stride=stride_of(mix_table),
            key_strides=(0, 0) if key_mask is None else key_mask.stride(),
            pair_strides=(0, 0, 0, 0) if pairs is None else pairs.stride(),
            at_strides=(0, 0) if q_at is None else (stride_of(q_at), stride_of(k_at)),
            rank_strides=(0, 0) if order is None else (stride_of(order.ranks), stride_of(order.first)),
            least=self.rules.limits[0], most=self.rules.limits[1],
            scale=self.scale, soft_cap=float(options.soft_cap),
            batch=self.batch, heads=self.heads, q_len=self.q_len, k_len=self.k_len,
            blocks=k.shape[0],
        )  # fmt: skip


def bhtd(x: Tensor, layout: str) -> Tensor:
    """[batch, heads, time, dim], without a copy. First axes may be missing."""
    x = x[(None,) * (4 - x.dim())] if x.dim() < 4 else x
    return x.transpose(1, 2) if layout == "bthd" else x


def in_rows(x: Tensor) -> Tensor:
    """The same with the last axis dense."""
    return x if x.shape[-1] == 1 or x.stride(-1) == 1 else x.contiguous()


def stride_of(x: Tensor | None) -> int:
    """The stride of the first axis; 0 where that is one for all, or nothing."""
    return 0 if x is None or x.shape[0] == 1 else x.stride(0)


def _width(dim: int) -> int:
    """The tile's: a power of two, as products of matrices take it."""
    return max(16, power_of_2(dim))


def precision_of(q: Tensor) -> str:
    """Of products of rows: float32 products as exact as float32, unless PyTorch was told that its own matrix products need not be."""
    if q.dtype is not torch.float32 or q.is_cpu or not _has_tf32(q.device):
        return "ieee"
    # PyTorch has two ways to be told, and answers of both in words of the newer one.
    return "tf32" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "ieee"


@functools.cache
def _has_tf32(device: torch.device) -> bool:
    """Whether Triton has products of tf32 there: of AMD's GPUs it has them for one alone."""
    return not AMD or torch.cuda.get_device_properties(device).gcnArchName.split(":")[0] == "gfx942"


def _as_rows(at: Tensor | None, first: int, count: int, batch: int, device: torch.device) -> Tensor:
    """[axes, batch or 1, time]"""
    if at is None:
        return torch.arange(first, first + count, device=device)[None, None]
    at = at[(None,) * (3 - at.dim())].to(device, torch.int64).contiguous()
    if at.shape[2] != count or at.shape[1] not in (1, batch):
        raise _core.ShapeError(f"[attention] positions: must be [{count}] or [{batch}, {count}], got {list(at.shape)}")
    return at
