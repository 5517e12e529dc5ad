"""The benchmarks' cases run, at sizes that say nothing of speed; without a GPU the benchmark says that it needs one."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
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


def test_each_case_s_own_call_runs(device, gpu):
    names = []
    for case in gpu.all_cases(device, small=True):
        case.ours()
        for name, call in case.others.items():
            if name.startswith(("copy", "empty")):
                call()
        names.append(case.name)
    assert len(set(names)) == len(names) > 4


def test_a_line_says_shares_and_ratios(monkeypatch, gpu):
    took = {"ours": 10.0, "limit": 9.0, "peer": 15.0, "launch": 8.0}
    monkeypatch.setattr(gpu, "microseconds", lambda call, by_host, device: took[call])
    case = gpu.Case("rotate", "ours", {"copy of the same bytes": "limit", "Liger": "peer", "empty launch": "launch"})
    assert gpu.report(case, "cuda") == (
        "rotate: 10.0 us, 0.90 of copy of the same bytes, 1.50x Liger, 1.25 times empty launch"
    )


def test_without_a_gpu_it_says_so():
    if torch.cuda.is_available() or not INTERPRETED:
        return
    environment = {**os.environ, "BEARING_GPU_PYTHON": sys.executable}
    done = subprocess.run(
        [FOLDER.parents[1] / "scripts/bench", "--gpu"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "PyTorch sees no GPU here, so nothing was measured" in done.stderr
