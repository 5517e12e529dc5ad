"""What long-running programs need: no leaks, forks, threads that call at once, an end while a call runs."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

import bearing
import numpy as np
import pytest
from interpreters import run

LOOP = """
import gc, resource, sys
import numpy as np
import bearing

table = bearing.RopeTable(bearing.Rope(head_dim=8, pairing="half"), 16)
x, k, at = np.ones((1, 1, 1, 8), np.float32), np.ones((1, 1, 1, 8), np.float32), np.array([3])
encoding = bearing.AlibiBias(bearing.Alibi.published(1))
objects = (table, x, at, encoding, x.dtype, bearing.Rope, np.float32, None, "bhtd")


def wrong():
    try:
        bearing.rotate(table, x, at, layout="none")
    except ValueError:
        return
    raise SystemExit("a wrong call was taken")


def calls(n):
    for _ in range(n):
        bearing.rotate(table, x, at)
        bearing.rotate(table, x, k, 1, layout="bhtd")
        bearing.rotate_to(table, x)


def slower_calls(n):
    for _ in range(n):
        wrong()
        table.cos
        table.frequencies
        bearing.attention(x, x, x, [encoding], mask="causal")
        bearing.Rope(head_dim=8, pairing="half").to_dict()


def memory():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()


calls(10_000), slower_calls(1_000)
counts, before = [sys.getrefcount(one) for one in objects], memory()
calls(330_000), slower_calls(5_000)
after = memory()
grown = [sys.getrefcount(one) - count for one, count in zip(objects, counts)]
assert all(abs(one) <= 4 for one in grown), grown
assert after - before < 2**20, after - before
print("stable")
"""


def test_a_million_calls_keep_no_references_and_no_memory() -> None:
    done = run(LOOP)
    assert done.stdout.strip() == "stable", done.stderr


CYCLES = """
import gc, weakref
import numpy as np
import bearing


class Rows(np.ndarray):
    pass


class Layer:
    def __init__(self, kind):
        self.table = np.zeros((32, 4), np.float32).view(Rows)
        self.table.owner = self  # as a parameter's hook that is the layer's own method
        self.bias = kind(bearing.T5(direction="causal"), self.table)


class Derived(bearing.T5Bias):
    pass


for kind in (bearing.T5Bias, Derived):
    layers = [weakref.ref(Layer(kind)) for _ in range(5)]
    gc.collect()
    assert not [one for one in layers if one() is not None], kind
    kept = Layer(kind)
    gc.collect()
    assert kept.bias.table is kept.table
print("collected")
"""


def test_an_encoding_in_a_cycle_of_references_is_collected() -> None:
    done = run(CYCLES)
    assert done.stdout.strip() == "collected", done.stderr


FIRST_CALLS = """
import builtins, faulthandler, threading, time
import torch, bearing

real = builtins.__import__


def slow(name, *rest, **named):
    if name.startswith("torch"):
        time.sleep(0.01)  # lets Python's lock go, as any import may that runs Python
    return real(name, *rest, **named)


builtins.__import__ = slow
faulthandler.dump_traceback_later(20, exit=True)
table = bearing.RopeTable(bearing.Rope(head_dim=8, pairing="half"), 16)


def work():
    bearing.rotate(table, bearing.rotate_to(table, torch.ones(1, 1, 1, 8)))


threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("called")
"""


def test_the_first_calls_with_tensors_may_come_from_several_threads() -> None:
    pytest.importorskip("torch")
    done = run(FIRST_CALLS)
    assert done.stdout.strip() == "called", done.stderr


def test_whole_numbers_are_those_of_the_begin_of_a_call() -> None:
    """What another thread writes meanwhile would be used as an index that nobody has checked."""
    table = bearing.RopeTable(bearing.Rope(head_dim=4, pairing="half"), 16)
    x, at = np.ones((1, 1, 3, 4), np.float32), np.array([5, 6, 7])
    wanted = bearing.rotate_to(table, x, at)

    class Late:
        """Keys that are asked for after the positions of the queries, and write to these."""

        def __array__(self, *_: Any, **__: Any) -> np.ndarray:
            return np.zeros(3)

        dtype = np.dtype(np.int64)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

        def __dlpack__(self, *_: Any, **__: Any) -> Any:
            at[:] = 2**40
            return np.array([0, 1, 2]).__dlpack__()

    q = np.ones((1, 1, 3, 4), np.float32)
    rows = [bearing.RotaryRows(table)]
    usual = bearing.attention(q, q, q, rows, mask="none", q_positions=at.copy(), k_positions=np.array([0, 1, 2]))
    assert np.array_equal(bearing.attention(q, q, q, rows, mask="none", q_positions=at, k_positions=Late()), usual)
    assert at[0] == 2**40
    assert np.array_equal(bearing.rotate_to(table, x, [5, 6, 7]), wanted)


FORK = """
import os, sys
import numpy as np
import bearing

