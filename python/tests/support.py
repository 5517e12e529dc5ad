"""What the tests share: golden data, an example of every encoding, numerical gradients, arrays of every kind."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bearing
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import torch

jax.config.update("jax_enable_x64", True)

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden"

# Extents of the examples' calls.
BATCH, HEADS, KV_HEADS, Q_LEN, K_LEN, DIM = 2, 4, 2, 3, 5, 4


def golden(name: str) -> dict[str, Any]:
    return json.loads((GOLDEN / name).read_text())


def tensor(entry: dict[str, Any]) -> np.ndarray:
    return np.array(entry["data"], dtype=np.float64).reshape(entry["shape"])


@dataclass(frozen=True)
class Example:
    """An encoding with float64 parameters, and the positions of a call that it serves."""

    encoding: Any
    site: str  # "scores", "rows" or "inputs"
    q_positions: Any = K_LEN - Q_LEN
    k_positions: Any = None


def grid(rng: np.random.Generator, time: int) -> np.ndarray:
    """Whole positions [2, batch, time] in a window of 3 by 2."""
    return np.stack([rng.integers(0, 3, (BATCH, time)), rng.integers(0, 2, (BATCH, time))])


def plane(rng: np.random.Generator, time: int) -> np.ndarray:
    """Real positions [2, batch, time]."""
    return rng.uniform(-2, 2, (2, BATCH, time))


def examples(rng: np.random.Generator) -> dict[str, Example]:
    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape)

    def positive(*shape: int) -> np.ndarray:
        return rng.uniform(0.2, 1.5, shape)

    b = bearing
    two_rows = {"q_positions": plane(rng, Q_LEN), "k_positions": plane(rng, K_LEN)}
    window = {"q_positions": grid(rng, Q_LEN), "k_positions": grid(rng, K_LEN)}
    t5 = b.T5(buckets=8, max_distance=6, direction="bidirectional")
    mixed = b.RopeMixed(head_dim=DIM, pairing="half")
    fire = dict(c=[0.3], multiplier=[0.9], hidden_weight=draw(3), hidden_bias=draw(3), out_weight=draw(HEADS, 3))
    fire = {name: np.asarray(value) for name, value in fire.items()}
    segments = rng.integers(0, 2, (BATCH, K_LEN))
    score = {
        "AlibiBias": b.AlibiBias(b.Alibi.published(HEADS)),
        "AlibiBias, learned": b.AlibiBias(slopes=positive(HEADS), form="causal"),
        "AlibiShiftedBias": b.AlibiShiftedBias(slopes=positive(HEADS)),
        "RetentionBias": b.RetentionBias(b.Retention.published(HEADS)),
        "RetentionBias, learned": b.RetentionBias(rates=positive(HEADS)),
        "T5Bias": b.T5Bias(t5, draw(8, HEADS)),
        "KerpleBias, logarithmic": b.KerpleBias(b.Kerple(form="logarithmic"), positive(HEADS), positive(HEADS)),
        "KerpleBias, power": b.KerpleBias(b.Kerple(form="power"), positive(HEADS), positive(HEADS)),
        "FireBias": b.FireBias(b.Fire(mlp_width=3, threshold=2.5), **fire, out_bias=draw(HEADS)),
        "SandwichBias": b.SandwichBias(b.Sandwich(heads=HEADS, dim=6)),
        "ForgettingBias": b.ForgettingBias(-positive(BATCH, HEADS, K_LEN), past=K_LEN - Q_LEN),
        "GatedDecayTerm": b.GatedDecayTerm(-positive(BATCH, HEADS, K_LEN, DIM), past=K_LEN - Q_LEN),
        "DenseBias": b.DenseBias(draw(HEADS, Q_LEN, 1)),
        "ShawTerm": b.ShawTerm(b.Shaw(clip=2), draw(5, DIM), draw(5, DIM)),
        "ShawTerm, keys by head": b.ShawTerm(b.Shaw(clip=2), draw(HEADS, 5, DIM)),
        "BertRelativeTerm": b.BertRelativeTerm(
            b.BertRelative(max_position_embeddings=8, position_embedding_type="relative_key_query"), draw(15, DIM)
        ),
        "BertRelativeTerm, Wav2Vec2": b.BertRelativeTerm(b.Wav2Vec2BertRelative(left=2, right=1), draw(4, DIM)),
        "TransformerXLTerm": b.TransformerXLTerm(
            b.TransformerXL(), draw(HEADS, K_LEN, DIM), draw(HEADS, DIM), draw(HEADS, DIM)
        ),
        "XlnetSegmentTerm": b.XlnetSegmentTerm(
            draw(2, HEADS, DIM), draw(HEADS, DIM), q_segments=segments[:, -Q_LEN:], k_segments=segments
        ),
        "DebertaTerm": b.DebertaTerm(
            b.Deberta(max_relative_positions=8, position_buckets=4), draw(HEADS, 8, DIM), draw(HEADS, 8, DIM)
        ),
        "TupeBias": b.TupeBias(
            b.Tupe(rel_pos_bins=8, max_rel_pos=6), draw(HEADS, K_LEN + 1, 3), draw(HEADS, K_LEN + 1, 3), draw(9, HEADS)
        ),
        "CopeTerm": b.CopeTerm(b.Cope(max_pos=3), draw(HEADS, 3, DIM)),
        "GatedT5Bias": b.GatedT5Bias(
            b.GatedT5(buckets=8, max_distance=6, direction="bidirectional"), draw(8, HEADS), draw(BATCH, HEADS, Q_LEN)
        ),
        "RelativeLogitsTerm": b.RelativeLogitsTerm(
            b.RelativeLogits(extent=3, clip=1.0, temperature=b.PositionTemperature.inkling(2, 0.5)),
            draw(3, 6),
            draw(BATCH, HEADS, Q_LEN, 6),
        ),
        "BucketBias": b.BucketBias(table=draw(3, HEADS), index=rng.integers(-1, 3, (1, 1, Q_LEN, K_LEN))),
    }
    vision = {
        "SwinBias": b.SwinBias(b.Swin(height=3, width=2), draw(15, HEADS)),
        "T5AxisBias": b.T5AxisBias(
            b.T5Axis(buckets=8, max_distance=6, direction="bidirectional", axis=1), draw(8, HEADS)
        ),
        "SamTerm": b.SamTerm(b.Sam(height=3, width=2), draw(5, DIM), draw(3, DIM)),
    }
    flat_rows = {
        "TemperatureRows": b.TemperatureRows(b.PositionTemperature(beta=0.3, length=2, first=1)),
        "TemperatureRowsLearned": b.TemperatureRows(
            b.PositionTemperature(form="learned", first=1), draw(HEADS), draw(HEADS)
        ),
        "FopeRows": b.FopeRows(
            b.Fope(head_dim=DIM, trained_length=1000, kept=2, pairing="half"),
            draw(1, 2, 2),
            draw(1, 2, 2),
            group=HEADS,
        ),
        "PopeRows": b.PopeRows(b.Pope(head_dim=DIM), -positive(1, DIM), group=HEADS),
        "PopeRows, without offsets": b.PopeRows(b.Pope(head_dim=DIM)),
    }
    plane_rows = {
        "RopeMixedRows": b.RopeMixedRows(mixed, draw(2, 1, DIM // 2), group=HEADS),
        "ElementwiseRows": b.ElementwiseRows(
            b.ElementwiseRope(rope=b.Rope(head_dim=DIM, pairing="half"), joined="half", sections=[1, 3])
        ),
        "LieRopeRows": b.LieRopeRows(b.LieRope(head_dim=DIM), draw(1, 2, 1, 6), group=HEADS),
        "CayleyStringRows": b.CayleyStringRows(
            b.CayleyString(rope=mixed), draw(2, 1, DIM // 2), draw(1, 6), group=HEADS
        ),
        "CirculantStringRows": b.CirculantStringRows(b.CirculantString(head_dim=DIM), draw(2, 1, DIM), group=HEADS),
    }
    sinusoidal = b.Sinusoidal(dim=DIM, layout="interleaved")
    inputs = {
        "LearnedInputs": b.LearnedInputs(b.Learned(length=8, dim=DIM, offset=2), draw(10, DIM)),
        "SinusoidalInputs": b.SinusoidalInputs(sinusoidal),
        "SinusoidalInputs, learned": b.SinusoidalInputs(sinusoidal, scale=positive(1), frequencies=positive(2)),
        "CapeInputs": b.CapeInputs(b.Cape(dim=DIM)),
        "IndexInputs": b.IndexInputs(b.IndexEncoding(dim=DIM, form="binary")),
    }
    plane_inputs = {
        "Sinusoidal2dInputs": b.Sinusoidal2dInputs(b.Sinusoidal2d.detr(DIM)),
        "Cape2dInputs": b.Cape2dInputs(b.Cape2d(dim=DIM)),
        "FourierInputs": b.FourierInputs(
            b.Fourier(axes=2, frequencies=DIM // 2, unit="radians", layout="sines_first"), draw(DIM // 2, 2)
        ),
    }
    return (
        {name: Example(one, "scores") for name, one in score.items()}
        | {name: Example(one, "scores", **window) for name, one in vision.items()}
        | {name: Example(one, "rows") for name, one in flat_rows.items()}
        | {name: Example(one, "rows", **two_rows) for name, one in plane_rows.items()}
        | {name: Example(one, "inputs") for name, one in inputs.items()}
        | {name: Example(one, "inputs", **two_rows) for name, one in plane_inputs.items()}
    )


def made(kind: type) -> Any:
    """A spec with its defaults, and with something where a member must be given."""
    asked = inspect.signature(kind).parameters.values()
    return kind(**{one.name: _value(one.annotation.split(" | ")[0]) for one in asked if one.default is one.empty})


def _value(annotation: str) -> Any:
    """Of a type, as a signature has it."""
    if annotation.startswith("Literal["):
        return annotation.removeprefix("Literal[").split(",")[0].strip("]' ")
    if hasattr(bearing, annotation):
        return made(getattr(bearing, annotation))
    return {"int": 4, "float": 1.5, "bool": False, "str": "x", "Sequence[float]": [0.5, 0.25]}[annotation]


def described_specs() -> list[type]:
    """Every class of specs."""
    found = [one for one in vars(bearing).values() if isinstance(one, type) and issubclass(one, bearing.Spec)]
    return [one for one in found if one is not bearing.Spec]


NAMES = list(examples(np.random.default_rng(0)))


def names(site: str) -> list[str]:
    return [name for name, one in examples(np.random.default_rng(0)).items() if one.site == site]


def queries_and_keys(rng: np.random.Generator, kv_heads: int = KV_HEADS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q, k and v in the order batch, heads, time, dim."""
    q = rng.standard_normal((BATCH, HEADS, Q_LEN, DIM))
    k, v = rng.standard_normal((2, BATCH, kv_heads, K_LEN, DIM))
    return q, k, v


