"""Tables that a model's code looks up in another order, several of one layer, and numbers that a call gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bearing
import numpy as np
import pytest
import torch
import transformers as tf
from loading import SMALL, change, equal, rows_of, save, write

INKLING = dict(
    vocab_size=32, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=6,
    swa_num_attention_heads=4, swa_num_key_value_heads=2, swa_head_dim=6, sliding_window_size=4, rel_extent=7, d_rel=5,
    log_scaling_n_floor=3, log_scaling_alpha=0.7, moe_intermediate_size=8, n_routed_experts=2, num_experts_per_tok=1,
    layer_types=["hybrid_sliding", "hybrid"], max_position_embeddings=64,
)  # fmt: skip


def temperature(config: Any, count: int) -> torch.Tensor:
    return 1 + config.log_scaling_alpha * torch.log(
        ((torch.arange(count) + 1).float() / config.log_scaling_n_floor).clamp(min=1)
    )


@pytest.mark.parametrize(("second", "original_names"), [(False, True), (True, True), (True, False)])
def test_inklings_profiles_wait_for_what_a_call_mixes(tmp_path: Path, second: bool, original_names: bool) -> None:
    if second:
        config = tf.Inkling2TextConfig(**INKLING, rel_l2_clip_threshold=1.5, unpadded_vocab_size=32)
        model = save(tmp_path, tf.Inkling2ForCausalLM, config)
        model.save_pretrained(tmp_path, save_original_format=original_names)
    else:
        config = tf.InklingTextConfig(**INKLING, intermediate_size=8, mlp_layer_types=["dense", "dense"])
        model = save(tmp_path, tf.InklingForCausalLM, config)
    loaded = bearing.load(tmp_path)
    assert not loaded.missing
    torch.manual_seed(3)
    for index, layer in enumerate(model.model.layers):
        term = loaded.layers[index][0]
        assert isinstance(term, bearing.PerCall) and term.wanted == ("r",)
        assert [type(one).__name__ for one in loaded.layers[index][1:]] == ["TemperatureRows"] * index
        r = torch.randn(1, 13, 4, 5)
        at = torch.arange(13)
        with torch.no_grad():
            if second:
                own = layer.self_attn.relative_position_bias
                own.linear = torch.nn.Identity()
                theirs = own(r.flatten(-2), at[:, None] - at, at[None])
            else:
                theirs = layer.self_attn.rel_logits_proj(r, at, at)
                if index == 1:
                    theirs = theirs * temperature(config, 13)[:, None]
        scores = np.zeros((1, 4, 13, 13), np.float32)
        bearing.add_scores(term(r=r.transpose(1, 2).numpy()), scores)
        # Five products of numbers to 2^4, in float32.
        np.testing.assert_allclose(scores, theirs.numpy(), rtol=0, atol=2**-16)


def test_a_call_that_lacks_its_numbers_is_told_which(tmp_path: Path) -> None:
    save(
        tmp_path,
        tf.InklingForCausalLM,
        tf.InklingTextConfig(**INKLING, intermediate_size=8, mlp_layer_types=["dense", "dense"]),
    )
    term = bearing.load(tmp_path).layers[0][0]
    with pytest.raises(TypeError, match=r"\[RelativeLogitsTerm\] must be called with r, by name, got none"):
        term()
    q = np.zeros((1, 4, 3, 6), np.float32)
    with pytest.raises(TypeError, match="PerCall"):
        bearing.attention(q, q, q, [term], mask="causal")
    change(tmp_path, rel_extent=8)
    with pytest.raises(bearing.ConfigError, match=r"\[1, 8, 5\] \(heads, extent, rank\) .* transposed, got \[5, 7\]"):
        bearing.load(tmp_path)


def transformer_xl_scores(q: Any, k: Any, w_r: Any, u: Any, v: Any, clamp_len: int) -> np.ndarray:
    """RelPartialLearnableMultiHeadAttn of transformers 4 (modeling_transfo_xl.py), restated: scores of causal pairs."""
    heads, time, dim = q.shape
    distance = np.clip(np.arange(time)[:, None] - np.arange(time), 0, clamp_len or None).astype(float)
    width = w_r.shape[1]
    angle = distance[..., None] * 10_000.0 ** -(np.arange(0, width, 2) / width)
    r = np.concatenate([np.sin(angle), np.cos(angle)], -1) @ w_r.T.astype(float)
    content = np.einsum("hid,hjd->hij", q + u[:, None], k)
    position = np.einsum("hid,ijhd->hij", q + v[:, None], r.reshape(time, time, heads, dim))
    return (content + position) / np.sqrt(dim)


@pytest.mark.parametrize(("shared", "clamp_len"), [(False, 9), (True, -1)])
def test_transformer_xl_is_ready_for_attention(tmp_path: Path, shared: bool, clamp_len: int) -> None:
    rng = np.random.default_rng(4)
    heads, dim, width, time = 2, 6, 8, 17
    config = {"model_type": "transfo-xl", "n_head": heads, "d_head": dim, "d_model": width, "n_layer": 2,
              "clamp_len": clamp_len, "untie_r": not shared}  # fmt: skip
    tensors: dict[str, np.ndarray] = {}
    for layer in range(2):
        at = f"transformer.layers.{layer}.dec_attn."
        tensors[at + "r_net.weight"] = rng.normal(size=(heads * dim, width)).astype(np.float32)
        for name in ("r_w_bias", "r_r_bias"):
            of = "transformer." if shared else at
            tensors[of + name] = rng.normal(size=(heads, dim)).astype(np.float32)
    write(tmp_path, config, tensors)
    if shared:  # no clamp_len: the rows depend on the length
        assert "r is computed for the distances of a call: load() needs a length" in bearing.load(tmp_path).missing[0]
    loaded = bearing.load(tmp_path, length=time)
    assert not loaded.missing
    q, k = (rng.normal(size=(heads, time, dim)).astype(np.float32) for _ in range(2))
    causal = np.tri(time, dtype=bool)
    for layer, (term,) in enumerate(loaded.layers):
        at = f"transformer.layers.{layer}.dec_attn."
        of = "transformer." if shared else at
        u, v = (tensors[of + name] for name in ("r_w_bias", "r_r_bias"))
        theirs = transformer_xl_scores(q, k, tensors[at + "r_net.weight"], u, v, max(clamp_len, 0))
        scores = np.einsum("hid,hjd->hij", q, k)[None] / np.float32(np.sqrt(dim))
        bearing.add_scores(term, scores, q=q[None], k=k[None], scale=1 / np.sqrt(dim))
        # Sums of some 40 products to 2^5, in float32.
        np.testing.assert_allclose(scores[0][:, causal], theirs[:, causal], rtol=0, atol=2**-14)


def test_rows_are_computed_up_to_a_bound(tmp_path: Path) -> None:
    config = {"model_type": "transfo-xl", "n_head": 2, "d_head": 4, "d_model": 8, "n_layer": 1, "clamp_len": 50_000_000}
    at = "transformer.layers.0.dec_attn."
    tensors = {at + "r_net.weight": np.ones((8, 8), np.float32)}
    tensors |= {at + name: np.ones((2, 4), np.float32) for name in ("r_w_bias", "r_r_bias")}
    write(tmp_path, config, tensors)
    with pytest.raises(
        bearing.ConfigError, match="/clamp_len: must be at most 16384 for rows to be computed, got 50000000"
    ):
        bearing.load(tmp_path)


def boxes(rng: np.random.Generator, count: int, unit: float) -> np.ndarray:
    """Left, upper, right and lower edges, in steps that float32 holds."""
    corners = np.sort(rng.integers(0, 64, size=(count, 2, 2)), axis=1).reshape(count, 4)
    return (corners * unit).astype(np.float32)


UDOP = dict(
    vocab_size=32, d_model=16, d_kv=4, d_ff=16, num_layers=2, num_heads=4, image_size=32, patch_size=16,
    max_2d_position_embeddings=64,
)  # fmt: skip


def test_udop_adds_three_biases_and_the_tables_of_boxes(tmp_path: Path, rng: np.random.Generator) -> None:
    model = save(tmp_path, tf.UdopForConditionalGeneration, tf.UdopConfig(**UDOP))
    loaded = bearing.load(tmp_path)
    assert not loaded.missing
    box = boxes(rng, 40, 1 / 64)
    with torch.no_grad():
        theirs = model.encoder.relative_bias(torch.ones(1, 40, dtype=torch.long), torch.from_numpy(box)[None])[0]
        edges = model.encoder.cell_2d_embedding(torch.from_numpy(box)[None])[0]
    at = np.stack([np.arange(40), box[:, [0, 2]].mean(-1), box[:, [1, 3]].mean(-1)])[:, None]
    for layer in loaded.layers[:2]:
        assert len(layer) == 3
        # Three numbers to 4, whose sum is rounded twice.
        np.testing.assert_allclose(bearing.bias_matrix(layer, at, at, heads=4), theirs, rtol=0, atol=2**-20)
    (decoder,) = loaded.layers[2]
    own = model.decoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight
    equal(decoder.parameters["table"], own)
    rows = [np.asarray(bearing.inputs(loaded.inputs[i], (box[:, i] * 63).astype(int))) for i in range(4)]
    np.testing.assert_allclose(sum(rows), edges, rtol=0, atol=2**-20)
    change(tmp_path, relative_bias_args=[{"type": "1d"}, {"type": "vertical"}, {"type": "horizontal"}])
    with pytest.raises(bearing.ConfigError, match='/relative_bias_args/1/type: must be horizontal, got "vertical"'):
        bearing.load(tmp_path)


@pytest.mark.parametrize("name", ["LayoutLMv2", "LayoutLMv3"])
def test_layoutlm_adds_three_biases(tmp_path: Path, rng: np.random.Generator, name: str) -> None:
    from transformers.models.layoutlmv2.modeling_layoutlmv2 import LayoutLMv2Encoder
    from transformers.models.layoutlmv3.modeling_layoutlmv3 import LayoutLMv3Encoder

    options = {**SMALL, "has_relative_attention_bias": True, "has_spatial_attention_bias": True}
    config = getattr(tf, name + "Config")(**options)
    encoder = {"LayoutLMv2": LayoutLMv2Encoder, "LayoutLMv3": LayoutLMv3Encoder}[name](config)
    encoder.requires_grad_(False)
    weights = {
        f"{name.lower()}.encoder.{tensor}": torch.nn.init.normal_(value).numpy()
        for tensor, value in encoder.named_parameters()
        if tensor.startswith("rel_pos")
    }
    texts = rng.normal(size=(config.max_position_embeddings, 16)).astype(np.float32)
    weights[f"{name.lower()}.embeddings.position_embeddings.weight"] = texts
    edges = rng.normal(size=(4, config.max_2d_position_embeddings, 128)).astype(np.float32)
    for letter, edge in zip("xyhw", edges, strict=True):
        weights[f"{name.lower()}.embeddings.{letter}_position_embeddings.weight"] = edge
    if name == "LayoutLMv3":
        weights["layoutlmv3.pos_embed"] = rng.normal(size=(1, 197, 16)).astype(np.float32)
    write(tmp_path, config.to_dict(), weights)
    box = torch.from_numpy(boxes(rng, 24, 8)).long()
    index = torch.arange(24)
    if name == "LayoutLMv2":
        theirs = encoder._calculate_1d_position_embeddings(index[None]) + encoder._calculate_2d_position_embeddings(
            box[None]
        )
    else:
        theirs = (encoder._cal_1d_pos_emb(index[None]) + encoder._cal_2d_pos_emb(box[None])) / 2  # √head_dim
    at = np.stack([index, box[:, 0], box[:, 3]]).astype(float)[:, None]
    loaded = bearing.load(tmp_path)
    assert not loaded.missing
    np.testing.assert_array_equal([table.parameters["table"] for table in loaded.inputs[-4:]], edges)
    for layer in loaded.layers:
        np.testing.assert_allclose(bearing.bias_matrix(layer, at, at, heads=4), theirs[0], rtol=0, atol=2**-20)


def key_scores(term: Any, q: torch.Tensor) -> np.ndarray:
    """What a term adds to scores of queries, with keys of 0."""
    scores = np.zeros((*q.shape[:3], q.shape[2]), np.float32)
    bearing.add_scores(term, scores, q=q.numpy(), k=np.zeros_like(q.numpy()), scale=1)
    return scores


def test_speecht5_has_vectors_for_distances(tmp_path: Path) -> None:
    config = tf.SpeechT5Config(
        vocab_size=32, hidden_size=16, encoder_layers=2, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=8, decoder_ffn_dim=8, encoder_max_relative_position=5,
        speech_decoder_prenet_units=8, speech_decoder_postnet_units=8, speaker_embedding_dim=4,
    )  # fmt: skip
    model = save(tmp_path, tf.SpeechT5ForTextToSpeech, config)
    loaded = bearing.load(tmp_path)
    assert loaded.layers[2] == [] and all("sinusoidal is known by its name" in text for text in loaded.missing)
    own = model.speecht5.encoder.wrapped_encoder.embed_positions
    q = torch.randn(1, 4, 14, 4)
    with torch.no_grad():
        theirs = torch.einsum("bhid,ijd->bhij", q, own(torch.zeros(1, 14, 1)))
    for (term,) in loaded.layers[:2]:
        np.testing.assert_allclose(key_scores(term, q), theirs, rtol=0, atol=2**-18)


GRANITE = dict(
    hidden_dim=16, num_layers=2, num_heads=4, feedforward_mult=2, context_size=8, max_pos_emb=10, input_dim=6
)


def test_granites_encoder_of_speech_has_vectors_for_distances(tmp_path: Path) -> None:
    from transformers.models.granite_speech.modeling_granite_speech import GraniteSpeechCTCEncoder

    model = save(tmp_path, GraniteSpeechCTCEncoder, tf.GraniteSpeechEncoderConfig(**GRANITE))
    q = torch.randn(1, 4, 8, 4)

    def check(loaded: Any) -> None:
        for layer, (term,) in zip(model.layers, loaded.layers, strict=True):
            with torch.no_grad():
                theirs = torch.einsum("bhid,ijd->bhij", q, layer.attn.rel_pos_emb(model.attention_dists))
            np.testing.assert_allclose(key_scores(term, q), theirs, rtol=0, atol=2**-18)

    loaded = bearing.load(tmp_path)
    check(loaded)
    seen = [(one.type, one.window, one.window_after) for one in loaded.model.layers]
    assert seen == [("chunked_attention", 8, 7)] * 2

    # The same encoder as a part of a model that also writes.
    text = {"model_type": "granite", **SMALL}
    encoder = {"model_type": "granite_speech_encoder", **GRANITE}
    tensors = {"encoder." + name: numbers for name, numbers in bearing.read_safetensors(tmp_path).items()}
    write(tmp_path, {"model_type": "granite_speech", "text_config": text, "encoder_config": encoder}, tensors)
    whole = bearing.load(tmp_path)
    assert [type(one).__name__ for one in whole.layers[0]] == ["RotaryRows"]
    (tower,) = [one for one in whole.towers if one.model.model_type == "granite_speech_encoder"]
    check(tower)
    del tensors["encoder.layers.1.attn.rel_pos_emb.weight"], tensors["encoder.layers.0.attn.rel_pos_emb.weight"]
    write(tmp_path, {"model_type": "granite_speech", "text_config": text, "encoder_config": encoder}, tensors)
    (tower,) = [one for one in bearing.load(tmp_path).towers if one.model.model_type == "granite_speech_encoder"]
    assert tower.layers == ([], []) and "must have a tensor" in tower.missing[0]


def test_the_fifth_granite_speech_has_the_same_vectors(tmp_path: Path) -> None:
    from transformers.models.granite_speech5.modeling_granite_speech5 import GraniteSpeech5Encoder

    config = tf.GraniteSpeech5EncoderConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=8, context_size=8,
        max_position_embeddings=10, num_mel_bins=6,
    )  # fmt: skip
    model = save(tmp_path, GraniteSpeech5Encoder, config)
    q = torch.randn(1, 4, 8, 4)
    own = [one.rel_pos_emb for one in model.modules() if hasattr(one, "rel_pos_emb")]
    for table, (term,) in zip(own, bearing.load(tmp_path).layers, strict=True):
        with torch.no_grad():
            theirs = torch.einsum("bhid,ijd->bhij", q, table(model.attention_dists))
        np.testing.assert_allclose(key_scores(term, q), theirs, rtol=0, atol=2**-18)


def test_lilts_boxes_are_seven_tables(tmp_path: Path, rng: np.random.Generator) -> None:
    config = tf.LiltConfig(**{**SMALL, "hidden_size": 24}, max_position_embeddings=26, max_2d_position_embeddings=70)
    model = save(tmp_path, tf.LiltModel, config)
    loaded = bearing.load(tmp_path)
    assert not loaded.missing
    first = config.pad_token_id + 1
    equal(rows_of(loaded.inputs[0], 24), model.embeddings.position_embeddings.weight[first : first + 24])
    box = torch.from_numpy(boxes(rng, 24, 1)).long()
    own = model.layout_embeddings
    own.LayerNorm = torch.nn.Identity()
    with torch.no_grad():
        theirs = own(box[None], (torch.arange(24) + first)[None])[0]
    left, upper, right, lower = box.T.numpy()
    at = (left, upper, right, lower, lower - upper, right - left, np.arange(24))
    rows = [np.asarray(bearing.inputs(table, where)) for table, where in zip(loaded.inputs[1:], at, strict=True)]
    # 24 products of numbers to 4.
    np.testing.assert_allclose(sum(rows), theirs, rtol=0, atol=2**-17)
    change(tmp_path, channel_shrink_ratio=3)
    with pytest.raises(bearing.ConfigError, match=r"must make a table of the shape \[70, 8\] .* got \[70, 6\]"):
        bearing.load(tmp_path)


def test_wavlms_buckets_wait_for_the_gate(tmp_path: Path) -> None:
    config = tf.WavLMConfig(**SMALL, num_buckets=8, max_bucket_distance=12, conv_dim=(8,), conv_stride=(2,),
                            conv_kernel=(3,), num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2)  # fmt: skip
    model = save(tmp_path, tf.WavLMModel, config)
    loaded = bearing.load(tmp_path)
    own = model.encoder.layers[0].attention
    gate = np.random.default_rng(2).normal(size=(1, 4, 20)).astype(np.float32)
    with torch.no_grad():
        theirs = own.compute_bias(20, 20).numpy() * gate[0, :, :, None]
    for (term,) in loaded.layers:
        assert term.wanted == ("gate",)
        scores = np.zeros((1, 4, 20, 20), np.float32)
        bearing.add_scores(term(gate=gate), scores)
        np.testing.assert_allclose(scores[0], theirs, rtol=2**-22)
