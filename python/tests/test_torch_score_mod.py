"""Encodings as FlexAttention's score modifiers, against bearing.torch.attention."""

from __future__ import annotations

import functools
import json
from typing import Any

import bearing
import bearing.torch as bt
import numpy as np
import pytest
import torch
from bearing import _core
from bearing._modules import ModuleInfo, modules
from patches import on_two_axes
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch_cases import DIM, HEADS, TIME, of_example, shaken

BATCH, Q_LEN, K_LEN, D_MODEL = 2, 9, 12, 16


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(11)
    yield
    torch.set_num_threads(threads)


def heads_of(rows: int, heads: int = HEADS) -> Tensor:
    return torch.randn(BATCH, heads, rows, DIM, dtype=torch.float64, requires_grad=True)


def windows() -> dict[str, Tensor]:
    return {
        "q_positions": bt.window_positions(3, 3).expand(-1, BATCH, -1),
        "k_positions": bt.window_positions(3, 4).expand(-1, BATCH, -1),
    }


def xl(direction: str, clamp_len: int = 0) -> bt.TransformerXL:
    spec = bearing.TransformerXL(first_offset=-K_LEN, clamp_len=clamp_len, direction=direction)
    return bt.TransformerXL(spec, HEADS, DIM, D_MODEL, offsets=2 * K_LEN + 4)


def deberta(**members: Any) -> bt.Deberta:
    spec = bearing.Deberta(max_relative_positions=8, **members)
    return bt.Deberta(spec, HEADS, DIM, D_MODEL)


def tupe(**members: Any) -> bt.Tupe:
    return bt.Tupe(bearing.Tupe(max_rel_pos=16, **members), HEADS, DIM, D_MODEL, length=K_LEN + 4)


def bert(**members: Any) -> bt.BertRelative:
    return bt.BertRelative(bearing.BertRelative(max_position_embeddings=K_LEN + 4, **members), DIM)


class Segments(torch.nn.Module):
    """XLNet's segments, which a call brings along."""

    def __init__(self) -> None:
        super().__init__()
        self.term = bt.XlnetSegments(HEADS, DIM)
        self.which = torch.randint(2, (BATCH, K_LEN))

    def encoding(self) -> bt.Encoding:
        return self.term.encoding(self.which[:, :Q_LEN], self.which)


class Gates(torch.nn.Module):
    """Forgetting attention's gates of some input."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = bt.Forgetting(HEADS, D_MODEL)
        self.x = torch.randn(BATCH, K_LEN, D_MODEL, dtype=torch.float64)

    def encoding(self) -> bt.Encoding:
        return self.gates.of_gates(self.gates.log_forget(self.x), past=3)


class Mixed(torch.nn.Module):
    """Relative logits of some input."""

    def __init__(self, **members: Any) -> None:
        super().__init__()
        spec = bearing.RelativeLogits(extent=7, **members)
        self.logits = bt.RelativeLogits(spec, HEADS, D_MODEL, rank=4)
        self.x = torch.randn(BATCH, Q_LEN, D_MODEL, dtype=torch.float64)

    def encoding(self) -> bt.Encoding:
        return self.logits.encoding(self.x)


class Dense(torch.nn.Module):
    """A bias that is learned entry by entry."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(shape))

    def encoding(self) -> bt.Encoding:
        return bt.encoding_of(bearing.DenseBias(self.bias))


class Given(torch.nn.Module):
    """A module, and what a model computes for it."""

    def __init__(self, module: bt.Described, *given: Tensor) -> None:
        super().__init__()
        self.module, self.given = module, given

    def encoding(self) -> bt.Encoding:
        return self.module.encoding(*self.given)


def buckets() -> Given:
    index = torch.randint(-1, 5, (BATCH, HEADS, Q_LEN, K_LEN))
    return Given(bt.BucketBias(HEADS, rows=5), index)


def differences() -> Given:
    which = torch.randint(9, (BATCH, K_LEN))
    module = bt.BucketBias(HEADS, spec=bearing.BucketDifference(clip=3))
    return Given(module, None, which[:, :Q_LEN], which)


def gated() -> Given:
    module = bt.GatedT5(bearing.GatedT5(**T5, direction="bidirectional"), HEADS)
    return Given(module, torch.randn(BATCH, HEADS, Q_LEN, dtype=torch.float64))


def one_axis() -> bt.T5Axis:
    return bt.T5Axis(bearing.T5Axis(**T5, direction="bidirectional", axis=1, scale=0.5), HEADS)


