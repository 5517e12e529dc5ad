"""bearing under JAX's jit, vmap and grad, on the CPU.

    import bearing, bearing.jax

    @jax.jit
    def loss(bias, q, k, v):
        return bearing.jax.attention(q, k, v, [bias], mask="causal").sum()

    # bias, one of bearing's encodings, is a pytree: its arrays are the leaves
    d_bias = jax.grad(loss)(bias, q, k, v)                            # an encoding of the same class, of gradients

Encodings are ``bearing``'s own objects. Importing this module makes them pytrees, whose leaves are their arrays and
whose specs and settings are static, so that they pass through transformations, optimisers and checkpoints like any
other parameters. A spec or table (:class:`bearing.RopeTable`) is static, closed over or an argument: make it once,
outside of what is compiled, as another table is another program.

Gradients: of queries, keys, values, states, sinks and all parameters, in reverse mode and once (of rotations and moved
keys any number of times); positions have none, and asking for one is refused. vmap runs its instances in one call, each
with its own gradients. Under jax.shard_map, explicit sharding and the compiler's own every device works on its part of
the batch and of heads, and gradients of what all have are added up. Positions may be traced, and a call for another number runs the same program. float64 needs
``jax_enable_x64``; parameters are converted to the call's arithmetic, float64 for float64 and float32 for all other
types. What is in place in ``bearing`` returns new arrays here.

What shapes and types can tell is refused while a function is traced, as ShapeError, TypeError or ValueError; what only
numbers can tell (a position that a table has no row for) when it runs, as JAX's runtime error with the same text.
"""

from __future__ import annotations

from . import encodings as _encodings
from . import layers as _layers
from .attention import attention, merge
from .ffi import export_checks
from .inputs import add, inputs
from .layers import *
from .linear_attention import linear_attention
from .rebase import rebase, shift
from .rows import rotate, turn
from .scores import add_scores, add_values, bias_matrix

_encodings.register()

__all__ = [
    "add",
    "add_scores",
    "add_values",
    "attention",
    "bias_matrix",
    "export_checks",
    "inputs",
    "linear_attention",
    "merge",
    "rebase",
    "rotate",
    "shift",
    "turn",
]
__all__ += _layers.__all__
