"""Files of timm, MLX, Meta and Mistral: what bearing reads of them turns as their own code does."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import bearing
import numpy as np
import pytest
import torch

rope_of = bearing.read_hf_config


def turned(rope: bearing.Rope, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Rows [time, head_dim] at positions [axes, time]."""
    out = x[None, None].copy()
    bearing.rotate(rope, out, positions[:, None] if len(positions) > 1 else positions)
    return out[0, 0]


@pytest.fixture(scope="module")
def timm() -> ModuleType:
    """timm's rotary module alone: the whole package needs torchvision."""
    spec = importlib.util.find_spec("timm")
    if spec is None or spec.submodule_search_locations is None:
        pytest.skip("timm is not installed")
    root = Path(next(iter(spec.submodule_search_locations)))
    assert (root / "version.py").read_text().split("'")[1] == "1.0.31"
    if "timm.layers.pos_embed_sincos" not in sys.modules:
        for name, folder in (("timm", root), ("timm.layers", root / "layers")):
            package = ModuleType(name)
            package.__path__ = [str(folder)]
            sys.modules[name] = package
    return importlib.import_module("timm.layers.pos_embed_sincos")


TIMM: dict[str, dict[str, Any]] = {
    "eva-02": {"rope_type": "cat", "ref_feat_shape": 4},
    "eva-02, halves, columns first": {"rope_type": "cat", "rope_rotate_half": True, "rope_grid_indexing": "xy"},
    "perception encoder": {"rope_type": "cat", "rope_grid_offset": 1.0, "rope_grid_indexing": "xy"},
    "dinov3": {"rope_type": "dinov3", "rope_rotate_half": True, "rope_temperature": 100.0},
    "dinov3, neighbours": {"rope_type": "dinov3", "rope_temperature": 50.0},
    "mrope": {"rope_type": "mrope"},
    "mrope, short sections": {"rope_type": "mrope", "rope_mrope_section": [2, 3, 4]},
}


@pytest.mark.parametrize("name", TIMM)
def test_timms_pictures_turn_as_in_its_own_module(timm: ModuleType, rng: np.random.Generator, name: str) -> None:
    options, heads, head_dim, rows, columns = TIMM[name], 2, 24, 5, 7
    arguments = {"use_rot_pos_emb": True, "embed_dim": heads * head_dim, "num_heads": heads, "depth": 1,
                 "img_size": [rows * 16, columns * 16], "use_abs_pos_emb": False, **options}  # fmt: skip
    layer = rope_of({"architecture": "eva02_x", "model_args": arguments}).layers[0]

    half = options.get("rope_rotate_half", False) or options["rope_type"] == "mrope"
    given: dict[str, Any] = {"rotate_half": half, "temperature": options.get("rope_temperature", 10_000.0),
                             "grid_indexing": options.get("rope_grid_indexing", "ij")}  # fmt: skip
    if options["rope_type"] == "mrope":
        given["mrope_section"] = tuple(options.get("rope_mrope_section", (8, 12, 12)))
    else:
        given |= {"feat_shape": [rows, columns], "grid_offset": options.get("rope_grid_offset", 0.0)}
    if options["rope_type"] == "cat":
        side = options.get("ref_feat_shape")
        given |= {"in_pixels": False, "ref_feat_shape": None if side is None else [side, side]}
    own = timm.create_rope_embed(options["rope_type"], dim=heads * head_dim, num_heads=heads, **given)
    embed = own.get_embed([rows, columns])
    x = rng.normal(size=(rows * columns, head_dim)).astype(np.float32)
    theirs = timm.apply_rot_embed_cat(torch.from_numpy(x), embed, half=half)

    # Where a patch stands, as `positions` says it.
    at = np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")).reshape(2, -1).astype(float)
    size = np.array([[rows], [columns]], float)
    if options["rope_type"] == "dinov3":
        assert "from -1 to 1 across the image, times 2 pi" in layer.positions
        at = (2 * (at + 0.5) / size - 1) * 2 * np.pi
    if "rope_grid_offset" in options:
        assert "from 1" in layer.positions
        at = at + options["rope_grid_offset"]
    if "ref_feat_shape" in options:
        assert "times 4 and 4 over the patches" in layer.positions
        at = at * options["ref_feat_shape"] / size
    if options.get("rope_grid_indexing") == "xy":
        assert layer.positions.startswith("column and row")
        at = at[::-1]
    if options["rope_type"] == "mrope":
        assert layer.positions.startswith("0, row and column")
        at = np.concatenate([np.zeros_like(at[:1]), at])
    ours = turned(layer.encoding, x, np.ascontiguousarray(at))
    # Their angles come to 8, in float32: 2^-20 each; rows to 4, two products.
    np.testing.assert_allclose(ours, theirs.numpy(), rtol=0, atol=2**-16)


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_timms_mixed_frequencies_are_rows_of_rope_mixed(
    timm: ModuleType, rng: np.random.Generator, indexing: str
) -> None:
    heads, head_dim, rows, columns = 2, 24, 5, 7
    own = timm.create_rope_embed("mixed", dim=heads * head_dim, num_heads=heads, depth=3, grid_indexing=indexing)
    freqs = own.freqs.detach().numpy()  # [axes, layers, heads, pairs]
    x = rng.normal(size=(1, heads, rows * columns, head_dim)).astype(np.float32)
    at = bearing.grid_positions(rows, columns)
    for layer in range(3):
        embed = own.get_embed([rows, columns])[layer][None]
        theirs = timm.apply_rot_embed_cat(torch.from_numpy(x), embed).detach().numpy()
        frequencies = freqs[::-1, layer] if indexing == "xy" else freqs[:, layer]
        spec = bearing.RopeMixed(head_dim=head_dim, axes=2, pairing="interleaved")
        mixed = bearing.RopeMixedRows(spec, np.ascontiguousarray(frequencies))
        np.testing.assert_allclose(bearing.turn(mixed, x, at, side="query"), theirs, rtol=0, atol=2**-16)


