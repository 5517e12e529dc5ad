"""Transformer-XL: sinusoids of the offsets, projected for every head."""

from __future__ import annotations

import torch
from torch import Tensor

from ... import _core
from ..base import Device, EncodingModule, check_sizes, check_spec, empty, no_autocast, normal, placement
from ..encoding import Encoding

__all__ = ["TransformerXL"]


class TransformerXL(EncodingModule):
    """Transformer-XL's terms (b), (c) and (d): ``scale [u k_j + (q_i + v) W_R R_{m-n}]``.

    Parameters: u and v [heads, dim], r_w_bias and r_r_bias in the files; w_r [heads * dim, d_model], the projection
    r_net. They start normal, of standard deviation 0.02, as in the authors' code.

    spec: a ``bearing.TransformerXL``.
    heads: how many heads queries have.
    dim: how many dimensions a head has.
    d_model: how many features a sinusoid has.
    offsets: how many rows r has; the first is for spec.first_offset. Causal models need q_len + memory.
    base: of the sinusoids' wavelengths.
    device, dtype: where parameters are made, and of which type.

    Dai, Yang, Yang, Carbonell, Le, Salakhutdinov 2019, arXiv 1901.02860.
    """

    def __init__(
        self,
        spec: _core.TransformerXL,
        heads: int,
        dim: int,
        d_model: int,
        offsets: int,
        base: float = 10_000.0,
        *,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_spec("TransformerXLTerm", spec, called="TransformerXL")
        check_sizes("TransformerXL", heads=heads, dim=dim, d_model=d_model, offsets=offsets)
        placed = placement("TransformerXL", device, dtype)
        super().__init__("TransformerXLTerm", spec, ["r", "u", "v"])
        self.heads, self.base = heads, base
        self.u, self.v = empty(heads, dim, **placed), empty(heads, dim, **placed)
        self.w_r = empty(heads * dim, d_model, **placed)
        sinusoids = torch.empty(offsets, d_model, device=device, dtype=torch.float64)
        self.register_buffer("sinusoids", sinusoids, persistent=False)
        self._fill()

    def _fill(self) -> None:
        normal(self.u, self.v, self.w_r)
        super()._fill()

    def _fill_buffers(self) -> None:
        offsets, d_model = self.sinusoids.shape
        self.sinusoids.copy_(_offset_sinusoids(self.spec, d_model, offsets, self.base))

    def r(self) -> Tensor:
        """Computes the projected sinusoids of every offset: [heads, offsets, dim]."""
        with no_autocast(self.w_r):
            r = self.sinusoids.to(self.w_r.dtype) @ self.w_r.T
        return r.unflatten(1, (self.heads, -1)).transpose(0, 1).contiguous()

    def encoding(self) -> Encoding:
        return Encoding(self.form, (self.r(), self.u, self.v))


def _offset_sinusoids(spec: _core.TransformerXL, d_model: int, offsets: int, base: float) -> Tensor:
    """On the CPU, so that they have the same bits whatever the default device is."""
    at = torch.arange(spec.first_offset, spec.first_offset + offsets, dtype=torch.float64, device="cpu")
    if spec.clamp_len > 0:
        at = at.clamp(-spec.clamp_len, spec.clamp_len)
    frequencies = base ** (-torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu") / d_model)
    angles = at[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)
