"""How long bearing.jax keeps tables and encodings: equal ones once, those that nobody has not at all."""

import gc
import weakref

import bearing
import bearing.jax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bearing.jax import attention, encodings, rotate, tables
from jax_cases import close
from support import DIM, examples, names


class Watched(bearing.RopeTable):
    """A table that may have weak references."""


jax.tree_util.register_pytree_node(Watched, tables.parts, tables.whole)


def rope(base: float = 10_000.0) -> bearing.Rope:
    return bearing.Rope(head_dim=DIM, base=base, pairing="half")


def remade(base: float = 10_000.0) -> Watched:
    return Watched(rope(base), 16, dtype="float64")


@pytest.fixture
def x(rng):
    return jnp.asarray(rng.standard_normal((1, 2, 3, DIM)))


CALLS = {
    "rotate": lambda table, x: rotate(table, x),
    "attention": lambda table, x: attention(x, x, x, bearing.RotaryRows(table), mask="causal"),
    "attention, several": lambda table, x: attention(
        x, x, x, [bearing.RotaryRows(table), bearing.RotaryValues(table)], mask="causal"
    ),
    "turn": lambda table, x: bearing.jax.turn(bearing.RotaryRows(table), x, side="key"),
    "rebase": lambda table, x: bearing.jax.rebase(table, 0, table, 3, x),
    "an argument": jax.jit(lambda table, x: rotate(table, x)),
    "a part of one": jax.jit(lambda given, x: attention(x, x, x, given["rows"], mask="causal")),
}


def call(name: str, table: bearing.RopeTable, x: jax.Array) -> jax.Array:
    return CALLS[name]({"rows": bearing.RotaryRows(table)} if name == "a part of one" else table, x)


@pytest.mark.parametrize("name", CALLS)
def test_of_equal_tables_one_is_kept(name, x):
    wanted = call(name, remade(), x)
    plans, texts = len(encodings._kept), len(tables._kept)
    living = weakref.WeakSet()
    for _ in range(20):
        table = remade()
        living.add(table)
        np.testing.assert_array_equal(call(name, table, x), wanted)
    del table
    call(name, remade(), x)  # a new table is when others are let go
    gc.collect()
    assert len(living) == 0
    assert (len(encodings._kept), len(tables._kept)) == (plans, texts)


def test_all_calls_share_the_table_that_is_kept(x):
    living = weakref.WeakSet()
    for name in CALLS:
        table = remade(12_345.0)
        living.add(table)
        call(name, table, x)
    del table
    rotate(remade(), x)
    gc.collect()
    assert len(living) == 1


def test_a_table_in_use_is_read_once(x, monkeypatch):
    mine, others = [remade(), remade()], [remade(base) for base in (50.0, 60.0)]
    read = []
    text = tables._text
    monkeypatch.setattr(tables, "_text", lambda table: read.append(table) or text(table))
    for _ in range(3):
        for table in (*mine, *others):
            rotate(table, x)
            attention(x, x, x, bearing.RotaryRows(table), mask="none")
        rotate(remade(70.0), x)  # others come and go
    assert [sum(one is table for one in read) for table in (*mine, *others)] == [1, 1, 1, 1]


def test_tables_that_were_only_looked_at_are_not_kept():
    kept = len(tables._kept)
    living = weakref.WeakSet()
    for base in (101.0, 102.0, 103.0):
        table = remade(base)
        living.add(table)
        again = jax.tree.map(lambda leaf: leaf, bearing.RotaryRows(table))
        assert again.table is table
    del table, again
    jax.tree.leaves(remade())
    gc.collect()
    assert len(living) == 0 and len(tables._kept) == kept


def test_compiled_programs_outlive_their_tables(x):
    table = remade(777.0)
    other = bearing.XposTable(bearing.Xpos(rope=rope(777.0)), 16, dtype="float64")
    rows = [bearing.RotaryRows(table), bearing.XposRows(other)]
    closed = [
        jax.jit(lambda x, table=table: rotate(table, x)),
        jax.jit(jax.grad(lambda x, rows=rows: (attention(x, x, x, rows, mask="causal") ** 2).sum())),
    ]
    wanted = [function(x) for function in closed]
    programs = [function.lower(x).compile() for function in closed]
    living = weakref.ref(table)
    del closed, rows, table, other
    for base in range(800, 850):  # where the old ones lay in memory
        rotate(remade(float(base)), x)
    jax.clear_caches()
    gc.collect()
    for program, result in zip(programs, wanted, strict=True):
        np.testing.assert_array_equal(program(x), result)
    assert living() is not None  # it is the one that is kept


def test_tables_that_lie_where_another_lay_are_told_apart(x):
    for base in range(1000, 1060):
        table = bearing.RopeTable(rope(float(base)), 16, dtype="float64")
        np.testing.assert_array_equal(rotate(table, x, 5), bearing.rotate_to(table, np.asarray(x), 5))
        rows = bearing.RotaryRows(table)
        close(attention(x, x, x, rows, mask="none"), bearing.attention(*[np.asarray(x)] * 3, rows, mask="none"))
        del table, rows


def test_equal_tables_are_one_program_and_others_another(x):
    traces = 0

    @jax.jit
    def function(table, rows, x):
        nonlocal traces
        traces += 1
        return attention(rotate(table, x), x, x, rows, mask="none")

    def step(base):
        xpos = bearing.XposTable(bearing.Xpos(rope=rope(base)), 16, dtype="float64")
        return function(remade(base), bearing.XposRows(xpos), x)

    first = step(31.0)
    for _ in range(3):
        np.testing.assert_array_equal(step(31.0), first)
    assert traces == 1
    assert (step(32.0) != first).any() and traces == 2


@pytest.mark.parametrize("name", names("scores") + names("rows") + names("inputs"))
def test_equal_encodings_are_one_plan(name):
    first, *others = (encodings.static_of(examples(np.random.default_rng(0))[name].encoding) for _ in range(3))
    text, kept = encodings._register((first,)), len(encodings._kept)
    for other in others:
        assert other == first and encodings._register((other,)) == text
    assert len(encodings._kept) == kept
