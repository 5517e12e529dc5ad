"""What a call takes for an encoding: its form, which is a constant text, and the tensors that it reads."""

from __future__ import annotations

import atexit
import functools
import inspect
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, Union

import torch
from torch import Tensor

from .. import _core
from .compiling import constant, constant_of
from .given_tables import geometry_of, given_numbers, table_given


class Encoding(NamedTuple):
    """An encoding as a custom op takes it: text for what is constant, tensors for what has gradients.

    form: JSON, made once, so that a compiled graph holds it as a constant.
    tensors: the parameters, in the order in which the form names them.
    """

    form: str
    tensors: tuple[Tensor, ...] = ()


class HasEncoding(Protocol):
    """A module of this package, or any other object that has an ``encoding()``."""

    def encoding(self) -> Encoding: ...


EncodingLike = Union[Encoding, HasEncoding, "_core.Encoding", "_core.Rope", "_core.RopeTable"]
Encodings = Union[EncodingLike, Sequence[EncodingLike], None]


def form_of(kind: str, spec: Any = None, tensors: Sequence[str] = (), **settings: Any) -> str:
    """The form of ``bearing.<kind>(spec, tensors…, settings…)``, with the names of its tensors."""
    members = {"kind": kind, "tensors": list(tensors), "settings": settings}
    return json.dumps(members | ({} if spec is None else {"spec": spec.to_dict()}))


@constant
def grouped(form: str, group: int) -> str:
    """The form for heads of which `group` share a set of parameters; as it is for an encoding without such sets."""
    return _grouped(form, group)


@functools.lru_cache(maxsize=256)
def _grouped(form: str, group: int) -> str:
    members = json.loads(form)
    if "group" not in members["settings"]:
        return form
    members["settings"]["group"] = group
    return json.dumps(members)


@constant
def with_past(form: str, past: int | None) -> str:
    """The form of an encoding that counts tokens, for queries after `past` others; None: at their positions' tokens."""
    return _with_past(form, past)


@functools.lru_cache(maxsize=256)
def _with_past(form: str, past: int | None) -> str:
    members = json.loads(form)
    members["settings"]["past"] = past
    return json.dumps(members)


@constant
def of_length(table: str, length: int, seq_len: int) -> str:
    """A table's text for another length of the table, and of the sequence that its frequencies serve."""
    return _of_length(table, length, seq_len)


@functools.lru_cache(maxsize=256)
def _of_length(table: str, length: int, seq_len: int) -> str:
    return json.dumps(json.loads(table) | {"length": length, "seq_len": seq_len})


@constant
def of_head_dim(table: str, head_dim: int) -> str:
    """A table's text for other heads."""
    members = json.loads(table)
    members["rope"]["head_dim"] = head_dim
    return json.dumps(members)


@constant
def of_tensors(form: str, names: tuple[str, ...]) -> str:
    """The form for those tensors alone."""
    return _of_tensors(form, names)


@functools.lru_cache(maxsize=256)
def _of_tensors(form: str, names: tuple[str, ...]) -> str:
    return json.dumps(json.loads(form) | {"tensors": list(names)})


def spec_of(form: str) -> Any:
    """The spec in a form, or None."""
    return _spec(json.loads(form).get("spec"))


@functools.cache
def traits_of(kind: str) -> dict[str, Any]:
    """What the library says of an encoding."""
    return _core._traits(kind)


@constant
def _settings_of(kind: str) -> tuple[str, ...]:
    """The names of an encoding's settings."""
    return tuple(name for name, *_ in traits_of(kind)["settings"])


def turned_dim(forms: str, dim: int) -> int:
    """How long rows of `dim` are when the encodings of a call have turned them."""
    for form in json.loads(forms):
        if traits_of(form["kind"])["changes_dim"]:
            dim = _core._out_dim(form["kind"], _spec(form.get("spec")), int(dim))
    return dim


def encoding_of(encoding: EncodingLike) -> Encoding:
    """Returns the encoding of a module or of one of ``bearing``'s own objects, which must hold PyTorch's or NumPy's
    arrays.

    encoding: a module of this package, one of ``bearing``'s own encodings, a ``bearing.RopeTable``, which counts as
        ``RotaryRows`` of it, or a ``bearing.Rope``, which counts as the module ``Rope(rope)``.

    ``torch.compile`` cannot look into ``bearing``'s own objects. It takes those that were made outside of the compiled
    function and hold no arrays of parameters as constants; convert others with this function before the call.

    Raises TypeError for anything else, and for a ``bearing.Rope`` whose frequencies depend on the length.
    """
    return encoding_given("[encoding_of] encoding", encoding)


