"""What the source of transformers says of each model_type's positions, as one line of JSON each.

The files are read as text: nothing of the package is imported or run. A type's code is what its configuration class leads to:
the classes of modeling_*.py that take this class, and whatever they name, up to a class that takes another configuration.

    python source_table.py [FOLDER OF THE PACKAGE [TYPE …]]
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

# The form of a rotation: which member of a row turns with which. Whole names or fragments of unparsed code.
NEIGHBOURS = re.compile(
    r"\[\.\.\., 0?::2\]|\[:, :, :, 0?::2\]|view_as_complex\(|(?:view|reshape)\(\*\w+\.shape\[:-1\], -1, (?:1, )?2\)"
    r"|unflatten\(-1, \(-1, 2\)\)"
)
HALVES = re.compile(
    r"\b(?!cos|sin)\w+\.shape\[-1\] // 2|\.chunk\((?:2|chunks=2), (?:dim=)?-1\)|torch\.chunk\(\w+, 2, dim=-1\)"
)
ROTATES = re.compile(r"^_?(?:apply_\w*(?:rotary|rope|rotate)\w*|rotate_\w+)$")
ROTARY_CLASS = re.compile(r"Rotary|RoPE|RopePosition|RopeEmbedding")
ROTARY = re.compile(r"Rotary|RoPE|Rope|rotary_emb|rotate_half|apply_rotary")

# What the text of a class or function says of positions, beside a rotation.
KINDS = {
    "t5": re.compile(r"relative_attention_bias|_relative_position_bucket|relative_position_bucket"),
    "alibi": re.compile(r"alibi", re.IGNORECASE),
    "transformer_xl": re.compile(
        r"\br_w_bias\b|\bpos_bias_u\b|\bbias_u\b|_rel_shift|\brel_shift\b|\b_?relative_shift\b"
    ),
    "shaw": re.compile(r"emb_rel_k\b|distance_embedding\b|\brel_pos_emb\b"),
    "deberta": re.compile(r"disentangled_att|pos_att_type|DisentangledSelfAttention"),
    "table of distances": re.compile(
        r"relative_position_bias_table|attention_biases\b|rel_pos_h\b|continuous_position_bias|relative_positions?_encoder|\brpb\b"
    ),
    "content logits": re.compile(r"rel_extent|relative_logits"),
    "convolution": re.compile(r"PositionalConvEmbedding|pos_conv_embed|\bpos_conv\b|PositionalConv\b"),
    "sinusoid": re.compile(
        r"Sinusoid|sinusoid|compute_default_singular_positional_embedding|SinePositionEmbedding|SinePositionalEmbedding|sincos_pos|build_\w*sine_position"
        r"|PositionalEncoding\b|\bpositional_encoding\(|PositionEmbeddingSine|RelPositionalEncoding|SinPositional|vision_pos_encoding"
    ),
    "fourier": re.compile(
        r"positional_embedding_gaussian|fourier_features|PositionEmbeddingRandom|FourierPosition|image_positional_embeddings"
        r"|\b(?:EdgeTam|Sam)\w*PositionalEmbedding\b"
    ),
}
LEARNED = re.compile(
    r"self\.(\w*(?:position|pos_?emb|pos_?encod|wpe|\bpe\b|row_embedder|column_embedder)\w*)\s*(?::[^=\n]+)?=\s*(?:\w+\s*=\s*)?"
    r"(?:nn\.(?:Embedding|Parameter)|QuantEmbedding|\w*(?:LearnedPosition\w*|PositionalEmbedding|PositionEmbeddings?)\b)"
)
NOT_A_TABLE = re.compile(r"projection|^is_|_ids$|_proj|scale|relative")

# Keys of the configuration that can change positions.
KEY = re.compile(
    r"rope|rotary|nope|alibi|position|window|layer_types|layers_block_type|layer_type|interval|pattern|mrope|"
    r"relative|bucket|rel_extent|interleave|temperature|log_scaling|floor_scale|attn_scale|lerope|compress|chunk_size|every_n"
)
SIZES = (
    *(
        "hidden_size",
        "n_embd",
        "d_model",
        "num_hidden_layers",
        "n_layer",
        "num_attention_heads",
        "n_head",
        "num_key_value_heads",
    ),
    *("head_dim", "kv_channels", "qk_rope_head_dim", "qk_nope_head_dim", "max_position_embeddings", "n_positions"),
    *("sliding_window", "rotary_dim", "n_heads", "n_layers", "num_layers", "num_heads", "global_head_dim"),
)


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def without_texts(node: ast.AST) -> str:
    """A definition's code without its doc strings and what only initialises weights or describes the class."""
    kept = []
    for part in getattr(node, "body", []):
        if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
            continue
        if isinstance(part, ast.FunctionDef) and part.name == "_init_weights":
            continue
        if (
            isinstance(part, ast.Assign)
            and isinstance(part.targets[0], ast.Name)
            and part.targets[0].id.startswith("_")
        ):
            continue
        kept.append(ast.unparse(part))
    return "\n".join(kept)


