"""Models of transformers, randomly initialised, with bearing's rotary embedding in place of their own."""

from __future__ import annotations

import copy
import importlib
import os
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import bearing
import pytest
import torch
import transformers
from bearing.torch import rotary_angles
from bearing.torch.hugging_face import RotaryEmbedding, replace_rotary, restore_rotary

SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 100,
    "initializer_range": 0.2,  # large enough that attention looks somewhere
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}
TIME = 48
GROUPED = {"num_key_value_heads": 2}
WIDE = {"num_key_value_heads": 2, "head_dim": 16}
TYPES = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 8}
MOE = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
MLA = {
    "num_key_value_heads": 4,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "first_k_dense_replace": 2,
    "n_routed_experts": 4,
    "n_group": 1,
    "topk_group": 1,
}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "factor": 4.0,
    "original_max_position_embeddings": 32,
    "short_factor": [1.0] * 8,
    "long_factor": [1.0 + i for i in range(8)],
}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32}

# What each config has besides SMALL; a name with a space is the class and what is special about its model.
CONFIGS = {
    "Llama": GROUPED,
    "Mistral": GROUPED,
    "Mixtral": GROUPED | {"num_local_experts": 4},
    "Qwen2": GROUPED,
    "Qwen3": WIDE,
    "Qwen3Moe": WIDE | MOE | {"num_experts": 4},
    "Gemma2": WIDE | {"query_pre_attn_scalar": 16, "sliding_window": 8},
    "Gemma3Text": WIDE | TYPES | {"query_pre_attn_scalar": 16},
    "Gemma4Text": WIDE | TYPES | {"global_head_dim": 32, "hidden_size_per_layer_input": 0},
    "Phi": GROUPED | {"partial_rotary_factor": 0.5},
    "Phi3": GROUPED | {"rope_parameters": LONGROPE, "max_position_embeddings": 128},
    "GPTNeoX": {},
    "Cohere": GROUPED,
    "Cohere2": WIDE | TYPES,
    "Glm": WIDE,
    "Glm4Moe": WIDE | MOE | {"first_k_dense_replace": 1, "n_routed_experts": 4, "n_group": 1, "topk_group": 1},
    "Olmo2": GROUPED,
    "Olmo3": GROUPED | TYPES,
    "DeepseekV2": MLA | MOE | {"head_dim": 8},
    "DeepseekV3": MLA | MOE,
    "DeepseekV3 YaRN": MLA | MOE | {"rope_parameters": YARN | {"mscale": 1.0, "mscale_all_dim": 0.5}},
    "StableLm": GROUPED,
    "Falcon": {"alibi": False, "new_decoder_architecture": True, "num_kv_heads": 2},
    "GptOss": WIDE | TYPES | {"num_local_experts": 4, "num_experts_per_tok": 2},
    "NanoChat": GROUPED,
    "Ernie4_5": WIDE,
    "Helium": WIDE,
    "SmolLM3": GROUPED,
    "Granite": GROUPED,
    "Nemotron": GROUPED,
    "Persimmon": {},
    "Llama4Text": WIDE | {"num_local_experts": 2, "intermediate_size_mlp": 96, "moe_layers": [], "layer_types": None},
    "ModernBert": {"layer_types": TYPES["layer_types"], "local_attention": 8},
    "Esm": {"position_embedding_type": "rotary", "mask_token_id": 3},
    "GPTJ": {"rotary_dim": 8},
    "GPTJ whole": {"rotary_dim": 16},
    "CodeGen": {"rotary_dim": 8, "max_position_embeddings": 64},
}
SECTIONS = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
COORDINATES = {
    "Qwen2VLText": GROUPED | {"rope_parameters": SECTIONS},
    "Qwen2_5_VLText": GROUPED | {"rope_parameters": SECTIONS},
    "Qwen3VLText": WIDE | {"rope_parameters": SECTIONS},
    "Glm4vText": GROUPED | {"rope_parameters": SECTIONS},
}
PATCHES = {
    "depth": 2,
    "num_heads": 4,
    "patch_size": 4,
    "temporal_patch_size": 2,
    "spatial_merge_size": 2,
    "initializer_range": 0.2,
    "hidden_size": 64,
    "intermediate_size": 96,
    "out_hidden_size": 64,
}
TOWERS = {
    "Qwen2VLVision": PATCHES | {"embed_dim": 64},
    "Qwen2_5_VLVision": PATCHES | {"window_size": 16, "fullatt_block_indexes": [1]},
    "Qwen3VLVision": PATCHES | {"num_position_embeddings": 64, "deepstack_visual_indexes": [0]},
    "Glm4vVision": PATCHES | {"image_size": 32},
}
ALL = [*CONFIGS, *COORDINATES, *TOWERS]
# Calls of two layers: one layer of Cohere 2 has no positions; these others turn queries and keys one after the other.
TURNS = {"Cohere2": 1} | dict.fromkeys(["Gemma4Text", "GPTJ", "GPTJ whole", "CodeGen"], 4)


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(13)
    yield
    torch.set_num_threads(threads)


