"""Specs are values: they print themselves, compare, hash, copy, pickle, and go to and from dictionaries and JSON."""

import copy
import json
import math
import pickle
from pathlib import Path

import bearing
import pytest
from support import described_specs, made

SPECS = [
    bearing.Alibi(slopes=[0.5, 0.25], form="causal"),
    bearing.Alibi.published(12, bias_max=6, times=0.5),
    bearing.T5(buckets=16, max_distance=64, direction="causal"),
    bearing.Kerple(form="power"),
    bearing.Fire(mlp_width=8, threshold=100, eps=1e-5),
    bearing.Sandwich(heads=4, dim=64, base=500),
    bearing.Shaw(clip=4),
    bearing.BertRelative(max_position_embeddings=128, position_embedding_type="relative_key_query"),
    bearing.Wav2Vec2BertRelative(left=8, right=2),
    bearing.TransformerXL(first_offset=-2, clamp_len=40, direction="bidirectional"),
    bearing.Xlnet(clamp_len=7, direction="causal"),
    bearing.Deberta(max_relative_positions=256, position_buckets=64, terms="p2c", index="paper"),
    bearing.Tupe(rel_pos_bins=32, max_rel_pos=64, cls="tied"),
    bearing.Cope(max_pos=12, gate_scale="one", score_scale="softmax"),
    bearing.RopeMixed(head_dim=8, axes=3, pairing="half"),
    bearing.CayleyString(rope=bearing.RopeMixed(head_dim=8, pairing="interleaved")),
    bearing.CirculantString(head_dim=8, axes=1),
    bearing.LieRope(head_dim=8, axes=1, block=4),
    bearing.Fope(head_dim=8, base=5e5, trained_length=512, kept=3, pairing="half"),
    bearing.Pope(head_dim=8, base=100),
    bearing.PositionTemperature(form="clamped", beta=0.2, length=100, first=1),
    bearing.Swin(height=7, width=5, class_token="three_rows"),
    bearing.SwinV2(window=bearing.Swin(height=8, width=8), trained_height=6, trained_width=6),
    bearing.Sam(height=14, width=12),
    bearing.Learned(length=512, dim=8, offset=2, padding_row=1),
    bearing.Sinusoidal(dim=6, base=100, layout="cos_first", frequency_scale=2, scale=0.5, padding_position=0),
    bearing.Sinusoidal2d(dim=8, base=20, first="x", layout="tensor2tensor"),
    bearing.CapeAugmentation(max_global_shift=5, max_local_shift=0.5, max_global_scale=1.03),
    bearing.Cape(dim=8, augmentation=bearing.CapeAugmentation(max_global_shift=5), centre="none", position_scale=2),
    bearing.Cape2d(dim=8, augmentation=bearing.CapeAugmentation(max_local_shift=0.5)),
    bearing.IndexEncoding(dim=4, form="normalised", length=12),
]
ROPE = bearing.Rope(head_dim=8, pairing="half", scaling=bearing.YarnScaling(factor=4, trained_length=512))
ROPES = [
    ROPE,
    bearing.Xpos(rope=ROPE, gamma=0.5),
    bearing.RotaryPart(where="window", begin=2),
    bearing.RopeAxes(pairs=[2, 1, 1], order="interleaved"),
    bearing.NoScaling(),
    bearing.LinearScaling(factor=2),
    bearing.NtkScaling(factor=2),
    bearing.DynamicNtkScaling(factor=2, trained_length=100),
    bearing.AlphaScaling(alpha=3),
    bearing.NtkByPartsScaling(factor=2, trained_length=100),
    bearing.YarnScaling(factor=2, trained_length=100, attention_factor=1.5),
    bearing.DeepseekYarnScaling(factor=2, trained_length=100),
    bearing.LongRopeScaling(factor=2, trained_length=100, short_factor=[1] * 4, long_factor=[2] * 4),
    bearing.Llama3Scaling(factor=2),
    bearing.ProportionalScaling(fraction=0.5),
    bearing.ExplicitFrequencies(inv_freq=[1, 0.5]),
    bearing.FrequencyDivisors(divisors=[1, 2.5]),
    bearing.NoPosition(),
    bearing.OtherEncoding(name="new"),
]
# Those that have no example here, with their defaults.
SPECS += [made(kind) for kind in described_specs() if kind not in {type(spec) for spec in SPECS + ROPES}]
each_spec = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: type(spec).__name__)


