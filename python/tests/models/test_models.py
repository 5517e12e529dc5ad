"""Every model of transformers with a rotary embedding that can be built small, with bearing's in its place. Of models that
have the same code of positions under other names one is run, unless BEARING_EVERY_MODEL is in the environment."""

from __future__ import annotations

import copy
import inspect
import os
import re
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).parent))

import pytest
import small
import torch
import transformers
from bearing.torch.hugging_face import RotaryEmbedding, replace_rotary, restore_rotary

transformers.logging.set_verbosity_error()

# What is in no model that these tests can build and run, by what that needs.
NOT_RUN = {
    # inputs of its own
    "clvp": ["ClvpRotaryPositionalEmbedding"],
    "deepseek_ocr2": ["DeepseekOcr2TextRotaryEmbedding", "DeepseekOcr2VisionRotaryEmbedding"],
    "dots3_note": ["Dots3NoteAudioRotaryEmbedding"],
    "edgetam_video": ["EdgeTamVideoVisionRotaryEmbedding"],
    "gemma4": ["Gemma4VisionRotaryEmbedding"],
    "idefics": ["IdeficsRotaryEmbedding"],
    "muse_glimmer_assistant": ["MuseGlimmerAssistantRotaryEmbedding"],
    "neucodec": ["NeuCodecRotaryEmbedding"],
    "qwen2_5_omni": ["Qwen2_5OmniDiTRotaryEmbedding"],
    "qwen3_omni_moe": ["Qwen3OmniMoeTalkerRotaryEmbedding"],
    "sam2_video": ["Sam2VideoVisionRotaryEmbedding"],
    "sam3_tracker_video": ["Sam3TrackerVideoVisionRotaryEmbedding"],
    "xcodec2": ["Xcodec2RotaryEmbedding"],
    # sizes that depend on each other
    "efficientloftr": ["EfficientLoFTRRotaryEmbedding"],
    "ernie4_5_vl_moe": ["Ernie4_5_VLMoeTextRotaryEmbedding"],
    "esmfold2": ["EsmFold2RotaryEmbedding"],
    "diffusion_gemma": ["DiffusionGemmaTextRotaryEmbedding"],
    "kyutai_speech_to_text": ["KyutaiSpeechToTextRotaryEmbedding"],
    # a package that is not here
    "pe_audio_video": ["PeAudioVideoEncoderRotaryEmbedding"],
    "pe_video": ["PeVideoEncoderRotaryEmbedding"],
    # a config that its own model does not run with
    "dbrx": ["DbrxRotaryEmbedding"],
    "moonshine_streaming": ["MoonshineStreamingRotaryEmbedding"],
}
# Embeddings that replace_rotary refuses, and why.
REFUSED = {
    "eomt_dinov3": ["EomtDinov3RotaryEmbedding"],  # ?
    "hunyuan_vl": ["HunYuanVLRotaryEmbedding"],  # ?
    "llama4": ["Llama4VisionRotaryEmbedding"],  # called without positions
    "mistral_large4": ["MistralLarge4TextRotaryEmbedding"],  # a learned alpha
    "musicflamingo": ["MusicFlamingoRotaryEmbedding"],  # called with time stamps
    "seamless_m4t": ["SeamlessM4TConformerRotaryPositionalEmbedding"],  # called without positions
    "wav2vec2_bert": ["Wav2Vec2BertRotaryPositionalEmbedding"],  # called without positions
    "wav2vec2_conformer": ["Wav2Vec2ConformerRotaryPositionalEmbedding"],  # called without positions
}
# Folders with a model that lacks a check: it generates nothing from tokens alone; takes no padding; is replaced, and turns by
# the cosines that it gets in a way of its own.
WITHOUT = {
    "tokens": """
    blt chameleon cohere_compass cosmos3_edge csm dia dots3_note embedding_gemma2 ernie4_5_vl_moe esm esmc
    eurobert evolla exaone4_5 glm4v glm4v_moe glm5_next glm_image glm_ocr glmasr gradium_phonon_tts
    granite4_vision granite_docling gte higgs_audio_v2 hy_v4_vl inkling2 jina_embeddings_v3 kimi_k25 lasr lfm3_vl mimi
    minimax_m3_vl mlcd modernbert molmo2 moonshine muse_glimmer muse_spark nemotron3_5_transcribe
    nemotron3_diarization neomme nomic_bert openai_privacy_filter paddleocr_vl pe_audio pixtral pocket_tts
    pocket_tts_audio_tokenizer qwen2_5_omni qwen2_5_vl qwen2_vl qwen3_5 qwen3_5_moe qwen3_omni_moe qwen3_vl
    qwen3_vl_moe qwen4_exp sam3 step3p7 t5gemma t5gemma2 timesfm2_5 ultrabert unlimited_ocr video_llama_3
    voxtral_realtime
    """.split(),
    "padding": """
    blt cohere_compass dots3_note ernie4_5_vl_moe esm exaone4_5 glm4v glm4v_moe glm5_next glm_ocr glmasr lasr
    lfm3_vl mimi minimax_m3_vl mlcd moonshine muse_glimmer muse_spark nemotron3_5_transcribe
    nemotron3_diarization pe_audio pixtral pocket_tts_audio_tokenizer qwen2_5_omni qwen2_5_vl qwen2_vl qwen3_5
    qwen3_5_moe qwen3_omni_moe qwen3_vl qwen3_vl_moe qwen4_exp sam3 step3p7 t5gemma t5gemma2 timesfm2_5
    voxtral_realtime
    """.split(),
    "turned": """
    inkling2 lasr mlcd qwen4_exp
    """.split(),
}


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("kind", small.types() if "BEARING_EVERY_MODEL" in os.environ else small.distinct_types())
def test_a_model_is_the_same_or_refused_and_untouched(kind, rotations):
    seen, refused, left = set(), set(), set()
    for model, given in small.models(kind):
        seen |= small.rotaries(model)
        with torch.no_grad():
            own = small.run(model, given)
        ours = copy.deepcopy(model)
        modules = dict(ours.named_modules())
        try:
            replace_rotary(ours)
        except ValueError as error:
            named = re.match(r"\[replace_rotary\] model: (\w+) ", str(error))
            assert named, error
            refused.add(named[1])
            assert dict(ours.named_modules()) == modules
            with torch.no_grad():
                assert torch.equal(small.run(ours, given), own)
            continue
        assert any(isinstance(module, RotaryEmbedding) for module in ours.modules())
        rotations.clear()
        with torch.no_grad():
            assert_near(small.run(ours, given), own)
        left |= set() if rotations else {"turned"}
        left |= same_gradients(model, ours, given) | same_padding(model, ours, given) | same_tokens(model, ours, given)
        restore_rotary(ours)
        with torch.no_grad():
            assert torch.equal(small.run(ours, given), own)
    assert small.own_rotaries(kind) - seen == set(NOT_RUN.get(kind, ()))
    assert refused == set(REFUSED.get(kind, ()))
    assert left == {check for check, kinds in WITHOUT.items() if kind in kinds}


