"""Folders as save_pretrained() writes them: the encodings do what the model's own modules do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import bearing
import numpy as np
import pytest
import torch
import transformers as tf
from loading import SMALL, change, equal, rows_of
from loading import save as save_model

SEQ2SEQ = {
    "vocab_size": 32,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 8,
    "decoder_ffn_dim": 8,
}
T5 = {"vocab_size": 32, "d_model": 16, "d_kv": 4, "d_ff": 16, "num_layers": 2, "num_heads": 4}


@pytest.fixture
def saved(tmp_path: Path) -> Any:
    def save(model_class: Any, config: Any, **options: Any) -> tuple[Any, Path]:
        model = save_model(tmp_path, model_class, config, **options)
        return model, tmp_path

    return save


@pytest.mark.parametrize(
    ("model_class", "config_class", "encoder", "decoder"),
    [("T5", "T5", 1, 1), ("MT5", "MT5", 1, 1), ("UMT5", "UMT5", 2, 2), ("LongT5", "LongT5", 1, 1)],
)
def test_t5_adds_the_bias_of_its_own_module(
    saved: Any, model_class: str, config_class: str, encoder: int, decoder: int
):
    model, folder = saved(
        getattr(tf, model_class + "ForConditionalGeneration"), getattr(tf, config_class + "Config")(**T5)
    )
    loaded = bearing.load(folder)
    assert len(loaded.layers) == 4 and not loaded.missing and len(loaded.tensors) == encoder + decoder
    for layer, encodings in enumerate(loaded.layers):
        stack = model.encoder if layer < 2 else model.decoder
        block = stack.block[layer % 2 if encoder == 2 else 0].layer[0]
        name = "LocalSelfAttention" if hasattr(block, "LocalSelfAttention") else "SelfAttention"
        attention = getattr(block, name)
        (bias,) = encodings
        ours = bearing.bias_matrix(bias, heads=4, q_len=40, k_len=40)
        distance = torch.arange(40)[None, :] - torch.arange(40)[:, None]
        options = {"bidirectional": not attention.is_decoder, "num_buckets": 32, "max_distance": 128}
        buckets = attention._relative_position_bucket(distance, **({} if model_class == "UMT5" else options))
        equal(ours, attention.relative_attention_bias(buckets).permute(2, 0, 1))


@pytest.mark.parametrize(
    ("name", "options", "path"),
    [
        ("GPT2Model", {"vocab_size": 32, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 24}, "wpe"),
        ("GPT2LMHeadModel", {"vocab_size": 32, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 24}, "transformer.wpe"),
        ("BertModel", {**SMALL, "max_position_embeddings": 24}, "embeddings.position_embeddings"),
        ("BertForMaskedLM", {**SMALL, "max_position_embeddings": 24}, "bert.embeddings.position_embeddings"),
        ("RobertaModel", {**SMALL, "max_position_embeddings": 26}, "embeddings.position_embeddings"),
        ("MPNetModel", {**SMALL, "max_position_embeddings": 26}, "embeddings.position_embeddings"),
        ("DistilBertModel", {"vocab_size": 32, "dim": 16, "n_layers": 1, "n_heads": 4, "hidden_dim": 16,
                             "max_position_embeddings": 24}, "embeddings.position_embeddings"),
        ("OPTForCausalLM", {**SMALL, "ffn_dim": 16, "word_embed_proj_dim": 16, "max_position_embeddings": 24},
         "model.decoder.embed_positions"),
    ],
)  # fmt: skip
def test_a_learned_table_is_the_embedding_of_its_own_module(saved: Any, name: str, options: dict[str, Any], path: str):
    model_class = getattr(tf, name)
    model, folder = saved(model_class, model_class.config_class(**options))
    loaded = bearing.load(folder)
    (encoding,) = loaded.inputs
    first = loaded.model.inputs[0].encoding.offset
    table = model.get_submodule(path).weight
    equal(rows_of(encoding, 24), table[first : first + 24])
    assert list(loaded.tensors) == [path + ".weight"] or name == "MPNetModel"


def test_parts_have_tables_of_their_own(saved: Any) -> None:
    model, folder = saved(tf.BartForConditionalGeneration, tf.BartConfig(**SEQ2SEQ, max_position_embeddings=24))
    loaded = bearing.load(folder)
    for encoding, part in zip(loaded.inputs, ("encoder", "decoder"), strict=True):
        equal(rows_of(encoding, 24), getattr(model.model, part).embed_positions.weight[2:])


def test_patches_have_the_rows_of_vit(saved: Any) -> None:
    model, folder = saved(tf.ViTModel, tf.ViTConfig(**{**SMALL, "image_size": 16, "patch_size": 4}))
    (encoding,) = bearing.load(folder).inputs
    equal(rows_of(encoding, 17), model.embeddings.position_embeddings[0])


MAE = {"image_size": 16, "patch_size": 4, **SMALL, "decoder_hidden_size": 16, "decoder_num_hidden_layers": 1,
       "decoder_num_attention_heads": 2}  # fmt: skip


def save_mae(folder: Path, table: np.ndarray) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": "vit_mae", **MAE}))
    bearing.write_safetensors(folder / "model.safetensors", {"vit.embeddings.position_embeddings": table})


def test_maes_stored_table_is_compared_with_its_sinusoids(tmp_path: Path) -> None:
    sinusoids = bearing.Sinusoidal2dInputs(bearing.Sinusoidal2d.mae(16))
    rows = bearing.inputs(sinusoids, bearing.grid_positions(4, 4))[0]
    table = np.concatenate([np.zeros((1, 16), np.float32), rows])[None]

    def warnings() -> list[str]:
        return [one for one in map(str, bearing.load(tmp_path).model.warnings) if "position_embeddings" in one]

    save_mae(tmp_path, table)
    assert warnings() == []
    other = np.concatenate([rows[:, 8:], rows[:, :8]], 1)  # y first
    save_mae(tmp_path, np.concatenate([table[0, :1], other])[None])
    (said,) = warnings()
    assert "in row 2, column 0" in said and "the sinusoids are given, not the weights' table" in said
    save_mae(tmp_path, table[:, :-1])
    (said,) = warnings()
    assert "is not the table of a class token and a square of patches, of 16 columns" in said


def test_a_table_that_the_code_resizes_is_told(tmp_path: Path) -> None:
    config = tf.Siglip2VisionConfig(hidden_size=16, num_patches=16, num_hidden_layers=1, num_attention_heads=2)
    config.to_json_file(tmp_path / "config.json")
    table = np.random.default_rng(1).random((16, 16), np.float32)
    bearing.write_safetensors(
        tmp_path / "model.safetensors", {"vision_model.embeddings.position_embedding.weight": table}
    )
    loaded = bearing.load(tmp_path)
    assert loaded.model.inputs[0].positions.endswith("resizes the table to the image's, linear, antialias")
    assert any("only on the table's own grid" in str(one) for one in loaded.model.warnings)
    np.testing.assert_array_equal(loaded.inputs[0].parameters["table"], table)
    for config_class, words in {
        "Qwen3VLVisionConfig": "linear, align_corners",
        "Glm4vVisionConfig": "cubic",
        "Idefics3VisionConfig": "at the patch's share of the image's height and width",
    }.items():
        assert words in bearing.read_hf_config(getattr(tf, config_class)()).inputs[0].positions
    assert bearing.read_hf_config(tf.SiglipVisionConfig()).inputs[0].positions == ""


@pytest.mark.parametrize("sides", [(3, 3), (4, 6)])
def test_beits_window_that_is_not_square_is_told(saved: Any, sides: tuple[int, int]) -> None:
    """The code of transformers swaps the sides of such a table before it resizes it."""
    config = tf.BeitConfig(
        image_size=tuple(8 * side for side in sides), patch_size=8, **SMALL, use_relative_position_bias=True
    )
    model, folder = saved(tf.BeitModel, config)
    loaded = bearing.load(folder)
    at = np.concatenate([np.full((2, 1, 1), -1.0), bearing.grid_positions(*sides)], 2)
    own = next(one for one in model.modules() if type(one).__name__ == "BeitRelativePositionBias")
    theirs = own(window_size=sides)[0].detach().numpy()
    ours = bearing.bias_matrix(loaded.layers[0][0], at, at, heads=len(theirs))
    warned = any("one of swapped sides" in str(one) for one in loaded.model.warnings)
    assert warned == (abs(ours - theirs).max() > 1e-5) == (sides[0] != sides[1])
    table = own.relative_position_bias_table.detach()
    right = table[own.generate_relative_position_index(sides).flatten()].reshape(*ours.shape[1:], -1).permute(2, 0, 1)
    equal(ours, right)


def test_swin_has_the_table_of_each_block(saved: Any) -> None:
    config = tf.SwinConfig(image_size=32, patch_size=4, embed_dim=8, depths=[2, 2], num_heads=[2, 4], window_size=4)
    model, folder = saved(tf.SwinModel, config)
    loaded = bearing.load(folder)
    biases = [one for one in model.modules() if type(one).__name__ == "SwinRelativePositionBias"]
    assert len(loaded.layers) == len(biases) == 4
    at = bearing.grid_positions(4, 4)
    for (bias,), own in zip(loaded.layers, biases, strict=True):
        heads = own.relative_position_bias_table.shape[1]
        assert own.relative_position_bias_table.std() > 0.5
        equal(bearing.bias_matrix(bias, at, at, heads=heads), own().reshape(heads, 16, 16))


def test_berts_relative_keys_are_found(saved: Any, tmp_path: Path) -> None:
    config = {"model_type": "bert", **SMALL, "max_position_embeddings": 8, "position_embedding_type": "relative_key"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    tables = {
        f"bert.encoder.layer.{i}.attention.self.distance_embedding.weight": np.random.default_rng(i).normal(
            size=(15, 4)
        )
        for i in range(2)
    }
    bearing.write_safetensors(tmp_path / "model.safetensors", tables)
    loaded = bearing.load(tmp_path)
    for i, (term,) in enumerate(loaded.layers):
        assert isinstance(term, bearing.BertRelativeTerm)
        np.testing.assert_array_equal(term.parameters["table"], list(tables.values())[i].astype(np.float32))


def test_llama_turns_as_its_own_module_and_is_ready_for_attention(saved: Any, rng: np.random.Generator) -> None:
    rope = {"rope_type": "llama3", "rope_theta": 10_000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 64}  # fmt: skip
    config = tf.LlamaConfig(**SMALL, max_position_embeddings=512, rope_parameters=rope)
    model, folder = saved(tf.LlamaForCausalLM, config)
    loaded = bearing.load(folder)
    assert loaded.layers[0][0] is loaded.layers[1][0] and loaded.inputs == ()
    q, k, v = (rng.normal(size=(1, 4, 300, 4)).astype(np.float32) for _ in range(3))
    cos, sin = model.model.rotary_emb(torch.from_numpy(q), torch.arange(300)[None])
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    turned = apply_rotary_pos_emb(torch.from_numpy(q), torch.from_numpy(k), cos, sin)
    theirs = torch.nn.functional.scaled_dot_product_attention(*turned, torch.from_numpy(v), is_causal=True)
    ours = bearing.attention(q, k, v, loaded.layers[0], mask="causal")
    # Their angles are products in float32: off by 300 · 2^-24, times the size of a product of rows.
    np.testing.assert_allclose(ours, theirs.numpy(), atol=2e-4)


def test_what_is_loaded_can_be_a_key(tmp_path: Path) -> None:
    kept = bearing.PerCall("FireBias", None, {"w": np.ones(2)}, ("r",))
    one, other = (bearing.LoadedModel(None, (), ([kept],), {"w": np.ones(2)}) for _ in range(2))
    assert kept == kept and len({kept, one, other}) == 3 and one == one and one != other


def test_sharded_weights_are_found(saved: Any) -> None:
    model, folder = saved(tf.BertModel, tf.BertConfig(**SMALL, max_position_embeddings=24), max_shard_size="4KB")
    assert (folder / "model.safetensors.index.json").exists()
    (encoding,) = bearing.load(folder).inputs
    equal(rows_of(encoding, 24), model.embeddings.position_embeddings.weight)


def test_a_size_that_contradicts_the_config_is_refused(saved: Any) -> None:
    _, folder = saved(tf.BertModel, tf.BertConfig(**SMALL, max_position_embeddings=24))
    change(folder, max_position_embeddings=25)
    with pytest.raises(bearing.ConfigError, match=r"must have the shape \[25, 16\] .* says, got \[24, 16\]"):
        bearing.load(folder)


def test_t5s_heads_and_buckets_must_be_the_configs(saved: Any) -> None:
    _, folder = saved(tf.T5ForConditionalGeneration, tf.T5Config(**T5))
    change(folder, num_heads=2)
    with pytest.raises(bearing.ConfigError, match=r"\[32, 2\] \(buckets, heads\) .* got \[32, 4\]"):
        bearing.load(folder)
    change(folder, num_heads=4, relative_attention_num_buckets=16)
    with pytest.raises(bearing.ConfigError, match=r"\[16, 4\] .* got \[32, 4\]"):
        bearing.load(folder)


def test_a_table_that_is_not_there_is_named(saved: Any) -> None:
    _, folder = saved(tf.GPT2Model, tf.GPT2Config(vocab_size=32, n_embd=16, n_layer=2, n_head=4, n_positions=24))
    tensors = dict(bearing.read_safetensors(folder))
    wpe = tensors.pop("wpe.weight")
    bearing.write_safetensors(folder / "model.safetensors", tensors)
    with pytest.raises(bearing.ConfigError, match=r'must have a tensor "wpe.weight", the table of LearnedInputs'):
        bearing.load(folder)
    bearing.write_safetensors(folder / "model.safetensors", {"a.wpe.weight": wpe, "b.wpe.weight": wpe})
    with pytest.raises(bearing.ConfigError, match=r'got "a.wpe.weight" and "b.wpe.weight"'):
        bearing.load(folder)
    bearing.write_safetensors(folder / "model.safetensors", {"wpe.weight": np.where(wpe == wpe[3, 4], np.nan, wpe)})
    with pytest.raises(bearing.ConfigError, match="must hold finite numbers, got -?nan as number 52"):
        bearing.load(folder)


def test_an_encoder_alone_has_no_decoder(saved: Any) -> None:
    _, folder = saved(tf.T5EncoderModel, tf.T5Config(**T5))
    change(folder, is_encoder_decoder=True, num_decoder_layers=2)
    loaded = bearing.load(folder)
    assert loaded.layers[0] and not loaded.layers[3]
    assert loaded.missing == ("layers 2, 3 of the decoder: the weights have no decoder",)


def test_frequencies_of_old_checkpoints_are_compared(saved: Any) -> None:
    _, folder = saved(tf.LlamaForCausalLM, tf.LlamaConfig(**SMALL))
    tensors = dict(bearing.read_safetensors(folder))
    inv_freq = 10_000.0 ** -(np.arange(0, 4, 2, dtype=np.float32) / 4)
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    bearing.write_safetensors(folder / "model.safetensors", tensors | {name: inv_freq.astype(np.float32)})
    assert not bearing.load(folder).model.warnings
    bearing.write_safetensors(folder / "model.safetensors", tensors | {name: (inv_freq * 1.01).astype(np.float32)})
    (warning,) = bearing.load(folder).model.warnings
    assert name in warning.text and "for pair 0, the config gives 1: the config's are taken" in warning.text


def test_a_temperature_stands_beside_the_rotation(saved: Any) -> None:
    rope = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 64,
            "llama_4_scaling_beta": 0.1}  # fmt: skip
    config = tf.Ministral3Config(**SMALL, head_dim=4, num_key_value_heads=4, max_position_embeddings=1024,
                                 rope_parameters=rope)  # fmt: skip
    _, folder = saved(tf.Ministral3ForCausalLM, config)
    for encodings in bearing.load(folder).layers:
        assert [type(one) for one in encodings] == [bearing.RotaryRows, bearing.TemperatureRows]


def test_learned_factors_of_frequencies_are_taken(saved: Any) -> None:
    """LeRoPE's: every frequency times e^alpha."""
    _, folder = saved(tf.LlamaForCausalLM, tf.LlamaConfig(**SMALL))
    tensors = dict(bearing.read_safetensors(folder))
    alpha = np.array([0.25, -0.5], np.float32)
    bearing.write_safetensors(folder / "model.safetensors", tensors | {"lerope.alpha": alpha})
    (rows,) = bearing.load(folder).layers[0]
    assert bearing.load(folder).model.layers[0].encoding.log_factors == (0.25, -0.5)
    assert isinstance(rows, bearing.RotaryRows)
    bearing.write_safetensors(folder / "model.safetensors", tensors | {"lerope.alpha": alpha[:1]})
    with pytest.raises(bearing.ConfigError, match="must have 2 numbers, one for each pair that .* got 1"):
        bearing.load(folder)


