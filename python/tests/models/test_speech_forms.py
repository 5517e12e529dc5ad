"""Encoders of speech and of documents: attention with bearing's encodings is the model's own, outputs and gradients, in
float64."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import bearing
import bearing.torch as bt
import pytest
import torch
import transformers as tf
from torch import Tensor

HEADS, DIM, TIME = 4, 6, 17
WIDTH = HEADS * DIM


def drawn(module: torch.nn.Module) -> Any:
    torch.manual_seed(0)
    module = module.double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn_like(parameter))
    return module


def rows() -> Tensor:
    torch.manual_seed(1)
    return torch.randn(2, TIME, WIDTH, dtype=torch.float64, requires_grad=True)


def heads_of(x: Tensor, *projections: torch.nn.Module) -> list[Tensor]:
    return [one(x).unflatten(2, (HEADS, DIM)).transpose(1, 2) for one in projections]


def attend(x: Tensor, encodings: Any, projections: Sequence[torch.nn.Module], last: torch.nn.Module) -> Tensor:
    out = bt.attention(*heads_of(x, *projections), encodings, mask="none")
    return last(out.transpose(1, 2).flatten(2))


def assert_same(ours: Tensor, theirs: Tensor, of: Sequence[Tensor]) -> None:
    """Outputs, and gradients of the rows, the projections and the encoding's parameters."""
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    weights = torch.randn_like(theirs)
    for a, b in zip(
        torch.autograd.grad((ours * weights).sum(), of),
        torch.autograd.grad((theirs * weights).sum(), of),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)
        assert b.abs().max() > 1e-3


@pytest.mark.parametrize("window", [4, 20])
def test_vits_has_vectors_of_near_keys_alone(window: int) -> None:
    vits = importlib.import_module("transformers.models.vits.modeling_vits")
    config = tf.VitsConfig(hidden_size=WIDTH, num_attention_heads=HEADS, window_size=window, num_hidden_layers=1)
    own = drawn(vits.VitsAttention(config))
    x = rows()
    spec = bearing.read_hf_config(config).layers[0].encoding
    term = bearing.ShawTerm(spec, key=own.emb_rel_k[0], value=own.emb_rel_v[0])
    ours = attend(x, term, (own.q_proj, own.k_proj, own.v_proj), own.out_proj)
    assert_same(ours, own(x)[0], [x, own.emb_rel_k, own.emb_rel_v, own.q_proj.weight])


def test_wavlm_gates_its_buckets() -> None:
    wavlm = importlib.import_module("transformers.models.wavlm.modeling_wavlm")
    own = drawn(wavlm.WavLMAttention(WIDTH, HEADS, num_buckets=8, max_distance=12))
    config = tf.WavLMConfig(num_buckets=8, max_bucket_distance=12, num_hidden_layers=1)
    spec = bearing.read_hf_config(config).layers[0].encoding
    x = rows()
    linear, constant = own.gru_rel_pos_linear, own.gru_rel_pos_const
    sliced = x.unflatten(2, (HEADS, DIM)).transpose(1, 2)
    a, b = torch.sigmoid(linear(sliced).unflatten(3, (2, 4)).sum(-1)).unbind(-1)
    gate = a * (b * constant[..., 0] - 1) + 2
    given = [one.detach().numpy() for one in (sliced.contiguous(), linear.weight, linear.bias, constant.flatten())]
    torch.testing.assert_close(torch.from_numpy(bearing.wavlm_gate(*given)), gate.detach(), rtol=0, atol=1e-12)
    torch.testing.assert_close(
        bt.wavlm_gate(sliced, linear.weight, linear.bias, constant.flatten()), gate, rtol=0, atol=1e-12
    )
    gate = bt.wavlm_gate(sliced, linear.weight, linear.bias, constant.flatten())
    bias = bearing.GatedT5Bias(spec, own.rel_attn_embed.weight, gate)
    ours = attend(x, bias, (own.q_proj, own.k_proj, own.v_proj), own.out_proj)
    assert_same(ours, own(x)[0], [x, own.rel_attn_embed.weight, linear.weight, constant, own.q_proj.weight])


SPEECH = dict(hidden_size=WIDTH, num_attention_heads=HEADS, num_hidden_layers=1)