@each_spec
def test_a_spec_goes_to_a_dictionary_and_back(spec):
    members = spec.to_dict()
    assert members["type"] == type(spec).__name__
    assert type(spec).from_dict(members) == spec


@each_spec
def test_a_spec_goes_to_json_and_back(spec):
    assert type(spec).from_dict(json.loads(json.dumps(spec.to_dict()))) == spec
    with pytest.raises(ValueError, match=r"from_dict\] type: must be '\w+', got 'Other'"):
        type(spec).from_dict(spec.to_dict() | {"type": "Other"})


@pytest.mark.parametrize("spec", SPECS + ROPES, ids=lambda spec: type(spec).__name__)
def test_a_spec_is_copied_and_pickled(spec):
    # It cannot be changed: a copy is the spec itself.
    assert copy.copy(spec) is spec
    assert copy.deepcopy([spec])[0] is spec
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(spec, protocol))
        assert again == spec and type(again) is type(spec) and hash(again) == hash(spec)


def test_every_spec_is_among_the_examples():
    assert {type(spec) for spec in SPECS + ROPES} == set(described_specs())


@each_spec
def test_what_a_spec_prints_makes_it_again(spec):
    assert eval(repr(spec), vars(bearing)) == spec


@each_spec
def test_equal_specs_have_equal_hashes(spec):
    again = type(spec).from_dict(spec.to_dict())
    assert again is not spec
    assert hash(again) == hash(spec)
    assert {spec: 1}[again] == 1


@each_spec
def test_a_spec_differs_from_any_other(spec):
    assert [other for other in SPECS if other == spec] == [spec]
    assert spec != repr(spec)


@each_spec
def test_a_spec_cannot_be_changed(spec):
    for member in spec.to_dict():
        if member != "type":
            with pytest.raises(AttributeError):
                setattr(spec, member, getattr(spec, member))


@each_spec
def test_replace_changes_nothing_that_is_not_named(spec):
    assert spec.replace() == spec


@each_spec
def test_an_unknown_member_is_refused_by_name(spec):
    name = type(spec).__name__
    with pytest.raises(TypeError, match=rf"^\[{name}\] has no heigth; it has "):
        spec.replace(heigth=1)


@each_spec
def test_specs_take_their_members_by_name_only(spec):
    with pytest.raises(TypeError):
        type(spec)(1)


@each_spec
def test_the_signature_names_every_member(spec):
    signature = type(spec).__init__.__doc__
    assert all(f"{member}: " in signature for member in spec.to_dict() if member != "type")


def test_replace_gives_a_copy_with_a_member_changed():
    spec = bearing.T5(direction="causal")
    assert spec.replace(buckets=64) == bearing.T5(buckets=64, direction="causal")
    assert spec.buckets == 32


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: bearing.T5(), "[T5] direction: must be given, 'bidirectional' or 'causal', as a wrong guess"),
        (lambda: bearing.Sinusoidal(dim=4), "[Sinusoidal] layout: must be given"),
        (lambda: bearing.Kerple(), "[Kerple] form: must be given"),
        (lambda: bearing.T5(direction="causal", buckets=1.5), "[T5] buckets: must be int, got 1.5"),
        (lambda: bearing.T5(direction="causal", buckets=True), "[T5] buckets: must be int, got True"),
        (lambda: bearing.Pope(base="a"), "[Pope] base: must be float, got 'a'"),
        (
            lambda: bearing.YarnScaling(factor=2, trained_length=16, truncate=3),
            "[YarnScaling] truncate: must be bool, got 3",
        ),
        (lambda: bearing.Alibi(slopes=3), "[Alibi] slopes: must be Sequence[float], got 3"),
        (lambda: bearing.Alibi(slopes=["x"]), "[Alibi] slopes: must be float, got 'x'"),
        (lambda: bearing.SwinV2(window=3), "[SwinV2] window: must be Swin, got 3"),
    ],
)
def test_a_member_of_another_type_is_told_by_name(make, text):
    with pytest.raises(TypeError) as caught:
        make()
    assert str(caught.value).startswith(text)