DEBERTA = {**SMALL, "max_position_embeddings": 24, "relative_attention": True, "position_biased_input": False}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Deberta", {"pos_att_type": ["c2p", "p2c"]}),
        ("Deberta", {"pos_att_type": ["p2c"], "max_relative_positions": 12}),
        ("DebertaV2", {"pos_att_type": ["c2p", "p2c"], "position_buckets": 8, "share_att_key": True,
                       "norm_rel_ebd": "layer_norm", "layer_norm_eps": 1e-3}),
        ("DebertaV2", {"pos_att_type": ["c2p"], "position_buckets": -1}),
    ],
)  # fmt: skip
def test_deberta_scores_as_its_own_layers(saved: Any, name: str, options: dict[str, Any]) -> None:
    model, folder = saved(getattr(tf, name + "Model"), getattr(tf, name + "Config")(**DEBERTA, **options))
    own: list[torch.Tensor] = []
    with torch.no_grad():
        found = model(torch.arange(20)[None] + 3, output_attentions=True, output_hidden_states=True)
    loaded = bearing.load(folder)
    assert not loaded.missing
    for layer, (hidden, wanted) in enumerate(zip(found.hidden_states, found.attentions, strict=False)):
        attention = model.encoder.layer[layer].attention.self
        (term,) = loaded.layers[layer]
        q, k = queries_and_keys(attention, hidden)
        spec = loaded.model.layers[layer].encoding
        scale = bearing.deberta_softmax_scale(spec, 4)
        scores = scale * q @ k.transpose(-1, -2)
        scores = np.array(scores.detach().numpy())
        bearing.add_scores(term, scores, q=q.detach().numpy(), k=k.detach().numpy(), scale=scale)
        got = torch.softmax(torch.from_numpy(scores), dim=-1)
        # Scores come to 2^7 here, of some 8 roundings each: 2^-24 of that 8 times. A wrong table moves them by a tenth.
        torch.testing.assert_close(got, wanted, rtol=0, atol=2**-14)
        own.append(wanted)
    assert (own[0] - own[1]).abs().max() > 2**-6  # layers differ, and so do their tables


