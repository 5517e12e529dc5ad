"""What the reader makes of each model_type of transformers, held against its source: `verdict`.

    python source_verdicts.py [FOLDER OF THE PACKAGE]

prints the types that are not covered, with what their code has, and those that are wrong.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import bearing
import source_table

# How encodings of the reader are called, for each kind of the source.
NAMES = {
    "t5": {"t5", "t5_axis", "gated_t5"},
    "alibi": {"alibi"},
    "transformer_xl": {"transformer_xl", "xlnet"},
    "shaw": {"shaw", "bert_relative", "wav2vec2_bert_relative"},
    "deberta": {"deberta"},
    "table of distances": {"swin", "swin_v2", "sam", "bucket_bias"},
    "content logits": {"relative_logits"},
    "convolution": {"convolution"},
    "sinusoid": {"sinusoidal", "sinusoidal_2d"},
    "learned": {"learned"},
    "fourier": {"fourier"},
}
# With nothing of what their code has, by their class' defaults.
SWITCHED_OFF = {
    "beit": "use_relative_position_bias is false",
    "data2vec-vision": "use_relative_position_bias is false",
    "bamba": "attn_layer_indices is empty",
    "esm": 'position_embedding_type is "absolute"',
    "granitemoehybrid": "position_embedding_type is null",
    "zamba2": "use_mem_rope is false",
    "wav2vec2-bert": 'position_embeddings_type is "relative_key"',
    "wav2vec2-conformer": 'position_embeddings_type is "relative"',
    "seamless_m4t": 'position_embeddings_type is "relative"',
    "vibevoice_diffusion": "its sinusoids are of the diffusion's time step",
}
# A rotary class is named in its code and not used.
UNROTATED = {
    "moshi_depth": "its layers are made with use_rope=False",
    "clvp_decoder": "its layers are called without a rotation",
}
# Where the code makes a base from a key and its default, without a dictionary of the class.
SLIDING_BASES = {"deepseek_v4": 160_000.0, "dots3_note_text": 50_000.0}  # DeepSeek-V4: of compressed layers
# Where the reader is right by the models' own modules (test_towers.py), and the table does not look closely enough.
OTHERWISE = {
    "dory": "the base of each layer type stands in a dictionary that its class makes",
    "glm4_moe": "its class' heads of 4096 / 96 dimensions are rounded (rotary_count.py)",
    "minimax_m3_vl_vision": "three axes share 78 of 80 dimensions",
    "speecht5": "its relative positions are called pe_k",
    "vjepa2": "each element turns by an angle of its own",
    "patchtst": "a table that may begin as sinusoids",
    "nemotron3_5_transcribe_word_timestamp": "its layers are those of the speech recogniser",
}
# Where a module that takes another configuration, or another package, makes the positions.
ELSEWHERE = {
    "dpr": "its encoders are BERT's",
    "exaone": "its code is Llama's",
    "gemma3n_vision": "timm's",
    "gemma4_unified_vision": "its composite's code has them",
    "idefics_vision": "its code is in vision.py",
    "layoutxlm": "its code is LayoutLMv2's",
    "mimi_decoder": "its transformer takes MimiConfig",
    "mimi_encoder": "its transformer takes MimiConfig",
    "parakeet_tdt": "its encoder takes ParakeetEncoderConfig",
    "pocket_tts_audio_tokenizer_decoder": "its transformer takes PocketTTSAudioTokenizerConfig",
    "pocket_tts_audio_tokenizer_encoder": "its transformer takes PocketTTSAudioTokenizerConfig",
    "pp_chart2table_vision": "its code is GOT-OCR 2's",
    "internlm3": "its code stands in modular_internlm3.py alone",
    "iquestcoder": "its code stands in modular_iquestcoder.py alone",
    "rag": "its parts are models of other types",
    "sam_hq_prompt_encoder": "its composite's code has them",
    "sam_prompt_encoder": "its composite's code has them",
    "sarvam_mla": "its code is DeepSeek-V3's",
    "sarvam_moe": "its code is GLM-4-MoE's",
    "timm_backbone": "timm's",
    "timm_wrapper": "timm's",
}
REFUSED = ("must be a multiple of the number of heads",)


def default_file(row: dict[str, Any]) -> dict[str, Any]:
    """A file of the class' own sizes, and no word on positions."""
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    sizes = row.get("sizes", {})
    return {"model_type": row["type"]} | {name: sizes[name] for name in names if sizes.get(name)}


