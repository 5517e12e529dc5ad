"""Uses every spec with sizes that no model has, and prints what happens: test_spec_sizes.py runs it in a process of
its own, whose memory and time are limited.

    python spec_sizes.py
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bearing as b
import numpy as np

HEADS, TIME, DIM = 2, 3, 8
SIZES = (2**31, 2**50, 2**62, 2**63 - 1, 0, -1, -(2**63))
# Beyond what the process has when it starts: room for tables of the largest windows and dimensions.
MEMORY = 1 << 30

Uses = Iterator[Callable[[], Any]]


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


PLACES = np.zeros((2, 1, TIME))  # (y, x) of each token
ROPE = b.Rope(head_dim=DIM, pairing="half")


def attended(encoding: b.Encoding, at: Any = None) -> b.Encoding:
    x = zeros(1, HEADS, TIME, DIM)
    return b.attention(x, x, x, encoding, mask="none", q_positions=at, k_positions=at)


def in_regions(spec: Any) -> Uses:
    x, rope = zeros(1, HEADS, TIME, DIM), b.RotaryRows(b.RopeTable(ROPE, TIME))
    yield lambda: b.attention(x, x, x, rope, mask="causal", regions=spec)


def in_a_band(spec: Any) -> Uses:
    beside = lambda **end: b.Region(band=b.DistanceBand(chunk=spec.chunk, **end))
    return in_regions([beside(end=spec.begin), b.Region(band=spec), beside(begin=spec.end)])


def matrix(encoding: b.Encoding) -> Any:
    return b.bias_matrix(encoding, heads=HEADS, q_len=TIME, k_len=TIME)


def turned(encoding: b.Encoding, at: Any = None) -> Any:
    return [b.turn(encoding, zeros(1, HEADS, TIME, DIM), at, side=side) for side in ("query", "key")]


def added(encoding: b.Encoding, at: Any = None) -> Any:
    return b.add(encoding, zeros(1, TIME, DIM), at)


def of_rope(rope: b.Rope) -> Uses:
    yield lambda: b.resolve(rope)
    yield lambda: b.resolve(rope, 10)
    yield lambda: b.rotate(b.RopeTable(rope, 4, seq_len=4), zeros(1, HEADS, TIME, DIM))
    yield lambda: b.rope_warnings(rope)


def of_axes(axes: b.RopeAxes) -> Uses:
    return of_rope(ROPE.replace(axes=axes))


def of_scaling(scaling: Any) -> Uses:
    return of_rope(ROPE.replace(scaling=scaling))


def of_t5(t5: b.T5) -> Uses:
    yield lambda: b.t5_thresholds(t5)
    yield lambda: b.t5_bucket(t5, -5)
    yield lambda: matrix(b.T5Bias(t5, zeros(32, HEADS)))


def of_fire(fire: b.Fire) -> Uses:
    yield lambda: matrix(b.FireBias(fire, zeros(1), zeros(1), zeros(3), zeros(3), zeros(HEADS, 3), zeros(HEADS)))


def of_sandwich(sandwich: b.Sandwich) -> Uses:
    yield lambda: matrix(b.SandwichBias(sandwich))
    yield lambda: attended(b.SandwichBias(sandwich))


def of_swin(swin: b.Swin) -> Uses:
    yield lambda: swin.rows()
    yield lambda: attended(b.SwinBias(swin, zeros(15, HEADS)), PLACES)
    yield from of_swin_v2(b.SwinV2(window=swin))


def of_swin_v2(swin: b.SwinV2) -> Uses:
    yield lambda: b.swin_v2_coordinates(swin)
    yield lambda: b.swin_v2_table(swin, zeros(4, 2), zeros(4), zeros(HEADS, 4))
    yield lambda: b.swin_v2_table_backward(swin, zeros(4, 2), zeros(4), zeros(HEADS, 4), zeros(15, HEADS))


def of_sam(sam: b.Sam) -> Uses:
    yield lambda: attended(b.SamTerm(sam, zeros(5, DIM), zeros(3, DIM)), PLACES)


def of_shaw(shaw: b.Shaw) -> Uses:
    yield lambda: shaw.rows()
    yield lambda: shaw.row(1)
    yield lambda: attended(b.ShawTerm(shaw, zeros(5, DIM), zeros(5, DIM)))


def of_bert(bert: b.BertRelative | b.Wav2Vec2BertRelative) -> Uses:
    yield lambda: bert.rows()
    yield lambda: attended(b.BertRelativeTerm(bert, zeros(5, DIM)))


def of_transformer_xl(xl: b.TransformerXL) -> Uses:
    yield lambda: b.transformer_xl_relative(xl, zeros(HEADS * DIM, 6), heads=HEADS, offsets=2 * TIME)
    yield lambda: b.transformer_xl_relative_backward(xl, zeros(HEADS, TIME, DIM), d_model=6)
    yield lambda: attended(b.TransformerXLTerm(xl, zeros(HEADS, 2 * TIME, DIM), zeros(HEADS, DIM), zeros(HEADS, DIM)))


def of_xlnet(xlnet: b.Xlnet) -> Uses:
    yield lambda: xlnet.relative(3)
    yield from of_transformer_xl(xlnet.relative(3))


def of_deberta(deberta: b.Deberta) -> Uses:
    yield lambda: deberta.span()
    yield lambda: b.deberta_bucket(deberta, 5)
    yield lambda: b.deberta_softmax_scale(deberta, DIM)
    yield lambda: attended(b.DebertaTerm(deberta, zeros(HEADS, 8, DIM), zeros(HEADS, 8, DIM)))


def of_tupe(tupe: b.Tupe) -> Uses:
    rows = zeros(HEADS, TIME + 1, 3)
    yield lambda: matrix(b.TupeBias(tupe, rows, rows, zeros(9, HEADS)))


def of_cope(cope: b.Cope) -> Uses:
    yield lambda: attended(b.CopeTerm(cope, zeros(HEADS, 3, DIM)))


def of_mixed(mixed: b.RopeMixed) -> Uses:
    yield lambda: b.rope_mixed_frequencies(mixed, HEADS, 1)
    yield lambda: turned(b.RopeMixedRows(mixed, zeros(2, 1, DIM // 2), group=HEADS), PLACES)
    cayley = b.CayleyString(rope=mixed)
    yield lambda: turned(b.CayleyStringRows(cayley, zeros(2, 1, DIM // 2), zeros(1, 28), group=HEADS), PLACES)


def of_circulant(circulant: b.CirculantString) -> Uses:
    yield lambda: turned(b.CirculantStringRows(circulant, zeros(2, 1, DIM), group=HEADS), PLACES)


def of_lie(lie: b.LieRope) -> Uses:
    yield lambda: turned(b.LieRopeRows(lie, zeros(1, 2, 2, 6), group=HEADS), PLACES)


def of_fope(fope: b.Fope) -> Uses:
    yield lambda: b.fope_frequencies(fope)
    yield lambda: turned(b.FopeRows(fope, zeros(1, 3, 3), zeros(1, 3, 3), group=HEADS))


def of_pope(pope: b.Pope) -> Uses:
    yield lambda: turned(b.PopeRows(pope, zeros(1, DIM), group=HEADS))
    yield lambda: turned(b.PopeRows(pope))


def of_temperature(temperature: b.PositionTemperature) -> Uses:
    if temperature.form == "learned":
        yield lambda: turned(b.TemperatureRows(temperature, zeros(HEADS), zeros(HEADS)))
        return
    yield lambda: temperature.factor(5)
    yield lambda: turned(b.TemperatureRows(temperature))


def of_learned(learned: b.Learned) -> Uses:
    yield lambda: learned.rows()
    yield lambda: added(b.LearnedInputs(learned, zeros(10, DIM)))


def of_sinusoidal(sinusoidal: b.Sinusoidal) -> Uses:
    yield lambda: b.sinusoidal_columns(sinusoidal)
    yield lambda: b.sinusoidal_frequencies(sinusoidal)
    yield lambda: b.sinusoidal_base_gradient(sinusoidal, np.zeros(DIM // 2))
    yield lambda: b.inputs(b.SinusoidalInputs(sinusoidal), time=TIME)
    yield lambda: added(b.SinusoidalInputs(sinusoidal, zeros(1), zeros(DIM // 2)))


def of_cape(cape: b.Cape) -> Uses:
    yield lambda: b.cape_positions(cape, time=TIME)
    yield lambda: added(b.CapeInputs(cape))


def of_cape_2d(cape: b.Cape2d) -> Uses:
    yield lambda: b.cape_positions(cape, 2, 2)
    yield lambda: added(b.Cape2dInputs(cape), PLACES)


def of_xpos(rope: b.Rope) -> Uses:
    xpos = b.Xpos(rope=rope)
    yield lambda: b.XposTable(xpos, 4)
    yield lambda: b.xpos_decay(xpos)


CASES: list[tuple[Any, Callable[[Any], Uses]]] = [
    (b.T5(direction="causal"), of_t5),
    (b.T5(direction="bidirectional"), of_t5),
    (b.T5Axis(direction="causal", axis=1),
     lambda spec: iter([lambda: attended(b.T5AxisBias(spec, zeros(32, HEADS)), PLACES)])),
    (b.GatedT5(buckets=32, direction="bidirectional"),
     lambda spec: iter([lambda: attended(b.GatedT5Bias(spec, zeros(32, HEADS), zeros(1, HEADS, TIME)))])),
    (b.RelativeLogits(extent=8, clip=2.0), lambda spec: iter([lambda: attended(
        b.RelativeLogitsTerm(spec, zeros(min(abs(spec.extent), 9), 4), zeros(1, HEADS, TIME, 4)))])),
    (b.BucketDifference(clip=2), lambda spec: iter([lambda: attended(
        b.BucketBias(spec, zeros(6, HEADS), q_attribute=[[0, 1, 2]], k_attribute=[[0, 1, 2]]))])),
    (b.Fourier(axes=2, frequencies=4, unit="turns", layout="sines_first"),
     lambda spec: iter([lambda: added(b.FourierInputs(spec, zeros(4, 2)), PLACES)])),
    (b.ElementwiseRope(rope=b.Rope(head_dim=DIM, pairing="half"), joined="half", sections=[1, DIM - 1]),
     lambda spec: iter([lambda: attended(b.ElementwiseRows(spec))])),
    (b.GivenAngles(head_dim=DIM, rotary_dim=DIM, pairing="half"),
     lambda spec: iter([lambda: attended(b.AngleRows(spec, zeros(1, HEADS, TIME, DIM // 2)))])),
    (b.Fire(mlp_width=3), of_fire),
    (b.DualChunk(chunk_size=4, local_size=1), in_regions),
    (b.SelfExtend(group=2, window=1), in_regions),
    (b.ReRope(window=1, step=0.5), in_regions),
    (b.DistanceBand(begin=1, end=3, chunk=2), in_a_band),
    (b.Placing(most=2.5), lambda spec: in_regions([b.Region(q=spec, k=spec)])),
    (b.Sandwich(heads=HEADS, dim=DIM), of_sandwich),
    (b.Swin(height=3, width=2), of_swin),
    (b.Swin(height=3, width=2, class_token="three_rows"), of_swin),
    (b.SwinV2(window=b.Swin(height=3, width=2)), of_swin_v2),
    (b.Sam(height=3, width=2), of_sam),
    (b.Shaw(clip=2), of_shaw),
    (b.BertRelative(max_position_embeddings=3), of_bert),
    (b.Wav2Vec2BertRelative(left=2, right=2), of_bert),
    (b.TransformerXL(), of_transformer_xl),
    (b.Xlnet(), of_xlnet),
    (b.Deberta(max_relative_positions=8, position_buckets=4), of_deberta),
    (b.Tupe(rel_pos_bins=8, max_rel_pos=6), of_tupe),
    (b.Cope(max_pos=3), of_cope),
    (b.RopeMixed(head_dim=DIM, pairing="half"), of_mixed),
    (b.CirculantString(head_dim=DIM), of_circulant),
    (b.LieRope(head_dim=DIM, block=4), of_lie),
    (b.Fope(head_dim=DIM, trained_length=1000, pairing="half"), of_fope),
    (b.Fope(head_dim=DIM, trained_length=1000, kept=3, pairing="half"), of_fope),
    (b.Pope(head_dim=DIM), of_pope),
    *((b.PositionTemperature(form=form, first=1), of_temperature)
      for form in ("stepped", "clamped", "power", "learned")),
    (b.Learned(length=8, dim=DIM, offset=2, padding_row=1), of_learned),
    (b.Sinusoidal(dim=DIM, layout="interleaved", padding_position=0), of_sinusoidal),
    (b.Sinusoidal(dim=DIM, layout="tensor2tensor", padding_position=0), of_sinusoidal),
    (b.Sinusoidal2d.detr(DIM), lambda spec: iter([lambda: added(b.Sinusoidal2dInputs(spec), PLACES)])),
    (b.Cape(dim=DIM), of_cape),
    (b.Cape2d(dim=DIM), of_cape_2d),
    *((b.IndexEncoding(dim=DIM, form=form, length=9 * (form == "normalised")),
       lambda spec: iter([lambda: added(b.IndexInputs(spec))])) for form in ("index", "normalised", "binary")),
    (ROPE.replace(rotary_dim=DIM), of_rope),
    (ROPE.replace(rotary_dim=DIM), of_xpos),
    (b.RotaryPart(where="window"), lambda part: of_rope(ROPE.replace(rotary_dim=4, part=part))),
    (b.RopeAxes(pairs=[2, 2]), of_axes),
    (b.RopeAxes(pairs=[2, 2], order="interleaved"), of_axes),
    (b.RopeAxes(pairs=[0, 0, 1, 1], order="listed"), of_axes),
    (b.RopeAxes(pairs=[2, 2], frequencies="restarted"), of_axes),
    (b.RopeAxes(pairs=[2, 1], still=1, bases=[20, 100], ntk_factors=[2, 1], halves="axis"), of_axes),
    (b.DynamicNtkScaling(factor=2, trained_length=100), of_scaling),
    (b.NtkByPartsScaling(factor=2, trained_length=100), of_scaling),
    (b.YarnScaling(factor=2, trained_length=100), of_scaling),
    (b.DeepseekYarnScaling(factor=2, trained_length=100), of_scaling),
    (b.LongRopeScaling(factor=2, trained_length=100, short_factor=[1] * 4, long_factor=[1] * 4), of_scaling),
    (b.Llama3Scaling(factor=2, trained_length=100), of_scaling),
]  # fmt: skip


def integer_members(spec: Any) -> list[str]:
    """Also those that are sequences of them."""

    def whole(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    return [
        name
        for name, value in spec.to_dict().items()
        if whole(value) or (isinstance(value, list) and value and all(map(whole, value)))
    ]


def run(spec: Any, member: str, size: int, uses: Callable[[Any], Uses]) -> Iterator[dict[str, Any]]:
    """What each use of a spec with this size did, and how long it took."""
    before = getattr(spec, member)
    changed = spec.replace(**{member: (size, *before[1:]) if isinstance(before, tuple) else size})
    for n, use in enumerate(uses(changed)):
        start, error, text = time.perf_counter(), "", ""
        try:
            use()
        except Exception as caught:
            error, text = type(caught).__name__, str(caught)
        yield {
            "use": f"{type(spec).__name__}.{member} = {size}, use {n}",
            "members": list(spec.to_dict()),
            "error": error,
            "text": text,
            "seconds": time.perf_counter() - start,
        }


def main() -> None:
    status = Path("/proc/self/status").read_text().splitlines()
    now = int(next(line for line in status if line.startswith("VmSize")).split()[1]) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
    for spec, uses in CASES:
        for member in integer_members(spec):
            for size in SIZES:
                for done in run(spec, member, size, uses):
                    print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main()