def test_what_timms_mrope_cannot_be_is_refused() -> None:
    arguments = {"use_rot_pos_emb": True, "rope_type": "mrope"}
    for options, text in (
        ({"rope_grid_indexing": "xy"}, 'rope_grid_indexing: must be ij, as for all mrope, got "xy"'),
        ({"rope_mrope_section": [1, 2]}, "rope_mrope_section: must be three numbers"),
        ({"rope_mrope_section": [1, 0, 2]}, "rope_mrope_section: must be at least 1 for rows and for columns"),
        ({"embed_dim": 48}, "embed_dim: must be num_heads times an even number from 6"),
        ({"rope_type": "spiral"}, "rope_type: must be cat, mixed, dinov3 or mrope"),
    ):
        with pytest.raises(bearing.ConfigError, match=text):
            rope_of({"architecture": "x", "model_args": {**arguments, **options}})


@pytest.mark.parametrize("traditional", [False, True])
def test_mlx_turns_as_its_own_module(rng: np.random.Generator, traditional: bool) -> None:
    mx = pytest.importorskip("mlx.core")
    nn = importlib.import_module("mlx.nn")
    config = {"model_type": "llama", "hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1,
              "rope_theta": 500.0, "rope_traditional": traditional}  # fmt: skip
    rope = rope_of(config).layers[0].encoding
    x = rng.normal(size=(40, 16)).astype(np.float32)
    theirs = np.array(nn.RoPE(16, traditional=traditional, base=500.0)(mx.array(x[None, None])))[0, 0]
    # Their angles come to 40, in float32: 2^-18 each; rows to 4, two products.
    np.testing.assert_allclose(turned(rope, x, np.arange(40.0)[None]), theirs, rtol=0, atol=2**-14)
    assert rope.pairing == ("interleaved" if traditional else "half")


def as_complex(x: np.ndarray, frequencies: np.ndarray, count: int) -> np.ndarray:
    """apply_rotary_emb of Meta's llama-models and mistral-inference's rope.py, restated: neighbours are one complex number."""
    pairs = x[..., 0::2].astype(float) + 1j * x[..., 1::2]
    pairs = pairs * np.exp(1j * np.outer(np.arange(count), frequencies))
    return np.stack([pairs.real, pairs.imag], -1).reshape(x.shape)


def scaled_as_meta(frequencies: np.ndarray) -> np.ndarray:
    """apply_scaling of llama-models' llama3/model.py (0.3.0), restated: its four numbers stand in the code."""
    factor, low, high, old = 8.0, 1.0, 4.0, 8192.0
    length = 2 * np.pi / frequencies
    smooth = np.clip((old / length - low) / (high - low), 0, 1)
    return (1 - smooth) * frequencies / factor + smooth * frequencies


@pytest.mark.parametrize(
    ("extra", "base", "scaled"),
    [
        ({"multiple_of": 256, "rope_theta": 500_000.0, "use_scaled_rope": True}, 500_000.0, True),
        ({"multiple_of": 256}, 10_000.0, False),
        ({"hidden_dim": 64, "rope_theta": 1e6}, 1e6, False),
        ({"hidden_dim": 64, "sliding_window": 4096}, 10_000.0, False),
    ],
)
def test_params_json_turns_as_its_authors_code(
    rng: np.random.Generator, extra: dict[str, Any], base: float, scaled: bool
) -> None:
    model = rope_of({"dim": 64, "n_layers": 1, "n_heads": 2, "n_kv_heads": 1, "vocab_size": 8, **extra})
    frequencies = base ** -(np.arange(0, 32, 2) / 32)
    if scaled:
        frequencies = scaled_as_meta(frequencies)
    x = rng.normal(size=(50, 32)).astype(np.float32)
    ours = turned(model.layers[0].encoding, x, np.arange(50.0)[None])
    # Numbers to 4, rounded a few times to float32.
    np.testing.assert_allclose(ours, as_complex(x, frequencies, 50), rtol=0, atol=2**-19)
