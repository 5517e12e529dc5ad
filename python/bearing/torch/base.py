"""What the modules share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Union

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

from .. import _core
from .encoding import Encoding, form_of, grouped, of_tensors, spec_of, traits_of
from .functional import Layout, Positions, add, bias_matrix, turn
from .given_numbers import check_number, whole_number
from .starting import start, whole
from .words import in_words_of

Device = Union[torch.device, str, int, None]


class EncodingModule(nn.Module):
    """A module that stands for an encoding. Attention takes it in place of one.

    The spec is kept as text, so that the module can be copied, saved and compiled. :attr:`spec` makes it again.
    """

    def __init__(self, kind: str, spec: Any = None, tensors: Sequence[str] = (), **settings: Any) -> None:
        super().__init__()
        self.form = form_of(kind, spec, tensors, **settings)

    @property
    def spec(self) -> Any:
        """The spec that the module was made from, or None."""
        return spec_of(self.form)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Fills parameters and buffers as those of a new module are filled, also of the modules within.

        Call it on a module that was made on the meta device, after to_empty(). Processes that share parameters (FSDP2,
        DTensor) call it together; each then has its part of one start.
        """
        start(self.children())
        with whole(self):
            self._fill()

    def _fill(self) -> None:
        """Fills what the module itself holds. The modules within have filled theirs."""
        self._fill_buffers()

    def _fill_buffers(self) -> None:
        """Fills buffers that no state_dict holds."""

    @torch.no_grad()
    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *given: Any
    ) -> None:
        """Buffers that no state holds get their numbers beside it: what to_empty() left in them is anything. With
        ``assign=True`` a module that was made on the meta device gets the state's own tensors, and memory for these."""
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *given)
        names = [name for name in self._non_persistent_buffers_set if self._buffers[name] is not None]
        if local_metadata.get("assign_to_params_buffers"):
            device = next((t.device for name, t in state_dict.items() if name.startswith(prefix)), torch.device("meta"))
            for name in (name for name in names if self._buffers[name].device.type == "meta"):
                self._buffers[name] = torch.empty_like(self._buffers[name], device=device)
        if names and all(self._buffers[name].device.type != "meta" for name in names):
            with whole(self, parameters=False):
                self._fill_buffers()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> EncodingModule:
        """Buffers are numbers that nobody learns: ``bfloat16()``, ``half()`` and their like move them and leave their type."""
        before = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, buffer in before.items():
            now = self._buffers[name]
            if buffer is not None and now is not None and buffer.is_floating_point() and now.dtype is not buffer.dtype:
                self._buffers[name] = buffer.to(now.device)
        return self

    def encoding(self) -> Encoding:
        """Returns what :func:`bearing.torch.attention` takes for this module."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        return ", ".join(self._shown())

    def _shown(self) -> list[str]:
        """What the module's repr says of what it was made from."""
        spec = self.spec
        return [] if spec is None else [repr(spec)]


