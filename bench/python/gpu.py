"""Kernels on a GPU beside what they are compared with, in one process: ratios, as machines differ.

Run it through scripts/bench --gpu [REGEX], which takes the cases whose names match. Each file gpu_*.py beside this one has
cases(device, small), which makes cases.
"""

from __future__ import annotations

import importlib
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import torch


class Case(NamedTuple):
    """Calls that do the same work. Those of a name that begins with "copy" or "empty" are a limit, the others peers."""

    name: str
    ours: Callable[[], object]
    others: Mapping[str, Callable[[], object]]
    by_host: bool = False  # measured by the host's clock: so little work that launching it is what takes time


def device_here() -> str:
    """cuda (AMD's too) or xpu; nothing where PyTorch sees no GPU."""
    if torch.cuda.is_available():
        return "cuda"
    return "xpu" if hasattr(torch, "xpu") and torch.xpu.is_available() else ""


def microseconds(call: Callable[[], object], by_host: bool, device: str) -> float:
    """The median of many turns."""
    if not by_host:
        from triton.testing import do_bench

        return 1e3 * do_bench(call, warmup=50, rep=200, quantiles=[0.5])
    synchronize = getattr(torch, device).synchronize
    turns = []
    for _ in range(30):
        synchronize()
        start = time.perf_counter()
        for _ in range(100):
            call()
        synchronize()
        turns.append(1e4 * (time.perf_counter() - start))
    return sorted(turns)[len(turns) // 2]


def report(case: Case, device: str) -> str:
    """One line: the time, the share of each limit, and how many times as fast as each peer. A peer that fails says so."""
    ours = microseconds(case.ours, case.by_host, device)
    parts = [f"{ours:.1f} us"]
    for name, call in case.others.items():
        try:
            other = microseconds(call, case.by_host, device)
        except Exception as error:  # whatever a peer raises, the other numbers are wanted
            parts.append(f"{name} failed ({type(error).__name__}: {str(error).partition(chr(10))[0]})")
            continue
        if name.startswith("copy"):
            parts.append(f"{other / ours:.2f} of {name}")
        elif name.startswith("empty"):
            parts.append(f"{ours / other:.2f} times {name}")
        else:
            parts.append(f"{other / ours:.2f}x {name}")
    return f"{case.name}: {', '.join(parts)}"


def all_cases(device: str, small: bool = False) -> Iterable[Case]:
    """The cases of every file. small: sizes for a look at whether they run."""
    for file in sorted(Path(__file__).parent.glob("gpu_*.py")):
        yield from importlib.import_module(file.stem).cases(device, small)


def main() -> None:
    device = device_here()
    if not device:
        sys.exit("bench: PyTorch sees no GPU here, so nothing was measured: scripts/bench --gpu needs one")
    print(f"{getattr(torch, device).get_device_name()}, PyTorch {torch.__version__}")
    wanted = re.compile(sys.argv[1] if len(sys.argv) > 1 else "")
    for case in all_cases(device):
        if wanted.search(case.name):
            print(report(case, device), flush=True)
            torch.compiler.reset()  # PyTorch keeps few variants of a compiled function, and calls it uncompiled after that


if __name__ == "__main__":
    main()
