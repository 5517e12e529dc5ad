"""DeepSeek-V4's attention, as transformers has it, against one call of attention with what the reader says of its file.

Everything is float64, as the model's code is with its few casts to float32 taken out.
"""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import bearing
import bearing.torch as bt
import numpy as np
import pytest
import torch

model = pytest.importorskip("transformers.models.deepseek_v4.modeling_deepseek_v4")
from transformers.models.deepseek_v4.configuration_deepseek_v4 import DeepseekV4Config  # noqa: E402

TIME, LAYERS = 23, ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"]
SIZES = {
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "head_dim": 32,
    "q_lora_rank": 16,
    "o_groups": 2,
    "o_lora_rank": 8,
    "sliding_window": 6,
    "index_n_heads": 2,
    "index_head_dim": 16,
    "index_topk": 3,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "compress_rope_theta": 40000.0,
    "vocab_size": 32,
    "partial_rotary_factor": 0.25,
    "layer_types": LAYERS,
    "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 8},
}
YARN = {"rope_type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1, "original_max_position_embeddings": 256}


def config_of(**keys):
    return DeepseekV4Config(**SIZES, rope_parameters=dict(YARN), **keys)


def read(config):
    return bearing.read_hf_config(config)


@pytest.fixture
def exact(monkeypatch):
    """The model's casts to float32 become casts to float64; angles are those of the library, to check it alone."""
    said = read(config_of())
    by_label = {"main": said.layers[0].encoding, "compress": said.layers[1].encoding}

    def angles(self, x, position_ids, layer_type=None):
        frequencies = torch.tensor(bearing.resolve(by_label[layer_type]).inv_freq)
        phase = position_ids[..., None].double() * frequencies
        return phase.cos(), phase.sin()

    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    monkeypatch.setattr(model.DeepseekV4RotaryEmbedding, "forward", angles)
    return said


@pytest.fixture
def turned(monkeypatch):
    """What goes into each rotation of the model, and what comes out."""
    calls = []
    own = model.apply_rotary_pos_emb

    def recording(x, cos, sin, unsqueeze_dim=1):
        y = own(x, cos, sin, unsqueeze_dim)
        calls.append((x, y))
        return y

    monkeypatch.setattr(model, "apply_rotary_pos_emb", recording)
    return calls


@pytest.mark.parametrize("flat", [True, False])
def test_the_reader_says_what_the_models_code_computes(flat):
    config = config_of()
    embedding = model.DeepseekV4RotaryEmbedding(config)
    file = config.to_dict()
    if flat:  # as the published files have it
        del file["layer_types"], file["partial_rotary_factor"]
        file |= {"rope_scaling": {"type": "yarn"} | {k: v for k, v in YARN.items() if k != "rope_type"}}
        file |= {"compress_ratios": [0, 4, 128, 0], "qk_rope_head_dim": 8}
        del file["rope_parameters"]
    said = bearing.read_hf_config(file)
    assert [layer.type for layer in said.layers] == LAYERS
    for layer, label in zip(said.layers, ["main", "compress", "compress"], strict=True):
        found = bearing.resolve(layer.encoding)
        np.testing.assert_allclose(found.inv_freq, getattr(embedding, f"{label}_inv_freq"), rtol=1e-6)
        assert found.attention_factor == getattr(embedding, f"{label}_attention_scaling") == 1
        assert (found.head_dim, found.rotary_dim, found.begin, found.pairing) == (32, 8, 24, "interleaved")
        assert layer.values == layer.encoding
    assert "compressed key i stands at 4 i" in said.layers[1].positions
    assert "compressed key i stands at 8 i" in said.layers[2].positions


@pytest.mark.parametrize("layer", range(3))
def test_one_call_is_its_attention_with_its_gradients(layer, exact, turned, monkeypatch):
    torch.manual_seed(layer)
    config = config_of()
    attention = model.DeepseekV4Attention(config, layer).double()
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.normal_(0, 0.3)
    masks = []

    def eager(module, query, key, value, attention_mask, scaling, **rest):
        masks.append((attention_mask, scaling))
        return model.eager_attention_forward(module, query, key, value, attention_mask, scaling, **rest)

    monkeypatch.setattr(type(model.ALL_ATTENTION_FUNCTIONS), "get_interface", lambda *_: eager)
    at = torch.arange(TIME)[None]
    embedding = model.DeepseekV4RotaryEmbedding(config)
    positions = {label: embedding(None, at, label) for label in ("main", "compress")}
    age = at[0][:, None] - at[0][None]
    mask = torch.where((age >= 0) & (age < config.sliding_window), 0.0, -torch.inf).double()[None, None]
    hidden = torch.randn(1, TIME, config.hidden_size, dtype=torch.float64)
    attention(hidden, positions, at, mask)

    (q, _), (kv, _) = turned[:2]
    wanted = turned[-1][1]  # turned back, heads first
    rate = {1: 4, 2: 8}.get(layer)
    keys, k_positions = [kv], at[0]
    if rate is not None:
        keys.append(turned[2][0])
        k_positions = torch.cat([k_positions, rate * torch.arange(keys[1].shape[2])])
    assert keys[-1].shape[2] == {None: TIME, 4: 5, 8: 2}[rate]

    (given, scaling), spec = masks[0], exact.layers[layer]
    both = [bearing.RotaryRows, bearing.RotaryValues]
    specs = [spec.encoding, spec.values]
    encodings = [one(bearing.RopeTable(rope, 64, dtype="float64")) for one, rope in zip(both, specs, strict=True)]
    rows = torch.cat(keys, dim=2)
    got = bt.attention(
        q,
        rows,
        rows,
        encodings,
        mask="none",
        visible=(given == 0).expand(1, config.num_attention_heads, -1, -1),
        scale=scaling,
        sinks=attention.sinks,
        q_positions=at[0],
        k_positions=k_positions,
    )
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-13)

    weight = torch.randn_like(wanted)
    of = [q, *keys, attention.sinks]
    theirs = torch.autograd.grad(wanted, of, weight, retain_graph=True)
    ours = torch.autograd.grad(got, of, weight)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
