"""Axes, learned factors and temperatures beside the code of the models that have them, as transformers ships it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import bearing
import numpy as np
import pytest
import torch

# Models compute angles, cos and sin in float32, whatever the rows are: angles here stay below 64, whose half ulp is
# 2^-19, and an element has two products with numbers below 4.
ANGLES = dict(rtol=0, atol=8 * 2**-19)


def model(name: str) -> Any:
    return pytest.importorskip(f"transformers.models.{name}.modeling_{name}")


def test_blocks_are_those_of_gemma_4s_vision_tower() -> None:
    gemma4 = model("gemma4")
    config = SimpleNamespace(
        rope_parameters={"rope_type": "axial", "rope_theta": 100.0}, head_dim=64, hidden_size=64, num_attention_heads=1
    )
    torch.manual_seed(0)
    q, at = torch.randn(2, 9, 3, 64, dtype=torch.float64), torch.randint(0, 60, (2, 9, 2))
    cos, sin = gemma4.Gemma4VisionRotaryEmbedding(config)(q, at)
    wanted = gemma4.apply_multidimensional_rope(q, cos, sin, at)
    rope = bearing.Rope(head_dim=64, base=100, pairing="half", axes=bearing.RopeAxes.blocks([16, 16]))
    table = bearing.RopeTable(rope, 60, dtype="float64")
    places = np.ascontiguousarray(at.permute(2, 0, 1).numpy())
    np.testing.assert_allclose(bearing.rotate_to(table, q.numpy(), places, layout="bthd"), wanted.numpy(), **ANGLES)
    whole = bearing.RopeTable(rope.replace(axes=bearing.RopeAxes.axial([16, 16])), 60, dtype="float64")
    assert np.abs(bearing.rotate_to(whole, q.numpy(), places, layout="bthd") - wanted.numpy()).max() > 0.1


@pytest.mark.parametrize("still", [0, 3])
def test_bases_of_the_axes_are_those_of_esmfold2s_atoms(still: int) -> None:
    esm = model("esmfold2")
    config = SimpleNamespace(
        num_spatial_rope_pairs_per_axis=2,
        num_uid_rope_pairs=10,
        spatial_rope_base_frequency=20.0,
        uid_rope_base_frequency=10_000.0,
        head_dim=2 * (16 + still),
    )
    torch.manual_seed(0)
    q, places, group = torch.randn(1, 3, 7, config.head_dim).double(), 9 * torch.randn(1, 7, 3), torch.arange(7)[None]
    cos, sin = esm.EsmFold2RotaryEmbedding(config)(places, group, torch.float64)
    wanted, _ = esm.apply_rotary_pos_emb(q, q, cos, sin)
    axes = bearing.RopeAxes.axial([2, 2, 2, 10]).replace(bases=[20, 20, 20, 10_000], still=still)
    rope = bearing.Rope(head_dim=config.head_dim, pairing="half", axes=axes)
    at = torch.cat([places, group[..., None]], -1).permute(2, 0, 1).double().contiguous().numpy()
    got = bearing.rotate_to(bearing.RopeTable(rope, 8, dtype="float64"), q.numpy(), at)
    np.testing.assert_allclose(got, wanted.numpy(), **ANGLES)


def test_learned_factors_are_those_of_mistral_large_4() -> None:
    mistral = model("mistral_large4")

    class Config:
        rope_parameters = {
            "rope_type": "yarn", "rope_theta": 10_000.0, "factor": 4.0, "original_max_position_embeddings": 64,
            "attention_factor": 1.0, "beta_fast": 32.0, "beta_slow": 1.0,
        }  # fmt: skip
        head_dim, hidden_size, num_attention_heads, max_position_embeddings = 16, 16, 1, 256

        def standardize_rope_params(self) -> None: ...

    module = mistral.MistralLarge4TextRotaryEmbedding(Config()).requires_grad_(False)
    torch.manual_seed(0)
    module.alpha.copy_(0.3 * torch.randn(8))
    yarn = bearing.YarnScaling(factor=4, trained_length=64, attention_factor=1)
    rope = bearing.Rope(head_dim=16, pairing="interleaved", scaling=yarn, log_factors=module.alpha.tolist())
    wanted = (module.inv_freq * module.alpha.exp()).numpy()
    np.testing.assert_allclose(bearing.resolve(rope).inv_freq, wanted, rtol=2**-21)
    cos, sin = module(torch.zeros(1, dtype=torch.float64), torch.arange(50)[None])
    table = bearing.RopeTable(rope, 50, dtype="float64")
    np.testing.assert_allclose(table.cos, cos[0, :, :8].numpy(), **ANGLES)
    np.testing.assert_allclose(table.sin, sin[0, :, :8].numpy(), **ANGLES)


def test_the_factor_of_each_head_and_its_gradients_are_those_of_mistral_large_4() -> None:
    mistral = model("mistral_large4")
    torch.manual_seed(0)
    theirs = mistral.MistralLarge4TextSoftmaxScaling(3).double()
    with torch.no_grad():
        theirs.scale.copy_(torch.rand(3)), theirs.bias.copy_(torch.randn(3))
    q, d_out = torch.randn(2, 3, 9, 8, dtype=torch.float64), torch.randn(2, 3, 9, 8, dtype=torch.float64)
    wanted = theirs(q, torch.arange(5, 14).expand(2, 9), True)
    wanted.backward(d_out)
    spec = bearing.PositionTemperature.mistral_large4()
    rows = bearing.TemperatureRows(spec, theirs.scale.detach().numpy(), theirs.bias.detach().numpy())
    # Their logarithm is float32: half an ulp below 4.
    near = dict(rtol=2**-21, atol=2**-20)
    np.testing.assert_allclose(bearing.turn(rows, q.numpy(), 5, side="query"), wanted.detach().numpy(), **near)
    _, found = bearing.turn_backward(rows, q.numpy(), d_out.numpy(), 5, side="query")
    np.testing.assert_allclose(found["scale"], theirs.scale.grad.numpy(), rtol=2**-18, atol=2**-18)
    np.testing.assert_allclose(found["bias"], theirs.bias.grad.numpy(), rtol=1e-12)


def test_the_factor_of_layers_without_rope_is_that_of_beam() -> None:
    beam = model("beam")
    at = torch.tensor([[0, 1, 2047, 40_000, 131_071]])
    wanted = beam.compute_attention_scaling(at).flatten().numpy()
    spec = bearing.PositionTemperature.beam()
    np.testing.assert_allclose([spec.factor(m) for m in at[0].tolist()], wanted, rtol=2**-21)


def test_learning_the_factors_turns_keys_and_queries_as_the_spec_that_they_come_to() -> None:
    import bearing.torch as bt

    torch.manual_seed(0)
    start = [0.2, -0.1, 0.0, 0.3]
    lerope = bt.LeRope(bearing.Rope(head_dim=8, pairing="half", log_factors=start)).double()
    assert lerope.rope.log_factors == pytest.approx(start, abs=1e-7)
    q, k, v = (torch.randn(1, 2, 6, 8, dtype=torch.float64) for _ in range(3))
    out = bt.attention(q, k, v, lerope.encoding(6), mask="causal")
    fixed = bt.attention(q, k, v, bt.Rope(lerope.rope), mask="causal")
    torch.testing.assert_close(out, fixed, rtol=0, atol=1e-12)
    out.square().sum().backward()
    table = bearing.RopeTable(lerope.rope, 6, dtype="float64")
    q_turned, k_turned = (torch.tensor(bearing.rotate_to(table, x.numpy()), requires_grad=True) for x in (q, k))
    bt.attention(q_turned, k_turned, v, mask="causal").square().sum().backward()
    wanted = sum(
        bearing.rotate_parameter_gradients(table, y.detach().numpy(), y.grad.numpy())["log_factors"]
        for y in (q_turned, k_turned)
    )
    np.testing.assert_allclose(lerope.log_factors.grad.numpy(), wanted, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="must have an attention factor of 1"):
        bt.LeRope(bearing.Rope(head_dim=8, pairing="half", scaling=bearing.YarnScaling(factor=4, trained_length=64)))
