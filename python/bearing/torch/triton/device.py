"""Which tensors go to kernels in Triton, and how kernels are launched there. Imported without Triton."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import itertools
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

Made = TypeVar("Made", bound=Callable[..., Any])
Value = TypeVar("Value")

# Triton's interpreter runs kernels on the CPU's tensors. Triton reads the variable when it decorates a kernel, which is
# after this module is imported.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
KINDS = ("cuda", "xpu")  # PyTorch calls AMD's GPUs cuda too
# For kernels that promise the library's bits: each product and each sum is rounded by itself.
FUSION = {} if INTERPRETED else {"enable_fp_fusion": False}


def takes(tensor: Tensor) -> bool:
    """Whether kernels in Triton work on this tensor: on GPUs; on the CPU too where Triton interprets."""
    return INTERPRETED if tensor.is_cpu else tensor.device.type in KINDS


# Why no kernel can run, in words that end a sentence; nothing if they can. PyTorch's compiler does not trace the question.
MISSING = "" if importlib.util.find_spec("triton") else "the package triton is not installed: pip install triton"


_NOTHING = contextlib.nullcontext()


def on(tensor: Tensor) -> contextlib.AbstractContextManager[Any]:
    """The device of a tensor as the current one, which kernels are launched on."""
    device = tensor.device
    if device.type not in KINDS:
        return _NOTHING
    module = getattr(torch, device.type)
    return _NOTHING if module.current_device() == device.index else module.device(device)


def for_good(make: Callable[[], Sequence[Tensor]], device: torch.device) -> list[Tensor]:
    """What is made on the CPU, on a device, to be kept there: any stream may read it as soon as this returns.

    It is made on a thread of its own. What PyTorch knows of the calling thread does not hold for it then: a pool of memory
    that a CUDA graph in the making owns, modes of tensors without numbers, inference mode. Once it is forgotten its memory
    serves others only when no stream reads it any more.
    """

    def moved() -> list[Tensor]:
        made = [n.to(device) for n in make()]
        if device.type in KINDS:
            getattr(torch, device.type).current_stream(device).synchronize()
            for one in made:
                weakref.finalize(one, _forget, one.untyped_storage(), one.device).atexit = False
        return made

    if not _captures():
        _give_back()
    with ThreadPoolExecutor(1) as aside:
        return aside.submit(moved).result()


# The memory of what was forgotten. PyTorch's allocator knows only the stream that a tensor was made on, and kernels on
# others may still read it. They are waited for when something else is made, if no stream is captured then.
_forgotten: dict[int, tuple[torch.device, torch.UntypedStorage]] = {}
_count = itertools.count()


def _forget(storage: torch.UntypedStorage, device: torch.device) -> None:
    """Waits for nothing: it runs on any thread, and at any time."""
    _forgotten[next(_count)] = device, storage


def _give_back() -> None:
    """Gives memory back that nobody reads any more, or leaves it where a device cannot be waited for."""
    gone = _forgotten.copy()
    for device in {device for device, _ in gone.values()}:
        try:
            getattr(torch, device.type).synchronize(device)
        except RuntimeError:
            continue
        for n, (other, _) in gone.items():
            if other == device:
                _forgotten.pop(n, None)


def kept(maxsize: int) -> Callable[[Made], Made]:
    """functools.lru_cache for what holds tensors. What is asked for while a stream is captured is held for ever: the graph
    reads it at each replay, also after this forgets it."""

    def decorated(make: Made) -> Made:
        recent = functools.lru_cache(maxsize)(make)
        held: dict[int, Any] = {}  # by identity

        @functools.wraps(recent)
        def found(*args: Any, **named: Any) -> Any:
            return _held(held, recent(*args, **named))

        found.cache_clear, found.cache_info = recent.cache_clear, recent.cache_info
        return found

    return decorated


def kept_within(most: int) -> Callable[[Made], Made]:
    """The same for what is more with longer calls: what was asked for last and has so many bytes in all."""
    return lambda make: functools.wraps(make)(_KeptWithin(make, most))


class _KeptWithin:
    def __init__(self, make: Callable[..., Any], most: int) -> None:
        self._make, self._most, self._lock = make, most, threading.Lock()
        self._recent: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._bytes = 0
        self._held_for_ever: dict[int, Any] = {}

    def __call__(self, *args: Any) -> Any:
        with self._lock:
            found = self._recent.get(args)
            if found is not None:
                self._recent.move_to_end(args)
        if found is None:
            one = self._make(*args)
            found = one, sum(_taken(x) for x in tree_leaves(one) if isinstance(x, Tensor))
            with self._lock:
                self._put(args, found)
        return _held(self._held_for_ever, found[0])

    def _put(self, key: Hashable, found: tuple[Any, int]) -> None:
        _, before = self._recent.pop(key, (None, 0))  # of another thread
        self._recent[key] = found
        self._bytes += found[1] - before
        while self._bytes > self._most and len(self._recent) > 1:
            _, (_, size) = self._recent.popitem(last=False)
            self._bytes -= size

    def cache_clear(self) -> None:
        """As that of functools.lru_cache."""
        with self._lock:
            self._recent.clear()
            self._bytes = 0

    def cache_info(self) -> Any:
        """As that of functools.lru_cache, without hits."""
        return SimpleNamespace(currsize=len(self._recent), bytes=self._bytes)


def _taken(x: Tensor) -> int:
    """Bytes that an allocator takes for a tensor."""
    return -(-max(1, x.nbytes) // 512) * 512


class Kept(Generic[Value]):
    """The same for what is not made of its key: the things that were put last, by keys."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._recent: OrderedDict[Hashable, Value] = OrderedDict()
        self._held_for_ever: dict[int, Value] = {}

    def get(self, key: Hashable) -> Value | None:
        """What was put there, if it is not forgotten."""
        one = self._recent.get(key)
        return None if one is None else _held(self._held_for_ever, one)

    def put(self, key: Hashable, one: Value) -> None:
        """Keeps it, and forgets the oldest if there are too many."""
        self._recent[key] = _held(self._held_for_ever, one)
        if len(self._recent) > self._most:
            self._recent.popitem(last=False)

    def clear(self) -> None:
        """Forgets all that no graph reads."""
        self._recent.clear()


def _held(held: dict[int, Any], one: Value) -> Value:
    """Itself, which is held for ever if a stream is captured."""
    if _captures():
        held[id(one)] = one
    return one


def _captures() -> bool:
    """Whether a CUDA graph takes what the current stream is given. Where CUDA was not used it stays so."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
