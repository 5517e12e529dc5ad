"""safetensors: what the format's own package writes is read, and the other way round."""

from __future__ import annotations

import json
import os
from pathlib import Path

import bearing
import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
import safetensors.torch
import torch

CORPUS = Path(__file__).resolve().parents[2] / "tests/corpus/safetensors"
TYPES = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"]
# The package is laxer there: the format's text says that a header begins with '{' and has no key twice, and names three
# keys; more than 32 axes are no array's, and no more are strides that wrap beside an extent of 0.
LAXER = {
    "begins_with_space",
    "key_unknown",
    "shape_33_axes",
    "metadata_key_twice",
    "empty_wraps",
    "empty_product_wraps",
}


def arrays() -> dict[str, np.ndarray]:
    some = {one: np.arange(6).reshape(2, 3).astype(one) for one in TYPES}
    some |= {one: np.arange(6).astype(getattr(ml_dtypes, one)) for one in ("bfloat16", "float8_e4m3fn", "float8_e5m2")}
    return some | {
        "bool": np.array([True, False, True]),
        "complex": np.array([1 + 2j], np.complex64),
        "scalar": np.array(2.5, np.float32),
        "empty": np.zeros((0, 4), np.float32),
        "ключ/~é": np.ones(1, np.float32),
    }


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def test_what_the_package_writes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    safetensors.numpy.save_file(arrays(), path, metadata={"format": "np"})
    read = bearing.read_safetensors(path)
    assert set(read) == set(arrays()) and read.metadata == {"format": "np"} and read.types["bfloat16"] == "BF16"
    for name, array in arrays().items():
        assert same(read[name], array), name
        assert not read[name].flags.writeable


