"""Finds out who observes a call, and how a custom op is reached for each observer.

Nobody: the work is done without the op. Autograd alone: a ``torch.autograd.Function`` around the work, as a custom op
takes several times as long to get there. Compilers, tracers, modes, profilers and other kinds of tensors: the op itself. Custom
ops have no entry for the transformations of ``torch.func`` and for forward-mode derivatives: they get a
``torch.autograd.Function`` around the op.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, get_args, get_origin, get_type_hints

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._python_dispatch import is_in_torch_dispatch_mode
from torch.utils._pytree import tree_leaves

from .compiling import constant, eager
from .starting import check_local

_C = torch._C


def needs_op(tensors: Sequence[Tensor]) -> bool:
    """Whether somebody watches: autograd, a compiler, a tracer, a mode, a transformation, a profiler. If nobody does, an
    op's work can be done without the op, which takes several times as long as turning one token."""
    if torch.compiler.is_compiling() or is_in_torch_dispatch_mode() or _C._is_tracing() or is_transformed():
        return True
    if is_profiled():
        return True
    grad = torch.is_grad_enabled()
    for t in tensors:
        if type(t) not in PLAIN or t.is_meta or (grad and t.requires_grad):
            return True
    return False


def count_writes(tensors: Sequence[Tensor]) -> None:
    """Tells autograd of what was written, as it refuses a backward that reads what is no longer there."""
    torch.autograd.graph.increment_version([x for x in tensors if not x.is_inference()])


PLAIN = frozenset((Tensor, torch.nn.Parameter))
_CONSTANT = frozenset((type(None), bool, int, float, str, torch.dtype))


def _learned(args: Sequence[Any]) -> list[tuple[int, int, Tensor]] | None:
    """The tensors that want gradients, each with its place among an op's arguments and in a list there, or -1; None
    where an argument is of a kind that PyTorch alone knows how to take."""
    found: list[tuple[int, int, Tensor]] = []
    grad = torch.is_grad_enabled()
    for i, arg in enumerate(args):
        kind = type(arg)
        if kind in _CONSTANT:
            continue
        if kind in PLAIN:
            if not is_ordinary(arg):
                return None
            if grad and arg.requires_grad:
                found.append((i, -1, arg))
        elif kind in (list, tuple):
            for j, one in enumerate(arg):
                if type(one) in _CONSTANT:
                    continue
                if type(one) not in PLAIN or not is_ordinary(one):
                    return None
                if grad and one.requires_grad:
                    found.append((i, j, one))
        else:
            return None
    return found


def is_ordinary(tensor: Tensor) -> bool:
    """Whether it is numbers in memory as they stand. What torch.func wraps may outlive its transformation."""
    strided = not tensor.is_meta and tensor.layout is torch.strided and not tensor.is_neg()
    return strided and not (_C._functorch.is_functorch_wrapped_tensor(tensor) or _is_batched(tensor))


def _is_batched(x: Any) -> bool:
    """Whether it is a batch of PyTorch's older vmap."""
    return isinstance(x, Tensor) and _C._functorch.is_legacy_batchedtensor(x)


def _level_of(x: Tensor) -> int:
    """The innermost level of a batch."""
    return max(level for level in range(1, 64) if _has_level(x, level))


def _has_level(x: Tensor, level: int) -> bool:
    """Whether it is a batch of that level: else it is spread to any number of elements that is asked for."""
    return len(torch._remove_batch_dim(x, level, 1, 0)) == len(torch._remove_batch_dim(x, level, 2, 0))


def _is_only_functionalized() -> bool:
    """Whether all transformations are functionalize(), which takes ops alone. Ops drop what others would make of them."""
    functionalize = _C._functorch.TransformType.Functionalize
    levels = _C._functorch.get_interpreter_stack() or []
    return forward_ad._current_level < 0 and all(one.key() == functionalize for one in levels)


@constant
def is_transformed() -> bool:
    """Whether a transformation of torch.func is at work, or a level of forward-mode derivatives."""
    return _C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def is_profiled() -> bool:
    """Whether a profiler of PyTorch's writes down which ops are called."""
    return _C._autograd._profiler_enabled()


