"""The sizes of tiles and how many warps work on one. They follow from shapes and types alone: nothing is tuned at run
time, as other tiles would sum in another order and give other bits.
"""

from __future__ import annotations

import torch

from .tiles import Kind

# By kernel: the rows and columns of a tile, warps and stages, for rows of up to 64, 128 and 256 numbers. Those of 16 bits
# up to 128 are chosen by what compilers say of registers (python/tests/test_gpu_compiled_attention.py), the others are
# smaller; none is chosen by its speed on a device.
_16_BITS = {
    "forward": ((128, 64, 8, 3), (64, 32, 8, 2), (32, 32, 8, 1)),
    "d_queries": ((64, 32, 4, 2), (32, 32, 8, 1), (16, 32, 8, 1)),
    "d_keys": ((32, 64, 4, 2), (32, 32, 8, 1), (16, 32, 8, 1)),
    "d_distances": ((64, 64, 8, 1), (32, 32, 8, 1), (16, 16, 4, 1)),
}
_32_BITS = {
    "forward": ((32, 32, 4, 1), (32, 32, 8, 1), (16, 16, 4, 1)),
    "d_queries": ((32, 32, 4, 1), (32, 32, 8, 1), (16, 16, 4, 1)),
    "d_keys": ((32, 32, 4, 1), (32, 32, 8, 1), (16, 16, 4, 1)),
    "d_distances": ((32, 32, 4, 1), (32, 32, 8, 1), (16, 16, 4, 1)),
}


def launch(kernel: str, kind: Kind, dtype: torch.dtype) -> tuple[Kind, dict[str, int]]:
    """What the kernel is compiled for, and what a launch of it gets beside its arguments."""
    widest = max(kind.width, kind.value_width)
    tables = _32_BITS if dtype is torch.float32 else _16_BITS
    rows, cols, warps, stages = tables[kernel][0 if widest <= 64 else 1 if widest <= 128 else 2]
    return kind.of(rows, cols, stages), {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True}
