"""Every encoding through the functions that take any of them."""

import copy
import pickle

import bearing
import numpy as np
import pytest
from support import (
    BATCH,
    DIM,
    HEADS,
    K_LEN,
    KINDS,
    KV_HEADS,
    NAMES,
    Q_LEN,
    as_kind,
    check_gradient,
    examples,
    kind_of,
    names,
    queries_and_keys,
)


@pytest.mark.parametrize("name", names("scores"))
def test_gradients_of_scores_are_those_of_differences(rng, name):
    example = examples(rng)[name]
    q, k, _ = queries_and_keys(rng)
    d_scores = rng.standard_normal((BATCH, HEADS, Q_LEN, K_LEN))
    call = dict(q_positions=example.q_positions, k_positions=example.k_positions, q=q, k=k, scale=0.7)

    def loss() -> float:
        scores = np.zeros_like(d_scores)
        bearing.add_scores(example.encoding, scores, **call)
        return float((scores * d_scores).sum())

    d_q, d_k, [gradients] = bearing.add_scores_backward([example.encoding], d_scores, **call)
    check_gradient(loss, q, d_q, f"{name} q")
    check_gradient(loss, k, d_k, f"{name} k")
    assert gradients.keys() == example.encoding.parameters.keys()
    for parameter, value in example.encoding.parameters.items():
        check_gradient(loss, value, gradients[parameter], f"{name} {parameter}")


@pytest.mark.parametrize("name", names("scores") + names("rows"))
def test_gradients_through_attention_are_those_of_differences(rng, name):
    example = examples(rng)[name]
    q, k, v = queries_and_keys(rng, kv_heads=HEADS if example.site == "rows" else KV_HEADS)
    d_out = rng.standard_normal(q.shape)
    encodings = [example.encoding]
    call = dict(q_positions=example.q_positions, k_positions=example.k_positions, mask="none", scale=0.6)

    def loss() -> float:
        return float((bearing.attention(q, k, v, encodings, **call) * d_out).sum())

    out, lse = bearing.attention(q, k, v, encodings, **call, return_lse=True)
    d_q, d_k, d_v, [gradients], d_sinks = bearing.attention_backward(q, k, v, out, lse, d_out, encodings, **call)
    assert d_sinks is None
    for what, value, gradient in [("q", q, d_q), ("k", k, d_k), ("v", v, d_v)]:
        check_gradient(loss, value, gradient, f"{name} {what}")
    for parameter, value in example.encoding.parameters.items():
        check_gradient(loss, value, gradients[parameter], f"{name} {parameter}")


@pytest.mark.parametrize("name", names("rows"))
@pytest.mark.parametrize("side", ["query", "key"])
def test_gradients_of_turned_rows_are_those_of_differences(rng, name, side):
    example = examples(rng)[name]
    x = rng.standard_normal((BATCH, HEADS, K_LEN, DIM))
    d_y = rng.standard_normal(bearing.turn(example.encoding, x, example.k_positions, side=side).shape)

    def loss() -> float:
        return float((bearing.turn(example.encoding, x, example.k_positions, side=side) * d_y).sum())

    d_x, gradients = bearing.turn_backward(example.encoding, x, d_y, example.k_positions, side=side)
    check_gradient(loss, x, d_x, f"{name} x")
    for parameter, value in example.encoding.parameters.items():
        check_gradient(loss, value, gradients[parameter], f"{name} {parameter}")


@pytest.mark.parametrize("name", names("inputs"))
def test_gradients_of_inputs_are_those_of_differences(rng, name):
    example = examples(rng)[name]
    d_x = rng.standard_normal((BATCH, K_LEN, DIM))

    def loss() -> float:
        return float((bearing.add(example.encoding, np.zeros_like(d_x), example.k_positions) * d_x).sum())

    gradients = bearing.add_backward(example.encoding, d_x, example.k_positions)
    assert gradients.keys() == example.encoding.parameters.keys()
    for parameter, value in example.encoding.parameters.items():
        check_gradient(loss, value, gradients[parameter], f"{name} {parameter}")