class Op:
    """A functional custom op ``bearing::name``. Its arguments are tensors, lists of tensors and constants.

    Without :meth:`register_autograd` its gradients have none of their own, and their backward says so. apart: an
    argument of ``now``, the last and a truth value, that the op does not have: its default is the op's. function: who is
    called, for errors, where the op has another name.
    """

    def __init__(self, name: str, now: Callable[..., Any], apart: str = "", function: str = "") -> None:
        self.own = name.removesuffix("_backward")
        self.name = function or self.own
        self.plain = now
        schema = torch.library.infer_schema(now, mutates_args=()).replace(f", bool {apart}=True)", ")")
        self.custom = torch.library.custom_op(f"bearing::{name}", now, mutates_args=(), schema=schema)
        self.bare, self.place = None, 0
        names = list(inspect.signature(now).parameters)
        if "parameters" in names and not name.endswith("_backward"):
            # The same for graphs that have none. Packages of AOTInductor hand on None in place of an empty list. Tensors in a
            # list that may be None would not be asked for their gradients.
            self.place = names.index("parameters")
            work, schema = _without_none(now, self.place), schema.replace("Tensor[] param", "Tensor[]? param")
            self.bare = torch.library.custom_op(f"bearing::{name}_bare", work, mutates_args=(), schema=schema)
        # Compiled code without gradients calls this one: a custom op asks for them in Python at each call.
        self.no_grad: PlainOp | None = None
        if not name.endswith("_backward"):
            work = self.plain if self.bare is None else _without_none(now, self.place)
            self.no_grad = PlainOp(f"{name}_no_grad", work, schema)
        self.gives = get_origin(get_type_hints(now)["return"])
        self.tangent: Callable[..., Any] | None = None
        self.register_autograd(self._once, setup_context=lambda ctx, inputs, output: None)
        for one in self._registered():
            one.register_vmap(self._mapped)

    def _registered(self) -> list[Any]:
        return [self.custom] if self.bare is None else [self.custom, self.bare]

    def register_fake(self, fake: Callable[..., Any]) -> None:
        """What comes out for tensors without numbers."""
        fake = with_or_without_numbers(self.name, fake)
        for one in self._registered():
            one.register_fake(fake)
        if self.no_grad is not None:
            self.no_grad.register_fake(fake)

    def register_autograd(self, backward: Callable[..., Any], *, setup_context: Callable[..., None]) -> None:
        """As the custom op's own method takes them."""
        self.backward, self.setup_context = backward, setup_context
        for one in self._registered():
            one.register_autograd(backward, setup_context=setup_context)

    def register_tangent(self, tangent: Callable[..., Any]) -> None:
        """``tangent(ctx, *tangents)``: that of the output, of those of the arguments, each of them or None."""
        self.tangent = tangent

    def now(self, *args: Any) -> Any:
        """The work without the op, where :func:`needs_op` says that nobody watches."""
        try:
            return self.plain(*args)
        except (TypeError, RuntimeError) as error:
            if not str(error).startswith(f"[{self.name}] "):
                self._explain(args, error)
            raise

    def __call__(self, *args: Any) -> Any:
        if torch.compiler.is_compiling():
            # A compiled op knows nothing of transformations: forward-mode derivatives of it would be 0 without a word.
            # The level is asked for here too, where the compiler sees that it is, and compiles again for another.
            transformed = forward_ad._current_level >= 0 or is_transformed()
            if transformed:
                return self._transformed(*args)
            if self.no_grad is not None and _needs_no_grad(args):
                return self.no_grad(*args)
            return self.custom(*args) if self.bare is None or args[self.place] else self.bare(*args)
        try:
            return self._watched(*args)
        except (TypeError, RuntimeError) as error:
            if not str(error).startswith(f"[{self.name}] "):
                self._explain(args, error)
            raise

    def _watched(self, *args: Any) -> Any:
        if _C._is_tracing() and torch.onnx.is_in_onnx_export():
            raise RuntimeError(
                f"[{self.name}] cannot be exported to ONNX, which has no such operator: export with dynamo=True and a "
                f"custom_translation_table for torch.ops.bearing.{self.own}.default, or restore_rotary(model) first"
            )
        if is_transformed():
            if _is_only_functionalized():
                return self.custom(*args)
            if any(_is_batched(x) for x in tree_leaves(args)):  # forward mode in several directions at once
                return self._one_by_one(args)
            call = _Call(self, args)
            return call.shaped(_Transformed.apply(call, *call.flat))
        if is_in_torch_dispatch_mode() or _C._is_tracing() or _C._is_torch_function_mode_enabled() or is_profiled():
            return self.custom(*args)
        learned = _learned(args)
        if learned is not None:
            return self._eager(args, learned)
        batched = any(_is_batched(x) for x in tree_leaves(args))
        return self._one_by_one(args) if batched else self.custom(*args)

    def _one_by_one(self, args: Sequence[Any]) -> Any:
        """For batches of gradients, as ``is_grads_batched=True`` and ``vectorize=True`` ask for them: PyTorch's older vmap."""
        call = _Call(self, args)
        # Threads know their own nesting alone, and backwards run on others.
        level = max(_level_of(x) for x in call.flat if _is_batched(x))
        whole = [
            (torch._remove_batch_dim(x, level, 1, 0), True) if _is_batched(x) and _has_level(x, level) else (x, False)
            for x in call.flat
        ]
        count = next(len(x) for x, batched in whole if batched)
        results = [
            call.several(self(*call.nested([x[i] if batched else x for x, batched in whole]))) for i in range(count)
        ]
        return call.shaped(
            tuple(torch._add_batch_dim(torch.stack(column), 0, level) for column in zip(*results, strict=True))
        )

    def _mapped(self, info: Any, in_dims: Sequence[Any], *args: Any) -> tuple[Any, Any]:
        """For graphs of ops that vmap maps, as torch.func.linearize makes them."""
        call = _Call(self, args)
        results = call.mapped(info.batch_size, call.flattened(in_dims), call.flat, self.custom)
        return call.shaped(results), call.shaped((0,) * len(results))

    @eager
    def _transformed(self, *args: Any) -> Any:
        """Compiled code leaves its graph where a function is transformed inside it."""
        return self(*args)

    def _eager(self, args: Sequence[Any], learned: Sequence[tuple[int, int, Tensor]]) -> Any:
        """For autograd alone, or nobody."""
        try:
            if not learned:
                return self.plain(*args)
            places = [(i, j) for i, j, _ in learned]
            found = _Eager.apply(self, places, args, *[tensor for _, _, tensor in learned])
        except (TypeError, ValueError, RuntimeError) as error:
            self._explain(args, error)  # the op's schema would refuse that first
            raise
        return found if self.gives is tuple else list(found) if self.gives is list else found[0]

    def _explain(self, args: Sequence[Any], error: Exception) -> None:
        """Raises what is wrong with an argument in the caller's words, if it is of another type than it must be."""
        check_local(self.name, tree_leaves(args))
        for (name, hint), value in zip(get_type_hints(self.plain).items(), args, strict=False):
            wanted = _unlike(hint, value)
            if wanted:
                got = f"a tensor of {value.layout}" if isinstance(value, Tensor) else repr(value)
                raise TypeError(f"[{self.name}] {_WORDS.get(name, name)}: must be {wanted}, got {got}") from error
        devices = {x.device for x in tree_leaves(args) if isinstance(x, Tensor)}
        if len(devices) > 1:
            raise TypeError(
                f"[{self.name}] tensors: must be on one device, got {' and '.join(map(str, devices))}"
            ) from error

    def _once(self, ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            f"[{self.name}] has no second derivatives: differentiate it once, without create_graph, "
            "and give torch.func.grad, hessian and the like no function that differentiates it again"
        )