# --- configurations -------------------------------------------------------------------------------------------------


def mapping(root: Path) -> dict[str, str]:
    """CONFIG_MAPPING: model_type to the name of its class."""
    found: dict[str, str] = {}
    for file in ("auto_mappings.py", "configuration_auto.py"):
        path = root / "models/auto" / file
        if not path.exists():
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("CONFIG_MAPPING_NAMES.update"):
                found |= ast.literal_eval(node.args[0].args[0] if isinstance(node.args[0], ast.Call) else node.args[0])
            if not isinstance(node, ast.Assign) or ast.unparse(node.targets[0]) != "CONFIG_MAPPING_NAMES":
                continue
            if isinstance(node.value, ast.Call):  # OrderedDict(**{"one": "more"}, **…)
                told = (word.value for word in node.value.keywords if isinstance(word.value, ast.Dict))
                found |= {name: of for one in told for name, of in ast.literal_eval(one).items()}
            if isinstance(node.value, ast.Call) and node.value.args:
                try:
                    found |= dict(ast.literal_eval(node.value.args[0]))
                except ValueError:  # made of other names, which are found by themselves
                    continue
    return found


@functools.cache
def config_classes(root: Path) -> dict[str, tuple[Path, ast.ClassDef]]:
    found = {}
    for path in sorted(root.glob("models/*/configuration_*.py")):
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and node.name.endswith("Config"):
                found.setdefault(node.name, (path, node))
    return found


class Fields:
    """A configuration class' members with their defaults, those of its bases first, and what its code sets."""

    def __init__(self, root: Path, name: str):
        self.values: dict[str, Any] = {}
        self.init = ""
        self.methods = ""
        self._read(root, name)

    def _read(self, root: Path, name: str) -> None:
        if name not in config_classes(root):
            return
        _, node = config_classes(root)[name]
        for base in node.bases:
            self._read(root, ast.unparse(base))
        for part in node.body:
            target = part.target if isinstance(part, ast.AnnAssign) else None
            if isinstance(part, ast.Assign):
                target = part.targets[0]
            if isinstance(target, ast.Name) and getattr(part, "value", None) is not None:
                self.values[target.id] = self.value(part.value)
            if isinstance(part, ast.FunctionDef):
                self.methods += "\n" + ast.unparse(part)
                if part.name == "__post_init__":
                    self.init = ast.unparse(part)
                    self._run(part)

    def value(self, node: ast.expr) -> Any:
        """A default as far as it is written out: numbers, words, lists, dictionaries, and members that are."""
        if isinstance(node, ast.Call):
            words = {word.arg: word.value for word in node.keywords}
            if "default" in words:  # interval(min=0.0, max=1.0)(default=0.02), field(default=…)
                return self.value(words["default"])
            if "default_factory" in words and isinstance(words["default_factory"], ast.Lambda):
                return self.value(words["default_factory"].body)
            if ast.unparse(node.func) in ("kwargs.pop", "kwargs.get") and len(node.args) == 2:
                return self.value(node.args[1])
            return None
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("self."):
            return self.values.get(node.attr)
        if isinstance(node, ast.Dict):
            return {
                k.value: self.value(v)
                for k, v in zip(node.keys, node.values, strict=True)
                if isinstance(k, ast.Constant)
            }
        if isinstance(node, ast.Name):
            return self.values.get("=" + node.id)
        if isinstance(node, ast.BinOp):
            left, right = self.value(node.left), self.value(node.right)
            if not all(isinstance(x, (int, float)) for x in (left, right)):
                return None
            return {ast.Add: left + right, ast.Mult: left * right, ast.Sub: left - right}.get(type(node.op))
        try:
            return ast.literal_eval(node)
        except ValueError:
            return None

    def _run(self, function: ast.FunctionDef) -> None:
        """What __post_init__ sets where the file says nothing: self.x = …, kwargs.setdefault("x", …)."""
        for node in ast.walk(function):
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                value = self.value(node.value)
                if isinstance(target, ast.Attribute) and ast.unparse(target).startswith("self.") and value is not None:
                    if self.values.get(target.attr) is None:
                        self.values[target.attr] = value
                elif isinstance(target, ast.Name):
                    self.values["=" + target.id] = value
                elif isinstance(target, ast.Subscript) and ast.unparse(target.value) == "kwargs":
                    self.values[self.value(target.slice)] = value
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "kwargs.setdefault" and len(node.args) == 2:
                self.values.setdefault(self.value(node.args[0]), self.value(node.args[1]))