def make(name: str) -> torch.nn.Module:
    """A small model that is not trained."""
    kind = name.split()[0]
    config = getattr(transformers, f"{kind}Config")
    if name in TOWERS:
        homes = {"Qwen2VLVision": "Qwen2Vision", "Qwen2_5_VLVision": "Qwen2_5_Vision"}
        home = importlib.import_module(config.__module__.replace("configuration", "modeling"))
        model = getattr(home, f"{homes[name]}TransformerPretrainedModel" if name in homes else f"{kind}Model")
        return model(config(**TOWERS[name])).eval()
    if name in COORDINATES:
        return getattr(transformers, f"{kind}Model")(config(**SMALL, **COORDINATES[name])).eval()
    stem = kind.removesuffix("Text")
    model = getattr(transformers, f"{stem}ForCausalLM", None) or getattr(transformers, f"{stem}ForMaskedLM")
    made = model(config(**(SMALL | CONFIGS[name]))).eval()
    made.set_experts_implementation("eager")  # others have no float64
    return made


def llama(**config):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, **GROUPED, **config)).eval()


def tokens(batch: int = 2, time: int = TIME) -> torch.Tensor:
    return torch.randint(4, 100, (batch, time))


def given(model):
    """What the model is run on."""
    if "Vision" in type(model).__name__:
        return torch.randn(96, 96), torch.tensor([[1, 8, 8], [1, 4, 8]])
    return tokens()


def outputs(model, given):
    if isinstance(given, tuple):
        patches, grid = given
        return model(patches.to(next(model.parameters()).dtype), grid).last_hidden_state
    if "VL" not in type(model).__name__ and "Glm4v" not in type(model).__name__:
        return model(given).logits
    at = torch.randint(200, (3, *given.shape), generator=torch.Generator().manual_seed(1))
    return model(inputs_embeds=model.embed_tokens(given), position_ids=at).last_hidden_state


def assert_as_near(ours, own, exact):
    """Ours is at most twice as far from the same model in float64 as the model's own float32 is."""
    error, own_error = ((x.double() - exact).abs().max().item() for x in (ours, own))
    assert own_error > 0 and error <= 2 * own_error


@pytest.mark.parametrize("name", ALL)
def test_outputs_are_the_same(name, rotations, monkeypatch):
    model = make(name)
    x = given(model)
    own, exact = outputs(model, x), outputs(copy.deepcopy(model).double(), x)
    assert replace_rotary(model) is model
    assert any(isinstance(module, RotaryEmbedding) for module in model.modules())
    rotations.clear()
    # The model's frequencies and angles are float32 in float64 too: what is left are roundings of one kind.
    assert_as_near(outputs(model, x), own, exact)
    assert len(rotations) == TURNS.get(name, 2)
    for few, mode in ((rotary_angles.FEW, torch.inference_mode), (0, torch.no_grad)):
        monkeypatch.setattr(rotary_angles, "FEW", few)
        with mode():
            assert_as_near(outputs(model, x), own, exact)
    assert len(rotations) >= 3 * TURNS.get(name, 2)
    restore_rotary(model)
    assert torch.equal(outputs(model, x), own)