class Described(EncodingModule):
    """Any encoding of the library as a module, made from the library's description of it.

        bias = bt.Described(kind, spec, heads=8)       kind: the name of its class in bearing

    Parameters have the encoding's names and extents. They start as its authors start them, with random numbers from
    PyTorch's generator (``torch.manual_seed``).

    kind: the name of the encoding's class in bearing.
    spec: its spec, or None if it has none.
    sizes: extents that the spec does not state (heads, dim, sets, ...). A first axis that may be left out is left out
        if its size is not given.
    without: names of parameters that are left out.
    settings: what the encoding takes beside spec and parameters.
    start: numbers of the rules by which parameters start.
    device, dtype: where parameters are made, and of which type; PyTorch's defaults if not given.

    What a model computes for each call is given to ``encoding(name=tensor)``. Raises TypeError for a name that the
    encoding does not have, and RangeError or ValueError for a size or a setting that contradicts the spec.
    """

    def __init__(
        self,
        kind: str,
        spec: Any = None,
        *,
        without: Sequence[str] = (),
        settings: dict[str, Any] | None = None,
        start: dict[str, float | None] | None = None,
        device: Device = None,
        dtype: torch.dtype | None = None,
        **sizes: int,
    ) -> None:
        traits = in_words_of("Described", "bearing", "_traits")(traits_of)(kind)
        called = self._called(kind)
        check_spec(kind, spec, called=called)
        _check_names(called, traits, sizes, without, settings or {}, start or {})
        sizes = _checked_sizes(called, sizes)
        _check_beside(called, kind, spec, sizes, settings or {})
        placed = placement(called, device, dtype)
        for name, number in (start or {}).items():
            if number is not None:
                check_number(called, name, number)
        names = [name for name in _core._wanted(kind, spec) if name not in without]
        # Heads share one set of parameters each, until encoding() is told of more heads than sets.
        shared = {"group": 1} if traits["grouped"] else {}
        if settings and not traits["by_hand"] and not any(one["indices"] for one in traits["parameters"].values()):
            # An encoding of no numbers, which refuses wrong settings. Only then the form holds them.
            given = ({} if spec is None else {"spec": spec}) | dict.fromkeys(names, ())
            in_words_of(called, kind)(getattr(_core, kind))(**given, **settings)
        super().__init__(kind, spec, names, **(shared | (settings or {})))
        self.kind, self._names, self._start = kind, tuple(names), start or {}
        self._beside = {name: one for name, one in (settings or {}).items() if not hasattr(spec, name)}
        of = traits["parameters"]
        # What encoding() asks for: its name, whether it may be left out, whether it counts.
        self._asked = tuple((n, of[n]["optional"], of[n]["indices"]) for n in names if not of[n]["learned"])
        for name in (name for name in of if of[name]["learned"]):
            shape = _shape(kind, spec, name, sizes, called) if name in names else None
            self.register_parameter(name, None if shape is None else empty(*shape, **placed))
        Described._fill(self)

    def _shown(self) -> list[str]:
        return [*super()._shown(), *(f"{name}={value!r}" for name, value in self._beside.items())]

    def _called(self, kind: str) -> str:
        """What the caller calls the class, for errors: that of the module, or of the encoding."""
        return kind if type(self) is Described else type(self).__name__

    @torch.no_grad()
    def _fill(self) -> None:
        for name in self._names:
            parameter = getattr(self, name, None)
            if parameter is not None and holds_numbers(parameter):
                number = self._start.get(traits_of(self.kind)["parameters"][name]["start"][1])
                seed = int(torch.randint(2**62, (), device="cpu"))
                make = in_words_of(self._called(self.kind))(_core._start)
                drawn = make(self.kind, self.spec, name, list(parameter.shape), seed, number)
                parameter.copy_(torch.as_tensor(drawn))

    def encoding(self, *given: Tensor, **named: Tensor | None) -> Encoding:
        """Returns the encoding of one call. given, named: what the model computes for it, in the encoding's order or by
        name.

        Raises TypeError unless all of it is given.
        """
        if not self._asked and not given and not named:
            return Encoding(self.form, tuple(getattr(self, name) for name in self._names))
        others = [name for name in named if name not in self._names]
        if len(given) > len(self._asked) or others:
            wanted = ", ".join(name for name, _, _ in self._asked) or "nothing"
            called = self._called(self.kind)
            raise TypeError(f"[{called}] encoding: must be given {wanted}, got {others or len(given)}")
        found: dict[str, Any] = {name: getattr(self, name, None) for name in self._names}
        for (name, _, _), tensor in zip(self._asked, given, strict=False):
            found[name] = tensor
        found |= named
        for name, optional, indices in self._asked:
            if found[name] is None and not optional:
                called = self._called(self.kind)
                raise TypeError(f"[{called}] {name}: must be given to encoding(), as it is computed for each call")
            if indices and isinstance(found[name], Tensor):
                found[name] = found[name].long()
        there = {name: tensor for name, tensor in found.items() if tensor is not None}
        form = self.form if len(there) == len(self._names) else of_tensors(self.form, tuple(there))
        return Encoding(form, tuple(there.values()))


def holds_numbers(tensor: Tensor) -> bool:
    """Whether the tensor has memory to fill or to read. On the meta device, and where only shapes are followed, it has none."""
    return tensor.device.type != "meta" and not isinstance(tensor, FakeTensor)


def check_spec(kind: str, spec: Any, wanted: Sequence[str] | None = None, called: str = "") -> None:
    """Raises TypeError for another encoding's spec. wanted: names of classes, if they are not those of the kind; called: the
    caller's name for the kind, if it is another."""
    traits: dict[str, Any] = traits_of(kind) if wanted is None else {"specs": wanted, "spec_optional": False}
    if spec is None and (traits["spec_optional"] or not traits["specs"]):
        return
    if type(spec).__name__ not in traits["specs"]:
        words = " or ".join(traits["specs"]) or "None"
        raise TypeError(f"[{called or kind}] spec: must be {words}, got {spec!r}")


def _check_names(
    called: str,
    traits: dict[str, Any],
    sizes: Iterable[str],
    without: Iterable[str],
    settings: Iterable[str],
    start: Iterable[str],
) -> None:
    """Raises TypeError for names that the encoding does not have. Sizes that many encodings have may be given to all."""
    of = traits["parameters"].values()
    kinds: tuple[tuple[str, Iterable[str], set[str]], ...] = (
        ("size", sizes, {*_SIZES, *(extent for one in of for extent in one["extents"])}),
        ("parameter", without, set(traits["parameters"])),
        ("setting", settings, {name for name, *_ in traits["settings"]}),
        ("number of a start", start, {one["start"][1] for one in of} - {""}),
    )
    for what, given, known in kinds:
        for name in given:
            if name not in known:
                words = ", ".join(sorted(known)) or "none"
                raise TypeError(f"[{called}] has no {what} named {name!r}; it has {words}")


