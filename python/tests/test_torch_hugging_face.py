"""Models of transformers, randomly initialised, with bearing's rotary embedding in place of their own."""

from __future__ import annotations

import copy
import os
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import bearing
import pytest
import torch
from bearing.torch.hugging_face import RotaryEmbedding, replace_rotary, restore_rotary

transformers = pytest.importorskip("transformers")
from transformers import (  # noqa: E402
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2VLTextConfig,
    Qwen2VLTextModel,
)

SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 100,
    "initializer_range": 0.2,  # large enough that attention looks somewhere
    "bos_token_id": None,
    "eos_token_id": None,
}
TIME = 48


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(13)
    yield
    torch.set_num_threads(threads)


def llama(**config):
    return LlamaForCausalLM(LlamaConfig(**SMALL, num_key_value_heads=2, **config)).eval()


def gpt_neox():
    return GPTNeoXForCausalLM(GPTNeoXConfig(**SMALL)).eval()


def qwen2_vl():
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
    return Qwen2VLTextModel(Qwen2VLTextConfig(**SMALL, num_key_value_heads=2, rope_parameters=rope)).eval()


def tokens(batch: int = 2, time: int = TIME) -> torch.Tensor:
    return torch.randint(100, (batch, time))


def outputs(model, ids):
    if not isinstance(model, Qwen2VLTextModel):
        return model(ids).logits
    at = torch.randint(200, (3, *ids.shape), generator=torch.Generator().manual_seed(1))
    return model(inputs_embeds=model.embed_tokens(ids), position_ids=at).last_hidden_state


def assert_as_near(ours, own, exact):
    """Ours is at most twice as far from the same model in float64 as the model's own float32 is."""
    error, own_error = ((x.double() - exact).abs().max().item() for x in (ours, own))
    assert own_error > 0 and error <= 2 * own_error


@pytest.mark.parametrize("make", [llama, gpt_neox, qwen2_vl])
def test_logits_are_the_same(make):
    model, ids = make(), tokens()
    own, exact = outputs(model, ids), outputs(copy.deepcopy(model).double(), ids)
    assert replace_rotary(model) is model
    assert any(isinstance(module, RotaryEmbedding) for module in model.modules())
    # The model's frequencies and angles are float32 in float64 too: what is left are roundings of one kind.
    assert_as_near(outputs(model, ids), own, exact)
    restore_rotary(model)
    assert torch.equal(outputs(model, ids), own)


@pytest.mark.parametrize("make", [llama, gpt_neox, qwen2_vl])
def test_exact_angles_change_logits_by_the_roundings_of_angles(make):
    model, ids = make(), tokens()
    own = outputs(model, ids)
    ours = outputs(replace_rotary(model, angles="exact"), ids)
    # A float32 angle of at most 200 radians is off by 2^-17 at most; sixteen numbers of a score, two layers.
    torch.testing.assert_close(ours, own, rtol=0, atol=2**-12 * own.abs().max().item())


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


@pytest.mark.parametrize("make", [llama, gpt_neox, qwen2_vl])
def test_gradients_are_the_same(make):
    own, ids = make().train(), tokens()
    exact, ours = copy.deepcopy(own).double(), replace_rotary(copy.deepcopy(own))
    weights = torch.randn_like(outputs(own, ids))
    for model in (own, exact, ours):
        (outputs(model, ids) * weights).sum().backward()
    parameters = [dict(model.named_parameters()) for model in (ours, own, exact)]
    for name in parameters[0]:
        assert parameters[0][name].grad.any(), name
        assert_as_near(*(of[name].grad for of in parameters))


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


def test_generated_tokens_are_the_same_with_a_cache():
    model, prompt = llama(), tokens(1, 9)
    options = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0}
    own = model.generate(prompt, **options)
    assert torch.equal(replace_rotary(model).generate(prompt, **options), own)


def test_left_padding_keeps_positions():
    model = llama()
    ids, mask = tokens(2, 12), torch.ones(2, 12, dtype=torch.long)
    mask[0, :5] = 0
    at = (mask.cumsum(1) - 1).clamp(min=0)
    own = model(ids, attention_mask=mask, position_ids=at).logits
    ours = replace_rotary(model)(ids, attention_mask=mask, position_ids=at).logits
    torch.testing.assert_close(ours, own, rtol=0, atol=2**-20 * own.abs().max().item())


def test_torch_compile_takes_the_model_whole():
    model, ids = replace_rotary(llama()), tokens()
    with torch.no_grad():
        eager = outputs(model, ids)
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")(ids).logits
    torch.testing.assert_close(compiled, eager, rtol=0, atol=2**-18 * eager.abs().max().item())


def test_bfloat16_models_run_and_differ_by_their_roundings_alone():
    model, ids = llama().bfloat16(), tokens()
    own = outputs(model, ids).float()
    ours = outputs(replace_rotary(model), ids).float()
    assert ours.dtype is torch.float32
    # The model's own cosines and products are rounded to 8 bits, ours are not.
    assert (ours - own).abs().mean() < 0.05 * own.abs().mean()


def test_other_models_of_the_same_kind_keep_their_own():
    model, other, ids = llama(), llama(), tokens()
    own = outputs(other, ids)
    replace_rotary(model)
    assert torch.equal(outputs(other, ids), own)


def test_copies_and_states_go_on_working():
    model, ids = replace_rotary(llama()), tokens()
    other = copy.deepcopy(model)
    assert torch.equal(outputs(other, ids), outputs(model, ids))
    llama().load_state_dict(model.state_dict())


def test_a_model_without_a_rotary_embedding_is_refused():
    with pytest.raises(ValueError, match="must have a rotary embedding"):
        replace_rotary(torch.nn.Linear(2, 2))


def test_a_model_that_does_not_turn_as_its_config_says_is_refused_and_left_alone():
    model = llama()
    model.model.rotary_emb.inv_freq.mul_(1.5)
    with pytest.raises(ValueError, match="does not turn as its config says"):
        replace_rotary(model)
    assert not any(isinstance(module, RotaryEmbedding) for module in model.modules())


def test_specs_come_from_the_configs_that_models_have():
    assert bearing.Rope.from_config(gpt_neox().config).rotary_dim == 4
