"""Attention as our peers compute it, loaded into the benchmark program by attention_peers.cc.

Each peer gets its best settings: denormals flushed, threads set equal, biases and masks ready before the step, what is
compiled compiled for the shape, results bound (ONNX Runtime) or from a heap that stays mapped (PyTorch), ONNX Runtime's
idle threads not spinning.
"""

import functools
import glob
import os

import numpy as np
import onnx
import onnxruntime
import peers
import torch
import torch._inductor.config
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

torch._inductor.config.compile_threads = 1  # no processes beside the one that is measured


def described():
    return f"PyTorch {torch.__version__}, ONNX Runtime {onnxruntime.__version__}"


def openblas_library():
    """NumPy's own copy, newer than a distribution's."""
    folder = os.path.join(os.path.dirname(np.__file__), os.pardir, "numpy.libs")
    return glob.glob(os.path.join(folder, "libscipy_openblas64_*"))[0]


@functools.cache
def _bias(encoding, heads, length, parameters):
    """[1, heads, length, length], or None."""
    if encoding == "none":
        return None
    own = torch.frombuffer(bytearray(parameters), dtype=torch.float32)
    matrix = peers._t5(own.view(-1, heads), length) if encoding == "t5" else peers._alibi(own, length)
    return matrix.unsqueeze(0).contiguous()


class _Case:
    """Queries [batch, heads, q_len, dim], keys and values [batch, kv_heads, k_len, dim], and the result's gradient."""

    def __init__(self, mask, encoding, dtype, batch, heads, kv_heads, q_len, k_len, dim, threads, inputs, parameters):
        self.causal, self.encoding, self.threads = mask == "causal", encoding, threads
        self.heads, self.kv_heads, self.q_len, self.k_len, self.dim = heads, kv_heads, q_len, k_len, dim
        all_inputs = torch.frombuffer(inputs, dtype=peers.TORCH_TYPES[dtype])
        q_size, k_size = batch * heads * q_len * dim, batch * kv_heads * k_len * dim
        q, k, v, d_out = all_inputs.split((q_size, k_size, k_size, q_size))
        self.q, self.d_out = (x.view(batch, heads, q_len, dim) for x in (q, d_out))
        self.k, self.v = (x.view(batch, kv_heads, k_len, dim) for x in (k, v))
        self.parameters = bytes(parameters)

    @property
    def bias(self):
        return _bias(self.encoding, self.heads, self.k_len, self.parameters)


def pytorch_sdpa(case):
    """Biases as a mask. Its fused kernel serves all of these."""
    arguments = {"attn_mask": case.bias, "is_causal": case.causal, "enable_gqa": case.heads != case.kv_heads}

    def step():
        return torch.nn.functional.scaled_dot_product_attention(case.q, case.k, case.v, **arguments)

    return step, lambda out: [out]


def pytorch_sdpa_rows(case):
    """One query of each head: those of the heads that share keys are rows of one head."""
    q = case.q.view(case.q.shape[0], case.kv_heads, -1, case.dim)

    def step():
        return torch.nn.functional.scaled_dot_product_attention(q, case.k, case.v)

    return step, lambda out: [out.view_as(case.q)]


def pytorch_autograd(case):
    """The backward alone, from a forward that is kept."""
    inputs = [x.detach().requires_grad_() for x in (case.q, case.k, case.v)]
    with torch.enable_grad():
        out = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=case.causal)

    def step():
        return torch.autograd.grad(out, inputs, case.d_out, retain_graph=True)

    return step, lambda grads: grads


def pytorch_flex(case):
    """Compiled for the shape; ALiBi as a score_mod, the causal mask as blocks."""
    compiled = torch.compile(flex_attention, dynamic=False)
    arguments = {}
    if case.encoding == "alibi":
        slopes = torch.frombuffer(bytearray(case.parameters), dtype=torch.float32)
        arguments["score_mod"] = lambda score, b, h, i, j: score - slopes[h] * (i - j).abs()
    if case.causal:
        arguments["block_mask"] = create_block_mask(lambda b, h, i, j: i >= j, None, None, case.q_len, case.k_len,
                                                    device="cpu")

    def step():
        return compiled(case.q, case.k, case.v, **arguments)

    return step, lambda out: [out]