def encoding_given(argument: str, encoding: EncodingLike) -> Encoding:
    """As :func:`encoding_of`. argument: "[function] argument", for errors."""
    if isinstance(encoding, Encoding):
        return encoding
    if isinstance(encoding, (_core.Encoding, _core.Rope, _core.RopeTable)):
        found = _constant(argument, encoding) if torch.compiler.is_compiling() else None
        return _converted(argument, encoding) if found is None else found
    if isinstance(encoding, _core.Spec):
        raise TypeError(
            f"{argument}: must be modules of bearing.torch or encodings of bearing, got {encoding!r}, a spec, which has no "
            f"numbers yet{_makes(encoding)}"
        )
    if isinstance(encoding, type) or not hasattr(encoding, "encoding"):
        raise TypeError(
            f"{argument}: must be modules of bearing.torch or encodings of bearing, such as RotaryRows(table), got "
            f"{encoding!r}"
        )
    if not torch.compiler.is_compiling():
        check_needs(argument, encoding)
    return encoding.encoding()


def check_needs(argument: str, encoding: HasEncoding, option: str = "") -> None:
    """Raises TypeError for a module whose encoding cannot be made without arguments. option: what takes the encoding of a
    call, for the error. A wrapper, as torch.compile makes one, has the method of what it wraps."""
    method = encoding.encoding
    function = getattr(method, "__func__", None)
    needed = _needs(method) if function is None else _needs_of_method(function)
    if needed:
        kind = type(getattr(method, "__self__", encoding)).__name__
        raise TypeError(
            f"{argument}: must need queries and keys alone, got {kind}, which needs {', '.join(needed)}: "
            f"give each call {option}{kind.lower()}.encoding({', '.join(needed)})"
        )


@functools.lru_cache(maxsize=256)
def _needs_of_method(function: Callable[..., Any]) -> tuple[str, ...]:
    return _needs(functools.partial(function, None))  # its self


def _needs(function: Callable[..., Any]) -> tuple[str, ...]:
    found = inspect.signature(function).parameters.values()
    return tuple(p.name for p in found if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))


def _makes(spec: Any) -> str:
    """Which modules are made of a spec, as the end of an error."""
    from . import modules

    found = []
    for name in modules.__all__:
        asked = inspect.signature(getattr(modules, name)).parameters
        if "spec" in asked and re.search(rf"\b{type(spec).__name__}\b", str(asked["spec"].annotation)):
            needed = [one.name for one in asked.values() if one.name == "spec" or one.default is one.empty]
            found.append(f"bearing.torch.{name}({', '.join(needed)})")
    return f": {' or '.join(found)} makes a module of it" if found else ""


def encodings_of(encodings: Encodings, function: str = "attention") -> list[Encoding]:
    """The encodings of a call: None, one, or several. function: who was called, for errors."""
    if encodings is None:
        return []
    argument = f"[{function}] encodings"
    if isinstance(encodings, Encoding) or not isinstance(encodings, (list, tuple, torch.nn.ModuleList)):
        return [encoding_given(argument, encodings)]
    return [encoding_given(argument, one) for one in encodings]


def forms_of(encodings: Sequence[Encoding]) -> str:
    """All forms of a call as one text."""
    return "[" + ", ".join([one.form for one in encodings]) + "]"


def tensors_of(encodings: Sequence[Encoding], arithmetic: torch.dtype) -> list[Tensor]:
    """All tensors of a call in its arithmetic; the conversion has its gradient."""
    return [t.to(arithmetic) if t.is_floating_point() else t for one in encodings for t in one.tensors]


def build(forms: str, tensors: Sequence[Tensor], arithmetic: torch.dtype) -> list[_core.Encoding]:
    """The encodings that forms and tensors stand for, as ``bearing`` itself has them."""
    made, first = [], 0
    for make, names in _makers(forms, arithmetic):
        last = first + len(names)
        made.append(make(**dict(zip(names, tensors[first:last], strict=True))) if names else make())
        first = last
    return made


