"""Models that project sinusoids of distances: their layers' own attention, and ours with what load() returns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import bearing
import numpy as np
import pytest
import torch
import transformers as tf
from loading import write

DIM = 6
SCALE = 1 / np.sqrt(DIM)
# A weight is at most 1, and its score is of some 40 products to 2^3 in float32.
CLOSE = dict(rtol=0, atol=2**-17)


def save(folder: Path, model: Any, words: tuple[str, ...]) -> Any:
    """Parameters whose name has one of the words are drawn so that every term moves the weights."""
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.eval().named_parameters():
            if any(word in name for word in words):
                parameter.normal_(std=1 if "word" in name else 0.3)
    model.save_pretrained(folder)
    return model


def weights_of(encodings: list[Any], q: np.ndarray, k: np.ndarray, causal: bool = False) -> torch.Tensor:
    scores = np.einsum("bnid,bnjd->bnij", q, k) * np.float32(SCALE)
    bearing.add_scores(encodings, scores, q=q, k=k, scale=SCALE)
    if causal:
        scores[..., ~np.tri(q.shape[2], dtype=bool)] = -np.inf
    return torch.softmax(torch.from_numpy(scores), -1)


XLNET = dict(vocab_size=32, d_model=24, n_layer=2, n_head=4, d_inner=16)


@pytest.mark.parametrize(("attn_type", "clamp_len"), [("bi", -1), ("bi", 5), ("uni", -1)])
def test_xlnet_attends_as_its_own_layers(tmp_path: Path, attn_type: str, clamp_len: int) -> None:
    config = tf.XLNetConfig(**XLNET, attn_type=attn_type, clamp_len=clamp_len)
    model = save(tmp_path, tf.XLNetModel(config), ("rel_attn", "word"))
    time, causal = 13, attn_type == "uni"
    segments = torch.tensor([[0] * 5 + [1] * 6 + [2] * 2, [1] * 8 + [0] * 5])
    with torch.no_grad():
        ids = torch.arange(2 * time).view(2, time)
        found = model(ids, token_type_ids=segments, output_attentions=True, output_hidden_states=True)
    loaded = bearing.load(tmp_path, length=0 if clamp_len > 0 else time)
    assert not loaded.missing
    for layer, own in enumerate(model.layer):
        places, by_segment = loaded.layers[layer]
        assert by_segment.wanted == ("q_segments", "k_segments") and by_segment.spec is None
        encodings = [places, by_segment(q_segments=segments.numpy(), k_segments=segments.numpy())]
        x = found.hidden_states[layer]
        projections = (own.rel_attn.q, own.rel_attn.k, own.rel_attn.v)
        q, k, v = (torch.einsum("bih,hnd->bnid", x, one).detach().numpy() for one in projections)
        np.testing.assert_allclose(weights_of(encodings, q, k, causal), found.attentions[layer], **CLOSE)
        out = torch.from_numpy(bearing.attention(q, k, v, encodings, mask="causal" if causal else "none"))
        with torch.no_grad():
            after = own.ff_chunk(own.rel_attn.post_attention(x.transpose(0, 1), out.permute(2, 0, 1, 3)))
        # Behind two norms, whose numbers are to 2^2.
        np.testing.assert_allclose(after.transpose(0, 1), found.hidden_states[layer + 1], rtol=0, atol=2**-15)


def test_xlnet_without_a_length_has_its_segments(tmp_path: Path) -> None:
    save(tmp_path, tf.XLNetModel(tf.XLNetConfig(**XLNET)), ())
    loaded = bearing.load(tmp_path)
    assert loaded.missing == ("layers 0, 1: r is computed for the distances of a call: load() needs a length",)
    assert [[one.kind for one in layer] for layer in loaded.layers] == [["XlnetSegmentTerm"]] * 2
    with pytest.raises(TypeError, match="must be called with q_segments, k_segments, by name, got q_segments"):
        loaded.layers[0][0](q_segments=np.zeros((1, 3), np.int64))


@pytest.fixture
def parts(tmp_path: Path) -> Any:
    """Writes a folder whose tensors are changed, None for one that is left out, and expects an error."""

    def refused(changed: dict[str, np.ndarray | None], text: str) -> None:
        kept = {name: numbers for name, numbers in {**tensors, **changed}.items() if numbers is not None}
        write(tmp_path, config, kept)
        with pytest.raises(bearing.ConfigError, match=text):
            bearing.load(tmp_path, length=4)

    def begin(model: Any) -> Any:
        nonlocal tensors, config
        save(tmp_path, model, ())
        tensors = {name: np.array(numbers) for name, numbers in bearing.read_safetensors(tmp_path).items()}
        config = json.loads((tmp_path / "config.json").read_text())
        return tensors, refused

    tensors: dict[str, np.ndarray] = {}
    config: dict[str, Any] = {}
    return begin


def test_xlnets_weights_must_fit_its_config(tmp_path: Path, parts: Any) -> None:
    tensors, refused = parts(tf.XLNetModel(tf.XLNetConfig(**XLNET | {"n_layer": 3})))
    r = tensors["layer.1.rel_attn.r"]
    asked = (
        r'"layer.1.rel_attn.r": must have the shape \[24, any\] \(heads dim, d_model\) that .* transposed, heads and'
    )
    refused({"layer.1.rel_attn.r": r.transpose(0, 2, 1)}, asked + r" .* got \[24, 6, 4\]")
    refused({"layer.1.rel_attn.r": r.reshape(24, 24)}, asked + r" .* got \[24, 24\]")
    refused({"layer.1.rel_attn.r": r[:23]}, asked + r" .* d_model even, got \[23, 4, 6\]")
    refused({"layer.1.rel_attn.r": r[:, :, :5]}, r"\[24, 24\] \(heads dim, d_model\) .* got \[24, 4, 5\]")
    refused({"layer.1.rel_attn.r": None}, "one for each of its 3 layers, .* got 2 tensors such as")
    gone = {name: None for name in tensors if name.endswith("rel_attn.r")}
    refused(gone, r'must have a tensor "layer.\*.rel_attn.r", the w_r of TransformerXLTerm, got none')
    gone = {name: None for name in tensors if name.endswith("r_s_bias")}
    refused(gone, r'must have a tensor "layer.\*.rel_attn.r_s_bias", the r_s of XlnetSegmentTerm, got none')
    three = {"layer.1.rel_attn.seg_embed": np.zeros((3, 4, 6), np.float32)}
    refused(three, r'seg_embed": must have the shape \[2, 4, 6\] \(2, heads, dim\) .* got \[3, 4, 6\]')
    not_finite = {"layer.1.rel_attn.seg_embed": np.full((2, 4, 6), np.nan, np.float32)}
    refused(not_finite, 'seg_embed": must hold finite numbers, got nan')


def test_xlnets_names_may_have_a_prefix(tmp_path: Path) -> None:
    save(tmp_path, tf.XLNetLMHeadModel(tf.XLNetConfig(**XLNET)), ())
    loaded = bearing.load(tmp_path, length=4)
    assert "transformer.layer.0.rel_attn.r" in loaded.tensors and not loaded.missing


PARAKEET = dict(
    hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=16, num_mel_bins=16,
    subsampling_conv_channels=4, max_position_embeddings=64,
)  # fmt: skip
STREAMING = dict(sliding_window=9, default_num_lookahead_tokens=3)


def parakeet(name: str) -> Any:
    more = STREAMING if name == "NemotronAsrStreaming" else {}
    config = getattr(tf, name + "EncoderConfig")(**PARAKEET, **more)
    config._attn_implementation = "eager"
    return getattr(tf, name + "Encoder")(config)


def own_mask(model: Any, time: int) -> torch.Tensor | None:
    """The mask that a model's layers get for so many frames."""
    seen: list[torch.Tensor | None] = []
    hook = model.layers[0].register_forward_pre_hook(
        lambda module, given, named: seen.append(named["attention_mask"]), with_kwargs=True
    )
    with torch.no_grad():
        frames = 8 * time
        model(torch.randn(1, frames, 16))
    hook.remove()
    if seen[0] is None:
        return None
    # The convolutions make one frame more. The layers want truths; numbers to be added come with eager attention.
    return seen[0][..., :time, :time] == 0


