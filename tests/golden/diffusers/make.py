"""Makes the files beside it: angles and positions that diffusers 0.42.1 computes. Needs diffusers, transformers and torch.

Each file has a config, a request for picture_positions(), and cos and sin of every pair of every token, or, where the
frequencies are learned, the positions.
"""

import json
import pathlib

import torch
from diffusers.models.embeddings import (
    PatchEmbed,
    apply_rotary_emb_allegro,
    get_2d_rotary_pos_embed,
    get_3d_rotary_pos_embed,
    get_3d_rotary_pos_embed_allegro,
)
from diffusers.models.transformers import transformer_bria as bria
from diffusers.models.transformers import transformer_chronoedit as chronoedit
from diffusers.models.transformers import transformer_cogview4 as cogview4
from diffusers.models.transformers import transformer_cosmos as cosmos
from diffusers.models.transformers import transformer_flux as flux
from diffusers.models.transformers import transformer_flux2 as flux2
from diffusers.models.transformers import transformer_hidream_image as hidream
from diffusers.models.transformers import transformer_hunyuan_video as hunyuan
from diffusers.models.transformers import transformer_hunyuan_video15 as hunyuan15
from diffusers.models.transformers import transformer_hunyuanimage as hunyuan_image
from diffusers.models.transformers import transformer_kandinsky as kandinsky
from diffusers.models.transformers import transformer_longcat_image as longcat
from diffusers.models.transformers import transformer_ltx as ltx
from diffusers.models.transformers import transformer_lumina2 as lumina2
from diffusers.models.transformers import transformer_mochi as mochi
from diffusers.models.transformers import transformer_ovis_image as ovis
from diffusers.models.transformers import transformer_qwenimage as qwen
from diffusers.models.transformers import transformer_qwenimage21 as qwen21
from diffusers.models.transformers import transformer_skyreels_v2 as skyreels
from diffusers.models.transformers import transformer_wan as wan
from diffusers.models.transformers import transformer_wan_animate as wan_animate
from diffusers.models.transformers import transformer_z_image as z_image
from diffusers.pipelines.cogvideo.pipeline_cogvideox import get_resize_crop_region_for_grid
from diffusers.pipelines.flux.pipeline_flux_kontext import FluxKontextPipeline
from diffusers.pipelines.flux2.pipeline_flux2 import Flux2Pipeline
from diffusers.pipelines.hunyuandit.pipeline_hunyuandit import get_resize_crop_region_for_grid as hunyuan_dit_region
from diffusers.pipelines.longcat_image.pipeline_longcat_image import prepare_pos_ids
from diffusers.pipelines.ovis_image.pipeline_ovis_image import OvisImagePipeline

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


def of_model(name, **more):
    return {"_class_name": name, **HEAD, **more}


def make_like_flux():
    axes = {"axes_dims_rope": [4, 6, 6], "num_single_layers": 1}
    picture = FluxKontextPipeline._prepare_latent_image_ids(1, 3, 5, "cpu", torch.float32)
    ids = torch.cat([torch.zeros(3, 3), picture])
    request = {"grid": [1, 3, 5], "text": 3}
    embed = flux.FluxPosEmbed(10000, [4, 6, 6])  # Chroma's
    write("chroma", of_model("ChromaTransformer2DModel", **axes), request, *neighbours(embed(ids)))
    embed = bria.BriaEmbedND(500, [4, 6, 6])
    write("bria", of_model("BriaTransformer2DModel", rope_theta=500, **axes), request, *neighbours(embed(ids)))
    words = torch.zeros(3, 3)
    words[:, 1] = words[:, 2] = torch.arange(3)  # OvisImagePipeline._prepare_prompt_embeds
    picture = OvisImagePipeline._prepare_latent_image_ids(1, 3, 5, "cpu", torch.float32)
    embed = ovis.OvisImagePosEmbed(10000, [4, 6, 6])
    write("ovis_image", of_model("OvisImageTransformer2DModel", **axes), request,
          *neighbours(embed(torch.cat([words, picture]))))  # fmt: skip
    words = prepare_pos_ids(modality_id=0, type="text", start=(0, 0), num_token=3)
    picture = prepare_pos_ids(modality_id=1, type="image", start=(512, 512), height=3, width=5)
    embed = longcat.LongCatImagePosEmbed(10000, [4, 6, 6])
    write("longcat_image", of_model("LongCatImageTransformer2DModel", **axes), request,
          *neighbours(embed(torch.cat([words, picture]))))  # fmt: skip