@pytest.mark.parametrize("name", ["wav2vec2_conformer", "wav2vec2_bert", "seamless_m4t"])
def test_conformers_project_sinusoids_of_distances(name: str) -> None:
    module = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    if name == "seamless_m4t":
        config = tf.SeamlessM4TConfig(
            hidden_size=WIDTH, speech_encoder_attention_heads=HEADS, speech_encoder_layers=1, max_source_positions=32
        )
        kind = "SeamlessM4TConformer"
    else:
        kind = {"wav2vec2_conformer": "Wav2Vec2Conformer", "wav2vec2_bert": "Wav2Vec2Bert"}[name]
        config = getattr(tf, kind + "Config")(**SPEECH, position_embeddings_type="relative", max_source_positions=32)
    config._attn_implementation = "eager"
    own = drawn(getattr(module, kind + "SelfAttention")(config))
    x = rows()
    sinusoids = getattr(module, kind + "RelPositionalEmbedding")(config)(x).double()
    spec = bearing.read_hf_config(config).layers[0].encoding.replace(first_offset=1 - TIME)
    # Their first row is of the farthest key before the query, ours of the farthest after it.
    r = own.linear_pos(sinusoids[0].flip(0)).unflatten(1, (HEADS, DIM)).transpose(0, 1).contiguous()
    term = bearing.TransformerXLTerm(spec, r, own.pos_bias_u, own.pos_bias_v)
    ours = attend(x, term, (own.linear_q, own.linear_k, own.linear_v), own.linear_out)
    theirs, _ = own(x, relative_position_embeddings=sinusoids)
    assert_same(ours, theirs, [x, own.linear_pos.weight, own.pos_bias_u, own.pos_bias_v, own.linear_k.weight])


def test_seamless_2_has_vectors_that_end_sooner_behind() -> None:
    module = importlib.import_module("transformers.models.seamless_m4t_v2.modeling_seamless_m4t_v2")
    config = tf.SeamlessM4Tv2Config(
        hidden_size=WIDTH, speech_encoder_attention_heads=HEADS, speech_encoder_layers=1,
        left_max_position_embeddings=7, right_max_position_embeddings=3,
    )  # fmt: skip
    config._attn_implementation = "eager"
    own = drawn(module.SeamlessM4Tv2ConformerSelfAttention(config))
    x = rows()
    term = bearing.BertRelativeTerm(bearing.read_hf_config(config).layers[0].encoding, own.distance_embedding.weight)
    ours = attend(x, term, (own.linear_q, own.linear_k, own.linear_v), own.linear_out)
    assert_same(ours, own(x)[0], [x, own.distance_embedding.weight, own.linear_q.weight])


@pytest.mark.parametrize("name", ["LayoutLMv2", "LayoutLMv3"])
def test_layoutlm_adds_three_tables(name: str) -> None:
    module = importlib.import_module(f"transformers.models.{name.lower()}.modeling_{name.lower()}")
    config = getattr(tf, name + "Config")(
        hidden_size=WIDTH, num_attention_heads=HEADS, num_hidden_layers=1, has_relative_attention_bias=True,
        has_spatial_attention_bias=True,
    )  # fmt: skip
    own = drawn(getattr(module, name + "Encoder")(config))
    box = torch.sort(torch.randint(0, 900, (1, TIME, 2, 2)), dim=2).values.flatten(2)
    index = torch.arange(TIME)[None]
    if name == "LayoutLMv2":
        bias = own._calculate_1d_position_embeddings(index) + own._calculate_2d_position_embeddings(box)
    else:
        bias = (own._cal_1d_pos_emb(index) + own._cal_2d_pos_emb(box)) / DIM**0.5
    layer = bearing.read_hf_config(config).layers[0]
    tables = [own.rel_pos_bias.weight, own.rel_pos_x_bias.weight, own.rel_pos_y_bias.weight]
    terms = [
        bearing.T5AxisBias(spec, table.T.contiguous())
        for spec, table in zip([layer.encoding, *layer.also], tables, strict=True)
    ]
    q, k, v = (one.detach().requires_grad_() for one in torch.randn(3, 1, HEADS, TIME, DIM, dtype=torch.float64))
    at = torch.stack([index, box[..., 0], box[..., 3]]).double().numpy()
    ours = bt.attention(q, k, v, terms, mask="none", q_positions=at, k_positions=at)
    theirs = torch.softmax(q @ k.mT / DIM**0.5 + bias, dim=-1) @ v
    assert_same(ours, theirs, [q, k, v])  # their tables are looked up without gradients
