"""The rotation as a repository of the package kernels: built by scripts/hub, loaded from its folder, in the place of
transformers' own function, with training."""

from __future__ import annotations

import ast
import os
import subprocess
from pathlib import Path

import pytest
import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
hub_kernels = pytest.importorskip("kernels")
llama = pytest.importorskip("transformers.models.llama.modeling_llama")
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    subprocess.run([ROOT / "scripts/hub", folder], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def repository(folder):
    return hub_kernels.get_local_kernel(folder)


@pytest.fixture(scope="module")
def rotary(repository):
    return repository.apply_rotary_transformers


def heads(device, dtype=torch.float32, dim=8, time_first=False):
    shapes = [(2, 3, 4, dim), (2, 1, 4, dim)]
    xs = [torch.randn(shape).to(device, dtype) for shape in shapes]
    return [x.transpose(1, 2).contiguous() if time_first else x for x in xs]


def cosines(device, batch=1, dim=8, dtype=torch.float32):
    angles = torch.rand(batch, 4, dim // 2, dtype=torch.float64) * 1000
    angles = torch.cat([angles, angles], -1)
    return angles.cos().to(device, dtype), angles.sin().to(device, dtype)


@pytest.mark.parametrize("unsqueeze_dim", [1, 2])
@pytest.mark.parametrize("batch", [1, 2])
def test_it_is_the_model_s_function(rotary, unsqueeze_dim, batch, device):
    q, k = heads(device, time_first=unsqueeze_dim == 2)
    cos, sin = cosines(device, batch)
    own = llama.apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim)
    for x, y in zip(rotary(q, k, cos, sin, unsqueeze_dim), own, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=2**-22 * 4)  # two products and a sum, of numbers below 4


def test_cosines_may_have_any_strides(rotary, device):
    q, k = heads(device)
    cos, sin = cosines(device, 2)
    wanted = rotary(q, k, cos, sin)
    spread = torch.stack([cos, sin], -1)
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (cos, sin)]
    for given in (spread.unbind(-1), turned, (cos, turned[1]), (turned[0], sin)):
        assert all(torch.equal(x, y) for x, y in zip(rotary(q, k, *given), wanted, strict=True))


def test_its_gradients_are_the_model_s(rotary, device):
    q, k = (x.requires_grad_() for x in heads(device))
    cos, sin = cosines(device, 2)
    weights = [torch.randn_like(q), torch.randn_like(k)]
    found = torch.autograd.grad(rotary(q, k, cos, sin), (q, k), weights)
    own = torch.autograd.grad(llama.apply_rotary_pos_emb(q, k, cos, sin), (q, k), weights)
    for x, y in zip(found, own, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=2**-22 * 4)


def test_bfloat16_is_rounded_once(rotary, device):
    q, k = heads(device, torch.bfloat16)
    cos, sin = cosines(device)
    for x, y in zip(
        rotary(q, k, cos, sin),
        llama.apply_rotary_pos_emb(q.double(), k.double(), cos.double(), sin.double()),
        strict=True,
    ):
        error = (x.double() - y).abs()
        assert bool((error <= 2**-8 * y.abs() + 2**-20).all())  # half a unit of the last of 8 bits; float32 before it


def test_part_of_a_head_turns(rotary, device):
    q, k = heads(device, dim=10)
    cos, sin = cosines(device, dim=6)
    own = llama.apply_rotary_pos_emb(q[..., :6], k[..., :6], cos, sin)
    for x, y, whole in zip(rotary(q, k, cos, sin), own, (q, k), strict=True):
        torch.testing.assert_close(x[..., :6], y, rtol=0, atol=2**-20)
        assert torch.equal(x[..., 6:], whole[..., 6:])


def functions_of_the_slot():
    """Those of transformers that ask for it, each source once: models that have it, and the function."""
    models = {}
    for path in sorted(Path(llama.__file__).parents[1].glob("*/modeling_*.py")):
        source = path.read_text(encoding="utf-8")
        if '"rotary_pos_emb"' not in source:
            continue
        parts = [part for part in ast.parse(source).body if isinstance(part, ast.FunctionDef) and "rot" in part.name]
        parts = [part for part in parts if part.name in ("rotate_half", "_apply_rotary_emb", "apply_rotary_pos_emb")]
        asked = any("rotary_pos_emb" in ast.unparse(one) for part in parts for one in part.decorator_list)
        assert asked, path
        for part in parts:
            part.decorator_list = []
            if isinstance(part.body[0], ast.Expr):  # what it says of itself
                del part.body[0]
        models.setdefault("\n".join(map(ast.unparse, parts)), []).append(path.parent.name)
    for source, names in models.items():
        home = {}
        exec(f"from __future__ import annotations\nimport torch\n{source}", home)
        yield names, home["apply_rotary_pos_emb"]


