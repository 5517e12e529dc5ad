"""Errors begin with the name of the function that was called, or of the spec that is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import bearing as b
import numpy as np
import pytest

HEADS, TIME, DIM = 2, 3, 8


class Call(NamedTuple):
    """A right call, whose arguments are replaced one by one."""

    name: str
    arguments: dict[str, Any]


def rows(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(0.5, 1, shape or (1, HEADS, TIME, DIM)).astype(np.float32)


def calls() -> Iterator[Call]:
    rope = b.Rope(head_dim=DIM, pairing="half")
    table, frequencies = b.RopeTable(rope, 16), b.resolve(rope)
    at = np.arange(TIME)
    bias = b.T5Bias(b.T5(buckets=8, max_distance=6, direction="causal"), rows(8, HEADS))
    shaw = b.ShawTerm(b.Shaw(clip=2), rows(5, DIM), rows(5, DIM))
    pope = b.PopeRows(b.Pope(head_dim=DIM), -rows(1, DIM), group=HEADS)
    sinusoids = b.SinusoidalInputs(b.Sinusoidal(dim=DIM, layout="interleaved"), scale=rows(1))
    out, lse = b.attention(rows(), rows(), rows(), mask="none", return_lse=True)
    scores = rows(1, HEADS, TIME, TIME)
    swin = b.SwinV2(window=b.Swin(height=3, width=2))
    network = {"w1": rows(4, 2), "b1": rows(4), "w2": rows(HEADS, 4)}
    masked = {"q_positions": at, "k_positions": at, "mask": "none", "layout": "bhtd", "threads": 1}
    options = masked | {
        "window": (2, 0), "scale": 1.0, "soft_cap": 2.0, "sinks": rows(HEADS), "k_lengths": np.array([TIME]),
        "key_mask": np.ones((1, TIME), bool), "visible": np.ones((1, HEADS, TIME, TIME), bool),
    }  # fmt: skip
    packed = {"q_starts": np.array([0, TIME]), "k_starts": np.array([0, TIME])}
    turned = {"positions": at, "layout": "bhtd", "threads": 1}
    pair = {"x": rows(TIME, DIM), "y": rows(TIME, DIM)}
    yield Call("attention", {"q": rows(), "k": rows(), "v": rows(), "encodings": [bias]} | options)
    yield Call("attention", {"q": rows(), "k": rows(), "v": rows(), "encodings": shaw} | masked | packed)
    yield Call("attention", {"q": rows(), "k": rows(), "v": rows(), "encodings": pope, "out_dtype": "float32"} | masked)
    yield Call(
        "attention",
        {"q": rows(), "k": rows(), "v": rows(), "mask": "none", "block_table": np.array([[0]]),
         "k_lengths": np.array([TIME])},
    )  # fmt: skip
    yield Call(
        "attention_backward",
        {"q": rows(), "k": rows(), "v": rows(), "out": out, "lse": lse, "d_out": out, "encodings": [bias, shaw],
         "d_lse": lse} | options,
    )  # fmt: skip
    yield Call("merge", {"part": out, "part_lse": lse, "out": out.copy(), "lse": lse.copy(), "threads": 1})
    linear = {"q": rows(), "k": rows(), "v": rows(), "encodings": b.RotaryRows(table), "feature_map": "elu_plus_one"}
    yield Call("linear_attention", linear | masked)
    yield Call("linear_attention_backward", linear | masked | {"d_out": rows()})
    yield Call(
        "add", {"encoding": sinusoids, "x": rows(TIME, DIM), "positions": at, "out": rows(TIME, DIM), "threads": 1}
    )
    yield Call("add_backward", {"encoding": sinusoids, "d_x": rows(TIME, DIM), "positions": at, "threads": 1})
    yield Call("fill", {"encoding": sinusoids, "positions": at, "rows": rows(TIME, DIM), "threads": 1})
    yield Call("inputs", {"encoding": sinusoids, "positions": at, "time": TIME, "dtype": "float32", "threads": 1})
    yield Call("inputs", {"encoding": sinusoids, "positions": at, "like": rows(1)})
    side = {"positions": at, "side": "key", "layout": "bhtd", "threads": 1}
    yield Call("turn", {"encoding": pope, "x": rows(), "out": rows(1, HEADS, TIME, 2 * DIM)} | side)
    yield Call("turn_backward", {"encoding": pope, "x": rows(), "d_y": rows(1, HEADS, TIME, 2 * DIM)} | side)
    places = {"q_positions": at, "k_positions": at, "threads": 1}
    lengths = {"heads": HEADS, "q_len": TIME, "k_len": TIME}
    yield Call("bias_matrix", {"encodings": bias, "dtype": "float32"} | places | lengths)
    looking = {"q": rows(), "k": rows(), "scale": 1.0, "layout": "bhtd"} | places
    yield Call("add_scores", {"encodings": [bias, shaw], "scores": scores} | looking)
    yield Call("add_scores_backward", {"encodings": [bias, shaw], "d_scores": scores} | looking)
    yield Call("add_values", {"encodings": shaw, "p": scores, "out": rows(), "layout": "bhtd"} | places)
    yield Call("add_values_backward", {"encodings": shaw, "p": scores, "d_out": rows(), "layout": "bhtd"} | places)
    yield Call("rotate", {"table": table, "x": rows()} | turned)
    yield Call("rotate", {"table": table, "q": rows(), "k": rows(), "k_positions": at} | turned)
    yield Call("rotate_to", {"table": table, "x": rows()} | turned)
    yield Call("rotate_backward", {"table": table, "d": rows()} | turned)
    yield Call("rotate_backward_to", {"table": table, "d_out": rows()} | turned)
    yield Call("shift", {"frequencies": frequencies, "by": 2, "k": rows(), "layout": "bhtd", "threads": 1})
    moved = {"old_positions": at, "new_positions": at, "k": rows(), "layout": "bhtd", "threads": 1}
    yield Call("rebase", {"from_": frequencies, "to": frequencies} | moved)
    xpos = b.Xpos(rope=rope)
    yield Call("rebase", {"xpos": xpos} | moved)
    yield Call("xpos_decay", {"xpos": xpos})
    yield Call("XposTable", {"xpos": xpos, "length": 4, "dtype": "float32", "threads": 1})
    yield Call("RopeTable", {"rope": rope, "length": 4, "angles": "exact", "dtype": "float32", "memory": "full",
                             "seq_len": 4, "threads": 1})  # fmt: skip
    yield Call("rotate_parameter_gradients", {"frequencies": frequencies, "y": rows(), "d_y": rows()} | turned)
    yield Call("base_gradient", {"rope": rope, "d_inv_freq": np.ones(DIM // 2), "seq_len": 4})
    yield Call("cos_sin", {"frequencies": frequencies, "positions": at, "length": TIME, "dtype": "float32",
                           "threads": 1})  # fmt: skip
    yield Call("resolve", {"rope": rope, "seq_len": 4, "angles": "exact"})
    yield Call("resolve_explicit", {"rope": rope, "inv_freq": np.ones(DIM // 2), "attention_factor": 1.0})
    yield Call("high_frequency", {"frequencies": frequencies, "trained_length": 100})
    yield Call("negative_angle", {"frequencies": frequencies})
    yield Call("scaling_name", {"scaling": b.LinearScaling(factor=2)})
    yield Call("depends_on_length", {"scaling": b.LinearScaling(factor=2)})
    yield Call("rope_warnings", {"rope": rope, "trained": 8, "longest": 16, "seq_len": 8})
    yield Call("float32_angle_error", {"rope": rope, "length": 8, "seq_len": 8})
    yield Call("wavelengths", {"frequencies": frequencies})
    yield Call("pair_runs", {"frequencies": frequencies})
    yield Call("unfinished_pairs", {"frequencies": frequencies, "length": 8})
    yield Call("rotation_similarity", {"frequencies": frequencies, "length": 8})
    yield Call("resize", {"table": rows(4, DIM), "rows": 6, "how": "linear", "prefix": 1})
    yield Call("resize_grid", {"table": rows(7, DIM), "from_grid": (2, 3), "to_grid": (3, 3), "how": "cubic",
                               "prefix": 1})  # fmt: skip
    yield Call("grid_positions", {"height": 2, "width": 3, "first": 0.0, "span": 1.0, "eps": 1e-6})
    yield Call("cape_positions", {"spec": b.Cape(dim=DIM), "positions": at, "time": TIME, "batch": 1, "training": 7})
    yield Call("cape_positions", {"spec": b.Cape2d(dim=DIM), "height": 2, "width": 2, "batch": 1, "training": 7})
    yield Call("sinusoidal_columns", {"spec": sinusoids.spec})
    yield Call("sinusoidal_frequencies", {"spec": sinusoids.spec})
    yield Call("sinusoidal_column_order", {"from_layout": "interleaved", "to_layout": "concatenated", "dim": DIM})
    yield Call("sinusoidal_base_gradient", {"spec": sinusoids.spec, "d_frequencies": np.ones(DIM // 2)})
    yield Call("encoding", {"text": "t5:direction=causal", "heads": HEADS, "dim": 8})
    yield Call("t5_thresholds", {"spec": bias.spec})
    yield Call("t5_bucket", {"spec": bias.spec, "distance": -3})
    yield Call("swin_v2_coordinates", {"spec": swin})
    yield Call("swin_v2_table", {"spec": swin} | network)
    yield Call("swin_v2_table_backward", {"spec": swin, "d_table": rows(15, HEADS)} | network)
    gate = {"x": rows(), "weight": rows(8, DIM), "bias": rows(8), "constant": rows(HEADS)}
    yield Call("wavlm_gate", gate)
    yield Call("wavlm_gate_backward", gate | {"d_gate": rows(1, HEADS, TIME)})
    xl = b.TransformerXL()
    yield Call("transformer_xl_relative", {"spec": xl, "w_r": rows(HEADS * DIM, 6), "heads": HEADS, "offsets": TIME,
                                           "base": 100.0})  # fmt: skip
    yield Call("transformer_xl_relative_backward", {"spec": xl, "d_r": rows(HEADS, TIME, DIM), "d_model": 6,
                                                    "base": 100.0})  # fmt: skip
    yield Call("deberta_bucket", {"spec": b.Deberta(), "distance": 3})
    yield Call("deberta_softmax_scale", {"spec": b.Deberta(), "dim": DIM})
    yield Call("tupe_softmax_scale", {"dim": DIM})
    mixed = b.RopeMixed(head_dim=DIM, pairing="half")
    yield Call("rope_mixed_frequencies", {"spec": mixed, "heads": HEADS, "seed": 1, "base": 10.0})
    yield Call("fope_frequencies", {"spec": b.Fope(head_dim=DIM, trained_length=64, pairing="half")})
    yield Call("fourier_octaves", {"axes": 2, "octaves": 3})
    yield Call("fourier_bands", {"resolutions": [8.0, 4.0], "bands": 3})
    size = {"heads": 2, "dim": DIM, "length": 16, "seed": 1}
    yield Call("check", {"encoding": "alibi"} | size)
    yield Call("compare", {"encoding": "alibi"} | size)
    yield Call("choose", {"task": "generate", "trained": 16, "wanted": 64, "causal": True, "axes": 1, "kernel": "any",
                          "learned": True, "tuning": False, "memory": 2**20, "model": "alibi", "heads": 2, "dim": DIM,
                          "seed": 1})  # fmt: skip
    for name in ("sequential_colour", "diverging_colour", "family_colour"):
        yield Call(name, {"x": [0.0, 0.5]})
    yield Call("similarity", {"x": rows(DIM), "y": rows(DIM)})
    yield Call("products", pair)
    yield Call("decay", {"curve": np.linspace(1, 0, 9)})
    yield Call("shift_map", {"rows": np.random.default_rng(0).standard_normal((9, 4)), "offset": 2})
    yield Call("pair_shift_map", {"frequency": 1.0, "offset": 2.0})
    yield Call("runs", {"values": np.ones(4), "first": 0})
    yield Call("correlations", {"words": rows(TIME, DIM), "positions": rows(TIME, DIM), "w_q": rows(DIM, DIM),
                                "w_k": rows(DIM, DIM)})  # fmt: skip
    yield Call("use_simd_target", {"name": b.simd_target()})
    yield Call("apply_rope", {"x": rows(TIME, DIM), "positions": at})
    yield Call("rotary_embedding", {"dim": DIM, "seq_len": 4})
    yield Call("sinusoidal_encoding", {"seq_len": 4, "d_model": DIM})
    yield Call("alibi_bias", {"seq_len": 4, "num_heads": HEADS})


CALLS = list(calls())
TABLE = b.RopeTable(b.Rope(head_dim=DIM, pairing="half"), 16)
WRONG = [
    None, "nothing", 1.5, -1, 2**40, 2**62, (), (-5, 2, 7), object(), np.ones(5, np.float32), np.ones((2, 7)),
    np.ones((3, 5, 7, 9), np.float32), np.ones((3, 5, 7), np.float32), np.ones(4, np.int64), np.ones((2, 2), bool),
    np.full(TIME, np.nan), np.array([7, -9, 2**40]), np.ones((4, 1, TIME)), b.AlibiBias(slopes=rows(5)),
    b.LearnedInputs(b.Learned(length=2, dim=DIM), rows(2, DIM)),
    b.SinusoidalInputs(b.Sinusoidal(dim=5, layout="interleaved")), b.PopeRows(b.Pope(head_dim=5)), b.Sandwich(),
    b.Shaw(clip=-1), b.Rope(pairing="half"), b.Rope(head_dim=DIM, base=-1, pairing="half"),
    b.Xpos(rope=b.Rope(head_dim=7, pairing="half")), b.RopeTable(b.Rope(head_dim=4, pairing="half"), 3),
    b.RopeTable(b.Rope(head_dim=DIM, pairing="half"), 3, dtype="float64"),
    b.T5(buckets=0, direction="causal"), b.Fope(pairing="half"), b.RopeMixed(pairing="half"), b.Cape(), b.Cape2d(),
    b.Deberta(max_relative_positions=-1), b.Sinusoidal(layout="interleaved"), b.SwinV2(), b.TransformerXL(clamp_len=-1),
    b.Cape(dim=DIM, position_scale=float("nan")),
    b.resolve(b.Rope(head_dim=6, pairing="interleaved")),
]  # fmt: skip


# What else errors may name. A Rope that is wrong is refused by resolve(), other specs by their own names; what makes an
# encoding for measuring says so.
SPECS = {type(one).__name__ for one in WRONG if hasattr(one, "from_dict")}
CHECKS_OF_ROPE = {"resolve", "xpos_decay"}
EXAMPLES = {"make", *b.__all__}
MADE_OF = {
    "check": EXAMPLES,
    "compare": EXAMPLES,
    "choose": EXAMPLES,
    "rotary_embedding": {"RopeTable"},
    "alibi_bias": {"published"},
    "linear_attention": {"rotate"},
    "linear_attention_backward": {"rotate"},
}


def test_every_public_function_is_called() -> None:
    # Without arguments, or of files, whose errors name the file: test_io.py.
    others = {"simd_target", "simd_targets", "target", "catalog", "claims", "read_hf_config", "layer_groups"}
    others |= {
        "load",
        "read_figure",
        "read_gguf",
        "read_safetensors",
        "write_safetensors",
    }  # test_files.py, test_load.py
    others |= {"gguf_rope", "gguf_model", "gguf_bytes", "gguf_architecture_of", "gguf_architectures"}  # test_gguf.py
    others |= {"spell_hf_config", "older_reader_warnings", "hf_rope", "picture_positions"}  # test_dialects.py
    others |= {"palette", "figure_kinds", "document_figures", "figure"}  # the last one: test_figures.py
    functions = {name for name in b.__all__ if callable(getattr(b, name)) and not isinstance(getattr(b, name), type)}
    assert functions == {call.name for call in CALLS if call.name not in ("RopeTable", "XposTable")} | others


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_the_right_call_is_right(call: Call) -> None:
    getattr(b, call.name)(**call.arguments)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_what_is_refused_names_the_function_that_was_called(call: Call) -> None:
    allowed = {call.name} | SPECS | CHECKS_OF_ROPE | MADE_OF.get(call.name, set())
    refused = 0
    for argument in call.arguments:
        for wrong in WRONG:
            try:
                getattr(b, call.name)(**call.arguments | {argument: wrong})
            except MemoryError:
                continue  # what was asked for is too large for this machine
            except (TypeError, ValueError) as error:
                refused += 1
                text = str(error)
            else:
                continue
            if text.startswith("array is too big"):
                continue  # NumPy's own word for it
            named = re.match(r"\[([^\]]*)\] ", text)
            assert named, (argument, wrong, text)
            assert named[1] in allowed, (argument, wrong, text)
    assert refused > len(call.arguments)


def bound() -> dict[str, Any]:
    """Functions, constructors and methods that the extension binds, by what errors call them."""
    found = {}
    for name in dir(b._core):
        one = getattr(b._core, name)
        if type(one).__name__ == "nb_func":
            found[name] = one
        elif isinstance(one, type) and hasattr(one.__init__, "__nb_signature__"):
            found[name] = one
            methods = {f"{name}.{key}": getattr(one, key) for key in vars(one) if not key.startswith("_")}
            found |= {key: method for key, method in methods.items() if type(method).__name__ == "nb_func"}
    for one in (b.T5Bias(b.T5(direction="causal"), rows(32, HEADS)), b.Rope(pairing="half"), b.Alibi.published(2)):
        found |= {
            f"{type(one).__name__}.{key}": getattr(one, key) for key in ("replace", "to_dict") if hasattr(one, key)
        }
    return found


BOUND = bound()
NONSENSE: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}), ((), {"nothing_of_that_name": 1}), ((None,), {}), ((None, None), {}), ((object(),) * 3, {}), ((1.5,) * 2, {}),
    (("text",) * 4, {}), ((object(),) * 30, {}), ((2**70,) * 2, {}),
]  # fmt: skip


@pytest.mark.parametrize("name", BOUND)
def test_no_call_is_refused_in_the_words_of_the_bindings(name: str) -> None:
    for args, named in NONSENSE:
        try:
            BOUND[name](*args, **named)
        except (TypeError, ValueError) as error:
            assert "incompatible function arguments" not in str(error), (args, named)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: b.RopeTable(CALLS), "[RopeTable] length: must be given, int"),
        (lambda: b.RopeTable(b.Rope(pairing="half"), 1.5), "[RopeTable] length: must be int, got 1.5"),
        (lambda: b.RopeTable(b.Rope(pairing="half"), 2**70), f"[RopeTable] length: must be int, got {2**70}"),
        (lambda: b.RopeTable(None, 4), "[RopeTable] rope: must be Rope | RopeFrequencies, got None"),
        (
            lambda: b.RopeTable(b.Rope(pairing="half"), 4, "float32"),
            "[RopeTable] takes (rope, length, *, dtype, angles, memory, seq_len, threads), got 3 arguments",
        ),
        (
            lambda: b.RopeTable(b.Rope(pairing="half"), 4, dtyp="float32"),
            "[RopeTable] has no argument dtyp; it takes (rope, length, *, dtype, angles, memory, seq_len, threads)",
        ),
        (lambda: b.RopeTable(b.Rope(pairing="half"), 4, length=4), "[RopeTable] got its argument length twice"),
        (
            lambda: b.rotate_to(TABLE, rows(), layout=None),
            "[rotate_to] layout: must be one of 'bhtd', 'bthd', got None",
        ),
        (lambda: b.use_simd_target(3), "[use_simd_target] name: must be str, got 3"),
        (lambda: b.use_simd_target(), "[use_simd_target] name: must be given, str"),
        (lambda: b.xpos_decay(TABLE), "[xpos_decay] xpos: must be Xpos, got RopeTable"),
        (lambda: b.Rope.from_dict([1]), "[Rope.from_dict] members: must be dict[str, Any], got list"),
    ],
)
def test_a_call_that_does_not_fit_a_signature_says_what_must_hold(call: Any, text: str) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: b.inputs(CALLS[0].arguments["encodings"][0], time=3), "[inputs] encoding: must be an encoding of the"),
        (lambda: b.sinusoidal_encoding(-1, 8), "[sinusoidal_encoding] seq_len: must be at least 0, got -1"),
        (lambda: b.sinusoidal_encoding(4, 1), "[sinusoidal_encoding] d_model: must be from 2 to 65536, got 1"),
        (lambda: b.rotary_embedding(4, 7), "[rotary_embedding] dim: must be even where all of it turns, got 7"),
        (lambda: b.rotary_embedding(-1, 8), "[rotary_embedding] seq_len: must be from 0 to 2^31, got -1"),
        (lambda: b.apply_rope(rows(3, 8), 2**40), "[apply_rope] positions: must be from -2^31 to"),
        (lambda: b.alibi_bias(-1, 8), "[alibi_bias] seq_len: must be at least 0, got -1"),
        (lambda: b.alibi_bias(4, 2**40), "[alibi_bias] num_heads: must be from 1 to 2^20, got 1099511627776"),
        (lambda: b.rotate_to(TABLE, rows(3, 7)), "[rotate_to] x: must have a last extent of head_dim = 8, got 7"),
        (
            lambda: b.linear_attention(rows(), rows(), rows(), b.AlibiBias(b.Alibi.published(HEADS)), mask="none"),
            "[linear_attention] encodings: must all be encodings of rows",
        ),
        (lambda: b.resize(rows(3, 4), 5, how="linear", prefix=9), "[resize] table: must have rows after the prefix of"),
        (lambda: b.resize(rows(3, 4), 0, how="linear", prefix=1), "[resize] rows: must be at least prefix = 1, got 0"),
        (
            lambda: b.resize_grid(rows(7, 8), (2, 4), (3, 3), how="cubic", prefix=1),
            "[resize_grid] table: must be [prefix + patches of from_grid, dim] = [9, dim], got shape [7, 8]",
        ),
        (
            lambda: b.correlations(rows(3, 4), rows(3, 4), rows(4, 2)),
            "[correlations] w_q, w_k: must have the same head",
        ),
        (lambda: b.check("t5", heads=0), "[check] heads: must be from 1 to 1048576, got 0"),
        (
            lambda: b.add(b.SinusoidalInputs(b.Sinusoidal(dim=DIM, layout="interleaved")), rows(3, 8), out=rows(2, 8)),
            "[add] out: must be of x's shape [3, 8], got shape [",
        ),
    ],
)
def test_errors_of_functions_that_are_made_of_others_speak_of_their_own_arguments(call: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    assert str(caught.value).startswith(text)