table = bearing.RopeTable(bearing.Rope(head_dim=64, pairing="half"), 1024)
x = np.random.default_rng(0).standard_normal((2, 8, 1024, 64), np.float32)
wanted = bearing.rotate_to(table, x, threads=2)
child = os.fork()
if child == 0:
    same = all(np.array_equal(bearing.rotate_to(table, x, threads=n), wanted) for n in (1, 2, 0))
    os._exit(0 if same else 3)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert np.array_equal(bearing.rotate_to(table, x, threads=2), wanted)
print("forked")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_child_works_on() -> None:
    done = run(FORK)
    assert done.stdout.strip() == "forked", done.stderr


FORK_DURING_CALLS = """
import os, signal, threading, time
import numpy as np
import bearing

table = bearing.RopeTable(bearing.Rope(head_dim=64, pairing="half"), 1024)
x = np.random.default_rng(0).standard_normal((2, 8, 1024, 64), np.float32)
wanted = bearing.rotate_to(table, x, threads=1)
done = False

def work():
    while not done:
        bearing.rotate_to(table, x, threads=2)

other = threading.Thread(target=work)
other.start()
for round in range(20):
    time.sleep(0.001 * round)
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a child that hangs dies of it
        same = all(np.array_equal(bearing.rotate_to(table, x, threads=n), wanted) for n in (2, 3))
        os._exit(0 if same else 3)
    _, status = os.waitpid(child, 0)
    if status != 0:
        done = True
    assert status == 0, os.waitstatus_to_exitcode(status)
done = True
other.join()
print("forked")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_child_works_on_though_another_thread_was_inside_a_call() -> None:
    done = run(FORK_DURING_CALLS)
    assert done.stdout.strip() == "forked", done.stderr


def test_threads_that_call_at_once_get_the_results_of_one() -> None:
    rng = np.random.default_rng(7)
    table = bearing.RopeTable(bearing.Rope(head_dim=64, pairing="half"), 256)
    xs = [rng.standard_normal((1, 4, 256, 64), np.float32) for _ in range(8)]
    encodings = [bearing.RotaryRows(table), bearing.AlibiBias(bearing.Alibi.published(4))]

    def work(x: np.ndarray, threads: int) -> tuple[Any, Any]:
        turned = bearing.rotate_to(table, x, threads=threads)
        return turned, bearing.attention(x, x, x, encodings, mask="causal", threads=threads)

    wanted = [work(x, 1) for x in xs]
    got: list[Any] = [None] * len(xs)

    def call(i: int) -> None:
        for _ in range(5):
            got[i] = work(xs[i], 1 + i % 2)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(len(xs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, other in zip(got, wanted):
        assert np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1])


def test_the_interpreter_is_free_while_kernels_run() -> None:
    """Another thread gets on, although one call takes longer than several of the interpreter's switches."""
    table = bearing.RopeTable(bearing.Rope(head_dim=128, pairing="half"), 16)
    x = np.zeros((1, 8, 2048, 128), np.float32)
    done = threading.Event()
    steps_within_calls = 0

    def count() -> None:
        nonlocal steps_within_calls
        while not done.is_set():
            steps_within_calls += inside
            time.sleep(1e-4)  # lets the caller go on

    inside = 0
    thread = threading.Thread(target=count)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(60)  # no switch but those that a call itself allows
    try:
        thread.start()
        for _ in range(20):
            inside = 1
            bearing.attention(x, x, x, [bearing.RotaryRows(table)], mask="causal")
            inside = 0
            if steps_within_calls:
                break
    finally:
        sys.setswitchinterval(interval)
        done.set()
        thread.join()
    assert steps_within_calls > 0


LEAVE = """
import threading, time
import numpy as np
import bearing

x = np.ones((2, 8, 512, 64), np.float32)


def work():
    while True:
        bearing.attention(x, x, x, mask="none", threads=THREADS)


for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
print("left")
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_a_daemon_thread_inside_a_call_lets_the_interpreter_end(threads: int) -> None:
    for _ in range(3):
        done = run(LEAVE.replace("THREADS", str(threads)))
        assert (done.returncode, done.stdout, done.stderr) == (0, "left\n", "")