T5 = {"buckets": 8, "max_distance": 9}
CASES = {
    "Alibi": lambda: bt.Alibi(HEADS),
    "AlibiCausal": lambda: bt.Alibi(HEADS, "causal"),
    "AlibiPublished": lambda: bearing.AlibiBias(bearing.Alibi.published(HEADS)),
    "AlibiShifted": lambda: bearing.AlibiShiftedBias(bearing.Alibi.published(HEADS)),
    "T5": lambda: bt.T5Bias(bearing.T5(**T5, direction="bidirectional"), HEADS, 4),
    "T5Causal": lambda: bt.T5Bias(bearing.T5(**T5, direction="causal"), HEADS, 4),
    "Kerple": lambda: bt.Kerple(bearing.Kerple(form="logarithmic"), HEADS),
    "KerplePower": lambda: bt.Kerple(bearing.Kerple(form="power"), HEADS),
    "Fire": lambda: bt.Fire(bearing.Fire(mlp_width=7, threshold=6.3), HEADS),
    "Sandwich": lambda: bearing.SandwichBias(bearing.Sandwich(heads=HEADS, dim=16)),
    "DenseOfAll": lambda: Dense(BATCH, HEADS, Q_LEN, K_LEN),
    "DenseOfKeys": lambda: Dense(1, K_LEN),
    "Swin": lambda: bt.Swin(bearing.Swin(height=3, width=4), HEADS),
    "SwinV2": lambda: bt.SwinV2(bearing.SwinV2(window=bearing.Swin(height=3, width=4)), HEADS, 5),
    "Shaw": lambda: bt.Shaw(bearing.Shaw(clip=4), DIM, values=False),
    "Shaw, a window": lambda: bt.Shaw(bearing.Shaw(clip=4, outside="zero"), DIM, values=False),
    "Bert": lambda: bert(position_embedding_type="relative_key"),
    "BertBoth": lambda: bert(position_embedding_type="relative_key_query"),
    "Wav2Vec2Bert": lambda: bt.BertRelative(bearing.Wav2Vec2BertRelative(left=5, right=3), DIM),
    "TransformerXL": lambda: xl(direction="causal"),
    "TransformerXLBothWays": lambda: xl(direction="bidirectional", clamp_len=6),
    "Xlnet": Segments,
    "Deberta": lambda: deberta(),
    "DebertaBuckets": lambda: deberta(position_buckets=6),
    "DebertaPaper": lambda: deberta(position_buckets=6, index="paper"),
    "DebertaOne": lambda: deberta(terms="c2p"),
    "Tupe": lambda: tupe(),
    "TupeBuckets": lambda: tupe(rel_pos_bins=8),
    "TupeTied": lambda: tupe(rel_pos_bins=8, cls="tied"),
    "Sam": lambda: bt.Sam(bearing.Sam(height=3, width=4), DIM),
    "Forgetting": Gates,
    "GatedT5": gated,
    "RelativeLogits": lambda: Mixed(),
    "RelativeLogitsClipped": lambda: Mixed(clip=0.8, temperature=bearing.PositionTemperature.inkling(5, 0.6)),
    "RelativeLogitsStepped": lambda: Mixed(temperature=bearing.PositionTemperature(beta=0.6, length=5, first=0)),
    "RelativeLogitsPower": lambda: Mixed(temperature=bearing.PositionTemperature.beam(5, 0.6)),
    "T5Axis": one_axis,
    "BucketBias": buckets,
    "BucketDifference": differences,
}
POSITIONED = {"Swin": windows, "SwinV2": windows, "Sam": windows, "T5Axis": windows}


def kind_of(encoding: Any) -> str:
    """The class of the library that a case is."""
    if isinstance(encoding, bearing.Encoding):
        return type(encoding).__name__
    return json.loads(encoding.encoding().form)["kind"]


def of_description(info: ModuleInfo, spec: Any) -> Given:
    sizes = {"batch": BATCH, "heads": HEADS, "q_len": Q_LEN, "k_len": K_LEN, "dim": DIM, "rows": 5, "values": False}
    make, given = of_example(info, spec, sizes)
    return Given(make(), *given)


def made(name: str) -> tuple[Any, dict[str, Any]]:
    encoding = CASES[name]()
    encoding = shaken(encoding) if isinstance(encoding, torch.nn.Module) else encoding
    return encoding, POSITIONED.get(name, lambda: {"q_positions": 3})()