def test_an_unknown_word_is_a_value_error_that_lists_the_words():
    with pytest.raises(ValueError) as caught:
        bearing.T5(direction="backwards")
    assert str(caught.value) == "[T5] direction: must be one of 'bidirectional', 'causal', got 'backwards'"


def test_numbers_out_of_range_are_range_errors():
    for make in [lambda: bearing.Alibi.published(0), lambda: bearing.Alibi.published(4, times=float("inf"))]:
        with pytest.raises(bearing.RangeError, match=r"^\[.*published.*\] "):
            make()


def test_specs_have_the_methods_of_the_cpp_interface():
    assert bearing.Shaw(clip=3).rows() == 7
    assert bearing.Swin(height=7, width=7).rows() == 169
    assert bearing.Swin(height=14, width=14, class_token="three_rows").rows() == 732
    assert bearing.BertRelative().rows() == 1023
    assert bearing.Wav2Vec2BertRelative().rows() == 73
    assert bearing.Learned(length=512, dim=4, offset=2).rows() == 514
    assert [bearing.Shaw(clip=3).row(n) for n in (-9, -1, 0, 9)] == [0, 2, 3, 6]
    assert [bearing.BertRelative().row(n) for n in (-511, 0, 511)] == [1022, 511, 0]
    assert [bearing.Wav2Vec2BertRelative().row(n) for n in (-99, 0, 99)] == [0, 64, 72]
    assert bearing.swin_v2_coordinates(bearing.SwinV2(window=bearing.Swin(height=2, width=3))).shape == (15, 2)
    assert bearing.Deberta(position_buckets=256).span() == 256
    assert bearing.Xlnet().relative(4) == bearing.TransformerXL(first_offset=-3, direction="bidirectional")
    assert bearing.Cape(dim=4).sinusoidal() == bearing.Sinusoidal(dim=4, layout="interleaved")
    assert bearing.Sinusoidal2d.detr(8) == bearing.Sinusoidal2d(dim=8, first="y", layout="interleaved")
    assert bearing.Sinusoidal2d.mae(8) == bearing.Sinusoidal2d(dim=8, first="x", layout="concatenated")
    assert bearing.PositionTemperature.llama4() == bearing.PositionTemperature(first=1)
    assert bearing.PositionTemperature.ministral3(16384).length == 16384
    inkling = bearing.PositionTemperature(form="clamped", length=128_000, first=1)
    assert bearing.PositionTemperature.inkling(128_000) == inkling
    assert bearing.PositionTemperature.qwen(2048).factor(8191) == pytest.approx(math.log(8192, 2048), rel=1e-14)
    assert bearing.PositionTemperature.beam() == bearing.PositionTemperature(form="power", length=2048, first=1)
    assert bearing.PositionTemperature.mistral_large4() == bearing.PositionTemperature(form="learned", first=1)
    # 1 + 0.1·ln(1 + ⌊(8191 + 1)/8192⌋) = 1 + 0.1·ln 2
    assert bearing.PositionTemperature.llama4().factor(8191) == pytest.approx(1.0693147180559945, rel=1e-15)
    assert (bearing.Kerple.least, bearing.Kerple.most_power) == (0.01, 2)
    assert (bearing.Fire.initial_c, bearing.Fire.initial_multiplier) == (0.1, 1)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: type(spec).__name__)
