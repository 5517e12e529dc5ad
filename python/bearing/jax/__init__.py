"""bearing under JAX's jit, vmap and grad, on the CPU.

    import bearing, bearing.jax

    @jax.jit
    def loss(bias, q, k, v):
        return bearing.jax.attention(q, k, v, [bias], mask="causal").sum()

    # bias, one of bearing's encodings, is a pytree: its arrays are the leaves
    d_bias = jax.grad(loss)(bias, q, k, v)                            # an encoding of the same class, of gradients

Encodings are ``bearing``'s own objects. Importing this module makes them pytrees. Their arrays are the leaves, their
specs and settings are static, so that encodings pass through transformations, optimisers and checkpoints like any other
parameters. A spec or a table (:class:`bearing.RopeTable`) is static, whether a function closes over it or takes it as
an argument. Make it once, outside of the compiled function: another table means another compilation.

Queries, keys, values, states, sinks and all parameters have gradients, in reverse mode, and once. Rotations and moved
keys have them any number of times. Positions have none: asking for one raises TypeError. vmap runs its instances in one
call, each with its own gradients. Under jax.shard_map, under explicit sharding and under the compiler's own, every
device works on its part of the batch and of the heads. The gradients of what all devices share are added up.

A program for another device than the CPU raises TypeError when it is compiled. Where JAX sees a GPU, set JAX_PLATFORMS=cpu,
or work under ``jax.default_device(jax.devices("cpu")[0])``.

Positions may be traced; a call with another number then runs the same program. float64 needs ``jax_enable_x64``.
Parameters are converted to the call's arithmetic: float64 for float64, float32 for all other types. What works in place
in ``bearing`` returns new arrays here.

While a function is traced, wrong shapes and types raise ShapeError, TypeError or ValueError. Wrong numbers, such as a
position that a table has no row for, raise JAX's runtime error with the same text when the function runs.
"""

from __future__ import annotations

try:
    import jax as _jax  # noqa: F401
except ImportError as error:
    raise ImportError("bearing.jax needs JAX: pip install 'bearing-pe[jax]'") from error

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
