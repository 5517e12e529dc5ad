"""Makes the files beside it: angles and positions that diffusers 0.42.1 computes. Needs diffusers, transformers and torch.

Each file has a config, a request for picture_positions(), and cos and sin of every pair of every token, or, where the
frequencies are learned, the positions.
"""

import json
import pathlib

import torch
from diffusers.models.embeddings import get_3d_rotary_pos_embed
from diffusers.models.transformers import transformer_cosmos as cosmos
from diffusers.models.transformers import transformer_flux as flux
from diffusers.models.transformers import transformer_flux2 as flux2
from diffusers.models.transformers import transformer_hunyuan_video as hunyuan
from diffusers.models.transformers import transformer_ltx as ltx
from diffusers.models.transformers import transformer_mochi as mochi
from diffusers.models.transformers import transformer_qwenimage as qwen
from diffusers.models.transformers import transformer_wan as wan
from diffusers.models.transformers import transformer_z_image as z_image
from diffusers.pipelines.cogvideo.pipeline_cogvideox import get_resize_crop_region_for_grid
from diffusers.pipelines.flux.pipeline_flux_kontext import FluxKontextPipeline
from diffusers.pipelines.flux2.pipeline_flux2 import Flux2Pipeline

HERE = pathlib.Path(__file__).parent
HEAD = {"attention_head_dim": 16, "num_attention_heads": 2, "num_layers": 1}


def rounded(numbers):
    """Nine digits hold a float32."""
    return [float(f"{x:.9g}") for x in numbers.double().flatten().tolist()]


def write(name, config, request, cos=None, sin=None, **more):
    out = {"config": config, "request": request, **more}
    if cos is not None:
        out |= {"tokens": cos.shape[0], "pairs": cos.shape[1], "cos": rounded(cos), "sin": rounded(sin)}
    (HERE / f"{name}.json").write_text(json.dumps(out) + "\n")


def neighbours(pair):
    """Of cos and sin that are there twice for the two of a pair, one each."""
    return [x.reshape(-1, x.shape[-1])[:, ::2] for x in pair]


def zeros_first(count, cos_sin):
    """Tokens that the model's code leaves out of the rotation: cos 1, sin 0."""
    return still(count, cos_sin, first=True)


def still(count, cos_sin, first=False):
    cos, sin = cos_sin
    ones, nothing = torch.ones(count, cos.shape[1]), torch.zeros(count, cos.shape[1])
    order = (lambda a, b: torch.cat([b, a])) if first else (lambda a, b: torch.cat([a, b]))
    return order(cos, ones), order(sin, nothing)


def hidden(*shape):
    return torch.zeros(1, 1, *shape)


def make_flux():
    text = torch.zeros(3, 3)
    picture = FluxKontextPipeline._prepare_latent_image_ids(1, 3, 5, "cpu", torch.float32)
    reference = FluxKontextPipeline._prepare_latent_image_ids(1, 2, 2, "cpu", torch.float32)
    reference[..., 0] = 1
    embed = flux.FluxPosEmbed(10000, [4, 6, 6])
    config = {"_class_name": "FluxTransformer2DModel", "axes_dims_rope": [4, 6, 6], "num_single_layers": 1, **HEAD}
    write("flux", config, {"grid": [1, 3, 5], "text": 3, "references": [[1, 2, 2]]},
          *neighbours(embed(torch.cat([text, picture, reference]))))  # fmt: skip


def make_flux2():
    text = Flux2Pipeline._prepare_text_ids(torch.zeros(1, 4, 8))[0]
    picture = Flux2Pipeline._prepare_latent_ids(torch.zeros(1, 8, 2, 3))[0]
    more = Flux2Pipeline._prepare_image_ids([torch.zeros(1, 8, 2, 2), torch.zeros(1, 8, 1, 3)])[0]
    embed = flux2.Flux2PosEmbed(2000, [4, 4, 4, 4])
    config = {"_class_name": "Flux2Transformer2DModel", "axes_dims_rope": [4, 4, 4, 4], "num_single_layers": 1, **HEAD}
    write("flux2", config, {"grid": [1, 2, 3], "text": 4, "references": [[1, 2, 2], [1, 1, 3]]},
          *neighbours(embed(torch.cat([text, picture, more]))))  # fmt: skip


