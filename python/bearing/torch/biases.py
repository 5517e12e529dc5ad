"""Modules of biases: numbers that are added to scores whatever queries and keys say."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .. import _core
from .base import Bias, Described, EncodingModule, Weights, empty, normal
from .encoding import Encoding


class T5Bias(Described, Bias):
    """T5's bias: ``table[bucket(n - m), h]``, table [buckets, heads].

    Starts as in Hugging Face's T5: normal, of standard deviation d_model^-1/2; without d_model at 0. T5 does not divide
    its scores by the root of dim: give attention ``scale=1.0``. In T5 the first layer owns the module and all of them
    use it.

    Raffel et al. 2020, arXiv 1910.10683.
    """

    def __init__(self, spec: _core.T5, heads: int, d_model: int | None = None) -> None:
        super().__init__("T5Bias", spec, heads=heads)
        self.heads, self.d_model = heads, d_model
        self.reset_parameters()

    def reset_parameters(self) -> None:
        normal(self.table, std=0 if self.d_model is None else self.d_model**-0.5)


class Alibi(Described, Bias):
    """ALiBi with learned slopes [heads], which start at the published ones.

    ``s_ij <- s_ij - slope_h |n - m|``; form "causal": keys after the query get 0. For slopes that are not learned give
    attention ``bearing.AlibiBias(spec)``.

    Press, Smith, Lewis 2022, arXiv 2108.12409.
    """

    def __init__(self, heads: int, form: str = "symmetric") -> None:
        super().__init__("AlibiBias", heads=heads, settings={"form": form})
        self.heads = heads


class Kerple(Described, Bias):
    """KERPLE's kernels, with r1 and r2 [heads].

    Starts as in the authors' code: r1 uniform in [0, 2), r2 in [0, 1) for the logarithmic kernel; for the power the
    exponent r2 in [0, 2), r1 in [0, 1). Both at least ``Kerple.least``: call :meth:`clamp` after each step of an
    optimiser, as that code does.

    Chi, Fan, Ramadge, Rudnicky 2022, arXiv 2205.09921.
    """

    def __init__(self, spec: _core.Kerple, heads: int) -> None:
        super().__init__("KerpleBias", spec, heads=heads)
        self.heads = heads
        self.most = (math.inf, _core.Kerple.most_power if spec.form == "power" else math.inf)

    @torch.no_grad()
    def clamp(self) -> None:
        """Holds the parameters where the kernel is positive definite."""
        for parameter, most in zip((self.r1, self.r2), self.most, strict=True):
            parameter.clamp_(_core.Kerple.least, most)


class Fire(Bias):
    """FIRE: a network 1 -> mlp_width -> heads of the distance, squeezed into the length seen so far.

    Starts as in the paper's appendix: c at 0.1, the threshold's multiplier at 1, the layers as PyTorch's linear ones.

    Li, You, Guruganesh et al. 2023, arXiv 2310.04418.
    """

    def __init__(self, spec: _core.Fire, heads: int) -> None:
        names = ["c", "multiplier", "hidden_weight", "hidden_bias", "out_weight", "out_bias"]
        super().__init__("FireBias", spec, names)
        self.heads = heads
        self.c, self.multiplier = empty(1), empty(1)
        self.hidden = Weights(1, spec.mlp_width)
        self.out = Weights(spec.mlp_width, heads)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.constant_(self.c, _core.Fire.initial_c)
        nn.init.constant_(self.multiplier, _core.Fire.initial_multiplier)

    def encoding(self) -> Encoding:
        hidden, out = self.hidden, self.out
        return Encoding(
            self.form, (self.c, self.multiplier, hidden.weight.flatten(), hidden.bias, out.weight, out.bias)
        )


class Swin(Described, Bias):
    """Swin's bias by displacement in a window, and BEiT's: table [spec.rows(), heads].

    Positions [2, batch, time], y then x: :func:`window_positions`. Starts as in Swin: normal, of standard deviation
    0.02, cut off at 2.

    Liu et al. 2021, arXiv 2103.14030.
    """

    def __init__(self, spec: _core.Swin, heads: int) -> None:
        super().__init__("SwinBias", spec, heads=heads)
        self.heads = heads


class SwinV2(Bias):
    """Swin V2's continuous bias: the table of a window, computed by a network 2 -> hidden -> heads.

    Positions [2, batch, time], y then x: :func:`window_positions`. Layers start as PyTorch's linear ones.

    Liu et al. 2022, arXiv 2111.09883.
    """

    def __init__(self, spec: _core.SwinV2, heads: int, hidden: int = 512) -> None:
        super().__init__("SwinBias", spec.window, ["table"])
        self.heads = heads
        self.hidden = nn.Linear(2, hidden)
        self.out = nn.Linear(hidden, heads, bias=False)
        self.trained = spec.trained_height, spec.trained_width
        self.register_buffer("displacements", torch.empty(spec.window.rows(), 2, dtype=torch.float64), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.displacements.copy_(_displacements(self.spec, *self.trained))

    def table(self) -> Tensor:
        """``16 sigmoid(w2 relu(w1 c + b1))`` of every displacement: [window.rows(), heads]."""
        dtype = next(
            (p.dtype for p in self.parameters()), torch.float32
        )  # layers may be quantised ones, which have none
        return 16 * torch.sigmoid(self.out(F.relu(self.hidden(self.displacements.to(dtype)))))

    def encoding(self) -> Encoding:
        return Encoding(self.form, (self.table(),))


def _displacements(window: _core.Swin, *trained: int) -> Tensor:
    """``sign(d) log2(1 + 8 |d|/(W - 1)) / log2 8`` of every displacement (dy, dx) in the window: [rows, 2]."""
    axes = []
    for size, before in zip((window.height, window.width), trained, strict=True):
        d = torch.arange(1 - size, size, dtype=torch.float64)
        axes.append(d.sign() * torch.log2(1 + 8 * d.abs() / ((before or size) - 1)) / 3)
    return torch.cartesian_prod(*axes)


def window_positions(height: int, width: int) -> Tensor:
    """Positions of a window's tokens, row by row: [2, 1, height * width], y then x."""
    return torch.cartesian_prod(torch.arange(height), torch.arange(width)).T.contiguous().unsqueeze(1)


class Forgetting(EncodingModule):
    """Forgetting attention, or data-dependent ALiBi: a score loses by all that was forgotten since its key.

    ``encoding(x)`` of the layer's input x [batch, time, d_model]: a gate ``f = sigmoid(w x + b)`` for each head. The
    gates' bias starts at 5, nearly open, as in x-transformers.

    Lin, Nikishin, He, Courville 2025, arXiv 2503.02130.
    """

    def __init__(self, heads: int, d_model: int, bias: float = 5.0) -> None:
        super().__init__("ForgettingBias", None, ["log_forget"])
        self.gate = nn.Linear(d_model, heads)
        self.bias = bias
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.constant_(self.gate.bias, self.bias)

    def encoding(self, x: Tensor) -> Encoding:
        return Encoding(self.form, (F.logsigmoid(self.gate(x)).transpose(1, 2),))
