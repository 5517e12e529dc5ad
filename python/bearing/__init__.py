"""Positional encodings for transformers: exact, fast, differentiable.

    import bearing

    rope = bearing.Rope.from_config("config.json")             # or bearing.Rope(head_dim=128, base=500_000, pairing="half")
    table = bearing.RopeTable(rope, 8192)                      # cos and sin, each rounded once
    bearing.rotate(table, q, k, None)                          # in place; q, k [batch, heads, time, head_dim]
    out = bearing.attention(q, k, v, [bearing.RotaryRows(table)], mask="causal")

Arrays are NumPy's, PyTorch's, JAX's or whatever speaks DLPack, in the CPU's memory: float64, float32, bfloat16 or
float16. They come in without a copy, and results leave in the caller's own kind. Specs (Rope and every other ``Spec``)
are immutable values that compare, hash, print themselves and go to and from dictionaries; encodings (RotaryRows and
every other ``Encoding``) are specs with their numbers. ``catalog()`` lists them. In their formulas m is the position of
a query, n that of a key, i and j are their indices and h is the head. Wrong arguments raise ShapeError, RangeError, ConfigError (all of them
ValueErrors) or TypeError, whose texts read "[function] argument: what must hold, got what".

``bearing.torch`` has modules and differentiable functions, ``bearing.jax`` functions for jit, grad and vmap,
``bearing.plot`` pictures.
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

_not_ours = ("annotations", "Any", "TYPE_CHECKING", "import_module")
__all__ = [name for name in globals() if not name.startswith("_") and name not in _not_ours]


def target() -> dict[str, str | list[str]]:
    """The SIMD instruction set that kernels use, and all that this build holds and this machine can run.

    The environment variable BEARING_TARGET names another one, before the first call. Results have the same bits on all,
    but for attention and products of queries and keys with vectors by distance, which agree to rounding.
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