def test_members_without_a_name_are_refused_with_the_names(spec):
    kind = type(spec)
    names = ", ".join(f"{name}=…" for name in spec.to_dict() if name != "type")
    with pytest.raises(TypeError) as caught:
        kind(8)
    assert (
        str(caught.value)
        == f"[{kind.__name__}] takes its members by name, {kind.__name__}({names}), got 8 without a name"
    )


def test_the_numbers_of_a_rotary_encoding_print_in_a_line():
    text = repr(bearing.resolve(bearing.Rope(head_dim=128, pairing="half")))
    assert len(text) < 400 and "inv_freq=<array (64,)>" in text and "change=<tuple of 64>" in text


def test_an_encoding_is_said_as_the_command_takes_it(tmp_path: Path) -> None:
    assert bearing.encoding("T5-causal:buckets=64") == bearing.T5(buckets=64, direction="causal")
    assert bearing.encoding("rope:pairing=half", dim=64) == bearing.Rope(head_dim=64, pairing="half")
    spec = bearing.Kerple(form="power")
    file = tmp_path / "kerple.json"
    file.write_text(json.dumps(spec.to_dict()))
    assert bearing.encoding(str(file)) == spec
    with pytest.raises(bearing.ShapeError, match=r"\[encoding\] 't6' is not an encoding; did you mean 't5'\?"):
        bearing.encoding("t6")


def test_two_ways_to_say_that_the_whole_head_turns_are_one_key() -> None:
    short, long = (bearing.Rope(head_dim=8, rotary_dim=turned, pairing="half") for turned in (0, 8))
    half = short.replace(rotary_dim=4)
    assert (short.rotary_dim, long.rotary_dim) == (0, 8)  # each stays as it was said
    for one, same, other in (
        (short, long, half),
        (bearing.Xpos(rope=short), bearing.Xpos(rope=long), bearing.Xpos(rope=half)),
        [bearing.GivenAngles(head_dim=8, rotary_dim=turned, pairing="half") for turned in (0, 8, 4)],
    ):
        assert one == same and hash(one) == hash(same) and one != other and {one: 1}[same] == 1
    for kind in (copy.copy, lambda one: pickle.loads(pickle.dumps(one))):
        assert kind(long).rotary_dim == 8


def test_equal_specs_have_equal_hashes_whatever_the_sign_of_a_zero() -> None:
    for plus, minus in [
        (bearing.Xpos(rope=ROPE, centre=0.0), bearing.Xpos(rope=ROPE, centre=-0.0)),
        (
            bearing.PositionTemperature(form="clamped", first=1, beta=0.0),
            bearing.PositionTemperature(form="clamped", first=1, beta=-0.0),
        ),
        (bearing.Alibi(slopes=[0.0, 0.5]), bearing.Alibi(slopes=[-0.0, 0.5])),
        (
            ROPE.replace(scaling=bearing.LinearScaling(factor=0.0)),
            ROPE.replace(scaling=bearing.LinearScaling(factor=-0.0)),
        ),
    ]:
        assert plus == minus and hash(plus) == hash(minus)
        assert "-0.0" in repr(minus)  # it stays what was given


class Named(bearing.Rope):
    """A spec of a caller's own class."""

    name = "nobody"


def test_copies_of_a_derived_spec_are_of_its_class() -> None:
    one = Named(head_dim=8, pairing="half")
    one.name = "somebody"
    assert type(one.replace(base=5.0)) is Named and one.replace(base=5.0).base == 5
    back = pickle.loads(pickle.dumps(one))
    assert type(back) is Named and back == one and back.name == "somebody"
    assert type(bearing.Rope(head_dim=8, pairing="half").replace(base=5.0)) is bearing.Rope