def make_lumina2():
    embed = lumina2.Lumina2RotaryPosEmbed(10000, [4, 6, 6], [300, 512, 512], 2)
    angles = embed(torch.zeros(1, 2, 4, 6), torch.ones(1, 3, dtype=torch.long))[3][0]
    config = {"_class_name": "Lumina2Transformer2DModel", "axes_dim_rope": [4, 6, 6], "hidden_size": 32, "num_layers": 1,
              "num_refiner_layers": 1, "num_attention_heads": 2, "num_kv_heads": 1}  # fmt: skip
    write("lumina2", config, {"grid": [1, 2, 3], "text": 3}, angles.real, angles.imag)


def make_like_hunyuan_video():
    embed = hunyuan15.HunyuanVideo15RotaryPosEmbed(2, 1, [4, 6, 6], 256.0)
    config = of_model("HunyuanVideo15Transformer3DModel", rope_axes_dim=[4, 6, 6])
    write("hunyuan_video_1_5", config, {"grid": [2, 2, 3], "text": 2}, *still(2, neighbours(embed(hidden(2, 4, 6)))))
    embed = hunyuan_image.HunyuanImageRotaryPosEmbed((2, 2), [6, 10], 256.0)
    config = of_model("HunyuanImageTransformer2DModel", rope_axes_dim=[6, 10], num_single_layers=1)
    write("hunyuan_image", config, {"grid": [1, 2, 3], "text": 2},
          *still(2, neighbours(embed(torch.zeros(1, 1, 4, 6)))))  # fmt: skip


def make_hunyuan_dit():
    for name, (rows, columns) in {"wide": (3, 7), "square": (3, 3)}.items():
        angles = get_2d_rotary_pos_embed(16, hunyuan_dit_region((rows, columns), 32), (rows, columns))
        request = {"grid": [1, rows, columns]}
        write(f"hunyuan_dit_{name}", of_model("HunyuanDiT2DModel"), request, *neighbours(angles))


def make_like_wan():
    request = {"grid": [2, 2, 3]}
    embed = wan.WanRotaryPosEmbed(16, (1, 2, 2), 64)  # of VACE
    write("wan_vace", of_model("WanVACETransformer3DModel"), request, *neighbours(embed(hidden(2, 4, 6))))
    embed = wan_animate.WanRotaryPosEmbed(16, (1, 2, 2), 64)
    write("wan_animate", of_model("WanAnimateTransformer3DModel"), request, *neighbours(embed(hidden(2, 4, 6))))
    embed = skyreels.SkyReelsV2RotaryPosEmbed(16, (1, 2, 2), 64)
    write("skyreels_v2", of_model("SkyReelsV2Transformer3DModel"), request, *neighbours(embed(hidden(2, 4, 6))))
    # A head of 18 dimensions, of which its code takes a third for rows, and for columns, as in one of 128.
    embed = chronoedit.ChronoEditRotaryPosEmbed(18, (1, 2, 2), 64)
    for frames in (2, 3):
        write(f"chrono_edit_{frames}", of_model("ChronoEditTransformer3DModel") | {"attention_head_dim": 18},
              {"grid": [frames, 2, 3]}, *neighbours(embed(hidden(frames, 4, 6))))  # fmt: skip


def make_consisid():
    crops = get_resize_crop_region_for_grid((2, 5), 9, 6)
    angles = get_3d_rotary_pos_embed(16, crops, (2, 5), 2)
    config = of_model("ConsisIDTransformer3DModel", use_rotary_positional_embeddings=True)
    request = {"grid": [2, 2, 5], "text": 2, "trained_height": 6, "trained_width": 9}
    write("consisid", config, request, *zeros_first(2, neighbours(angles)))


def make_cogview4():
    embed = cogview4.CogView4RotaryPosEmbed(16, 2, (256, 256))
    cos, sin = embed(torch.zeros(1, 1, 6, 10))
    write("cogview4", of_model("CogView4Transformer2DModel"), {"grid": [1, 3, 5], "text": 2},
          *zeros_first(2, (cos[:, :8], sin[:, :8])))  # fmt: skip


