"""What the modules share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .encoding import Encoding, form_of, spec_of
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