def queries_and_keys(attention: Any, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if hasattr(attention, "in_proj"):  # the first version: queries, keys and values of a head side by side
        made = attention.in_proj(hidden).unflatten(-1, (4, 12)).transpose(1, 2)
        bias = attention.q_bias.view(4, 1, 4)
        return made[..., :4] + bias, made[..., 4:8]
    return tuple(
        part(hidden).unflatten(-1, (4, 4)).transpose(1, 2) for part in (attention.query_proj, attention.key_proj)
    )


def test_the_encoder_of_segment_anything_has_two_tables_in_each_layer(saved: Any) -> None:
    config = tf.SamVisionConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=4, window_size=3,
        global_attn_indexes=[1], mlp_dim=16, output_channels=8,
    )  # fmt: skip
    model, folder = saved(tf.SamVisionModel, config)
    loaded = bearing.load(folder)
    for layer, (term,) in zip(model.vision_encoder.layers, loaded.layers, strict=True):
        equal(term.parameters["height_table"], layer.attn.rel_pos_h)
        equal(term.parameters["width_table"], layer.attn.rel_pos_w)


def test_layers_of_wav2vec2_bert_have_their_distances(saved: Any) -> None:
    config = tf.Wav2Vec2BertConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=16, vocab_size=32,
        left_max_position_embeddings=6, right_max_position_embeddings=2, feature_projection_input_dim=8,
    )  # fmt: skip
    model, folder = saved(tf.Wav2Vec2BertModel, config)
    loaded = bearing.load(folder)
    assert not loaded.missing
    for layer, (term,) in zip(model.encoder.layers, loaded.layers, strict=True):
        equal(term.parameters["table"], layer.self_attn.distance_embedding.weight)


