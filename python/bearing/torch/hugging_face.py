"""Hugging Face models with bearing's rotation in place of their own."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from .. import _core
from .encoding import spec_of_table, table_form
from .functional import rotate

Model = TypeVar("Model", bound=nn.Module)


def replace_rotary(model: Model, *, angles: str = "as_float32") -> Model:
    """Gives a model of ``transformers`` bearing's rotary embedding, in place; returns the model.

    angles: "as_float32" keeps to the float32 order of operations that the model was trained with, so that logits are
    the same up to rounding; "exact" has each cosine and sine rounded once, which is better far into a sequence. Queries
    and keys are turned in one pass each, in float32 for bfloat16 and float16. Works in training, with caches and
    ``generate``, and under ``torch.compile`` but for dynamic NTK and LongRoPE, whose tables depend on the length.

    Every rotary embedding is compared with bearing's on small tensors before it is replaced: ValueError if they differ,
    or if none is found, and the model is as it was. Vision towers keep their own. :func:`restore_rotary` undoes it.
    """
    found = [(name, module) for name, module in model.named_modules() if _is_rotary(module)]
    if not found:
        raise ValueError("[replace_rotary] model: must have a rotary embedding and the function apply_rotary_pos_emb")
    replacements = [(name, RotaryEmbedding(module, angles)) for name, module in found]
    for name, replacement in replacements:
        model.set_submodule(name, replacement)
        _dispatch(_home(replacement.original))
    return model


def restore_rotary(model: Model) -> Model:
    """Gives a model its own rotary embeddings back, in place; returns the model."""
    found = [(name, module) for name, module in model.named_modules() if isinstance(module, RotaryEmbedding)]
    for name, module in found:
        model.set_submodule(name, module.original)
    return model


class Angles(NamedTuple):
    """What the replacement gives in place of cosines and sines: positions [time], [batch, time] or [axes, batch, time],
    and the table that they are looked up in."""

    at: Tensor
    table: str


class RotaryEmbedding(nn.Module):
    """Stands in for a model's rotary embedding. ``original`` is what it replaced."""

    def __init__(self, original: nn.Module, angles: str) -> None:
        super().__init__()
        rope = _core.Rope.from_config(original.config)
        self.angles = angles
        self.table = table_form(rope, 2048, angles)
        self.grows = isinstance(rope.scaling, _core.DynamicNtkScaling)
        self.switches = isinstance(rope.scaling, _core.LongRopeScaling)
        self.trained_length = rope.scaling.trained_length if self.grows or self.switches else 0
        self.longest = self.trained_length
        _compare(original, self, rope)
        self.original = original

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Angles, Angles]:
        """What attention layers hand to apply_rotary_pos_emb as cos and sin."""
        at = position_ids[0] if position_ids.dim() == 2 and position_ids.shape[0] == 1 else position_ids
        found = Angles(at, self._table_of_length(at) if self.grows or self.switches else self.table)
        return found, found

    def _table_of_length(self, at: Tensor) -> str:
        """The table for a sequence of this length."""
        seq_len = int(at.max()) + 1
        if self.switches:
            return self._table(2048, self.trained_length + (seq_len > self.trained_length))
        # As transformers does: the longest that was seen counts, until one fits the trained length again.
        self.longest = max(seq_len, self.longest if seq_len >= self.trained_length else self.trained_length)
        # One new token needs one row, which no table keeps.
        return self._table(seq_len if at.shape[-1] > 1 else 1, self.longest)

    def _table(self, length: int, seq_len: int) -> str:
        return table_form(spec_of_table(self.table), length, self.angles, seq_len)


def _is_rotary(module: nn.Module) -> bool:
    name = type(module).__name__
    if (
        not name.endswith("RotaryEmbedding")
        or "Vision" in name
        or not (hasattr(module, "config") and hasattr(module, "inv_freq"))
    ):
        return False
    return hasattr(_home(module), "apply_rotary_pos_emb")


def _home(module: nn.Module) -> ModuleType:
    """The source file that a class comes from, in which its attention layers find apply_rotary_pos_emb."""
    return sys.modules[type(module).__module__]


def _dispatch(home: ModuleType) -> None:
    """Lets apply_rotary_pos_emb take Angles too. Other arguments go where they went: other models keep theirs."""
    original = home.apply_rotary_pos_emb
    if not hasattr(original, "takes_angles"):
        home.apply_rotary_pos_emb = _taking_angles(original)


def _taking_angles(original: Callable[..., Any]) -> Callable[..., Any]:
    names = list(inspect.signature(original).parameters)
    place = names.index("unsqueeze_dim") - 4 if "unsqueeze_dim" in names else None

    @functools.wraps(original)
    def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Any, sin: Any, *args: Any, **given: Any) -> Any:
        if not isinstance(cos, Angles):
            return original(q, k, cos, sin, *args, **given)
        axis = given.get("unsqueeze_dim", 1)
        if place is not None and len(args) > place:
            axis = args[place]
        return rotate(q, k, rope=cos.table, at=cos.at, layout="bthd" if axis == 2 else "bhtd")

    apply_rotary_pos_emb.takes_angles = True
    return apply_rotary_pos_emb


@torch.no_grad()
def _compare(original: nn.Module, replacement: RotaryEmbedding, rope: _core.Rope) -> None:
    """ValueError unless both turn queries and keys alike, at a few positions."""
    apply = _home(original).apply_rotary_pos_emb
    device = original.inv_freq.device
    # Frequencies that a cast to 16 bits has rounded are not what the model was trained with.
    whole = original.inv_freq.dtype is torch.float32
    probe = copy.deepcopy(original) if whole else type(original)(original.config).to(device)
    x = torch.linspace(-1, 1, 4 * rope.head_dim, device=device).reshape(1, 1, 4, rope.head_dim)
    at = torch.tensor([[0, 1, 5, 100]], device=device)
    if len(rope.axes.pairs) > 1:
        at = torch.stack([at, at * 2, at + 3])
    try:
        expected = apply(x, x, *probe(x, at))[0]
        got = _taking_angles(apply)(x, x, *replacement(x, at))[0]
    except TypeError as error:
        raise ValueError(f"[replace_rotary] model: {type(original).__name__} is not called as Llama's is") from error
    # Angles differ by one rounding of a position times a frequency, 100 * 2^-24 at the most.
    if expected.shape != got.shape or not torch.allclose(expected, got, rtol=0, atol=1e-4):
        raise ValueError(f"[replace_rotary] model: {type(original).__name__} does not turn as its config says")