def defaults(rope: dict[str, Any]) -> list[tuple[float, float, bool]]:
    """Bases, with the part of a head that turns, and whether it is proportional: the head then counts as whole."""
    groups = rope["per layer type"].values() if "per layer type" in rope else [rope]
    found = []
    for group in groups:
        if group:
            bases, parts = group["base"], group.get("fraction", 1.0)
            for name in bases if isinstance(bases, dict) else [""]:
                base = bases[name] if isinstance(bases, dict) else bases
                part = parts[name] if isinstance(parts, dict) else parts
                found.append((float(base), part, group["type"] == "proportional"))
    return found


def wrong_rotation(row: dict[str, Any], layer: Any, said: str) -> str:
    """What of a rotary layer is unlike its source, or ""."""
    rope = layer.encoding
    if isinstance(rope, bearing.OtherEncoding):
        return ""
    if rope.pairing not in row["pairing"]:
        return f"pairing {rope.pairing}, not {row['pairing']}"
    allowed = defaults(row["rope"])
    if row["type"] in SLIDING_BASES:
        allowed.append((SLIDING_BASES[row["type"]], 1.0, False))
    by_base = [
        one for one in allowed if one[0] == rope.base or f"{one[0]:g}" in said or f"{one[0]:.0f} in 5.24.0" in said
    ]
    if not by_base:
        return f"base {rope.base}, not one of {[one[0] for one in allowed]}"
    if rope.part.where == "last":
        rotary = row["sizes"].get("qk_rope_head_dim", rope.rotary_dim)
        return "" if rope.rotary_dim == rotary else f"{rope.rotary_dim} dimensions turn, not {rotary}"
    wanted = {rope.head_dim if whole else int(rope.head_dim * part) for _, part, whole in by_base}
    wanted |= {row["sizes"]["rotary_dim"]} if row.get("sizes", {}).get("rotary_dim") else set()
    return "" if rope.rotary_dim in wanted else f"{rope.rotary_dim} of {rope.head_dim} turn, not {sorted(wanted)}"


def snake(name: str) -> str:
    """The encoding's name from its class': T5Axis is t5_axis."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def verdict(row: dict[str, Any]) -> tuple[str, str]:
    """ "read", "named", "none", "refused", "composite", "unknown" or "wrong", and what is to be said of it.

    Heads that do not divide the class' own width are refused: the model's own code cannot run with them.
    """
    if row["type"] in OTHERWISE:
        return "read", OTHERWISE[row["type"]]
    try:
        model = bearing.read_hf_config(default_file(row))
    except bearing.ConfigError as error:
        return ("refused" if any(why in str(error) for why in REFUSED) else "unknown"), str(error)
    if "configs" in row:  # its parts are rows of their own
        return "composite", ""
    said = " ".join(warning.text for warning in model.warnings)
    if "is not known" in said:
        return "wrong", "guessed"
    rotary = [layer for layer in model.layers if layer.name == "rope"]
    names = {layer.name for layer in model.layers} | {one.name for one in model.inputs}
    # A layer may have more than one encoding.
    names |= {snake(type(one).__name__) for layer in model.layers for one in layer.also}
    kinds = set(row["kinds"])
    if row["type"] in ELSEWHERE:
        seen = sorted(kinds) or not names - {"none"}
        return ("wrong", f"the table sees {seen}") if seen else ("read", ELSEWHERE[row["type"]])
    if rotary:
        if "rotary" not in kinds:
            return "wrong", "nothing turns"
        faults = {wrong_rotation(row, layer, said) for layer in rotary} - {""}
        return ("wrong", "; ".join(sorted(faults))) if faults else ("read", "")
    if "rotary" in kinds and row["type"] not in SWITCHED_OFF and row["type"] not in UNROTATED:
        return "wrong", "it turns"
    others = set().union(*(NAMES.get(kind, set()) for kind in kinds))
    if names & others or (names == {"none"} and (not kinds or row["type"] in SWITCHED_OFF | UNROTATED)):
        named = any("its numbers are not read" in warning.text for warning in model.warnings)
        return ("none" if names == {"none"} else "named" if named else "read"), ""
    return "wrong", f"{sorted(names)}, not {sorted(kinds)}"


def rows(root: Path) -> list[dict[str, Any]]:
    return list(source_table.rows(root))


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else source_table.package()
    for row in rows(root):
        kind, why = verdict(row)
        if kind in ("unknown", "wrong"):
            print(kind, row["type"], ", ".join(row["kinds"]), why, sep="\t")


if __name__ == "__main__":
    main()