def rope_defaults(fields: Fields) -> dict[str, Any]:
    """Base and fraction where the file says nothing, for all layers or per layer type; scaling, if the class has one."""
    values = fields.values
    base = values.get("rope_theta")
    if not isinstance(base, (int, float)):
        base = values.get("default_theta", 10_000.0)
    fraction = values.get("partial_rotary_factor", values.get("default_partial_rotary_factor"))
    older = re.search(r"kwargs\.pop\('rotary_pct', ([\d.]+)\)", fields.methods)
    if fraction is None and older:
        fraction = float(older[1])
    made = values.get("rope_parameters")

    def one(part: Any) -> dict[str, Any] | None:
        if part is None:
            return None
        out = {"base": part.get("rope_theta") or base, "type": part.get("rope_type") or part.get("type") or "default"}
        share = part.get("partial_rotary_factor", fraction)
        if isinstance(share, (int, float, dict)):
            out["fraction"] = share
        return out

    if isinstance(made, dict) and made and all(v is None or isinstance(v, dict) for v in made.values()):
        return {"per layer type": {name: one(part) for name, part in made.items()}}
    return one(made if isinstance(made, dict) else {}) or {}


def sub_configs(name: str, root: Path) -> list[str]:
    """Members of a composite that are configurations of their own."""
    _, node = config_classes(root).get(name, (None, None))
    if node is None:
        return []
    for part in node.body:
        named = isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) in ("sub_configs", "sub_configs_defaults")
        if named and isinstance(part.value, ast.Dict):
            return sorted(key.value for key in part.value.keys if isinstance(key, ast.Constant))
    return []


@functools.cache
def leaves(root: Path) -> frozenset[str]:
    """Configuration classes that hold no others."""
    return frozenset(name for name in config_classes(root) if not sub_configs(name, root))


# --- code -----------------------------------------------------------------------------------------------------------


class Definition:
    """A class or function of a modeling file: its code, what it names, and which configurations it takes."""

    def __init__(self, node: ast.ClassDef | ast.FunctionDef | ast.Assign):
        self.name = ast.unparse(node.targets[0]) if isinstance(node, ast.Assign) else node.name
        self.text = without_texts(node) if isinstance(node, ast.ClassDef) else ast.unparse(node)
        self.is_class = isinstance(node, ast.ClassDef)
        # A model's common base names whatever it initialises.
        self.is_base = self.is_class and node.name.endswith("PreTrainedModel")
        self.bases = [ast.unparse(base) for base in node.bases] if isinstance(node, ast.ClassDef) else []
        found = re.findall(r"\bconfig(?:_class)?: ['\"]?([\w| .'\"]+)", self.text) + re.findall(
            r"^config_class = (\w+)", self.text, re.MULTILINE
        )
        self.configs = {word for text in found for word in re.findall(r"\w+Config\b", text)} - {
            "PreTrainedConfig",
            "PretrainedConfig",
        }
        self.reads = set(re.findall(r"\bconfig\.(\w+)", self.text)) | set(
            re.findall(r"getattr\((?:self\.)?config, ['\"](\w+)", self.text)
        )
        self.kinds: frozenset[str] | None = None
        self.names = set(re.findall(r"\b[A-Za-z_]\w+", self.text)) | set(self.bases)


@functools.cache
def definitions(path: Path) -> dict[str, Definition]:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.Assign)  # an assignment: a list of classes to choose from
    found = (Definition(node) for node in tree(path).body if isinstance(node, kinds))
    return {one.name: one for one in found if one.name != "__all__"}


@functools.cache
def imported(path: Path) -> dict[str, Path]:
    """Names that a modeling file takes from another model's."""
    found = {}
    for node in tree(path).body:
        if isinstance(node, ast.ImportFrom) and node.level == 2 and node.module and ".modeling_" in node.module:
            source = path.parents[1] / (node.module.replace(".", "/") + ".py")
            if source.exists():
                found |= {alias.asname or alias.name: source for alias in node.names}
    return found


def code_of(root: Path, folder: Path, config: str) -> list[Definition]:
    """All definitions that a configuration class leads to."""
    everything = [(path, one) for path in sorted(folder.glob("modeling_*.py")) for one in definitions(path).values()]
    todo = [(path, one) for path, one in everything if config in one.configs and not one.is_base]
    if not todo:  # it is given by its part of a composite, and the classes are called as it is
        todo = [(path, one) for path, one in everything if one.name.startswith(config.removesuffix("Config"))]
    others = leaves(root) - {config}

    def foreign(one: Definition) -> bool:
        """Another configuration's own; what merely takes one may be shared."""
        stems = tuple(name.removesuffix("Config") for name in one.configs & others)
        return config not in one.configs and bool(stems) and one.name.startswith(stems)

    seen: dict[tuple[Path, str], Definition] = {}
    while todo:
        path, one = todo.pop()
        if (path, one.name) in seen or one.is_base or foreign(one):
            continue
        seen[path, one.name] = one
        own, taken = definitions(path), imported(path)
        for name in sorted(one.names):
            if name in own:
                todo.append((path, own[name]))
            elif name in taken and name in definitions(taken[name]):
                todo.append((taken[name], definitions(taken[name])[name]))
    return [seen[key] for key in sorted(seen, key=lambda key: (str(key[0]), key[1]))]


