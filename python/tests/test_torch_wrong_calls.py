"""Every argument of bearing.torch's functions as something that it must not be: an error of bearing's own, which names the
function and the argument, with gradients and without."""

from __future__ import annotations

import math
from typing import Any

import bearing
import bearing.torch as bt
import numpy as np
import pytest
import torch

HEADS, TIME, DIM = 4, 6, 8
ROPE = bt.Rope(bearing.Rope(head_dim=DIM, pairing="half"))
DYNAMIC = ROPE.spec.replace(scaling=bearing.DynamicNtkScaling(factor=2, trained_length=8))
T5 = bt.T5Bias(bearing.T5(buckets=8, max_distance=16, direction="causal"), HEADS)
LEARNED = bt.LearnedPositions(bearing.Learned(length=9, dim=DIM))
POPE = bt.Pope(bearing.Pope(head_dim=DIM), HEADS)
SHAW = bt.Shaw(bearing.Shaw(clip=3), DIM)


def rows(*more: int, wanted: bool) -> torch.Tensor:
    return torch.randn(2, HEADS, TIME, *more, requires_grad=wanted)


def calls(wanted: bool) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Right calls, with every argument by its name."""
    q = rows(DIM, wanted=wanted)
    at = {"q_positions": torch.arange(TIME), "k_positions": 0}
    masks = {"k_lengths": torch.tensor([3, 4]), "key_mask": torch.ones(2, TIME, dtype=torch.bool)}
    options = {"mask": "causal", "window": (3, -1), "scale": 0.3, "soft_cap": 1.0, "out_dtype": torch.float32}
    given = {"q": q, "k": q, "v": q}
    return {
        "attention": (bt.attention, given | {"encodings": T5, "sinks": torch.zeros(HEADS)} | at | masks | options),
        "linear_attention": (
            bt.linear_attention,
            given
            | at
            | {"mask": "causal", "feature_map": "relu", "normaliser": "sum", "epsilon": 0.1, "layout": "bhtd"},
        ),
        "rotate": (
            lambda x, **rest: bt.rotate(x, **rest),
            {"x": q, "rope": ROPE, "positions": torch.arange(TIME), "layout": "bhtd"},
        ),
        "rotate_": (
            lambda x, **rest: bt.rotate_(x, **rest),
            {"x": q * 1, "rope": ROPE, "positions": torch.arange(TIME), "layout": "bhtd"},
        ),
        "merge": (
            bt.merge,
            {"part": q, "part_lse": rows(wanted=wanted), "out": rows(DIM, wanted=wanted), "lse": rows(wanted=False)},
        ),
        "turn": (bt.turn, {"encoding": POPE, "x": q, "positions": 3, "side": "key", "layout": "bhtd"}),
        "add": (bt.add, {"encoding": LEARNED, "x": torch.randn(2, TIME, DIM), "positions": 2}),
        "add_": (bt.add_, {"encoding": LEARNED, "x": torch.randn(2, TIME, DIM), "positions": 2}),
        "bias_matrix": (
            bt.bias_matrix,
            {"encodings": T5, "heads": HEADS, "q_len": 4, "k_len": 5, "dtype": torch.float32},
        ),
        "add_scores": (
            bt.add_scores,
            {"encodings": SHAW, "scores": rows(TIME, wanted=wanted), "q": q, "k": q, "scale": 1.0, "layout": "bhtd"}
            | at,
        ),
        "add_values": (
            bt.add_values,
            {"encodings": SHAW, "p": rows(TIME, wanted=wanted), "out": q, "layout": "bhtd"} | at,
        ),
        "score_mod": (bt.score_mod, {"encodings": T5, "q": q, "k": q, "scale": 1.0, "soft_cap": 1.0} | at),
    }


WRONG = [
    object(), "x", 2**70, [1, "x"], math.nan, torch.zeros(7), torch.zeros(2, 3).to_sparse(), b"x", torch.zeros(2, 3, dtype=torch.int32),
    bearing.AlibiBias(slopes=torch.ones(3)),
]  # fmt: skip


@pytest.mark.parametrize("wanted", [True, False], ids=["with gradients", "without"])
@pytest.mark.parametrize("name", calls(False))
def test_a_wrong_argument_is_named(name, wanted):
    torch.manual_seed(1)
    with torch.set_grad_enabled(wanted):
        call, right = calls(wanted)[name]
        call(**right)
        for argument in right:
            refused = 0
            for wrong in WRONG:
                try:
                    call(**(right | {argument: wrong}))
                except (TypeError, ValueError) as error:
                    assert str(error).startswith(f"[{name}] "), (argument, wrong, error)
                    refused += 1
            assert refused >= 4, argument


def normed(q, **rest):
    return bt.norm_rotate(q, q[0, 0, 0], rope=ROPE, eps=1e-6, **rest)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (
            lambda q: bt.rotate(q, rope=ROPE, layout=None),
            r"\[rotate\] layout: must be (a word|one of 'bhtd', 'bthd'), got None",
        ),
        (lambda q: bt.rotate(q, rope="x"), r"\[rotate\] rope: must be a bearing.torch.Rope, .* got 'x'"),
        (lambda q: bt.rotate(q, rope=ROPE, positions="x"), r"\[rotate\] positions: must be a tensor, an int or None"),
        (lambda q: bt.attention(q, q, q, mask="none", scale="x"), r"\[attention\] scale: must be (a number|float)"),
        (
            lambda q: bt.attention(q, q, q, mask="none", q_positions=2**70),
            r"\[attention\] q_positions: must be a whole",
        ),
        (
            lambda q: bt.attention(q, q, q, mask="none", visible=[1, "x"]),
            r"\[attention\] visible: must be numbers with one length along each axis, got \[1, 'x'\]",
        ),
        (
            lambda q: bt.attention(q, q, q, mask="none", k_lengths=np.array([4], ">i4")),
            r"\[attention\] k_lengths: must be of a type that PyTorch has, which >i4 is not, got array",
        ),
        (
            lambda q: bt.attention(q, q, q, mask="none", key_mask="x"),
            r"\[attention\] key_mask: must be a tensor, a list or an array, got .*str",
        ),
        (
            lambda q: bt.attention(q, q, q, mask="none", k_lengths=3),
            r"\[attention\] k_lengths: must be a tensor, a list or an array, got .*int",
        ),
        (
            lambda q: bt.attention(q, q, q, mask="none", q_positions=3.0),
            r"\[attention\] q_positions: must be a tensor, an int or None, got 3.0: places between tokens are a tensor",
        ),
        (
            lambda q: bt.attention(q, q.to(torch.float8_e4m3fn), q, mask="none"),
            r"\[attention\] k: must be of the type of q, .* got torch.float8_e4m3fn: widen what the call reads",
        ),
        (
            lambda q: bt.attention(*[q.to(torch.float8_e4m3fn)] * 3, mask="none"),
            r"\[attention\] q: must be an array of float64, .* got torch.float8_e4m3fn",
        ),
        (lambda q: bt.plan(q, q, q, mask="causal", window=3), r"\[plan\] window: must be \(before, after\), got 3"),
        (
            lambda q: bt.plan(q, q, q, mask="causal", window=(-2, 3)),
            r"\[plan\] window: must be whole numbers from 0 on, or -1 for no limit, got \(-2, 3\)",
        ),
        (lambda q: bt.plan(q, q, q, mask="all"), r"\[plan\] mask: must be one of 'none', .* got 'all'"),
        (
            lambda q: bt.attention(q, q, q, mask="none", q_starts=[0, TIME]),
            r"\[attention\] k_starts: must be given together with q_starts \[2\], got none",
        ),
        (
            lambda q: bt.attention(*[q.detach()[:1]] * 3, mask="none", block_table=[[0], [1]], k_lengths=[1]),
            r"\[attention\] block_table: must be .* got \[2, 1\]: packed sequences share one row, of all their blocks",
        ),
        (
            lambda q: bt.attention(q, q, q, mask="none", band="x"),
            r"\[attention\] band: must be JSON of a DistanceBand",
        ),
        (
            lambda q: bt.attention(q, q, q, bt.Rope, mask="none"),
            r"\[attention\] encodings: must be modules .* got <class",
        ),
        (lambda q: bt.rotate(rope=ROPE), r"\[rotate\] xs: must be one tensor or more, got none"),
        (lambda q: normed(q, k=q), r"\[norm_rotate\] k_weight: must be given beside k, got None"),
        (lambda q: normed(q, k_weight=q[0, 0, 0]), r"\[norm_rotate\] k: must be given beside k_weight, got None"),
        (
            lambda q: normed(q, k=q[:, :1, :3], k_weight=q[0, 0, 0]),
            r"\[norm_rotate\] k: must have the axes, batch, time and head_dim of x, \[2, .*, got \[2, 1, 3, ",
        ),
        (
            lambda q: normed(q, k=q.double(), k_weight=q[0, 0, 0]),
            r"\[norm_rotate\] k: must be torch.float32 on cpu, as x is, got torch.float64 on cpu",
        ),
        (
            lambda q: normed(q, k=q, k_weight=q[0, 0, 0, :2]),
            r"\[norm_rotate\] k_weight: must be \[\d+\] on cpu, got \[2\] on cpu",
        ),
        (lambda q: normed(q, k=q, k_weight=1), r"\[norm_rotate\] .*tensor"),
        (
            lambda q: normed(q, k=q, k_weight=q[0, 0, 0], layout="x"),
            r"\[norm_rotate\] layout: must be one of",
        ),
        (lambda q: bt.turn(POPE, q, side=1), r"\[turn\] side: must be a word, got 1"),
        (lambda q: bt.bias_matrix(T5, heads=None, q_len=1, k_len=1), r"\[bias_matrix\] heads: must be a whole number"),
        (
            lambda q: bt.add_scores(SHAW, q[..., :6].to_sparse(), q=q, k=q),
            r"scores: must be a dense tensor, got a tensor of",
        ),
        (lambda q: bt.score_mod(T5, q_positions=1.5), r"\[score_mod\] q_positions: must be a tensor, an int or None"),
        (lambda q: bt.score_mod(T5, q_positions=True), r"\[score_mod\] q_positions: must be a tensor, an int or None"),
        (
            lambda q: bt.score_mod(T5, q_positions=torch.ones(4, dtype=torch.bool)),
            r"\[score_mod\] q_positions: must be integers, float64 or float32, got torch.bool",
        ),
        (
            lambda q: bt.score_mod(T5, q=q, k_positions=torch.tensor(1.5)),
            r"\[score_mod\] k_positions: must be None, an int, or a tensor \[time\]",
        ),
        (
            lambda q: bt.score_mod(T5, q=q, q_positions=[0, 1]),
            r"\[score_mod\] q_positions: must be of 6 tokens, for 1 or 2 sequences, got shape \[2\]",
        ),
        (lambda q: bt.score_mod(T5, soft_cap=-1.0), r"\[score_mod\] soft_cap: must be positive, or 0 for none, got -1"),
        (lambda q: bt.score_mod(T5, soft_cap=math.nan), r"\[score_mod\] soft_cap: must be positive, .* got nan"),
        (lambda q: bt.score_mod(T5, scale=math.inf), r"\[score_mod\] scale: must be finite, got inf"),
        (lambda q: bt.score_mod(T5, scale=True), r"\[score_mod\] scale: must be a number, got True"),
        (lambda q: bt.score_mod(T5, longest=2.5), r"\[score_mod\] longest: must be a whole number from 0 on, got 2.5"),
        (lambda q: bt.plan(q, q, q), r"missing 1 required keyword-only argument: 'mask'"),
        (lambda q: bt.plan(q, q, q, mask="none", masks=1), r"\[plan\] has no argument masks; .* key_mask"),
        (
            lambda q: bt.plan(q, q, q, mask="none", layout="hbtd"),
            r"\[plan\] layout: must be one of 'bhtd', 'bthd', got",
        ),
        (lambda q: bt.plan(q, q, q, mask="none", soft_cap="x"), r"\[plan\] soft_cap: must be a number, got 'x'"),
        (lambda q: bt.plan(q, q, q, mask="none", scale=math.nan), r"\[plan\] scale: must be finite, got nan"),
        (lambda q: bt.rotate(q, rope=ROPE, positions=True), r"\[rotate\] positions: must be a tensor, an int or None"),
    ],
)
@pytest.mark.parametrize("wanted", [True, False], ids=["with gradients", "without"])
def test_the_callers_word_is_used(wrong, text, wanted):
    with pytest.raises((TypeError, ValueError), match=text):
        wrong(torch.randn(2, HEADS, TIME, DIM, requires_grad=wanted))


@pytest.mark.parametrize("window", [(-2, 0), (0, -100), (-1, -2)])
def test_a_window_of_less_than_no_limit_is_refused(window):
    q = rows(DIM, wanted=False)
    with pytest.raises(
        bearing.RangeError, match=r"\[attention\] window: must be whole numbers from 0 on, or -1 for no"
    ):
        bt.attention(q, q, q, mask="none", window=window)
    with pytest.raises(
        bearing.RangeError, match=r"\[Attention\] window: must be whole numbers from 0 on, or -1 for no"
    ):
        bt.Attention(mask="none", window=window)
    with pytest.raises(
        bearing.RangeError, match=r"\[attention\] window: must be whole numbers from 0 on, or -1 for no"
    ):
        bearing.attention(q.numpy(), q.numpy(), q.numpy(), mask="none", window=window)


KERPLE, SHAW_SPEC = bearing.Kerple(form="power"), bearing.Shaw(clip=2)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: bt.Described("KerpleBias", KERPLE, head=4), "has no size named 'head'; it has batch, dim, heads, "),
        (lambda: bt.Described("ShawTerm", SHAW_SPEC, dim=4, without=["val"]), "parameter named 'val'; it has key, val"),
        (
            lambda: bt.Described("KerpleBias", KERPLE, heads=4, settings={"group": 2}),
            "setting named 'group'; it has none",
        ),
        (
            lambda: bt.Described("T5Bias", bearing.T5(direction="causal"), heads=4, start={"model": 2.0}),
            "number of a start named 'model'; it has d_model",
        ),
    ],
)
def test_a_name_that_an_encoding_does_not_have_is_refused(make, text):
    with pytest.raises(TypeError, match=r"^\[(KerpleBias|ShawTerm|T5Bias)\] has no .*") as error:
        make()
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: bt.Deberta(KERPLE, HEADS, DIM, 16), "[Deberta] spec: must be Deberta, got Kerple("),
        (lambda: bt.Fire(KERPLE, HEADS), "[Fire] spec: must be Fire, got Kerple("),
        (lambda: bt.SwinV2(bearing.Swin(height=2, width=2), HEADS), "[SwinV2] spec: must be SwinV2, got Swin("),
        (
            lambda: bt.TransformerXL(KERPLE, HEADS, DIM, 16, 4),
            "[TransformerXL] spec: must be TransformerXL, got Kerple(",
        ),
        (lambda: bt.Tupe(None, HEADS, DIM, 16, 4), "[Tupe] spec: must be Tupe, got None"),
        (lambda: bt.Kerple(SHAW_SPEC, HEADS), "[Kerple] spec: must be Kerple, got Shaw("),
    ],
)
def test_another_encodings_spec_is_refused_by_name(make, text):
    with pytest.raises(TypeError) as error:
        make()
    assert str(error.value).startswith(text)


LAYERS = {
    "Attention": lambda **options: bt.Attention(**options),
    "MultiHeadAttention": lambda **options: bt.MultiHeadAttention(16, 2, **options),
}


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"mask": "sideways"},
            "mask: must be one of 'none', 'causal', 'causal_top_left', 'causal_bottom_right', got 'sideways'",
        ),
        ({"window": 3}, "window: must be (before, after), got 3"),
        ({"scale": "large"}, "scale: must be a number, got 'large'"),
        ({"soft_cap": None}, "soft_cap: must be a number, got None"),
        ({"soft_cap": -1.0}, "soft_cap: must be positive, or 0 for none, got -1.0"),
        ({"sinks": -1}, "sinks: must be how many heads learn one, a whole number from 0 on, got -1"),
        ({"sinks": 2.5}, "sinks: must be how many heads learn one, a whole number from 0 on, got 2.5"),
        ({"scale": math.nan}, "scale: must be finite, got nan"),
        ({"scale": True}, "scale: must be a number, got True"),
        ({"regions": "dca"}, "regions: must be JSON of a spec's or regions' to_dict() as a text, got 'dca'"),
        ({"regions": 3}, "regions: must be "),
        ({"encodings": 3}, "encodings: must be modules of bearing.torch or encodings of bearing"),
    ],
)
def test_a_layer_refuses_wrong_options_by_its_own_name_when_it_is_made(layer, options, text):
    with pytest.raises((TypeError, ValueError)) as error:
        LAYERS[layer](**({"mask": "causal"} | options))
    assert str(error.value).startswith(f"[{layer}] {text}")


def test_a_layer_says_which_options_it_takes():
    for layout in ("hbtd", np.ones(3)):
        with pytest.raises(
            ValueError, match=r"^\[Attention\] layout: must be one of 'bhtd', 'bthd', got ('hbtd'|array)"
        ):
            bt.Attention(mask="causal", layout=layout)
    with pytest.raises(
        TypeError, match=r"^\[MultiHeadAttention\] has no argument layout; beside mask it takes window,"
    ):
        bt.MultiHeadAttention(16, 2, mask="causal", layout="bthd")


def test_lists_and_arrays_are_taken_for_tensors():
    q = rows(DIM, wanted=False)
    seen = np.tril(np.ones((TIME, TIME), bool))
    for given in (
        {"k_lengths": [3, 4]},
        {"k_lengths": np.array([3, 4])},
        {"key_mask": [[True] * 4 + [False] * 2] * 2},
        {"visible": seen},
        {"q_starts": [0, 2, TIME], "k_starts": np.array([0, 3, TIME])},
    ):
        as_tensors = {name: torch.as_tensor(x) for name, x in given.items()}
        wanted = bt.attention(q, q, q, mask="none", **as_tensors)
        assert torch.equal(bt.attention(q, q, q, mask="none", **given), wanted)
    paged = dict(mask="none", block_table=[[1], [0]], k_lengths=[3, 4])
    wanted = bt.attention(q, q.flip(0), q.flip(0), mask="none", k_lengths=[3, 4])
    assert torch.equal(bt.attention(q, q, q, **paged), wanted)


@pytest.mark.filterwarnings("error")
def test_arrays_are_copied():
    q, bias = rows(DIM, wanted=True), bt.Alibi(HEADS)
    seen, at = np.tril(np.ones((TIME, TIME), bool)), np.arange(TIME)

    out, wanted = (
        bt.attention(q, q, q, bias, mask="none", visible=one(seen), q_positions=one(at))
        for one in (lambda x: x, torch.tensor)
    )
    seen[:], at[:] = True, 0
    grads = (torch.autograd.grad(x.square().sum(), q)[0] for x in (out, wanted))
    assert torch.equal(*grads)
    mask = np.tile(np.arange(TIME) < 4, (2, 1))
    backwards = np.ascontiguousarray(mask[:, ::-1])
    mask.flags.writeable = False
    for given, same in ((mask, torch.tensor(mask.tolist())), (backwards[:, ::-1], torch.tensor(mask.tolist()))):
        assert torch.equal(
            bt.attention(q, q, q, mask="none", key_mask=given), bt.attention(q, q, q, mask="none", key_mask=same)
        )
    cache = torch.randn(4, 2, 4, DIM)
    moved = cache.clone()
    bt.shift(ROPE, 3, cache, slots=torch.tensor([[2, 1], [4, 3]]))
    bt.shift(ROPE, 3, moved, slots=np.array([[1, 2], [3, 4]])[:, ::-1])
    assert torch.equal(moved, cache)


def test_an_empty_list_is_of_whole_numbers():
    q = rows(DIM, wanted=False)[:0]
    assert bt.attention(q, q, q, mask="none", k_lengths=[]).shape == q.shape


def test_what_no_text_and_no_number_of_processes_may_be():
    q = rows(DIM, wanted=False)
    with pytest.raises(ValueError, match=r"\[attention\] regions: must be JSON .* got 'dca'"):
        bt.attention(q, q, q, mask="none", regions="dca")
    with pytest.raises(ValueError, match=r"\[shard_positions\] world: must be a whole number from 1 on, got 0"):
        bt.shard_positions(16, 0, 2)


@pytest.mark.parametrize(
    ("given", "named", "text"),
    [
        ((16,), {}, r"\[Rope\] rope: must be a bearing.Rope, got 16"),
        ((bearing.RopeTable(ROPE.spec, 4),), {}, r"\[Rope\] rope: must be a bearing.Rope, got "),
        ((ROPE.spec, "a"), {}, r"\[Rope\] length: must be a whole number from 0 on, got 'a'"),
        ((ROPE.spec, -1), {}, r"\[Rope\] length: must be a whole number from 0 on, got -1"),
        ((ROPE.spec,), {"seq_len": 2.5}, r"\[Rope\] seq_len: must be a whole number from 0 on, got 2.5"),
        ((ROPE.spec,), {"angles": "float"}, r"\[Rope\] angles: must be one of 'exact', .* got 'float'"),
        ((DYNAMIC,), {}, r"\[Rope\] seq_len: must be given, as the frequencies of dynamic depend on how long"),
        ((DYNAMIC, 16), {"seq_len": 0}, r"\[Rope\] seq_len: must be given, as the frequencies of dynamic depend"),
        ((ROPE.spec.replace(base=0),), {}, r"\[Rope\] base: must be finite and above 0, got 0"),
        ((ROPE.spec.replace(base=math.nan),), {}, r"\[Rope\] base: must be finite and above 0, got nan"),
        (
            (ROPE.spec.replace(rotary_dim=64),),
            {},
            r"\[Rope\] rotary_dim: must be even and from 2 to head_dim = \d+, got 64",
        ),
    ],
)
def test_a_rotary_module_says_what_it_is_made_of(given, named, text):
    with pytest.raises((TypeError, ValueError), match=text):
        bt.Rope(*given, **named)


SPEC = bearing.T5(direction="causal")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"scale": "a"}, r"\[MultiHeadAttention\] scale: must be a number, got 'a'"),
        ({"soft_cap": -1}, r"\[MultiHeadAttention\] soft_cap: must be positive, or 0 for none, got -1"),
        ({"soft_cap": math.nan}, r"\[MultiHeadAttention\] soft_cap: must be positive, or 0 for none, got nan"),
        ({"sinks": True}, r"\[MultiHeadAttention\] sinks: must be how many heads learn one, .* got True"),
        ({"sinks": 2.5}, r"\[MultiHeadAttention\] sinks: must be how many heads learn one, .* got 2.5"),
        ({"sinks": -1}, r"\[MultiHeadAttention\] sinks: must be how many heads learn one, .* got -1"),
        ({"dropout": 0.1}, r"\[MultiHeadAttention\] has no argument dropout; .* takes .* regions"),
        ({"encodings": bt.T5Bias(SPEC, 8)}, r"\[MultiHeadAttention\] encodings: must be for 4 heads, got T5Bias of 8"),
        ({"encodings": SPEC}, r"\[MultiHeadAttention\] encodings: .* numbers yet: bearing.torch.T5Bias\(spec, heads\)"),
    ],
)
def test_a_layer_says_at_once_what_it_is_not_made_of(options, text):
    with pytest.raises((TypeError, ValueError), match=text):
        bt.MultiHeadAttention(64, 4, mask="causal", **options)


@pytest.mark.parametrize("shape", [(TIME, 64), (1, TIME, 32), (1, 2, TIME, 64)])
def test_a_layer_names_the_axes_of_its_input(shape):
    layer, x = bt.MultiHeadAttention(64, 4, mask="causal"), torch.zeros(1, TIME, 64)
    text = r"must be \[batch, time, d_model = 64\], got \["
    with pytest.raises(bearing.ShapeError, match=r"\[MultiHeadAttention\] x: " + text):
        layer(torch.zeros(shape))
    with pytest.raises(bearing.ShapeError, match=r"\[MultiHeadAttention\] context: " + text):
        layer(x, torch.zeros(shape))


@pytest.mark.parametrize("size", [4.0, "8", -1, 0, True, 2**70])
def test_a_size_that_is_none_is_named(size):
    for make, name in (
        (lambda: bt.T5Bias(bearing.T5(direction="causal"), size), r"\[T5Bias\] heads"),
        (lambda: bt.Alibi(size), r"\[Alibi\] heads"),
        (lambda: bt.Shaw(bearing.Shaw(clip=3), size), r"\[Shaw\] dim"),
    ):
        with pytest.raises(
            (TypeError, ValueError, IndexError), match=name + ": must be a whole number from 1 on, got "
        ):
            make()
    if size != 2**70:
        wanted = TypeError if isinstance(size, (bool, float, str)) else ValueError
        with pytest.raises(wanted, match=r"\[MultiHeadAttention\] heads: must be a whole number from 1 on, got "):
            bt.MultiHeadAttention(64, size, mask="causal")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: bt.Fire(bearing.Fire(), "4"), "[Fire] heads: must be a whole number from 1 on, got '4'"),
        (lambda: bt.Forgetting(4, -1), "[Forgetting] d_model: must be a whole number from 1 on, got -1"),
        (lambda: bt.GatedDecay(4, 8, 16, rank=None), "[GatedDecay] rank: must be a whole number from 1 on, got None"),
        (
            lambda: bt.RelativeLogits(bearing.RelativeLogits(extent=7), 4, 2.5),
            "[RelativeLogits] d_model: must be a whole number from 1 on, got 2.5",
        ),
        (
            lambda: bt.TransformerXL(bearing.TransformerXL(), 4, 8, 16, 0),
            "[TransformerXL] offsets: must be a whole number from 1 on, got 0",
        ),
        (lambda: bt.Deberta(bearing.Deberta(), 4, "8", 16), "[Deberta] dim: must be a whole number from 1 on, got '8'"),
        (lambda: bt.Tupe(bearing.Tupe(), 4, 8, 16, -2), "[Tupe] length: must be a whole number from 1 on, got -2"),
        (
            lambda: bt.SwinV2(bearing.SwinV2(window=bearing.Swin(height=2, width=2)), 4, 0),
            "[SwinV2] hidden: must be a whole number from 1 on, got 0",
        ),
        (lambda: bt.Alibi(4, "sideways"), "[Alibi] form: must be one of 'symmetric', 'causal', got 'sideways'"),
        (
            lambda: bt.AngleRows(bearing.GivenAngles(head_dim=4, pairing="half"), past="x"),
            "[AngleRows] past: must be int, got 'x'",
        ),
        (lambda: bt.T5Bias(bearing.T5(direction="causal"), 4, "x"), "[T5Bias] d_model: must be a number, got 'x'"),
        (
            lambda: bt.RopeMixed(bearing.RopeMixed(head_dim=8, pairing="half"), 4, base=-1.0),
            "[RopeMixed] base: must be finite and above 0, got -1",
        ),
        (lambda: bt.Described("Nothing"), "[Described] kind: must be an encoding, got Nothing"),
        (lambda: bt.LeRope("rope"), "[LeRope] rope: must be a bearing.Rope, got 'rope'"),
        (lambda: bt.LeRope(ROPE.spec, seq_len="x"), "[LeRope] seq_len: must be int, got 'x'"),
        (
            lambda: bt.Xpos(bearing.Xpos(rope=ROPE.spec), "x"),
            "[Xpos] length: must be a whole number from 0 on, got 'x'",
        ),
    ],
)
def test_a_module_refuses_what_it_cannot_be_made_of_by_its_own_name(make, text):
    with pytest.raises((TypeError, ValueError)) as error:
        make()
    assert str(error.value) == text


def test_a_rotary_module_of_frequencies_that_depend_on_the_length_is_told_it():
    q = rows(DIM, wanted=False)
    same = bearing.rotate_to(bearing.RopeTable(DYNAMIC, TIME, seq_len=16), q.numpy())
    assert np.array_equal(bt.rotate(q, rope=bt.Rope(DYNAMIC, seq_len=16)).numpy(), same)


def test_a_size_may_be_a_number_of_numpy():
    two = np.int64(2)
    assert bt.Alibi(2 * two).slopes.shape == (4,)
    assert bt.Rope(ROPE.spec, two).table == bt.Rope(ROPE.spec, 2).table
    layer = bt.MultiHeadAttention(8 * two, two, mask="causal", kv_heads=two, head_dim=two, sinks=two)
    assert layer.q.weight.shape == (4, 16) and layer.attention.sinks.shape == (2,)
    assert torch.equal(bt.shard_positions(4 * two, two, np.int64(1)), torch.arange(4, 8))
    assert bt.window_positions(two, two).shape == (2, 1, 4)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: bt.Rope(ROPE.spec, True), TypeError, r"\[Rope\] length: must be a whole number from 0 on, got True"),
        (lambda: bt.Rope(ROPE.spec, -1), bearing.RangeError, r"\[Rope\] length: must be a whole number from 0 on"),
        (lambda: bt.Rope(ROPE.spec, seq_len=True), TypeError, r"\[Rope\] seq_len: must be a whole number"),
        (lambda: bt.MultiHeadAttention(16, True, mask="none"), TypeError, "heads: must be a whole number .* got True"),
        (lambda: bt.MultiHeadAttention(16.0, 2, mask="none"), TypeError, "d_model: must be a whole number .* got 16.0"),
        (lambda: bt.MultiHeadAttention(16, None, mask="none"), TypeError, "heads: must be a whole number .* got None"),
        (lambda: bt.MultiHeadAttention(-16, 2, mask="none"), bearing.RangeError, "d_model: must be a whole number"),
        (
            lambda: bt.MultiHeadAttention(16, 2, mask="none", head_dim=0),
            bearing.RangeError,
            "head_dim: must be a whole number from 1 on, got 0",
        ),
        (lambda: bt.Attention(mask="none", sinks=-1), bearing.RangeError, "sinks: must be how many heads learn one"),
        (lambda: bt.shard_positions(8.0, 2, 0), TypeError, r"\[shard_positions\] length: .* got 8.0"),
        (lambda: bt.shard_positions(8, 2, True), TypeError, r"\[shard_positions\] rank: .* got True"),
        (lambda: bt.shard_positions(8, 2, 2), bearing.RangeError, "rank: must be from 0 to world - 1 = 1, got 2"),
        (lambda: bt.shard(torch.zeros(4), 1, 2, 0), bearing.RangeError, r"\[shard\] dim: must be an axis of x"),
        (lambda: bt.shard(torch.zeros(4), 0, 2, 2), bearing.RangeError, r"\[shard\] rank: must be from 0"),
        (lambda: bt.shard([1.0], 0, 2, 0), TypeError, r"\[shard\] x: must be a tensor"),
        (lambda: bt.window_positions(2.0, 2), TypeError, r"\[window_positions\] height: .* got 2.0"),
    ],
)
def test_sizes_that_are_no_numbers_and_sizes_out_of_range_are_told_apart(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_the_length_of_a_table_is_not_taken_for_a_layer():
    config = {"model_type": "llama", "head_dim": 8, "rope_theta": 1e4, "num_attention_heads": 2, "hidden_size": 16}
    assert bt.Rope.from_config(config, length=5).table == bt.Rope(bearing.Rope.from_config(config), 5).table
    with pytest.raises(TypeError):
        bt.Rope.from_config(config, 5)
