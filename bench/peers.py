"""What our peers run, loaded into the benchmark program by peers.cc.

Each peer gets its best settings that keep its meaning: cos and sin ready in its own form and type, outputs bound or
pooled, the number of threads set equal, ONNX Runtime's idle threads not spinning. Nothing is prepared inside a step.
"""

import functools
import math

import numpy as np
import onnx
import onnxruntime
import torch

HEADS, HEAD_DIM = 32, 128
PAIRS = HEAD_DIM // 2
TORCH_TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
# Significant bits of each type. With |x| < 2, a peer rounds cos, sin, two products and a sum, each to at most
# 2^-bits of at most 4, and we round once: together less than 16 units.
BITS = {"f32": 24, "f16": 11, "bf16": 8}

torch.set_grad_enabled(False)
_checked = set()


def _tensor(memory, dtype, *shape):
    return torch.frombuffer(memory, dtype=TORCH_TYPES[dtype]).view(*shape)


def _rotate_half(x):
    first, second = x[..., :PAIRS], x[..., PAIRS:]
    return torch.cat((-second, first), dim=-1)


def _rotated(x, cos, sin):
    return (x * cos) + (_rotate_half(x) * sin)


_rotated_compiled = torch.compile(_rotated, dynamic=False)


def pytorch_rotate_half(case, rotated=_rotated):
    """Hugging Face's form: x·cos + rotate_half(x)·sin, on [batch, heads, time, dim] views of the same memory."""
    x = case.x.transpose(1, 2)
    cos = torch.cat((case.cos, case.cos), dim=-1).to(x.dtype).unsqueeze(1)
    sin = torch.cat((case.sin, case.sin), dim=-1).to(x.dtype).unsqueeze(1)

    def step():
        return rotated(x, cos, sin)

    return step, lambda out: out.transpose(1, 2)


def pytorch_complex(case):
    """Meta's form: pairs as complex numbers times cos + i sin."""
    turns = torch.complex(case.cos, case.sin).unsqueeze(2)

    def step():
        pairs = torch.view_as_complex(case.x.reshape(*case.x.shape[:-1], PAIRS, 2))
        return torch.view_as_real(pairs * turns).flatten(3)

    return step, lambda out: out


def pytorch_complex_in_place(case):
    turns = torch.complex(case.cos, case.sin).unsqueeze(2)
    pairs = torch.view_as_complex(case.x.view(*case.x.shape[:-1], PAIRS, 2))

    def step():
        pairs.mul_(turns)

    return step, lambda _: case.x


