"""Attention over a sequence that processes share: two and four of them, on this machine, give what one gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import bearing.torch as bt
import bearing.torch.ring
import pytest
import ring_worker
import torch

worker = Path(__file__).parent / "ring_worker.py"
worlds = (2, 4)
cases = list(ring_worker.cases())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Any]:
    """What the processes found: one start of torchrun for each number of them, as starting takes longest."""
    found = {}
    for world in worlds:
        path = tmp_path_factory.mktemp("ring") / f"{world}.json"
        # Large arrays get pages of their own, which go back when they are freed: memory can be measured.
        env = os.environ | {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world), worker, path],
            check=False, env=env, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:]
        found[world] = json.loads(path.read_text())
    return found


def tolerance(case: ring_worker.Case, name: str, type_of: str, largest: float) -> float:
    """Each number is a chain of sums over at most 21 tokens and 8 features, of heads and batches too for parameters.

    A chain of n roundings is off by n/2 units of its largest partial sum at most; two ways of computing are off by n.
    Partial sums may be larger than their result: by 8 here, a power of two above the root of the number of terms.
    """
    chain = 21 + 8 + (21 * case.batch * case.heads if name.startswith(("d_0", "d_1")) else 0)
    unit = torch.finfo(torch.float64 if case.dtype is torch.float64 else torch.float32).eps
    rounded = torch.finfo(torch.bfloat16).eps / 2 if type_of == "torch.bfloat16" else 0
    return (chain * 8 * unit + rounded) * max(largest, 1)


@pytest.mark.parametrize("world", worlds)
@pytest.mark.parametrize("name", cases)
def test_processes_give_what_one_process_gives(results: dict[int, Any], world: int, name: str) -> None:
    case, found = ring_worker.cases()[name], results[world]["cases"][name]
    for what, numbers in found["compared"].items():
        limit = tolerance(case, what, found["types"].get(what, ""), numbers["largest"])
        if case.dtype is torch.float64:
            limit = min(limit, 1e-12 * max(numbers["largest"], 1))
        assert numbers["largest"] > 0.1, f"{what} is too small to say anything"
        assert numbers["difference"] <= limit, what


@pytest.mark.parametrize("world", worlds)
@pytest.mark.parametrize("name", cases)
def test_results_have_the_same_bits_whenever_processes_come(results: dict[int, Any], world: int, name: str) -> None:
    assert results[world]["cases"][name]["same bits"]


@pytest.mark.parametrize("world", worlds)
def test_results_have_the_type_of_the_queries_unless_another_is_asked_for(results: dict[int, Any], world: int) -> None:
    for name, case in ring_worker.cases().items():
        found = dict(results[world]["cases"][name]["types"])
        assert found.pop("out") == str(case.options.get("out_dtype", case.dtype))
        assert set(found.values()) == {str(case.dtype)}


@pytest.mark.parametrize("world", worlds)
def test_shares_of_parameters_gradients_add_up(results: dict[int, Any], world: int) -> None:
    # Two orders of adding 4 numbers at most, in float64.
    assert results[world]["local shares"] <= 4 * torch.finfo(torch.float64).eps


def test_two_rings_run_side_by_side(results: dict[int, Any]) -> None:
    # Chains of 10 tokens and 8 features, of values below 8, in float64.
    assert results[4]["subgroups"] <= 18 * 8 * torch.finfo(torch.float64).eps


@pytest.mark.parametrize("world", worlds)
def test_memory_is_linear_in_the_shard(results: dict[int, Any], world: int) -> None:
    # In the backward, in units of a shard of keys (queries, values and out are as large): out, d_q and this call's part
    # of it; keys, values and gradients of the shard that is here; keys and values that come; gradients on their way in,
    # on their way out, and coming home. A worker's tiles of scores and PyTorch's own structures are the rest.
    memory = results[world]["memory"]
    most = 3 + 4 + 2 + 3 * 2
    assert 3 * memory["keys"] < memory["peak"] <= most * memory["keys"] + (8 << 20)


def test_twice_the_processes_need_half_the_memory_each(results: dict[int, Any]) -> None:
    # Of two processes only one shard is ever under way, so that they need 13 units where four need 15; and each has up
    # to 8 MiB beside its shards, which its allocator may hold twice.
    half = 15 / 13 / 2
    assert results[4]["memory"]["peak"] <= half * results[2]["memory"]["peak"] + (16 << 20)


refusals = {
    "keys of another dim on one process": (
        "rank {last} of the group refused",
        "ShapeError: [ring_attention] k: must be",
    ),
    "another mask on one process": ("mask: must be the same", "mask: must be the same"),
    "another type on one process": ("dtype: must be the same", "dtype: must be the same"),
    "other parameters on one process": ("parameters: must be the same", "parameters: must be the same"),
    "the same parameters in another order on one process": ("parameters: must be the same",) * 2,
    "no gradient on one process": ("whether gradients are wanted", "whether gradients are wanted"),
    "positions of too few tokens": ("k_positions: must have 3 tokens, got 2",) * 2,
    "no positions": ("TypeError: [ring_attention] q_positions: must be given",) * 2,
    "a mask by index": ("ValueError: [ring_attention] mask: must be 'none' or 'causal'",) * 2,
    "an encoding by index": ("ValueError: [ring_attention] encodings: must go by position, got CopeTerm",) * 2,
    "rows of three axes": ("ShapeError: [ring_attention] q: must have 4 axes, got 3",) * 2,
    "positions of four axes": ("ShapeError: [ring_attention] q_positions: must be [time], [batch, time] or",) * 2,
    "a scale that is no number": ("TypeError: [ring_attention] scale: must be a number, got True",) * 2,
    "results of another type": ("TypeError: [ring_attention] out_dtype: must be torch.float32",) * 2,
}


@pytest.mark.parametrize("world", worlds)
@pytest.mark.parametrize("name", refusals)
def test_what_one_process_refuses_raises_on_all(results: dict[int, Any], world: int, name: str) -> None:
    *others, last = results[world]["wrong calls"][name]
    of_others, of_last = refusals[name]
    assert all(of_others.format(last=world - 1) in text for text in others)
    assert of_last in last


def test_compiled_code_leaves_its_graph_to_call_it() -> None:
    at, alibi = torch.arange(6), bt.Alibi(2)

    def step(q: torch.Tensor) -> torch.Tensor:
        return bt.ring_attention(2 * q, q, q, alibi, mask="causal", q_positions=at, k_positions=at).sum()

    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        found = []
        for function in (step, torch.compile(step, backend="aot_eager")):
            q = torch.linspace(-1, 1, 96).reshape(1, 2, 6, 8).requires_grad_()
            out = function(q)
            out.backward()
            found.append((out, q.grad))
    finally:
        torch.distributed.destroy_process_group()
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=0)


def test_tensors_on_a_gpu_are_refused_by_name() -> None:
    class Elsewhere:
        device = torch.device("cuda", 0)

    x, at = torch.zeros(1, 2, 3, 4), torch.arange(3)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(
            TypeError, match=r"\[ring_attention\] k: must be on the CPU, where alone it runs, got one on cuda:0"
        ):
            bt.ring_attention(x, Elsewhere(), x, mask="none", q_positions=at, k_positions=at)
    finally:
        torch.distributed.destroy_process_group()


def test_an_error_of_the_arguments_comes_before_one_of_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group with nccl alone takes no tensors on the CPU, so that processes cannot agree."""

    def agree(*args: object) -> None:
        raise RuntimeError("No backend type associated with device type cpu")

    monkeypatch.setattr(bearing.torch.ring.Ring, "agree", agree)
    x, at = torch.zeros(1, 2, 3, 4), torch.arange(3)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(ValueError, match=r"\[ring_attention\] mask: must be 'none' or 'causal'") as found:
            bt.ring_attention(x, x, x, mask="all", q_positions=at, k_positions=at)
        assert "No backend type" in str(found.value.__cause__)
        with pytest.raises(RuntimeError, match="No backend type"):
            bt.ring_attention(x, x, x, mask="none", q_positions=at, k_positions=at)
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("layout", ["contiguous", "zigzag"])
@pytest.mark.parametrize(("length", "world"), [(16, 4), (17, 4), (3, 4), (0, 2), (5, 1)])
def test_every_token_is_in_one_shard(length: int, world: int, layout: str) -> None:
    shards = [bt.shard_positions(length, world, rank, layout) for rank in range(world)]
    assert sorted(torch.cat(shards).tolist()) == list(range(length))


def test_zigzag_gives_every_process_as_many_pairs_to_compute() -> None:
    pairs = {int((bt.shard_positions(64, 4, rank, "zigzag") + 1).sum()) for rank in range(4)}
    assert pairs == {64 * 65 // 2 // 4}
    contiguous = [int((bt.shard_positions(64, 4, rank) + 1).sum()) for rank in range(4)]
    assert max(contiguous) > 6 * min(contiguous)


def test_a_shard_is_the_tokens_at_its_positions() -> None:
    x = torch.randn(2, 11, 3, requires_grad=True)
    part = bt.shard(x, 1, 2, 1, "zigzag")
    assert torch.equal(part, x[:, bt.shard_positions(11, 2, 1, "zigzag")])
    part.sum().backward()
    assert x.grad.sum() == part.numel()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [((4, 2, 2), "rank: must be"), ((-1, 2, 0), "length: must"), ((4, 2, 0, "striped"), "layout: must be")],
)
def test_wrong_splits_are_refused(arguments: tuple, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        bt.shard_positions(*arguments)
