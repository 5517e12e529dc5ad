"""Positional encodings in PyTorch: differentiable functions, modules, and score modifiers for FlexAttention.

    import bearing, bearing.torch as bt

    bias = bt.T5Bias(bearing.T5(direction="causal"), heads=8, d_model=512)
    out = bt.attention(q, k, v, bias, mask="causal", scale=1.0)

    rope = bt.Rope.from_config("config.json")
    q, k = rope(q, k)

Functions and modules run on the CPU, as functional custom ops under ``torch.ops.bearing``: autograd, ``torch.compile``
and ``torch.export`` take them whole, and they run on as many threads as ``torch.get_num_threads()`` says. On other
devices :func:`score_mod` gives the same encodings to PyTorch's FlexAttention, in PyTorch's own operations.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .attention import Attention, Fixed, MultiHeadAttention
from .base import Described
from .biases import Alibi, Fire, Forgetting, Kerple, Swin, SwinV2, T5Bias, window_positions
from .encoding import Encoding, encoding_of
from .flex import ScoreMod, score_mod
from .functional import add, add_, attention, bias_matrix, rotate, turn
from .inputs import LearnedPositions, Sinusoidal
from .linear_attention import linear_attention
from .merge import merge
from .relations import BertRelative, Cope, Deberta, Sam, Shaw, TransformerXL, Tupe, XlnetSegments
from .ring import ring_attention
from .rows import CayleyString, CirculantString, Fope, LieRope, Pope, Rope, RopeMixed, Xpos
from .scores import add_scores, add_values
from .shards import shard, shard_positions

__all__ = [
    "Alibi",
    "Attention",
    "BertRelative",
    "CayleyString",
    "CirculantString",
    "Cope",
    "Deberta",
    "Described",
    "Encoding",
    "Fire",
    "Fixed",
    "Fope",
    "Forgetting",
    "Kerple",
    "LearnedPositions",
    "LieRope",
    "MultiHeadAttention",
    "Pope",
    "Rope",
    "RopeMixed",
    "Sam",
    "ScoreMod",
    "Shaw",
    "Sinusoidal",
    "Swin",
    "SwinV2",
    "T5Bias",
    "TransformerXL",
    "Tupe",
    "XlnetSegments",
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
    "ring_attention",
    "rotate",
    "score_mod",
    "shard",
    "shard_positions",
    "turn",
    "window_positions",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "hugging_face":  # needs transformers, which need not be there
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