def gradients(forms: str, tensors: Sequence[Tensor], found: Sequence[dict[str, Tensor]]) -> list[Tensor]:
    """The gradients of those tensors that have any, from a dictionary for each encoding."""
    if not tensors:
        return []
    names = [name for form in json.loads(forms) for name in form["tensors"]]
    owners = [one for form, one in zip(json.loads(forms), found, strict=True) for _ in form["tensors"]]
    # The cosines and sines of a given table have none.
    return [
        one[name] if name in one else torch.zeros_like(t)
        for name, one, t in zip(names, owners, tensors, strict=True)
        if t.is_floating_point()
    ]


# Of encodings without tensors and tables, which are small: to write one's form takes longer than attention at one token.
_constants: dict[_core.Encoding, Encoding] = {}
_MOST_CONSTANTS = 256
_TABLES = (_core.RopeTable, _core.XposTable)


@constant_of
def _constant(argument: str, one: _core.Encoding | _core.Rope | _core.RopeTable) -> Encoding | None:
    """What a compiled graph holds in place of one of bearing's own objects; None for one with arrays, which may change."""
    return None if isinstance(one, _core.Encoding) and one.parameters else _converted(argument, one)


def _converted(argument: str, one: _core.Encoding | _core.Rope | _core.RopeTable) -> Encoding:
    if isinstance(one, _core.RopeTable):
        return _from_core(_core.RotaryRows(one))
    return _of_rope(argument, one) if isinstance(one, _core.Rope) else _of_own(one)


@functools.lru_cache(maxsize=64)
def _of_rope(argument: str, rope: _core.Rope) -> Encoding:
    """RoPE by a table of KEPT rows; others are computed when they are needed, to the same bits."""
    check_fixed(argument, rope)
    return Encoding(form_of("RotaryRows", table=table_form(rope, KEPT)))


def check_fixed(argument: str, rope: _core.Rope) -> None:
    """Refuses a spec whose frequencies depend on the length, which it does not say."""
    if _core.depends_on_length(rope.scaling):
        _core._check_fixed(rope, argument, way="; bearing.torch.Rope(rope, seq_len=…) says which length they serve")


def _of_own(encoding: _core.Encoding) -> Encoding:
    found = _constants.get(encoding)
    if found is None:
        found = _from_core(encoding)
        if not found.tensors and not any(isinstance(value, _TABLES) for value in encoding.arguments.values()):
            if len(_constants) >= _MOST_CONSTANTS:
                _constants.clear()
            _constants[encoding] = found
    return found


def _from_core(encoding: _core.Encoding) -> Encoding:
    spec, tensors, settings = None, {}, {}
    kind = type(encoding).__name__
    for name, value in encoding.arguments.items():
        if value is None:
            if name in _settings_of(kind):
                settings[name] = None
        elif name == "spec":
            spec = value
        elif isinstance(value, Tensor):
            tensors[name] = value
        elif hasattr(value, "__array__"):
            tensors[name] = torch.as_tensor(value)
        elif traits_of(kind)["parameters"].get(name, {}).get("indices"):
            tensors[name] = torch.tensor(value)
        elif isinstance(value, (bool, int, float, str)):
            settings[name] = value
        elif isinstance(value, _core.RopeTable) and is_given(value):
            spec = geometry_of(value)
            tensors["cos"], tensors["sin"] = given_numbers(value)
        elif isinstance(value, _core.RopeTable):
            settings[name] = text_of_table(value)
        elif isinstance(value, _core.XposTable):
            spec = value.xpos
            settings |= {name: getattr(value, name) for name in ("length", "seq_len", "angles", "memory")}
        else:
            raise TypeError(f"[{kind}] {name}: must be an array or a tensor, got {type(value).__name__}")
    return Encoding(form_of(kind, spec, tuple(tensors), **settings), tuple(tensors.values()))


def _spec(members: dict[str, Any] | None) -> Any:
    return None if members is None else getattr(_core, members["type"]).from_dict(members)


@functools.lru_cache(maxsize=256)
def _makers(forms: str, arithmetic: torch.dtype) -> list[tuple[Callable[..., _core.Encoding], tuple[str, ...]]]:
    return [_maker(form, arithmetic) for form in json.loads(forms)]