@functools.cache
def _session(dtype, interleaved, threads):
    """One RotaryEmbedding node, made once per kind of case."""
    element = {"f32": onnx.TensorProto.FLOAT, "f16": onnx.TensorProto.FLOAT16}[dtype]

    def info(name, kind, *shape):
        return onnx.helper.make_tensor_value_info(name, kind, shape)

    node = onnx.helper.make_node("RotaryEmbedding", ["x", "at", "cos", "sin"], ["y"], domain="com.microsoft",
                                 interleaved=interleaved, num_heads=HEADS)
    graph = onnx.helper.make_graph(
        [node], "rotary",
        [info("x", element, "b", "t", HEADS * HEAD_DIM), info("at", onnx.TensorProto.INT64, "b", "t"),
         info("cos", element, "n", PAIRS), info("sin", element, "n", PAIRS)],
        [info("y", element, "b", "t", HEADS * HEAD_DIM)])
    model = onnx.helper.make_model(graph, ir_version=10, opset_imports=[
        onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def onnxruntime_rotary(case):
    """com.microsoft.RotaryEmbedding, inputs and output bound to our memory; it cannot work in place."""
    session = _session(case.dtype, int(case.pairing == "interleaved"), case.threads)
    binding = session.io_binding()
    element = {"f32": np.float32, "f16": np.float16}[case.dtype]
    shape = [case.batch, case.time, HEADS * HEAD_DIM]
    cos, sin = (table.to(case.x.dtype).contiguous() for table in (case.full_cos, case.full_sin))
    binding.bind_input("x", "cpu", 0, element, shape, case.x.data_ptr())
    binding.bind_input("at", "cpu", 0, np.int64, [case.batch, case.time], case.at.data_ptr())
    binding.bind_input("cos", "cpu", 0, element, list(cos.shape), cos.data_ptr())
    binding.bind_input("sin", "cpu", 0, element, list(sin.shape), sin.data_ptr())
    binding.bind_output("y", "cpu", 0, element, shape, case.y.data_ptr())

    def step():
        session.run_with_iobinding(binding)

    step.bound = (case, cos, sin)  # a binding knows addresses only
    return step, lambda _: case.y


PEERS = {
    "pytorch_rotate_half": pytorch_rotate_half,
    "pytorch_rotate_half_compiled": functools.partial(pytorch_rotate_half, rotated=_rotated_compiled),
    "pytorch_complex": pytorch_complex,
    "pytorch_complex_in_place": pytorch_complex_in_place,
    "onnxruntime": onnxruntime_rotary,
}


class _Case:
    """The tensors of one case, [batch, time, heads, dim], and its rows of cos and sin, [batch, time, pairs]."""

    def __init__(self, dtype, pairing, batch, time, threads, source, destination, cos, sin, positions):
        self.dtype, self.pairing, self.batch, self.time, self.threads = dtype, pairing, batch, time, threads
        self.x = _tensor(source, dtype, batch, time, HEADS, HEAD_DIM)
        self.y = _tensor(destination, dtype, batch, time, HEADS, HEAD_DIM)
        self.full_cos, self.full_sin = (_tensor(table, "f32", -1, PAIRS) for table in (cos, sin))
        self.at = torch.frombuffer(positions, dtype=torch.int64).view(batch, time).clone()
        self.cos, self.sin = self.full_cos[self.at], self.full_sin[self.at]


def _check(name, out, expected, tolerance):
    error = max((o.float() - e.float()).abs().max().item() for o, e in zip(out, expected))
    if not error <= tolerance:
        raise RuntimeError(f"{name} computes something else: it is off by {error:.3g}, tolerance {tolerance:.3g}")


def prepare_rotation(name, dtype, pairing, batch, time, threads, source, destination, expected, cos, sin, positions):
    """The step to time, on memory that is another one each time. The first time, its result is compared with ours."""
    torch.set_num_threads(threads)
    case = _Case(dtype, pairing, batch, time, threads, source, destination, cos, sin, positions)
    step, result = PEERS[name](case)
    key = (name, dtype, pairing, batch, time, threads)
    if key not in _checked:
        ours = _tensor(expected, dtype, batch, time, HEADS, HEAD_DIM)
        _check(name, [result(step())], [ours], 16 * 2.0 ** -BITS[dtype])
        _checked.add(key)
    return step


def prepare_table(base, length, threads, cos, sin):
    """float32 positions times float32 frequencies, then cos and sin: how Hugging Face models make their table."""
    torch.set_num_threads(threads)
    positions = torch.arange(length, dtype=torch.float32)
    inv_freq = 1.0 / base ** (torch.arange(0, HEAD_DIM, 2, dtype=torch.float32) / HEAD_DIM)

    def step():
        angles = torch.outer(positions, inv_freq)
        return angles.cos(), angles.sin()

    if ("table", threads) not in _checked:
        # A float32 angle near 131,072 is off by up to three roundings of 2^-24 · 131,072 = 0.008.
        _check("table", step(), [_tensor(table, "f32", length, PAIRS) for table in (cos, sin)], 0.024)
        _checked.add(("table", threads))
    return step


def _alibi(slopes, length):
    """BLOOM's and MPT's usual form, for all pairs: slopes times distances."""
    at = torch.arange(length)
    return -slopes[:, None, None] * (at[None, :] - at[:, None]).abs()


def _t5(table, length, max_distance=128):
    """Buckets of all pairs by a logarithm, and an embedding; heads come first in the strides of the result alone."""
    at = torch.arange(length)
    distance = at[None, :] - at[:, None]
    buckets = table.shape[0] // 2
    exact = buckets // 2
    x = distance.abs()
    far = exact + (torch.log(x.float() / exact) / math.log(max_distance / exact) * (buckets - exact)).long()
    bucket = (distance > 0).long() * buckets + torch.where(x < exact, x, far.clamp(max=buckets - 1))
    return torch.nn.functional.embedding(bucket, table).permute(2, 0, 1)


def prepare_bias(encoding, heads, length, threads, parameters, expected):
    torch.set_num_threads(threads)
    own = torch.frombuffer(parameters, dtype=torch.float32).clone()
    form, own = (_t5, own.view(-1, heads)) if encoding == "t5" else (_alibi, own)
    step = functools.partial(form, own, length)
    if ("bias", encoding, threads) not in _checked:
        # A slope times a distance, rounded once, below 2,048; T5 copies numbers.
        _check(encoding, [step()], [_tensor(expected, "f32", heads, length, length)], 2.0 ** -13)
        _checked.add(("bias", encoding, threads))
    return step
