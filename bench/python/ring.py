#!/usr/bin/env python3
"""How attention over a sharded sequence scales: measured on one and two processes here, modelled for more.

    python bench/python/ring.py --tokens 8192

Starts itself with torchrun, one thread a process, and prints Markdown. Times are the
least of --turns, as other work on the machine can only add to them; a turn takes as long as its slowest process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

splits = ("contiguous", "zigzag")


class Shape(NamedTuple):
    """The whole sequence, float32."""

    tokens: int
    heads: int
    kv_heads: int
    dim: int

    def shard_bytes(self, world: int) -> int:
        """Keys, values and positions of one process."""
        return self.tokens // world * (2 * self.kv_heads * self.dim * 4 + 8)

    def gradient_bytes(self, world: int) -> int:
        """Of keys and values of one process."""
        return self.tokens // world * 2 * self.kv_heads * self.dim * 4


# Measuring, in the processes.


def measure(shape: Shape, turns: int) -> dict[str, float]:
    """Seconds of a ring's forward and backward for each split; pairs a second; bytes a second and latency."""
    import bearing
    import bearing.torch as bt
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    rope = bt.Rope(bearing.Rope(head_dim=shape.dim, pairing="half"), shape.tokens)

    def slowest(seconds: float) -> float:
        value = torch.tensor([seconds], dtype=torch.float64)
        dist.all_reduce(value, dist.ReduceOp.MAX)
        return value.item()

    def seconds(run: Callable[[], object]) -> float:
        run()
        found = []
        for _ in range(turns):
            dist.barrier()
            start = time.perf_counter()
            run()
            found.append(slowest(time.perf_counter() - start))
        return min(found)

    def tensors(at: torch.Tensor) -> list[torch.Tensor]:
        heads = (shape.heads, shape.kv_heads, shape.kv_heads)
        return [torch.randn(1, h, len(at), shape.dim).requires_grad_() for h in heads]

    found: dict[str, float] = {}
    for split in splits:
        at = bt.shard_positions(shape.tokens, world, rank, split)
        q, k, v = tensors(at)

        def forward() -> torch.Tensor:
            return bt.ring_attention(q, k, v, rope, mask="causal", q_positions=at, k_positions=at)  # noqa: B023 - called here

        def both() -> None:
            forward().backward(torch.ones_like(q))  # noqa: B023

        found[f"forward {split}"] = seconds(forward)
        found[f"both {split}"] = seconds(both)

    # One slice, every query seeing every key: all processes at a time, as they work in the ring.
    at = bt.shard_positions(shape.tokens, world, rank)
    q, k, v = tensors(at)
    pairs = shape.heads * len(at) ** 2
    once = seconds(lambda: bt.attention(q, k, v, rope, mask="none"))
    found["forward pairs"] = pairs / once
    twice = seconds(lambda: bt.attention(q, k, v, rope, mask="none").backward(torch.ones_like(q)))
    found["backward pairs"] = pairs / (twice - once)

    if world > 1:

        def hop(message: torch.Tensor, room: torch.Tensor) -> None:
            works = [dist.irecv(room, (rank - 1) % world), dist.isend(message, (rank + 1) % world)]
            for work in works:
                work.wait()

        large = torch.zeros(max(shape.shard_bytes(world), 1 << 20), dtype=torch.uint8)
        found["latency"] = seconds(lambda: hop(torch.zeros(8), torch.empty(8)))
        room = torch.zeros_like(large)
        found["bandwidth"] = len(large) / seconds(lambda: hop(large, room))
    dist.destroy_process_group()
    return found if rank == 0 else {}


# The model.


def modelled(shape: Shape, world: int, split: str, speed: dict[str, float]) -> dict[str, float]:
    """Seconds of the slowest process: in each step the longer one of computing a slice and passing it on."""
    pairs = shape.heads * (shape.tokens / world) ** 2
    # Causal: of its own keys a process sees half; of the others', zigzag, half; contiguous, the last process all.
    steps = [0.5] + [0.5 if split == "zigzag" else 1.0] * (world - 1)
    hop = speed["latency"] + shape.shard_bytes(world) / speed["bandwidth"]
    back = 2 * speed["latency"] + (shape.shard_bytes(world) + shape.gradient_bytes(world)) / speed["bandwidth"]

    def total(rate: float, transfer: float) -> float:
        return sum(max(part * pairs / rate, transfer if n + 1 < world else 0) for n, part in enumerate(steps))

    forward = total(speed["forward pairs"], hop)
    home = shape.gradient_bytes(world) / speed["bandwidth"] if world > 1 else 0
    backward = total(speed["backward pairs"], back) + home
    return {"forward": forward, "both": forward + backward, "compute": 0.5 * pairs / speed["forward pairs"], "hop": hop}


