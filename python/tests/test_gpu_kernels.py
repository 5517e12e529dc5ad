"""The tests of kernels in Triton, in processes of their own, as Triton's interpreter takes over a whole process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
FOLDER = Path(__file__).parent / "gpu"
FILES = sorted(file.name for file in FOLDER.glob("test_*.py"))
ALONE = ["test_hub.py", "test_hub_model.py"]  # they change transformers for a whole process
TOGETHER = [file for file in FILES if file not in ALONE]
# A process takes as long to start as a file takes to run.
SHARES = [*([file] for file in ALONE), *(TOGETHER[first::3] for first in range(3))]

# Calls of each kind of kernel; the others' tests take many minutes there. Nearly all of the time goes into compiling.
COMPILED = {
    "rotations": (["test_rotate.py"], "not out_of_range"),  # positions on the CPU are checked there
    "caches, norms": (["test_cache.py", "test_norm.py"], ""),
    "steps of decoding": (
        ["test_attention_decode.py"],
        "bias and (step or window or lengths or hidden) or one_tile and pairs or 1-bias or steps_that_are",
    ),
    "products of matrices": (
        ["test_attention.py", "test_attention_rows.py", "test_attention_logits.py"],
        "16_bits or every_mask and none",
    ),
}
# Some calls that are like most, unless BEARING_EVERY_LAUNCH in the environment asks for all.
if "BEARING_EVERY_LAUNCH" not in os.environ:
    COMPILED = {
        "some of each kind": (
            [
                "test_rotate.py::test_queries_and_keys_have_the_library_s_bits",
                "test_rotate.py::test_several_tiles_of_heads_and_of_tokens[heads together-half]",
                "test_cache.py::test_queries_and_keys_are_rotated_into_a_cache",
                "test_cache.py::test_paged_caches_move_where_slots_say",
                "test_norm.py::test_it_is_the_formula_forward_and_backward[interleaved-dtype0]",
                "test_attention_decode.py::test_steps_that_are_alike_share_launches[pairs]",
                "test_attention.py::test_every_mask[none]",
                "test_attention.py::test_several_tiles_of_16_bits[lengths]",
                "test_attention_rows.py::test_every_mask[none]",
            ],
            "",
        )
    }


def run(files, *options, **chosen):
    """Files of tests in one process."""
    environment = {**os.environ, **chosen, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += [*options, *(str(FOLDER / file) for file in files)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@pytest.mark.parametrize("files", SHARES, ids=lambda files: files[0].removeprefix("test_").removesuffix(".py"))
def test_kernels_under_the_interpreter(files):
    run(files, TRITON_INTERPRET="1")


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_kernels_in_an_emulated_gpu(name):
    files, chosen = COMPILED[name]
    path = os.pathsep.join(filter(None, (str(FOLDER), os.environ.get("PYTHONPATH"))))
    run(files, "-p", "emulated.launches", "-k", chosen, BEARING_GPU="cpu", PYTHONPATH=path)


def test_the_same_calls_on_the_cpu_without_kernels():
    run(["test_cache.py", "test_in_place.py"], BEARING_GPU="cpu")


def test_the_package_is_there_without_triton():
    """As on machines that PyTorch has no Triton for, where only calls for GPUs need it."""
    program = (
        "import sys; sys.modules['triton'] = None; import torch, bearing.torch as bt; x = torch.ones(1, 1, 2, 4);"
        "bt.attention(x, x, x, mask='causal'); print(bt.plan(x.to('meta'), x, x, mask='causal').reason)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "the package triton is not installed" in done.stdout