@pytest.mark.parametrize("name", ["Llama", "GPTNeoX", "Qwen2VLText", "Qwen2VLVision"])
def test_exact_angles_change_outputs_by_the_roundings_of_angles(name):
    model = make(name)
    ids = given(model)
    own = outputs(model, ids)
    ours = outputs(replace_rotary(model, angles="exact"), ids)
    # A float32 angle of at most 200 radians is off by 2^-17 at most; sixteen numbers of a score, two layers.
    torch.testing.assert_close(ours, own, rtol=0, atol=2**-12 * own.abs().max().item())


def test_what_else_a_model_does_with_its_cosines_gets_them():
    """By operators too, as hooks and attention of one's own use."""
    model = llama()
    at = torch.arange(TIME)[None]
    own = model.model.rotary_emb(torch.zeros(1), at)
    replace_rotary(model)
    ours = model.model.rotary_emb(torch.zeros(1), at)
    for one, two in zip(ours, own, strict=True):
        assert not isinstance(one, torch.Tensor) and len(one) == len(two)
        for operate in (
            lambda x: x * 2.0, lambda x: 2.0 * x, lambda x: x + 1, lambda x: 1 - x, lambda x: x**2, lambda x: x > 0, lambda x: -x,
            lambda x: x / 3, lambda x: abs(x), lambda x: x * x, lambda x: torch.ones(()) * x, lambda x: x.unsqueeze(1),
        ):  # fmt: skip
            assert torch.equal(operate(one), operate(two))


def test_queries_and_keys_are_turned_to_the_last_bits():
    model = llama()
    q, k, at = torch.randn(2, 4, TIME, 16), torch.randn(2, 2, TIME, 16), torch.randint(5000, (2, TIME))
    apply = sys.modules[type(model.model).__module__].apply_rotary_pos_emb
    own = apply(q, k, *model.model.rotary_emb(q, at))
    replace_rotary(model)
    apply = sys.modules[type(model.model).__module__].apply_rotary_pos_emb
    ours = apply(q, k, *model.model.rotary_emb(q, at))
    for x, y, z in zip(own, ours, (q, k), strict=True):
        # cos and sin within one rounding of each other, two products and a sum: 1.5 * 2^-23, times |x| + |x'|.
        assert ((x - y).abs() <= 1.5 * 2**-23 * 2 * z.abs().max()).all()


@pytest.mark.parametrize("name", ALL)
def test_gradients_are_the_same(name):
    own = make(name).train()
    for module in own.modules():  # layers that drop something at random would drop other things
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    x = given(own)
    exact, ours = copy.deepcopy(own).double(), replace_rotary(copy.deepcopy(own))
    weights = torch.randn_like(outputs(own, x))
    for model in (own, exact, ours):
        (outputs(model, x) * weights).sum().backward()
    parameters = [dict(model.named_parameters()) for model in (ours, own, exact)]
    error, own_error = (
        max((p.grad.double() - parameters[2][name].grad).abs().max().item() for name, p in of.items() if has(p))
        for of in parameters[:2]
    )
    assert own_error > 0 and error <= 2 * own_error


def has(parameter):
    return parameter.grad is not None


SCALINGS = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
    "longrope": {
        "rope_type": "longrope",
        "factor": 4.0,
        "original_max_position_embeddings": 32,
        "short_factor": [1.0] * 8,
        "long_factor": [1.0 + i for i in range(8)],
    },
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
}


