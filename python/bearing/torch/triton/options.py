"""What a call of attention has beside rows and encodings, and what must hold before kernels read any of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ... import _core


class Options(NamedTuple):
    """What a call has beside rows and encodings, as the op takes it."""

    sinks: Tensor | None
    q_positions: Tensor | None
    k_positions: Tensor | None
    k_lengths: Tensor | None
    key_mask: Tensor | None
    visible: Tensor | None
    q_starts: Tensor | None
    k_starts: Tensor | None
    block_table: Tensor | None
    mask: str
    window: Sequence[int]
    q_first: int
    k_first: int
    scale: float | None
    soft_cap: float
    layout: str
    band: tuple[int | None, int | None, int] | None = None  # a DistanceBand's begin, end and chunk

    @property
    def tensors(self) -> Sequence[Tensor | None]:
        """Those that may be tensors."""
        return self[:_NUMBERS]

    @property
    def numbers(self) -> Sequence[Any]:
        """The others, which may be put in a dictionary."""
        scale = None if self.scale is None else float(self.scale)
        first = self.mask, tuple(self.window), self.q_first, self.k_first
        return *first, scale, float(self.soft_cap), self.layout, self.band


_NUMBERS = Options._fields.index("mask")


def check(q: Tensor, k: Tensor, v: Tensor, options: Options) -> None:
    """Everything that would let a kernel read past an end."""

    def must(name: str, x: Tensor | None, *shapes: Sequence[int]) -> None:
        if x is not None and list(x.shape) not in [list(shape) for shape in shapes]:
            words = " or ".join(str(list(shape)) for shape in shapes)
            raise _core.ShapeError(f"[attention] {name}: must have shape {words}, got {list(x.shape)}")

    for name, x in (("k", k), ("v", v), ("sinks", options.sinks)):
        if x is not None and x.device != q.device:
            raise TypeError(f"[attention] {name}: must be on the device of q, {q.device}, got {x.device}")
    batch, heads, q_len, dim = q.shape
    sequences, kv_heads, k_len = batch, *k.shape[1:3]
    if options.block_table is not None:
        sequences, pages = k.shape[0], options.block_table.shape[-1]
        must("block_table", options.block_table, (batch, pages))
        if options.block_table.is_floating_point():
            raise TypeError(f"[attention] block_table: must hold whole numbers, got {options.block_table.dtype}")
        if options.k_lengths is None:
            raise _core.ShapeError("[attention] k_lengths: must be given for a paged cache")
    must("k", k, (sequences, kv_heads, k_len, dim))
    must("v", v, (sequences, kv_heads, k_len, v.shape[3]))
    if options.block_table is not None:
        k_len *= pages
    if not kv_heads or heads % kv_heads:
        raise _core.ShapeError(f"[attention] k: must have heads that divide {heads} query heads, got {kv_heads}")
    must("sinks", options.sinks, (heads,))
    must("k_lengths", options.k_lengths, (batch,))
    must("key_mask", options.key_mask, (batch, k_len))
    if options.visible is not None:
        must("visible", options.visible, (batch, heads, q_len, k_len))
    for name, mask in (("key_mask", options.key_mask), ("visible", options.visible)):
        if mask is not None and mask.dtype is not torch.bool:
            raise TypeError(f"[attention] {name}: must be a tensor of truth values, got {mask.dtype}")
    if (options.q_starts is None) != (options.k_starts is None):
        raise _core.ShapeError("[attention] q_starts, k_starts: must both be given, or neither, got one of them")
    if options.q_starts is not None:
        must("k_starts", options.k_starts, options.q_starts.shape)
        if options.q_starts.dim() != 1 or options.q_starts.shape[0] < 2:
            raise _core.ShapeError(
                f"[attention] q_starts: must be [sequences + 1], got shape {list(options.q_starts.shape)}"
            )
    if options.layout not in ("bhtd", "bthd"):
        raise ValueError(f"[attention] layout: must be 'bhtd' or 'bthd', got {options.layout!r}")
    if not options.soft_cap >= 0:
        raise _core.RangeError(f"[attention] soft_cap: must be at least 0, got {options.soft_cap}")


def check_result(dtype: torch.dtype, out_dtype: torch.dtype) -> None:
    """Raises the library's TypeError for a result that is neither of the type of rows nor of that of sums."""
    if out_dtype not in (dtype, torch.float32):
        wanted, got = (str(one).removeprefix("torch.") for one in (dtype, out_dtype))
        or_sums = "" if dtype is torch.float32 else ", or float32, which sums are taken in"
        raise TypeError(f"[attention] out_dtype: must be {wanted}, as q is{or_sums}, got {got}")
