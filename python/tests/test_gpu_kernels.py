"""The tests of kernels in Triton, each file in a process of its own, as Triton's interpreter takes over a whole process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
FOLDER = Path(__file__).parent / "gpu"


def run(file, **chosen):
    """One file of tests in a process of its own."""
    environment = {**os.environ, **chosen, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(FOLDER / file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@pytest.mark.parametrize("file", sorted(file.name for file in FOLDER.glob("test_*.py")))
def test_kernels_under_the_interpreter(file):
    run(file, TRITON_INTERPRET="1")


@pytest.mark.parametrize("file", ["test_cache.py", "test_in_place.py"])
def test_the_same_calls_on_the_cpu_without_kernels(file):
    run(file, BEARING_GPU="cpu")
