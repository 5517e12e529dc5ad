"""One of the processes that test_torch_starting.py starts with torchrun: starts every module from the meta device under FSDP2.

python -m torch.distributed.run --nproc-per-node 2 starting_worker.py results.json
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path

import bearing
import bearing.torch as bt
import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch_cases import D_MODEL, DIM, HEADS, cases

Make = Callable[[], nn.Module]


def fixed() -> nn.Module:
    """With arrays, which become buffers."""
    index = np.arange(9).reshape(1, 1, 3, 3) % 3
    return bt.Fixed(bearing.BucketBias(table=np.linspace(-1, 1, 3 * HEADS).reshape(3, HEADS), index=index))


def makes() -> dict[str, Make]:
    """How to make a module of every kind, by name."""
    rope = bearing.Rope(head_dim=DIM, pairing="half")
    untied = bearing.Tupe(rel_pos_bins=8, max_rel_pos=16)
    return {case.name: case.make for case in cases()} | {
        "Deberta c2p, layer": lambda: bt.Deberta(
            bearing.Deberta(max_relative_positions=8, terms="c2p"), HEADS, DIM, D_MODEL
        ),
        "LeRope, started elsewhere": lambda: bt.LeRope(rope.replace(log_factors=[0.5, 0.25, -0.5, -1.0])),
        "Fixed": fixed,
        "Attention": lambda: bt.Attention([bt.Rope(rope), fixed()], mask="causal", sinks=HEADS),
        "MultiHeadAttention": lambda: bt.MultiHeadAttention(
            D_MODEL,
            2,
            [bt.T5Bias(bearing.T5(direction="causal"), 2), bt.Tupe(untied, 2, DIM, D_MODEL, 6)],
            mask="causal",
            bias=True,
            sinks=2,
        ),
    }


def numbers(module: nn.Module) -> dict[str, Tensor]:
    """All parameters and buffers, whole."""
    found = [*module.named_parameters(), *module.named_buffers()]
    return {name: x.full_tensor() if hasattr(x, "full_tensor") else x.detach().clone() for name, x in found}


def emptied(module: nn.Module) -> nn.Module:
    """As large models get memory: what was in it is anything."""
    module.to_empty(device="cpu")
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
            if local.is_floating_point():
                local.fill_(float("nan"))
    return module


def start_each(modules: Iterable[nn.Module]) -> None:
    """As frameworks start a model that they have made on the meta device."""
    for module in modules:
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()


def problems(make: Make, shard: Callable[[nn.Module], object], rank: int) -> list[str]:
    """What is not as the first process would have made it alone, although every process has a seed of its own."""
    torch.manual_seed(3)
    wanted = numbers(make())
    with torch.device("meta"):
        module = make()
    shard(module)
    start_each([module])  # too early: nothing happens
    emptied(module)
    torch.manual_seed(3 + rank)
    start_each([module])
    found = numbers(module)
    wrong = [name for name, x in wanted.items() if not torch.equal(found[name], x)]
    for order in (list, reversed):
        emptied(module)
        start_each(order(list(module.modules())))
        wrong += [f"{name}, {order.__name__}" for name, x in numbers(module).items() if not x.isfinite().all()]
    return wrong


def left(shard: Callable[[nn.Module], object]) -> list[str]:
    """Numbers that a start should have left, as the caller gave them."""
    table = torch.arange(32.0 * HEADS).reshape(32, HEADS)
    module = bt.Attention(bearing.T5Bias(bearing.T5(direction="causal"), nn.Parameter(table.clone())), mask="causal")
    shard(module)
    start_each([module])
    return [name for name, x in numbers(module).items() if not torch.equal(x, table)]


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    rank, world = dist.get_rank(), dist.get_world_size()

    def sharded(mesh: DeviceMesh) -> Callable[[nn.Module], object]:
        return functools.partial(fully_shard, mesh=mesh)

    line = init_device_mesh("cpu", (world,))
    found = {name: problems(make, sharded(line), rank) for name, make in makes().items() if list(make().parameters())}
    tupe = makes()["Tupe"]
    found["given parameters"] = left(sharded(line))
    found["copies"] = problems(tupe, sharded(init_device_mesh("cpu", (world, 1), mesh_dim_names=("r", "s"))), rank)
    found["every layer by itself"] = problems(
        tupe, lambda module: [fully_shard(one, mesh=line) for one in reversed(list(module.modules()))], rank
    )
    whole: list[dict[str, list[str]]] = [{}] * world
    dist.all_gather_object(whole, found)
    if rank == 0:
        Path(sys.argv[1]).write_text(json.dumps({name: [one[name] for one in whole] for name in found}))
    dist.barrier()  # nobody leaves while another still waits for it
    dist.destroy_process_group()
    os._exit(0)  # threads of PyTorch may still run, and destructors at exit would abort the process


if __name__ == "__main__":
    main()
