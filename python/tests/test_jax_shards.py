"""bearing.jax on several devices: a sequence shared between them, and a batch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.config.update("jax_enable_x64", True)
import bearing.jax
import jax.export
from bearing.jax import attention, merge

mesh = Mesh(np.array(jax.devices()), ("time",))
assert mesh.size == 2
table = bearing.RopeTable(bearing.Rope(head_dim=4, pairing="half"), 16, dtype="float64")
encodings = [bearing.RotaryRows(table), bearing.AlibiBias(bearing.Alibi.published(2))]


def ring(q, k, v, at):
    def part(k, v, k_positions):
        return attention(q, k, v, encodings, mask="causal", q_positions=at, k_positions=k_positions, return_lse=True)

    other = jax.tree.map(lambda x: jax.lax.ppermute(x, "time", [(0, 1), (1, 0)]), (k, v, at))
    return merge(*part(*other), *part(k, v, at))[0]


rng = np.random.default_rng(0)
q, k, v = (jnp.asarray(rng.standard_normal((1, 2, 8, 4))) for _ in range(3))
at = jnp.asarray([0, 1, 6, 7, 2, 3, 4, 5])  # the first shard has both ends
rows = P(None, None, "time", None)
specs = dict(in_specs=(rows, rows, rows, P("time")), out_specs=rows)
shared = jax.jit(jax.shard_map(ring, mesh=mesh, **specs))
whole = lambda q, k, v, at: attention(q, k, v, encodings, mask="causal", q_positions=at, k_positions=at)
gradients = lambda f: jax.grad(lambda q, k, v: (f(q, k, v, at) ** 2).sum(), (0, 1, 2))(q, k, v)
for one, other in zip([shared(q, k, v, at), *gradients(shared)], [whole(q, k, v, at), *gradients(whole)]):
    np.testing.assert_allclose(one, other, rtol=0, atol=64 * 2.0**-53 * float(jnp.abs(other).max()))

kept = jax.export.export(shared, disabled_checks=bearing.jax.export_checks())(q, k, v, at).serialize()
spread = [jax.device_put(x, NamedSharding(mesh, spec)) for x, spec in zip((q, k, v, at), specs["in_specs"])]
np.testing.assert_array_equal(jax.export.deserialize(kept).call(*spread), shared(q, k, v, at))
print("equal")
"""


VISIBLE = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

jax.config.update("jax_enable_x64", True)
import bearing.jax

rng = np.random.default_rng(0)
q, k, v = (jnp.asarray(rng.standard_normal((2, 4, n, 4))) for n in (6, 8, 8))
auto, typed = Mesh(np.array(jax.devices()), ("h",)), jax.make_mesh((2,), ("h",), axis_types=(AxisType.Explicit,))
assert auto.size == 2


def of(q, k, v, visible):
    return bearing.jax.attention(q, k, v, mask="none", visible=visible)


def slope(function):
    return jax.jit(jax.value_and_grad(lambda *given: (function(*given) ** 2).sum(), (0, 1, 2)))


for shape, spec in [((6, 8), P()), ((4, 6, 8), P("h")), ((4, 1, 8), P("h")), ((8,), P()), ((2, 4, 1, 8), P(None, "h"))]:
    visible = jnp.asarray(rng.random(shape) < 0.6)
    wanted = slope(of)(q, k, v, visible)
    heads = P(None, "h")
    manual = jax.shard_map(of, mesh=auto, in_specs=(heads, heads, heads, spec), out_specs=heads)
    results = [slope(manual)(q, k, v, visible)]
    for mesh in (auto, typed):
        spread = [jax.device_put(x, NamedSharding(mesh, s)) for x, s in zip((q, k, v, visible), (heads,) * 3 + (spec,))]
        if mesh is auto:
            text = slope(of).lower(*spread).compile().as_text()
            assert "all-gather" not in text and "all-to-all" not in text, shape
            results.append(slope(of)(*spread))
        else:
            with jax.set_mesh(mesh):
                results.append(slope(of)(*spread))
    for got in results:
        for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(wanted)):
            np.testing.assert_allclose(one, other, rtol=0, atol=64 * 2.0**-53 * float(jnp.abs(other).max()))
print("equal")
"""

DECAYS = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.config.update("jax_enable_x64", True)
import bearing.jax

rng = np.random.default_rng(0)
mesh = Mesh(np.array(jax.devices()), ("h",))
assert mesh.size == 2


def loss(q, k, v, gates):
    return (bearing.jax.linear_attention(q, k, v, bearing.ForgettingBias(gates), mask="causal") ** 2).sum()


slope = jax.jit(jax.value_and_grad(loss, (0, 1, 2, 3)))
for kv_heads in (1, 2):
    q, k, v = (jnp.asarray(rng.standard_normal((2, heads, 8, 4))) for heads in (4, kv_heads, kv_heads))
    given = q, k, v, -jnp.asarray(rng.random((2, kv_heads, 8)))
    spread = [jax.device_put(x, NamedSharding(mesh, P(None, "h") if x.shape[1] > 1 else P())) for x in given]
    for one, other in zip(jax.tree.leaves(slope(*spread)), jax.tree.leaves(slope(*given))):
        np.testing.assert_allclose(one, other, rtol=0, atol=64 * 2.0**-53 * float(jnp.abs(other).max()))
print("equal")
"""


def run(program: list[str], devices: int) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"XLA_FLAGS": flags_for(devices)}
    return subprocess.run([sys.executable, *program], env=environment, capture_output=True, text=True, timeout=600)


def flags_for(devices: int) -> str:
    return f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"


def test_shards_of_a_sequence_are_as_one():
    # Twice 64 roundings of sums of a few dozen products.
    done = run(["-c", PROGRAM], 2)
    assert done.stdout.strip() == "equal", done.stderr


def test_heads_are_shared_with_what_is_visible():
    done = run(["-c", VISIBLE], 2)
    assert done.stdout.strip() == "equal", done.stderr


def test_decays_are_shared_as_the_heads_of_keys_are():
    done = run(["-c", DECAYS], 2)
    assert done.stdout.strip() == "equal", done.stderr


WORKER = Path(__file__).with_name("jax_shards_worker.py")


@pytest.mark.parametrize(
    ("way", "at_least"), [("auto", 30), ("manual", 30), ("unchecked", 15), ("explicit", 30), ("nested", 12)]
)
def test_shards_of_a_batch_are_as_one(way, at_least):
    """Every function and encoding, results and gradients: the worker says what each way promises, and what it leaves out."""
    done = run([str(WORKER), way], 4)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["problems"] == {} and report["checked"] >= at_least
