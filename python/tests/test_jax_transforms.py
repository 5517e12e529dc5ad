"""bearing.jax under JAX's transformations: jit, vmap, scan, donation; encodings as pytrees."""

import functools
import subprocess
import sys

import bearing
import bearing.jax
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from bearing.jax import attention
from jax_cases import T5, arrays, close, t5_bias
from support import BATCH, DIM, HEADS, K_LEN, KV_HEADS, examples, names, queries_and_keys


def test_vmap_runs_each_instance_as_if_alone(rng):
    q, k, v = (jnp.asarray(rng.standard_normal((3, *x.shape))) for x in queries_and_keys(rng))
    bias, lengths = t5_bias(rng), jnp.asarray([[1, 5], [2, 4], [3, 3]])

    def function(q, k, v, lengths):
        return attention(q, k, v, bias, mask="none", k_lengths=lengths)

    for axes in [(0, 0, 0, 0), (0, None, None, None), (None, 0, None, 0), (0, 0, 0, None)]:
        given = [x if axis == 0 else x[0] for x, axis in zip((q, k, v, lengths), axes, strict=True)]
        wanted = [function(*(x[i] if axis == 0 else x for x, axis in zip(given, axes, strict=True))) for i in range(3)]
        np.testing.assert_array_equal(jax.vmap(function, axes)(*given), jnp.stack(wanted))


def test_vmap_gives_each_instance_its_own_gradients(rng):
    q, k, v = (jnp.asarray(rng.standard_normal((3, *x.shape))) for x in queries_and_keys(rng))
    bias = t5_bias(rng)

    def loss(bias, q, k, v):
        return (attention(q, k, v, bias, mask="none", threads=2) ** 2).sum()

    alone = [jax.grad(loss, argnums=(0, 1))(bias, q[i], k[i], v[i]) for i in range(3)]
    tables = jnp.stack([d_bias.parameters["table"] for d_bias, _ in alone])
    d_bias, d_q = jax.jit(jax.vmap(jax.grad(loss, argnums=(0, 1)), (None, 0, 0, 0)))(bias, q, k, v)
    np.testing.assert_array_equal(d_bias.parameters["table"], tables)
    np.testing.assert_array_equal(d_q, jnp.stack([one for _, one in alone]))
    summed = jax.grad(lambda bias: jax.vmap(functools.partial(loss, bias))(q, k, v).sum())(bias)
    close(summed.parameters["table"], tables.sum(0))


def test_vmap_maps_parameters_and_nests(rng):
    q, k, v = arrays(rng)
    tables = jnp.asarray(rng.standard_normal((2, 3, 8, HEADS)))
    bias = bearing.T5Bias(T5, tables)
    got = jax.vmap(jax.vmap(lambda bias, k: attention(q, k, v, bias, mask="none"), (0, None)), (0, 0))(
        bias, jnp.stack([k, k + 1])
    )
    for i in range(2):
        for j in range(3):
            alone = attention(q, k + i, v, bearing.T5Bias(T5, tables[i, j]), mask="none")
            np.testing.assert_array_equal(got[i, j], alone)


def test_layers_may_be_scanned_and_rematerialised(rng):
    q, k, v = arrays(rng)
    tables = jnp.asarray(rng.standard_normal((3, 8, HEADS)))

    def layer(x, table):
        return x + attention(x, k, v, bearing.T5Bias(T5, table), mask="none"), None

    def scanned(tables):
        return jax.lax.scan(jax.checkpoint(layer), q, tables)[0].sum()

    def unrolled(tables):
        x = q
        for table in tables:
            x = layer(x, table)[0]
        return x.sum()

    close(jax.jit(jax.grad(scanned))(tables), jax.grad(unrolled)(tables))


def test_new_numbers_do_not_trace_again(rng):
    q, k, v = arrays(rng)
    traces = 0

    @jax.jit
    def function(q, bias):
        nonlocal traces
        traces += 1
        return attention(q, k, v, bias, mask="none")

    for shift in range(3):
        spec = bearing.T5(buckets=8, max_distance=6, direction="bidirectional")  # equal, not the same
        function(q + shift, bearing.T5Bias(spec, jnp.full((8, HEADS), float(shift))))
    assert traces == 1
    function(q, bearing.T5Bias(T5.replace(max_distance=5), jnp.zeros((8, HEADS))))
    assert traces == 2


def test_a_cache_is_as_long_as_a_traced_number_says(rng):
    q, k, v = arrays(rng)
    bias = bearing.AlibiBias(bearing.Alibi.published(HEADS))
    step = jax.jit(lambda past: attention(q, k, v, bias, mask="causal", q_positions=past))
    for past in range(3):
        np.testing.assert_array_equal(step(past), attention(q, k, v, bias, mask="causal", q_positions=past))


