"""reset_parameters() of every module: alone, in the loops of frameworks, and where FSDP2 shares parameters."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bearing
import bearing.torch as bt
import pytest
import torch
from starting_worker import Make, emptied, makes, numbers, start_each
from torch import Tensor, nn

MAKES = makes()
STARTED = {name: make for name, make in MAKES.items() if numbers(make())}


@pytest.fixture(params=STARTED)
def make(request) -> Make:
    return STARTED[request.param]


def made_there(make: Make) -> nn.Module:
    with torch.device("meta"):
        return make()


WAYS: dict[str, Callable[[Make], nn.Module]] = {
    "made there": made_there,
    "moved there": lambda make: make().to("meta"),
    "copied": lambda make: copy.deepcopy(make()).to("meta"),
    "pickled": lambda make: pickle.loads(pickle.dumps(make())).to("meta"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_module_from_the_meta_device_starts_as_a_new_one_of_the_same_seed(make, way):
    torch.manual_seed(3)
    wanted = numbers(make())
    module = emptied(WAYS[way](make))
    torch.manual_seed(3)
    module.reset_parameters()
    found = numbers(module)
    assert list(found) == list(wanted)
    for name, x in wanted.items():
        assert found[name].dtype is x.dtype and torch.equal(found[name], x), name


DRAWS = 128


def drawn(draw: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
    """[draws, …] of every parameter and buffer."""
    found = [draw() for _ in range(DRAWS)]
    return {name: torch.stack([one[name] for one in found]).double() for name in found[0]}


@pytest.mark.parametrize("order", [list, reversed], ids=["parents first", "children first"])
def test_a_loop_over_all_modules_starts_them_alike_in_either_order(make, order):
    torch.manual_seed(4)
    wanted, module = drawn(lambda: numbers(make())), make()

    def again() -> dict[str, Tensor]:
        start_each(order(list(emptied(module).modules())))
        return numbers(module)

    for name, x in drawn(again).items():
        y = wanted[name]
        spread = y.std(0)
        if not spread.any():
            assert torch.equal(x, y), name
            continue
        # Means of two samples of normal or uniform numbers, and their standard deviations, within six of their own.
        assert ((x.mean(0) - y.mean(0)).abs() <= 6 * (x.var(0) + y.var(0)).div(DRAWS).sqrt()).all(), name
        pooled, other = spread.square().mean().sqrt(), x.std(0).square().mean().sqrt()
        assert (other / pooled - 1).abs() <= 6 / (DRAWS * spread.numel()) ** 0.5, name


def test_parameters_that_were_given_are_left_to_who_made_them():
    table = nn.Parameter(torch.ones(32, 4))
    module = bt.Attention(bearing.T5Bias(bearing.T5(direction="causal"), table), mask="causal", sinks=4)
    with torch.no_grad():
        module.sinks.fill_(3)
    module.reset_parameters()
    assert (table == 1).all() and not module.sinks.any()


def test_layers_within_start_as_their_papers_code_starts_them():
    torch.manual_seed(6)
    deberta = bt.Deberta(bearing.Deberta(max_relative_positions=8), 4, 32, 64)
    tupe = bt.Tupe(bearing.Tupe(rel_pos_bins=8, max_rel_pos=16), 4, 32, 64, 6)
    logits = bt.RelativeLogits(bearing.RelativeLogits(extent=3), 8, 64)
    for linear in (deberta.key, deberta.query, tupe.key, tupe.query, logits.project):
        # Of 8192 numbers the standard deviation is known to 1 %.
        assert abs(linear.weight.std() / 0.02 - 1) < 0.05 and (linear.bias is None or not linear.bias.any())
    forgetting = bt.Forgetting(4, 64, bias=3.0)
    assert (forgetting.gate.bias == 3).all() and (bt.Forgetting(4, 64).gate.bias == 5).all()
    assert forgetting.gate.weight.abs().max() <= 1 / 8  # PyTorch's start


worker = Path(__file__).with_name("starting_worker.py")


@pytest.fixture(scope="module", params=[1, 2])
def shared(request, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What is wrong where so many processes share parameters, by module."""
    path = tmp_path_factory.mktemp("starting") / "results.json"
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(request.param), worker, path],
        check=False, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(path.read_text())


def test_processes_that_share_a_module_have_parts_of_one_start(shared):
    assert len(shared) > 40
    assert {name: wrong for name, wrong in shared.items() if any(wrong)} == {}