def test_what_is_written_the_package_reads_and_would_write_so(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    bearing.write_safetensors(ours, arrays(), {"format": "np"})
    safetensors.numpy.save_file(arrays(), theirs, metadata={"format": "np"})
    assert ours.read_bytes() == theirs.read_bytes()


def test_the_class_opens_a_path_as_the_function_does(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    bearing.write_safetensors(path, {"one": np.arange(3.0)})
    opened = bearing.Safetensors(path)
    assert repr(opened) == repr(bearing.read_safetensors(path)) and (opened["one"] == [0, 1, 2]).all()
    with pytest.raises(bearing.ConfigError, match="nowhere"):
        bearing.Safetensors(str(tmp_path / "nowhere.safetensors"))


def test_arrays_outlive_the_file_that_they_came_from(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    bearing.write_safetensors(path, {"w": np.arange(4.0)})
    array = bearing.read_safetensors(path)["w"]
    path.unlink()
    np.testing.assert_array_equal(array, np.arange(4.0))


def test_tensors_of_pytorch_are_written(tmp_path: Path) -> None:
    tensors = {"a": torch.arange(6.0).reshape(2, 3).bfloat16(), "b": torch.ones(3, requires_grad=True)}
    bearing.write_safetensors(tmp_path / "x", tensors)
    read = safetensors.torch.load_file(tmp_path / "x")
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())
    bearing.write_safetensors(tmp_path / "x", {"t": torch.arange(6.0).reshape(2, 3).T})
    np.testing.assert_array_equal(bearing.read_safetensors(tmp_path / "x")["t"], [[0, 3], [1, 4], [2, 5]])


def test_several_files_are_one_model(tmp_path: Path) -> None:
    tensors = {name: np.full(16, i, np.float32) for i, name in enumerate("abc")}
    bearing.write_safetensors(tmp_path, tensors, {"format": "pt"}, most_bytes=128)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"] == {"total_size": 192} and index["weight_map"]["c"] == "model-00002-of-00002.safetensors"
    for path in (tmp_path, tmp_path / "model.safetensors.index.json"):
        read = bearing.read_safetensors(path)
        assert list(read) == ["a", "b", "c"] and read["c"][0] == 2 and read.metadata == {"format": "pt"}


@pytest.mark.parametrize("path", sorted((CORPUS / "malformed").iterdir()), ids=lambda path: path.stem)
def test_a_malformed_file_is_refused_as_the_package_refuses_it(path: Path) -> None:
    with pytest.raises(bearing.ConfigError, match="malformed"):
        bearing.read_safetensors(path)
    if path.stem in LAXER:
        safetensors.safe_open(path, "np")
    else:
        with pytest.raises(Exception, match=r"(?i)error|header|file"):
            safetensors.safe_open(path, "np")


def test_names_of_files_need_not_be_utf8(tmp_path: Path) -> None:
    weights = os.path.join(os.fsencode(tmp_path), b"\xff.safetensors")
    config = os.path.join(os.fsencode(tmp_path), b"\xff.json")
    folder = os.path.join(os.fsencode(tmp_path), b"\xff")
    os.mkdir(folder)
    text = '{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}'
    for file in (config, os.path.join(folder, b"config.json")):
        with open(file, "w") as to:
            to.write(text)
    for path in (weights, os.fsdecode(weights), Path(os.fsdecode(weights))):
        bearing.write_safetensors(path, {"é": np.ones(2, np.float32)})
        assert bearing.read_safetensors(path)["é"][1] == 1
    for path in (config, os.fsdecode(config), Path(os.fsdecode(config))):
        model = bearing.read_hf_config(path)
        assert model.file == os.fsdecode(config) and "udcff.json" in repr(model)
        with pytest.raises(bearing.ConfigError, match=r"/\\xff.json: "):
            bearing.read_gguf(path)
    bearing.write_safetensors(os.path.join(folder, b"model.safetensors"), {})
    for path in (folder, os.fsdecode(folder)):
        assert len(bearing.load(path).layers) == 2


def test_a_path_with_a_nul_names_no_other_file(tmp_path: Path) -> None:
    victim = tmp_path / "victim.json"
    victim.write_text('{"model_type": "gpt2"}')
    path = f"{victim}\0.safetensors"
    for call in (
        lambda: bearing.write_safetensors(path, {}),
        lambda: bearing.write_safetensors(f"{tmp_path}\0x", {"w": np.ones(2)}, most_bytes=8),
        lambda: bearing.read_safetensors(path),
        lambda: bearing.read_hf_config(path),
        lambda: bearing.read_gguf(path),
        lambda: bearing.load(f"{tmp_path}\0x"),
    ):
        with pytest.raises(bearing.ConfigError, match=r"\\x00.*: must be a path without a NUL character, got one"):
            call()
    assert victim.read_text() == '{"model_type": "gpt2"}' and list(tmp_path.iterdir()) == [victim]


def test_names_and_metadata_are_texts(tmp_path: Path) -> None:
    bearing.write_safetensors(tmp_path / "pairs", {"w": np.ones(1)}, [("a", "b")])  # type: ignore[arg-type]
    assert bearing.read_safetensors(tmp_path / "pairs").metadata == {"a": "b"}
    for tensors, metadata, text in (
        ({5: np.ones(1)}, None, "tensors: a name must be str, got 5"),
        ({b"x": np.ones(1)}, None, "tensors: a name must be str, got b'x'"),
        ({}, {5: "a"}, "metadata: a key must be str, got 5"),
        ({}, {"step": 5}, "metadata: 'step' must be str, got 5"),
    ):
        with pytest.raises(TypeError, match=rf"^\[write_safetensors\] {text}$"):
            bearing.write_safetensors(tmp_path / "x", tensors, metadata)  # type: ignore[arg-type]
    assert not (tmp_path / "x").exists()


def test_names_and_texts_have_whole_characters(tmp_path: Path) -> None:
    with pytest.raises(bearing.ShapeError, match="a name '.udc00' must have whole characters"):
        bearing.write_safetensors(tmp_path / "x", {"\udc00": np.ones(1)})
    with pytest.raises(bearing.ShapeError, match="metadata 'a' must have whole characters"):
        bearing.write_safetensors(tmp_path / "x", {}, {"a": "\udc00"})
    for call in (bearing.Rope.from_json, lambda text: bearing.read_hf_config({"model_type": json.loads(text)})):
        with pytest.raises(bearing.ConfigError, match="half of a surrogate pair"):
            call('"\\udc00"')
    assert list(tmp_path.iterdir()) == []


def test_wrong_calls_say_what_must_hold(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with pytest.raises(bearing.ConfigError, match="must hold model.safetensors or"):
        bearing.read_safetensors(tmp_path)
    with pytest.raises(TypeError, match="'w' must be of a type that the format has, got complex128"):
        bearing.write_safetensors(path, {"w": np.ones(1, complex)})
    with pytest.raises(TypeError, match="'w' must be an array of little-endian numbers, got object"):
        bearing.write_safetensors(path, {"w": np.array([None])})
    with pytest.raises(bearing.ShapeError, match="must not be __metadata__"):
        bearing.write_safetensors(path, {"__metadata__": np.ones(1)})
    with pytest.raises(bearing.RangeError, match="most_bytes: must be at least 0"):
        bearing.write_safetensors(path, {}, most_bytes=-1)
    assert not path.exists()
    bearing.write_safetensors(path, {})
    with pytest.raises(KeyError, match="must have a tensor 'w', got none"):
        bearing.read_safetensors(path)["w"]
