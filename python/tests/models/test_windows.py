"""What layers see: windows that are read of a model's file, held against the masks that the model's own code makes."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).parent))

import bearing
import bearing.torch as bt
import numpy as np
import pytest
import small
import torch
import transformers
from torch import Tensor, nn
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

transformers.logging.set_verbosity_error()

TIME = 40
# What is set in the configs of a class beside small sizes.
SET: dict[str, dict[str, Any]] = {
    "ModernBertModel": {"local_attention": 9},
    "ModernBertDecoderModel": {"local_attention": 9},
    "Gemma3TextModel": {"use_bidirectional_attention": True},
    "Gemma4TextModel": {"use_bidirectional_attention": "all"},
    "Gemma4UnifiedTextModel": {"use_bidirectional_attention": "all"},
    "T5Gemma2TextEncoder": {"dropout_rate": 0.0},
    "Llama4TextModel": {"attention_chunk_size": 9},
}
BOTH_WAYS = """
    EmbeddingGemma2TextModel Gemma3TextModel Gemma4TextModel Gemma4UnifiedTextModel ModernBertModel NeoMMEModel
    OpenAIPrivacyFilterModel T5Gemma2TextEncoder UltrabertModel
    """.split()
BACK = """
    Cohere2Model Gemma2Model GptOssModel LaraMiniModel MistralModel ModernBertDecoderModel MuseGlimmerTextModel
    Olmo3Model Phi3Model Qwen2Model VoxtralRealtimeEncoder
    """.split()


def kinds() -> dict[str, type]:
    folders = {one: small.classes(one) for one in small.types()}
    return {one.__name__: one for found in folders.values() for one in found}


@pytest.fixture(scope="module")
def models() -> dict[str, type]:
    return kinds()


@pytest.fixture
def masks(monkeypatch: pytest.MonkeyPatch) -> list[Tensor | None]:
    """The masks that attention gets in a call, one of each layer."""
    seen: list[Tensor | None] = []

    def attend(module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, **given: Any) -> Any:
        seen.append(mask)
        return torch.zeros(*q.shape[:-1], v.shape[-1]).transpose(1, 2), None

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS._global_mapping, "seen", attend)
    eager = ALL_MASK_ATTENTION_FUNCTIONS._global_mapping["eager"]
    monkeypatch.setitem(ALL_MASK_ATTENTION_FUNCTIONS._global_mapping, "seen", eager)
    return seen


def config_of(made_of: type, **more: Any) -> Any:
    """A small config: a window of 9 tokens, in each kind of layer that the class has."""
    sizes = small.shrunk(made_of, small.SPECIAL.get(made_of.__module__.split(".")[-2], {}), False)
    if "local_attention" in more:
        sizes.pop("sliding_window", None)
    elif "sliding_window" in sizes or "sliding_window" in vars(made_of()):
        sizes["sliding_window"] = 9
    if hasattr(made_of(), "use_sliding_window"):
        sizes |= {"use_sliding_window": True, "layer_types": ["sliding_attention", "full_attention"]}
    return made_of(**sizes, **{name: value for name, value in more.items() if name not in sizes})


def run(model: nn.Module) -> None:
    with torch.no_grad():
        if model.main_input_name == "input_ids":
            model(input_ids=torch.randint(4, 100, (1, TIME)))
        else:
            model(inputs_embeds=torch.randn(1, TIME, model.config.hidden_size))


def seen_by(mask: Tensor | None) -> tuple[int, int] | None:
    """How many tokens a query in the middle sees before it, with its own, and after it; None if all."""
    if mask is None:
        return None
    row = mask[0, 0, TIME // 2, :TIME]
    at = (row if row.dtype is torch.bool else row > -1).nonzero().flatten() - TIME // 2
    return 1 - int(at.min()), int(at.max())


def sees(layer: Any, mask: str) -> Tensor:
    """Which keys attention's queries see with what a layer says: [TIME, TIME]. All scores are alike, and v is one-hot."""
    alike = torch.zeros(1, 1, TIME, 8)
    window, band = layer.attention_window, layer.attention_band
    return bt.attention(alike, alike, torch.eye(TIME)[None, None], mask=mask, window=window, band=band)[0, 0] > 0