def _maker(form: dict[str, Any], arithmetic: torch.dtype) -> tuple[Callable[..., _core.Encoding], tuple[str, ...]]:
    if form["kind"] in ("RotaryRows", "RotaryValues"):
        rotary = getattr(_core, form["kind"])
        if "spec" in form:
            rope = _spec(form["spec"])
            return (lambda cos, sin: rotary(table_given(rope, cos, sin))), ("cos", "sin")
        made = rotary(table_of(form["settings"]["table"], arithmetic))
        return (lambda: made), ()
    if form["kind"] == "XposRows":
        xpos = _core.XposRows(xpos_table_of(json.dumps(form["spec"]), arithmetic=arithmetic, **form["settings"]))
        return (lambda: xpos), ()
    given = dict(form["settings"])
    if "spec" in form:
        given["spec"] = _spec(form["spec"])
    make = functools.partial(getattr(_core, form["kind"]), **given)
    if not form["tensors"]:
        constant = make()
        return (lambda: constant), ()
    return make, tuple(form["tensors"])


KEPT = 2048  # rows of a table where nobody says how many
FIXED_POINT = "fixed_point"  # angles by whole numbers, in kernels for GPUs alone


@functools.lru_cache(maxsize=64)
def table_form(rope: _core.Rope, length: int, angles: str = "exact", seq_len: int = 0) -> str:
    """The text that stands for a table: ``bearing.RopeTable(rope, length, angles=…, seq_len=…)``."""
    return json.dumps({"rope": rope.to_dict(), "length": length, "angles": angles, "seq_len": seq_len})


def is_given(table: _core.RopeTable) -> bool:
    """Whether it was made from_cos_sin: of numbers that no text holds."""
    try:
        table.__reduce__()
    except TypeError:
        return True
    return False


def geometry_form(table: _core.RopeTable) -> str:
    """The text of a table that gets its cosines and sines from tensors."""
    return json.dumps({"rope": geometry_of(table).to_dict()})


def table_of_numbers(form: str, cos: Tensor, sin: Tensor, arithmetic: torch.dtype) -> _core.RopeTable:
    """The table of such a text."""
    if cos.dtype is arithmetic and sin.dtype is arithmetic and not (cos.requires_grad or sin.requires_grad):
        return table_given(spec_of_table(form), cos, sin)
    return _core.RopeTable.from_cos_sin(spec_of_table(form), cos.detach().to(arithmetic), sin.detach().to(arithmetic))


def text_of_table(table: _core.RopeTable) -> str:
    """The text of a table that is there already, and not given."""
    frequencies, length, _, memory = table.__reduce__()[1]
    return json.dumps({"frequencies": frequencies.__reduce__()[1], "length": length, "memory": memory})


def spec_of_table(form: str) -> _core.Rope:
    """The spec of a table's text."""
    return _core.Rope.from_dict(json.loads(form)["rope"])


@functools.lru_cache(maxsize=64)
def table_of(form: str, arithmetic: torch.dtype) -> _core.RopeTable:
    """The table of a text. Kept, as layers and steps ask for the same one again and again."""
    try:
        members = json.loads(form)
    except ValueError:
        raise TypeError(
            f"[rotate] rope: must be a bearing.torch.Rope, or a Rope or RopeTable of bearing, got {form!r}"
        ) from None
    dtype = "float64" if arithmetic is torch.float64 else "float32"
    if "frequencies" in members:
        frequencies = _core._frequencies(*members["frequencies"])
        return _core.RopeTable(frequencies, members["length"], dtype=dtype, memory=members["memory"])
    rope = spec_of_table(form)
    length, angles, seq_len = members["length"], members["angles"], members["seq_len"]
    angles = "exact" if angles == FIXED_POINT else angles  # which is for GPUs
    return _core.RopeTable(rope, length, angles=angles, seq_len=seq_len, dtype=dtype)


@functools.lru_cache(maxsize=64)
def xpos_table_of(spec: str, length: int, arithmetic: torch.dtype, **options: Any) -> _core.XposTable:
    """xPos' tables, of a spec's members as text. options: seq_len, angles and memory, which a module leaves out."""
    dtype = "float64" if arithmetic is torch.float64 else "float32"
    return _core.XposTable(_core.Xpos.from_dict(json.loads(spec)), length, dtype=dtype, **options)


# Nothing of the extension outlives the interpreter.
atexit.register(_constants.clear)
atexit.register(_makers.cache_clear)
atexit.register(_of_rope.cache_clear)
atexit.register(table_form.cache_clear)
atexit.register(table_of.cache_clear)
atexit.register(xpos_table_of.cache_clear)
