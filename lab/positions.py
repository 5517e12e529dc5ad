"""Every encoding of the catalog that serves sequences, and how it stands in a model. The library's own descriptions say
which module learns it and what that needs: no encoding has a line here."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, NamedTuple

import bearing
import bearing.torch as bt
from bearing import _core
from torch import Tensor, nn

from .computed import NETWORKS
from .following import Following

SITES = ("Bias", "Term", "Rows", "Inputs")


class Place(NamedTuple):
    """The model that an encoding comes into. trained and longest are in tokens: what is trained up to, and measured."""

    heads: int
    dim: int
    d_model: int
    trained: int
    longest: int


@dataclass(frozen=True)
class Entry:
    """An encoding of the catalog. kind is the name of its class, "" if nothing is added; without: why it is left out."""

    name: str
    title: str
    kind: str
    spec: Any
    without: str


# HunyuanVL's patches have a place in the text and an image, V-JEPA 2's a frame, beside row and column.
WITH_OTHER_COORDINATES = ("elementwise_rope", "vjepa2")
SOME_PLACE = Place(heads=4, dim=32, d_model=128, trained=64, longest=1024)


def entries(place: Place = SOME_PLACE) -> list[Entry]:
    """All encodings of the catalog, with specs of the place's size."""
    made = {name: (kind, spec) for name, kind, spec in _core._named(place.heads, place.dim, place.trained)}
    found = []
    for one in bearing.catalog():
        kind, spec = made.get(one.name, ("", None))
        without = _why_not(one.name, kind, spec)
        found.append(Entry(one.name, one.title, kind, spec, without))
    return found


def serving() -> list[str]:
    """The names of those that serve sequences."""
    return [one.name for one in entries() if not one.without]


def _why_not(name: str, kind: str, spec: Any) -> str:
    """Why an encoding does not serve sequences of tokens, or ""."""
    if name in WITH_OTHER_COORDINATES:
        return "its patches have more coordinates than a row and a column; in a text it is RoPE, or has no use"
    if bearing.Specimen(name, heads=2, dim=8, length=16).width and _on_one_axis(spec) == spec:
        return "its tokens are the patches of an image: see the question `images`"
    if not kind:
        return ""
    for parameter, of in _core._traits(kind)["parameters"].items():
        if of["indices"]:
            return f"its {parameter} must come with the data, such as the edges of a graph"
        if of["learned"] and {"q_len", "k_len"} <= set(of["extents"]):
            return f"its {parameter} has a number for each pair of tokens, so it serves one length alone"
    return ""


def entry(encoding: str, place: Place) -> Entry:
    """The entry of a name of the catalog, or of NAME:KEY=VALUE,…, with a spec of the model's size."""
    name = encoding.partition(":")[0]
    found = {one.name: one for one in entries(place)}
    if name not in found:
        raise ValueError(f"[lab] encoding: must begin with a name of `bearing list`, got {encoding!r}")
    one = found[name]
    if one.without:
        raise ValueError(f"[lab] encoding: must serve sequences, got {name}: {one.without}")
    if not one.kind:
        return one
    # Rows of the input are as wide as the model, others as a head.
    dim = place.d_model if _core._traits(one.kind)["inputs"] else place.dim
    specs = {n: spec for n, _, spec in _core._named(place.heads, dim, place.trained)}
    spec = specs[name] if name == encoding else bearing.encoding(encoding, heads=place.heads, dim=dim)
    return Entry(name, one.title, one.kind, spec and for_sequences(spec, place), "")


def for_sequences(spec: Any, place: Place) -> Any:
    """The spec for tokens in a row, without a class token, trained at the place's length."""
    spec = _on_one_axis(spec)
    if getattr(spec, "cls", None) == "untied":
        spec = spec.replace(cls="tied")
    if hasattr(spec, "first_offset") and spec.direction == "bidirectional":
        spec = spec.replace(first_offset=1 - place.longest)
    if hasattr(getattr(spec, "scaling", None), "trained_length"):
        spec = spec.replace(scaling=spec.scaling.replace(trained_length=place.trained))
    if hasattr(spec, "augmentation"):
        # As far as the trained length, with the order of tokens kept.
        moved = bearing.CapeAugmentation(max_global_shift=place.trained, max_local_shift=0.5, max_global_scale=1.1)
        spec = spec.replace(augmentation=moved)
    return spec


def _on_one_axis(spec: Any) -> Any:
    """The spec with one coordinate, where it says how many it has."""
    if isinstance(getattr(spec, "axes", None), int):
        return spec.replace(axes=1)
    inner = {name: getattr(spec, name, None) for name in (() if spec is None else spec.to_dict())}
    inner = {name: one for name, one in inner.items() if isinstance(getattr(one, "axes", None), int)}
    return spec.replace(**{name: one.replace(axes=1) for name, one in inner.items()}) if inner else spec