# What ops are defined in, by their names; an op ends with its library. Whoever imports this package anew finds them here, and
# defines its ops anew.
_libraries: dict[str, torch.library.Library] = vars(torch.ops.bearing).setdefault("_libraries", {})


class PlainOp:
    """The op ``bearing::name`` that does the work and asks nobody for gradients, which it has none of: it takes half as long as a
    custom op to be reached."""

    def __init__(self, name: str, work: Callable[..., Any], schema: str) -> None:
        self.name = name
        _libraries.pop(name, None)
        library = _libraries[name] = torch.library.Library("bearing", "FRAGMENT")
        library.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
        library.impl(name, work, "CompositeExplicitAutograd")
        self.op = getattr(torch.ops.bearing, name).default

    def register_fake(self, fake: Callable[..., Any]) -> Callable[..., Any]:
        """What comes out for tensors without numbers."""
        torch.library.register_fake(self.op, fake, lib=_libraries[self.name])
        return fake

    def __call__(self, *args: Any) -> Any:
        return self.op(*args)


def written_op(name: str, work: Callable[..., Any], written: Sequence[str]) -> PlainOp:
    """A plain op that writes to the arguments of these names."""
    places = [i for i, one in enumerate(inspect.signature(work).parameters) if one in written]

    @functools.wraps(work)
    def counted(*args: Any) -> Any:
        out = work(*args)
        count_writes([x for i in places for x in (args[i] if isinstance(args[i], (list, tuple)) else [args[i]])])
        return out

    return PlainOp(name, counted, torch.library.infer_schema(work, mutates_args=written))