# Every other encoding of scores that depend on one query and one key, of its first example.
KNOWN = {kind_of(made(name)[0]) for name in CASES}
EXAMPLES = {kind: (name, spec) for name, kind, spec in reversed(_core._named(HEADS, DIM, K_LEN + 4))}
for one in modules():
    of = _core._traits(one.kind)
    of_pairs = of["form"] == "rows_by_index" or not (of["reads_content"] or of["whole_rows"])
    if of["scores"] and of_pairs and one.kind not in KNOWN:
        CASES[one.name] = functools.partial(of_description, one, EXAMPLES[one.kind][1])
        if on_two_axes(*EXAMPLES[one.kind], HEADS, DIM, K_LEN + 4):
            POSITIONED[one.name] = windows


def dense(mod: bt.ScoreMod, q: Tensor, k: Tensor, scale: float) -> Tensor:
    """Scores of all queries and keys: a modifier's operations take whole index tensors as well."""
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    b, h, i, j = torch.meshgrid(*map(torch.arange, (BATCH, HEADS, q.shape[2], k.shape[2])), indexing="ij")
    return mod(scale * q @ k.transpose(2, 3), b, h, i, j)


def check(name: str, kv_heads: int) -> None:
    encoding, at = made(name)
    q, k, v = heads_of(Q_LEN), heads_of(K_LEN, kv_heads), heads_of(K_LEN, kv_heads)
    tensors = [q, k, v, *(encoding.parameters() if isinstance(encoding, torch.nn.Module) else [])]

    expected = bt.attention(q, k, v, encoding, mask="none", scale=0.3, soft_cap=2.0, **at)
    mod = bt.score_mod(encoding, q=q, k=k, scale=0.3, soft_cap=2.0, **at)
    p = torch.softmax(dense(mod, q, k, 0.3), dim=-1)
    got = p @ v.repeat_interleave(HEADS // kv_heads, dim=1)

    tolerance = 1e-12  # all in float64
    torch.testing.assert_close(got, expected, rtol=0, atol=tolerance)
    weights = torch.randn_like(got)
    for a, b in zip(*(torch.autograd.grad((x * weights).sum(), tensors) for x in (got, expected)), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=10 * tolerance)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kv_heads", [HEADS, 2])
def test_a_score_modifier_gives_attentions_numbers_and_gradients(name, kv_heads):
    check(name, kv_heads)


@pytest.mark.parametrize("name", CASES)
def test_forms_alone_give_them_too(name, monkeypatch):
    """As an encoding has it that nobody wrote a formula for."""
    monkeypatch.setattr(bt.flex, "scores", dict)
    check(name, HEADS)


@pytest.mark.parametrize("name", CASES)
def test_flex_attention_takes_it(name):
    encoding, at = made(name)
    if isinstance(encoding, torch.nn.Module):
        encoding = encoding.float()
    q, k, v = (x.detach().float() for x in (heads_of(Q_LEN), heads_of(K_LEN), heads_of(K_LEN)))
    if isinstance(encoding, Gates | Mixed):
        encoding.x = encoding.x.float()
    if isinstance(encoding, Given):
        encoding.given = tuple(x.float() if x is not None and x.is_floating_point() else x for x in encoding.given)
    with torch.no_grad():
        expected = bt.attention(q, k, v, encoding, mask="none", **at)
        got = flex_attention(q, k, v, score_mod=bt.score_mod(encoding, q=q, k=k, **at))
    # Two orders of summing a dozen float32 products and exponentials of scores below 16: 16 * 2^-24 relative, each.
    torch.testing.assert_close(got, expected, rtol=0, atol=2e-5)


def test_positions_are_tensors_as_attention_has_them():
    bias = bt.Kerple(bearing.Kerple(form="logarithmic"), HEADS)
    q, k = heads_of(Q_LEN).detach().float(), heads_of(K_LEN).detach().float()
    q_positions = torch.randint(30, (BATCH, Q_LEN))
    k_positions = torch.randint(30, (K_LEN,))
    with torch.no_grad():
        expected = bt.attention(q, k, k, bias, mask="none", q_positions=q_positions, k_positions=k_positions)
        got = flex_attention(q, k, k, score_mod=bt.score_mod(bias, q_positions=q_positions, k_positions=k_positions))
    torch.testing.assert_close(got, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("make", [list, tuple, range, np.array, torch.tensor], ids=lambda one: one.__name__)
def test_positions_may_be_what_attention_takes(make):
    q, k, _ = (torch.randn(1, HEADS, 6, DIM) for _ in range(3))
    bias, at = bt.Alibi(HEADS), range(3, 9)
    given = at if make is range else make(list(at))
    own = bt.score_mod(bias, q=q, k=k, q_positions=given, k_positions=given)
    first = np.int64(3)
    for wanted in (
        bt.score_mod(bias, q=q, k=k, q_positions=3, k_positions=3),
        bt.score_mod(bias, q=q, k=k, q_positions=first, k_positions=torch.tensor(3)),
    ):
        zero, b, h, i, j = torch.zeros(()), *map(torch.tensor, (0, 1, 2, 5))
        assert torch.equal(own(zero, b, h, i, j), wanted(zero, b, h, i, j))


def test_several_encodings_add_up_under_a_mask_of_blocks():
    encodings = [bt.Alibi(HEADS), bt.T5Bias(bearing.T5(**T5, direction="causal"), HEADS, 4)]
    q, k = heads_of(K_LEN).detach().float(), heads_of(K_LEN).detach().float()
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, K_LEN, K_LEN, device="cpu")
    with torch.no_grad():
        expected = bt.attention(q, k, k, encodings, mask="causal")
        got = flex_attention(q, k, k, score_mod=bt.score_mod(encodings), block_mask=mask)
    torch.testing.assert_close(got, expected, rtol=0, atol=2e-5)


def test_it_compiles():
    bias = bt.T5Bias(bearing.T5(**T5, direction="bidirectional"), HEADS, 4)
    alibi = bt.Alibi(HEADS)
    q = torch.randn(1, HEADS, 64, 16)
    mod = bt.score_mod(
        [bt.Encoding(e.form, tuple(t.detach() for t in e.tensors)) for e in (bias.encoding(), alibi.encoding())]
    )
    got = torch.compile(flex_attention, fullgraph=True)(q, q, q, score_mod=mod)
    expected = bt.attention(q, q, q, [bias, alibi], mask="none")
    torch.testing.assert_close(got, expected, rtol=0, atol=2e-5)


def test_t5s_buckets_are_whole_numbers_and_right():
    for direction in ("bidirectional", "causal"):
        spec = bearing.T5(buckets=32, max_distance=128, direction=direction)
        table = torch.arange(32.0)[:, None]
        mod = bt.score_mod(bearing.T5Bias(spec, table), k_positions=torch.arange(-300, 301))
        zero = torch.tensor(0)
        got = mod(torch.zeros(601), zero, zero, zero, torch.arange(601))
        assert got.tolist() == [bearing.t5_bucket(spec, d) for d in range(-300, 301)]


@pytest.mark.parametrize(
    ("encoding", "error", "text"),
    [
        (lambda: bt.Rope(bearing.Rope(head_dim=DIM, pairing="half")), ValueError, "RotaryRows: turn q and k before"),
        (lambda: bt.Cope(bearing.Cope(max_pos=4), DIM), ValueError, "got CopeTerm"),
        (lambda: bt.Shaw(bearing.Shaw(clip=4), DIM), ValueError, "scores alone, got Shaw with a table of values"),
        (lambda: bt.Shaw(bearing.Shaw(clip=4), DIM, values=False), TypeError, "q: must be given, as Shaw looks at it"),
        (lambda: bearing.SandwichBias(bearing.Sandwich(heads=2, dim=4)), TypeError, "longest"),
    ],
)
def test_what_is_no_score_modifier_is_refused_by_name(encoding, error, text):
    with pytest.raises(error, match=text):
        bt.score_mod(encoding())


@pytest.mark.parametrize(
    "encoding",
    [
        bearing.AlibiBias(bearing.Alibi.published(HEADS)),
        bearing.AlibiShiftedBias(bearing.Alibi.published(HEADS)),
        bearing.SandwichBias(bearing.Sandwich(heads=HEADS, dim=4)),
    ],
    ids=lambda encoding: type(encoding).__name__,
)
def test_numbers_lie_where_the_call_does(encoding):
    """On the meta device, which like a GPU takes no tensor of the CPU along."""
    q = torch.empty(1, HEADS, TIME, DIM, device="meta")
    index = torch.empty((1,), dtype=torch.long, device="meta")
    for mod in (bt.score_mod(encoding, q=q, k=q), bt.score_mod(encoding, longest=TIME, device="meta")):
        assert mod(torch.empty((TIME,), device="meta"), index, index, index, index).device.type == "meta"


@pytest.mark.parametrize(
    "name", [*"T5 Alibi Kerple Fire Shaw Bert TransformerXL DebertaBuckets TupeBuckets".split(), "Shaw, a window"]
)
def test_parameters_stay_where_they_lie(name):
    """No number of a learned parameter is asked for when the modifier is made: on a GPU, nothing waits for it."""
    q = torch.empty(1, HEADS, TIME, DIM, device="meta")
    index = torch.empty((1,), dtype=torch.long, device="meta")
    mod = bt.score_mod(CASES[name]().to("meta"), q=q, k=q)
    assert mod(torch.empty((TIME,), device="meta"), index, index, index, index).device.type == "meta"


def test_parts_of_parameters_are_told_by_where_they_lie():
    """Whatever memory arrays get: whole numbers lie beside the numbers of parameters."""
    for i in range(300):
        heads, dim = 1 + i % 5, 4 + i % 9
        vectors = torch.empty(2, heads, dim), torch.empty(heads, dim)
        segments = torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, 4, dtype=torch.int64)
        (one,) = _core._rows_by_index(bearing.XlnetSegmentTerm(*vectors, *segments))
        assert one["table"] == ("seg_embed", 0, (heads, 2, dim), (dim, heads * dim, 1))
        assert [one[part][0] for part in ("shift", "q_segments", "k_segments")] == ["r_s", "q_segments", "k_segments"]