def _session(node, inputs, outputs, threads):
    def info(name, kind, shape):
        return onnx.helper.make_tensor_value_info(name, kind, shape)

    graph = onnx.helper.make_graph([node], "attention", [info(*x) for x in inputs], [info(*x) for x in outputs])
    model = onnx.helper.make_model(graph, ir_version=10, opset_imports=[
        onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _bound(session, inputs, outputs):
    """A step on memory of ours, which it keeps."""
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    for name, array in outputs.items():
        binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)

    def step():
        session.run_with_iobinding(binding)

    step.bound = (inputs, outputs)
    return step


def _heads_inside(x):
    """[1, length, heads · dim], as ONNX Runtime wants it."""
    return x.transpose(1, 2).flatten(2).contiguous().numpy()


def _heads_outside(case, array):
    return torch.from_numpy(array).view(1, case.q_len, case.heads, case.dim).transpose(1, 2)


def _onnx_tensors(case):
    arrays = {"q": _heads_inside(case.q), "k": _heads_inside(case.k), "v": _heads_inside(case.v)}
    infos = [(name, onnx.TensorProto.FLOAT, array.shape) for name, array in arrays.items()]
    out = np.empty_like(arrays["q"])
    return arrays, infos, out, ("out", onnx.TensorProto.FLOAT, out.shape)


def onnxruntime_mha(case):
    """com.microsoft.MultiHeadAttention, with attention_bias where there is a bias."""
    arrays, infos, out, out_info = _onnx_tensors(case)
    names = ["q", "k", "v"]
    if case.bias is not None:
        names += ["", "", "bias"]
        arrays["bias"] = case.bias.numpy()
        infos.append(("bias", onnx.TensorProto.FLOAT, arrays["bias"].shape))
    node = onnx.helper.make_node("MultiHeadAttention", names, ["out"], domain="com.microsoft", num_heads=case.heads)
    step = _bound(_session(node, infos, [out_info], case.threads), arrays, {"out": out})
    return step, lambda _: [_heads_outside(case, out)]


def onnxruntime_gqa(case):
    """com.microsoft.GroupQueryAttention without a past: always causal."""
    arrays, infos, out, out_info = _onnx_tensors(case)
    present = {name: np.empty((1, case.kv_heads, case.k_len, case.dim), np.float32) for name in ("keys", "values")}
    for name in ("past_k", "past_v"):
        arrays[name] = np.empty((1, case.kv_heads, 0, case.dim), np.float32)
        infos.append((name, onnx.TensorProto.FLOAT, arrays[name].shape))
    for name, number in (("last", case.k_len - 1), ("total", case.k_len)):
        arrays[name] = np.array([number], np.int32)
        infos.append((name, onnx.TensorProto.INT32, (1,)))
    node = onnx.helper.make_node("GroupQueryAttention", ["q", "k", "v", "past_k", "past_v", "last", "total"],
                                 ["out", *present], domain="com.microsoft", num_heads=case.heads,
                                 kv_num_heads=case.kv_heads)
    outputs = [out_info] + [(name, onnx.TensorProto.FLOAT, array.shape) for name, array in present.items()]
    step = _bound(_session(node, infos, outputs, case.threads), arrays, {"out": out, **present})
    return step, lambda _: [_heads_outside(case, out)]


PEERS = {peer.__name__: peer for peer in
         (pytorch_sdpa, pytorch_sdpa_rows, pytorch_autograd, pytorch_flex, onnxruntime_mha, onnxruntime_gqa)}

# Of the largest element. In float both sides add thousands of products, each rounded once: some tens of units of
# 2^-24. In 16 bits weights and results are rounded too, and a peer may round at other places.
TOLERANCES = {"f32": 2e-5, "f16": 16 * 2.0 ** -11, "bf16": 16 * 2.0 ** -8}


def prepare(peer, mask, encoding, dtype, batch, heads, kv_heads, q_len, k_len, dim, threads, inputs, expected, parameters):
    """The step to time, after its result was compared with ours."""
    torch.set_num_threads(threads)
    case = _Case(mask, encoding, dtype, batch, heads, kv_heads, q_len, k_len, dim, threads, inputs, parameters)
    step, results = PEERS[peer](case)
    results = results(step())
    sizes = [x.numel() for x in results]
    ours = torch.frombuffer(expected, dtype=peers.TORCH_TYPES[dtype]).split(sizes)
    for theirs, own in zip(results, ours):
        largest = own.float().abs().max().item()
        peers._check(peer, [theirs], [own.view_as(theirs)], TOLERANCES[dtype] * largest)
    return step