def _needs_no_grad(args: Sequence[Any]) -> bool:
    """Whether code that is compiled gives no gradients, now or later: an exported program may be asked for them."""
    if torch.is_grad_enabled() or torch.compiler.is_exporting():
        return False
    for arg in args:
        for one in arg if isinstance(arg, (list, tuple)) else [arg]:
            if isinstance(one, Tensor) and type(one) is not Tensor and type(one) is not torch.nn.Parameter:
                return False
    return True


def _without_none(now: Callable[..., Any], place: int) -> Callable[..., Any]:
    """The work of an op, with an empty list in place of None there."""

    @functools.wraps(now)
    def work(*args: Any) -> Any:
        return now(*args[:place], args[place] or [], *args[place + 1 :])

    return work


_WORDS = {
    "first": "positions",
    "q_first": "q_positions",
    "k_first": "k_positions",
    "parameters": "parameters of encodings",
    "s": "state",
    "z": "state",
}


def with_or_without_numbers(function: str, fake: Callable[..., Any]) -> Callable[..., Any]:
    """The fake kernel of an op, which raises TypeError where some tensors have numbers and others, on the meta device, have
    none: PyTorch calls it for these too, and takes memory that nobody filled for the result.

    Beside a first tensor on the meta device positions and a table's own numbers may lie anywhere, as nothing comes out.
    """
    names = tuple(inspect.signature(fake).parameters)

    @functools.wraps(fake)
    def checked(*args: Any, **kwargs: Any) -> Any:
        given = [(name, x) for name, x in [*zip(names, args, strict=False), *kwargs.items()]]
        tensors = [(name, t) for name, x in given for t in tree_leaves(x) if isinstance(t, Tensor)]
        if any(t.device.type == "meta" for _, t in tensors):
            _check_numbers(function, tensors)
        return fake(*args, **kwargs)

    return checked


def _check_numbers(function: str, tensors: Sequence[tuple[str, Tensor]]) -> None:
    (first, reference), *_ = tensors
    device = reference.device
    for name, t in tensors:
        free = device.type == "meta" and (name in ("cos", "sin") or not t.is_floating_point())
        if free or "meta" not in (t.device.type, device.type) or t.device.type == device.type:
            continue
        of, word = (_WORDS.get(one, one) for one in (first, name))
        of += " are" if first == "parameters" else " is"
        wanted = (
            f"on {device}, as {of}, got one on {t.device}"
            if name != first
            else f"on one device, got {device} and {t.device}"
        )
        text = f"[{function}] {word}: must be {wanted}; tensors on meta have no numbers"
        if "parameters" in (name, first):
            text += ": give a module that was made there to_empty(device=…), then reset_parameters()"
        raise TypeError(text)


_KINDS: dict[Any, tuple[Any, str]] = {
    str: (str, "a word"),
    float: ((float, int), "a number"),
    int: (int, "a whole number of 64 bits"),
    bool: (bool, "True or False"),
    torch.dtype: (torch.dtype, "a torch.dtype"),
    Tensor: (Tensor, "a dense tensor"),
}


def _unlike(hint: Any, value: Any) -> str:
    """What the value must be, if it is not of that type; nothing if it is."""
    inner = get_args(hint)
    if type(None) in inner:
        wanted = "" if value is None else _unlike(inner[0], value)
        return wanted and f"{wanted} or None"
    if inner:
        fits = isinstance(value, (list, tuple)) and not any(_unlike(inner[0], one) for one in value)
        return "" if fits else f"a list, each of it {_KINDS[inner[0]][1]}"
    kind, wanted = _KINDS[hint]
    fits = isinstance(value, kind)
    if fits and kind is Tensor:
        fits = value.layout is torch.strided
    if fits and kind is int:
        fits = -(2**63) <= value < 2**63
    return "" if fits else wanted


