"""Writes valid/*.gguf with the format's own package (gguf). Run from here: python make.py"""

from pathlib import Path

import gguf
import numpy as np


def sized(name, architecture, layers=4, heads=8, kv=2, width=512, context=4096):
    writer = gguf.GGUFWriter(Path(__file__).parent / "valid" / f"{name}.gguf", architecture)
    writer.add_block_count(layers)
    writer.add_context_length(context)
    writer.add_embedding_length(width)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv)
    return writer


def close(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def llama3_factors(pairs, base=500000.0, factor=8.0, low=1.0, high=4.0, trained=8192):
    theta = base ** -(np.arange(pairs) / pairs)
    wavelength = 2 * np.pi / theta
    smooth = (trained / wavelength - low) / (high - low)
    between = 1 / ((1 - smooth) / factor + smooth)
    out = np.where(wavelength < trained / high, 1.0, np.where(wavelength > trained / low, factor, between))
    return out.astype(np.float32)


def text_models():
    w = sized("llama", "llama")
    w.add_rope_freq_base(10000.0)
    w.add_rope_dimension_count(64)
    w.add_tokenizer_model("llama")
    w.add_token_list([f"token {i}" for i in range(300)])
    w.add_array("test.nested", [[1, 2], [3]])
    yield w
    w = sized("llama3", "llama", width=512, context=131072)
    w.add_rope_freq_base(500000.0)
    w.add_tensor("rope_freqs.weight", llama3_factors(32))
    w.add_tensor("token_embd.weight", np.zeros((4, 512), dtype=np.float16))
    yield w
    w = sized("aligned", "qwen2")
    w.add_custom_alignment(256)
    w.add_rope_freq_base(1000000.0)
    w.add_tensor("a.weight", np.ones((2, 3), dtype=np.float32))
    w.add_tensor("b.weight", np.ones(5, dtype=np.float32))
    yield w
    w = sized("qwen2_yarn", "qwen2", context=131072)
    w.add_rope_freq_base(1000000.0)
    w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    w.add_rope_scaling_factor(4.0)
    w.add_rope_scaling_orig_ctx_len(32768)
    yield w
    w = sized("linear", "stablelm")
    w.add_rope_dimension_count(16)
    w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    w.add_rope_scaling_factor(2.0)
    w.add_rope_freq_base(10000.0)
    yield w
    w = sized("phi3", "phi3", context=131072)
    w.add_rope_freq_base(10000.0)
    w.add_rope_scaling_orig_ctx_len(4096)
    w.add_rope_scaling_attn_factors(1.19)
    w.add_tensor("rope_factors_long.weight", np.full(32, 4, dtype=np.float32))
    w.add_tensor("rope_factors_short.weight", np.full(32, 1, dtype=np.float32))
    yield w
    w = sized("granite_off", "granite")
    w.add_rope_scaling_finetuned(False)
    yield w
    w = sized("command_r", "command-r", context=131072)
    w.add_rope_freq_base(8000000.0)
    w.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    yield w


def sliding_models():
    w = sized("gemma3", "gemma3", layers=12)
    w.add_rope_freq_base(1000000.0)
    w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    w.add_rope_scaling_factor(8.0)
    w.add_sliding_window(1024)
    yield w
    w = sized("gemma4", "gemma4", layers=6)
    w.add_key_length(512)
    w.add_uint32("gemma4.attention.key_length_swa", 256)
    w.add_rope_dimension_count(512)
    w.add_uint32("gemma4.rope.dimension_count_swa", 256)
    w.add_rope_freq_base(1000000.0)
    w.add_float32("gemma4.rope.freq_base_swa", 10000.0)
    w.add_sliding_window(512)
    w.add_array("gemma4.attention.sliding_window_pattern", [True] * 5 + [False])
    w.add_tensor("rope_freqs.weight", np.array([1.0] * 64 + [1e30] * 192, dtype=np.float32))
    yield w
    w = sized("gpt_oss", "gpt-oss", context=131072)
    w.add_rope_freq_base(150000.0)
    w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    w.add_rope_scaling_factor(32.0)
    w.add_rope_scaling_orig_ctx_len(4096)
    w.add_sliding_window(128)
    yield w
    w = sized("cohere2", "cohere2", layers=8)
    w.add_rope_freq_base(50000.0)
    w.add_sliding_window(4096)
    yield w
    w = sized("llama4", "llama4", layers=8)
    w.add_rope_freq_base(500000.0)
    yield w


def other_models():
    w = sized("deepseek2", "deepseek2", kv=1, context=163840)
    w.add_key_length(576)
    w.add_key_length_mla(192)
    w.add_rope_dimension_count(64)
    w.add_rope_freq_base(10000.0)
    w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    w.add_rope_scaling_factor(40.0)
    w.add_rope_scaling_orig_ctx_len(4096)
    w.add_rope_scaling_yarn_log_mul(0.1)
    yield w
    w = sized("qwen2vl", "qwen2vl")
    w.add_rope_dimension_sections([8, 12, 12, 0])
    w.add_rope_freq_base(1000000.0)
    yield w
    w = sized("qwen3vl", "qwen3vl")
    w.add_rope_dimension_sections([11, 11, 10, 0])
    w.add_rope_freq_base(5000000.0)
    yield w
    w = sized("bloom", "bloom", kv=8)
    yield w
    w = sized("mpt", "mpt", kv=8)
    w.add_max_alibi_bias(8.0)
    yield w
    w = sized("t5", "t5", layers=2, kv=8)
    w.add_relative_attn_buckets_count(32)
    w.add_decoder_block_count(3)
    yield w
    w = sized("bert", "bert", kv=8, width=8, heads=2, context=16)
    w.add_tensor("position_embd.weight", np.zeros((16, 8), dtype=np.float32))
    yield w
    w = sized("hybrid", "granitehybrid")
    w.kv_data[0].pop("granitehybrid.attention.head_count_kv")
    w.add_head_count_kv([0, 0, 4, 0])
    yield w
    w = sized("mamba", "mamba", heads=0, kv=0)
    yield w


for models in (text_models, sliding_models, other_models):
    for model in models():
        close(model)