class Positions(nn.Module):
    """An encoding in a model: what is added to the input, or what each layer's attention gets."""

    def __init__(self, input: nn.Module | None, layers: list[Layer], scale: float | None) -> None:
        super().__init__()
        self.input = input
        self.layers = nn.ModuleList(layers)
        self.scale = scale

    def forward(self, x: Tensor, positions: Any) -> Tensor:
        """x [batch, time, d_model] with what is added to the input, which the library does on the CPU."""
        return x if self.input is None else self.input(x.cpu(), positions).to(x.device)


class Layer(nn.Module):
    """An encoding in one layer: what attention takes, once the model has computed what it asks for."""

    def __init__(self, module: nn.Module | None, place: Place) -> None:
        super().__init__()
        self.module, self.heads = module, place.heads
        asked = () if module is None else inspect.signature(module.encoding).parameters.values()
        self.asked = tuple(p.name for p in asked if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
        self.networks = nn.ModuleDict({name: NETWORKS[name](place) for name in self.asked if name in NETWORKS})

    def encodings(self, x: Tensor) -> list[bt.Encoding]:
        """For the layer's input x [batch, time, d_model]."""
        if self.module is None:
            return []
        x = x.cpu()  # where encodings are, and what they ask for is computed
        known: dict[str, Any] = {"heads": self.heads, "x": x, "time": x.shape[1]}
        given = {name: self.networks[name](x) if name in self.networks else known[name] for name in self.asked}
        return [self.module.encoding(**given)]


def make(encoding: str, place: Place, layers: int) -> Positions:
    """The encoding in a model of that many layers, each with parameters of its own."""
    one = entry(encoding, place)
    if not one.kind:
        return Positions(None, [Layer(None, place) for _ in range(layers)], None)
    if _core._traits(one.kind)["inputs"]:
        return Positions(_module(one, place), [Layer(None, place) for _ in range(layers)], None)
    made = [Layer(_module(one, place), place) for _ in range(layers)]
    return Positions(None, made, softmax_scale(one.spec, place.dim))


def _module(one: Entry, place: Place) -> nn.Module:
    """What learns the encoding's parameters."""
    if Following.follows(one.spec):
        return Following(one.kind, one.spec)
    if change := getattr(bearing, one.name.removeprefix("rope_"), None):  # of the frequencies of a RoPE
        return _changed(change, one.spec, place)
    cls = _class(one)
    traits = _core._traits(one.kind)
    keeps_rows = "length" in {name for name, *_ in traits["settings"]}
    sizes = {
        "spec": one.spec,
        "rope": one.spec,
        "heads": place.heads,
        "dim": place.dim,
        "value_dim": place.dim,
        "head_dim": place.dim,
        "d_model": place.d_model,
        "length": place.longest if keeps_rows else place.trained,
        "offsets": place.longest if getattr(one.spec, "direction", "") == "causal" else 2 * place.longest - 1,
    }
    asked = inspect.signature(cls).parameters.values()
    always = ("spec", "d_model", "value_dim", "length")
    given = {p.name: sizes[p.name] for p in asked if p.name in sizes and (p.default is p.empty or p.name in always)}
    return cls(**given)


def _class(one: Entry) -> type[nn.Module]:
    """The module of bearing.torch that is called like the description's own, the spec or the encoding."""
    stem = next((one.kind.removesuffix(site) for site in SITES if one.kind.endswith(site)), one.kind)
    named = [_core._traits(one.kind)["module"], type(one.spec).__name__, stem, one.kind]
    for name in named:
        if name in bt.__all__:
            return getattr(bt, name)
    raise ValueError(f"[lab] {one.name}: must have a module in bearing.torch, got none named {' or '.join(named)}")


def _changed(change: Any, rope: Any, place: Place) -> nn.Module:
    """A RoPE whose frequencies a function of bearing has changed."""
    asked = inspect.signature(change).parameters
    frequencies = change(
        bearing.resolve(rope), **({"trained_length": place.trained} if "trained_length" in asked else {})
    )
    return bt.Fixed(bearing.RotaryRows(bearing.RopeTable(frequencies, place.longest)))


def softmax_scale(spec: Any, dim: int) -> float | None:
    """What an encoding wants scores to be multiplied by, where it is not 1/√dim."""
    own = getattr(bearing, f"{type(spec).__name__.lower()}_softmax_scale", None)
    if own is not None:
        values = {"spec": spec, "dim": dim}
        return own(**{name: values[name] for name in inspect.signature(own).parameters})
    if isinstance(spec, bearing.Rope):
        factor = bearing.resolve(spec, seq_len=1).softmax_scale_factor
        return None if factor == 1 else factor * dim**-0.5
    return None
