"""The short way of small calls: plain tensors on the CPU that nobody watches go to the library as they are.

At one token it takes longer to get to the library than the library takes. What this way does not serve, and what fails on
it, goes the usual way of :mod:`bearing.torch.functional`: the bits are the same, and the errors are the usual ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from .. import _core
from .dispatch import PLAIN, count_writes, is_profiled, is_transformed
from .encoding import KEPT, Encoding, Encodings, build, encodings_of, forms_of, table_form, table_of, tensors_of
from .ops import arithmetic_of
from .triton.device import INTERPRETED

_C = torch._C
_ERRORS = (TypeError, ValueError, RuntimeError)
_NUMBERS = (type(None), float, int)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encodings: Encodings,
    q_positions: Any,
    k_positions: Any,
    mask: Any,
    window: Any,
    scale: Any,
    soft_cap: Any,
    k_lengths: Any,
    key_mask: Any,
    layout: Any,
    return_lse: Any,
) -> tuple[Any, Sequence[Encoding] | None]:
    """What :func:`bearing.torch.attention` returns, or None where the usual way must say; then also the encodings, if they
    were asked for, as what they are may change with each question."""
    if _is_watched() or _C._is_any_autocast_enabled() or not _are_plain((q, k, v)):
        return None, None
    options = {"mask": mask, "layout": layout, "threads": torch.get_num_threads()}
    # What is not given is not handed on: each name takes its time.
    if not (window is q_positions is k_positions is scale is k_lengths is key_mask is None):
        if not (_is_place(q_positions) and _is_place(k_positions) and type(scale) in _NUMBERS and _is_window(window)):
            return None, None
        for name, value in (
            ("window", window),
            ("q_positions", q_positions),
            ("k_positions", k_positions),
            ("scale", scale),
            ("k_lengths", k_lengths),
            ("key_mask", key_mask),
        ):
            if value is not None:
                options[name] = value
    if type(soft_cap) is not float or soft_cap != 0:
        options["soft_cap"] = soft_cap
    if return_lse is not False:
        options["return_lse"] = return_lse
    terms = None
    try:
        if encodings is None or isinstance(encodings, _core.Encoding):  # whose arrays the library takes or refuses
            return _core.attention(q, k, v, encodings, **options), None
        arithmetic, terms = arithmetic_of(q.dtype), encodings_of(encodings)
        tensors = tensors_of(terms, arithmetic)
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            return None, terms
        numbers = [t.detach() if t.requires_grad else t for t in tensors]
        return _core.attention(q, k, v, build(forms_of(terms), numbers, arithmetic), **options), terms
    except _ERRORS:
        return None, terms


def rotate(xs: Sequence[Tensor], rope: Any, positions: Any, layout: Any) -> list[Tensor] | None:
    """Each of xs, rotated, or None where the usual way must say."""
    table = _shared_table(xs, rope, positions)
    if table is None:
        return None
    try:
        arithmetic = arithmetic_of(xs[0].dtype)
        return _core._rotate_each(table_of(table, arithmetic), xs, positions, layout, torch.get_num_threads())
    except _ERRORS:
        return None


def rotate_(xs: Sequence[Tensor], rope: Any, positions: Any, layout: Any) -> bool:
    """Whether xs were rotated in place; if not, nothing is written, and the usual way must say."""
    table = _shared_table(xs, rope, positions)
    if table is None or len(xs) > 2 or xs[0].dim() != xs[-1].dim():
        return False
    try:
        arithmetic = arithmetic_of(xs[0].dtype)
        _core._rotate_tensors(table_of(table, arithmetic), xs, positions, layout, torch.get_num_threads())
    except _ERRORS:
        return False
    count_writes(xs)
    return True


def _shared_table(xs: Sequence[Tensor], rope: Any, positions: Any) -> str | None:
    """The text of a table that the library takes for all of xs, or None."""
    if not xs or _is_watched() or not _are_plain(xs) or not _is_place(positions):
        return None
    arithmetic = arithmetic_of(xs[0].dtype)
    if any([arithmetic_of(x.dtype) is not arithmetic for x in xs]):
        return None
    return rope if type(rope) is str else _of_spec(rope) if type(rope) is _core.Rope else _own_table(rope)


def _is_watched() -> bool:
    """Whether somebody beside autograd sees calls, or may change what they mean."""
    return (
        torch.compiler.is_compiling()
        or INTERPRETED
        or is_in_torch_dispatch_mode()
        or is_transformed()
        or is_profiled()
        or _C._is_tracing()
        or _C._is_torch_function_mode_enabled()
    )


def _are_plain(tensors: Sequence[Tensor]) -> bool:
    """Whether they are of PyTorch's own classes, on the CPU, and want no gradient. The library refuses what else they may
    be: it looks at each."""
    for t in tensors:
        if type(t) not in PLAIN or t.requires_grad or not t.is_cpu:
            return False
    return True


def _is_place(positions: Any) -> bool:
    """Whether the library takes these positions as the functions do."""
    return positions is None or type(positions) is int or (type(positions) is Tensor and positions.dim() <= 2)


def _is_window(window: Any) -> bool:
    return window is None or (type(window) is tuple and len(window) == 2 and type(window[0]) is type(window[1]) is int)


def _of_spec(rope: _core.Rope) -> str | None:
    """A spec's; none where its frequencies depend on the length, which it does not say."""
    return None if _core.depends_on_length(rope.scaling) else table_form(rope, KEPT)


def _own_table(rope: Any) -> str | None:
    """A module's."""
    table = getattr(rope, "table", None)
    return table if type(table) is str else None
