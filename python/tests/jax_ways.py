"""Every function of bearing.jax as a call of arrays, for sweeps over the ways in which JAX looks at a call.

A call is ``function(cut, whole, at)``: arrays that devices share between them, encodings, and positions. A new
function is a line in `calls`; an encoding of `support.examples` is in it without one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import bearing
import bearing.jax as bj
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec
from support import BATCH, DIM, HEADS, K_LEN, KV_HEADS, Q_LEN, examples, queries_and_keys


@dataclass(frozen=True)
class Call:
    function: Callable[[Any, Any, Any], Any]
    cut: Any
    """Arrays with gradients, [batch, …]; heads are the axis after it."""
    whole: Any = ()
    """What has gradients too: encodings."""
    at: Any = ()
    """Positions and the like, without gradients: arrays [axes, batch, time], or what is not cut."""
    whole_spec: Any = PartitionSpec()
    """How the encoding's arrays go with a batch that is cut along "b"; None where it holds sequences, and refuses."""
    fixed_heads: bool = False
    """Heads must stay together: an encoding has them in its spec, or keys have one."""


def calls(rng: np.random.Generator, dtype: str = "float64") -> dict[str, Call]:
    """Functions, and then every example of an encoding."""
    return functions(rng, dtype) | {name: _of_example(name, one, rng) for name, one in examples(rng).items()}


def functions(rng: np.random.Generator, dtype: str = "float64") -> dict[str, Call]:
    wide = "float64" if dtype == "float64" else "float32"

    def draw(*shape: int, dtype: str = dtype) -> jax.Array:
        return jnp.asarray(rng.standard_normal(shape), dtype)

    rope = bearing.Rope(head_dim=DIM, pairing="half")
    q, k, v = draw(BATCH, HEADS, Q_LEN, DIM), draw(BATCH, KV_HEADS, K_LEN, DIM), draw(BATCH, KV_HEADS, K_LEN, DIM)
    one_k, one_v = draw(BATCH, 1, K_LEN, DIM), draw(BATCH, 1, K_LEN, DIM)
    rotary = bearing.RotaryRows(bearing.RopeTable(rope, 16, dtype=wide))
    t5 = bearing.T5Bias(bearing.T5(buckets=8, max_distance=6, direction="bidirectional"), draw(8, HEADS))
    shaw = bearing.ShawTerm(bearing.Shaw(clip=2), draw(5, DIM), draw(5, DIM))
    pope = bearing.PopeRows(bearing.Pope(head_dim=DIM), draw(1, DIM), group=HEADS)
    learned = bearing.LearnedInputs(bearing.Learned(length=8, dim=DIM), draw(8, DIM))
    scores, rows, at = draw(BATCH, HEADS, Q_LEN, K_LEN), draw(BATCH, 4, DIM), jnp.asarray([[3, 1, 0], [0, 5, 2]])
    state = draw(BATCH, KV_HEADS, DIM, DIM, dtype=wide), jnp.abs(draw(BATCH, KV_HEADS, DIM, dtype=wide))
    sums = draw(BATCH, HEADS, Q_LEN, dtype=wide), draw(BATCH, HEADS, Q_LEN, dtype=wide)
    lengths, sees = jnp.asarray([5, 3]), jnp.asarray(rng.random((BATCH, K_LEN)) < 0.7)
    grid = rng.random((BATCH, HEADS, Q_LEN, K_LEN)) < 0.7
    return {
        "attention": Call(lambda c, w, a: bj.attention(*c, mask="causal", q_positions=2), (q, k, v)),
        "attention, one key head": Call(
            lambda c, w, a: bj.attention(*c, w, mask="causal", q_positions=2), (q, one_k, one_v), [rotary, t5]
        ),
        "attention, everything": Call(
            lambda c, w, a: bj.attention(
                *c, w[0], mask="causal", q_positions=2, sinks=w[1], window=(3, -1), soft_cap=4.0, return_lse=True, **a
            ),
            (q, k, v),
            ([rotary, t5], draw(HEADS)),
            {"k_lengths": lengths, "key_mask": sees, "visible": jnp.asarray(grid)},
        ),
        "attention, pairs of all": Call(
            lambda c, w, a: bj.attention(*c, w, mask="none", visible=grid[0, 0]), (q, k, v), t5
        ),
        "attention, pairs of heads": Call(
            lambda c, w, a: bj.attention(*c, w, mask="none", visible=grid[0]), (q, k, v), t5
        ),
        "attention, keys of sequences": Call(
            lambda c, w, a: bj.attention(*c, w, mask="none", visible=a), (q, k, v), t5, jnp.asarray(grid[:, :1, :1])
        ),
        "attention, bthd": Call(
            lambda c, w, a: jnp.moveaxis(
                bj.attention(*(jnp.moveaxis(x, 1, 2) for x in c), w, mask="none", layout="bthd"), 1, 2
            ),
            (q, k, v),
            t5,
        ),
        "linear_attention": Call(
            lambda c, w, a: bj.linear_attention(
                *c[:3], w, mask="causal", state=c[3], return_state=True, q_positions=2, normaliser="none"
            ),
            (q, k, v, state),
            rotary,
        ),
        "linear_attention, learned rows": Call(
            lambda c, w, a: bj.linear_attention(*c, w, mask="none"),
            (q, draw(*q.shape), draw(*q.shape)),
            pope,
            fixed_heads=True,
        ),
        "linear_attention, one key head": Call(
            lambda c, w, a: bj.linear_attention(*c, w, mask="causal", return_state=True),
            (q, one_k, one_v),
            rotary,
            fixed_heads=True,
        ),
        "merge": Call(lambda c, w, a: bj.merge(*c), (q, sums[0], draw(*q.shape), sums[1])),
        "rotate": Call(lambda c, w, a: bj.rotate(rope, c[0], 3), (q,)),
        "rotate, by token": Call(lambda c, w, a: bj.rotate(rope, c[0], a), (q,), (), at[None]),
        "turn": Call(lambda c, w, a: bj.turn(w, c[0], a, side="query"), (q,), pope, at[None], fixed_heads=True),
        "rebase": Call(lambda c, w, a: bj.rebase(rope, 1, rope, a, c[0]), (q,), (), at[None]),
        "rebase, xPos": Call(lambda c, w, a: bj.rebase(bearing.Xpos(rope=rope), 1, 6, c[0]), (q,)),
        "shift": Call(lambda c, w, a: bj.shift(rope, 4, c[0]), (q,)),
        "inputs": Call(lambda c, w, a: bj.inputs(w, a[0], dtype=dtype), (), learned, at[None]),
        "add": Call(lambda c, w, a: bj.add(w, c[0], a[0]), (rows[:, :3],), learned, at[None]),
        "bias_matrix": Call(
            lambda c, w, a: bj.bias_matrix(w, heads=HEADS, q_len=3, k_len=5, dtype=dtype)[None], (), t5
        ),
        "add_scores": Call(lambda c, w, a: bj.add_scores([w], c[0], q=c[1], k=c[2]), (scores, q, k), shaw),
        "add_values": Call(lambda c, w, a: bj.add_values(w, *c), (jnp.abs(scores), q), shaw),
    }


