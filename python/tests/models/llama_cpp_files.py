"""The smallest metadata with which llama.cpp builds a model of an architecture: what its code asks for, beside positions."""

from __future__ import annotations

import re
from pathlib import Path

from llama_cpp import Value

SOURCE = Path(__file__).parents[3] / "io/gguf_architectures.cc"

LATENT = {"bailingmoe3", "deepseek2", "deepseek32", "dots3note", "glm-dsa", "glm5-next", "hy_v4", "kimi-k3", "kimi-linear", "mistral4"}  # fmt: skip
# Every second layer is without attention.
HYBRID = {"bailingmoe3", "glm5-next", "granitehybrid", "jamba", "kimi-k3", "kimi-linear", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe", "plamo2"}  # fmt: skip
LISTED = {"dflash", "dots3note", "granite_swa", "maple", "mimo2", "spark2_5", "step35"}
EXPERTS = {"afmoe", "arctic", "bailingmoe", "bailingmoe2", "bailingmoe3", "cohere2moe", "dbrx", "deepseek", "deepseek2", "deepseek2-ocr", "deepseek32", "deepseek4", "dots1", "dots3note", "ernie4_5-moe", "exaone-moe", "glm-dsa", "glm4moe", "glm5-next", "gpt-oss", "granitemoe", "grok", "grovemoe", "hunyuan-moe", "hy_v3", "hy_v4", "kimi-k3", "kimi-linear", "laguna", "lfm2moe", "llada-moe", "llama4", "maple", "mellum", "mimo2", "minimax-01", "minimax-m2", "minimax-m3", "mistral4", "nomic-bert-moe", "olmoe", "paddleocr", "phimoe", "qwen2moe", "qwen35moe", "qwen3moe", "qwen3next", "qwen3vlmoe", "qwen4exp", "rnd1", "smallthinker", "step35"}  # fmt: skip
# One layer of each kind and more where a period is in the code.
LAYERS = {"deepseek4": 4, "gemma3n": 22, "gemma4": 5, "hrm_text": 6, "nemotron_h": 3, "nemotron_h_moe": 3} | dict.fromkeys(
    ("afmoe", "cohere2", "cohere2moe", "exaone-moe", "laguna", "llama4", "mellum", "modern-bert", "muse-glimmer", "olmo2", "smollm3"), 4,
) | dict.fromkeys(("gemma-embedding", "gemma3"), 6) | {"plamo3": 8, "smallthinker": 8, "exaone4": 64, "baichuan": 32}  # fmt: skip
HEADS = dict.fromkeys(LATENT | {"gemma3n"}, 1) | {"deepseek4": 8}
WIDTH = {"gemma3n": 64, "deepseek4": 512}
VOCABULARY = {"qwen3tts": 3072, "chameleon": 10240}
SECTIONS = dict.fromkeys(("bailingmoe3", "dflash", "glm4", "glm4moe", "hunyuan_vl", "paddleocr", "qwen2vl"), [8, 12, 12, 0]) | dict.fromkeys(
    ("qwen35", "qwen35moe", "qwen3tts", "qwen3vl", "qwen3vlmoe", "qwen4exp"), [11, 11, 10, 0])  # fmt: skip
# Not built here, with the reason.
LEFT_OUT = {
    "arwkv7": "has no attention",
    "clip": "is refused by bearing",
    "eagle3": "needs the keys of another model",
    "gemma4-assistant": "needs the keys of another model",
    "gptj": "has no code",
    "graniteswitch": "needs adapters",
    "rwkv6qwen2": "has no attention",
    "t5": "must encode before it decodes",
    "wavtokenizer-dec": "has no attention layers with positions",
}


def architectures() -> list[str]:
    """All that bearing knows, from its table's source."""
    return re.findall(r'\n    \{"([^"]+)",\s*Turn::', SOURCE.read_text())


def keys_of(architecture: str) -> dict[str, Value]:
    layers, heads = LAYERS.get(architecture, 2), HEADS.get(architecture, 2)
    width, vocabulary = WIDTH.get(architecture, 128), VOCABULARY.get(architecture, 64)
    head = width // heads
    keys: dict[str, Value] = {
        "vocab_size": vocabulary, "context_length": 1024, "embedding_length": width, "features_length": width,
        "block_count": layers, "feed_forward_length": 64, "attention.head_count": heads, "attention.head_count_kv": heads,
        "attention.layer_norm_epsilon": 1e-5, "attention.layer_norm_rms_epsilon": 1e-5, "attention.group_norm_epsilon": 1e-5,
        "attention.group_norm_groups": 8, "use_parallel_residual": False, "logit_scale": 1.0, "residual_scale": 3.5,
        "leading_dense_block_count": 1, "full_attention_interval": 2, "attention.clamp_kqv": 1.0, "attention.q_lora_rank": 64,
        "attention.kv_lora_rank": 512, "attention.sliding_window": 4,
        "/tokenizer.ggml.model": "test", "/tokenizer.ggml.tokens": [f"token {i}" for i in range(vocabulary)],
        "/tokenizer.ggml.scores": [0.0] * vocabulary, "/tokenizer.ggml.token_type_count": 2,
        "/xielu.alpha_n": 1.0, "/xielu.alpha_p": 1.0, "/xielu.beta": 1.0, "/xielu.eps": 1e-7,
        "ssm.inner_size": 2 * width, "ssm.conv_kernel": 4, "ssm.state_size": 128, "ssm.time_step_rank": heads,
        "ssm.group_count": 0 if architecture == "plamo2" else 2, "kda.head_dim": 128, "kda.safe_gate": True,
        "kda.gate_lower_bound": -5.0, "wkv.head_size": head, "shortconv.l_cache": 3, "time_mix_extra_dim": 64,
        "time_decay_extra_dim": 128, "token_shift_count": 2, "attention.decay_lora_rank": 32, "attention.iclr_lora_rank": 32,
        "attention.value_residual_mix_lora_rank": 32, "attention.gate_lora_rank": 32, "attn_res.block_size": 12,
        "activation.situ_beta": 4.0, "activation.situ_linear_beta": 25.0, "target_layers": [0, 1],
        "attention.indexer.head_count": 64, "attention.indexer.key_length": 128, "attention.indexer.top_k": 1024,
        "attention.indexer.block_size": 4, "attention.indexer.kpool": 4, "attention.indexer.kpool_select_tail": True,
        "attention.indexer.local_blocks": 1,
    }  # fmt: skip
    if architecture in EXPERTS:
        keys |= {
            "expert_feed_forward_length": 64, "expert_shared_feed_forward_length": 32, "moe_latent_size": 64,
            "interleave_moe_layer_step": 2, "expert_count": 2, "expert_used_count": 2, "expert_shared_count": 1,
            "expert_gating_func": 2, "expert_group_scale": 1.0, "experts_per_group": 1,
        }  # fmt: skip
    if architecture in HYBRID:
        attending: Value = [heads * (i % 2 == 0) for i in range(layers)]
        keys["attention.head_count_kv"] = attending
        if architecture != "glm5-next":
            keys["attention.head_count"] = attending
    if architecture in LATENT:
        latent = 512 if architecture == "glm5-next" else 576
        keys |= {"attention.key_length": latent, "attention.value_length": 512, "rope.dimension_count": latent - 512}
        keys |= {"attention.key_length_mla": 192, "attention.value_length_mla": 128}
    if architecture in LISTED:
        keys["attention.sliding_window_pattern"] = [i % 2 == 1 for i in range(layers)]
    if architecture in SECTIONS:
        keys["rope.dimension_sections"] = SECTIONS[architecture]
    return keys | OWN.get(architecture, {})


HYPER: dict[str, Value] = {"hyper_connection.count": 4, "hyper_connection.sinkhorn_iterations": 2, "hyper_connection.epsilon": 1e-6, "hyper_connection.low_rank": 8}  # fmt: skip
SCALED: dict[str, Value] = {"swiglu_clamp_exp": 10.0, "expert_weights_scale": 1.0, "expert_weights_norm": True}
OWN: dict[str, dict[str, Value]] = {
    "deepseek4": HYPER | SCALED | {
        "attention.head_count_kv": 1, "attention.key_length": 64, "attention.value_length": 64, "rope.dimension_count": 32,
        "attention.output_group_count": 8, "attention.output_lora_rank": 32, "attention.compress_ratios": [0, 0, 4, 128],
        "attention.compress_rope_freq_base": 160000.0, "hash_layer_count": 0, "expert_gating_func": 4,
    },
    "dots3note": {
        "attention.kv_lora_rank_swa": 512, "attention.key_length_swa": 576, "attention.value_length_swa": 512,
        "attention.key_length_mla_swa": 192, "attention.value_length_mla_swa": 128, "attention.indexer.types": [1, 0],
    },
    "gemma4": {
        "embedding_length_per_layer_input": 64, "attention.shared_kv_layers": 0, "attention.key_length_swa": 64,
        "attention.value_length_swa": 64, "attention.sliding_window_pattern": [True] * 4 + [False],
    },
    "glm5-next": HYPER | {"attention.compress_ratios": [4, 4]},
    "hrm_text": {"hrm.layers_per_stack": 1, "hrm.h_cycles": 2, "hrm.l_cycles": 2},
    "hy_v4": HYPER | SCALED | {"hyper_connection.magnitude": 2.0, "attention.indexer.types": [1, 0]},
    "jais": {"attention.max_alibi_bias": 8.0},
    "maple": {"swiglu_clamp_exp": 7.0},
    "minicpm3": {"attention.key_length": 96, "attention.value_length": 64, "rope.dimension_count": 32},
    "minimax-m3": {"attention.indexer.head_count": 2},
    "mpt": {"attention.max_alibi_bias": 8.0},
    "nemotron_h": {"feed_forward_length": [0, 0, 64]},
    "nemotron_h_moe": {"feed_forward_length": [0, 0, 64]},
    "plm": {"attention.key_length": 96, "attention.value_length": 64, "rope.dimension_count": 32},
    "qwen35": {"ssm.inner_size": 256},
    "qwen35moe": {"ssm.inner_size": 256},
    "qwen3next": {"ssm.inner_size": 256},
    "qwen4exp": HYPER | {"attention.compress_ratios": [4, 4], "attention.indexer.key_length": 64, "ssm.inner_size": 256},
    "t5encoder": {"attention.relative_buckets_count": 8},
}  # fmt: skip
