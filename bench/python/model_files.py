"""What it costs to know a model's positions from its files: a GGUF of 30 GB, weights in 200 files, every config of the corpus.

    python bench/python/model_files.py [--command build/release/tools/bearing/bearing] [--turns 25]

The large files are sparse: their headers are as real ones, of the rest the disk holds nothing. Each call is made in this process,
by bearing's module; `command` is `bearing config` as a user types it, from its start to its end. Times are of files that the system
holds in memory, as they are after they were made: least and median on the clock, and the median of what was computed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import bearing
import numpy as np

CORPUS = Path(__file__).parents[2] / "tests/corpus/hf_config/valid"
TOKENS, LAYERS, FILES = 150_000, 100, 200
GIGABYTES = 30


def text(word: str) -> bytes:
    return struct.pack("<Q", len(word)) + word.encode()


def words(key: str, values: list[str]) -> bytes:
    return text(key) + struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(text, values))


def make_gguf(path: Path) -> None:
    """A Llama of 100 layers with 10 tensors each, and a vocabulary of 150,000 tokens with its merges."""
    sizes = {
        "block_count": LAYERS, "context_length": 131072, "embedding_length": 8192, "attention.head_count": 64,
        "attention.head_count_kv": 8,
    }  # fmt: skip
    pairs = [text("general.architecture") + struct.pack("<I", 8) + text("llama")]
    pairs += [text(f"llama.{key}") + struct.pack("<II", 4, value) for key, value in sizes.items()]
    pairs.append(text("llama.rope.freq_base") + struct.pack("<If", 6, 500000.0))
    pairs.append(words("tokenizer.ggml.tokens", [f"token{i}" for i in range(TOKENS)]))
    pairs.append(text("tokenizer.ggml.token_type") + struct.pack("<IIQ", 9, 5, TOKENS) + bytes(4 * TOKENS))
    pairs.append(words("tokenizer.ggml.merges", [f"left{i} right{i}" for i in range(TOKENS)]))
    rows, width = 1_800, 8_192  # of 16-bit numbers
    shapes = {"rope_freqs.weight": (64,)} | {
        f"blk.{i}.part_{j}.weight": (width, rows) for i in range(LAYERS) for j in range(10)
    }
    infos, end = [], 0
    for name, shape in shapes.items():
        infos.append(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, len(shape) - 1, end))
        end += 64 * 4 if len(shape) == 1 else 2 * rows * width
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(pairs)) + b"".join(pairs) + b"".join(infos)
    head += bytes(-len(head) % 32) + np.full(64, 1.0, np.float32).tobytes()
    path.write_bytes(head)
    with path.open("r+b") as file:
        file.truncate(len(head) - 256 + end)
    assert path.stat().st_size > GIGABYTES * 10**9 * 0.95


def make_folder(folder: Path, config: dict[str, object], tables: dict[str, tuple[int, ...]]) -> None:
    """Weights in 200 files, each with 5 large tensors of 16-bit numbers, and the float32 tables dealt out to them."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    places: dict[str, str] = {}
    for i in range(FILES):
        name = f"model-{i + 1:05}-of-{FILES:05}.safetensors"
        shapes = {key: ("F32", shape) for n, (key, shape) in enumerate(tables.items()) if n % FILES == i}
        shapes |= {f"layers.{i // 2}.part_{i % 2}_{j}.weight": ("BF16", (8192, 1800)) for j in range(5)}
        header, end = {}, 0
        for key, (kind, shape) in shapes.items():
            size = int(np.prod(shape)) * (4 if kind == "F32" else 2)
            header[key] = {"dtype": kind, "shape": shape, "data_offsets": [end, end + size]}
            places[key] = name
            end += size
        words_of_header = json.dumps(header).encode()
        words_of_header += b" " * (-len(words_of_header) % 8)  # as the format's own library does
        (folder / name).write_bytes(struct.pack("<Q", len(words_of_header)) + words_of_header)
        with (folder / name).open("r+b") as file:
            file.truncate(8 + len(words_of_header) + end)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))


def seconds() -> tuple[float, float]:
    """Now, and what this process and its children have computed so far."""
    used = os.times()
    return time.perf_counter(), time.process_time() + used.children_user + used.children_system


def times_of(call: Callable[[], object], turns: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each call on the clock, and of computing, which others' work on the machine disturbs less."""
    clock, computed = [], []
    call()
    for _ in range(turns):
        start = seconds()
        call()
        end = seconds()
        clock.append(1e3 * (end[0] - start[0]))
        computed.append(1e3 * (end[1] - start[1]))
    return clock, computed


def measure(name: str, call: Callable[[], object], turns: int) -> None:
    clock, computed = times_of(call, turns)
    print(
        f"{name:58} {min(clock):8.2f} {statistics.median(clock):8.2f} {statistics.median(computed):10.2f}", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", help="the command, to be measured too")
    parser.add_argument("--turns", type=int, default=25)
    given = parser.parse_args()
    print(f"{'milliseconds':58} {'least':>8} {'median':>8} {'computing':>10}")

    def run(*files: Path) -> Callable[[], object]:
        return lambda: subprocess.run(
            [given.command, "config", *map(str, files)], stdout=subprocess.DEVNULL, check=True
        )

    corpus = sorted(CORPUS.glob("*.json"))
    with tempfile.TemporaryDirectory() as kept:
        gguf = Path(kept) / "large.gguf"
        make_gguf(gguf)
        llama = {
            "model_type": "llama", "num_hidden_layers": LAYERS, "num_attention_heads": 64, "num_key_value_heads": 8,
            "hidden_size": 8192, "max_position_embeddings": 131072, "rope_theta": 500000.0,
        }  # fmt: skip
        bert = {
            "model_type": "bert", "num_hidden_layers": FILES, "num_attention_heads": 16, "hidden_size": 1024,
            "max_position_embeddings": 512, "position_embedding_type": "relative_key",
        }  # fmt: skip
        tables = {f"encoder.layer.{i}.attention.self.distance_embedding.weight": (1023, 64) for i in range(FILES)}
        make_folder(Path(kept) / "llama", llama, {})
        make_folder(Path(kept) / "bert", bert, tables)
        measure("GGUF of 30 GB, 1,001 tensors, 150,000 tokens: read_gguf", lambda: bearing.read_gguf(gguf), given.turns)
        measure("Llama in 200 files: load", lambda: bearing.load(Path(kept) / "llama"), given.turns)
        measure("BERT with a table in each of 200 files: load", lambda: bearing.load(Path(kept) / "bert"), given.turns)
        if given.command:
            measure("GGUF of 30 GB: command", run(gguf), given.turns)
            measure("Llama in 200 files: command", run(Path(kept) / "llama"), given.turns)
    read = {
        path.name: times_of(run(path) if given.command else partial(bearing.read_hf_config, path), 5) for path in corpus
    }
    clock, computed = ({name: statistics.median(times[i]) for name, times in read.items()} for i in (0, 1))
    slowest = max(computed, key=lambda name: computed[name])
    print(f"corpus, slowest: {slowest:41} {'':8} {clock[slowest]:8.2f} {computed[slowest]:10.2f}")
    usual = statistics.median(computed.values())
    print(f"corpus, usual of {len(read)} configs {'':33} {'':8} {statistics.median(clock.values()):8.2f} {usual:10.2f}")


if __name__ == "__main__":
    main()