def test_gradients_of_value_terms_are_those_of_differences(rng):
    term = examples(rng)["ShawTerm"].encoding
    p = rng.uniform(size=(BATCH, HEADS, Q_LEN, K_LEN))
    d_out = rng.standard_normal((BATCH, HEADS, Q_LEN, DIM))

    def loss() -> float:
        out = np.zeros_like(d_out)
        bearing.add_values(term, p, out, q_positions=2)
        return float((out * d_out).sum())

    d_p, [gradients] = bearing.add_values_backward(term, p, d_out, q_positions=2)
    check_gradient(loss, p, d_p, "p")
    check_gradient(loss, term.parameters["value"], gradients["value"], "value")
    assert not gradients["key"].any()


@pytest.mark.parametrize("name", NAMES)
def test_an_encoding_shows_what_it_is_made_of(rng, name):
    encoding = examples(rng)[name].encoding
    text = repr(encoding)
    assert text.startswith(type(encoding).__name__ + "(")
    if encoding.spec is not None:
        assert repr(encoding.spec) in text
    for parameter, value in encoding.parameters.items():
        assert f"{parameter}=<{value.shape}>" in text
        assert encoding.arguments[parameter] is value


@pytest.mark.parametrize("name", NAMES)
def test_an_encoding_is_made_again_from_its_arguments(rng, name):
    encoding = examples(rng)[name].encoding
    again = type(encoding)(**encoding.arguments)
    assert repr(again) == repr(encoding)
    assert repr(encoding.replace()) == repr(encoding)
    assert {id(value) for value in again.parameters.values()} == {id(value) for value in encoding.parameters.values()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_an_encoding_is_copied_and_pickled_with_its_arrays(rng, name, kind):
    encoding = examples(rng)[name].encoding
    encoding = encoding.replace(**{p: as_kind(kind, value) for p, value in encoding.parameters.items()})
    shallow, deep = copy.copy(encoding), copy.deepcopy(encoding)
    again = pickle.loads(pickle.dumps(encoding))
    for one in (shallow, deep, again):
        assert type(one) is type(encoding) and repr(one) == repr(encoding) and one.spec == encoding.spec
    for parameter, value in encoding.parameters.items():
        assert shallow.parameters[parameter] is value
        for one in (deep, again):
            other = one.parameters[parameter]
            assert kind_of(other) == kind and other.dtype == value.dtype
            assert (other is not value and not np.shares_memory(other, value)) or kind == "jax"  # JAX's cannot change
            np.testing.assert_array_equal(other, value)


@pytest.mark.parametrize("memory", ["full", "compact"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_table_is_pickled_as_its_frequencies(dtype, memory):
    yarn = bearing.YarnScaling(factor=4, trained_length=16)
    rope = bearing.Rope(head_dim=8, pairing="half", scaling=yarn)
    table = bearing.RopeTable(rope, 50, dtype=dtype, memory=memory)
    again = pickle.loads(pickle.dumps(table))
    assert repr(again) == repr(table) and again.memory == memory and again.frequencies == table.frequencies
    x = np.random.default_rng(0).standard_normal((3, 8)).astype(dtype)
    at = np.array([1, 47, 100_000])
    np.testing.assert_array_equal(bearing.rotate_to(again, x, at), bearing.rotate_to(table, x, at))
    assert copy.copy(table) is table and copy.deepcopy(table) is table
    rows = pickle.loads(pickle.dumps(bearing.RotaryRows(table)))
    np.testing.assert_array_equal(bearing.turn(rows, x, at, side="key"), bearing.rotate_to(table, x, at))


def test_frequencies_in_float32_keep_their_rounding():
    rope = bearing.Rope(head_dim=8, base=5e5, pairing="interleaved")
    of = bearing.resolve(rope, angles="as_float32")
    again = pickle.loads(pickle.dumps(of))
    assert again == of and copy.deepcopy(of) is of
    x = np.ones((1, 8), np.float32)
    first, other = (bearing.rotate_to(bearing.RopeTable(one, 4), x, 100_003) for one in (of, again))
    np.testing.assert_array_equal(first, other)


def test_xpos_rows_are_pickled():
    xpos = bearing.Xpos(rope=bearing.Rope(head_dim=8, pairing="interleaved"), gamma=0.3)
    rows = bearing.XposRows(bearing.XposTable(xpos, 20, dtype="float64"))
    again = pickle.loads(pickle.dumps(rows))
    x = np.ones((2, 8))
    for side in ("query", "key"):
        np.testing.assert_array_equal(bearing.turn(again, x, 17, side=side), bearing.turn(rows, x, 17, side=side))


def test_what_cannot_be_pickled_says_so():
    table = bearing.RopeTable.from_cos_sin(bearing.Rope(head_dim=4, pairing="half"), np.ones((3, 2)), np.zeros((3, 2)))
    with pytest.raises(
        TypeError, match=r"^\[RopeTable\] cannot be pickled if from_cos_sin\(\) or an XposTable made it"
    ):
        pickle.dumps(table)
    xpos = bearing.XposTable(bearing.Xpos(rope=bearing.Rope(head_dim=4, pairing="half")), 8)
    for one in (xpos.q, xpos.k):  # whose decay is in no frequency
        with pytest.raises(
            TypeError, match=r"^\[RopeTable\] cannot be pickled .*: pickle cos and sin, or the XposTable$"
        ):
            pickle.dumps(one)
    assert copy.deepcopy(table) is table
    entry = bearing.catalog()[0]
    with pytest.raises(TypeError, match=r"^\[CatalogEntry\] cannot be pickled: pickle its to_dict\(\)$"):
        pickle.dumps(entry)
    assert copy.copy(entry) is entry and copy.deepcopy([entry]) == [entry]
    assert pickle.loads(pickle.dumps(entry.to_dict())) == entry.to_dict()


def test_replace_changes_one_argument_of_a_copy(rng):
    bias = examples(rng)["T5Bias"].encoding
    table = np.zeros((8, HEADS))
    assert bias.replace(table=table).parameters["table"] is table
    assert bias.parameters["table"] is not table


def test_every_encoding_of_the_module_has_an_example(rng):
    encodings = {
        name
        for name, one in vars(bearing).items()
        if isinstance(one, type) and issubclass(one, bearing.Encoding) and one is not bearing.Encoding
    }
    elsewhere = {"RotaryRows", "RotaryValues", "XposRows", "AngleRows"}  # test_rope.py, test_registry.py
    there = {type(one.encoding).__name__ for one in examples(rng).values()}
    assert not encodings - elsewhere - there, "add it to examples() of python/tests/support.py"
    assert not there - encodings


@pytest.mark.parametrize("name", NAMES)
def test_every_encoding_and_its_spec_say_what_they_are(rng, name):
    encoding = examples(rng)[name].encoding
    assert len(type(encoding).__doc__) > 60
    assert "self" in type(encoding).__init__.__doc__
    if encoding.spec is not None:
        assert len(type(encoding.spec).__doc__) > 60


def test_a_call_reads_parameters_as_they_are_then(rng):
    bias = examples(rng)["T5Bias"].encoding
    before = bearing.bias_matrix(bias, heads=HEADS, q_len=3, k_len=3)
    bias.parameters["table"][...] += 1
    np.testing.assert_array_equal(bearing.bias_matrix(bias, heads=HEADS, q_len=3, k_len=3), before + 1, strict=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_gradients_of_parameters_are_of_their_own_kind(rng, kind, dtype):
    table = as_kind(kind, rng.standard_normal((8, HEADS)), dtype)
    bias = bearing.T5Bias(bearing.T5(buckets=8, max_distance=6, direction="causal"), table)
    d_scores = as_kind(kind, rng.standard_normal((HEADS, 3, 3)), dtype)
    _, _, [gradients] = bearing.add_scores_backward(bias, d_scores)
    assert kind_of(gradients["table"]) == kind
    assert gradients["table"].dtype == table.dtype
    assert tuple(gradients["table"].shape) == (8, HEADS)


def test_parameters_of_a_strided_array_are_taken_where_they_lie(rng):
    spec = bearing.T5(buckets=8, max_distance=6, direction="causal")
    wide = rng.standard_normal((HEADS, 16))
    strided = wide[:, ::2].T
    call = dict(heads=HEADS, q_len=5, k_len=5)
    np.testing.assert_array_equal(
        bearing.bias_matrix(bearing.T5Bias(spec, strided), **call),
        bearing.bias_matrix(bearing.T5Bias(spec, np.ascontiguousarray(strided)), **call),
    )


def test_a_parameter_that_may_not_be_written_serves(rng):
    table = rng.standard_normal((8, HEADS))
    table.flags.writeable = False
    bias = bearing.T5Bias(bearing.T5(buckets=8, max_distance=6, direction="causal"), table)
    assert bearing.bias_matrix(bias, heads=HEADS, q_len=2, k_len=2).shape == (HEADS, 2, 2)


def test_wrong_arguments_of_an_encoding_are_told_by_name(rng):
    spec = bearing.T5(direction="causal")
    for call, text in [
        (lambda: bearing.T5Bias(3, None), "[T5Bias] spec: must be T5, got 3"),
        (lambda: bearing.T5Bias(spec), "[T5Bias] table: must be given, got None"),
        (lambda: bearing.T5Bias(spec, 1, 2), "[T5Bias] takes (spec, table), got 3 arguments"),
        (lambda: bearing.T5Bias(spec, tabel=1), "[T5Bias] has no argument tabel; it takes (spec, table)"),
        (lambda: bearing.T5Bias(spec, spec=spec), "[T5Bias] got its argument spec twice"),
        (lambda: bearing.ForgettingBias(np.zeros((1, 1, 1)), past=1.5), "[ForgettingBias] past: must be int, got 1.5"),
    ]:
        with pytest.raises(TypeError) as caught:
            call()
        assert str(caught.value) == text


def test_parameters_of_another_arithmetic_are_refused_by_name(rng):
    bias = bearing.T5Bias(bearing.T5(direction="causal"), rng.standard_normal((32, HEADS)))
    text = r"^\[add_scores\] T5.table: must be float32, the arithmetic of this call, got float64$"
    with pytest.raises(TypeError, match=text):
        bearing.add_scores(bias, np.zeros((HEADS, 2, 2), np.float32))


def test_a_table_of_another_shape_is_a_shape_error(rng):
    bias = bearing.T5Bias(bearing.T5(direction="causal"), rng.standard_normal((32, HEADS + 1)))
    with pytest.raises(bearing.ShapeError, match=r"^\[bias_matrix\]"):
        bearing.bias_matrix(bias, heads=HEADS, q_len=2, k_len=2)
    with pytest.raises(bearing.ShapeError, match=r"table: must be an array of 2 axes, got shape \[3\]"):
        bearing.bias_matrix(bearing.T5Bias(bearing.T5(direction="causal"), np.zeros(3)), heads=1, q_len=2, k_len=2)


def test_an_encoding_without_the_site_of_a_call_is_refused(rng):
    learned = examples(rng)["LearnedInputs"].encoding
    alibi = examples(rng)["AlibiBias"].encoding
    for call, text in [
        (lambda: bearing.add_scores(learned, np.zeros((HEADS, 2, 2))), "[add_scores] encodings: must be encodings of"),
        (lambda: bearing.add(alibi, np.zeros((2, DIM))), "[add] encoding: must be an encoding of the input"),
        (lambda: bearing.turn(alibi, np.zeros((2, DIM)), side="key"), "[turn] encoding: must be an encoding of query"),
        (lambda: bearing.add_scores(3, np.zeros((2, 2))), "[add_scores] encodings: must be encodings, got 3"),
        (lambda: bearing.add_scores([alibi] * 9, np.zeros((HEADS, 2, 2))), "[add_scores] encodings: must be at most 8"),
    ]:
        with pytest.raises(TypeError) as caught:
            call()
        assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (bearing.AlibiBias, "[AlibiBias] slopes: must be given, in a spec or as an array, got neither"),
        (bearing.AlibiShiftedBias, "[AlibiShiftedBias] slopes: must be given, in a spec or as an array, got neither"),
        (bearing.RetentionBias, "[RetentionBias] rates: must be given, in a spec or as an array, got neither"),
        (
            lambda: bearing.AlibiBias(bearing.Alibi.published(2), np.ones(2)),
            "[AlibiBias] slopes: must be given, in a spec or as an array, got both",
        ),
        (
            lambda: bearing.RetentionBias(bearing.Retention.published(2), np.ones(2)),
            "[RetentionBias] rates: must be given, in a spec or as an array, got both",
        ),
        (
            lambda: bearing.ShawTerm(bearing.Shaw(clip=2)),
            "[ShawTerm] key, value: must be given, one of them at least, got none",
        ),
        (
            lambda: bearing.BucketBias(table=np.ones((3, 2))),
            "[BucketBias] spec, index, q_attribute, k_attribute, q_group, k_group: must be given, one of them at least, got "
            "none",
        ),
        (
            lambda: bearing.DebertaTerm(bearing.Deberta(terms="c2p")),
            "[DebertaTerm] key: must be given, as the spec has it, got none",
        ),
        (
            lambda: bearing.DebertaTerm(bearing.Deberta(terms="c2p"), np.ones((1, 4, 2)), np.ones((1, 4, 2))),
            "[DebertaTerm] query: must be left out, as the spec has none, got an array",
        ),
        (
            lambda: bearing.TemperatureRows(bearing.PositionTemperature.mistral_large4()),
            "[TemperatureRows] scale: must be given, as the spec has it, got none",
        ),
    ],
)
def test_an_encoding_without_its_numbers_is_refused_when_it_is_made(make, text):
    with pytest.raises(bearing.ShapeError) as caught:
        make()
    assert str(caught.value) == text


def test_values_that_turn_are_refused_in_the_words_of_python():
    turned = bearing.RotaryValues(bearing.RopeTable(bearing.Rope(head_dim=DIM, pairing="half"), 8))
    p, out = np.ones((1, 2, 3, 3), np.float32), np.ones((1, 2, 3, DIM), np.float32)
    text = "encodings: must not turn values, as only probabilities are given here, got one that does as number 1 of 1"
    with pytest.raises(bearing.ShapeError, match=rf"^\[add_values\] {text}$"):
        bearing.add_values(turned, p, out)
    with pytest.raises(bearing.ShapeError, match=rf"^\[add_values_backward\] {text}$"):
        bearing.add_values_backward(turned, p, out)


def test_rows_may_be_turned_in_place(rng):
    rows = examples(rng)["FopeRows"].encoding
    x = rng.standard_normal((BATCH, HEADS, K_LEN, DIM))
    wanted = bearing.turn(rows, x, 3, side="key")
    kept = x.copy()
    assert bearing.turn(rows, x, 3, side="key", out=x) is x
    np.testing.assert_array_equal(x, wanted)
    assert not np.array_equal(x, kept)
    with pytest.raises(TypeError, match="may be written"):
        wanted.flags.writeable = False
        bearing.turn(rows, x, 3, side="key", out=wanted)
    with pytest.raises(bearing.ShapeError):
        bearing.turn(rows, x, 3, side="key", out=np.zeros((BATCH, HEADS, K_LEN, DIM + 1)))


def test_rows_are_turned_in_either_layout(rng):
    rows = examples(rng)["FopeRows"].encoding
    x = rng.standard_normal((BATCH, HEADS, K_LEN, DIM))
    turned = bearing.turn(rows, x, side="query")
    swapped = bearing.turn(rows, np.swapaxes(x, 1, 2), side="query", layout="bthd")
    assert swapped.shape == (BATCH, K_LEN, HEADS, DIM)
    np.testing.assert_array_equal(np.swapaxes(swapped, 1, 2), turned)


def test_pope_doubles_the_rows(rng):
    rows = examples(rng)["PopeRows, without offsets"].encoding
    assert bearing.turn(rows, rng.standard_normal((K_LEN, DIM)), side="query").shape == (K_LEN, 2 * DIM)


@pytest.mark.parametrize("threads", [1, 2, 0])
def test_threads_change_no_bit_of_a_gradient(rng, threads):
    example = examples(rng)["DebertaTerm"]
    q, k, v = queries_and_keys(rng)
    call = dict(q_positions=example.q_positions, mask="none")
    out, lse = bearing.attention(q, k, v, example.encoding, **call, return_lse=True)
    one = bearing.attention_backward(q, k, v, out, lse, out, example.encoding, **call)
    many = bearing.attention_backward(q, k, v, out, lse, out, example.encoding, **call, threads=threads)
    for a, b in zip(one[:3], many[:3], strict=True):
        np.testing.assert_array_equal(a, b)
    for parameter, gradient in one[3][0].items():
        np.testing.assert_array_equal(many[3][0][parameter], gradient)


def test_fewer_than_no_threads_are_a_range_error():
    with pytest.raises(
        bearing.RangeError, match=r"^\[bias_matrix\] threads: must be at least 0 \(0 for all\), got -1$"
    ):
        bearing.bias_matrix(None, heads=1, q_len=1, k_len=1, threads=-1)


@pytest.mark.parametrize("name", NAMES)
def test_what_an_encoding_was_made_of_are_its_attributes(rng, name):
    encoding = examples(rng)[name].encoding
    for argument, value in encoding.arguments.items():
        assert getattr(encoding, argument) is value, argument
    with pytest.raises(AttributeError):
        setattr(encoding, next(iter(encoding.arguments)), None)


def test_errors_of_a_parameter_name_its_encoding(rng):
    q, k, v = queries_and_keys(rng)
    bias = bearing.T5Bias(bearing.T5(buckets=8, direction="causal"), np.ones((8, HEADS), np.float32))
    with pytest.raises(
        TypeError, match=r"\[attention\] T5.table: must be float64, the arithmetic of this call, got fl"
    ):
        bearing.attention(q, k, v, bias, mask="none")
    with pytest.raises(bearing.ShapeError, match=r"\[attention\] T5.table: must be \[buckets, heads\]"):
        bearing.attention(q, k, v, bias.replace(table=np.ones((7, HEADS))), mask="none")
    with pytest.raises(
        TypeError,
        match=r"\[inputs\] encoding: must be an encoding, got T5.*; T5Bias\(spec, …\) makes an encoding of it",
    ):
        bearing.inputs(bias.spec, time=3)


def test_scores_refuse_encodings_that_turn_rows() -> None:
    rope = bearing.Rope(head_dim=8, pairing="half")
    shaw = bearing.ShawTerm(bearing.Shaw(clip=2), np.zeros((5, 8)))
    x, scores = np.ones((1, 2, 4, 8)), np.zeros((1, 2, 4, 4))
    text = r"encodings: must add to scores, as q and k are turned \(rotate, turn\) before they are multiplied, got one that "
    with pytest.raises(bearing.ShapeError, match=rf"^\[add_scores\] {text}turns them as number 1 of 2$"):
        bearing.add_scores([rope, shaw], scores, q=x, k=x)
    with pytest.raises(bearing.ShapeError, match=rf"^\[add_scores_backward\] {text}turns them as number 2 of 2$"):
        bearing.add_scores_backward([shaw, rope], scores, q=x, k=x)
    with pytest.raises(bearing.ShapeError, match=rf"^\[bias_matrix\] {text}turns them as number 1 of 1$"):
        bearing.bias_matrix(rope, heads=2, q_len=4, k_len=4)
    assert not scores.any()