def check_gradient(loss: Callable[[], float], value: np.ndarray, gradient: np.ndarray, what: str) -> None:
    """Compares with central differences, at up to 24 elements of `value`, which `loss` reads.

    With a step h of 1e-6, rounding of losses of the order of 10 gives errors of 10·2^-52/h = 2e-9, the third derivative
    ones of h² = 1e-12 times itself: 1e-7 leaves room for sums of many terms, and is far below any wrong gradient.
    """
    assert gradient.shape == value.shape, what
    step = 1e-6
    places = np.random.default_rng(1).permutation(value.size)[:24]
    for place in places:
        at = np.unravel_index(place, value.shape)
        before = value[at]
        value[at] = before + step
        up = loss()
        value[at] = before - step
        down = loss()
        value[at] = before
        numeric = (up - down) / (2 * step)
        assert abs(gradient[at] - numeric) <= 1e-7 * max(1.0, abs(numeric)), (what, at, gradient[at], numeric)


# Arrays of every kind and type from NumPy's, and back.
KINDS = ["numpy", "torch", "jax"]
TYPES = ["float64", "float32", "bfloat16", "float16"]
# The largest relative error of rounding to a type.
ROUNDING = {"float64": 2.0**-53, "float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11}


def numpy_type(name: str) -> Any:
    return ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name)


def as_kind(kind: str, array: np.ndarray, dtype: str = "float64") -> Any:
    if kind == "torch":
        return torch.from_numpy(np.array(array, dtype=np.float64)).to(getattr(torch, dtype))
    rounded = np.asarray(array, dtype=np.float64).astype(numpy_type(dtype))
    return jnp.asarray(rounded) if kind == "jax" else rounded


def to_numpy(array: Any) -> np.ndarray:
    """As float64, whatever it was."""
    if isinstance(array, torch.Tensor):
        return array.to(torch.float64).numpy()
    return np.asarray(array).astype(np.float64)


def kind_of(array: Any) -> str:
    if isinstance(array, torch.Tensor):
        return "torch"
    return "jax" if isinstance(array, jax.Array) else "numpy"


def type_of(array: Any) -> str:
    return str(array.dtype).removeprefix("torch.")