def _checked_sizes(called: str, sizes: dict[str, Any]) -> dict[str, int]:
    """Those that are given, as numbers of Python."""
    return {name: whole_number(called, name, size, 1) for name, size in sizes.items() if size is not None}


def check_sizes(called: str, **sizes: Any) -> None:
    """Raises what is wrong with sizes that must be given, by their names."""
    for name, size in sizes.items():
        whole_number(called, name, size, 1)


def _check_beside(called: str, kind: str, spec: Any, sizes: dict[str, int], settings: dict[str, Any]) -> None:
    """Raises RangeError for heads other than those of the numbers that the spec states, and for a spec that lacks them;
    ValueError for another setting."""
    for name in _by_head(kind, spec):
        if not getattr(spec, name):
            raise _core.RangeError(f"[{called}] spec: must have {name}, one for each head, got none: {spec!r}")
    heads = _stated_heads(kind, spec)
    if heads is not None and sizes.get("heads", heads) != heads:
        raise _core.RangeError(f"[{called}] heads: must be {heads}, as spec states them, got {sizes['heads']}")
    for name, value in settings.items():
        if getattr(spec, name, value) != value:
            own = getattr(spec, name)
            raise ValueError(f"[{called}] {name}: must be {own!r}, as spec states it, or left out, got {value!r}")


def _stated_heads(kind: str, spec: Any) -> int | None:
    """How many heads the numbers of a spec are for, such as ALiBi's slopes; None where it has no such numbers."""
    return next((len(getattr(spec, name)) for name in _by_head(kind, spec)), None)


def _by_head(kind: str, spec: Any) -> list[str]:
    """The names of numbers that a spec states for each head."""
    of = traits_of(kind)["parameters"]
    return [name for name in of if of[name]["extents"] == ("heads",) and isinstance(getattr(spec, name, None), tuple)]


def heads_of(module: nn.Module) -> int | None:
    """How many heads a module of scores is for; None where nothing tells, or any number will do."""
    if not isinstance(module, EncodingModule):
        return None
    if isinstance(module, Bias):
        return module.heads
    members = json.loads(module.form)
    of = traits_of(members["kind"])["parameters"]
    if "heads" in vars(module) and not isinstance(module, Described):
        return module.heads
    for name, tensor in zip(members["tensors"], module.encoding().tensors, strict=True):
        extents = of[name]["extents"]
        axis = extents.index("heads") - len(extents) if "heads" in extents else 0
        if axis and tensor.dim() >= -axis:  # a first axis that may be left out is that of heads
            return tensor.shape[axis]
    return _stated_heads(members["kind"], module.spec)


def placement(called: str, device: Device, dtype: Any) -> dict[str, Any]:
    """Where parameters are made, and of which type, as PyTorch's functions take it. Raises TypeError for another type."""
    if dtype is not None and dtype not in _TYPES:
        raise TypeError(f"[{called}] dtype: must be one of {', '.join(map(str, _TYPES))}, got {dtype!r}")
    return {"device": device, "dtype": dtype}


_TYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def _shape(kind: str, spec: Any, parameter: str, sizes: dict[str, int], called: str) -> list[int]:
    """The extents of a parameter. The first axis is left out if it may be, and its size is not given."""
    shape: list[int] = []
    known = {name: size for name, size in sizes.items() if name in _SIZES}
    of = traits_of(kind)["parameters"][parameter]
    found = _core._extents(kind, spec, parameter, known)
    for name, or_one, size in zip(of["extents"], of["or_one"], found, strict=True):
        size = sizes.get(name, size)
        if size is None and or_one:
            if shape:
                shape.append(1)
        elif size is None:
            raise TypeError(f"[{called}] {name}: must be given, as {parameter} has that extent")
        elif size < 1:
            raise _core.RangeError(f"[{called}] {name}: must be from 1 on, as {parameter} has that extent, got {size}")
        else:
            shape.append(size)
    return shape


_SIZES = ("batch", "heads", "kv_heads", "q_len", "k_len", "dim", "value_dim", "length")


