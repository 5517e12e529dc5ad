"""What layers see: windows that are read of a model's file, held against the masks that the model's own code makes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).parent))

import bearing
import bearing.torch as bt
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
