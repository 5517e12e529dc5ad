"""The threads of a block, which NumPy takes through a program together: a register holds a number for each of them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from .memory import WARP, Fault, Memory, Shared
from .ptx import Instruction, Program, registers
from .warp_groups import GROUP, ROWS, Matrix, Products, left_of, matrix_of, parts_of, sums_of

SHARED_BYTES = 227 * 1024
_TYPES: dict[str, Any] = {
    "pred": np.bool_, "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.uint16,
    **{f"{kind}{bits}": getattr(np, f"{'' if kind == 's' else 'u'}int{bits}") for kind in "bus" for bits in (8, 16, 32, 64)},
}  # fmt: skip
_BITS = {"p": 1, "rs": 16, "h": 16, "r": 32, "f": 32, "rd": 64, "fd": 64}  # of registers by their names
_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_DEPTHS = {"f16": (8, 16), "bf16": (8, 16), "tf32": (8,)}  # of products of a warp
_SMALLEST = np.finfo(np.float32).tiny


def launch(text: str, threads: int, grid: Sequence[int], parameters: Sequence[int], memory: Memory) -> None:
    """Runs all blocks of a launch, one after the other. parameters: as numbers without a sign."""
    program = Program.of(text)
    named = dict(zip(program.parameters, parameters, strict=True))
    wide, high = [*grid, 1][:2]
    with np.errstate(all="ignore"):
        for y in range(high):
            for x in range(wide):
                Block(program, threads, {"%ctaid.x": x, "%ctaid.y": y, "%nctaid.x": wide, **named}, memory).run()


@functools.cache
def _bits(register: str) -> int:
    return _BITS[re.sub(r"\W|\d", "", register)]


@functools.cache
def _literal(operand: str) -> int:
    return int(operand[2:], 16) if operand[:2] in ("0f", "0d") else int(operand.rstrip("U"), 0)


@functools.lru_cache(maxsize=4096)
def _same(number: int, kind: str, threads: int) -> np.ndarray:
    """The same bits in each thread."""
    if kind == "pred":
        return np.full(threads, bool(number))
    bits = np.dtype(_TYPES[kind]).itemsize * 8
    return np.full(threads, number & (1 << bits) - 1, _UNSIGNED[bits]).view(_TYPES[kind])


def _fma(a: float, b: float, c: float) -> float:
    if not np.isfinite([a, b, c]).all():
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return float(exact) if exact else a * b + c


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of whole numbers, towards zero."""
    return (np.sign(a) * np.sign(b) * (np.abs(a) // np.where(b == 0, 1, np.abs(b)))).astype(a.dtype)


def _high(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The upper half of products."""
    bits = a.dtype.itemsize * 8
    found = [(int(x) * int(y)) >> bits & (1 << bits) - 1 for x, y in zip(a, b, strict=True)]
    return np.array(found, _UNSIGNED[bits]).view(a.dtype)


def _shifted(left: bool) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """By as much as there are bits nothing is left, or the sign."""

    def shift(x: np.ndarray, by: np.ndarray) -> np.ndarray:
        bits = x.dtype.itemsize * 8
        at_most = np.minimum(by, bits - 1).astype(x.dtype)
        found = x << at_most if left else x >> at_most
        return found if x.dtype.kind == "i" and not left else np.where(by >= bits, 0, found).astype(x.dtype)

    return shift


_BINARY: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.fmin, "max": np.fmax, "rem": np.fmod,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": _shifted(True), "shr": _shifted(False),
}  # fmt: skip
_UNARY: dict[str, Callable[..., np.ndarray]] = {
    "neg": np.negative, "abs": np.abs, "not": np.invert, "ex2": np.exp2, "lg2": np.log2, "sqrt": np.sqrt,
    "rcp": np.reciprocal,
}  # fmt: skip
_COMPARED = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
_ROUNDED = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _from_bf16(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _to_bf16(x: np.ndarray) -> np.ndarray:
    """To the nearest, and to even ones."""
    bits = x.astype(np.float32).view(np.uint32)
    up = np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    return np.where(np.isnan(x), np.uint32(0x7FFF), bits + up >> np.uint32(16)).astype(np.uint16)


class Block:
    """A block of threads. fixed: parameters and numbers of the launch by their names."""

    def __init__(self, program: Program, threads: int, fixed: dict[str, int], memory: Memory) -> None:
        self.program, self.threads, self.fixed, self.memory = program, threads, fixed, memory
        self.shared = Shared(SHARED_BYTES)
        self.products = Products(self.shared)
        self.registers: dict[str, np.ndarray] = {}
        self.everyone = np.ones(threads, bool)
        self.next = 0  # where all threads go on, or …
        self.apart: np.ndarray | None = None  # … where each does, if they are not at one place

    def run(self) -> None:
        """Threads that are behind go first, so that all meet again behind a branch that some of them took."""
        while (now := self.next if self.apart is None else int(self.apart.min())) < len(self.program.instructions):
            here = self.everyone if self.apart is None else self.apart == now
            self._go(now + 1, here)
            instruction = self.program.instructions[now]
            if instruction.guard:
                here = here & (self.registers[instruction.guard] ^ instruction.inverted)
            if here is self.everyone or here.any():
                try:
                    self._step(instruction, here)
                except Fault as fault:
                    raise Fault(f"{fault}: {instruction.text}") from None

    def _all(self, here: np.ndarray) -> bool:
        return here is self.everyone or bool(here.all())

    def _go(self, to: int, here: np.ndarray) -> None:
        """Some threads go on there."""
        if self._all(here):
            self.next, self.apart = to, None
        else:
            self.apart = np.full(self.threads, self.next) if self.apart is None else self.apart
            self.apart[here] = to

    def _step(self, one: Instruction, here: np.ndarray) -> None:
        name = one.name[0]
        special = getattr(self, f"_{name}", None)
        if special:
            special(one, here)
        elif name in _BINARY or name in _UNARY or name in ("fma", "mad", "div"):
            self._compute(one, here)
        elif name not in ("membar", "discard", "nanosleep"):
            raise NotImplementedError(one.text)

    def value(self, operand: str, kind: str) -> np.ndarray:
        """An operand as numbers of a type."""
        dtype = np.dtype(_TYPES[kind])
        if operand in self.registers:
            self.products.check(operand)
            found = self.registers[operand]
            if found.dtype == dtype:
                return found
            return found.astype(_UNSIGNED[dtype.itemsize * 8], copy=False).view(dtype)
        if operand == "%tid.x":
            return np.arange(self.threads, dtype=dtype)
        if operand == "global_smem":
            return np.zeros(self.threads, dtype)
        if operand in self.fixed:
            return _same(self.fixed[operand], kind, self.threads)
        if operand[0] == "%":
            return np.zeros(self.threads, dtype)  # a register that nothing was written to: any number
        return _same(_literal(operand), kind, self.threads)

    def put(self, register: str, values: np.ndarray, here: np.ndarray) -> None:
        """Into a register, of some threads. What is narrower is widened, by its sign if it has one."""
        if register == "_":
            return
        bits = _bits(register)
        if bits > 1:
            if values.dtype.kind == "i":
                values = values.astype(f"i{bits // 8}")
            values = values.view(_UNSIGNED[values.dtype.itemsize * 8]).astype(_UNSIGNED[bits], copy=False)
        self.products.check(register)
        self.products.changed.add(register)
        before = self.registers.get(register)
        self.registers[register] = values if before is None or self._all(here) else np.where(here, values, before)

    def address(self, operand: str, kind: str) -> np.ndarray:
        """Of [register + number]."""
        base, _, offset = operand.strip("[] ").partition("+")
        return self.value(base.strip(), kind.replace("u", "s")).astype(np.int64) + int(offset or 0)

    # Numbers.

    def _compute(self, one: Instruction, here: np.ndarray) -> None:
        name, kind = one.name[0], one.name[-1]
        operands = [self.value(x, kind) for x in one.operands[1:3]]
        if name in ("shl", "shr"):
            operands[1] = self.value(one.operands[2], "u32").astype(np.int64)
        if "wide" in one.name:
            double = kind[0] + str(2 * int(kind[1:]))
            found = operands[0].astype(_TYPES[double]) * operands[1].astype(_TYPES[double])
            if name == "mad":
                found = found + self.value(one.operands[3], double)
        elif "hi" in one.name:
            found = _high(*operands)
        elif name in _UNARY:
            found = _UNARY[name](operands[0])
        elif name == "div":
            found = operands[0] / operands[1] if kind[0] == "f" else _quotient(*operands)
        elif name in ("fma", "mad"):
            third = self.value(one.operands[3], kind)
            if kind == "f64":
                found = np.array([_fma(*map(float, each)) for each in zip(*operands, third, strict=True)])
            elif kind == "f32":  # rounded twice
                found = (operands[0].astype(np.float64) * operands[1] + third).astype(np.float32)
            else:
                found = operands[0] * operands[1] + third
        else:
            found = _BINARY[name](*operands)
        if "ftz" in one.name or name == "ex2":
            found = np.where(np.abs(found) < _SMALLEST, np.copysign(np.float32(0), found), found)
        self.put(one.operands[0], found, here)

    def _bfe(self, one: Instruction, here: np.ndarray) -> None:
        x, first, count = (self.value(operand, "u32").astype(np.int64) for operand in one.operands[1:])
        found = x >> first & (1 << count) - 1
        if one.name[-1] == "s32":
            found = np.where(found >> count - 1 & 1, found - (1 << count), found)
        self.put(one.operands[0], found.astype(np.int32), here)

    def _prmt(self, one: Instruction, here: np.ndarray) -> None:
        x, y, choice = (self.value(operand, "u32").astype(np.uint64) for operand in one.operands[1:])
        both, found = x | y << np.uint64(32), np.zeros(self.threads, np.uint64)
        for i in range(4):
            byte = choice >> np.uint64(4 * i) & np.uint64(7)
            found |= (both >> byte * np.uint64(8) & np.uint64(255)) << np.uint64(8 * i)
        self.put(one.operands[0], found.astype(np.uint32), here)

    def _setp(self, one: Instruction, here: np.ndarray) -> None:
        compare, kind = one.name[1], one.name[-1]
        x, y = (self.value(operand, kind) for operand in one.operands[1:])
        unordered = np.isnan(x) | np.isnan(y) if kind[0] == "f" else np.zeros(self.threads, bool)
        if compare in ("nan", "num"):
            found = unordered if compare == "nan" else ~unordered
        else:
            found = _COMPARED[compare[:2]](x, y) & ~unordered
            if kind[0] == "f" and compare.endswith("u"):
                found |= unordered
        self.put(one.operands[0], found, here)

    def _selp(self, one: Instruction, here: np.ndarray) -> None:
        x, y = (self.value(operand, one.name[-1]) for operand in one.operands[1:3])
        self.put(one.operands[0], np.where(self.value(one.operands[3], "pred"), x, y), here)

    def _cvt(self, one: Instruction, here: np.ndarray) -> None:
        into, of = one.name[-2:]
        if into in ("f16x2", "bf16x2"):
            high, low = (self._narrowed(self.value(x, of), into[:-2]).astype(np.uint32) for x in one.operands[1:])
            self.put(one.operands[0], high << np.uint32(16) | low, here)
            return
        x = self.value(one.operands[1], of)
        x = _from_bf16(x) if of == "bf16" else x
        for name, rounded in _ROUNDED.items():
            x = rounded(x) if name in one.name else x
        self.put(one.operands[0], self._narrowed(x, into) if into in ("f16", "bf16") else x.astype(_TYPES[into]), here)

    @staticmethod
    def _narrowed(x: np.ndarray, kind: str) -> np.ndarray:
        return _to_bf16(x) if kind == "bf16" else x.astype(np.float16).view(np.uint16)

    def _mov(self, one: Instruction, here: np.ndarray) -> None:
        kind, (into, of) = one.name[-1], one.operands
        if of[0] == "{":
            parts = registers(of)
            width = int(kind[1:]) // len(parts)
            found = np.zeros(self.threads, _TYPES[kind])
            for i, part in enumerate(parts):
                found |= self.value(part, f"b{width}").astype(found.dtype) << found.dtype.type(width * i)
            self.put(into, found, here)
            return
        found = self.value(of, kind)
        parts = registers(into)
        for i, part in enumerate(parts):
            moved = found if len(parts) == 1 else found >> found.dtype.type(int(kind[1:]) // len(parts) * i)
            self.put(part, moved, here)

    # Memory.

    def _ld(self, one: Instruction, here: np.ndarray) -> None:
        kind = one.name[-1]
        if one.name[1] == "param":
            self.put(one.operands[0], self.value(one.operands[1].strip("[]"), kind), here)
            return
        into, size = registers(one.operands[0]), np.dtype(_TYPES[kind]).itemsize
        found = np.zeros((self.threads, len(into) * size), np.uint8)
        if "shared" in one.name:
            places, warps = self._places(one.operands[1], found.shape[1], here)
            found[here] = self.shared.read(places, warps)
        else:
            found[here] = self.memory.read(self.address(one.operands[1], "u64")[here], found.shape[1])
        for i, register in enumerate(into):
            part = np.ascontiguousarray(found[:, i * size : (i + 1) * size]).view(_TYPES[kind])[:, 0]
            self.put(register, part, here)

    def _st(self, one: Instruction, here: np.ndarray) -> None:
        kind = one.name[-1]
        parts = [self.value(register, kind)[:, None].view(np.uint8) for register in registers(one.operands[1])]
        values = np.concatenate(parts, 1)
        if "shared" in one.name:
            self.shared.write(*self._places(one.operands[0], values.shape[1], here), values[here])
        else:
            self.memory.write(self.address(one.operands[0], "u64")[here], values[here])

    def _places(self, operand: str, count: int, here: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """In shared memory, and the warps of the threads."""
        address = self.address(operand, "u32")[here]
        if (address % count).any() or (address < 0).any() or (address + count > SHARED_BYTES).any():
            raise Fault(f"{count} bytes of shared memory at {address.min()} to {address.max()}")
        return address[:, None] + np.arange(count), np.flatnonzero(here) // WARP

    def _cp(self, one: Instruction, here: np.ndarray) -> None:
        if "commit_group" in one.name:
            self.shared.commit()
        elif "wait_group" in one.name:
            self.shared.wait(int(one.operands[0], 0))
        else:
            of, count = self.address(one.operands[1], "u64"), int(one.operands[2], 0)
            there = self.value(one.operands[3], "u32") if len(one.operands) > 3 else np.full(self.threads, count)
            values = np.zeros((self.threads, count), np.uint8)  # of what is not there
            asked = here & (there != 0)
            values[asked] = self.memory.read(of[asked], count)
            self.shared.ask(*self._places(one.operands[0], count, here), values[here])

    def _bar(self, one: Instruction, here: np.ndarray) -> None:
        if "warp" in one.name:
            return
        if not self._all(here):
            raise Fault("some threads do not come to a barrier")
        self.shared.barrier()

    # What threads of a warp do together.

    def _warps(self) -> range:
        return range(0, self.threads, WARP)

    def _shfl(self, one: Instruction, here: np.ndarray) -> None:
        lane, values = np.arange(self.threads), self.value(one.operands[1], "b32")
        by = self.value(one.operands[2], "u32").astype(np.int64)
        other = {"bfly": lane % WARP ^ by, "idx": by % WARP}[one.name[2]]
        self.put(one.operands[0], values[lane // WARP * WARP + other], here)

    def _redux(self, one: Instruction, here: np.ndarray) -> None:
        values = self.value(one.operands[1], one.name[-1])
        reduce = {"min": np.min, "max": np.max, "add": np.sum}[one.name[2]]
        found = [np.full(WARP, reduce(values[w : w + WARP]), values.dtype) for w in self._warps()]
        self.put(one.operands[0], np.concatenate(found), here)

    def _rows(self, operand: str, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Places of the eight rows of matrix i of each warp, 16 bytes each: the addresses are those of eight threads."""
        threads = (np.arange(0, self.threads, WARP)[:, None] + np.arange(8 * i, 8 * i + 8)).ravel()
        return self.address(operand, "u32")[threads][:, None] + np.arange(16), threads // WARP

    def _ldmatrix(self, one: Instruction, here: np.ndarray) -> None:
        for i, register in enumerate(registers(one.operands[0])):
            rows = self.shared.read(*self._rows(one.operands[1], i))
            matrices = np.ascontiguousarray(rows).view(np.uint16).reshape(-1, 8, 8)
            matrices = matrices.transpose(0, 2, 1) if "trans" in one.name else matrices
            self.put(register, np.ascontiguousarray(matrices).view(np.uint32).ravel(), here)

    def _stmatrix(self, one: Instruction, here: np.ndarray) -> None:
        for i, register in enumerate(registers(one.operands[1])):
            matrices = self.value(register, "b32").view(np.uint16).reshape(-1, 8, 8)
            matrices = matrices.transpose(0, 2, 1) if "trans" in one.name else matrices
            rows = np.ascontiguousarray(matrices).view(np.uint8).reshape(-1, 16)
            self.shared.write(*self._rows(one.operands[0], i), rows)

    def _mma(self, one: Instruction, here: np.ndarray) -> None:
        """m16n8k16 and m16n8k8 of 16 bits, and m16n8k8 of tf32, into float32."""
        depth, kind = int(one.name[3].rpartition("k")[2]), one.name[-3]
        if depth not in _DEPTHS.get(kind, ()) or one.name[-1] != "f32":
            raise NotImplementedError(one.text)
        into, left, right, plus = (registers(operand) for operand in one.operands)
        lane = np.arange(WARP)
        row, two = lane // 4, 2 * (lane % 4)
        together = 1 if kind == "tf32" else 2  # numbers of a register
        first = lane % 4 * together
        found = np.zeros((4, self.threads), np.float32)

        def numbers(register: str, w: int) -> np.ndarray:
            bits = self.value(register, "b32")[w : w + WARP, None]
            if kind == "tf32":
                return (bits & np.uint32(0xFFFFE000)).view(np.float32)
            halves = np.ascontiguousarray(bits).view(np.uint16)
            return halves.view(np.float16).astype(np.float32) if kind == "f16" else _from_bf16(halves)

        for w in self._warps():
            a, b, c = np.zeros((16, depth)), np.zeros((depth, 8)), np.zeros((16, 8))
            for i, register in enumerate(left):
                for j in range(together):
                    a[row + 8 * (i % 2), first + 4 * together * (i // 2) + j] = numbers(register, w)[:, j]
            for i, register in enumerate(right):
                for j in range(together):
                    b[first + 4 * together * i + j, row] = numbers(register, w)[:, j]
            for i, register in enumerate(plus):
                c[row + 8 * (i // 2), two + i % 2] = self.value(register, "f32")[w : w + WARP]
            d = (a @ b + c).astype(np.float32)
            for i in range(4):
                found[i, w : w + WARP] = d[row + 8 * (i // 2), two + i % 2]
        for register, values in zip(into, found, strict=True):
            self.put(register, values, here)

    # What threads of a warp group do together.

    def _fence(self, one: Instruction, here: np.ndarray) -> None:
        if "proxy" in one.name:
            if not self._all(here):
                raise NotImplementedError(one.text)
            self.shared.fence()

    def _wgmma(self, one: Instruction, here: np.ndarray) -> None:
        if self.threads % GROUP or not self._all(here):
            raise Fault("some threads of a warp group do not come")
        if one.name[1] == "fence":
            self.products.fence()
        elif one.name[1] == "commit_group":
            self.products.commit()
        elif one.name[1] == "wait_group":
            self.products.wait(int(one.operands[0], 0))
        else:
            self._multiply(one)

    def _multiply(self, one: Instruction) -> None:
        """m64n…k16 of 16 bits into float32. Operands: the sums, what is multiplied, whether the sums go on, two signs, and of
        what lies in shared memory whether it lies across the depth."""
        shape, into, kind = one.name[4], one.name[5], one.name[-1]
        if not shape.endswith("k16") or into != "f32" or kind not in ("f16", "bf16"):
            raise NotImplementedError(one.text)
        sums, left, right, goes_on = (registers(operand) for operand in one.operands[:4])
        left_sign, right_sign, *across = (int(flag, 0) for flag in one.operands[4:])
        in_registers = len(left) > 1
        goes_on = self.value(goes_on[0], "pred")
        before, held = self._together(sums), self._together(left) if in_registers else None
        found, read = [], []

        def matrix(operand: str, rows: int, group: slice, across: int) -> np.ndarray:
            descriptors = self.value(operand, "b64")[group]
            if (descriptors != descriptors[0]).any():
                raise Fault("threads of a warp group name different matrices")
            units = Matrix.of(int(descriptors[0])).units(rows, not across)
            read.append(units.ravel())
            return matrix_of(self.shared.units(units), not across)

        def numbers(bits: np.ndarray) -> np.ndarray:
            return (bits.view(np.float16) if kind == "f16" else _from_bf16(bits)).astype(np.float64)

        for group in (slice(first, first + GROUP) for first in range(0, self.threads, GROUP)):
            a = left_of(held[:, group]) if in_registers else matrix(left[0], ROWS, group, across[0])
            b = matrix(right[0], 2 * len(sums), group, across[-1])
            c = np.where(goes_on[group.start], sums_of(before[:, group].view(np.float32)), 0)
            found.append(parts_of((left_sign * numbers(a) @ (right_sign * numbers(b)).T + c).astype(np.float32)))
        self.products.begin(sums, left if in_registers else [], shape, np.concatenate(read))
        self.registers.update(zip(sums, np.concatenate(found, 1).view(np.uint32), strict=True))

    def _together(self, names: Sequence[str]) -> np.ndarray:
        """Registers of 32 bits, which products may be using."""
        nothing = np.zeros(self.threads, np.uint32)
        return np.stack([self.registers.get(name, nothing) for name in names])

    # Where threads go on.

    def _bra(self, one: Instruction, here: np.ndarray) -> None:
        self._go(self.program.labels[one.operands[0]], here)

    def _ret(self, one: Instruction, here: np.ndarray) -> None:
        self._go(len(self.program.instructions), here)