@pytest.mark.parametrize("name", SCALINGS)
def test_scalings_are_the_models_own_at_every_length(name):
    config = {"max_position_embeddings": 32 if name == "dynamic" else 128}
    model = llama(rope_parameters={"rope_theta": 1e4, **SCALINGS[name]}, **config)
    ours = replace_rotary(copy.deepcopy(model))
    for time in (10, 40, 48, 44):  # past the trained length and, less far, again
        ids = tokens(time=time)
        own = outputs(model, ids)
        torch.testing.assert_close(outputs(ours, ids), own, rtol=0, atol=2**-18 * own.abs().max().item())


@pytest.mark.parametrize("name", [name for name in CONFIGS if name not in ("ModernBert", "Esm")])
def test_generated_tokens_are_the_same_with_a_cache(name):
    model, prompt = make(name), tokens(2, 9)
    options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0, "output_logits": True}
    own = model.generate(prompt, return_dict_in_generate=True, **options)
    ours = replace_rotary(model).generate(prompt, return_dict_in_generate=True, **options)
    assert torch.equal(ours.sequences, own.sequences)


def test_left_padding_keeps_positions():
    model = llama()
    ids, mask = tokens(2, 12), torch.ones(2, 12, dtype=torch.long)
    mask[0, :5] = 0
    at = (mask.cumsum(1) - 1).clamp(min=0)
    own = model(ids, attention_mask=mask, position_ids=at).logits
    ours = replace_rotary(model)(ids, attention_mask=mask, position_ids=at).logits
    torch.testing.assert_close(ours, own, rtol=0, atol=2**-20 * own.abs().max().item())


@pytest.mark.parametrize("name", ["Llama", "Gemma3Text", "Phi3", "DeepseekV2", "Qwen2VLText", "GPTJ", "CodeGen"])
def test_torch_compile_takes_the_model_whole(name, recwarn):
    model = replace_rotary(make(name))
    at = torch.randint(200, (3, 2, TIME))

    def run(ids):
        if name not in COORDINATES:
            return model(ids).logits
        embedded = model.embed_tokens(ids)
        return model(inputs_embeds=embedded, position_ids=at[:, :, : ids.shape[1]]).last_hidden_state

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        for time in (20, TIME) if name == "Phi3" else (TIME,):  # before and past its trained length
            ids = tokens(time=time)
            eager = run(ids)
            torch.testing.assert_close(compiled(ids), eager, rtol=0, atol=2**-18 * eager.abs().max().item())
            with torch._dynamo.config.patch(error_on_recompile=True):
                compiled(tokens(time=time))
    assert not [str(one.message) for one in recwarn if "lru_cache" in str(one.message)]


@pytest.mark.parametrize("name", ["Llama", "GPTJ", "CodeGen"])
def test_bfloat16_models_run_and_differ_by_their_roundings_alone(name):
    model, ids = make(name).bfloat16(), tokens()
    own = outputs(model, ids).float()
    ours = outputs(replace_rotary(model), ids).float()
    assert ours.dtype is torch.float32
    # The model's own cosines and products are rounded to 8 bits, ours are not.
    assert (ours - own).abs().mean() < 0.05 * own.abs().mean()


@pytest.mark.parametrize("name", ["Llama", "GPTJ"])
def test_models_without_memory_yet_are_measured_by_their_configs(name):
    with torch.device("meta"):
        model = replace_rotary(make(name))
    other = make(name)
    model.load_state_dict(other.state_dict(), assign=True)
    ids = tokens()
    assert torch.equal(outputs(model, ids), outputs(replace_rotary(other), ids))


