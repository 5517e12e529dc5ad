"""Encoders of images: each encoding stands in a model, and is carried to other grids as it should be."""

from __future__ import annotations

import bearing
import bearing.torch as bt
import numpy as np
import pytest
import torch

from lab import grids, images, training
from lab.attending import through_pytorch
from lab.pictures import PICTURES
from lab.positions import Place
from lab.setting import Setting

TINY = Setting(
    question="images",
    encoding="nope",
    task="direction",
    seed=0,
    length=64,
    steps=2,
    batch=4,
    d_model=32,
    layers=2,
    heads=2,
    learning_rate=3e-3,
    warmup=1,
    measured=64,
)
ASKED = "sinusoidal_2d rope_axial rope_mixed lie_rope cayley_string circulant_string swin swin_v2 sam cape_2d t5_axis".split()


def settings(encoding: str) -> list[Setting]:
    every = images.settings(TINY, [encoding], [0])
    return [one for one in every if one.task == "direction" and one.encoding.partition(":")[0] == encoding]


def model_of(encoding: str) -> images.ImageModel:
    return images.ImageModel(settings(encoding)[0]).eval()


def patches(side: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(PICTURES["direction"].batch(np.random.default_rng(seed), 3, side, True).tokens)


def with_numbers(model: torch.nn.Module) -> None:
    """What starts at 0 is drawn, so that it tells."""
    torch.manual_seed(0)
    with torch.no_grad():
        for one in model.blocks.positions.parameters():
            one.add_(torch.randn_like(one), alpha=0.5)


def test_the_catalog_s_encodings_of_grids_serve():
    assert set(ASKED) <= set(grids.serving())
    assert not {"beit", "rope", "elementwise_rope", "vjepa2"} & set(grids.serving())


@pytest.mark.parametrize("encoding", grids.serving())
def test_a_run_gives_a_row(encoding, tmp_path):
    for setting in settings(encoding):
        row = images.run(setting, tmp_path)
        there = {"1"} if encoding in ("swin", "sam") and setting.method == "none" else {"1", "1.5", "2"}
        assert set(row["measures"]) == there
        assert set(row["beyond"]) == {"1", "1.5", "2"} - there
        assert [row["measures"][name]["length"] for name in sorted(there)] == [8, 12, 16][: len(there)]
        assert 0 < row["attention_share"] <= 1
    assert len(list(tmp_path.glob("*.pt"))) == 1, "trained once for all methods"


@pytest.mark.parametrize("encoding", grids.serving())
def test_only_a_model_with_places_sees_where_patches_lie(encoding):
    model = model_of(encoding)
    with_numbers(model)
    given = patches(8)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        plain, moved = model(given)[:, order], model(given[:, order])
    alike = torch.allclose(plain, moved, atol=1e-4)
    assert alike == (encoding == "nope")


@pytest.mark.parametrize("encoding", [one for one in grids.serving() if one != "nope"])
def test_both_axes_count(encoding):
    """An image that is turned over along its diagonal looks otherwise."""
    model = model_of(encoding)
    with_numbers(model)
    given = patches(8)
    turned = given.unflatten(1, (8, 8)).transpose(1, 2).flatten(1, 2)
    with torch.no_grad():
        plain, other = model(given).unflatten(1, (8, 8)).transpose(1, 2).flatten(1, 2), model(turned)
    assert not torch.allclose(plain, other, atol=1e-4)


@pytest.mark.parametrize("encoding", grids.serving())
def test_pytorch_s_attention_says_the_same(encoding):
    model = model_of(encoding)
    with_numbers(model)
    exchanged = through_pytorch(model.on(8, "none"))
    with torch.no_grad():
        assert torch.allclose(model(patches(8)), exchanged(patches(8)), atol=1e-4)


@pytest.mark.parametrize("method", images.METHODS)
@pytest.mark.parametrize("encoding", grids.serving())
def test_on_the_trained_grid_nothing_changes(encoding, method):
    model = model_of(encoding)
    with_numbers(model)
    with torch.no_grad():
        assert torch.equal(model(patches(8)), model.on(8, method)(patches(8)))


def test_stretched_places_span_the_trained_grid():
    model = model_of("rope_axial").on(16, "stretched")
    at = model.places(16)
    assert at.shape == (2, 1, 256)
    assert at.min() == -0.25 and at.max() == 7.25  # patches half as wide, whose outer edges are at -0.5 and 7.5
    assert torch.equal(at[1, 0, :3], torch.tensor([-0.25, 0.25, 0.75]))
    assert model_of("rope_axial").on(16, "none").places(16).max() == 15
    assert model_of("swin").on(16, "stretched").places(16).max() == 15  # its table is stretched in their place


def test_relative_encodings_do_not_see_where_the_grid_begins():
    """Counted places of a larger grid: a part of it looks as the trained grid does, to what counts offsets alone."""
    place = Place(2, 16, 32, 8, 16)
    at = bt.window_positions(8, 8).double()
    for name in ("rope_axial", "rope_mixed", "cayley_string", "circulant_string", "t5_axis"):
        torch.manual_seed(0)
        layer = grids.make(name, place, 1).layers[0]
        q, k, v = torch.randn(3, 1, 2, 64, 16, generator=torch.Generator().manual_seed(0)).unbind()
        here, there = (
            bt.attention(q, k, v, layer.encodings(q), mask="none", q_positions=p, k_positions=p) for p in (at, at + 5)
        )
        assert torch.allclose(here, there, atol=1e-4), name


def test_tables_are_resampled():
    """A table that grows along an axis grows half as fast on a grid of twice the side; a level one stays."""
    swin = bt.Swin(bearing.Swin(height=8, width=8), heads=2)
    offsets = torch.arange(15.0)
    with torch.no_grad():
        swin.table.copy_(torch.stack((offsets.repeat_interleave(15), torch.ones(225)), dim=1))
    table = grids.fitted(swin, 8, 16, True).table.detach().reshape(31, 31, 2)
    # A cubic does not give a straight line back to the last digit.
    assert torch.allclose(table[8:24, :, 0].diff(dim=0), torch.tensor(15 / 31), atol=0.1)
    assert torch.allclose(table[15, :, 0], torch.tensor(7.0), atol=1e-4)  # offset 0 stays in the middle
    assert torch.allclose(table[..., 1], torch.tensor(1.0), atol=1e-5)
    sam = bt.Sam(bearing.Sam(height=8, width=8), dim=4)
    with torch.no_grad():
        sam.height_table.copy_(offsets[:, None].expand(15, 4))
    larger = grids.fitted(sam, 8, 12, True)
    assert tuple(larger.height_table.shape) == (23, 4) and larger.spec.width == 12
    assert larger.height_table[11, 0].item() == pytest.approx(7)


def test_a_stretched_bias_of_t5_slows_offsets_down():
    part = bt.T5Axis(bearing.T5Axis(direction="bidirectional", axis=0), heads=2)
    with torch.no_grad():
        part.table.copy_(
            torch.arange(64.0).reshape(32, 2) if part.table.shape[0] == 32 else torch.randn_like(part.table)
        )
    slow = grids.fitted(part, 8, 16, True)
    rows = torch.zeros(2, 1, 16, dtype=torch.float64)
    rows[0, 0] = torch.arange(16)
    bias, before = (one(q_positions=rows, k_positions=rows)[:, 0] for one in (slow, part))
    assert torch.equal(bias[:, ::2], before[:, :8])


def test_swin_v2_computes_a_larger_table():
    model = model_of("swin_v2")
    part = model.blocks.positions.layers[0].parts[0]
    counted, stretched = (grids.fitted(part, 8, 16, method) for method in (False, True))
    small = part.table().detach().reshape(15, 15, -1)
    assert torch.allclose(counted.table().detach().reshape(31, 31, -1)[8:23, 8:23], small, atol=1e-5)
    corners = torch.tensor([0, -1])
    assert torch.allclose(
        stretched.table().detach().reshape(31, 31, -1)[corners][:, corners], small[corners][:, corners], atol=1e-5
    )


def test_cape_moves_in_training_only():
    model = model_of("cape_2d")
    given = patches(8)
    with torch.no_grad():
        assert torch.equal(model(given), model(given))
        model.train()
        assert not torch.equal(model(given), model(given))


def test_places_are_learned(monkeypatch):
    """On a grid of 4 × 4, seconds of training suffice to say what no model without places can."""
    monkeypatch.setattr(images, "GRID", 4)
    right = {}
    for encoding in ("nope", "rope_axial"):
        setting = settings(encoding)[0].replace(steps=150, batch=64, warmup=10, learning_rate=1e-2)
        picture = PICTURES[setting.task]
        found = training.train(images.ImageModel(setting), images._batches(picture, setting), setting)
        random = training.generator(0, "measuring")
        right[encoding] = images.measured(found.model.eval(), picture, 4, 4096, random)["accuracy"]
    assert right["nope"] < 0.3 and right["rope_axial"] > 0.8


def test_wrong_words_are_refused():
    with pytest.raises(ValueError, match=r"\[lab\] encoding: must be one of nope, sinusoidal_2d, .*, got 'alibi'"):
        grids.make("alibi", Place(2, 16, 32, 8, 16), 1)
    with pytest.raises(ValueError, match=r"\[images\] method: must be one of none, stretched, got 'cut'"):
        images.run(settings("swin")[0].replace(method="cut"), None)
