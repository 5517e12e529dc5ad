"""Tensors of safetensors files as NumPy arrays."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _core

_PLAIN = {
    "F64": "f8",
    "F32": "f4",
    "F16": "f2",
    "I64": "i8",
    "I32": "i4",
    "I16": "i2",
    "I8": "i1",
    "U64": "u8",
    "U32": "u4",
    "U16": "u2",
    "U8": "u1",
    "BOOL": "?",
    "C64": "c8",
}
# What NumPy has not, ml_dtypes has.
_OTHER = {
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}
_NAMES = {np.dtype(one): name for name, one in _PLAIN.items()}


def _type_of(name: str) -> Any:
    if name in _PLAIN:
        return np.dtype(_PLAIN[name])
    if name not in _OTHER:
        return None
    import ml_dtypes  # only where a file has such numbers

    return np.dtype(getattr(ml_dtypes, _OTHER[name]))


class Safetensors(Mapping[str, NDArray[Any]]):
    """The tensors of a file, by name. They are read-only arrays that see the file itself; nothing is copied.

    path: what read_safetensors() takes, which returns this class too.

    Numbers of 4 and 6 bits, which no array has, come as the file's bytes, in one axis. ``metadata`` has the texts of
    the header, and ``types`` the format's name for the type of each tensor.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fsdecode(path)
        tensors, metadata = _core._read_weights(path)
        self.metadata = metadata
        self.types = {name: kind for name, kind, _, _ in tensors}
        self._tensors = {name: (shape, data) for name, _, shape, data in tensors}

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._tensors:
            raise KeyError(f"{self.path}: must have a tensor {name!r}, got none")
        shape, data = self._tensors[name]
        kind = _type_of(self.types[name])
        return data if kind is None else data.view(kind).reshape(shape)  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        return f"Safetensors({self.path!r}, {len(self)} tensors)"


def read_safetensors(path: str | bytes | os.PathLike[str]) -> Safetensors:
    """Reads a safetensors file, a model's index, or its folder, and returns its tensors by name.

    path: a .safetensors file; a model.safetensors.index.json; or a folder that holds model.safetensors or an index.

    The files are mapped, so that a tensor costs nothing until it is looked at. Every rule of the format is checked
    first: lengths, types, shapes, that names are there once, and that tensors fill the file without holes or overlaps.

    Raises ConfigError. Its text names the file, the byte or the tensor, what must hold and what was found.
    """
    return Safetensors(path)


def _array_of(name: str, value: Any) -> NDArray[Any]:
    if hasattr(value, "detach"):  # a tensor of PyTorch
        value = value.detach().cpu().contiguous()
        if str(value.dtype) == "torch.bfloat16":
            return value.view(dtype=_torch_int16(value)).numpy().view(_type_of("BF16"))  # type: ignore[no-any-return]
        value = value.numpy()
    # ascontiguousarray would give a number without axes an axis.
    array = np.asarray(value, order="C")
    if array.dtype.byteorder == ">" or array.dtype.kind == "O":
        raise TypeError(
            f"[write_safetensors] tensors: {name!r} must be an array of little-endian numbers, got {array.dtype}"
        )
    return array


def _torch_int16(tensor: Any) -> Any:
    import torch

    return torch.int16


def _name_of(name: str, array: NDArray[Any]) -> str:
    if array.dtype in _NAMES:
        return _NAMES[array.dtype]
    for stored, kind in _OTHER.items():
        if array.dtype.name == kind:
            return stored
    raise TypeError(f"[write_safetensors] tensors: {name!r} must be of a type that the format has, got {array.dtype}")


def _check_characters(what: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _core.ShapeError(
            f"[write_safetensors] {what} must have whole characters, got half of a surrogate pair"
        ) from None


def write_safetensors(
    path: str | bytes | os.PathLike[str],
    tensors: Mapping[str, Any],
    metadata: Mapping[str, str] | None = None,
    *,
    most_bytes: int = 0,
) -> None:
    """Writes tensors as a safetensors file. It takes its place at once: after an error the old file is as it was.

    path: the file; with most_bytes a folder.
    tensors: arrays by name, of NumPy, PyTorch or JAX.
    metadata: texts for the header.
    most_bytes: if it is not 0, the tensors go to model-00001-of-0000N.safetensors and so on, each of at most so many
        bytes of numbers, with model.safetensors.index.json beside them; where one file is enough, to model.safetensors.

    Raises TypeError for what is no array of the format's types, or no text, ShapeError for a name that it cannot have, ConfigError
    for a file that cannot be written.
    """
    if most_bytes < 0:
        raise _core.RangeError(f"[write_safetensors] most_bytes: must be at least 0, got {most_bytes}")
    metadata = dict(metadata or {})
    texts = [("tensors: a name", f"a name {name!r}", name) for name in tensors]
    texts += [("metadata: a key", f"metadata {key!r}", key) for key in metadata]
    texts += [(f"metadata: {key!r}", f"metadata {key!r}", value) for key, value in metadata.items()]
    for argument, what, text in texts:
        if not isinstance(text, str):
            raise TypeError(f"[write_safetensors] {argument} must be str, got {text!r}")
        _check_characters(what, text)
    arrays = {name: _array_of(name, value) for name, value in tensors.items()}
    parts = [(name, _name_of(name, one), one.shape, one.reshape(-1).view(np.uint8)) for name, one in arrays.items()]
    _core._write_weights(path, parts, metadata, most_bytes)
