"""Kernels in Triton: on the CPU's tensors under Triton's interpreter, or on a GPU.

Triton reads TRITON_INTERPRET when a kernel is decorated, and every call of the process goes to the interpreter then. So these
tests run in a process of their own: ``test_gpu_kernels.py`` starts it; ``scripts/test gpu`` starts one for the device. Any
other process collects nothing here.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from place import INTERPRETED, ON_DEVICE

if INTERPRETED or ON_DEVICE:
    from calls import quick  # for all tests

    __all__ = ["quick"]
else:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def few_programs(monkeypatch):
    """Triton's interpreter works through one program after the other: there need not be some for each processor. How work is
    cut is forgotten, as tests cut it in other ways."""
    from bearing.torch.triton import cache, forward, launch, norm, norm_cache, rotate

    if INTERPRETED:
        monkeypatch.setattr(launch, "PROGRAMS", 1)
    launch._plan.cache_clear()
    for module in (rotate, cache, norm, norm_cache):
        module._recipe.cache_clear()
    forward._steps.clear()


@pytest.fixture(scope="session")
def device():
    """Where the kernels of this process work."""
    return ON_DEVICE or "cpu"


@pytest.fixture(autouse=True)
def _seed():
    import torch

    torch.manual_seed(20261123)