@pytest.mark.parametrize("kind", ["GPTJ", "CodeGen"])
def test_positions_past_a_table_of_sines_and_cosines_are_turned(kind):
    """The model's own table ends there. Up to its end, which is before 100, nothing differs."""
    made = [
        getattr(transformers, f"{kind}ForCausalLM")(
            getattr(transformers, f"{kind}Config")(**SMALL, rotary_dim=8, max_position_embeddings=longest)
        ).eval()
        for longest in (20, 64)
    ]
    short, long = made
    short.load_state_dict(long.state_dict())
    ids = tokens()
    with pytest.raises(IndexError):
        outputs(short, ids)
    own = outputs(long, ids)
    torch.testing.assert_close(outputs(replace_rotary(short), ids), own, rtol=0, atol=2**-18 * own.abs().max().item())


def test_sines_may_come_before_cosines_for_whatever_else_is_done_with_them():
    model = make("GPTJ")
    at = torch.arange(TIME)[None]
    own = model.transformer.rotary_emb(torch.zeros(1), at)
    ours = replace_rotary(model).transformer.rotary_emb(torch.zeros(1), at)
    apply = sys.modules[type(model).__module__].apply_rotary_pos_emb
    q = torch.randn(1, TIME, 4, 8)
    torch.testing.assert_close(apply(q, *ours), apply(q, *own), rtol=0, atol=2**-20)
    assert torch.equal(apply(q, ours[1], ours[0]), apply(q, own[1], own[0]))  # no rotation by these angles
    assert all(torch.equal(one * 2.0, two * 2.0) for one, two in zip(ours, own, strict=True))


def test_gradient_checkpointing_gives_the_same_gradients():
    model, ids = replace_rotary(llama()).train(), tokens()
    outputs(model, ids).sum().backward()
    own = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    model.activation_checkpointing_enable()
    outputs(model, ids).sum().backward()
    for parameter, grad in zip(model.parameters(), own, strict=True):
        torch.testing.assert_close(parameter.grad, grad)


def test_replacing_twice_is_replacing_once_and_shared_embeddings_stay_shared():
    model = llama()
    model.model.again = model.model.rotary_emb
    own = dict(model.named_modules(remove_duplicate=False))
    replaced = replace_rotary(model).model.rotary_emb
    assert replace_rotary(model).model.rotary_emb is replaced and model.model.again is replaced
    assert dict(restore_rotary(model).named_modules(remove_duplicate=False)) == own


def test_other_angles_the_second_time_count():
    model, ids = llama(), tokens(time=8)
    exact = outputs(replace_rotary(copy.deepcopy(model), angles="exact"), ids)
    twice = replace_rotary(replace_rotary(model), angles="exact")
    assert torch.equal(outputs(twice, ids), exact)
    assert not torch.equal(outputs(replace_rotary(twice), ids), exact)
    assert not any(isinstance(module, RotaryEmbedding) for module in restore_rotary(twice).modules())


@pytest.mark.parametrize("times", [1, 2])
def test_angles_of_another_word_are_refused(times):
    model = llama() if times == 1 else replace_rotary(llama())
    words = r"\[replace_rotary\] angles: must be one of 'exact', 'as_float32', 'fixed_point', got 'nonsense'"
    with pytest.raises(ValueError, match=words):
        replace_rotary(model, angles="nonsense")


@pytest.mark.parametrize("name", ["inv_freq", "attention_scaling"])
def test_what_a_replaced_embedding_was_measured_by_cannot_be_set(name):
    model, ids = llama(), tokens()
    own = outputs(model, ids)
    replaced = replace_rotary(model).model.rotary_emb
    with pytest.raises(AttributeError, match=rf"{name}: must be set before .*restore_rotary\(model\)"):
        setattr(replaced, name, getattr(replaced, name) * 0.5)
    embedding = restore_rotary(model).model.rotary_emb
    setattr(embedding, name, getattr(embedding, name) * 0.5)
    changed = outputs(model, ids)
    assert not torch.allclose(changed, own)
    ours = outputs(replace_rotary(model), ids)
    torch.testing.assert_close(ours, changed, rtol=0, atol=2**-18 * changed.abs().max().item())


