"""Every encoding of the catalog in the lab's model."""

from __future__ import annotations

import bearing
import numpy as np
import pytest
import torch

from lab import positions
from lab.attending import through_pytorch
from lab.model import Transformer, place_of
from lab.setting import Setting

TINY = Setting("text", "nope", "text", 0, 16, 4, 2, 16, 2, 2, 1e-3, 1)
SERVING = positions.serving()
VOCABULARY = 11

every = pytest.mark.parametrize("encoding", SERVING)


def model_of(encoding: str, longest: int = 32, **changes) -> Transformer:
    setting = TINY.replace(encoding=encoding, **changes)
    return Transformer(setting, VOCABULARY, place_of(setting, 16, longest))


@torch.no_grad()
def shaken(model: Transformer) -> Transformer:
    """With numbers in every parameter of the encoding, as some start at 0."""
    torch.manual_seed(3)
    for parameter in model.blocks.positions.parameters():
        parameter.add_(0.2 * torch.randn_like(parameter))
    model.clamp()
    return model.eval()


def tokens(time: int, size: int = 2) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(1).integers(1, VOCABULARY, (size, time)))


def test_every_encoding_of_the_catalog_is_in_or_out_with_a_reason():
    found = positions.entries()
    assert [one.name for one in found] == [one.name for one in bearing.catalog()]
    out = {one.name: one.without for one in found if one.without}
    assert set(SERVING) | set(out) == {one.name for one in found} and "nope" in SERVING
    images = {name for name, why in out.items() if "image" in why}
    assert {"swin", "sinusoidal_2d", "rope_axial"} <= images
    assert not images & {"rope_mixed", "lie_rope"}, "these have an axis for sequences"
    for name in images:
        assert bearing.Specimen(name, heads=2, dim=8, length=16).width > 0


@every
def test_it_learns_and_every_parameter_of_it_gets_a_gradient(encoding):
    model = shaken(model_of(encoding)).train()
    logits = model(tokens(16))
    assert logits.shape == (2, 16, VOCABULARY)
    logits.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.any(), name


@every
def test_what_comes_later_changes_nothing_before(encoding):
    model, given = shaken(model_of(encoding)), tokens(16)
    other = given.clone()
    other[:, 10:] = other[:, 10:] % (VOCABULARY - 1) + 1
    with torch.no_grad():
        before, after = model(given), model(other)
    torch.testing.assert_close(before[:, :10], after[:, :10], rtol=0, atol=1e-5)
    assert not torch.allclose(before[:, 10:], after[:, 10:], atol=1e-3)


@every
def test_it_tells_the_order_of_tokens(encoding):
    """An encoder without an encoding gives the same rows in another order. So it does with one that adds the same number
    to every column, which the LayerNorm behind it takes off again."""
    model, given = shaken(model_of(encoding, kind="encoder")), tokens(16)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        same = torch.allclose(model(given)[:, order], model(given[:, order]), atol=1e-4)
    specimen = bearing.Specimen(encoding, heads=2, dim=8, length=16)
    assert same == (
        encoding == "nope" or (specimen.sites == "input" and np.ptp(specimen.inputs(16), axis=-1).max() == 0)
    )


@every
def test_everything_else_is_the_same_for_every_encoding(encoding):
    model, plain = model_of(encoding), model_of("nope")
    for (name, ours), (other, theirs) in zip(
        [one for one in model.named_parameters() if ".positions." not in one[0]], plain.named_parameters(), strict=True
    ):
        assert name == other and torch.equal(ours, theirs)


@every
def test_it_is_measured_beyond_its_length_or_says_why_not(encoding):
    model = shaken(model_of(encoding))
    with torch.no_grad():
        try:
            assert torch.isfinite(model(tokens(32))).all()
        except (bearing.RangeError, bearing.ShapeError) as error:
            assert positions._core._traits(positions.entry(encoding, place_of(TINY, 16, 32)).kind)["parameters"]
            assert "16" in str(error) or "31" in str(error), error


@every
def test_attention_of_pytorch_gives_the_same(encoding):
    model, given = shaken(model_of(encoding)), tokens(16)
    ours = model(given)
    ours.square().sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    other = through_pytorch(shaken(model_of(encoding)))
    theirs = other(given)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    theirs.square().sum().backward()
    # Gradients of what shifts whole rows of scores are 0, of what is left after sums of much larger numbers.
    largest = max(float(one.abs().max()) for one in gradients.values())
    for name, parameter in other.named_parameters():
        scale = max(float(gradients[name].abs().max()), 1e-2 * largest)
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=0, atol=1e-3 * scale)


def test_positions_that_are_given_reach_every_encoding():
    model, given = shaken(model_of("rope")), tokens(8)
    with torch.no_grad():
        plain, moved = model(given), model(given, torch.arange(8) + 5)
        stretched = model(given, 2 * torch.arange(8))
    torch.testing.assert_close(plain, moved, rtol=0, atol=1e-5)
    assert not torch.allclose(plain, stretched, atol=1e-3)


def test_an_encoding_can_be_named_with_its_keys():
    place = place_of(TINY, 16, 32)
    assert positions.entry("rope:base=500,pairing=half", place).spec.base == 500
    assert positions.entry("t5_causal:buckets=8,max_distance=20", place).spec.buckets == 8


@pytest.mark.parametrize(
    ("encoding", "says"),
    [
        ("ropy", r"must begin with a name of `bearing list`, got 'ropy'"),
        ("swin", r"must serve sequences, got swin: its tokens are the patches of an image"),
        ("bucket_bias", r"must serve sequences, got bucket_bias: its index must come with the data"),
        ("dense_bias", r"must serve sequences, got dense_bias: its bias has a number for each pair of tokens"),
    ],
)
def test_what_does_not_serve_is_refused(encoding, says):
    with pytest.raises(ValueError, match=says):
        positions.entry(encoding, place_of(TINY, 16, 32))


def test_scores_have_the_scale_that_their_encoding_wants():
    place = place_of(TINY, 16, 32)
    deberta = positions.entry("deberta_v2", place).spec
    assert positions.softmax_scale(deberta, 8) == bearing.deberta_softmax_scale(deberta, 8)
    assert positions.softmax_scale(positions.entry("tupe", place).spec, 8) == bearing.tupe_softmax_scale(8)
    assert positions.softmax_scale(positions.entry("rope", place).spec, 8) is None