class Bias(EncodingModule):
    """An encoding of scores that looks at neither queries nor keys. Calling the module makes its matrix."""

    heads: int

    def _shown(self) -> list[str]:
        return [*super()._shown(), f"heads={self.heads}"]

    def forward(
        self,
        q_len: int | None = None,
        k_len: int | None = None,
        *,
        q_positions: Positions = None,
        k_positions: Positions = None,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """Makes the matrix of scores [heads, q_len, k_len].

        q_len: how many queries; it may be left out where q_positions is a tensor.
        k_len: how many keys; it may be left out where k_positions is a tensor.
        q_positions: where queries stand, as :func:`bearing.torch.bias_matrix` takes positions.
        k_positions: where keys stand.
        dtype: the type of the result; the parameters' own if not given.
        """
        return bias_matrix(self, q_positions, k_positions, heads=self.heads, q_len=q_len, k_len=k_len, dtype=dtype)


class Input(Described):
    """An encoding of the input. Calling the module adds it."""

    def forward(self, x: Tensor, positions: Positions = None) -> Tensor:
        """Returns x [batch, time, dim] plus the rows of its positions. x itself is not changed."""
        return add(self, x, positions)


class Rows(Described):
    """An encoding of rows that has ``sets`` of parameters. Heads share the sets evenly.

    With grouped queries there are as many sets as key heads, or fewer.
    """

    sets: int

    def encoding(self, heads: int | None = None) -> Encoding:
        """Returns the encoding for that many heads; for as many as there are sets if heads is left out."""
        one = super().encoding()
        return one if heads is None else Encoding(grouped(one.form, int(heads // self.sets)), one.tensors)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        q_positions: Positions = None,
        k_positions: Positions = None,
        *,
        layout: Layout = "bhtd",
    ) -> tuple[Tensor, Tensor]:
        """Returns q and k [batch, heads, time, head_dim], both turned.

        q_positions: where queries stand.
        k_positions: where keys stand; where the queries stand if it is left out.
        layout: 'bhtd', or 'bthd' for tensors with time before heads.
        """
        k_positions = q_positions if k_positions is None else k_positions
        axis = 2 if layout == "bthd" else 1
        q_turned = turn(self.encoding(q.shape[axis]), q, q_positions, side="query", layout=layout)
        return q_turned, turn(self.encoding(k.shape[axis]), k, k_positions, side="key", layout=layout)


class Weights(nn.Module):
    """The weights of a linear layer, for an op that reads them. They start as PyTorch's.

    The class is not an nn.Linear. Code that swaps the nn.Linear modules of a model (quantisation, adapters) would leave
    other numbers in it.
    """

    def __init__(self, inputs: int, outputs: int, **placed: Any) -> None:
        super().__init__()
        self.weight, self.bias = empty(outputs, inputs, **placed), empty(outputs, **placed)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        with whole(self):
            nn.Linear.reset_parameters(self)  # reads weight and bias alone


class Linear(nn.Linear):
    """A linear layer that starts otherwise than PyTorch's, also when it is started by itself.

    std: the standard deviation of the weights, which start normal; None if they start as PyTorch's.
    bias_start: where the biases start.
    placed: device and dtype, as :func:`placement` gives them.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        bias: bool = True,
        std: float | None = 0.02,
        bias_start: float = 0.0,
        **placed: Any,
    ) -> None:
        self.std, self.bias_start = std, bias_start  # PyTorch's constructor starts the layer
        super().__init__(inputs, outputs, bias, **placed)

    def reset_parameters(self) -> None:
        with whole(self):
            if self.std is None:
                super().reset_parameters()
            else:
                normal(self.weight, std=self.std)
            if self.bias is not None:
                nn.init.constant_(self.bias, self.bias_start)


def no_autocast(tensor: Tensor) -> torch.autocast:
    """A context in which layers that compute an encoding's numbers keep the type of their parameters."""
    kind = tensor.device.type
    return torch.autocast("cpu" if kind == "meta" else kind, enabled=False)


def as_parameters(x: Tensor, layer: nn.Module) -> Tensor:
    """What a layer gets outside of autocast, in the type of its parameters; as it is for a layer without any."""
    return x.to(type_of(layer, x.dtype))


def type_of(layer: nn.Module, otherwise: torch.dtype) -> torch.dtype:
    """The type of a layer's parameters. Quantised layers have none, or keep them in a type that no input has."""
    return next((p.dtype for p in layer.parameters() if p.dtype in _TYPES), otherwise)


def empty(*shape: int, device: Device = None, dtype: torch.dtype | None = None) -> nn.Parameter:
    """Makes a parameter that its module's reset_parameters() fills."""
    return nn.Parameter(torch.empty(shape, device=device, dtype=dtype))


def normal(*parameters: nn.Parameter | None, std: float = 0.02) -> None:
    """Fills parameters with normal numbers. 0.02 is the standard deviation of BERT and GPT-2."""
    for parameter in parameters:
        if parameter is not None:
            nn.init.normal_(parameter, 0, std)


def by_head(rows: Tensor, heads: int) -> Tensor:
    """Returns [rows, heads * dim] as [heads, rows, dim]."""
    return rows.unflatten(-1, (heads, -1)).transpose(0, 1).contiguous()
