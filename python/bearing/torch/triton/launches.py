"""The sizes of tiles and how many warps work on one. They follow from shapes and types alone: nothing is tuned at run
time, as other tiles would sum in another order and give other bits.
"""

from __future__ import annotations

import torch

from .counts import cdiv, power_of_2
from .tiles import Kind

# By kernel: the rows and columns of a tile, warps and stages, for rows of up to 64, 128 and 256 numbers. Those of 16 bits
# up to 128 are the fastest of some on an H200, of decoding on an H100, the others are chosen by what compilers say of registers
# (python/tests/test_gpu_compiled_attention.py).
_16_BITS = {
    "decode": ((16, 64, 4, 3), (16, 32, 4, 3), (16, 32, 4, 2)),
    "forward": ((64, 64, 4, 3), (64, 64, 4, 3), (32, 32, 8, 1)),
    "d_queries": ((64, 64, 4, 3), (64, 64, 4, 2), (16, 32, 8, 1)),
    "d_keys": ((64, 64, 4, 3), (32, 64, 4, 3), (16, 32, 8, 1)),
    "d_distances": ((64, 64, 4, 2), (64, 64, 4, 2), (16, 16, 4, 1)),
}
# With a bias that is not known to be a line: its numbers take registers, too.
_16_BITS_UNEVEN = {
    **_16_BITS,
    "forward": ((64, 64, 4, 3), (64, 32, 4, 3), (32, 32, 8, 1)),
    "d_keys": ((32, 64, 4, 3), (32, 64, 4, 3), (16, 32, 8, 1)),
}
# Where each pair is looked at, as keys inside a run may be hidden: what says so takes registers. With larger tiles an A100's d_keys
# spills 8 to 13 KiB.
_16_BITS_HOLED = {**_16_BITS, "d_keys": ((32, 64, 4, 3), (32, 64, 4, 3), (16, 32, 8, 1))}
# Kernels whose tiles are for eight warps where `visible` is read beside rows of up to 128 numbers: four spill up to 2 KiB.
_PAIRED = ("forward", "d_queries")
_32_BITS = {
    "decode": ((16, 32, 4, 2), (16, 32, 4, 2), (16, 16, 4, 1)),
    "forward": ((32, 32, 4, 1), (32, 32, 8, 1), (16, 16, 4, 1)),
    "d_queries": ((32, 32, 4, 1), (32, 32, 8, 1), (16, 16, 4, 1)),
    "d_keys": ((32, 32, 4, 1), (32, 32, 8, 1), (16, 16, 4, 1)),
    "d_distances": ((32, 32, 4, 1), (32, 32, 8, 1), (16, 16, 4, 1)),
}
# Tiles are square where rows are picked by distance, and hold the products with twice as many rows. Of those that an H200
# worked on fastest, larger ones spill too much on an A100 in some kernels.
_16_BITS_PICKED = {
    "decode": ((16, 16, 4, 1), (16, 16, 4, 1), (16, 16, 4, 1)),
    "forward": ((64, 64, 4, 1), (64, 64, 4, 1), (16, 16, 4, 1)),
    "d_queries": ((32, 32, 4, 1), (32, 32, 4, 1), (16, 16, 4, 1)),
    "d_keys": ((32, 32, 4, 1), (32, 32, 4, 1), (16, 16, 4, 1)),
    "d_distances": ((32, 32, 4, 1), (32, 32, 4, 1), (16, 16, 4, 1)),
    "d_tables": ((64, 64, 4, 1), (32, 32, 4, 1), (16, 16, 4, 1)),
}
_32_BITS_PICKED = dict.fromkeys(_16_BITS_PICKED, ((16, 16, 4, 1),) * 3)


# A decode step has so few queries that one small tile holds them.
DECODED = 16
AMD = torch.version.hip is not None
# Programs that fill a GPU, and the fewest keys that are a program's share.
PROGRAMS, LEAST_KEYS = 512, 256


def shares(programs: int, k_len: int, cols: int) -> tuple[int, int]:
    """In how many parts the keys of a block of queries are divided between programs, and how many keys a part has: by the
    shapes of a call alone, so that its bits are the same on every run and every GPU."""
    parts = max(1, min(PROGRAMS // max(1, programs), k_len // LEAST_KEYS))
    share = max(cols, -(-k_len // parts // cols) * cols)
    return max(1, cdiv(k_len, share)), share


def packed(kind: Kind, q_len: int, dtype: torch.dtype) -> Kind:
    """The same with all queries of a step of decoding that share a key head in one tile, if these are many heads and not too
    many rows. Rows that distances pick are met by square tiles of one head."""
    rows = max(kind.rows, power_of_2(kind.group * q_len))
    wide = dtype is torch.float32 or max(kind.width, kind.value_width) > 128
    if kind.group == 1 or kind.picks or rows > (16 if wide else 64):
        return kind
    return kind.in_packs(rows)


def launch(kernel: str, kind: Kind, dtype: torch.dtype) -> tuple[Kind, dict[str, int]]:
    """What the kernel is compiled for, and what a launch of it gets beside its arguments."""
    widest = max(kind.width, kind.value_width, kind.mix_width)
    wide = dtype is torch.float32
    plain, picked = (_32_BITS, _32_BITS_PICKED) if wide else (_16_BITS, _16_BITS_PICKED)
    if kind.biased and not (kind.straight or wide):
        plain = _16_BITS_UNEVEN
    elif kind.holes and not wide:
        plain = _16_BITS_HOLED
    tables = picked if kind.picks else plain
    width = 0 if widest <= 64 else 1 if widest <= 128 else 2
    rows, cols, warps, stages = tables[kernel][width]
    if kind.pairs and width == 1 and kernel in _PAIRED and tables is not picked and not wide:
        warps = 8
    if AMD:  # with 64 KiB of shared memory
        stages = max(1, stages - 1)
    # A decode step meets each tile once: its numbers are looked up where they lie.
    return kind.of(rows, cols, stages, kernel != "decode"), {
        "num_warps": warps,
        "num_stages": stages,
        "enable_fp_fusion": True,
    }