def pairings(code: list[Definition]) -> list[str]:
    found = set()
    for one in code:
        rotates = ROTATES.match(one.name)
        if one.is_class:
            # A class may turn by itself; its frequencies are no rotation.
            rotates = "view_as_complex" in one.text or re.search(r"torch\.stack\(\[-\w+\[\.\.\., 1::2\]", one.text)
        if not rotates:
            continue
        if NEIGHBOURS.search(one.text):
            found.add("interleaved")
        elif HALVES.search(one.text):
            found.add("half")
    return sorted(found)


def kinds_of(one: Definition) -> frozenset[str]:
    """What one definition says, which many types may lead to: remembered."""
    if one.kinds is not None:
        return one.kinds
    found = set()
    if ROTARY.search(one.name) or ROTATES.match(one.name):
        found.add("rotary")
    for kind, pattern in KINDS.items():
        if pattern.search(one.name) or pattern.search(one.text):
            found.add(kind)
    for name in LEARNED.findall(one.text):
        if not NOT_A_TABLE.search(name) and not re.search(rf"self\.{name} = \w*(?:Rotary|Sin)", one.text):
            found.add("learned")
    if re.search(r"Learned\w*Position|PositionalEmbedding\(nn\.Embedding|PositionEmbedding\(nn\.Embedding", one.name):
        found.add("learned")
    if any("nn.Embedding" in base for base in one.bases) and "osition" in one.name:
        found.add("learned")
    one.kinds = frozenset(found)
    return one.kinds


def kinds(code: list[Definition]) -> list[str]:
    return sorted(set().union(*(kinds_of(one) for one in code)))


def keys(code: list[Definition], fields: Fields) -> list[str]:
    read = set().union(*(one.reads for one in code)) | set(re.findall(r"\bself\.(\w+)", fields.init))
    return sorted(
        name for name in read if KEY.search(name) and not name.startswith(("_", "vision")) and "token" not in name
    )


def row(root: Path, model_type: str, name: str) -> dict[str, Any]:
    if name not in config_classes(root):
        return {"type": model_type, "class": name, "kinds": [], "missing": True}
    path, _ = config_classes(root)[name]
    fields = Fields(root, name)
    subs = sub_configs(name, root)
    code = code_of(root, path.parent, name)
    out: dict[str, Any] = {"type": model_type, "class": name, "folder": path.parent.name, "kinds": []}
    rotaries = [
        one.name for one in code if one.is_class and ROTARY_CLASS.search(one.name) and "Attention" not in one.name
    ]
    if rotaries:
        out["rotaries"] = rotaries
    if subs:  # its parts have rows of their own
        return out | {"configs": subs}
    out["kinds"] = kinds(code)
    turning = pairings(code)
    if turning and "rotary" not in out["kinds"]:
        out["kinds"] = sorted([*out["kinds"], "rotary"])
    if "rotary" in out["kinds"]:
        out["pairing"] = turning
        out["rope"] = rope_defaults(fields)
        if fields.values.get("default_rope_type") == "axial":
            out["axial"] = True
    own = {key: fields.values[key] for key in SIZES if isinstance(fields.values.get(key), int)}
    if own:
        out["sizes"] = own
    if isinstance(fields.values.get("attribute_map"), dict) and fields.values["attribute_map"]:
        out["called"] = dict(sorted(fields.values["attribute_map"].items()))
    out["keys"] = keys(code, fields)
    out["code"] = len(code)
    return out


def rows(root: Path, types: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Of these types, or of all, by name."""
    known = mapping(root)
    for model_type in types or known:
        if model_type not in known:
            raise SystemExit(f"source_table: must be model types of {root}, got {model_type}")
    for model_type in sorted(types or known):
        yield row(root, model_type, known[model_type])


def package() -> Path:
    """The folder of the installed package, which is found without importing it."""
    spec = importlib.util.find_spec("transformers")
    if spec is None or spec.origin is None:
        raise SystemExit("source_table: transformers must be installed, or its folder given")
    return Path(spec.origin).parent


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else package()
    if not (root / "models/auto").is_dir():
        raise SystemExit(
            f"source_table: must be the folder of the package transformers, with models/auto in it, got {root}"
        )
    for one in rows(root, sys.argv[2:]):
        print(json.dumps(one, sort_keys=True))


if __name__ == "__main__":
    main()