def make_qwen_image_21():
    embed = qwen21.QwenImage21Rope(10000, [4, 6, 6])
    picture = torch.cat([torch.zeros(4), torch.ones(15)]).bool()
    angles = embed([(1, 3, 5)], picture, torch.device("cpu"))
    config = of_model("QwenImage21Transformer2DModel", axes_dims_rope=[4, 6, 6])
    write("qwen_image_21", config, {"grid": [1, 3, 5], "text": 4}, angles.real, angles.imag)


def make_hidream():
    embed = hidream.HiDreamImageEmbedND(10000, [4, 6, 6])
    picture = FluxKontextPipeline._prepare_latent_image_ids(1, 3, 5, "cpu", torch.float32)
    turned = embed(torch.cat([picture, torch.zeros(2, 3)])[None])[0, :, 0]
    config = of_model("HiDreamImageTransformer2DModel", axes_dims_rope=[4, 6, 6], num_single_layers=1)
    for head_dim in (16, 32):  # the whole of a head, and its first half
        write(f"hidream_{head_dim}", config | {"attention_head_dim": head_dim}, {"grid": [1, 3, 5], "text": 2},
              turned[..., 0, 0], turned[..., 1, 0])  # fmt: skip


def make_kandinsky5():
    embed = kandinsky.Kandinsky5RoPE3D([4, 6, 6])
    turned = embed((1, 2, 2, 3), [torch.arange(n) for n in (2, 2, 3)]).reshape(12, 8, 2, 2)
    config = {"_class_name": "Kandinsky5Transformer3DModel", "axes_dims": [4, 6, 6], "model_dim": 32,
              "num_visual_blocks": 1}  # fmt: skip
    at = torch.stack(torch.meshgrid(*[torch.arange(n) for n in (2, 2, 3)], indexing="ij")).reshape(3, 12)
    write("kandinsky5", config, {"at": at.tolist()}, turned[..., 0, 0], turned[..., 1, 0])


def make_allegro():
    frequencies = get_3d_rotary_pos_embed_allegro(18, ((0, 0), (2, 3)), (2, 3), 2, (2.2, 2.0, 2.0))[:3]
    grid = torch.meshgrid(*[torch.arange(n) for n in (2, 2, 3)], indexing="ij")
    at = [axis.flatten()[None] for axis in grid]
    # Of each axis' six dimensions the first three turn into the last three: what becomes of ones and zeros.
    x = torch.zeros(1, 1, 12, 18).unflatten(-1, (3, 2, 3))
    x[..., 0, :] = 1
    turned = apply_rotary_emb_allegro(x.flatten(-3), frequencies, at).unflatten(-1, (3, 2, 3))[0, 0]
    write("allegro", of_model("AllegroTransformer3DModel") | {"attention_head_dim": 18}, {"grid": [2, 2, 3]},
          turned[..., 0, :].flatten(-2), turned[..., 1, :].flatten(-2))  # fmt: skip


def make_tables():
    """Rows of the whole table, and where they stand: sinusoids of SD3 and PixArt."""
    config = {"num_layers": 1, "num_attention_heads": 2, "attention_head_dim": 8, "patch_size": 2}
    embed = PatchEmbed(height=8, width=8, patch_size=2, in_channels=1, embed_dim=16, pos_embed_max_size=6)
    write("sd3", {"_class_name": "SD3Transformer2DModel", "sample_size": 8, "pos_embed_max_size": 6, **config},
          {"rows": [6, 6], "times": 4 / 6}, table=rounded(embed.pos_embed))  # fmt: skip
    embed = PatchEmbed(height=8, width=8, patch_size=2, in_channels=1, embed_dim=16, interpolation_scale=2)
    write("pixart", {"_class_name": "PixArtTransformer2DModel", "sample_size": 8, "interpolation_scale": 2, **config},
          {"rows": [4, 4], "times": 1 / 2}, table=rounded(embed.pos_embed))  # fmt: skip


for function in [value for name, value in list(globals().items()) if name.startswith("make_")]:
    function()