def test_threads_change_no_bit(rng):
    q, k, v = (jnp.asarray(rng.standard_normal((2, 4, 70, 8))) for _ in range(3))
    bias = t5_bias(rng)

    def gradients(threads):
        return jax.grad(lambda q, bias: attention(q, k, v, bias, mask="causal", threads=threads).sum(), argnums=(0, 1))(
            q, bias
        )

    jax.tree.map(np.testing.assert_array_equal, gradients(1), gradients(0))


@pytest.mark.parametrize("name", names("scores") + names("rows") + names("inputs"))
def test_encodings_are_pytrees_of_their_arrays(name, rng):
    encoding = examples(rng)[name].encoding
    leaves, tree = jax.tree.flatten(encoding)
    assert len(leaves) == len(encoding.parameters)
    again = jax.tree.unflatten(tree, leaves)
    assert type(again) is type(encoding) and again.parameters.keys() == encoding.parameters.keys()
    assert all(again.parameters[p] is encoding.parameters[p] for p in again.parameters)
    assert jax.tree.leaves(jax.tree.map(lambda _: None, encoding)) == []
    assert jax.tree.structure(again) == tree and hash(jax.tree.structure(again)) == hash(tree)
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(encoding)[0]]
    assert [str(path[0]) for path in paths] == [f".{p}" for p in encoding.parameters]


# Numbers of positions