@pytest.mark.parametrize("name", ["Parakeet", "NemotronAsrStreaming"])
def test_parakeet_attends_as_its_own_layers(tmp_path: Path, name: str) -> None:
    model = save(tmp_path, parakeet(name), ("self_attn",))
    time = 15
    loaded = bearing.load(tmp_path, length=time)
    assert not loaded.missing and "until load() sorts them" in loaded.model.warnings[0].text
    mask = own_mask(model, time)
    assert (mask is None) == (name == "Parakeet")
    for layer, encodings, read in zip(model.layers, loaded.layers, loaded.model.layers, strict=True):
        own, x = layer.self_attn, torch.randn(2, time, 24)
        with torch.no_grad():
            wanted, weights = own(hidden_states=x, position_embeddings=model.encode_positions(x), attention_mask=mask)
            q, k, v = (
                one(x).view(2, time, 4, DIM).transpose(1, 2).numpy() for one in (own.q_proj, own.k_proj, own.v_proj)
            )
        if mask is None:
            np.testing.assert_allclose(weights_of(encodings, q, k), weights, **CLOSE)
        out = bearing.attention(q, k, v, encodings, mask="none", window=read.attention_window, band=read.attention_band)
        out = torch.from_numpy(out)
        with torch.no_grad():
            ours = own.o_proj(out.transpose(1, 2).reshape(2, time, 24))
        np.testing.assert_allclose(ours, wanted, rtol=0, atol=2**-15)


