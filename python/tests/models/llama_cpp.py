"""llama.cpp itself, as xllamacpp's wheel carries it, on GGUF files that have metadata and no weights: these are drawn.

What its graph does with queries and keys is seen while it runs: each rotation with its input and output, each softmax with
its scale and mask. The structs are those of llama.h and ggml.h at that version; the defaults are looked at before they are used.
"""

from __future__ import annotations

import importlib.util
import os
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("GGML_NO_BACKTRACE", "1")

import numpy as np
from cffi import FFI

ffi = FFI()
ffi.cdef("""
struct model_params { void *devices, *overrides; int32_t n_gpu_layers; int split_mode, load_mode, lazy_mode; int32_t main_gpu;
  const float* tensor_split; void *progress, *progress_data, *kv_overrides;
  bool vocab_only, check_tensors, use_extra_bufts, no_host, no_alloc, load_mtp; };
struct context_params { uint32_t n_ctx, n_batch, n_ubatch, n_seq_max, n_rs_seq, n_outputs_max, n_outputs_max_per_seq;
  int32_t n_threads, n_threads_batch; int ctx_type, rope_scaling_type, pooling_type, attention_type, flash_attn_type;
  float rope_freq_base, rope_freq_scale, yarn_ext_factor, yarn_attn_factor, yarn_beta_fast, yarn_beta_slow;
  uint32_t yarn_orig_ctx; float defrag_thold; bool (*cb_eval)(void*, bool, void*); void* cb_eval_user_data;
  int type_k, type_v; size_t moe_cache_size; void *abort, *abort_data;
  bool embeddings, offload_kqv, no_perf, op_offload, swa_full, kv_unified; void* samplers; size_t n_samplers; void* other; };
struct batch { int32_t n_tokens; int32_t* token; float* embd; int32_t *pos, *n_seq_id; int32_t** seq_id; int8_t* logits; };
struct gguf_params { bool no_alloc; void** context; };
struct tensor { int type; void* buffer; int64_t ne[4]; size_t nb[4]; int op; int32_t op_params[16]; int32_t flags;
  struct tensor* src[10]; struct tensor* view_src; size_t view_offs; void* data; char name[64]; };
void* gguf_init_from_file(const char* path, struct gguf_params params);
void gguf_free(void* metadata);
const char* ggml_op_name(int op);
void llama_backend_init(void);
void llama_log_set(void (*log)(int, const char*, void*), void* data);
struct model_params llama_model_default_params(void);
struct context_params llama_context_default_params(void);
void* llama_model_init_from_user(void* metadata, void (*set)(void*, void*), void* data, struct model_params params);
void* llama_init_from_model(void* model, struct context_params params);
void llama_model_free(void* model);
void llama_free(void* context);
struct batch llama_batch_init(int32_t tokens, int32_t embd, int32_t sequences);
void llama_batch_free(struct batch batch);
int32_t llama_decode(void* context, struct batch batch);
""")


def library() -> Any:
    package = importlib.util.find_spec("xllamacpp")  # not imported: its own module sets llama.cpp up in another way
    assert package is not None and package.submodule_search_locations
    found = ffi.dlopen(str(next(Path(package.submodule_search_locations[0]).glob("xllamacpp*.so"))))
    defaults = found.llama_context_default_params()
    assert (defaults.n_ctx, defaults.n_batch, defaults.yarn_ext_factor, defaults.type_k) == (512, 2048, -1, 1)
    assert defaults.offload_kqv and defaults.op_offload and defaults.other == ffi.NULL
    return found


lib = library()
said: list[str] = []


@ffi.callback("void(int, const char*, void*)")
def keep(level: int, text: Any, _: Any) -> None:
    said.append(ffi.string(text).decode(errors="replace"))


lib.llama_log_set(keep, ffi.NULL)
lib.llama_backend_init()

Value = bool | int | float | str | list[Any]


def value_bytes(value: Value) -> bytes:
    """A GGUF value behind its type."""
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text_bytes(value)
    elements = [value_bytes(one) for one in value]
    return (
        struct.pack("<I", 9) + elements[0][:4] + struct.pack("<Q", len(value)) + b"".join(one[4:] for one in elements)
    )


def text_bytes(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def gguf_bytes(architecture: str, keys: dict[str, Value], tensors: dict[str, np.ndarray]) -> bytes:
    """A file of version 3. Keys stand behind the architecture's name, but those that begin with a slash."""
    pairs: dict[str, Value] = {"general.architecture": architecture}
    for key, value in keys.items():
        pairs[key[1:] if key.startswith("/") else f"{architecture}.{key}"] = value
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs))
    head += b"".join(text_bytes(key) + value_bytes(value) for key, value in pairs.items())
    data = b""
    for name, numbers in tensors.items():
        head += text_bytes(name) + struct.pack("<IQIQ", 1, len(numbers), 0, len(data))
        data += numbers.astype(np.float32).tobytes()
        data += bytes(-len(data) % 32)
    return head + (bytes(-len(head) % 32) + data if tensors else b"")