def too_short() -> bt.TransformerXL:
    spec = bearing.TransformerXL(first_offset=-1, direction="bidirectional")
    return bt.TransformerXL(spec, HEADS, DIM, D_MODEL, offsets=7)


@pytest.mark.parametrize(
    ("make", "at"),
    [
        (too_short, {}),
        (too_short, {"k_positions": torch.tensor([[0, 1, 2, 3, 4], [0, 1, 2, 3, 9]])}),
        (lambda: bt.BertRelative(bearing.BertRelative(max_position_embeddings=4), DIM), {}),
        (
            lambda: bt.Sam(bearing.Sam(height=2, width=2), DIM),
            {"q_positions": bt.window_positions(1, 5), "k_positions": bt.window_positions(1, 5)},
        ),
    ],
)
def test_positions_without_a_row_are_refused_as_add_scores_refuses_them(make, at):
    module, rows = make(), torch.randn(BATCH, HEADS, 5, DIM)
    with pytest.raises(bearing.RangeError) as expected:
        bt.add_scores(module, torch.zeros(BATCH, HEADS, 5, 5), q=rows, k=rows, **at)
    with pytest.raises(bearing.RangeError) as got:
        bt.score_mod(module, q=rows, k=rows, **at)
    ends = [str(error.value).split("] ", 1)[1].split(", got")[0] for error in (got, expected)]
    assert ends[0] == ends[1] and str(got.value).startswith("[score_mod] ")