# The report.


def launch(world: int, arguments: argparse.Namespace) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        command = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            str(world),
            __file__,
        ]
        command += ["--into", str(path)]
        for name in ("tokens", "heads", "kv_heads", "dim", "turns"):
            command += [f"--{name.replace('_', '-')}", str(getattr(arguments, name))]
        subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        return json.loads(path.read_text())


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}" if seconds < 1 else f"{seconds * 1e3:,.0f}"


def table(head: str, rows: list[str]) -> list[str]:
    return [f"| {head} |", "|---" * (head.count("|") + 1) + "|", *[f"| {row} |" for row in rows], ""]


def measured_rows(shape: Shape, one: dict[str, float], two: dict[str, float]) -> list[str]:
    gflop = 4 * shape.dim / 1e9  # of a pair: two products forward, five backward
    rows = [
        f"attention forward, GFLOP/s a process | {one['forward pairs'] * gflop:.0f} | {two['forward pairs'] * gflop:.0f}",
        f"its backward | {one['backward pairs'] * gflop * 2.5:.0f} | {two['backward pairs'] * gflop * 2.5:.0f}",
        f"gloo, MB/s, both ways at once | | {two['bandwidth'] / 1e6:,.0f}",
        f"gloo, latency in µs | | {two['latency'] * 1e6:.0f}",
    ]
    for what, name in (("forward", "forward"), ("both", "forward and backward")):
        for split in splits:
            a, b, model = one[f"{what} {split}"], two[f"{what} {split}"], modelled(shape, 2, split, two)[what]
            ratio = f"{a / b:.2f} times as fast; modelled {milliseconds(model)}"
            rows.append(f"{name}, {split}, ms | {milliseconds(a)} | {milliseconds(b)} ({ratio})")
    return rows


def modelled_rows(shape: Shape, speed: dict[str, float]) -> list[str]:
    alone, rows = modelled(shape, 1, "zigzag", speed)["both"], []
    for world in (1, 2, 4, 8, 16, 32, 64):
        zigzag, contiguous = (modelled(shape, world, split, speed) for split in ("zigzag", "contiguous"))
        sent = f"{shape.shard_bytes(world) / 1e6:.2f} | {milliseconds(zigzag['hop'])}" if world > 1 else "|"
        times = [milliseconds(zigzag[name]) for name in ("compute", "forward", "both")]
        shares = [f"{alone / world / model['both']:.0%}" for model in (zigzag, contiguous)]
        rows.append(" | ".join([f"{world} | {shape.tokens // world:,}", sent, *times, *shares]))
    return rows


def report(shape: Shape, one: dict[str, float], two: dict[str, float]) -> str:
    what = f"{shape.tokens:,} tokens in all, {shape.heads} heads, {shape.kv_heads} of keys, of {shape.dim}; float32, "
    lines = [what + "RoPE, causal; one thread a process.", ""]
    lines += table("measured | 1 process | 2 processes", measured_rows(shape, one, two))
    lines += ["Modelled for more processes, each as fast as one of the two and as fast connected; zigzag:", ""]
    head = (
        "processes | tokens each | MB a hop | ms a hop | ms to compute a step | forward, ms | forward and backward, ms"
    )
    lines += table(head + " | efficiency | contiguous", modelled_rows(shape, two))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=8192, help="of the whole sequence, a multiple of 64")
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--kv-heads", type=int, default=2)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)  # given to the processes that it starts
    arguments = parser.parse_args()
    shape = Shape(arguments.tokens, arguments.heads, arguments.kv_heads, arguments.dim)
    if arguments.into is None:
        sys.stdout.write(report(shape, launch(1, arguments), launch(2, arguments)))
    elif found := measure(shape, arguments.turns):
        arguments.into.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
