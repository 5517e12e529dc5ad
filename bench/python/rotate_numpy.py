"""Rotation from NumPy: in place against the C++ benchmark's own figure, and what a call costs, in one run.

    python bench/python/rotate_numpy.py [build/bench/bench/rope_bench] [--threads 1] [--pairs 7]

The C++ program and Python take turns on tensors of the same shape (4,096 tokens, 32 heads of 128, float32, 64 MiB) with
tables of the same length: the shortest step of each turn, and medians of all turns. The C++ program's steps alternate with
its limits, so where the tensor stays in a large cache, Python is ahead. What a call costs is the time of a call on so little that the arithmetic does not count.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
import timeit
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import bearing
import numpy as np

TOKENS, HEADS, HEAD_DIM = 4096, 32, 128
TABLE = 131_072  # rows, as in the C++ benchmark


def in_cpp(program: Path, threads: int) -> float:
    """Milliseconds of the C++ benchmark's case."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        name = f"^rotate/f32/half/in_place/64MiB/{threads}(/|$)"
        subprocess.run(
            [program, f"--benchmark_filter={name}", f"--benchmark_out={out}", "--benchmark_out_format=json"],
            check=True, capture_output=True,
        )  # fmt: skip
        (case,) = json.loads(out.read_text())["benchmarks"]
        return case["step_us"] / 1e3


def in_python(threads: int) -> float:
    """Milliseconds of the same rotation, the least of half a second."""
    table = bearing.RopeTable(bearing.Rope(head_dim=HEAD_DIM, pairing="half"), TABLE)
    x = np.random.default_rng(0).standard_normal((1, TOKENS, HEADS, HEAD_DIM), dtype=np.float32)
    times = []
    end = time.perf_counter() + 0.5
    while time.perf_counter() < end:
        start = time.perf_counter()
        bearing.rotate(table, x, 0, layout="bthd", threads=threads)
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def cost(call: str, names: dict[str, object], turns: int = 20_000) -> float:
    """Microseconds of a call, the least of 15 runs."""
    return 1e6 * min(timeit.repeat(call, globals=names, number=turns, repeat=15)) / turns


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program", type=Path, nargs="?", help="the C++ benchmark; without it, calls' costs alone")
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--pairs", type=int, default=7)
    given = arguments.parse_args()
    if given.program:
        pairs = [(in_cpp(given.program, given.threads), in_python(given.threads)) for _ in range(given.pairs)]
        cpp, python = (median(side) for side in zip(*pairs, strict=True))
        share = median(a / b for a, b in pairs)
        print(f"rotate in place, 64 MiB   C++ {cpp:.3f} ms  Python {python:.3f} ms   {share:.2f} of C++")
    x = np.ones((1, 1, 1, 8), np.float32)
    names = {
        "bearing": bearing, "x": x, "y": x.copy(),
        "table": bearing.RopeTable(bearing.Rope(head_dim=8, pairing="half"), 8),
    }  # fmt: skip
    for what, call in {
        "rotate, in place": "bearing.rotate(table, x, 0)",
        "rotate, q and k": "bearing.rotate(table, x, y, 0)",
        "rotate_to, a new array": "bearing.rotate_to(table, x, 0)",
        "attention": "bearing.attention(x, x, x, mask='none')",
    }.items():
        print(f"a call of {what:24} {cost(call, names):6.2f} us")


if __name__ == "__main__":
    main()