def test_parakeets_weights_must_fit_its_config(tmp_path: Path, parts: Any) -> None:
    tensors, refused = parts(parakeet("Parakeet"))
    name = "layers.1.self_attn.relative_k_proj.weight"
    refused({name: tensors[name][:, :23]}, r"\[24, any\] \(heads dim, d_model\) .* d_model even, got \[24, 23\]")
    refused({name: tensors[name][:20]}, r"\[24, 24\] \(heads dim, d_model\) .* got \[20, 24\]")
    refused({name: tensors[name][:, :0]}, r"\[24, any\] .* d_model even, got \[24, 0\]")
    gone = {name: None for name in tensors if name.endswith("bias_u")}
    refused(gone, r'must have a tensor "layers.\*.self_attn.bias_u", the u of TransformerXLTerm, got none')


def test_parakeets_encoder_is_found_in_a_model_that_writes(tmp_path: Path) -> None:
    config = tf.ParakeetCTCConfig(vocab_size=32, encoder_config=PARAKEET)
    save(tmp_path, tf.ParakeetForCTC(config), ())
    asks = bearing.load(tmp_path)
    assert "load() needs a length" in asks.missing[0] and asks.layers == ([], [])
    loaded = bearing.load(tmp_path, length=4)
    (places,) = loaded.layers[1]
    assert places.parameters["r"].shape == (4, 7, DIM) and places.spec.first_offset == -3


SPEECH = dict(
    hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=16, conv_dim=(8,), conv_stride=(2,),
    conv_kernel=(3,), num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, vocab_size=32,
)  # fmt: skip
SEAMLESS = dict(
    vocab_size=32, hidden_size=24, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
    decoder_attention_heads=4, encoder_ffn_dim=8, decoder_ffn_dim=8, speech_encoder_layers=2,
    speech_encoder_attention_heads=4, speech_encoder_intermediate_size=8, num_conv_pos_embeddings=4,
    num_conv_pos_embedding_groups=2, feature_projection_input_dim=8, t2u_encoder_layers=1, t2u_decoder_layers=1,
)  # fmt: skip


def conformer(name: str) -> tuple[Any, Any, Any]:
    """A model, its encoder of speech, and what makes the rows of distances from hidden states."""
    if name.startswith("SeamlessM4T"):
        config = getattr(tf, name + "Config")(**SEAMLESS)
        config._attn_implementation = "eager"
        model = getattr(tf, name + "ForSpeechToText")(config)
        encoder = model.speech_encoder.encoder
    else:
        kind = {} if name.endswith("Conformer") else {"position_embeddings_type": "relative"}
        config = getattr(tf, name + "Config")(**SPEECH, **kind)
        config._attn_implementation = "eager"
        model = getattr(tf, name + "Model")(config)
        encoder = model.encoder
    return model, encoder, getattr(encoder, "embed_positions", None)


@pytest.mark.parametrize("name", ["Wav2Vec2Conformer", "Wav2Vec2Bert", "SeamlessM4T", "SeamlessM4Tv2"])
def test_conformers_attend_as_their_own_layers(tmp_path: Path, name: str) -> None:
    model, encoder, rows = conformer(name)
    save(tmp_path, model, ("self_attn",))
    time, heads = 15, 4
    loaded = bearing.load(tmp_path, length=time)
    assert not any("speech encoder" in text or "TransformerXL" in text for text in loaded.missing)
    for layer, encodings in zip(encoder.layers, loaded.layers[:2], strict=True):
        own, x = layer.self_attn, torch.randn(2, time, 24)
        given = {} if rows is None else {"relative_position_embeddings": rows(x)}
        with torch.no_grad():
            wanted, weights = own(x, attention_mask=None, **given)
            q, k, v = (
                one(x).view(2, time, heads, DIM).transpose(1, 2).numpy()
                for one in (own.linear_q, own.linear_k, own.linear_v)
            )
        np.testing.assert_allclose(weights_of(encodings, q, k), weights, **CLOSE)
        out = torch.from_numpy(bearing.attention(q, k, v, encodings, mask="none"))
        with torch.no_grad():
            ours = own.linear_out(out.transpose(1, 2).reshape(2, time, 24))
        np.testing.assert_allclose(ours, wanted, rtol=0, atol=2**-15)
