"""Models with bearing's rotary embedding in place of their own: traced, asked for more than cosines, given coordinates in
other numbers, and embeddings that cannot be measured."""

from __future__ import annotations

import copy

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
