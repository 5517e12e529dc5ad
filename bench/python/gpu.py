"""Kernels on a GPU beside what they are compared with, in one process: ratios, as machines differ.

Run it through scripts/bench --gpu [REGEX], which takes the cases whose names match. Each file gpu_*.py beside this one has
cases(device, small), which makes cases.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import torch


class Case(NamedTuple):
    """Calls that do the same work. Those of a name that begins with "copy" or "empty" are a limit, the others peers. A number
    in place of a call is the microseconds that others published."""

    name: str
    ours: Callable[[], object]
    others: Mapping[str, Callable[[], object] | float]
    clock: str = "device"  # "step": of so small a call in a graph of many; "host": also what Python takes to launch it
    moved: int = 0  # bytes that must be read and written


def device_here() -> str:
    """cuda (AMD's too) or xpu; nothing where PyTorch sees no GPU."""
    if torch.cuda.is_available():
        return "cuda"
    return "xpu" if hasattr(torch, "xpu") and torch.xpu.is_available() else ""


def bytes_per_microsecond(device: str) -> float:
    """What the device's memory could move at most, by its clock and width; 0 where PyTorch does not know them."""
    of = getattr(torch, device).get_device_properties() if device in ("cuda", "xpu") else None
    kilohertz, bits = (getattr(of, name, 0) for name in ("memory_clock_rate", "memory_bus_width"))
    return 2 * kilohertz * 1e-3 * bits / 8  # two words a cycle


STEPS = 100  # of a small call


def graph_of(call: Callable[[], object], times: int) -> Callable[[], object]:
    """So many calls as one CUDA graph: what Python takes to launch them is not measured then. On the current stream, as a
    backward works on the stream of its forward."""
    for _ in range(3):
        call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        for _ in range(times):
            call()
    return graph.replay


def microseconds(call: Callable[[], object], clock: str, device: str) -> float:
    """The median of many turns."""
    if clock == "host" or (clock == "step" and device != "cuda"):
        return by_host(call, device)
    from triton.testing import do_bench

    times = STEPS if clock == "step" else 1
    if device == "cuda":
        try:
            call = graph_of(call, times)
        except RuntimeError as error:  # a call that no graph takes
            print(f"measured with what Python takes: {str(error).partition(chr(10))[0]}", file=sys.stderr)
            times = 1
    return 1e3 * do_bench(call, warmup=50, rep=200, quantiles=[0.5]) / times


def by_host(call: Callable[[], object], device: str) -> float:
    """By the host's clock, of so many calls that waiting for the last of them does not matter."""
    synchronize = getattr(torch, device).synchronize
    turns = []
    for _ in range(30):
        synchronize()
        start = time.perf_counter()
        for _ in range(STEPS):
            call()
        synchronize()
        turns.append(1e6 / STEPS * (time.perf_counter() - start))
    return sorted(turns)[len(turns) // 2]


def report(case: Case, device: str) -> str:
    """One line: the time, the share of each limit, and how many times as fast as each peer. A peer that fails says so."""
    ours = microseconds(case.ours, case.clock, device)
    parts = [f"{ours:.1f} us"]
    if case.moved:
        parts.append(f"{case.moved / ours * 1e-6:.2f} TB/s")
        if most := bytes_per_microsecond(device):
            parts.append(f"{case.moved / ours / most:.2f} of the memory's {most * 1e-6:.2f}")
    for name, call in case.others.items():
        try:
            other = microseconds(call, case.clock, device) if callable(call) else call
        except Exception as error:  # whatever a peer raises, the other numbers are wanted
            parts.append(f"{name} failed ({type(error).__name__}: {str(error).partition(chr(10))[0]})")
            continue
        if name.startswith("copy"):
            parts.append(f"{other / ours:.2f} of {name}")
        elif name.startswith("empty"):
            parts.append(f"{ours / other:.2f} times {name}")
        else:
            parts.append(f"{other / ours:.2f}x {name}" + ("" if callable(call) else " (reckoned, not measured)"))
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
    # Graphs are recorded on a stream that is not the default one, and so all forwards run there.
    with torch.cuda.stream(torch.cuda.Stream()) if device == "cuda" else contextlib.nullcontext():
        for case in all_cases(device):
            if wanted.search(case.name):
                print(report(case, device), flush=True)
                torch.compiler.reset()  # PyTorch keeps few variants of a compiled function, and calls it uncompiled then


if __name__ == "__main__":
    main()