def test_models_can_be_pickled(tmp_path):
    model, ids = replace_rotary(llama()), tokens()
    torch.save(model, tmp_path / "model.pt")
    assert torch.equal(outputs(torch.load(tmp_path / "model.pt", weights_only=False), ids), outputs(model, ids))


@pytest.mark.parametrize("functions", [None, [("transformers.models.llama.modeling_llama", "turn_by_angles")]])
def test_models_pickled_elsewhere_can_be_loaded(tmp_path, functions):
    """By a version that named no functions, or beside a transformers that had another one."""
    model, ids = replace_rotary(llama()), tokens()
    wanted = outputs(model, ids)
    embedding = vars(model.model.rotary_emb)
    embedding.pop("functions")
    if functions is not None:
        embedding["functions"] = functions
    torch.save(model, tmp_path / "model.pt")
    again = torch.load(tmp_path / "model.pt", weights_only=False)
    assert again.model.rotary_emb.functions == (functions or [])
    assert torch.equal(outputs(again, ids), wanted)


def test_other_models_of_the_same_kind_keep_their_own():
    model, other, ids = llama(), llama(), tokens()
    own = outputs(other, ids)
    replace_rotary(model)
    assert torch.equal(outputs(other, ids), own)


@pytest.mark.parametrize("name", ["Llama", "Esm"])
def test_copies_and_states_go_on_working(name):
    model, ids = make(name), tokens()
    state = dict(model.state_dict())
    other = copy.deepcopy(replace_rotary(model))
    assert torch.equal(outputs(other, ids), outputs(model, ids))
    assert list(model.state_dict()) == list(state)
    make(name).load_state_dict(model.state_dict())
    model.load_state_dict(state)
    buffers = dict(restore_rotary(model.double()).named_buffers())
    assert {buffer.dtype for name, buffer in buffers.items() if name.endswith("inv_freq")} == {torch.float64}


def test_cosines_are_the_models_own_for_whatever_else_is_done_with_them():
    model = make("Llama")
    x, at = torch.randn(2, 4, 8), torch.arange(4)[None]
    own = model.model.rotary_emb(x, at)
    ours = replace_rotary(model).model.rotary_emb(x, at)
    for a, b in zip(ours, own, strict=True):
        assert torch.equal(a[:, 1:], b[:, 1:]) and torch.equal(-a, -b) and torch.equal(x[..., :1] * a, x[..., :1] * b)
        assert torch.equal(a.unsqueeze(1), b.unsqueeze(1)) and torch.equal(torch.cat([a, a]), torch.cat([b, b]))
        assert a.to("cpu") is a and torch.equal(a.to(torch.float64), b.to(torch.float64)) and a.shape == b.shape


def test_calls_that_are_not_a_rotation_by_an_angle_are_the_models_own():
    model = make("Llama")
    apply = sys.modules[type(model.model).__module__].apply_rotary_pos_emb
    q, at = torch.randn(1, 4, 5, 16), torch.arange(5)[None]
    cos, sin = model.model.rotary_emb(q, at)
    replace_rotary(model)
    ours = model.model.rotary_emb(q, at)
    applied = sys.modules[type(model.model).__module__].apply_rotary_pos_emb
    for swapped, own in (((ours[1], ours[0]), (sin, cos)), ((ours[0], -ours[1]), (cos, -sin))):
        assert torch.equal(applied(q, q, *swapped)[0], apply(q, q, *own)[0])
    one = q[:, :, :1].expand(-1, -1, 5, -1)[:, :, :1]  # a token more or less is broadcast
    assert torch.equal(applied(one, one, *ours)[0], apply(one, one, cos, sin)[0])


