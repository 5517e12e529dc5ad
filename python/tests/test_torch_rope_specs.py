"""A Rope and a RopeTable of bearing itself, wherever bearing.torch takes an encoding."""

from __future__ import annotations

import re

import bearing
import bearing.torch as bt
import pytest
import torch

ROPE = bearing.Rope(head_dim=16, pairing="half")
TABLE = bearing.RopeTable(ROPE, 64)
DYNAMIC = ROPE.replace(scaling=bearing.DynamicNtkScaling(factor=2, trained_length=8))
ANGLES = torch.outer(torch.arange(40.0), 0.5 ** torch.arange(8))
GIVEN = bearing.RopeTable.from_cos_sin(ROPE, ANGLES.cos(), ANGLES.sin())


def qkv(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(2)
    return tuple(torch.randn(1, 2, 5, 16, dtype=dtype, requires_grad=True) for _ in range(3))


def results(encodings, dtype=torch.float32, **options):
    q, k, v = qkv(dtype)
    out = bt.attention(q, k, v, encodings, mask="causal", **options)
    return out, *torch.autograd.grad(out.sin().sum(), (q, k, v))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("options", [{}, {"q_positions": 5000, "k_positions": 4998}], ids=["near", "beyond the rows"])
def test_in_attention_they_are_the_module_and_rotary_rows(dtype, options):
    wanted = results(bt.Rope(ROPE), dtype, **options)
    for encodings in (ROPE, [ROPE], (TABLE,), TABLE):
        for found, one in zip(results(encodings, dtype, **options), wanted, strict=True):
            assert torch.equal(found, one)


def test_a_table_of_given_numbers_counts_too():
    wanted = results(bearing.RotaryRows(GIVEN))
    for found, one in zip(results(GIVEN), wanted, strict=True):
        assert torch.equal(found, one)
    assert not torch.equal(wanted[0], results(ROPE)[0])


@pytest.mark.parametrize("rope", [ROPE, TABLE], ids=["Rope", "RopeTable"])
def test_every_function_of_encodings_takes_them(rope):
    q, k, v = (x.detach() for x in qkv())
    module = bt.Rope(ROPE)
    assert torch.equal(
        bt.linear_attention(q, k, v, rope, mask="causal"), bt.linear_attention(q, k, v, module, mask="causal")
    )
    assert torch.equal(bt.turn(rope, q, side="key"), bt.turn(module, q, side="key"))
    assert torch.equal(
        bt.attention(q, k, v, bt.encoding_of(rope), mask="none"), bt.attention(q, k, v, rope, mask="none")
    )
    assert torch.equal(bt.Attention(rope, mask="causal")(q, k, v), bt.Attention(module, mask="causal")(q, k, v))
    x = torch.randn(2, 6, 32)
    layer = bt.MultiHeadAttention(32, 2, [rope], mask="causal")
    same = bt.MultiHeadAttention(32, 2, module, mask="causal")
    same.load_state_dict(layer.state_dict())
    assert torch.equal(layer(x), same(x))
    on_gpu = [one.detach().to("meta") for one in (q, k, v)]
    assert bt.plan(*on_gpu, rope, mask="causal") == bt.plan(*on_gpu, module, mask="causal")


@pytest.mark.parametrize("rope", [ROPE, TABLE, GIVEN, bearing.RotaryRows(TABLE)], ids=lambda one: type(one).__name__)
def test_compiled_code_takes_what_was_made_outside(rope):
    q, k, v = qkv()
    attend = torch.compile(lambda *xs: bt.attention(*xs, rope, mask="causal"), fullgraph=True, backend="aot_eager")
    out = attend(q, k, v)
    for found, one in zip((out, *torch.autograd.grad(out.sin().sum(), (q, k, v))), results(rope), strict=True):
        assert torch.equal(found, one)


def test_compiled_code_sees_that_another_one_came():
    q, k, v = qkv()
    attend = torch.compile(lambda rope: bt.attention(q, k, v, rope, mask="causal"), fullgraph=True, backend="aot_eager")
    for base in (10_000.0, 500.0, 20.0):
        rope = ROPE.replace(base=base)
        assert torch.equal(attend(rope), bt.attention(q, k, v, rope, mask="causal"))


def test_compiled_code_makes_no_constants_of_parameters():
    q, k, v = qkv()
    table = torch.randn(8, 2)
    bias = bearing.T5Bias(bearing.T5(buckets=8, max_distance=16, direction="causal"), table)
    attend = torch.compile(lambda: bt.attention(q, k, v, bias, mask="causal"), backend="aot_eager")
    for _ in range(2):
        assert torch.equal(attend(), bt.attention(q, k, v, bias, mask="causal"))
        table.mul_(3)


DOORS = {
    "attention": lambda q, one: bt.attention(q, q, q, one, mask="none"),
    "linear_attention": lambda q, one: bt.linear_attention(q, q, q, one, mask="none"),
    "Attention": lambda q, one: bt.Attention(one, mask="none"),
    "MultiHeadAttention": lambda q, one: bt.MultiHeadAttention(32, 2, one, mask="none"),
    "Fixed": lambda q, one: bt.Fixed(one),
    "bias_matrix": lambda q, one: bt.bias_matrix(one, heads=2, q_len=5, k_len=5),
    "add_scores": lambda q, one: bt.add_scores(one, q),
    "add_values": lambda q, one: bt.add_values(one, q, q),
    "turn": lambda q, one: bt.turn(one, q, side="key"),
    "add": lambda q, one: bt.add(one, q[0]),
    "add_": lambda q, one: bt.add_(one, q[0]),
    "encoding_of": lambda q, one: bt.encoding_of(one),
    "score_mod": lambda q, one: bt.score_mod(one),
    "plan": lambda q, one: bt.plan(q, q, q, one, mask="none"),
}


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.parametrize(
    ("one", "text"),
    [
        (DYNAMIC, "must be a Rope whose frequencies are the same at every length, got Rope("),
        ("rope", "must be modules of bearing.torch or encodings of bearing, such as RotaryRows(table), got 'rope'"),
    ],
    ids=["a length's", "a text"],
)
def test_what_is_no_encoding_is_refused_in_the_name_of_who_was_called(name, one, text):
    with pytest.raises(TypeError, match=rf"\[{name}\] encodings?: {re.escape(text)}") as refused:
        DOORS[name](qkv()[0].detach(), one)
    assert one is not DYNAMIC or "bearing.torch.Rope(rope, seq_len=…)" in str(refused.value)


def test_rotations_refuse_frequencies_of_a_length():
    x = qkv()[0]
    told = bt.Rope(DYNAMIC, 64, seq_len=64)
    for argument, call in {
        r"\[rotate\] rope": lambda rope: bt.rotate(x, rope=rope),
        r"\[rotate\] rope: ": lambda rope: bt.rotate(x.detach(), rope=rope),
        r"\[rotate_\] rope": lambda rope: bt.rotate_(x.detach().clone(), rope=rope),
        r"\[shift\] rope": lambda rope: bt.shift(rope, 1, x.detach().clone()),
        r"\[rebase\] from_": lambda rope: bt.rebase(rope, 0, ROPE, 1, x.detach().clone()),
        r"\[rebase\] to": lambda rope: bt.rebase(ROPE, 0, rope, 1, x.detach().clone()),
    }.items():
        text = rf"{argument}.*must be a Rope whose frequencies are the same at every length, got Rope.*bearing\.torch\.Rope\(rope, seq_len=…\)"
        with pytest.raises(TypeError, match=text):
            call(DYNAMIC)
        for rope in (told, bearing.RopeTable(DYNAMIC, 64, seq_len=64)):
            call(rope)


def test_a_layer_on_the_meta_device_keeps_a_given_tables_numbers():
    with torch.device("meta"):
        layer = bt.Attention(GIVEN, mask="causal")
    layer.to_empty(device="cpu").reset_parameters()
    q, k, v = qkv()
    assert torch.equal(layer(q, k, v), bt.attention(q, k, v, GIVEN, mask="causal"))


def test_a_module_is_told_the_length_that_its_frequencies_depend_on() -> None:
    with pytest.raises(
        bearing.RangeError, match=r"^\[Rope\] seq_len: must be given, as the frequencies of dynamic depend"
    ):
        bt.Rope(DYNAMIC, 64)
