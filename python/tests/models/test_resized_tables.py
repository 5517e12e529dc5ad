"""Tables of images at other grids: what the code of transformers makes of them, resize_grid() makes too."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import bearing
import numpy as np
import pytest
import torch
import transformers
from transformers.models.beit.modeling_beit import BeitRelativePositionBias
from transformers.models.dinov2_with_registers.modeling_dinov2_with_registers import Dinov2WithRegistersEmbeddings
from transformers.models.siglip2.modeling_siglip2 import Siglip2VisionEmbeddings
from transformers.models.vit.modeling_vit import ViTEmbeddings
from transformers.vision_utils import get_vision_interpolation_indices_and_weights

GRIDS = [(5, 9), (14, 7), (7, 7), (3, 40)]
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


def drawn(module: Any) -> Any:
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    return module.eval()


def close(ours: Any, theirs: torch.Tensor) -> None:
    # Their weights and sums are rounded to float32; rows of normal numbers come to 8 in cubic sums.
    np.testing.assert_allclose(np.asarray(ours), theirs.detach().numpy(), rtol=0, atol=2**-17)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize(
    ("embeddings", "config", "way"),
    [
        (ViTEmbeddings, transformers.ViTConfig, {}),
        (Dinov2WithRegistersEmbeddings, transformers.Dinov2WithRegistersConfig, {"antialias": True}),
    ],
)
def test_cubic_tables_with_a_class_token(
    embeddings: Any, config: Any, way: dict[str, bool], grid: tuple[int, int]
) -> None:
    own = drawn(embeddings(config(image_size=56, patch_size=8, **SMALL)))
    tokens = torch.zeros(1, 1 + grid[0] * grid[1], 16)
    theirs = own.interpolate_pos_encoding(tokens, 8 * grid[0], 8 * grid[1])[0]
    table = own.position_embeddings[0].detach()
    close(bearing.resize_grid(table, (7, 7), grid, how="cubic", prefix=1, **way), theirs)


@pytest.mark.parametrize("grid", GRIDS)
def test_siglip_2_averages(grid: tuple[int, int]) -> None:
    config = transformers.Siglip2VisionConfig(num_patches=49, patch_size=4, **SMALL)
    own = drawn(Siglip2VisionEmbeddings(config))
    table = own.position_embedding.weight.detach()
    shapes = torch.tensor([list(grid)])
    theirs = own.resize_positional_embeddings(table.reshape(7, 7, -1), shapes, max_length=grid[0] * grid[1])[0]
    close(bearing.resize_grid(table, (7, 7), grid, how="linear", antialias=True), theirs)


@pytest.mark.parametrize("grid", GRIDS)
def test_qwen3_vl_keeps_the_corners(grid: tuple[int, int]) -> None:
    table = torch.from_numpy(np.random.default_rng(1).standard_normal((49, 16)))
    rows, weights = get_vision_interpolation_indices_and_weights(torch.tensor([[1, *grid]]), 7, "bilinear", True)
    theirs = (table[rows] * weights[..., None]).sum(1)
    close(bearing.resize_grid(table, (7, 7), grid, how="linear", align_corners=True), theirs)


@pytest.mark.parametrize("grid", [(5, 5), (4, 6), (14, 14)])
def test_beits_last_rows_stay(grid: tuple[int, int]) -> None:
    config = transformers.BeitConfig(image_size=56, patch_size=8, use_relative_position_bias=True, **SMALL)
    own = drawn(BeitRelativePositionBias(config))
    theirs = own(window_size=grid)[0]
    after = (2 * grid[0] - 1, 2 * grid[1] - 1)
    table = own.relative_position_bias_table.detach()
    larger = bearing.resize_grid(table, (13, 13), after, how="linear", suffix=3)
    index = own.generate_relative_position_index(grid)
    close(larger[index.flatten()].reshape(*index.shape, -1).permute(2, 0, 1), theirs)
