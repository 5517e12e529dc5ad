"""Positional encodings for transformers: exact, fast, differentiable.

    import bearing

    rope = bearing.Rope.from_config("config.json")             # or bearing.Rope(head_dim=128, base=500_000, pairing="half")
    table = bearing.RopeTable(rope, 8192)                      # cos and sin, each rounded once
    bearing.rotate(table, q, k, None)                          # in place; q, k [batch, heads, time, head_dim]
    out = bearing.attention(q, k, v, [bearing.RotaryRows(table)], mask="causal")

Functions take arrays of NumPy, PyTorch, JAX and whatever else speaks DLPack. The arrays lie in the CPU's memory and are
float64, float32, bfloat16 or float16. They are read without a copy. Results are of the caller's own kind of array.

A spec (``Rope`` and every other ``Spec``) holds what a paper or a config states. It is an immutable value: it can be
compared, hashed, printed, and turned into a dictionary and back. An encoding (``RotaryRows`` and every other
``Encoding``) is a spec with its numbers. ``catalog()`` lists all encodings. In their formulas m is the position of a
query and n that of a key, i and j are their indices, and h is the head.

A wrong argument raises ShapeError, RangeError or ConfigError, which are ValueErrors, or TypeError. The text reads
"[function] argument: what must hold, got what".

``bearing.torch`` has modules and differentiable functions for PyTorch. ``bearing.jax`` has functions for JAX's jit,
grad and vmap. ``bearing.plot`` draws pictures with matplotlib.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._compat import alibi_bias as alibi_bias
from ._compat import apply_rope as apply_rope
from ._compat import rotary_embedding as rotary_embedding
from ._compat import sinusoidal_encoding as sinusoidal_encoding
from ._core import *
from ._core import __version__ as __version__
from ._core import simd_target, simd_targets
from ._figures import Axis as Axis
from ._figures import Band as Band
from ._figures import Cells as Cells
from ._figures import DocumentFigure as DocumentFigure
from ._figures import Figure as Figure
from ._figures import FigureKind as FigureKind
from ._figures import Guide as Guide
from ._figures import Note as Note
from ._figures import Panel as Panel
from ._figures import Series as Series
from ._figures import Tick as Tick
from ._figures import document_figures as document_figures
from ._figures import figure as figure
from ._figures import figure_kinds as figure_kinds
from ._figures import read_figure as read_figure
from ._files import Safetensors as Safetensors
from ._files import read_safetensors as read_safetensors
from ._files import write_safetensors as write_safetensors
from ._load import LoadedModel as LoadedModel
from ._load import PerCall as PerCall
from ._load import load as load

_not_ours = ("annotations", "Any", "TYPE_CHECKING", "import_module")
__all__ = [name for name in globals() if not name.startswith("_") and name not in _not_ours]


def target() -> dict[str, str | list[str]]:
    """Names the SIMD instruction set that kernels use, and all that this build holds and this machine can run.

    Returns {"used": name, "available": names, best first}. The environment variable BEARING_TARGET chooses another one;
    it is read at the first call. Results have the same bits on all of them. Only attention, and products of queries and
    keys with vectors by distance, differ: they agree to rounding.
    """
    return {"used": simd_target(), "available": simd_targets()}


if not TYPE_CHECKING:  # type checkers would take any name for one of ours

    def __getattr__(name: str) -> Any:
        # Loaded when they are asked for: PyTorch, JAX and matplotlib need not be there.
        if name in ("torch", "jax", "plot"):
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return [*__all__, "torch", "jax", "plot"]


__all__ += ["target", "__version__"]