CALLS = {
    "attention": lambda x, n: attention(x, x, x, mask="causal", q_positions=n, k_positions=2 * n),
    "linear_attention": lambda x, n: bearing.jax.linear_attention(x, x, x, mask="causal", q_positions=n),
    "rotate": lambda x, n: bearing.jax.rotate(bearing.Rope(head_dim=DIM, pairing="half"), x, n),
    "turn": lambda x, n: bearing.jax.turn(bearing.PopeRows(bearing.Pope(head_dim=DIM)), x, n, side="key"),
    "shift": lambda x, n: bearing.jax.shift(bearing.Rope(head_dim=DIM, pairing="half"), n, x),
    "bias_matrix": lambda x, n: bearing.jax.bias_matrix(
        bearing.AlibiBias(bearing.Alibi.published(HEADS)), n, heads=HEADS, q_len=2, k_len=3
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_another_number_runs_the_same_program(name, rng, caplog):
    x = jnp.asarray(rng.standard_normal((BATCH, HEADS, K_LEN, DIM)))
    first = CALLS[name](x, 3)
    with jax.log_compiles():
        again = [CALLS[name](x, n) for n in (4, 5)]
        assert "Compiling" not in caplog.text
        jax.jit(lambda x: x + 1)(x)
        assert "Compiling" in caplog.text
    for n, one in zip((4, 5), again, strict=True):
        np.testing.assert_array_equal(jax.jit(CALLS[name])(x, jnp.asarray(n)), one)
        assert not np.array_equal(first, one)


def test_a_program_serves_any_batch_when_it_is_exported(rng):
    bias = bearing.AlibiBias(bearing.Alibi.published(HEADS))
    call = jax.jit(lambda x: attention(x, x, x, bias, mask="causal"))
    shape = jax.export.symbolic_shape(f"batch, {HEADS}, {K_LEN}, {DIM}")
    allowed = bearing.jax.export_checks()
    exported = jax.export.export(call, disabled_checks=allowed)(jax.ShapeDtypeStruct(shape, jnp.float64))
    for batch in (1, 3):
        x = jnp.asarray(rng.standard_normal((batch, HEADS, K_LEN, DIM)))
        np.testing.assert_array_equal(exported.call(x), call(x))


ELSEWHERE = """
import sys
import bearing, bearing.jax, jax, jax.export, jax.numpy as jnp

def call(x):
    rows = bearing.RotaryRows(bearing.RopeTable(bearing.Rope(head_dim=4, pairing="half"), 16))
    return bearing.jax.attention(x, x, x, rows, mask="causal")

x = jnp.arange(24, dtype=jnp.float32).reshape(1, 2, 3, 4)
if sys.argv[1] == "write":
    kept = jax.export.export(jax.jit(call), disabled_checks=bearing.jax.export_checks())(x).serialize()
    sys.stdout.buffer.write(kept)
else:
    program = jax.export.deserialize(bytearray(sys.stdin.buffer.read()))
    try:
        program.call(x).block_until_ready()
    except jax.errors.JaxRuntimeError as error:
        print("must be known in this process" in str(error))
    jax.eval_shape(call, x)
    print((program.call(x) == call(x)).all())
"""


def test_an_exported_program_runs_elsewhere_once_its_encodings_are_known():
    def run(what: str, given: bytes = b"") -> bytes:
        done = subprocess.run([sys.executable, "-c", ELSEWHERE, what], input=given, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    assert run("read", run("write")).split() == [b"True", b"True"]


@pytest.mark.parametrize("what", ["table", "spec", "encoding"])
def test_specs_tables_and_encodings_are_arguments_of_compiled_functions(what, rng):
    spec = bearing.Rope(head_dim=DIM, pairing="half")
    table = bearing.RopeTable(spec, 18, dtype="float64")  # no other test's: of equal ones the first is kept
    x = jnp.asarray(rng.standard_normal((BATCH, HEADS, K_LEN, DIM)))
    given = {"table": table, "spec": spec, "encoding": bearing.RotaryRows(table)}[what]

    @jax.jit
    def function(given, x):
        if what == "encoding":
            return bearing.jax.turn(given, x, 2, side="key")
        return bearing.jax.rotate(given, x, 2)

    np.testing.assert_array_equal(function(given, x), bearing.jax.rotate(table, x, 2))
    assert jax.tree.leaves(given) == [] and jax.tree.unflatten(jax.tree.structure(given), []) is not None
    d_given, d_x = jax.grad(lambda given, x: function(given, x).sum(), (0, 1))(given, x)
    assert type(d_given) is type(given) and d_x.shape == x.shape


# Memory that is given away


def test_donated_arrays_are_read_before_they_are_written(rng):
    table = bearing.RopeTable(bearing.Rope(head_dim=DIM, pairing="half"), 16, dtype="float64")
    functions = {
        "attention": lambda x, y: attention(x, y, y, mask="none"),
        "merge": lambda x, y: bearing.jax.merge(x, x[..., 0], y, y[..., 0])[0],
        "rotate": lambda x, y: bearing.jax.rotate(table, x, 3),
        "rebase": lambda x, y: bearing.jax.rebase(table, 0, table, 3, x),
        "shift": lambda x, y: bearing.jax.shift(table, 3, x),
        "add_values": lambda x, y: bearing.jax.add_values(
            bearing.ShawTerm(bearing.Shaw(clip=2), jnp.ones((5, DIM)), jnp.ones((5, DIM))), y, x
        ),
    }
    x, y = rng.standard_normal((2, BATCH, HEADS, DIM, DIM))
    for name, function in functions.items():
        wanted = function(x, y)
        kept = jnp.asarray(y)
        given = jnp.array(x)
        got = jax.jit(function, donate_argnums=0)(given, kept)
        np.testing.assert_array_equal(got, wanted, name)
        np.testing.assert_array_equal(kept, y, name)


def test_an_argument_outlives_the_call_unchanged(rng):
    k = jnp.asarray(rng.standard_normal((BATCH, KV_HEADS, K_LEN, DIM)))
    before = np.array(k)
    rope = bearing.Rope(head_dim=DIM, pairing="half")
    moved = jax.jit(lambda k: bearing.jax.shift(rope, 2, bearing.jax.rebase(rope, 0, rope, 1, k)))(k)
    np.testing.assert_array_equal(k, before)
    assert not np.array_equal(moved, before)


# A cache that fills up


def test_decoding_in_a_scan_with_a_cache_is_attention_over_all_tokens(rng):
    time, room = 6, 9
    q, k, v = (jnp.asarray(rng.standard_normal((BATCH, heads, time, DIM))) for heads in (HEADS, KV_HEADS, KV_HEADS))
    encodings = [
        bearing.RotaryRows(bearing.RopeTable(bearing.Rope(head_dim=DIM, pairing="half"), 16, dtype="float64")),
        t5_bias(rng),
    ]

    def step(cache, token):
        at, q, k, v = token
        keys, values = (jax.lax.dynamic_update_slice(c, x, (0, 0, at, 0)) for c, x in zip(cache, (k, v), strict=True))
        lengths = jnp.full(BATCH, at + 1)
        return (keys, values), attention(q, keys, values, encodings, mask="causal", q_positions=at, k_lengths=lengths)

    # What lies behind the cache's end is never read.
    empty = tuple(jnp.full((BATCH, KV_HEADS, room, DIM), jnp.nan) for _ in range(2))
    tokens = [jnp.moveaxis(x, 2, 0)[:, :, :, None] for x in (q, k, v)]
    _, outs = jax.jit(lambda tokens: jax.lax.scan(step, empty, (jnp.arange(time), *tokens)))(tokens)
    close(jnp.moveaxis(outs[:, :, :, 0], 0, 2), attention(q, k, v, encodings, mask="causal"))


def test_sequences_of_different_lengths_decode_together(rng):
    lengths = jnp.asarray([5, 3])
    q = jnp.asarray(rng.standard_normal((BATCH, HEADS, 1, DIM)))
    k, v = jnp.asarray(rng.standard_normal((2, BATCH, KV_HEADS, 7, DIM)))
    bias = t5_bias(rng)
    options = dict(mask="causal", q_positions=lengths[:, None] - 1, k_lengths=lengths)
    together = jax.jit(lambda q: attention(q, k, v, bias, **options))(q)
    for b, n in enumerate(lengths):
        alone = attention(
            q[b : b + 1], k[b : b + 1, :, :n], v[b : b + 1, :, :n], bias, mask="causal", q_positions=n - 1
        )
        close(together[b : b + 1], alone)