REFUSED = {
    "RoFormerModel": ({}, "RoFormerModel has none"),
    "Wav2Vec2ConformerModel": (
        {"position_embeddings_type": "rotary"},
        r"Wav2Vec2ConformerRotaryPositionalEmbedding \(.*\) cannot be replaced: it is called with \(hidden_states\)",
    ),
    "Llama4VisionModel": ({}, r"Llama4VisionRotaryEmbedding \(.*\) cannot be replaced: it is called with"),
    # Its own LongRoPE keeps the short factors at every length.
    "PhimoeModel": (
        {"rope_parameters": LONGROPE | {"short_mscale": 1.0, "long_mscale": 1.0}, "vocab_size": 100} | GROUPED,
        r"PhimoeRotaryEmbedding \(.*\) cannot be replaced: no function of the model",
    ),
    "Gemma4VisionModel": ({}, r"Gemma4VisionRotaryEmbedding \(.*\) cannot be replaced: no function of the model"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_embeddings_are_refused_by_name_and_left_alone(name):
    special, message = REFUSED[name]
    stem = name.removesuffix("ForCausalLM").removesuffix("Model")
    config = getattr(transformers, f"{stem}Config")(
        hidden_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        **special,
    )
    model = getattr(transformers, name)(config)
    before = dict(model.named_modules())
    with pytest.raises(ValueError, match=message):
        replace_rotary(model)
    assert dict(model.named_modules()) == before


def test_a_model_without_a_rotary_embedding_is_refused():
    with pytest.raises(ValueError, match="must have a rotary embedding"):
        replace_rotary(torch.nn.Linear(2, 2))


def test_frequencies_are_those_of_the_embedding_whatever_its_config_says(rotations):
    model, ids = llama(), tokens()
    model.model.rotary_emb.inv_freq.mul_(0.5)
    own = outputs(model, ids)
    ours = outputs(replace_rotary(model), ids)
    torch.testing.assert_close(ours, own, rtol=0, atol=2**-18 * own.abs().max().item())
    assert rotations


def test_a_model_of_which_one_embedding_is_refused_keeps_all():
    class Counting(torch.nn.Module):
        def forward(self, x, position_ids):
            return position_ids, position_ids

    model = llama()
    model.model.CountingRotary = type("CountingRotary", (Counting,), {})()
    with pytest.raises(ValueError, match=r"CountingRotary \(model.CountingRotary\) cannot be replaced: no function"):
        replace_rotary(model)
    assert not any(isinstance(module, RotaryEmbedding) for module in model.modules())
    del model.model.config, model.config  # nothing states frequencies then
    with pytest.raises(ValueError, match=r"it has no frequencies inv_freq, and no config states them"):
        replace_rotary(model)
    assert not any(isinstance(module, RotaryEmbedding) for module in model.modules())


def test_an_embedding_without_frequencies_must_turn_by_those_of_its_config():
    model = make("GPTJ")
    table = model.transformer.rotary_emb.embed_positions
    angles = torch.arange(len(table))[:, None] * 5000.0 ** -torch.arange(0, 1, 0.25)
    table.copy_(torch.cat([angles.sin(), angles.cos()], -1))
    with pytest.raises(ValueError, match=r"GPTJRotaryEmbedding \(transformer.rotary_emb\) cannot be replaced: no func"):
        replace_rotary(model)


def test_trained_frequencies_are_refused():
    model = llama()
    model.model.rotary_emb.alpha = torch.nn.Parameter(torch.ones(()))
    with pytest.raises(
        ValueError,
        match=r"LlamaRotaryEmbedding \(model.rotary_emb\) cannot be replaced: it has numbers of its own .*alpha",
    ):
        replace_rotary(model)


def test_frequencies_change_with_something_else_are_refused():
    model = llama()
    embedding = model.model.rotary_emb
    own = embedding.forward
    embedding.forward = lambda x, position_ids: own(x, position_ids * position_ids)
    with pytest.raises(ValueError, match="no function of the model turns"):
        replace_rotary(model)


def test_specs_come_from_the_configs_that_models_have():
    assert bearing.Rope.from_config(make("GPTNeoX").config).rotary_dim == 4