def test_which_models_of_transformers_it_serves(repository, device):
    """All by their own function's numbers, except one that turns neighbours."""
    q, k = heads(device)
    cos, sin = cosines(device)
    once = cos[..., :4], sin[..., :4]
    served = {"apply_rotary_transformers": [], "apply_rotary_half_width": [], "": []}
    for names, own in functions_of_the_slot():
        try:
            wanted, name, given = own(q, k, cos, sin), "apply_rotary_transformers", (cos, sin)
        except RuntimeError:
            wanted, name, given = own(q, k, *once), "apply_rotary_half_width", once
            with pytest.raises(ValueError, match="cos: must not be half as wide as heads of 8"):
                repository.apply_rotary_transformers(q, k, *once)
        found = getattr(repository, name)(q, k, *given)
        same = all(torch.allclose(x, y, rtol=0, atol=2**-20) for x, y in zip(found, wanted, strict=True))
        served[name if same else ""] += names
    assert len(served["apply_rotary_transformers"]) == 120  # as the page on GPUs says
    assert served["apply_rotary_half_width"] == ["gpt_oss"] and served[""] == ["openai_privacy_filter"]


@pytest.mark.parametrize("unsqueeze_dim", [1, 2])
def test_cosines_may_be_there_once_for_each_pair(repository, unsqueeze_dim, device):
    q, k = (x.requires_grad_() for x in heads(device, time_first=unsqueeze_dim == 2, dim=10))
    cos, sin = cosines(device, 2, dim=6)
    wanted = repository.apply_rotary_transformers(q, k, cos, sin, unsqueeze_dim)
    found = repository.apply_rotary_half_width(q, k, cos[..., :3], sin[..., :3], unsqueeze_dim)
    weights = [torch.randn_like(x) for x in found]
    gradients = [torch.autograd.grad(out, (q, k), weights) for out in (found, wanted)]
    for x, y in ((found, wanted), gradients):
        assert all(torch.equal(one, other) for one, other in zip(x, y, strict=True))
    layer = repository.layers.apply_rotary_half_width()
    assert torch.equal(layer(q, k, cos[..., :3], sin[..., :3], unsqueeze_dim)[0], found[0])
    with pytest.raises(
        ValueError, match=r"\[apply_rotary_half_width\] q: must have 4 axes, the last at least 12, twice"
    ):
        repository.apply_rotary_half_width(q, k, cos, sin, unsqueeze_dim)


def test_a_kernelized_model_trains(folder, rotary, device):
    """As transformers does it: the function is a layer that the package kernels may replace."""
    own_function = getattr(llama.apply_rotary_pos_emb, "__wrapped__", llama.apply_rotary_pos_emb)

    @hub_kernels.use_kernel_forward_from_hub("rotary_pos_emb")
    def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
        return own_function(q, k, cos, sin, unsqueeze_dim)

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rotary_fn = apply_rotary_pos_emb

        def forward(self, *args):
            return self.rotary_fn(*args)

    layer = hub_kernels.LocalLayerRepository(repo_path=folder, layer_name="apply_rotary_transformers")
    mode = hub_kernels.Mode.TRAINING | hub_kernels.Mode.TORCH_COMPILE
    with hub_kernels.use_kernel_mapping({"rotary_pos_emb": {device: layer}}):
        model = hub_kernels.kernelize(Attention().train(), mode=mode, device=device, use_fallback=False)
    q, k = (x.requires_grad_() for x in heads(device))
    cos, sin = cosines(device)
    wanted = rotary(q, k, cos, sin)
    found = model(q, k, cos, sin)
    assert all(torch.equal(x, y) for x, y in zip(found, wanted, strict=True))
    whole = torch.compile(lambda q, k: model(q, k, cos, sin)[0].sum(), fullgraph=True, backend="aot_eager")
    (d_q,) = torch.autograd.grad(whole(q, k), q)
    torch.testing.assert_close(d_q, torch.autograd.grad(wanted[0].sum(), q)[0])


def test_wrong_calls_say_what_must_hold(rotary, device):
    q, k = heads(device)
    cos, sin = cosines(device)
    for given, text in [
        ((q, k, cos, sin, 3), "unsqueeze_dim: must be 1 or 2"),
        ((q[..., :6], k, cos, sin), "q: must have 4 axes, the last at least 8"),
        ((q, k[:, :, :3], cos, sin), r"k: must have batch 2, time 4 and head_dim 8 as q has, got \[2, 1, 3, 8\]"),
        ((q, k[:1], cos, sin), "k: must have batch 2"),
        ((q, torch.cat([k, k], -1), cos, sin), "k: must have batch 2, time 4 and head_dim 8"),
        ((q, k, cos[:, :3], sin[:, :3]), "cos: must have 2 or 1 sequences of 4 tokens"),
        ((q, k, cos, sin[..., :4]), "cos and sin: must be"),
        ((q, k, cos[..., :4], sin[..., :4]), r"cos: must not be half as wide as heads of 8, got \[1, 4, 4\]"),
        ((q, k, cos.requires_grad_(), sin), "must not require gradients"),
    ]:
        with pytest.raises(ValueError, match=text):
            rotary(*given)
    with pytest.raises(TypeError, match="sin: must be on the device of q"):
        rotary(q, k, cos.detach(), sin.to("meta"))
