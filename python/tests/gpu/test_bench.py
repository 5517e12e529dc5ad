"""The benchmarks' cases run, at sizes that say nothing of speed; without a GPU the benchmark says that it needs one."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
from place import INTERPRETED

FOLDER = Path(__file__).parents[3] / "bench/python"


@pytest.fixture
def gpu(monkeypatch):
    """The benchmark's own module."""
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("gpu")


def numbers(found):
    return [x.detach().float() for x in (found if isinstance(found, (tuple, list)) else [found])]


def test_each_case_runs_and_all_sides_do_the_same(device, gpu, monkeypatch):
    """Compilers are left out: what they compile is run."""
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    if INTERPRETED:  # Liger computes in bfloat16, which Triton's interpreter does not
        find = importlib.util.find_spec
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "liger_kernel" else find(name))
    names, peers = [], set()
    for case in gpu.all_cases(device, small=True):
        ours = numbers(case.ours())
        for name, call in case.others.items():
            if name == "FlexAttention" and "training" in case.name:
                continue  # it has no backward on the CPU
            if not callable(call):
                continue  # published
            found = call()
            if not name.startswith(("copy", "empty")):
                peers.add(name)
                for x, y in zip(ours, numbers(found), strict=True):
                    # bfloat16 has 8 bits, and cosines of it are rounded too
                    torch.testing.assert_close(x, y, rtol=2**-5, atol=2**-5 * y.abs().max().item())
        names.append(case.name)
    assert len(set(names)) == len(names) > 20
    # published slopes have no gradients, which is most of what the others' training takes a peer
    assert all(
        any(n.startswith(f"attention, training, {what}, bfloat16") for n in names)
        for what in ("ALiBi", "ALiBi, learned slopes")
    )
    assert {"FlexAttention", "SDPA's flash kernel"} <= peers and (
        "transformers compiled" in peers or not transformers_is_there()
    )
    assert all(
        any(n.startswith(f"{what}, ") for n in names)
        for what in ("rotate", "rotate_", "rotate_to_cache", "norm_rotate")
    )


def transformers_is_there():
    return importlib.util.find_spec("transformers") is not None


def test_a_peer_that_fails_says_so(monkeypatch, gpu):
    peer = lambda: None

    def time(call, clock, device):
        if call is peer:
            raise RuntimeError("no kernel\nand more")
        return 10.0

    monkeypatch.setattr(gpu, "microseconds", time)
    case = gpu.Case("rotate", None, {"Liger": peer, "copy": lambda: None})
    assert gpu.report(case, "cuda") == "rotate: 10.0 us, Liger failed (RuntimeError: no kernel), 1.00 of copy"


def test_only_the_cases_that_are_named_are_measured(monkeypatch, gpu, capsys):
    monkeypatch.setattr(gpu, "device_here", lambda: "cuda")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    monkeypatch.setattr(torch.cuda, "Stream", lambda: None)  # which is the current one
    monkeypatch.setattr(
        gpu, "all_cases", lambda device: [gpu.Case(n, None, {}) for n in ("rotate, decode", "attention")]
    )
    monkeypatch.setattr(gpu, "microseconds", lambda call, clock, device: 1.0)
    monkeypatch.setattr(sys, "argv", ["gpu.py", "^att"])
    gpu.main()
    assert capsys.readouterr().out.splitlines()[1:] == ["attention: 1.0 us"]


def test_a_line_says_shares_and_ratios(monkeypatch, gpu):
    took = {"ours": 10.0, "limit": 9.0, "peer": 15.0, "launch": 8.0}
    calls = {name: lambda name=name: name for name in took}
    monkeypatch.setattr(gpu, "microseconds", lambda call, clock, device: took[call()])
    monkeypatch.setattr(gpu, "bytes_per_microsecond", lambda device: 4e6)
    limits = {"copy of the same bytes": calls["limit"], "empty launch": calls["launch"]}
    case = gpu.Case(
        "rotate", calls["ours"], {**limits, "Liger": calls["peer"], "what others published": 20.0}, moved=30_000_000
    )
    assert gpu.report(case, "cuda") == (
        "rotate: 10.0 us, 3.00 TB/s, 0.75 of the memory's 4.00, 0.90 of copy of the same bytes, 1.25 times empty launch, "
        "1.50x Liger, 2.00x what others published (reckoned, not measured)"
    )


def test_the_memory_s_speed_is_its_clock_and_width(monkeypatch, gpu):
    """Of an H100 with 80 GB of HBM3: 3.35 TB/s."""
    of = types.SimpleNamespace(memory_clock_rate=2_619_000, memory_bus_width=5120)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda: of)
    assert round(gpu.bytes_per_microsecond("cuda") * 1e-6, 2) == 3.35
    monkeypatch.setattr(torch.cuda, "get_device_properties", types.SimpleNamespace)
    assert gpu.bytes_per_microsecond("cuda") == gpu.bytes_per_microsecond("cpu") == 0


def test_without_a_gpu_it_says_so():
    if torch.cuda.is_available() or not INTERPRETED:
        return
    environment = {**os.environ, "BEARING_GPU_PYTHON": sys.executable}
    done = subprocess.run(
        [FOLDER.parents[1] / "scripts/bench", "--gpu"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "PyTorch sees no GPU here, so nothing was measured" in done.stderr