def make_z_image():
    model = z_image.ZImageTransformer2DModel(
        in_channels=2, dim=32, n_layers=1, n_refiner_layers=1, n_heads=2, n_kv_heads=2, cap_feat_dim=8,
        axes_dims=[4, 6, 6], axes_lens=[256, 64, 64],
    )  # fmt: skip
    _, _, _, picture, text, _, _ = model.patchify_and_embed([torch.zeros(2, 1, 4, 6)], [torch.zeros(35, 8)], 2, 1)
    # The prompt has more places than tokens: 35 fill up to 64, and the model's forward takes so many.
    angles = model.rope_embedder(torch.cat([picture[0], text[0][:64]]))
    config = {"_class_name": "ZImageTransformer2DModel", "axes_dims": [4, 6, 6], "dim": 32, "n_heads": 2, "n_layers": 1,
              "n_refiner_layers": 1, "rope_theta": 256.0}  # fmt: skip
    write("z_image", config, {"grid": [1, 2, 3], "text": 35}, angles.real, angles.imag)


def make_hunyuan_video():
    embed = hunyuan.HunyuanVideoRotaryPosEmbed(2, 1, [4, 6, 6], 256.0)
    config = {
        "_class_name": "HunyuanVideoTransformer3DModel",
        "rope_axes_dim": [4, 6, 6],
        "num_single_layers": 1,
        **HEAD,
    }
    write("hunyuan_video", config, {"grid": [2, 2, 3], "text": 2}, *still(2, neighbours(embed(hidden(2, 4, 6)))))


def make_wan():
    embed = wan.WanRotaryPosEmbed(16, (1, 2, 2), 64)
    write(
        "wan",
        {"_class_name": "WanTransformer3DModel", **HEAD},
        {"grid": [2, 2, 3]},
        *neighbours(embed(hidden(2, 4, 6))),
    )


def make_cogvideox():
    config = {"_class_name": "CogVideoXTransformer3DModel", "use_rotary_positional_embeddings": True, **HEAD}
    for name, (rows, columns) in {"wide": (2, 5), "tall": (5, 2), "square": (3, 3)}.items():
        crops = get_resize_crop_region_for_grid((rows, columns), 9, 6)
        angles = get_3d_rotary_pos_embed(16, crops, (rows, columns), 2)
        request = {"grid": [2, rows, columns], "text": 2, "trained_height": 6, "trained_width": 9}
        write(f"cogvideox_{name}", config, request, *zeros_first(2, neighbours(angles)))
    angles = get_3d_rotary_pos_embed(16, None, (2, 3), 2, grid_type="slice", max_size=(6, 9))
    write("cogvideox_1_5", config, {"grid": [2, 2, 3], "text": 1}, *zeros_first(1, neighbours(angles)))


def make_qwen_image():
    embed = qwen.QwenEmbedRope(10000, [4, 6, 6], scale_rope=True)
    pictures, text = embed([[(1, 3, 5), (1, 2, 2)]], torch.device("cpu"), 3)
    angles = torch.cat([text, pictures])
    config = {"_class_name": "QwenImageTransformer2DModel", "axes_dims_rope": [4, 6, 6], **HEAD}
    write("qwen_image", config, {"grid": [1, 3, 5], "text": 3, "references": [[1, 2, 2]]}, angles.real, angles.imag)


def make_ltx():
    config = {
        "_class_name": "LTXVideoTransformer3DModel",
        "attention_head_dim": 10,
        "num_attention_heads": 2,
        "num_layers": 1,
    }
    embed = ltx.LTXVideoRotaryPosEmbed(20)
    cos, sin = embed(torch.zeros(1), 2, 2, 3, rope_interpolation_scale=(torch.tensor(8 / 25), 32, 32))
    # The first two dimensions do not turn.
    write("ltx", config, {"grid": [2, 2, 3]}, cos[0, :, 2::2], sin[0, :, 2::2])


def make_mochi():
    positions = mochi.MochiRoPE()._get_positions(2, 2, 3, dtype=torch.float32).T
    config = {"_class_name": "MochiTransformer3DModel", **HEAD}
    write("mochi", config, {"grid": [2, 2, 3]}, positions=rounded(positions))


def make_cosmos():
    embed = cosmos.CosmosRotaryPosEmbed(26, rope_scale=(2.0, 1.5, 1.0))
    cos, sin = embed(hidden(3, 4, 6), fps=30)
    config = {"_class_name": "CosmosTransformer3DModel", "attention_head_dim": 26, "num_attention_heads": 2, "num_layers": 1,
              "rope_scale": [2.0, 1.5, 1.0]}  # fmt: skip
    write("cosmos", config, {"grid": [3, 2, 3], "fps": 30}, cos[:, :13], sin[:, :13])


for function in [value for name, value in list(globals().items()) if name.startswith("make_")]:
    function()
