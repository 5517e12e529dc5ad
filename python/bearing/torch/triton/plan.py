"""Which path a call of attention takes. Imported without Triton."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from ..encoding import Encodings, encodings_of, forms_of, tensors_of, traits_of
from ..given_numbers import check_scores
from ..layers import mixed, scores
from ..regions import band_of, text_of_regions
from . import device
from .device import takes
from .mixed import width_of
from .tables import unserved

if TYPE_CHECKING:
    from ... import _core
    from ..functional import Positions
    from ..regions import Regions

TYPES = (torch.float32, torch.bfloat16, torch.float16)
WIDEST = 256


class Plan(NamedTuple):
    """Which path a call takes, and why.

    path: 'library': the library on the CPU. 'triton': a kernel on the GPU. 'flex_attention': attention refuses the call;
        PyTorch's FlexAttention takes it with :func:`bearing.torch.score_mod`. 'refused': neither takes it on a GPU.
    reason: a sentence.
    """

    path: str
    reason: str


def plan(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encodings: Encodings = None,
    *,
    q_positions: Positions = None,
    k_positions: Positions = None,
    block_table: Tensor | None = None,
    regions: Regions | str = None,
    mask: str,
    window: Sequence[int] | None = None,
    band: _core.DistanceBand | str | None = None,
    layout: str = "bhtd",
    scale: float | None = None,
    soft_cap: float = 0.0,
    sinks: Tensor | None = None,
    **options: Any,
) -> Plan:
    """Says which path :func:`bearing.torch.attention` takes with these arguments, without computing anything.

    q, k, v: as :func:`bearing.torch.attention` takes them; tensors on the meta device stand for tensors on a GPU.
    encodings, q_positions, k_positions, block_table, regions, mask, window, band: as there. They say which path it is.
    layout, scale, soft_cap, sinks: as there, and checked as there. They do not change the path.
    options: its other arguments, k_lengths, key_mask, visible, q_starts, k_starts, out_dtype and return_lse. They do not
        change the path either; only their names are looked at.

    Raises RangeError, ValueError or TypeError, whose text names the argument, for encodings, positions and options that
    attention refuses. Shapes are not looked at.
    """
    from ..functional import check_layout, check_options, positions_of  # which imports this module

    for name in options:
        if name not in _OTHERS:
            raise TypeError(
                f"[plan] has no argument {name}; beside those of its signature it takes {', '.join(_OTHERS)}"
            )
    check_options(mask, window, scale, sinks, "plan")
    check_scores("plan", scale, soft_cap)
    check_layout("plan", layout)
    given = encodings_of(encodings, "plan")
    text = text_of_regions(regions, "plan", band=band)
    placed = (("q_positions", q_positions), ("k_positions", k_positions))
    positions = [at for at, _ in (positions_of("plan", *one) for one in placed) if at is not None]
    if q.device.type != "meta" and not takes(q):
        if q.is_cpu:
            return Plan("library", "The tensors are on the CPU.")
        return Plan("refused", f"There are no kernels for tensors on {q.device}.")
    parameters = tensors_of(given, torch.float32)
    why = refusal(q, k, v, parameters, forms_of(given), positions, block_table, text)
    if not why:
        return Plan("triton", "Every encoding turns rows by a table, is a bias by distance, or picks rows by distance.")
    if q.is_cpu:
        return Plan("library", f"The kernels do not take the call: {why}.")
    if device.MISSING or too_old(q.device) or _of_rows(q, k, v):
        return Plan("refused", f"The kernels do not take the call: {why}.")
    own = block_table is not None or text
    flex = "FlexAttention has no such argument." if own else _not_flex(forms_of(given))
    if flex:
        return Plan("refused", f"The kernels do not take the call: {why}. {flex}")
    return Plan("flex_attention", f"The kernels do not take the call: {why}. FlexAttention does, with score_mod().")


_OTHERS = ("k_lengths", "key_mask", "visible", "q_starts", "k_starts", "out_dtype", "return_lse")


def refusal(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    parameters: Sequence[Tensor],
    encodings: str,
    positions: Sequence[Tensor],
    block_table: Tensor | None,
    regions: str = "",
) -> str:
    """Why the kernels do not take a call; nothing if they do."""
    why = device.MISSING or too_old(q.device) or _of_rows(q, k, v)
    if why:
        return why
    if regions and band_of(regions) is None:
        return "regions of one softmax are computed on the CPU alone"
    if any(at.is_floating_point() for at in positions):
        return "positions must be whole numbers"
    learned = False
    first = numbers = 0
    for form in _forms(encodings):
        kind, last = form["kind"], first + len(form["tensors"])
        traits = traits_of(kind)
        if traits["rows"] and block_table is not None:
            return f"{kind} turns no keys in a paged cache: rotate_to_cache() turns them as it writes them"
        picks = traits["form"] == "rows_by_index"
        if picks:
            why = unserved(form, parameters[first:last])
            if why or positions:
                return f"{kind} " + (why or "needs positions that rise by one: None or the first position")
        elif kind in mixed():
            numbers += width_of(form, parameters[first:last])
            if positions:
                return f"{kind} needs positions that rise by one: None or the first position"
        elif kind != "RotaryRows" and (traits["form"] != "distance" or not traits["scores"]):
            return f"{kind} {_unserved(traits)}"
        learned |= traits["scores"] and torch.is_grad_enabled() and any(t.requires_grad for t in parameters[first:last])
        first = last
    if numbers > WIDEST:
        return f"rows by distance take at most {WIDEST} numbers of a query, and there are {numbers}"
    if learned and positions:
        return "a bias that is learned needs positions that rise by one: None or the first position"
    return ""


@functools.cache
def too_old(there: torch.device) -> str:
    """Why no kernel runs on a GPU, whatever it is given; nothing if kernels do. Nothing is known of GPUs that are not there,
    which tensors without numbers may name."""
    if there.type != "cuda" or torch.version.hip is not None or (there.index or 0) >= torch.cuda.device_count():
        return ""
    capability = torch.cuda.get_device_capability(there)
    words = "Triton needs compute capability 8.0, and {} has {}.{}"
    return "" if capability >= (8, 0) else words.format(there, *capability)


def _unserved(traits: dict[str, Any]) -> str:
    """What an encoding does that no kernel does."""
    if traits["rows"]:
        return "is of rows that no table of cosines and sines turns"
    if traits["form"] == "none":
        return "acts on values, and kernels take what acts on rows or scores" if traits["values"] else "has no form"
    return f"is of the form {traits['form']}"


_forms = functools.lru_cache(maxsize=256)(json.loads)  # which nobody changes


def _of_rows(q: Tensor, k: Tensor, v: Tensor) -> str:
    """Why no kernel takes such rows; nothing if they do."""
    if q.dtype not in TYPES or k.dtype is not q.dtype or v.dtype is not q.dtype:
        return f"rows must be float32, bfloat16 or float16, all alike, and are {q.dtype}, {k.dtype}, {v.dtype}"
    if not 3 <= q.dim() <= 4 or k.dim() != q.dim() or v.dim() != q.dim():
        return f"rows must have 3 or 4 axes, and have {q.dim()}, {k.dim()}, {v.dim()}"
    if max(q.shape[-1], v.shape[-1]) > WIDEST:
        return f"rows must have at most {WIDEST} numbers, and have {q.shape[-1]} and {v.shape[-1]}"
    return ""


def _not_flex(encodings: str) -> str:
    """Why no score modifier stands for the encodings, as a sentence; nothing if one does."""
    for form in json.loads(encodings):
        kind = form["kind"]
        traits = traits_of(kind)
        if traits["rows"] or kind in scores():
            continue  # they turn q and k before the call, or have a formula in PyTorch's operations
        of_values = [p for p in form["tensors"] if "value_dim" in traits["parameters"][p]["extents"]]
        if of_values or not traits["scores"]:
            return f"{kind} acts on values, which no score modifier does."
        if traits["form"] != "rows_by_index" and (traits["reads_content"] or traits["whole_rows"]):
            return f"{kind} looks at the tokens between query and key, which no score modifier does."
    return ""
