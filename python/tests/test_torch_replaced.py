"""Models with bearing's rotary embedding in place of their own: traced, asked for more than cosines, given coordinates in
other numbers, and embeddings that cannot be measured."""

from __future__ import annotations

import copy
import sys

import pytest
import torch
import transformers
from bearing.torch.hugging_face import replace_rotary
from test_torch_hugging_face import GROUPED, SMALL, llama, one_thread, outputs, tokens

__all__ = ["one_thread"]  # a fixture


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(ids).logits


@pytest.mark.filterwarnings("ignore")  # PyTorch's own, of tracing
def test_a_traced_model_follows_its_input():
    model = replace_rotary(llama())
    with torch.no_grad():
        traced = torch.jit.trace(Logits(model), (tokens(),), check_trace=False)
        ids = tokens()
        assert torch.equal(traced(ids), model(ids).logits)


@pytest.mark.parametrize("name", ["GraniteSWA", "GraniteMoeSWA", "Lfm3"])
def test_models_that_ask_their_embedding_for_more_get_it(name):
    layers = {"layer_types": ["conv", "full_attention"]} if name == "Lfm3" else {}
    config = getattr(transformers, f"{name}Config")(**SMALL, **GROUPED, **layers)
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    ids = tokens()
    own, embedding = outputs(model, ids), model.model.rotary_emb
    ours = outputs(replace_rotary(model), ids)
    torch.testing.assert_close(ours, own, rtol=0, atol=2**-18 * own.abs().max().item())
    replaced = model.model.rotary_emb
    assert replaced.config is embedding.config and not hasattr(replaced, "anything")
    assert copy.deepcopy(replaced).original is not embedding


def test_coordinates_that_come_last_may_be_two_or_three(rotations):
    config = transformers.MiniMaxM3VLVisionConfig(
        hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=4
    )
    model = transformers.MiniMaxM3VLVisionModel(config).eval()
    x, grid = torch.randn(64, 3 * config.temporal_patch_size * 16), torch.tensor([[1, 8, 8]])
    own = model(x, grid).last_hidden_state
    replace_rotary(model)
    rotations.clear()
    ours = model(x, grid).last_hidden_state
    torch.testing.assert_close(ours, own, rtol=0, atol=2**-18 * own.abs().max().item())
    assert len(rotations) == 2
    # Others than a model has: the embedding's own.
    embedding = model.rotary_emb
    at = torch.ones(5, 4, dtype=torch.long)
    for a, b in zip(embedding(own, at), embedding.original(own, at), strict=True):
        assert torch.equal(a, b)


def test_what_cannot_be_measured_is_refused_by_name():
    class Angry(torch.nn.Module):
        inv_freq = torch.ones(4)

        def forward(self, x, position_ids):
            if position_ids.max() > 1:
                raise RuntimeError("no farther")
            cos = (position_ids[..., None] * self.inv_freq).repeat(1, 1, 2)
            return cos.cos(), cos.sin()

    model = llama()
    model.model.AngryRotary = type("AngryRotary", (Angry,), {})()
    modules = dict(model.named_modules())
    with pytest.raises(ValueError, match=r"\[replace_rotary\] model: AngryRotary \(model.AngryRotary\) cannot be"):
        replace_rotary(model)
    assert dict(model.named_modules()) == modules


WAYS = {
    "accelerate's way": lambda x: x.to("cpu", non_blocking=False),
    "by name": lambda x: x.to(device="cpu", copy=True),
    "cpu": lambda x: x.cpu(),
}


@pytest.mark.parametrize("name", WAYS)
def test_layers_whose_inputs_are_moved_turn_by_bearing(name, rotations):
    """As accelerate's hooks move them, where layers lie on several devices."""
    model, ids = llama(), tokens()

    def moved(layer, args, given):
        given["position_embeddings"] = tuple(WAYS[name](x) for x in given["position_embeddings"])
        return args, given

    replace_rotary(model, angles="exact")
    wanted = outputs(model, ids)
    for layer in model.model.layers:
        layer.register_forward_pre_hook(moved, with_kwargs=True)
    rotations.clear()
    assert torch.equal(outputs(model, ids), wanted) and len(rotations) == len(model.model.layers)


def test_angles_are_on_the_device_that_they_are_moved_to():
    embedding = replace_rotary(llama()).model.rotary_emb
    cos, sin = embedding(torch.ones(1), torch.arange(4)[None])
    there = [x.to("meta", non_blocking=True) for x in (cos, sin)]
    assert all(x.at.is_meta and x.own().is_meta for x in there)
    assert there[0].goes_with(there[1]) and not there[0].goes_with(sin) and not there[1].goes_with(there[0])
    assert there[0].to(torch.device("meta")) is there[0] and there[0].to("meta", torch.float64).dtype is torch.float64


def test_a_loaded_model_turns_by_bearing_where_none_was_replaced(tmp_path, monkeypatch):
    """In another process functions are transformers' own until a model is loaded."""
    model, ids = replace_rotary(llama(), angles="exact"), tokens()
    wanted = outputs(model, ids)
    torch.save(model, tmp_path / "model.pt")
    home = sys.modules[type(model.model).__module__]
    own = home.apply_rotary_pos_emb.applies
    monkeypatch.setattr(home, "apply_rotary_pos_emb", own)
    assert not torch.equal(outputs(model, ids), wanted)
    loaded = torch.load(tmp_path / "model.pt", weights_only=False)
    assert home.apply_rotary_pos_emb.applies is own and torch.equal(outputs(loaded, ids), wanted)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_embeddings_are_measured_whatever_the_default_type(dtype, rotations):
    model, ids = llama(), tokens()
    wanted = outputs(replace_rotary(copy.deepcopy(model)), ids)
    torch.set_default_dtype(dtype)
    try:
        replace_rotary(model)
    finally:
        torch.set_default_dtype(torch.float32)
    rotations.clear()
    assert torch.equal(outputs(model, ids), wanted) and rotations


def test_tables_of_frequencies_that_grow_keep_few_rows():
    model = llama(
        rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}, max_position_embeddings=32
    )
    own = copy.deepcopy(model.model.rotary_emb)
    embedding = replace_rotary(model).model.rotary_emb
    apply = sys.modules[type(model.model).__module__].apply_rotary_pos_emb
    x = torch.randn(1, 1, 3000, 16)
    for at, length in [
        (torch.arange(10), (2048, 32)),
        (torch.arange(31, 32), (2048, 32)),
        (torch.arange(40), (40, 40)),
        (torch.arange(3000), (2048, 3000)),
        (torch.arange(3000, 3001), (0, 3001)),
    ]:
        angles, given = embedding(x, at[None]), x[:, :, : len(at)]
        assert angles[0].length[:2] == length
        found, wanted = (apply(given, given, *cosines)[0] for cosines in (angles, own(x, at[None])))
        torch.testing.assert_close(found, wanted, rtol=0, atol=2**-10)  # 3000 angles' roundings of float32