def test_rows_are_not_picked_by_real_positions():
    shaw, rows = bt.Shaw(bearing.Shaw(clip=2), DIM, values=False), torch.randn(BATCH, HEADS, 5, DIM)
    with pytest.raises(TypeError, match=r"^\[score_mod\] q_positions, k_positions: .* as Shaw picks rows by them$"):
        bt.score_mod(shaw, q=rows, k=rows, q_positions=torch.arange(5.0))
    segments = torch.zeros(BATCH, 5, dtype=torch.long)
    given = bt.XlnetSegments(HEADS, DIM).encoding(segments, segments)
    bt.score_mod(given, q=rows, k=rows, q_positions=torch.arange(5.0))  # which looks at no position


def test_distances_beyond_a_table_do_not_wrap():
    zero, far = torch.tensor(0), torch.tensor([-9, -4, -3, 3, 4, 9])
    sandwich = bearing.SandwichBias(bearing.Sandwich(heads=HEADS, dim=16))
    mod = bt.score_mod(sandwich, longest=3, q_positions=9, k_positions=9)
    got = mod(torch.zeros(6), zero, zero, zero, far)
    assert got.isnan().tolist() == [True, True, False, False, True, True]
    t5 = bearing.T5Bias(bearing.T5(**T5, direction="bidirectional"), torch.arange(8.0)[:, None])
    got = bt.score_mod(t5, longest=3)(torch.zeros(6), zero, zero, zero, far)
    assert got[:2].tolist() == [got[2]] * 2 and got[4:].tolist() == [got[3]] * 2