@dataclass
class Rotation:
    name: str
    x: np.ndarray  # [tokens, heads, dims]
    y: np.ndarray


@dataclass
class Softmax:
    name: str
    scale: float
    alibi: float
    mask: np.ndarray | None  # [queries, keys]


@dataclass
class Seen:
    rotations: list[Rotation] = field(default_factory=list)
    softmaxes: list[Softmax] = field(default_factory=list)


def array(tensor: Any, kind: type = np.float32) -> np.ndarray:
    """A tensor's numbers; ggml's first axis is the last one here."""
    sizes, strides = [int(n) for n in tensor.ne], [int(n) for n in tensor.nb]
    width = np.dtype(kind).itemsize
    length = sum((n - 1) * step for n, step in zip(sizes, strides, strict=True)) + width
    raw = np.frombuffer(ffi.buffer(tensor.data, length // width * width), kind)
    return np.lib.stride_tricks.as_strided(raw, sizes[::-1], strides[::-1]).copy()


def run(path: Path, positions: range, tensors: dict[str, np.ndarray], context: int = 512) -> Seen:
    """Decodes a sequence at those positions. Of weights that are missing the norms are 1, the rest is drawn."""
    seen, before = Seen(), [np.empty(0)]
    names: dict[int, str] = {}
    rng = np.random.default_rng(0)

    @ffi.callback("void(void*, void*)")
    def fill(address: Any, _: Any) -> None:
        tensor = ffi.cast("struct tensor*", address)
        name, count = ffi.string(tensor.name).decode(), int(np.prod([int(n) for n in tensor.ne]))
        if name in tensors or name.startswith("rope_") or "norm" in name:
            numbers = tensors.get(name, np.ones(count))
        else:
            numbers = rng.standard_normal(count, dtype=np.float32) / 8
        if "ssm_a" in name:
            numbers = -np.abs(numbers)
        stored = numbers.astype(np.float16 if tensor.type == 1 else np.float32).tobytes()
        assert len(numbers) == count, f"{name} has {count} numbers"
        ffi.memmove(tensor.data, stored, len(stored))

    @ffi.callback("bool(void*, bool, void*)")
    def look(address: Any, ask: bool, _: Any) -> bool:
        tensor = ffi.cast("struct tensor*", address)
        operation = names.setdefault(tensor.op, "") or ffi.string(lib.ggml_op_name(tensor.op)).decode()
        names[tensor.op] = operation
        if ask:  # what comes before is computed; a rotation may be written over its input
            if operation == "ROPE":
                before[0] = array(tensor.src[0])[0]
            return True
        name = ffi.string(tensor.name).decode()
        if operation == "ROPE":
            seen.rotations.append(Rotation(name, before[0], array(tensor)[0]))
        elif operation == "SOFT_MAX":
            scale, alibi = np.frombuffer(ffi.buffer(tensor.op_params)[:], np.float32)[:2]
            mask = tensor.src[1]
            kept = None if mask == ffi.NULL else array(mask, np.float16 if mask.type == 1 else np.float32)[0, 0]
            seen.softmaxes.append(Softmax(name, float(scale), float(alibi), kept))
        return True

    said.clear()
    metadata = lib.gguf_init_from_file(bytes(path), ffi.new("struct gguf_params*", {"no_alloc": True})[0])
    assert metadata != ffi.NULL, said
    wanted = lib.llama_model_default_params()
    wanted.n_gpu_layers = 0
    model = lib.llama_model_init_from_user(metadata, fill, ffi.NULL, wanted)
    lib.gguf_free(metadata)
    assert model != ffi.NULL, "".join(said[-3:])
    settings = lib.llama_context_default_params()
    settings.n_ctx, settings.n_batch, settings.n_ubatch = context, 64, 64
    settings.n_threads = settings.n_threads_batch = 1
    settings.flash_attn_type = 0
    settings.cb_eval = look
    decoder = lib.llama_init_from_model(model, settings)
    assert decoder != ffi.NULL, "".join(said[-3:])
    batch = lib.llama_batch_init(len(positions), 0, 1)
    batch.n_tokens = len(positions)
    for i, position in enumerate(positions):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = 3 + i, position, 1, 0, 1
    status = lib.llama_decode(decoder, batch)
    lib.llama_batch_free(batch)
    lib.llama_free(decoder)
    lib.llama_model_free(model)
    assert status == 0, "".join(said[-3:])
    return seen
