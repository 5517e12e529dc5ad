"""A ring of processes: what they agree on before any of them sends, and how tensors go round."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor


class RingRefused(RuntimeError):
    """What :func:`bearing.torch.ring_attention` raises where another process of the group refused its arguments, or they do
    not fit this one's. It is raised before anything is sent, on every process that has no error of its own.
    """


class Extent(NamedTuple):
    """How many tokens a process holds, and the range of their positions on the first axis."""

    length: int
    first: float
    last: float

    @classmethod
    def of(cls, at: Tensor) -> Extent:
        """Of positions [..., time]."""
        axis = at[0] if at.ndim == 3 else at
        if axis.numel() == 0:
            return cls(at.shape[-1], 0.0, 0.0)
        return cls(at.shape[-1], float(axis.min()), float(axis.max()))


class Shard(NamedTuple):
    """What others know of a process."""

    q: Extent
    k: Extent


class Pending:
    """Transfers under way, and the tensors that they need."""

    def __init__(self) -> None:
        self._works: list[tuple[dist.Work, Tensor]] = []

    def add(self, work: dist.Work | None, tensor: Tensor) -> None:
        if work is not None:
            self._works.append((work, tensor))

    def wait(self) -> None:
        for work, _ in self._works:
            work.wait()
        self._works.clear()


class Ring:
    """The processes of a group, in the order of their ranks; the last one is followed by the first."""

    def __init__(self, group: dist.ProcessGroup | None) -> None:
        self.group = group
        self.rank, self.world = dist.get_rank(group), dist.get_world_size(group)
        if self.rank < 0:
            raise ValueError("[ring_attention] group: must hold this process, got one that does not")

    def after(self, steps: int) -> int:
        """The rank that many places further on."""
        return (self.rank + steps) % self.world

    def agree(self, mine: Shard | None, same: dict[str, object]) -> list[Shard]:
        """Everybody's shards. ``same`` must be alike on all processes, the same names in the same order.

        mine None: this process refuses. Everybody then hears of it here, and nobody waits for messages that will never
        come. Raises RingRefused on every process if there is anything to refuse.
        """
        names = ["how many encodings, masks and options there are", *same]
        # 48 bits, exact in float64.
        marks = [float(int.from_bytes(hashlib.blake2b(repr(x).encode(), digest_size=6).digest(), "big"))
                 for x in (list(same), *same.values())]  # fmt: skip
        row = torch.zeros(7 + _most, dtype=torch.float64)
        if mine is not None:
            row[:7] = torch.tensor([1.0, *mine.q, *mine.k], dtype=torch.float64)
            row[7 : 7 + len(marks)] = torch.tensor(marks, dtype=torch.float64)
        rows = [torch.empty_like(row) for _ in range(self.world)]
        dist.all_gather(rows, row, group=self.group)
        for rank, other in enumerate(rows):
            if other[0] == 0:
                raise RingRefused(f"[ring_attention] rank {rank} of the group refused its arguments")
        for number, name in enumerate(names):
            for rank, other in enumerate(rows):
                if other[7 + number] != rows[0][7 + number]:
                    got = f", got {same[name]!r} on rank {self.rank}" if name in same else ""
                    raise RingRefused(
                        f"[ring_attention] {name}: must be the same on all processes, "
                        f"but ranks 0 and {rank} of the group differ{got}"
                    )
        return [Shard(Extent(int(n[1]), *n[2:4].tolist()), Extent(int(n[4]), *n[5:7].tolist())) for n in rows]

    def send(self, tensors: Sequence[Tensor], to: int, tag: int, pending: Pending) -> None:
        """Starts sending. Tensors without elements do not travel."""
        for number, tensor in enumerate(tensors):
            if tensor.numel() > 0:
                work = dist.isend(tensor, group=self.group, group_dst=to, tag=tag + number)
                pending.add(work, tensor)

    def receive(self, tensors: Sequence[Tensor], source: int, tag: int, pending: Pending) -> None:
        """Starts receiving into tensors of the sizes that were sent."""
        for number, tensor in enumerate(tensors):
            if tensor.numel() > 0:
                work = dist.irecv(tensor, group=self.group, group_src=source, tag=tag + number)
                pending.add(work, tensor)

    def sum(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Sums over processes, in rank order, the same bits on all of them; one more copy of the tensors at a time."""
        if self.world == 1 or not any(t.numel() for t in tensors):
            return list(tensors)
        mine = torch.cat([t.flatten() for t in tensors])
        if self.rank > 0:
            before = torch.empty_like(mine)
            dist.recv(before, group=self.group, group_src=self.rank - 1, tag=_sum_tag)
            mine = before.add_(mine)
        if self.rank < self.world - 1:
            dist.send(mine, group=self.group, group_dst=self.rank + 1, tag=_sum_tag)
        dist.broadcast(mine, group=self.group, group_src=self.world - 1)
        return [part.view(t.shape) for part, t in zip(mine.split([t.numel() for t in tensors]), tensors, strict=True)]


_most = 24  # properties that processes compare
_sum_tag = 30