def _of_example(name: str, example: Any, rng: np.random.Generator) -> Call:
    """What an example of an encoding is for: attention with it, rows that it turns, or inputs that it is added to."""
    q, k, v = (jnp.asarray(x) for x in queries_and_keys(rng))
    encoding = jax.tree.map(jnp.asarray, example.encoding)
    at = [None if x is None else jnp.asarray(x) for x in (example.q_positions, example.k_positions)]
    if example.site == "inputs":
        return Call(lambda c, w, a: bj.add(w, c[0], a[0]), (q[:, 0],), encoding, at)
    if example.site == "rows":
        fixed = bool(encoding.parameters)
        return Call(lambda c, w, a: bj.turn(w, c[0], a[0], side="query"), (q,), encoding, at, fixed_heads=fixed)
    return Call(
        lambda c, w, a: bj.attention(*c, w, mask="none", q_positions=a[0], k_positions=a[1]),
        (q, k, v),
        encoding,
        at,
        whole_spec={
            "ForgettingBias": PartitionSpec("b"),
            "GatedDecayTerm": PartitionSpec("b"),
            "XlnetSegmentTerm": None,
            "GatedT5Bias": None,
            "RelativeLogitsTerm": None,
        }.get(name, PartitionSpec()),
        fixed_heads=name in ("AlibiBias", "RetentionBias", "SandwichBias"),
    )


def results(call: Call, function: Callable[..., Any] | None = None) -> Callable[[Any, Any], Any]:
    """(cut, whole, at) → gradients for fixed weights of the results, and the results."""
    function = call.function if function is None else function

    def loss(cut: Any, whole: Any, at: Any) -> Any:
        out = function(cut, whole, at)
        return sum((x * weights(x)).sum() for x in jax.tree.leaves(out)), out

    def weights(x: jax.Array) -> jax.Array:
        return jnp.cos(jnp.arange(x.size).reshape(x.shape)).astype(x.dtype)

    return jax.grad(loss, (0, 1), has_aux=True)
