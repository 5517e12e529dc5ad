"""A rotation's result lies in memory as its input does: token by token where projections left it so."""

import bearing
import numpy as np
import pytest
import torch
from bearing.torch import ops

ROPE = bearing.Rope(head_dim=16, pairing="half")
TABLE = bearing.RopeTable(ROPE, 32)
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
@pytest.mark.parametrize("shape", [(2, 5, 3, 16), (5, 3, 16), (1, 5, 1, 16), (2, 1, 3, 16)])
def test_the_result_has_the_order_of_the_input(shape: tuple[int, ...], layout: str) -> None:
    x = RNG.standard_normal(shape, dtype=np.float32).swapaxes(-3, -2)
    for turn in (bearing.rotate_to, bearing.rotate_backward_to):
        got = turn(TABLE, x, 3, layout=layout)
        np.testing.assert_array_equal(got, turn(TABLE, np.ascontiguousarray(x), 3, layout=layout))
        assert got.swapaxes(-3, -2).flags.c_contiguous
        tensor = turn(TABLE, torch.from_numpy(x), 3, layout=layout)
        np.testing.assert_array_equal(tensor, got)
        assert tensor.transpose(-3, -2).is_contiguous()


@pytest.mark.parametrize(
    "x",
    [
        torch.randn(2, 3, 5, 16),
        torch.randn(2, 5, 3, 16).transpose(1, 2),
        torch.randn(2, 5, 6, 16)[:, :, ::2].transpose(1, 2),
        torch.randn(2, 5, 3, 32)[..., ::2].transpose(1, 2),
        torch.randn(2, 5, 1, 16).transpose(1, 2),
        torch.randn(1, 3, 1, 16).expand(4, 3, 5, 16),
    ],
    ids=["rows", "tokens", "every other head", "every other number", "one head", "broadcast"],
)
def test_a_compiler_expects_that_order(x: torch.Tensor) -> None:
    table = bearing.torch.Rope(ROPE).table
    torch.library.opcheck(torch.ops.bearing.rotate.default, ([x], None, 3, table, "bhtd", False, None, None))
    (turned,) = ops.rotate([x], None, 3, table, "bhtd", False, None, None)
    torch.testing.assert_close(turned, bearing.torch.rotate(x.contiguous(), rope=ROPE, positions=3), rtol=0, atol=0)