def layers_of(config: Any) -> Iterator[Any]:
    for layer in bearing.read_hf_config(config).layers:
        if layer.type not in ("linear_attention", "conv"):
            yield layer


@pytest.mark.parametrize("name", [*BOTH_WAYS, *BACK])
def test_windows_are_those_of_the_models_masks(name: str, models: dict[str, type], masks: list[Tensor | None]) -> None:
    one = models[name]
    config = config_of(one.config_class, **SET.get(name, {}))
    layers = list(layers_of(config))
    for part in (config, *(v for v in vars(config).values() if isinstance(v, transformers.PretrainedConfig))):
        part._attn_implementation = "seen"
    run(one(config).eval())
    assert any(layer.window for layer in layers)
    assert any(layer.window_after for layer in layers) == (name in BOTH_WAYS)
    assert len(masks) == len(layers)
    for layer, mask in zip(layers, masks, strict=True):
        if layer.window:
            assert (layer.window, layer.window_after) == seen_by(mask)
        else:
            assert seen_by(mask) in (None, (TIME // 2 + 1, 0), (TIME // 2 + 1, TIME - TIME // 2 - 1))


def test_the_encoder_of_t5gemma_looks_both_ways(models: dict[str, type], masks: list[Tensor | None]) -> None:
    made_of = models["T5GemmaModel"].config_class
    config = config_of(made_of)
    model = bearing.read_hf_config(config)
    for part in (config, config.encoder, config.decoder):
        part._attn_implementation = "seen"
    ids = torch.randint(4, 100, (1, TIME))
    with torch.no_grad():
        models["T5GemmaModel"](config).eval()(input_ids=ids, decoder_input_ids=ids)
    (encoder,) = [tower for tower in model.towers if tower.part == "encoder"]
    assert encoder.layers[0].window_after > 0
    assert (encoder.layers[0].window, encoder.layers[0].window_after) == seen_by(masks[0])
    assert (model.layers[0].window, model.layers[0].window_after) == seen_by(masks[len(encoder.layers)])


@pytest.mark.parametrize(
    ("name", "kinds_of_layers"),
    [
        ("ModernBertModel", {"full_attention", "sliding_attention"}),
        ("Gemma3TextModel", {"full_attention", "sliding_attention"}),
        ("MistralModel", {"sliding_attention"}),
        ("Llama4TextModel", {"full_attention", "chunked_attention"}),
    ],
)
def test_attention_sees_what_the_models_masks_show(
    name: str, kinds_of_layers: set[str], models: dict[str, type], masks: list[Tensor | None]
) -> None:
    one = models[name]
    config = config_of(one.config_class, **(SET.get(name, {}) | {"num_hidden_layers": 4, "layer_types": None}))
    if name == "Gemma3TextModel":
        config.layer_types = ["sliding_attention", "full_attention"][: config.num_hidden_layers]
    if name == "Llama4TextModel":
        config.layer_types = ["chunked_attention", "full_attention"][: config.num_hidden_layers]
        config.no_rope_layers = [1, 0][: config.num_hidden_layers]
    config._attn_implementation = "seen"
    layers = list(layers_of(config))
    run(one(config).eval())
    assert {layer.type for layer in layers} == kinds_of_layers
    for layer, mask in zip(layers, masks, strict=True):
        both_ways = name in BOTH_WAYS
        shown = torch.ones(TIME, TIME, dtype=torch.bool) if mask is None else mask[0, 0, :, :TIME]
        shown = shown if shown.dtype is torch.bool else shown > -1
        assert torch.equal(sees(layer, "none" if both_ways else "causal"), shown), layer.type
        assert (layer.attention_window is None) == (layer.type != "sliding_attention")
        assert (layer.attention_band is None) == (layer.type != "chunked_attention")


def model_of(kind: str, **sizes: Any) -> tuple[Any, nn.Module]:
    """A config and a module of a class of transformers, in eval mode."""
    folder = {"Moonshine": "moonshine_streaming", "Nemotron": "nemotron_asr_streaming"}.get(kind, kind)
    package = f"transformers.models.{folder}"
    module = importlib.import_module(f"{package}.modeling_{folder}")
    name = {"Moonshine": "MoonshineStreamingEncoder", "Nemotron": "NemotronAsrStreamingEncoder"}[kind]
    config = getattr(importlib.import_module(f"{package}.configuration_{folder}"), name + "Config")(**sizes)
    config._attn_implementation = "eager"
    return config, getattr(module, name)(config).eval()


def masks_of(model: nn.Module, **given: Any) -> list[Tensor]:
    """The masks that a model's layers get in a call: what they hide is false."""
    seen: list[Tensor] = []
    hooks = [
        layer.register_forward_pre_hook(lambda m, a, named: seen.append(named["attention_mask"]), with_kwargs=True)
        for layer in model.layers
    ]
    with torch.no_grad():
        model(**given)
    for hook in hooks:
        hook.remove()
    return [mask if mask.dtype is torch.bool else mask > -1 for mask in seen]


@pytest.mark.parametrize(("window", "ahead"), [(9, 3), (10, 0), (8, 6)])
def test_nemotrons_frames_see_the_chunks_of_its_own_mask(window: int, ahead: int) -> None:
    sizes = dict(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, num_mel_bins=16,
        subsampling_conv_channels=4,
    )  # fmt: skip
    config, model = model_of("Nemotron", **sizes, sliding_window=window, default_num_lookahead_tokens=ahead)
    (mask,) = masks_of(model, input_features=torch.randn(1, 8 * TIME, 16))
    (layer,) = bearing.read_hf_config(config).layers
    shown = mask[0, 0, :TIME, :TIME]
    assert shown.shape == (TIME, TIME) and torch.equal(sees(layer, "none"), shown)


def test_moonshine_streaming_has_the_windows_of_its_own_masks() -> None:
    sizes = dict(
        hidden_size=16, intermediate_size=16, num_attention_heads=2, num_key_value_heads=2, num_hidden_layers=3
    )
    config, model = model_of("Moonshine", **sizes, sliding_windows=[[4, 2], [5, 0], [3, 1]])
    sound = torch.randn(1, 4 * 80 * TIME)
    masks = masks_of(model, input_values=sound, attention_mask=torch.ones_like(sound, dtype=torch.long))
    layers = bearing.read_hf_config(config).layers
    assert len(masks) == 3
    for layer, mask in zip(layers, masks, strict=True):
        assert torch.equal(sees(layer, "none"), mask[0, 0, :TIME, :TIME])


@pytest.mark.parametrize("width", [8, 9])
def test_esmfold2s_atoms_see_half_of_the_window_on_each_side(width: int) -> None:
    module = importlib.import_module("transformers.models.esmfold2.modeling_esmfold2")
    configs = importlib.import_module("transformers.models.esmfold2.configuration_esmfold2")
    config = configs.EsmFold2Config(sliding_window=width)
    config._attn_implementation = "eager"
    there = type("Atoms", (), {"config": config})()
    atoms, rows = torch.ones(1, TIME, dtype=torch.bool), torch.zeros(1, TIME, 8)
    mask = module.EsmFold2AtomEncoder.build_attention_mask(there, atoms, rows)[0, 0]
    towers = [one for one in bearing.read_hf_config(config).towers if one.model_type == "esmfold2_atoms"]
    assert len(towers) == 2
    for tower in towers:
        assert torch.equal(sees(tower.layers[0], "none"), mask if mask.dtype is torch.bool else mask > -1)


@pytest.mark.parametrize("widths", [[4, 8], 6])
def test_longformer_sees_half_of_its_number_on_each_side(widths: Any) -> None:
    sizes = dict(vocab_size=32, hidden_size=16, num_attention_heads=2, num_hidden_layers=2, intermediate_size=16)
    config = transformers.LongformerConfig(**sizes, attention_window=widths, max_position_embeddings=80)
    layers = bearing.read_hf_config(config).layers
    model = transformers.LongformerModel(config).eval()
    with torch.no_grad():
        found = model(torch.randint(4, 30, (1, TIME)), output_attentions=True).attentions
    for layer, weights in zip(layers, found, strict=True):
        side = (weights.shape[-1] - 1) // 2  # a column for each offset, from -side to side
        shown = torch.zeros(TIME, TIME, dtype=torch.bool)
        for i in range(TIME):
            near = torch.arange(max(0, i - side), min(TIME, i + side + 1))
            shown[i, near] = weights[0, 0, i, near - i + side] > 0
        assert side == layer.window_after and torch.equal(sees(layer, "none"), shown)


@pytest.mark.parametrize("kind", ["qwen2_5_omni", "qwen3_omni_moe"])
def test_qwens_sound_begins_again_in_every_chunk(kind: str) -> None:
    module = importlib.import_module(f"transformers.models.{kind}.modeling_{kind}")
    configs = importlib.import_module(f"transformers.models.{kind}.configuration_{kind}")
    second = kind == "qwen2_5_omni"
    name = "Qwen2_5OmniAudioEncoder" if second else "Qwen3OmniMoeAudioEncoder"
    # Qwen3 counts 13 frames of every chunk, whatever n_window says: 50 alone runs.
    half, more = (5, {}) if second else (50, {"n_window_infer": 200, "downsample_hidden_size": 4})
    config = getattr(configs, name + "Config")(
        d_model=16, encoder_layers=1, encoder_attention_heads=2, encoder_ffn_dim=16, num_mel_bins=16, n_window=half,
        max_source_positions=100, output_dim=16, **more,
    )  # fmt: skip
    model = getattr(module, name)(config).eval()
    found: dict[str, Any] = {}

    def keep(layer: nn.Module, given: Any, named: Any) -> None:
        found["rows"] = (given[0] if given else named["hidden_states"]).clone()
        found["blocks"] = named["cu_seqlens"] if "cu_seqlens" in named else given[1]

    model.layers[0].register_forward_pre_hook(keep, with_kwargs=True)
    with torch.no_grad():
        for part_name, part in model.named_parameters():
            if part_name.startswith("conv"):
                part.zero_()  # what is left are the positions' rows
        time = 2 * half * 5
        lengths = {"aftercnn_lens": torch.tensor([time // 2])} if second else {}
        model(torch.randn(16, time), feature_lens=torch.tensor([time]), **lengths)
    told = bearing.read_hf_config(config)
    rows, blocks = found["rows"].reshape(-1, 16), found["blocks"].tolist()
    chunk = int(re.fullmatch(r"index of the frame in its own chunk of (\d+) frames", told.inputs[0].positions)[1])
    places = np.arange(len(rows)) % chunk
    wanted = bearing.inputs(bearing.SinusoidalInputs(told.inputs[0].encoding), places.astype(np.int64))
    np.testing.assert_allclose(wanted, rows, rtol=0, atol=2**-20)
    band = told.layers[0].attention_band
    alike = torch.zeros(1, 1, len(rows), 8)
    seen = bt.attention(alike, alike, torch.eye(len(rows))[None, None], mask="none", band=band)[0, 0] > 0
    own = torch.bucketize(torch.arange(len(rows)), torch.tensor(blocks[1:]), right=True)
    assert torch.equal(seen, own[:, None] == own)


@pytest.mark.parametrize("kind", ["TimeSeriesTransformer", "Informer", "Autoformer"])
def test_forecasts_count_on_from_what_came_before(kind: str) -> None:
    more = {"label_length": 3} if kind == "Autoformer" else {}
    config = getattr(transformers, kind + "Config")(
        prediction_length=4, context_length=12, lags_sequence=[1, 2], num_time_features=1, d_model=16, encoder_layers=1,
        decoder_layers=1, encoder_ffn_dim=16, decoder_ffn_dim=16, encoder_attention_heads=2, decoder_attention_heads=2, **more,
    )  # fmt: skip
    model = getattr(transformers, kind + "Model")(config).eval()
    found: dict[str, Tensor] = {}
    for part in ("encoder", "decoder"):
        table = getattr(model, part).embed_positions
        table.register_forward_hook(lambda m, a, out, part=part: found.__setitem__(part, out))
    past, future = 12 + 2, 4
    with torch.no_grad():
        model(
            past_values=torch.randn(1, past), past_time_features=torch.randn(1, past, 1),
            past_observed_mask=torch.ones(1, past), future_values=torch.randn(1, future),
            future_time_features=torch.randn(1, future, 1),
        )  # fmt: skip
    for one in bearing.read_hf_config(config).inputs:
        rows = bearing.inputs(bearing.SinusoidalInputs(one.encoding), one.first_position, len(found[one.part]))
        np.testing.assert_allclose(rows, found[one.part], rtol=0, atol=2**-20)
