"""A whole model of transformers with the repository of scripts/hub in its rotary slot, by transformers' own door:
``set_use_kernels`` and ``KernelConfig``. Decorators of the model decide when it is imported, so this is a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import warnings
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from place import INTERPRETED

os.environ.setdefault("HF_HUB_OFFLINE", "1")
pytest.importorskip("kernels")
import_utils = pytest.importorskip("transformers.utils.import_utils")
if not import_utils.is_kernels_available():
    # transformers asks for a newer version than the registries may have; what it takes from the package is there.
    warnings.warn(
        f"transformers takes kernels from {import_utils.KERNELS_MIN_VERSION} on and is given {version('kernels')}",
        stacklevel=1,
    )
    import transformers.utils

    for module in (import_utils, transformers.utils):
        module.is_kernels_available = lambda *_: True
hub = pytest.importorskip("transformers.integrations.hub_kernels")
llama = pytest.importorskip("transformers.models.llama.modeling_llama")
kernel_config = pytest.importorskip("transformers.utils.kernel_config")
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    subprocess.run([ROOT / "scripts/hub", folder], check=True, capture_output=True)
    return folder


def model(device):
    torch.manual_seed(1)
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "vocab_size": 16}
    config = llama.LlamaConfig(num_attention_heads=4, num_key_value_heads=2, attn_implementation="eager", **sizes)
    return llama.LlamaForCausalLM(config).to(device)


def step(model, device):
    """Logits and all gradients."""
    ids = torch.arange(12, device=device).reshape(2, 6) % 16
    logits = model(ids).logits
    return [logits, *torch.autograd.grad(logits.square().sum(), list(model.parameters()))]


def generated(model, device):
    ids = torch.arange(5, device=device)[None]
    return model.generate(ids, max_new_tokens=4, do_sample=False, pad_token_id=0)


@pytest.fixture(scope="module")
def own(device):
    """What the model gives by its own function, before any model has another: a function is one for all models."""
    return step(model(device).train(), device), generated(model(device).eval(), device)


def kernelized(model, folder, monkeypatch):
    """As a user of transformers asks for it; the launches that follow."""
    if INTERPRETED:  # transformers has no such slot on the CPU, where the interpreter works
        types = [*kernel_config.KERNELS_SUPPORTED_DEVICE_TYPES, "cpu"]
        monkeypatch.setattr(kernel_config, "KERNELS_SUPPORTED_DEVICE_TYPES", types)
    wanted = {"rotary_pos_emb": f"{folder}:apply_rotary_transformers"}
    model.set_use_kernels(True, kernel_config.KernelConfig(wanted, use_local_kernel=True))
    rotary = model.model.layers[0].self_attn._kernel_funcs["rotary_pos_emb"]
    home = rotary.forward.__func__.__globals__
    launches, launch = [], home["apply_rotary_transformers"]
    monkeypatch.setitem(home, "apply_rotary_transformers", lambda *args: launches.append(1) or launch(*args))
    return launches


def test_a_model_trains_with_it_as_with_its_own(own, folder, monkeypatch, device):
    trained = model(device).train()
    launches = kernelized(trained, folder, monkeypatch)
    ours = step(trained, device)
    assert len(launches) == trained.config.num_hidden_layers
    for x, y in zip(ours, own[0], strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=2**-16 * y.abs().max().item())


def test_a_model_that_is_served_takes_it_too(own, folder, monkeypatch, device):
    served = model(device).eval()
    launches = kernelized(served, folder, monkeypatch)
    assert torch.equal(generated(served, device), own[1])
    assert len(launches) == 4 * served.config.num_hidden_layers
