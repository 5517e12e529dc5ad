"""Every module of bearing.torch in a small size, with a function of it that gradients are checked of."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import bearing
import bearing.torch as bt
import torch
from bearing import _core
from bearing._modules import ModuleInfo, modules
from patches import on_two_axes
from torch import Tensor, nn

HEADS, TIME, DIM, D_MODEL = 4, 6, 8, 12


class Case(NamedTuple):
    """A module, how it was made before it was shaken, and what is made of it from tensors of its own."""

    name: str
    make: Callable[[], nn.Module]
    module: nn.Module
    call: Callable[..., Tensor]
    inputs: tuple[Tensor, ...]
    given: tuple[Tensor, ...] = ()  # what its encoding() asks for


def tensor(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, dtype=dtype, requires_grad=True)


def qkv(dim: int = DIM) -> tuple[Tensor, Tensor, Tensor]:
    return tensor(2, HEADS, TIME, dim), tensor(2, HEADS, TIME, dim), tensor(2, HEADS, TIME, DIM)


def shaken(module: nn.Module) -> nn.Module:
    """In float64, with what starts at 0 somewhere else."""
    module = module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            if not parameter.any():
                parameter.uniform_(-1, -0.1)
    return module


def in_attention(name: str, make: Callable[[], nn.Module], **options: object) -> Case:
    module, given = shaken(make()), {"mask": "causal"} | options

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return bt.attention(q, k, v, module, **given)

    return Case(name, make, module, call, qkv())


def in_window(name: str, make: Callable[[], nn.Module], height: int, width: int) -> Case:
    module, at = shaken(make()), bt.window_positions(height, width)
    inputs = tuple(tensor(2, HEADS, height * width, DIM) for _ in range(3))
    return Case(
        name,
        make,
        module,
        lambda q, k, v: bt.attention(q, k, v, module, mask="none", q_positions=at, k_positions=at),
        inputs,
    )


def of_rows(name: str, make: Callable[[], nn.Module], axes: int) -> Case:
    module = shaken(make())
    at = torch.rand(axes, 2, TIME, dtype=torch.float64) * 3 if axes > 1 else None
    q, k, _ = qkv()
    return Case(name, make, module, lambda q, k: torch.cat(module(q, k, at), 1), (q, k))


def relations() -> Iterator[Case]:
    xl = bearing.TransformerXL()
    deberta = bearing.Deberta(max_relative_positions=8, position_buckets=4)
    yield in_attention("Shaw", lambda: bt.Shaw(bearing.Shaw(clip=3), DIM))
    yield in_attention("BertRelative", lambda: bt.BertRelative(bearing.BertRelative(max_position_embeddings=TIME), DIM))
    yield in_attention("TransformerXL", lambda: bt.TransformerXL(xl, HEADS, DIM, D_MODEL, offsets=TIME))
    scale = bearing.deberta_softmax_scale(deberta, DIM)
    yield in_attention("Deberta", lambda: bt.Deberta(deberta, HEADS, DIM, D_MODEL), mask="none", scale=scale)
    for terms in ("c2p", "p2c"):
        one = bearing.Deberta(max_relative_positions=8, terms=terms)
        table = functools.partial(bt.Described, "DebertaTerm", one, heads=HEADS, dim=DIM)
        yield in_attention(f"Deberta {terms}", table, mask="none", scale=bearing.deberta_softmax_scale(one, DIM))
    tupe = bearing.Tupe(rel_pos_bins=8, max_rel_pos=16)
    scale = bearing.tupe_softmax_scale(DIM)
    yield in_attention("Tupe", lambda: bt.Tupe(tupe, HEADS, DIM, D_MODEL, TIME), mask="none", scale=scale)
    yield in_attention("Cope", lambda: bt.Cope(bearing.Cope(max_pos=4), DIM))
    yield in_window("Sam", lambda: bt.Sam(bearing.Sam(height=2, width=3), DIM), 2, 3)
    make = functools.partial(bt.XlnetSegments, HEADS, DIM)
    segments = make().double()
    which = torch.tensor([[0, 0, 1, 1, 1, 0], [0, 1, 1, 0, 0, 0]])
    yield Case(
        "XlnetSegments",
        make,
        segments,
        lambda q, k, v: bt.attention(q, k, v, segments.encoding(which, which), mask="none"),
        qkv(),
        (which, which),
    )


def biases() -> Iterator[Case]:
    t5 = bearing.T5(buckets=8, max_distance=16, direction="bidirectional")
    yield in_attention("T5Bias", lambda: bt.T5Bias(t5, HEADS, D_MODEL), mask="none", scale=1.0)
    yield in_attention("Alibi", lambda: bt.Alibi(HEADS))
    yield in_attention("Kerple", lambda: bt.Kerple(bearing.Kerple(form="logarithmic"), HEADS))
    yield in_attention("KerplePower", lambda: bt.Kerple(bearing.Kerple(form="power"), HEADS))
    yield in_attention("Fire", lambda: bt.Fire(bearing.Fire(mlp_width=5, threshold=4.3), HEADS))
    yield in_window("Swin", lambda: bt.Swin(bearing.Swin(height=2, width=3), HEADS), 2, 3)
    swin_v2 = bearing.SwinV2(window=bearing.Swin(height=2, width=3))
    yield in_window("SwinV2", lambda: bt.SwinV2(swin_v2, HEADS, hidden=7), 2, 3)
    make_forgetting = functools.partial(bt.Forgetting, HEADS, D_MODEL)
    forgetting = make_forgetting().double()
    x = tensor(2, TIME, D_MODEL)
    yield Case(
        "Forgetting",
        make_forgetting,
        forgetting,
        lambda q, k, v, x: bt.attention(q, k, v, forgetting.encoding(x), mask="causal"),
        (*qkv(), x),
        (x.detach(),),
    )
    make_decay = functools.partial(bt.GatedDecay, HEADS, DIM, D_MODEL, rank=3)
    decay = make_decay().double()
    yield Case(
        "GatedDecay",
        make_decay,
        decay,
        lambda q, k, v, x: bt.attention(q, k, v, decay.encoding(x), mask="causal"),
        (*qkv(), x),
        (x.detach(),),
    )
    spec = bearing.RelativeLogits(extent=3, clip=1.0)
    make_logits = functools.partial(bt.RelativeLogits, spec, HEADS, D_MODEL, rank=2)
    logits = shaken(make_logits())
    yield Case(
        "RelativeLogits",
        make_logits,
        logits,
        lambda q, k, v, x: bt.attention(q, k, v, logits.encoding(x), mask="causal"),
        (*qkv(), x),
        (x.detach(),),
    )


def rows() -> Iterator[Case]:
    yield of_rows("Rope", lambda: bt.Rope(bearing.Rope(head_dim=DIM, pairing="half")), 1)
    xpos = bearing.Xpos(rope=bearing.Rope(head_dim=DIM, pairing="interleaved"), gamma=0.3, scale_base=8)
    yield of_rows("Xpos", lambda: bt.Xpos(xpos, 16), 1)
    mixed = bearing.RopeMixed(head_dim=DIM, axes=2, pairing="interleaved")
    yield of_rows("RopeMixed", lambda: bt.RopeMixed(mixed, HEADS), 2)
    yield of_rows("CayleyString", lambda: bt.CayleyString(bearing.CayleyString(rope=mixed), HEADS), 2)
    yield of_rows(
        "CirculantString", lambda: bt.CirculantString(bearing.CirculantString(head_dim=DIM, axes=2), HEADS), 2
    )
    yield of_rows("LieRope", lambda: bt.LieRope(bearing.LieRope(head_dim=DIM, axes=2, block=4), HEADS), 2)
    fope = bearing.Fope(head_dim=DIM, kept=3, trained_length=64, pairing="half")
    yield of_rows("Fope", lambda: bt.Fope(fope, 2), 1)
    temperature = bearing.PositionTemperature.mistral_large4()
    yield of_rows("TemperatureRows", lambda: bt.TemperatureRows(temperature, HEADS), 1)
    make = functools.partial(bt.LeRope, bearing.Rope(head_dim=DIM, pairing="half"))
    lerope = shaken(make())
    yield Case(
        "LeRope",
        make,
        lerope,
        lambda q, k, v: bt.attention(q, k, v, lerope.encoding(TIME), mask="causal"),
        qkv(),
        (torch.arange(TIME),),
    )
    yield of_rows("Pope", lambda: bt.Pope(bearing.Pope(head_dim=DIM), 2), 1)


def inputs() -> Iterator[Case]:
    x = tensor(2, TIME, D_MODEL)
    table = functools.partial(bt.LearnedPositions, bearing.Learned(length=10, dim=D_MODEL, offset=2))
    learned = shaken(table())
    yield Case("LearnedPositions", table, learned, lambda x: learned(x, 3), (x,))
    spec = bearing.Sinusoidal(dim=D_MODEL, layout="interleaved")
    make = functools.partial(bt.Sinusoidal, spec, learn_scale=True, learn_frequencies=True)
    sinusoidal = shaken(make())
    yield Case("Sinusoidal", make, sinusoidal, lambda x: sinusoidal(x, 3), (x,))


def others(known: set[str]) -> Iterator[Case]:
    """Every other module that is made from a description, of its first example: four tokens, on a grid or in a row."""
    examples = {kind: (name, spec) for name, kind, spec in reversed(_core._named(HEADS, DIM, 4))}
    for info in modules():
        if info.name not in known:
            yield of_description(info, *examples[info.kind])


def of_example(info: ModuleInfo, spec: Any, sizes: dict[str, Any]) -> tuple[Callable[[], nn.Module], list[Tensor]]:
    """How a module that is made from its description is made, and what its encoding() asks for, in a call of these sizes."""
    traits = _core._traits(info.kind)
    takes = {one.name for one in info.arguments}
    own = {"spec": spec} if spec is not None and not traits["spec_optional"] else {}
    asked = {n: size for n, size in sizes.items() if n in takes - {"batch"}}
    given = []
    for parameter, left_out in info.given:
        of = traits["parameters"][parameter]
        if not left_out or parameter == "index":
            found = zip(of["extents"], _core._extents(info.kind, spec, parameter, {}), strict=True)
            shape = [(sizes | {"dim": DIM})[extent] if size is None else size for extent, size in found]
            given.append(torch.randint(2, shape) if of["indices"] else -tensor(*shape).detach().abs())
    return functools.partial(getattr(bt, info.name), **own, **asked), given


def of_description(info: ModuleInfo, name: str, spec: Any) -> Case:
    traits = _core._traits(info.kind)
    sizes = {"batch": 1, "heads": HEADS, "sets": 1, "q_len": 4, "k_len": 4, "time": 4, "rows": 3}
    make, given = of_example(info, spec, sizes)
    module = shaken(make())
    at = bt.window_positions(2, 2) if on_two_axes(name, spec, HEADS, DIM, 4) else None
    if traits["inputs"]:
        x = tensor(1, 4, spec.dim() if callable(spec.dim) else spec.dim)
        return Case(info.name, make, module, lambda x: bt.add(module, x, at), (x,))
    rows = tuple(tensor(1, HEADS, 4, DIM) for _ in range(3))
    if traits["rows"] and not given:
        return Case(info.name, make, module, lambda q, k: torch.cat(module(q, k, at), 1), rows[:2])

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        encoding = module.encoding(*given)
        return bt.attention(q, k, v, encoding, mask="causal", q_positions=at, k_positions=at)

    return Case(info.name, make, module, call, rows, tuple(given))


def cases() -> list[Case]:
    torch.manual_seed(7)
    found = [*biases(), *relations(), *rows(), *inputs()]
    return [*found, *others({type(case.module).__name__ for case in found})]
