"""Every model of transformers with a rotary embedding that can be built small, with bearing's in its place."""

from __future__ import annotations

import copy
import inspect
import os
import re
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).parent))

import bearing
import pytest
import small
import torch
import transformers
from bearing.torch import ops
from bearing.torch.hugging_face import RotaryEmbedding, replace_rotary, restore_rotary

transformers.logging.set_verbosity_error()


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def rotations(monkeypatch):
    """A list with an entry for each call that bearing has turned."""
    calls = []
    for owner, name in ((ops, "rotate"), (ops, "rotate_now"), (bearing._core, "rotate")):
        own = getattr(owner, name)

        def counting(*args, own=own, **rest):
            calls.append(1)
            return own(*args, **rest)

        monkeypatch.setattr(owner, name, counting)
    return calls


@pytest.mark.parametrize("kind", small.types())
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
    if os.environ.get("BEARING_SHOW"):
        with open(os.environ["BEARING_SHOW"], "a") as file:
            print(repr((kind, sorted(small.own_rotaries(kind) - seen), sorted(refused), sorted(left))), file=file)
        return
    assert small.own_rotaries(kind) - seen == set(NOT_RUN.get(kind, ()))
    assert refused == set(REFUSED.get(kind, ()))
    assert left == set(LEFT.get(kind, ()))


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