def test_swin_v2_has_the_table_that_its_network_makes(saved: Any) -> None:
    config = tf.Swinv2Config(
        image_size=32, patch_size=4, embed_dim=8, depths=[2, 1], num_heads=[2, 4], window_size=4,
        pretrained_window_sizes=[0, 3],
    )  # fmt: skip
    model, folder = saved(tf.Swinv2Model, config)
    loaded = bearing.load(folder)
    assert not loaded.missing
    blocks = [block for stage in model.encoder.layers for block in stage.blocks]
    for block, (bias,) in zip(blocks, loaded.layers, strict=True):
        own = block.attention.self
        with torch.no_grad():
            table = 16 * torch.sigmoid(own.continuous_position_bias_mlp(own.relative_coords_table))
        # Logits come to -35, of 512 products: 2^-24 of that, some 20 times over, is 16 sigmoid's relative error.
        np.testing.assert_allclose(bias.parameters["table"], table.flatten(0, 2).numpy(), rtol=2**-14)


def test_wrong_calls_say_what_must_hold(tmp_path: Path) -> None:
    with pytest.raises(bearing.ConfigError, match="config.json: must be a readable file"):
        bearing.load(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(bearing.ConfigError, match="must hold model.safetensors or"):
        bearing.load(tmp_path)
    for length in (-1, 2**31 + 1):
        with pytest.raises(bearing.RangeError, match=rf"length: must be from 0 to 2\^31, got {length}"):
            bearing.load(tmp_path, length=length)


def test_moonshine_streaming_has_the_table_of_its_encoders_frames(saved: Any) -> None:
    encoder = dict(
        hidden_size=24, intermediate_size=32, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=4
    )
    config = tf.MoonshineStreamingConfig(
        hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=4,
        vocab_size=20, max_position_embeddings=40, encoder_config=encoder | {"sliding_windows": [[4, 2]]},
    )  # fmt: skip
    model, folder = saved(tf.MoonshineStreamingForConditionalGeneration, config)
    loaded = bearing.load(folder)
    assert not loaded.missing
    (table,) = loaded.inputs
    assert loaded.model.inputs[0].part == "cross-attention"
    equal(rows_of(table, 40), model.model.decoder.pos_emb.weight)
