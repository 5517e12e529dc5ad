"""What 128 threads do together while they go on: products of matrices that lie in shared memory and in registers.

Results are there at once, and who touches them before they are waited for is told so.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from .memory import Fault, Shared

GROUP = 128  # threads
ROWS, DEPTH = 64, 16  # of a product of 16-bit numbers
_WIDTHS = {0: 1, 1: 8, 2: 4, 3: 2}  # units that a swizzle turns about, by the descriptor's word for it


class Matrix(NamedTuple):
    """Where a matrix lies in shared memory, all in units of 16 bytes."""

    start: int
    leading: int  # from one to the next, of what lies beside …
    stride: int  # … and of eight rows
    width: int  # of rows whose units are swizzled

    @staticmethod
    def of(descriptor: int) -> Matrix:
        """As the instruction is told."""
        if descriptor >> 49 & 7:
            raise NotImplementedError(f"a matrix with an offset of its swizzle: {descriptor:#x}")
        leading, stride = descriptor >> 16 & 0x3FFF, descriptor >> 32 & 0x3FFF
        return Matrix(descriptor & 0x3FFF, leading, stride, _WIDTHS[descriptor >> 62 & 3])

    def units(self, count: int, along_depth: bool) -> np.ndarray:
        """Of so many rows [count, 2], each of which lies along the depth, or of eight rows at each depth [count / 8, 16]."""
        found = self.start + _offsets(count, along_depth, *self[1:])
        return found ^ found >> 3 & self.width - 1


@functools.cache
def _offsets(count: int, along_depth: bool, leading: int, stride: int, width: int) -> np.ndarray:
    if along_depth:
        row, beside = np.arange(count)[:, None], np.arange(2)
        return row % 8 * width + row // 8 * stride + beside * (leading if width == 1 else 1)
    eight, depth = np.arange(count // 8)[:, None], np.arange(DEPTH)
    if width == 1:
        return eight * stride + depth % 8 + depth // 8 * leading
    return eight % width + eight // width * leading + depth % 8 * width + depth // 8 * stride


def matrix_of(units: np.ndarray, along_depth: bool) -> np.ndarray:
    """The 16-bit numbers [rows, depth] of what lies in units()."""
    numbers = np.ascontiguousarray(units).view(np.uint16)
    return (numbers if along_depth else numbers.transpose(0, 2, 1)).reshape(-1, DEPTH)


def left_of(parts: np.ndarray) -> np.ndarray:
    """The 16-bit numbers [64, 16] that four registers [4, 128] of 32 bits hold."""
    numbers = np.ascontiguousarray(parts).view(np.uint16).reshape(2, 2, 4, 8, 4, 2)
    return numbers.transpose(2, 1, 3, 0, 4, 5).reshape(ROWS, DEPTH)


def sums_of(parts: np.ndarray) -> np.ndarray:
    """The numbers [64, columns] that registers [columns / 2, 128] hold."""
    return parts.reshape(-1, 2, 2, 4, 8, 4).transpose(3, 1, 4, 0, 5, 2).reshape(ROWS, -1)


def parts_of(sums: np.ndarray) -> np.ndarray:
    """The registers that hold such numbers."""
    return sums.reshape(4, 2, 8, -1, 4, 2).transpose(3, 1, 5, 0, 2, 4).reshape(-1, GROUP)


class _Product(NamedTuple):
    registers: dict[str, str]  # what each is there for
    units: np.ndarray  # of shared memory that are read


class Products:
    """Products that are on their way, and which registers and places they keep until then."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.fenced = False
        self.changed: set[str] = set()  # registers, since the last fence
        self.busy: dict[str, str] = {}
        self.asked: list[_Product] = []
        self.groups: list[list[_Product]] = []

    def check(self, register: str) -> None:
        """Before another instruction reads or writes it."""
        if register in self.busy:
            raise Fault(f"{register} is used while a product of the warp group is not waited for")

    def fence(self) -> None:
        """What was written to registers is seen by products from here on."""
        self.fenced = True
        self.changed.clear()

    def begin(self, sums: list[str], left: list[str], shape: str, units: np.ndarray) -> None:
        """A product is on its way. Others of the same shape may add to the same registers, one after the other."""
        there_for = dict.fromkeys(left, "left") | dict.fromkeys(sums, shape)
        if not self.fenced or not self.changed.isdisjoint(there_for):
            raise Fault("a register was written since the last wgmma.fence, or there was none")
        if any(self.busy.get(register, use) != use for register, use in there_for.items()):
            raise Fault("a register is used in another way while a product of the warp group is not waited for")
        self.shared.hold(units)
        self.busy |= there_for
        self.asked.append(_Product(there_for, units))

    def commit(self) -> None:
        """What was begun since the last time is a group."""
        self.groups.append(self.asked)
        self.asked = []

    def wait(self, left: int) -> None:
        """Until at most so many groups are on their way."""
        while len(self.groups) > left:
            for product in self.groups.pop(0):
                self.shared.let_go(product.units)
        self.busy = {}
        for product in [product for group in (*self.groups, self.asked) for product in group]:
            self.busy |= product.registers
