"""Forms that came with newer models: what bearing reads of a tiny random model's config turns as its own code does."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import bearing
import numpy as np
import pytest
import torch
import transformers
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

transformers.logging.set_verbosity_error()

# Cosines and logarithms of these models are float32: angles up to 30 lose 2^-20 of a turn.
NEAR = {"rtol": 2**-17, "atol": 2**-17}


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Queries and keys that attention gets, layer by layer."""
    calls: list[tuple[torch.Tensor, torch.Tensor]] = []

    def recording(module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any, **__: Any) -> Any:
        calls.append((query.detach(), key.detach()))
        heads = query.shape[1] // value.shape[1]
        return value.repeat_interleave(heads, dim=1)[:, :, : query.shape[2]].transpose(1, 2).contiguous(), None

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, "eager", recording)
    return calls


def random_model(made: type, config: Any) -> Any:
    torch.manual_seed(0)
    model = made._from_config(config, attn_implementation="eager").double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn_like(parameter))
    return model


def run(model: Any, tokens: int = 24) -> None:
    with torch.no_grad():
        model(input_ids=torch.arange(tokens)[None] % 20 + 3, use_cache=False)


def inputs_of(layers: Any, what: str) -> list[dict[str, Any]]:
    """What each layer's attention is called with, filled when the model runs."""
    kept: list[dict[str, Any]] = []
    for layer in layers:
        getattr(layer, what).register_forward_pre_hook(
            lambda module, args, kwargs: kept.append({"hidden": args[0] if args else kwargs["hidden_states"]}),
            with_kwargs=True,
        )
    return kept


def turned(layer: Any, x: torch.Tensor, query: bool) -> np.ndarray:
    """x [batch, heads, time, dim] as the layer's encodings leave it."""
    y = x.detach().numpy().copy()
    if layer.name == "rope":
        y = bearing.rotate_to(bearing.RopeTable(layer.encoding, y.shape[2], dtype="float64"), y)
    if query and layer.temperature is not None and layer.temperature.form != "learned":
        y = bearing.turn(bearing.TemperatureRows(layer.temperature), y, side="query")
    return y


def test_beam(seen: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    config = transformers.BeamConfig(
        vocab_size=32, hidden_size=32, intermediate_size=32, moe_intermediate_size=8, num_hidden_layers=7,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, sliding_window=8, num_experts=4, n_group=1,
        topk_group=1, num_experts_per_tok=2, mlp_layer_types=["dense"] * 7,
    )  # fmt: skip
    model = random_model(transformers.BeamModel, config)
    kept = inputs_of(model.layers, "self_attn")
    run(model)
    read = bearing.read_hf_config(config)
    assert [layer.name for layer in read.layers] == ["rope"] * 5 + ["none"] * 2
    for layer, own, at, (query, key) in zip(read.layers, model.layers, kept, seen, strict=True):
        own = own.self_attn
        shape = (*at["hidden"].shape[:-1], -1, 8)
        q = own.q_norm(own.q_proj(at["hidden"]).view(shape)).transpose(1, 2)
        k = own.k_norm(own.k_proj(at["hidden"]).view(shape)).transpose(1, 2)
        np.testing.assert_allclose(turned(layer, q, True), query.numpy(), **NEAR)
        np.testing.assert_allclose(turned(layer, k, False), key.numpy(), **NEAR)
        # Both matter: without the rotation, or without the factor, the queries are others.
        assert np.abs(q.detach().numpy() - query.numpy()).max() > 2**-12


def test_mistral_large_4(seen: list[tuple[torch.Tensor, torch.Tensor]], tmp_path: Any) -> None:
    """With the learned factors and scales from its weights: scores, as its rotation reorders what it turns."""
    config = transformers.MistralLarge4TextConfig(
        vocab_size=32, hidden_size=32, intermediate_size=32, moe_intermediate_size=8, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=4, kv_lora_rank=8, qk_rope_head_dim=8, qk_nope_head_dim=8,
        v_head_dim=16, n_routed_experts=4, num_experts_per_tok=2, index_topk=4, index_head_dim=16, index_n_heads=2,
        max_position_embeddings=2048, first_k_dense_replace=4,
    )  # fmt: skip
    model = random_model(transformers.MistralLarge4TextModel, config)
    with torch.no_grad():
        model.rotary_emb.alpha.copy_(0.3 * torch.randn(4))
    model.save_pretrained(tmp_path)
    kept = inputs_of(model.layers, "self_attn")
    run(model)
    loaded = bearing.load(tmp_path)
    assert [layer.name for layer in loaded.model.layers] == ["rope"] * 3 + ["none"]
    for encodings, own, at, (query, key) in zip(loaded.layers, model.layers, kept, seen, strict=True):
        own, hidden = own.self_attn, at["hidden"]
        q = own.q_proj(hidden).view(1, -1, 4, 16).transpose(1, 2)
        latent, rope = torch.split(own.kv_a_proj_with_mqa(hidden), [8, own.qk_rope_head_dim], dim=-1)
        k, _ = own.expand_kv(own.kv_a_layernorm(latent)[:, None], rope[:, None])
        q, k = (x.detach().numpy().astype(np.float32) for x in (q, k))  # as loaded tables are
        for encoding in encodings:
            q, k = bearing.turn(encoding, q, side="query"), bearing.turn(encoding, k, side="key")
        want = (query @ key.transpose(-1, -2)).numpy()
        np.testing.assert_allclose(q @ k.swapaxes(-1, -2), want, rtol=0, atol=2**-16 * np.abs(want).max())
    # A file without the learned numbers is refused by their names.
    tensors = dict(bearing.read_safetensors(tmp_path))
    for name, ends in (("alpha", ("alpha",)), ("scal", ("softmax_scaling.scale", "ssmax_scaling.s"))):
        fewer = {key: value for key, value in tensors.items() if not key.endswith(ends)}
        assert len(fewer) < len(tensors), sorted(tensors)
        bearing.write_safetensors(tmp_path / "model.safetensors", fewer)
        with pytest.raises(bearing.ConfigError, match=name):
            bearing.load(tmp_path)


def test_nanochat(seen: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    config = transformers.NanoChatConfig(
        vocab_size=32, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2,
    )  # fmt: skip
    model = random_model(transformers.NanoChatModel, config)
    kept = inputs_of(model.layers, "self_attn")
    run(model)
    layer = bearing.read_hf_config(config).layers[0]
    own, shape = model.layers[0].self_attn, (1, 24, -1, 8)
    # Its norm has no weight and comes after the rotation: it keeps the direction.
    q = own.q_proj(kept[0]["hidden"]).view(shape).transpose(1, 2)
    np.testing.assert_allclose(own.q_norm(torch.from_numpy(turned(layer, q, True))).numpy(), seen[0][0].numpy(), **NEAR)
    forward = layer.encoding.replace(scaling=bearing.NoScaling())
    table = bearing.RopeTable(forward, 24, dtype="float64")
    assert np.abs(bearing.rotate_to(table, q.detach().numpy()) - turned(layer, q, True)).max() > 0.1
