"""Relative logits made by content: what bearing reads of Inkling's files adds to scores as the models' own layers do."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import bearing
import bearing.torch as bt
import pytest
import torch
import transformers
from torch import Tensor
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.inkling import modeling_inkling as first
from transformers.models.inkling2 import modeling_inkling2 as second
from transformers.models.inkling2_loop import modeling_inkling2_loop as loop

transformers.logging.set_verbosity_error()

TIME, HIDDEN, RANK, SLIDING, FULL = 13, 24, 5, 0, 5
SIZES: dict[str, Any] = dict(
    hidden_size=HIDDEN,
    num_hidden_layers=6,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=6,
    swa_num_attention_heads=4,
    swa_num_key_value_heads=2,
    swa_head_dim=6,
    sliding_window_size=4,
    rel_extent=7,
    d_rel=RANK,
    log_scaling_n_floor=3,
    log_scaling_alpha=0.7,
)


# The class of a model's config, and its attention: within a window, and full.
MODELS: dict[str, tuple[Any, Any, Any]] = {
    "inkling": (transformers.InklingTextConfig, first.InklingAttention, first.InklingAttention),
    "inkling2": (transformers.Inkling2TextConfig, second.Inkling2SlidingAttention, second.Inkling2FullAttention),
    "inkling2_loop": (
        transformers.Inkling2LoopTextConfig,
        loop.Inkling2LoopSlidingAttention,
        loop.Inkling2LoopFullAttention,
    ),
}


def layer(model: str, index: int) -> tuple[Any, torch.nn.Module]:
    """bearing's layer, and the model's attention with numbers of some size."""
    torch.manual_seed(5)
    made, sliding, full = MODELS[model]
    config = made(**SIZES, **({} if model == "inkling" else {"rel_l2_clip_threshold": 1.5}))
    module: torch.nn.Module = (full if index == FULL else sliding)(config, index)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    config._attn_implementation = "seen"
    return bearing.read_hf_config(config).layers[index], module.double()


def numbers(module: Any) -> list[torch.nn.Parameter]:
    """The rows of distances, transposed, the projection to r and, if r is clipped, its scale."""
    if isinstance(module, first.InklingAttention):
        return [module.rel_logits_proj.proj, module.r_proj.weight]
    bias = module.relative_position_bias
    return [bias.proj, bias.linear.weight, bias.norm.scale]


def run(module: torch.nn.Module, x: Tensor, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the model's attention hands to the function that attends."""
    seen: dict[str, Any] = {}

    def attend(module: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any, **kwargs: Any) -> tuple[Tensor, None]:
        seen.update(kwargs, q=q, k=k, v=v)
        return torch.zeros_like(q).transpose(1, 2), None

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS._global_mapping, "seen", attend)
    # Their code computes in float32 here and there; in float64 nothing is rounded on the way.
    monkeypatch.setattr(torch.Tensor, "float", lambda self: self.double())
    at = torch.arange(TIME)
    more = {"key_hidden_states": x, "value_hidden_states": x, "relative_distance": at[:, None] - at}
    more = {} if isinstance(module, first.InklingAttention) else more
    module(x, attention_mask=None, position_ids=at[None], **more)
    return seen


@pytest.mark.parametrize("index", [SLIDING, FULL])
@pytest.mark.parametrize("model", MODELS)
def test_bias_and_gradients_are_the_models_own(model: str, index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    read, module = layer(model, index)
    spec = read.encoding
    assert (spec.extent, spec.clip) == (7 if index == FULL else 4, None if model == "inkling" else 1.5)
    assert read.window == (0 if index == FULL else 4)
    assert spec.temperature == read.temperature
    assert (spec.temperature is None) == (index == SLIDING)

    x = torch.randn(2, TIME, HIDDEN, dtype=torch.float64)
    theirs = run(module, x, monkeypatch)["position_bias"]
    ours = bt.RelativeLogits(spec, heads=4, d_model=HIDDEN, rank=RANK).double()
    parts = [ours.table, ours.project.weight, *([] if ours.scale is None else [ours.scale])]
    proj, *others = their_parts = numbers(module)
    with torch.no_grad():
        for part, own in zip(parts, (proj.T, *others), strict=True):
            part.copy_(own)
    got = bt.add_scores(ours.encoding(x), torch.zeros_like(theirs))
    torch.testing.assert_close(got, theirs, rtol=0, atol=1e-12)
    if spec.clip is not None:  # some are clipped, some are not
        project, scale = others
        r = (x @ project.T).unflatten(-1, (4, RANK)) * scale
        assert 0.1 < (r.norm(dim=-1) > spec.clip).double().mean() < 0.9

    weights = torch.randn_like(theirs)
    expected = torch.autograd.grad((theirs * weights).sum(), their_parts)
    found = torch.autograd.grad((got * weights).sum(), parts)
    for a, b in zip(found, (expected[0].T, *expected[1:]), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-11)


@pytest.mark.parametrize("index", [SLIDING, FULL])
def test_attention_is_inklings(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    read, module = layer("inkling", index)
    x = torch.randn(2, TIME, HIDDEN, dtype=torch.float64)
    seen = run(module, x, monkeypatch)
    monkeypatch.undo()
    q, k, v = seen["q"], seen["k"], seen["v"]
    at = torch.arange(TIME)
    gap = at[:, None] - at
    hidden = (gap < 0) | (gap >= (read.window or TIME))
    mask = torch.zeros(TIME, TIME, dtype=torch.float64).masked_fill(hidden, -torch.inf)
    expected, _ = first.eager_attention_forward(
        module, q, k, v, mask, scaling=seen["scaling"], position_bias=seen["position_bias"]
    )
    logits = bt.encoding_of(
        bearing.RelativeLogitsTerm(
            read.encoding,
            module.rel_logits_proj.proj.detach().T.contiguous(),
            module.r_proj(x).detach().unflatten(-1, (4, RANK)).transpose(1, 2),
        )
    )
    # Queries have been through the temperature already.
    window = {"window": (read.window - 1, 0)} if read.window else {}
    got = bt.attention(q, k, v, logits, mask="causal", scale=seen["scaling"], **window)
    torch.testing.assert_close(got.transpose(1, 2), expected, rtol=0, atol=1e-6)  # their softmax is in float32


def test_queries_grow_by_the_temperature_that_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for model in MODELS:
        read, module = layer(model, FULL)
        x = torch.randn(1, TIME, HIDDEN, dtype=torch.float64)
        grown = run(module, x, monkeypatch)["q"]
        for one in (module.config, *module.modules()):
            if hasattr(one, "log_scaling_n_floor"):
                one.log_scaling_n_floor = 10**6
        plain = run(module, x, monkeypatch)["q"]
        turned, _ = bt.TemperatureRows(read.temperature)(plain, plain)
        torch.testing.assert_close(turned, grown, rtol=0, atol=1e-12)
        assert (grown - plain).abs().max() > 0.1