def test_most_models_are_replaced():
    kinds = small.types()
    assert len(kinds) == 203  # of transformers 5.24
    not_run = [kind for kind in kinds if small.own_rotaries(kind) <= set(NOT_RUN.get(kind, ()))]
    refused = [kind for kind in kinds if small.own_rotaries(kind) <= set(REFUSED.get(kind, ()))]
    assert len(kinds) - len(not_run) - len(refused) >= 173
    assert len(kinds) - len(WITHOUT["tokens"]) >= 120


def assert_near(ours, own, rows=slice(None)):
    """Roundings of float32 through two or three layers: 2^-24 of the largest, some thousand times over at most. Other
    angles change these models by a tenth."""
    torch.testing.assert_close(ours[rows], own[rows], rtol=0, atol=2**-13 * own[rows].abs().max().item())


def same_gradients(model, ours, given):
    outs = [small.run(one, given) for one in (ours, model)]
    if not outs[1].requires_grad:
        return {"gradients"}
    weights = torch.randn_like(outs[0])
    found = []
    for one, out in zip((ours, model), outs, strict=True):
        one.zero_grad()
        (out * weights).sum().backward()
        found.append({name: p.grad for name, p in one.named_parameters() if p.grad is not None})
    assert found[0].keys() == found[1].keys()
    largest = max(grad.abs().max().item() for grad in found[1].values())
    for name, grad in found[1].items():
        torch.testing.assert_close(found[0][name], grad, rtol=0, atol=2**-12 * largest)
    return set()


def same_padding(model, ours, given):
    """Padding on the left, of the first sequence; what stands in it counts for nobody."""
    parameters = inspect.signature(type(model).forward).parameters
    if given.keys() != {"input_ids"} or "attention_mask" not in parameters:
        return {"padding"}
    mask = torch.ones(given["input_ids"].shape[:2], dtype=torch.long)
    mask[0, :5] = 0
    padded = given | {"attention_mask": mask}
    if "position_ids" in parameters:
        padded["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
    try:
        with torch.no_grad():
            own = small.run(model, padded)
    except Exception:  # a model that takes no such mask or positions
        return {"padding"}
    with torch.no_grad():
        assert_near(small.run(ours, padded), own, mask.bool() if own.shape[:2] == mask.shape else slice(None))
    return set()


def same_tokens(model, ours, given):
    if not type(model).__name__.endswith("ForCausalLM") or "input_ids" not in given:
        return {"tokens"}
    options = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    try:
        own = model.generate(given["input_ids"], **options)
    except Exception:  # a model that cannot generate from tokens alone
        return {"tokens"}
    assert torch.equal(ours.generate(given["input_ids"], **options), own)
    return set()