class _Eager(torch.autograd.Function):
    """(op, places of the tensors that want gradients, the op's arguments, these tensors…) -> the op's outputs, as a
    tuple."""

    @staticmethod
    def forward(ctx, op, places, args, *learned):
        output = op.plain(*args)
        ctx.op, ctx.places = op, places
        op.setup_context(ctx, args, output)
        return tuple(output) if op.gives in (list, tuple) else (output,)

    @staticmethod
    def backward(ctx, *grads):
        op = ctx.op
        found = op.backward(ctx, list(grads)) if op.gives is list else op.backward(ctx, *grads)
        if not isinstance(found, tuple):
            found = (found,)
        wanted = [found[i] if j < 0 or found[i] is None else found[i][j] for i, j in ctx.places]
        return None, None, None, *wanted


class _Call:
    """The arguments of a call as one flat list, and the way back."""

    def __init__(self, op: Op, args: Sequence[Any]) -> None:
        self.op = op
        self.counts: list[int | None] = []  # of tensors in an argument that is a list of them
        self.flat: list[Any] = []
        self.output: type | None = None
        for one in args:
            several = isinstance(one, (list, tuple)) and all(isinstance(x, Tensor) for x in one)
            self.counts.append(len(one) if several else None)
            self.flat.extend(one if several else [one])

    def nested(self, flat: Sequence[Any]) -> list[Any]:
        """Flat values as the arguments are."""
        rest = iter(flat)
        return [next(rest) if count is None else [next(rest) for _ in range(count)] for count in self.counts]

    def flattened(self, nested: Sequence[Any]) -> list[Any]:
        """The way back; None stands for a list of None."""
        flat: list[Any] = []
        for count, one in zip(self.counts, nested, strict=True):
            flat.extend([one] if count is None else [None] * count if one is None else one)
        return flat

    def mapped(
        self, count: int, in_dims: Sequence[Any], flat: Sequence[Any], run: Callable[..., Any]
    ) -> tuple[Tensor, ...]:
        """What vmap makes of the call, with its axis in front. Call by call: an op has no axis more for those of vmap, and each of
        them may have its own arguments. A batch of none is made of zeros, as results have their shapes."""

        def element(x: Any, dim: Any, i: int) -> Any:
            if not isinstance(dim, int):
                return x
            return x.select(dim, i) if count else x.new_zeros(x.movedim(dim, 0).shape[1:])

        results = []
        for i in range(max(1, count)):
            one = [element(x, dim, i) for x, dim in zip(flat, in_dims, strict=True)]
            results.append(self.several(run(*self.nested(one))))
        return tuple(torch.stack(column)[:count] for column in zip(*results, strict=True))

    def several(self, output: Any) -> tuple[Any, ...]:
        """What the op gives, or tangents of that, as a tuple."""
        self.output = type(output)
        return tuple(output) if isinstance(output, (list, tuple)) else (output,)

    def shaped(self, outputs: tuple[Any, ...]) -> Any:
        """The tuple as the op gives it."""
        if self.output is list:
            return list(outputs)
        return outputs if self.output is tuple else outputs[0]


class _Transformed(torch.autograd.Function):
    """(call, flat arguments…) -> the op's outputs."""

    @staticmethod
    def forward(call, *flat):
        return call.several(call.op.custom(*call.nested(flat)))

    @staticmethod
    def setup_context(ctx, inputs, output):
        call, *flat = inputs
        ctx.call = call
        call.op.setup_context(ctx, call.nested(flat), call.shaped(output))

    @staticmethod
    def backward(ctx, *grads):
        call = ctx.call
        grads = (list(grads),) if call.output is list else grads
        found = call.op.backward(ctx, *grads)
        return None, *call.flattened(found if isinstance(found, tuple) else (found,))

    @staticmethod
    def jvp(ctx, _, *tangents):
        call = ctx.call
        found = None
        if call.op.tangent is not None:
            found = call.op.tangent(ctx, *call.nested(tangents))
        if found is None:
            raise RuntimeError(
                f"[{call.op.name}] has no forward-mode derivatives of these arguments (torch.func.jvp, jacfwd, "
                "torch.autograd.forward_ad): take reverse mode, as backward(), torch.func.vjp, grad and jacrev do"
            )
        return call.several(found)

    @staticmethod
    def vmap(info, in_dims, call, *flat):
        results = call.mapped(info.batch_size, in_dims[1:], flat, call.op)
        return results, (0,) * len(results)


def op(name: str) -> Callable[[Callable[..., Any]], Op]:
    """The function as a custom op of that name."""
    return lambda now: Op(name, now)
