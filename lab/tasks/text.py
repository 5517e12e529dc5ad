"""Text: say the next byte of the documentation that every Python carries, or of a file."""

from __future__ import annotations

import ast
import functools
import hashlib
import platform
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..task import Batch, draw_lengths

_BETWEEN = b"\f"  # stands between documents, and in none
_HELD_OUT = 6  # one document in so many is held out

# Distributors pack these apart from Python, so that not every installation has them.
_APART = {"__phello__", "distutils", "ensurepip", "idlelib", "lib2to3", "this", "tkinter", "turtle", "turtledemo"}


class Text:
    """Say the next byte.

    Built as language models are measured: every place is asked for the byte that follows. Press et al. 2022
    (arXiv 2108.12409) measure so at more than the trained length, on WikiText-103; here the text is the documentation
    of Python's language (the topics of ``help()``) and of its standard library (the docstrings of its modules, found
    without importing them), or a file of the reader's.

    What it isolates: nothing; it is what encodings are used for. Near bytes matter most, far ones a little.

    Documents are a topic or a module each, and one in six is held out, chosen by a hash of its name; a form feed
    stands between two. A file is one document, and its last sixth is held out. Rows are pieces of a part of exactly
    the length that is asked for, in training too. Training draws them from the one part; measuring takes them from the
    other, spread evenly from a start that is drawn. A row is bytes, a token is a byte's value, and none is a pad. Metric:
    loss, in nats per byte.
    """

    name = "text"
    title = "Next byte of text"
    source = "Press et al. 2022, arXiv 2108.12409"
    unit = "bytes"
    vocabulary = 256
    trained = 128
    causal = True
    for_encoders = False
    metric = "loss"
    guessed = 0.0

    def __init__(self, file: str | Path | None = None) -> None:
        self._file = None if file is None else Path(file)

    @functools.cached_property
    def parts(self) -> tuple[np.ndarray, np.ndarray]:
        """The bytes to train on and those that are held out."""
        train, held_out = _parts_of_python() if self._file is None else _parts_of_file(self._file)
        return np.frombuffer(train, np.uint8), np.frombuffer(held_out, np.uint8)

    @functools.cached_property
    def sha256(self) -> str:
        """What tells this text from any other: of both parts, with a form feed between them."""
        return hashlib.sha256(_BETWEEN.join(part.tobytes() for part in self.parts)).hexdigest()

    @property
    def about(self) -> str:
        """Where the text is from."""
        return f"documentation of Python {platform.python_version()}" if self._file is None else self._file.name

    def time(self, length: int) -> int:
        return length

    def batch(self, random: np.random.Generator, size: int, length: int, varied: bool) -> Batch:
        draw_lengths(random, size, length, varied=False)  # checks both
        part = self.parts[0 if varied else 1]
        if len(part) <= length:
            name = "part to train on" if varied else "part held out"
            raise ValueError(f"[Text] length: must be less than the {len(part)} bytes of the {name}, got {length}")
        room = len(part) - length
        spread = random.random(size) if varied else (np.arange(size) + random.random()) / size
        starts = (spread * room).astype(np.int64)
        pieces = part[starts[:, None] + np.arange(length + 1)].astype(np.int64)
        return Batch(np.ascontiguousarray(pieces[:, :-1]), np.ascontiguousarray(pieces[:, 1:]))

    def spell(self, tokens: np.ndarray) -> str:
        return bytes(int(token) for token in tokens).decode("utf-8", "replace")


def _parts_of_file(file: Path) -> tuple[bytes, bytes]:
    whole = file.read_bytes()
    if 0 in whole:
        raise ValueError(f"[Text] file: must be text, without a byte of 0, got one at {whole.index(0)} in {file}")
    if len(whole) < _HELD_OUT:
        raise ValueError(f"[Text] file: must have at least {_HELD_OUT} bytes, got {len(whole)} in {file}")
    train = len(whole) - len(whole) // _HELD_OUT
    return whole[:train], whole[train:]


@functools.cache
def _parts_of_python() -> tuple[bytes, bytes]:
    train: list[bytes] = []
    held_out: list[bytes] = []
    for name, words in documents():
        digest = hashlib.sha256(name.encode()).digest()
        (train if digest[0] % _HELD_OUT else held_out).append(words.encode().replace(_BETWEEN, b"\n"))
    return _BETWEEN.join(train), _BETWEEN.join(held_out)


def documents() -> Iterator[tuple[str, str]]:
    """The names and words of this Python's documentation, in an order that is the same for each of its installations."""
    from pydoc_data.topics import topics

    for topic in sorted(topics):
        yield f"topic {topic}", topics[topic].strip() + "\n"
    library = Path(sysconfig.get_path("stdlib"))
    for module in sorted(sys.stdlib_module_names - _APART):
        for file in _sources(library, module):
            words = "\n".join(_docstrings(file))
            if words:
                yield f"module {file.relative_to(library).as_posix()}", words


def _sources(library: Path, module: str) -> list[Path]:
    """The sources of a module, or of a package without its tests."""
    alone = library / f"{module}.py"
    if alone.is_file():
        return [alone]
    found = (library / module).rglob("*.py")
    return sorted(file for file in found if not {"test", "tests"} & set(file.relative_to(library).parts))


def _docstrings(file: Path) -> Iterator[str]:
    """The docstrings of a source, from the top down, each with the names that it belongs to."""
    try:
        tree = ast.parse(file.read_bytes())
    except SyntaxError:  # a few files of the library are examples of what is wrong
        return
    for node, name in _named(tree, ""):
        words = ast.get_docstring(node)
        if words:
            yield f"{name}\n{words}\n" if name else f"{words}\n"


_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _named(node: _Documented, name: str) -> Iterator[tuple[_Documented, str]]:
    yield node, name
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _named(child, f"{name}.{child.name}" if name else child.name)
