"""Numbers of queries that are multiplied with rows of a table by distance: the operands of such products for a call, and
their gradients. What several encodings of a call have stands side by side, so that one product serves all."""

from __future__ import annotations

import json
from collections.abc import Sequence

import torch
from torch import Tensor

from ..encoding import spec_of
from ..index_map import HOST
from ..layers import Mixed, mixed
from .device import kept_within
from .distances import Distances
from .tables import MOST_KEPT, Placed, Product, Rows, View


def width_of(form: dict, parameters: Sequence[Tensor]) -> int:
    """How many numbers a query has in an encoding; 0 in one without any."""
    one = mixed().get(form["kind"])
    return parameters[form["tensors"].index(one.numbers)].shape[-1] if one else 0


class Operands:
    """The encodings of a call that have numbers of queries.

    first: the position of query 0; they rise by one.
    """

    def __init__(self, placed: list[Placed], parameters: Sequence[Tensor], first: int) -> None:
        self.placed, self.parameters, self.first = placed, parameters, first
        self.encodings = [(json.dumps(form), mixed()[form["kind"]], form["tensors"], at) for form, at, _ in placed]

    def products(self, at: Distances, device: torch.device) -> list[Product]:
        """With rows of their tables."""
        found, column = [], 0
        for form, one, names, begin in self.encodings:
            place = begin + names.index(one.table)
            shape = tuple(self.parameters[place].shape)
            shape = (1,) * (3 - len(shape)) + shape
            view = View(place, 0, shape, (shape[1] * shape[2], shape[2], 1))
            found.append(Product("mixed", view, None, _rows(form, at, device), column))
            column += shape[2]
        return found

    def rows(self, batch: int, q_len: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """[batch, heads, q_len, numbers] in the type of the call's rows, rounded to it once."""
        positions = self._positions(q_len, device)
        found = [
            one.factors(spec_of(form), self._numbers(names, one, begin, device), positions).expand(batch, -1, -1, -1)
            for form, one, names, begin in self.encodings
        ]
        return torch.cat(found, -1).to(dtype)

    def gradients(self, d_rows: Tensor) -> dict[int, Tensor]:
        """Those of the numbers, by their places in the call; of d_rows, float32 like rows()."""
        positions, found, column = self._positions(d_rows.shape[2], d_rows.device), {}, 0
        for form, one, names, begin in self.encodings:
            numbers = self._numbers(names, one, begin, d_rows.device)
            last = column + numbers.shape[3]
            d = d_rows[..., column:last]
            d = d.sum(0, keepdim=True, dtype=torch.float64).float() if numbers.shape[0] == 1 else d
            place = begin + names.index(one.numbers)
            found[place] = one.gradients(spec_of(form), numbers, positions, d).to(self.parameters[place]).contiguous()
            column = last
        return found

    def _positions(self, q_len: int, device: torch.device) -> Tensor:
        return torch.arange(self.first, self.first + q_len, device=device)

    def _numbers(self, names: Sequence[str], one: Mixed, begin: int, device: torch.device) -> Tensor:
        return self.parameters[begin + names.index(one.numbers)].to(device, torch.float32)


@kept_within(MOST_KEPT)
def _rows(form: str, at: Distances, device: torch.device) -> Rows:
    distances = torch.arange(at.least, at.least + at.count, device=HOST)
    return Rows.on(device, mixed()[json.loads(form)["kind"]].rows(spec_of(form), distances))
