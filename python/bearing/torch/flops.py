"""What PyTorch's FlopCounterMode counts for calls of attention."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .base import holds_numbers


def register_flop_formulas() -> None:
    """Lets PyTorch's ``FlopCounterMode`` count attention and linear attention, in each counter that is made from then on.

    Attention counts as PyTorch's own does: two products of queries and keys forward and five backward, of every pair in a
    sequence, whatever a mask hides. Linear attention counts what goes into its state and what is read from it, and twice
    that backward. Encodings count nothing. A further call changes nothing.
    """
    from torch.utils import flop_counter  # here, as its import takes longer than that of this package

    for name, formula in _FORMULAS.items():
        target = getattr(torch.ops.bearing, name)
        if target not in flop_counter.flop_registry:
            flop_counter.register_flop_formula(target, get_raw=True)(formula)


def _attention(q: Tensor, k: Tensor, v: Tensor, *rest: Any, out_val: Any = None) -> int:
    # After v: parameters, sinks and positions, …, q_starts, k_starts, block_table; encodings, …, layout, regions, out_dtype.
    *_, layout, _, _ = rest
    return 2 * _pairs(q, k, layout, *rest[7:10]) * (q.shape[-1] + v.shape[-1])


def _attention_backward(
    d_out: Tensor,
    d_lse: Any,
    out: Tensor,
    lse: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *rest: Any,
    out_val: Any = None,
) -> int:
    *_, layout, _, _ = rest
    return 2 * _pairs(q, k, layout, *rest[7:9], None) * (3 * q.shape[-1] + 2 * v.shape[-1])


def _pairs(
    q: Tensor, k: Tensor, layout: str, q_starts: Tensor | None, k_starts: Tensor | None, block_table: Tensor | None
) -> int:
    """Of a query and a key, in all heads and sequences."""
    queries, keys = _time(q, layout), _time(k, layout)
    if block_table is not None:
        keys *= block_table.shape[-1]
    of_all = q.shape[:-1].numel()
    if q_starts is None or k_starts is None or not all(map(holds_numbers, (q_starts, k_starts))):
        return of_all * keys
    return of_all // max(1, queries) * int((q_starts.diff() * k_starts.diff()).sum())


def _time(x: Tensor, layout: str) -> int:
    return x.shape[-3 if layout == "bthd" and x.dim() > 2 else -2]


def _linear_attention(q: Tensor, k: Tensor, v: Tensor, *rest: Any, out_val: Any = None) -> int:
    return 2 * (q.numel() + k.numel()) * v.shape[-1]


def _linear_attention_backward(
    d_out: Tensor, d_s: Any, d_z: Any, q: Tensor, k: Tensor, v: Tensor, *rest: Any, out_val: Any = None
) -> int:
    return 2 * _linear_attention(q, k, v)


_FORMULAS = {
    "attention": _attention,
    "attention_bare": _attention,
    "attention_backward": _attention_backward,
    "linear_attention": _linear_attention,
    "linear_attention_bare": _linear_attention,
    "linear_attention_backward": _linear_attention_backward,
}
