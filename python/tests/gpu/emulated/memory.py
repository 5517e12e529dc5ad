"""The memory of an emulated GPU, and what is wrong with how a kernel uses it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator

import numpy as np
import torch

WARP = 32
UNIT = 16  # bytes of shared memory that products of matrices read at once


class Fault(AssertionError):
    """What no kernel may do."""


class Memory:
    """The tensors of a launch, where they lie in this process."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        ranges = {(s.data_ptr(), s.nbytes()) for s in (x.untyped_storage() for x in tensors) if s.nbytes()}
        self.storages = [(at, np.frombuffer((ctypes.c_uint8 * size).from_address(at), np.uint8)) for at, size in ranges]

    def read(self, addresses: np.ndarray, count: int) -> np.ndarray:
        """So many bytes at each address [addresses, count]."""
        found = np.empty((len(addresses), count), np.uint8)
        for which, values, places in self._places(addresses, count):
            found[which] = values[places]
        return found

    def write(self, addresses: np.ndarray, given: np.ndarray) -> None:
        """Bytes [addresses, count]."""
        for which, values, places in self._places(addresses, given.shape[1]):
            values[places] = given[which]
            if (values[places] != given[which]).any():
                raise Fault("threads write different values to one place")

    def _places(self, addresses: np.ndarray, count: int) -> Iterator[tuple[np.ndarray, ...]]:
        """Which addresses lie in a tensor, its bytes, and where among them."""
        if (addresses % count).any():
            raise Fault(f"{count} bytes at {addresses[addresses % count > 0][0]:#x}, which is no multiple")
        left = np.ones(len(addresses), bool)
        for begin, values in self.storages:
            inside = left & (addresses >= begin) & (addresses + count <= begin + len(values))
            if inside.any():
                left &= ~inside
                yield inside, values, (addresses[inside] - begin)[:, None] + np.arange(count)
            if not left.any():
                return
        raise Fault(f"{count} bytes at {addresses[left][0]:#x}, in no tensor of the launch")


class Shared:
    """The memory that the threads of a block share. Each byte knows who wrote and who read it since the last barrier.

    Places are [accesses, bytes], and warps those of the threads that access them, at once.
    """

    def __init__(self, size: int) -> None:
        self.bytes = np.zeros(size, np.uint8)
        self.writer, self.reader = np.full(size, -1, np.int8), np.full(size, -1, np.int8)  # warps; -2: several
        self.pending = np.zeros(size, bool)  # a copy has been asked for, and not been waited for
        self.unseen = np.zeros(size, bool)  # written, and no fence told products of matrices
        self.held = np.zeros(size, np.int16)  # by so many products that were not waited for
        self.groups: list[list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = []
        self.asked: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def barrier(self) -> None:
        """All threads of the block meet."""
        self.writer[:] = self.reader[:] = -1

    def read(self, places: np.ndarray, warps: np.ndarray) -> np.ndarray:
        """What is there."""
        if self.pending[places].any():
            raise Fault("bytes are read whose copy was not waited for")
        if _others(self.writer[places], warps):
            raise Fault("what another warp wrote is read without a barrier")
        before, warps = self.reader[places], warps[:, None]
        self.reader[places] = np.where((before == -1) | (before == warps), warps, -2)
        self.reader[places[self.reader[places] != warps]] = -2
        return self.bytes[places]

    def write(self, places: np.ndarray, warps: np.ndarray, values: np.ndarray) -> None:
        """Bytes. Threads that hold the same may write it to the same place."""
        same = (self.bytes[places] == values) & ~self.pending[places]
        if _others(self.reader[places], warps) or _others(np.where(same, -1, self.writer[places]), warps):
            raise Fault("a place is written where another warp has been, without a barrier")
        if self.pending[places].any():
            raise Fault("a place is written where a copy is on its way")
        if self.held[places].any():
            raise Fault("a place is written that a product reads, which was not waited for")
        self.bytes[places], self.writer[places], self.unseen[places] = values, warps[:, None], True
        if (self.bytes[places] != values).any():
            raise Fault("threads write different values to one place")

    def ask(self, places: np.ndarray, warps: np.ndarray, values: np.ndarray) -> None:
        """Begins a copy from memory."""
        if _others(self.reader[places], warps) or self.pending[places].any():
            raise Fault("a copy goes where another warp has been, without a barrier")
        if self.held[places].any():
            raise Fault("a copy goes to what a product reads, which was not waited for")
        self.pending[places] = True
        self.asked.append((places, warps, values))

    def commit(self) -> None:
        """What was asked for since the last time is a group."""
        self.groups.append(self.asked)
        self.asked = []

    def wait(self, left: int) -> None:
        """Until at most so many groups are on their way."""
        while len(self.groups) > left:
            for places, warps, values in self.groups.pop(0):
                self.bytes[places], self.writer[places], self.pending[places] = values, warps[:, None], False
                self.unseen[places] = True

    def fence(self) -> None:
        """All that was written is seen by products of matrices."""
        self.unseen[:] = False

    def units(self, units: np.ndarray) -> np.ndarray:
        """What all warps read for a product of matrices, by units of 16 bytes."""
        if (units < 0).any() or (units >= len(self.bytes) // UNIT).any():
            raise Fault(f"units {units.min()} to {units.max()} of shared memory")
        if _by_units(self.pending)[units].any():
            raise Fault("a product reads bytes whose copy was not waited for")
        if (_by_units(self.writer)[units] != -1).any():
            raise Fault("a product reads what was written, without a barrier")
        if _by_units(self.unseen)[units].any():
            raise Fault("a product reads what was written, without fence.proxy.async")
        return _by_units(self.bytes)[units]

    def hold(self, units: np.ndarray) -> None:
        """All warps may be reading, until they let go."""
        _by_units(self.held)[units] += 1
        _by_units(self.reader)[units] = -2

    def let_go(self, units: np.ndarray) -> None:
        """Each warp knows it of its own reading; of the others', by a barrier."""
        _by_units(self.held)[units] -= 1
        _by_units(self.reader)[units] = -2


def _by_units(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, UNIT)


def _others(known: np.ndarray, warps: np.ndarray) -> bool:
    return bool(((known != -1) & (known != warps[:, None])).any())
