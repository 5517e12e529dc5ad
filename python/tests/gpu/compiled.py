"""Kernels compiled for GPUs without one: the launches of a call are recorded, and each is compiled as Triton would for
these very arguments. Run as a program, in a process of its own without Triton's interpreter."""

from __future__ import annotations

import contextlib
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
_OPTIONS = ("num_warps", "num_stages", "enable_fp_fusion")
_TYPES = {
    torch.float64: "*fp64",
    torch.float32: "*fp32",
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.int64: "*i64",
    torch.int32: "*i32",
    torch.uint8: "*u8",
    torch.bool: "*i1",
}


class Launch(NamedTuple):
    """A kernel and what it was launched with."""

    kernel: Any
    args: tuple[Any, ...]
    named: dict[str, Any]


@contextlib.contextmanager
def recorded(module: Any, *names: str) -> Iterator[list[Launch]]:
    """The launches of a module's kernels, which are noted and not run."""
    launches: list[Launch] = []
    kernels = [getattr(module, name) for name in names]
    run = JITFunction.run

    def noted(kernel: JITFunction, *args: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        if kernel not in kernels:
            return run(kernel, *args, grid=grid, warmup=warmup, **named)
        launches.append(Launch(kernel, args, named))

    JITFunction.run = noted
    try:
        yield launches
    finally:
        JITFunction.run = run


class Code(NamedTuple):
    """What a launch compiles to."""

    target: str
    text: str  # PTX or AMD's assembler
    gpu: str  # Triton's own form for GPUs
    spilled: int  # bytes of registers that did not fit
    local: int  # bytes of each thread's own memory
    registers: int
    shared: int  # bytes of the memory that a program's threads share

    @property
    def widest_load(self) -> int:
        """Bytes that one thread loads at once from memory, at most."""
        return max(self.loads, default=0)

    @property
    def loads(self) -> Counter[int]:
        """How many instructions load so many bytes from memory for one thread."""
        ahead = re.findall(r"cp\.async\.c[ag]\.shared\.global [^,]*,[^,]*, 0x(\w+)", self.text)  # into shared memory
        return self._accesses("ld", "load") + Counter(int(n, 16) for n in ahead)

    @property
    def stores(self) -> Counter[int]:
        """How many store so many bytes."""
        return self._accesses("st", "store")

    def _accesses(self, nvidia: str, amd: str) -> Counter[int]:
        if self.target.startswith("sm_"):
            found = re.findall(rf"\b{nvidia}\.global(?:\.\w+)*?(?:\.v(\d))?\.[busf](\d+)", self.text)
            return Counter(int(count or 1) * int(bits) // 8 for count, bits in found)
        words = re.findall(rf"(?:global|buffer|flat)_{amd}_dword(?:x(\d))?\b", self.text)
        parts = re.findall(rf"(?:global|buffer|flat)_{amd}_[usdf]?(byte|short)", self.text)
        return Counter([*(4 * int(n or 1) for n in words), *({"byte": 1, "short": 2}[n] for n in parts)])


def kinds_of(launch: Launch) -> tuple[dict[str, Any], dict[Any, Any], dict[Any, Any]]:
    """What a launch is compiled for: the types of its arguments, those that are constants, and what is known of others."""
    named = {name: value for name, value in launch.named.items() if name not in _OPTIONS}
    values = dict(zip(launch.kernel.arg_names, launch.args, strict=False)) | named
    constants: dict[Any, Any] = {}
    attributes: dict[Any, Any] = {}
    signature = {
        one.name: _plain_kind(values[one.name])
        if one.do_not_specialize
        else _kind_of(values[one.name], (i,), one.is_constexpr, constants, attributes)
        for i, one in enumerate(launch.kernel.params)
    }
    return signature, constants, attributes


def made_of(launch: Launch, target: str) -> Any:
    """Compiles one launch: what Triton gives. Without a word of fused products its versions differ."""
    assert "enable_fp_fusion" in launch.named
    options = {name: value for name, value in launch.named.items() if name in _OPTIONS}
    source = ASTSource(launch.kernel, *kinds_of(launch))
    with triton.knobs.runtime.scope():
        triton.knobs.runtime.add_stages_inspection_hook = _as_text
        return triton.compile(source, target=TARGETS[target], options=options)


def _as_text(backend: Any = None, stages: Any = None, *_: Any) -> Any:
    """Triton asks for what its cache tells such code by, and then for changes of its stages: the last one, an assembler, which
    takes a third of the time, makes nothing of the text."""
    if stages is None:
        return ("text alone",) * 2
    stages[backend.binary_ext] = lambda text, metadata: b""
    return None


def code_of(launch: Launch, target: str) -> Code:
    """The same, with what the assembler says of it."""
    made = made_of(launch, target)
    text = made.asm["ptx"] if "ptx" in made.asm else made.asm["amdgcn"]
    return Code(target, text, made.asm["ttgir"], *_memory(text, target), made.metadata.shared)


def _kind_of(value: Any, path: tuple[int, ...], constant: bool, constants: dict, attributes: dict) -> Any:
    """The type of an argument as Triton takes it; a tuple has those of what is in it."""
    if constant or value is None or (type(value) is int and value == 1):
        constants[path] = value
        return "constexpr"
    if isinstance(value, tuple):
        kinds = [_kind_of(one, (*path, i), False, constants, attributes) for i, one in enumerate(value)]
        return type(value)(*kinds) if hasattr(value, "_fields") else tuple(kinds)
    if isinstance(value, float):
        return _plain_kind(value)
    whole = value.data_ptr() if isinstance(value, torch.Tensor) else value
    if whole % 16 == 0:
        attributes[path] = [["tt.divisibility", 16]]
    return _plain_kind(value)


def _plain_kind(value: Any) -> str:
    if isinstance(value, float):
        return "fp32"
    if isinstance(value, torch.Tensor):
        return _TYPES[value.dtype]
    return "i32" if -(2**31) <= value < 2**31 else "i64"


def _memory(text: str, target: str) -> tuple[int, int, int]:
    """Spilled bytes, local bytes and registers, as the assembler counts them."""
    if not target.startswith("sm_"):
        found = {
            name: int(n)
            for name, n in re.findall(r"\.(\w+_spill_count|private_segment_fixed_size|vgpr_count):\s*(\d+)", text)
        }
        spills = 4 * (found.get("vgpr_spill_count", 0) + found.get("sgpr_spill_count", 0))
        return spills, found["private_segment_fixed_size"], found["vgpr_count"]
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(text)
        file.flush()
        architecture = re.search(r"^\.target (\w+)", text, re.MULTILINE).group(1)
        assembler = get_ptxas(TARGETS[target].arch).path
        # As Triton calls it: products and sums stay apart in what is assembled too.
        command = [assembler, "-v", "--fmad=false", f"--gpu-name={architecture}", file.name, "-o", "/dev/null"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    stores, loads = (int(n) for n in re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", said).groups())
    stack = int(re.search(r"(\d+) bytes stack frame", said).group(1))
    return stores + loads, stack, int(re.search(r"Used (\d+) registers", said).group(1))


__all__ = ["TARGETS", "Code", "Launch", "code_of", "kinds_of", "made_of", "recorded"]
