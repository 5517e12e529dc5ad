"""What the modules share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .. import _core
from .encoding import Encoding, form_of, spec_of, traits_of
from .functional import Positions, bias_matrix


class EncodingModule(nn.Module):
    """A module that says what encoding it is: attention takes it as it is.

    The spec is kept as text, so that modules can be copied, saved and compiled; :attr:`spec` makes it again.
    """

    def __init__(self, kind: str, spec: Any = None, tensors: Sequence[str] = (), **settings: Any) -> None:
        super().__init__()
        self.form = form_of(kind, spec, tensors, **settings)

    @property
    def spec(self) -> Any:
        """The spec that it was made from, or None."""
        return spec_of(self.form)

    def reset_parameters(self) -> None:
        """Fills parameters and buffers as a new module's are: on a model made on the meta device, after to_empty()."""

    def encoding(self) -> Encoding:
        """What :func:`bearing.torch.attention` takes for it."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        spec = self.spec
        return "" if spec is None else repr(spec)


class Described(EncodingModule):
    """Any encoding of the library as a module, made from what the library says of it.

        kerple = bt.Described("KerpleBias", bearing.Kerple(form="power"), heads=8)

    Parameters have the encoding's names and extents, and start as its authors have it, from numbers that
    ``torch.manual_seed`` rules. sizes: extents that the spec does not tell (heads, dim, sets, ...); a first axis that
    may be left out is, if its size is not given. without: parameters to leave out; settings: what the encoding takes
    beside them. What a model computes for each call is given to ``encoding(name=tensor)``.
    """

    def __init__(
        self,
        kind: str,
        spec: Any = None,
        *,
        without: Sequence[str] = (),
        settings: dict[str, Any] | None = None,
        **sizes: int,
    ) -> None:
        traits = traits_of(kind)
        names = [name for name in traits["parameters"] if name not in without]
        # Heads share one set of parameters each, until encoding() is told of more heads than sets.
        shared = {"group": 1} if traits["grouped"] else {}
        super().__init__(kind, spec, names, **shared, **(settings or {}))
        self.kind, self._names = kind, tuple(names)
        for name in without:
            self.register_parameter(name, None)
        for name in names:
            if traits["parameters"][name]["learned"]:
                self.register_parameter(name, empty(*_shape(kind, spec, name, sizes)))
        Described.reset_parameters(self)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        for name in self._names:
            parameter = getattr(self, name, None)
            if parameter is not None:
                seed = int(torch.randint(2**62, (), device="cpu"))
                parameter.copy_(torch.as_tensor(_core._start(self.kind, self.spec, name, list(parameter.shape), seed)))

    def encoding(self, **given: Tensor) -> Encoding:
        """``given``: what the model computes for this call, by name."""
        for name in self._names:
            if name not in given and not hasattr(self, name):
                raise TypeError(f"[{self.kind}] {name}: must be given to encoding(), as it is computed for each call")
        return Encoding(self.form, tuple(given[n] if n in given else getattr(self, n) for n in self._names))


def _shape(kind: str, spec: Any, parameter: str, sizes: dict[str, int]) -> list[int]:
    """The extents of a parameter, without the first axis where it may be left out and nobody gives its size."""
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
            raise TypeError(f"[{kind}] {name}: must be given, as {parameter} has that extent")
        else:
            shape.append(size)
    return shape


_SIZES = ("batch", "heads", "kv_heads", "q_len", "k_len", "dim", "value_dim", "length")


class Bias(EncodingModule):
    """An encoding of scores that looks at neither queries nor keys: called, it gives its matrix."""

    heads: int

    def extra_repr(self) -> str:
        return ", ".join(filter(None, [super().extra_repr(), f"heads={self.heads}"]))

    def forward(
        self,
        q_len: int | None = None,
        k_len: int | None = None,
        *,
        q_positions: Positions = None,
        k_positions: Positions = None,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """[heads, q_len, k_len], in the parameters' type if no other is asked for."""
        if dtype is None:
            dtype = next((p.dtype for p in self.parameters()), torch.float32)
        return bias_matrix(self, q_positions, k_positions, heads=self.heads, q_len=q_len, k_len=k_len, dtype=dtype)


class Weights(nn.Module):
    """The numbers of a linear layer that nobody calls, as an op reads them; they start as PyTorch's.

    It is no nn.Linear: what swaps those in a model (quantisation, adapters) leaves modules with other numbers.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight, self.bias = empty(outputs, inputs), empty(outputs)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.Linear.reset_parameters(self)  # reads weight and bias alone


def empty(*shape: int) -> nn.Parameter:
    """A parameter that its module's reset_parameters() fills."""
    return nn.Parameter(torch.empty(shape))


def normal(*parameters: nn.Parameter | None, std: float = 0.02) -> None:
    """Fills parameters with normal numbers; 0.02 is BERT's and GPT-2's deviation."""
    for parameter in parameters:
        if parameter is not None:
            nn.init.normal_(parameter, 0, std)
