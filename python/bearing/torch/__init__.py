"""Positional encodings for PyTorch: differentiable functions, modules, and score modifiers for FlexAttention.

    import bearing, bearing.torch as bt

    rope = bt.Rope.from_config("config.json")
    q, k = rope(q, k)
    layer = bt.MultiHeadAttention(512, heads=8, encodings=[rope], mask="causal")

Every encoding has a module, which learns its parameters if it has any. Most modules are called like the spec or the encoding.
They take the spec, and the sizes that the spec does not state (heads, dim), each also by its name. Modules with parameters
take ``device`` and ``dtype`` as PyTorch's layers do.

Functions and modules run on the CPU. On GPUs there are kernels for rotations, alone or after a norm, for moves of caches, and
for attention with rows that a table turns, biases by distance and rows by distance (docs/guide/gpu.md). Functions are custom
ops under ``torch.ops.bearing``, so that autograd, ``torch.compile`` and ``torch.export`` take them whole. They use as many
threads as ``torch.get_num_threads()`` says. On GPUs :func:`score_mod` gives the other encodings to PyTorch's
FlexAttention, in PyTorch's own operations.

A wrong argument raises an error as in ``bearing``. A tensor on a device that a call does not serve raises TypeError.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import modules as _modules
from .attention import Attention, Fixed, MultiHeadAttention
from .base import Described, EncodingModule
from .cache import rebase, rotate_to_cache, shift
from .encoding import Encoding, encoding_of
from .flex import ScoreMod, score_mod
from .flops import register_flop_formulas
from .functional import add, add_, attention, bias_matrix, rotate, turn, window_positions
from .in_place import rotate_
from .linear_attention import linear_attention
from .merge import merge
from .modules import *
from .norm import norm_rotate
from .ring import ring_attention
from .ring_group import RingRefused
from .rows import Rope, Xpos
from .scores import add_scores, add_values
from .shards import shard, shard_positions
from .triton.plan import Plan, plan

__all__ = [
    "Attention",
    "Described",
    "Encoding",
    "EncodingModule",
    "Fixed",
    "MultiHeadAttention",
    "Plan",
    "RingRefused",
    "Rope",
    "ScoreMod",
    "Xpos",
    "add",
    "add_",
    "add_scores",
    "add_values",
    "attention",
    "bias_matrix",
    "encoding_of",
    "linear_attention",
    "merge",
    "norm_rotate",
    "plan",
    "ring_attention",
    "rebase",
    "register_flop_formulas",
    "rotate",
    "rotate_",
    "rotate_to_cache",
    "score_mod",
    "shard",
    "shard_positions",
    "shift",
    "turn",
    "window_positions",
]
__all__ += _modules.__all__


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "hugging_face":  # needs transformers, which need not be there
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
