"""The package: what it exports, its version and target, help, the calls of tutorials, references, forks, threads."""

from __future__ import annotations

import ast
import inspect
import json
import math
import os
import platform
import pydoc
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bearing
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[2]
PACKAGE = Path(bearing.__file__).parent


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_version_is_that_of_the_headers() -> None:
    header = (ROOT / "include" / "bearing" / "version.hpp").read_text()
    numbers = re.findall(r"#define BEARING_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header)
    assert bearing.__version__ == ".".join(numbers)


def test_every_public_name_is_exported_and_says_what_it_is() -> None:
    assert not {"Any", "TYPE_CHECKING", "annotations", "import_module"} & set(bearing.__all__)
    for name in bearing.__all__:
        if name != "__version__":
            assert len(getattr(bearing, name).__doc__ or "") > 10, name


def test_every_public_name_is_in_the_stub_with_its_text() -> None:
    assert (PACKAGE / "py.typed").exists()
    stub = ast.parse((PACKAGE / "_core.pyi").read_text())
    texts: dict[str, list[str]] = {}  # of a function with overloads each one's
    for node in stub.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            texts.setdefault(node.name, []).append(ast.get_docstring(node) or "")
    public = {name for name in dir(bearing._core) if not name.startswith("_")}
    assert set(texts) == public
    for name, found in texts.items():
        assert all(len(text) > 10 for text in found), name


def test_modules_of_pytorch_have_the_stub_that_they_are_made_with() -> None:
    import bearing.torch as bt

    stub = ast.parse((PACKAGE / "torch" / "modules.pyi").read_text())
    classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
    imported = {one.name for node in stub.body if isinstance(node, ast.ImportFrom) for one in node.names if one.asname}
    assert not classes.keys() & imported and classes.keys() | imported == set(bt.modules.__all__)
    for name, node in classes.items():
        made = getattr(bt, name)
        assert (ast.get_docstring(node) or "").strip() == inspect.getdoc(made) and len(made.__doc__) > 20, name
        assert [ast.unparse(base) for base in node.bases] == [base.__name__ for base in made.__bases__], name
        (init,) = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
        asked = [one.arg for one in (*init.args.args, *init.args.kwonlyargs)]
        assert asked == ["self", *inspect.signature(made).parameters], name


def test_functions_of_bearing_plot_have_the_stub_that_they_are_made_with() -> None:
    import bearing.plot

    stub = ast.parse((PACKAGE / "plot.pyi").read_text())
    functions = {node.name: node for node in stub.body if isinstance(node, ast.FunctionDef)}
    assert set(functions) == set(bearing.plot.__all__) and len(functions) > 1
    for name, node in functions.items():
        made = getattr(bearing.plot, name)
        assert ast.get_docstring(node) == inspect.getdoc(made), name
        asked = [*node.args.args, *([node.args.vararg] if node.args.vararg else []), *node.args.kwonlyargs]
        assert [one.arg for one in asked] == list(inspect.signature(made).parameters), name


def test_what_bearing_jax_finds_by_itself_is_in_its_stub() -> None:
    folder = PACKAGE / "jax" / "layers"
    stub = ast.parse((folder / "__init__.pyi").read_text())
    read = {node.module for node in stub.body if isinstance(node, ast.ImportFrom)}
    assert read == {file.stem for file in folder.glob("[a-z]*.py")} != set()
    assert {"swin_v2_table", "transformer_xl_relative"} < set(bearing.jax.__all__)
    assert all(callable(getattr(bearing.jax, name)) for name in bearing.jax.__all__)


@pytest.mark.parametrize("name", ["typed_user.py", "typed_torch_user.py"])
def test_a_strict_type_checker_takes_what_users_write_and_refuses_what_is_wrong(name: str, tmp_path: Path) -> None:
    program = Path(__file__).with_name(name)
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "--config-file", os.devnull]
    checked = subprocess.run([*mypy, str(program)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    config = ROOT / "examples" / "models" / "llama-3.1-8b.json"
    subprocess.run([sys.executable, str(program), str(config)], cwd=tmp_path, check=True)


def test_a_build_that_lacks_libraries_names_their_packages() -> None:
    hidden = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("hwy", "Boost", "RapidJSON", "TBB", "CLI11", "fmt")]
    build = ["cmake", *hidden, "-P", str(ROOT / "python" / "requirements.cmake")]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    packages = "libhwy-dev libboost-dev rapidjson-dev libtbb-dev libcli11-dev libfmt-dev"
    assert f"Missing here: {packages}." in said
    assert f"apt install {packages}." in said


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("Rope", ("arXiv 2104.09864", "head_dim", "radians per token", "RopeTable", "pairing")),
        ("T5", ("arXiv 1910.10683", "relative_attention_num_buckets", "tokens", "'causal'", "[buckets, heads]")),
        ("attention", ("[batch, heads, q_len, dim]", "1/sqrt(dim)", "by positions", "in tokens", "ShapeError")),
        ("rebase", ("[batch, kv_heads, time, head_dim]", "Positions", "in place", "ShapeError")),
    ],
)
def test_help_has_shapes_units_and_sources(name: str, parts: tuple[str, ...]) -> None:
    text = " ".join(pydoc.plain(pydoc.render_doc(getattr(bearing, name))).split())
    for part in parts:
        assert part in text, part


def test_the_instruction_set_can_be_chosen_and_named() -> None:
    here = bearing.target()
    assert here["used"] in here["available"]
    last = here["available"][-1]  # which every machine of this kind runs
    assert last == ("scalar" if platform.machine() == "x86_64" else "neon")
    one = run("import bearing; print(bearing.target()['used'])", BEARING_TARGET=last)
    assert one.stdout.strip() == last, one.stderr


def test_results_are_the_same_bits_on_every_instruction_set() -> None:
    code = (
        "import bearing, numpy as np, hashlib;"
        "x = np.random.default_rng(0).standard_normal((2, 3, 17, 64), np.float32);"
        "t = bearing.RopeTable(bearing.Rope(head_dim=64, pairing='half'), 32);"
        "bearing.rotate(t, x); print(hashlib.sha256(x.tobytes()).hexdigest())"
    )
    found = {run(code, BEARING_TARGET=name).stdout for name in bearing.simd_targets()}
    assert len(found) == 1 and found != {""}


# The calls of tutorials, as they are written there.


def test_the_documents_calls_run_as_written_with_numpy() -> None:
    from bearing import alibi_bias, apply_rope, rotary_embedding, sinusoidal_encoding

    seq_len, d_model, num_heads, d_k = 100, 64, 8, 64
    rng = np.random.default_rng(0)
    X = rng.standard_normal((seq_len, d_model), np.float32)
    Q, K = rng.standard_normal((2, seq_len, d_k), np.float32)
    positions = np.arange(seq_len)

    pos_enc = sinusoidal_encoding(seq_len, d_model)
    X = X + pos_enc
    assert X.shape == (seq_len, d_model) and X.dtype == np.float32

    Q_rotated = apply_rope(Q, positions)
    K_rotated = apply_rope(K, positions)
    scores = Q_rotated @ K_rotated.T / np.sqrt(d_k)
    assert scores.shape == (seq_len, seq_len)

    scores = Q @ K.T / np.sqrt(d_k)
    scores = scores + alibi_bias(seq_len, num_heads)
    assert scores.shape == (num_heads, seq_len, seq_len)

    cos, sin = rotary_embedding(seq_len, d_k)
    assert cos.shape == sin.shape == (seq_len, d_k // 2)


def test_the_documents_calls_run_as_written_with_jax_numpy() -> None:
    from bearing import alibi_bias, apply_rope, sinusoidal_encoding

    seq_len, d_model, num_heads, d_k = 100, 64, 8, 64
    X = jnp.ones((seq_len, d_model), jnp.float32)
    Q = K = jnp.ones((seq_len, d_k), jnp.float32)
    positions = jnp.arange(seq_len)
    assert isinstance(X + sinusoidal_encoding(seq_len, d_model), jnp.ndarray)
    Q_rotated = apply_rope(Q, positions)
    K_rotated = apply_rope(K, positions)
    scores = Q_rotated @ K_rotated.T / jnp.sqrt(d_k)
    assert isinstance(scores, jnp.ndarray)
    assert isinstance(scores + alibi_bias(seq_len, num_heads), jnp.ndarray)


def test_the_documents_calls_run_with_torch() -> None:
    from bearing import alibi_bias, apply_rope, sinusoidal_encoding

    seq_len, d_model, num_heads, d_k = 100, 64, 8, 64
    X = torch.ones(seq_len, d_model, requires_grad=True)
    X = X + sinusoidal_encoding(seq_len, d_model, like=X)
    Q = K = torch.ones(seq_len, d_k)
    positions = torch.arange(seq_len)
    Q_rotated = apply_rope(Q, positions)
    K_rotated = apply_rope(K, positions)
    scores = Q_rotated @ K_rotated.T / math.sqrt(d_k)
    scores = scores + alibi_bias(seq_len, num_heads, like=scores)
    assert isinstance(scores, torch.Tensor) and scores.shape == (num_heads, seq_len, seq_len)
    assert X.requires_grad


def test_the_documents_worked_example_has_its_numbers() -> None:
    example = json.loads((ROOT / "tests/golden/seeds/worked_examples.json").read_text())["seed_003_worked_example"]
    wanted = [float(number) for number in example["exact"]]
    q = np.array(example["q"], np.float64)
    # Its frequencies [1, 0.1] are those of base 100.
    got = bearing.apply_rope(q, example["m"], base=100)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=4 * np.finfo(np.float64).eps)
    np.testing.assert_allclose(bearing.apply_rope(torch.tensor(q), torch.tensor(2), base=100), wanted, rtol=1e-15)


def test_a_sinusoidal_table_is_the_papers_formula() -> None:
    got = bearing.sinusoidal_encoding(50, 10, dtype="float64")
    p, i = np.arange(50)[:, None], np.arange(5)
    angle = p * 10_000.0 ** (-2 * i / 10)
    wanted = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(50, 10)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=50 * 2 * np.finfo(np.float64).eps)


@pytest.mark.parametrize("heads", [8, 12])
def test_alibis_matrix_is_slope_times_distance(heads: int) -> None:
    slopes = np.array(bearing.Alibi.published(heads).slopes)
    distance = np.abs(np.arange(20)[:, None] - np.arange(20))
    wanted = -slopes[:, None, None] * distance
    np.testing.assert_allclose(bearing.alibi_bias(20, heads, dtype="float64"), wanted, rtol=4e-16)
    if heads == 8:
        assert slopes[0] == 0.5 and slopes[-1] == 2.0**-8
    causal = bearing.alibi_bias(20, heads, form="causal", dtype="float64")
    assert np.array_equal(causal, np.tril(np.broadcast_to(wanted, causal.shape)) + 0.0)


def test_a_rotated_tensor_keeps_its_gradient() -> None:
    x = torch.randn(3, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: bearing.apply_rope(x, torch.tensor([4, 0, 2])), x)


# What long-running programs need.

LOOP = """
import gc, resource, sys
import numpy as np
import bearing

table = bearing.RopeTable(bearing.Rope(head_dim=8, pairing="half"), 16)
x, k, at = np.ones((1, 1, 1, 8), np.float32), np.ones((1, 1, 1, 8), np.float32), np.array([3])
encoding = bearing.AlibiBias(bearing.Alibi.published(1))
objects = (table, x, at, encoding, x.dtype, bearing.Rope, np.float32, None, "bhtd")


def wrong():
    try:
        bearing.rotate(table, x, at, layout="none")
    except ValueError:
        return
    raise SystemExit("a wrong call was taken")


def calls(n):
    for _ in range(n):
        bearing.rotate(table, x, at)
        bearing.rotate(table, x, k, 1, layout="bhtd")
        bearing.rotate_to(table, x)


def slower_calls(n):
    for _ in range(n):
        wrong()
        table.cos
        table.frequencies
        bearing.attention(x, x, x, [encoding], mask="causal")
        bearing.Rope(head_dim=8, pairing="half").to_dict()


def memory():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()


calls(10_000), slower_calls(1_000)
counts, before = [sys.getrefcount(one) for one in objects], memory()
calls(330_000), slower_calls(5_000)
after = memory()
grown = [sys.getrefcount(one) - count for one, count in zip(objects, counts)]
assert all(abs(one) <= 4 for one in grown), grown
assert after - before < 2**20, after - before
print("stable")
"""


def test_a_million_calls_keep_no_references_and_no_memory() -> None:
    done = run(LOOP)
    assert done.stdout.strip() == "stable", done.stderr


FORK = """
import os, sys
import numpy as np
import bearing

table = bearing.RopeTable(bearing.Rope(head_dim=64, pairing="half"), 1024)
x = np.random.default_rng(0).standard_normal((2, 8, 1024, 64), np.float32)
wanted = bearing.rotate_to(table, x, threads=2)
child = os.fork()
if child == 0:
    same = all(np.array_equal(bearing.rotate_to(table, x, threads=n), wanted) for n in (1, 2, 0))
    os._exit(0 if same else 3)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert np.array_equal(bearing.rotate_to(table, x, threads=2), wanted)
print("forked")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_child_works_on() -> None:
    done = run(FORK)
    assert done.stdout.strip() == "forked", done.stderr


FORK_DURING_CALLS = """
import os, signal, threading, time
import numpy as np
import bearing

table = bearing.RopeTable(bearing.Rope(head_dim=64, pairing="half"), 1024)
x = np.random.default_rng(0).standard_normal((2, 8, 1024, 64), np.float32)
wanted = bearing.rotate_to(table, x, threads=1)
done = False

def work():
    while not done:
        bearing.rotate_to(table, x, threads=2)

other = threading.Thread(target=work)
other.start()
for round in range(20):
    time.sleep(0.001 * round)
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a child that hangs dies of it
        same = all(np.array_equal(bearing.rotate_to(table, x, threads=n), wanted) for n in (2, 3))
        os._exit(0 if same else 3)
    _, status = os.waitpid(child, 0)
    if status != 0:
        done = True
    assert status == 0, os.waitstatus_to_exitcode(status)
done = True
other.join()
print("forked")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_child_works_on_though_another_thread_was_inside_a_call() -> None:
    done = run(FORK_DURING_CALLS)
    assert done.stdout.strip() == "forked", done.stderr


def test_threads_that_call_at_once_get_the_results_of_one() -> None:
    rng = np.random.default_rng(7)
    table = bearing.RopeTable(bearing.Rope(head_dim=64, pairing="half"), 256)
    xs = [rng.standard_normal((1, 4, 256, 64), np.float32) for _ in range(8)]
    encodings = [bearing.RotaryRows(table), bearing.AlibiBias(bearing.Alibi.published(4))]

    def work(x: np.ndarray, threads: int) -> tuple[Any, Any]:
        turned = bearing.rotate_to(table, x, threads=threads)
        return turned, bearing.attention(x, x, x, encodings, mask="causal", threads=threads)

    wanted = [work(x, 1) for x in xs]
    got: list[Any] = [None] * len(xs)

    def call(i: int) -> None:
        for _ in range(5):
            got[i] = work(xs[i], 1 + i % 2)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(len(xs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, other in zip(got, wanted):
        assert np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1])


def test_the_interpreter_is_free_while_kernels_run() -> None:
    """Another thread gets on, although one call takes longer than several of the interpreter's switches."""
    table = bearing.RopeTable(bearing.Rope(head_dim=128, pairing="half"), 16)
    x = np.zeros((1, 8, 2048, 128), np.float32)
    done = threading.Event()
    steps_within_calls = 0

    def count() -> None:
        nonlocal steps_within_calls
        while not done.is_set():
            steps_within_calls += inside
            time.sleep(1e-4)  # lets the caller go on

    inside = 0
    thread = threading.Thread(target=count)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(60)  # no switch but those that a call itself allows
    try:
        thread.start()
        for _ in range(20):
            inside = 1
            bearing.attention(x, x, x, [bearing.RotaryRows(table)], mask="causal")
            inside = 0
            if steps_within_calls:
                break
    finally:
        sys.setswitchinterval(interval)
        done.set()
        thread.join()
    assert steps_within_calls > 0


def test_apply_rope_works_inside_transformations_of_jax() -> None:
    x = np.random.default_rng(5).standard_normal((10, 16), dtype=np.float32)
    wanted = bearing.apply_rope(x, np.arange(10))
    traced = jax.jit(lambda x, at: bearing.apply_rope(x, at))
    np.testing.assert_array_equal(traced(x, jnp.arange(10)), wanted)
    np.testing.assert_array_equal(jax.jit(lambda at: bearing.apply_rope(jnp.asarray(x), at))(jnp.arange(10)), wanted)
    np.testing.assert_array_equal(jax.vmap(lambda x: bearing.apply_rope(x, jnp.arange(10)))(x[None])[0], wanted)
    gradient = jax.grad(lambda x: (bearing.apply_rope(x, jnp.arange(10)) ** 2).sum())(jnp.asarray(x))
    np.testing.assert_allclose(gradient, 2 * x, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: bearing.apply_rope(x[0], np.array([2, 3])), bearing.ShapeError, r"positions: must be one.*\[2\]"),
        (lambda x: bearing.apply_rope(x, base="10"), TypeError, "base: must be a number, got '10'"),
        (lambda x: bearing.apply_rope(memoryview(x)), TypeError, "x: must be an array of NumPy, PyTorch or JAX"),
    ],
)
def test_apply_rope_refuses_by_name(call: Callable[[np.ndarray], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=r"\[apply_rope\] " + text):
        call(np.ones((4, 8), np.float32))


# Signatures, as inspect reads them.


def test_every_function_has_the_signature_that_help_shows() -> None:
    for name in bearing.__all__:
        if not callable(getattr(bearing, name)) or isinstance(getattr(bearing, name), type):
            continue
        assert inspect.signature(getattr(bearing, name)).return_annotation is not inspect.Signature.empty, name
    found = inspect.signature(bearing.attention)
    assert list(found.parameters)[:5] == ["q", "k", "v", "encodings", "mask"]
    assert found.parameters["mask"].default is inspect.Parameter.empty
    assert found.parameters["mask"].kind is inspect.Parameter.KEYWORD_ONLY
    assert found.parameters["soft_cap"].default == 0.0 and found.return_annotation == "Array | tuple[Array, Array]"
    found.bind(1, 2, 3, mask="none")
    assert str(inspect.signature(bearing.Alibi.published)).startswith("(heads: 'int', bias_max: 'float' = 8.0")


def test_overloads_have_the_signature_of_what_they_share() -> None:
    assert str(inspect.signature(bearing.rotate)) == "(table: 'RopeTable | Rope', *args, **kwargs) -> 'None'"


def test_classes_and_methods_have_signatures() -> None:
    assert list(inspect.signature(bearing.T5).parameters) == ["buckets", "max_distance", "direction"]
    assert inspect.signature(bearing.T5).parameters["direction"].default is inspect.Parameter.empty
    assert list(inspect.signature(bearing.T5Bias).parameters) == ["spec", "table"]
    assert list(inspect.signature(bearing.T5.replace).parameters) == ["self", "changes"]
    assert list(inspect.signature(bearing.T5(direction="causal").replace).parameters) == ["changes"]
    assert inspect.signature(bearing.RopeTable).parameters["dtype"].default == "float32"


LEAVE = """
import threading, time
import numpy as np
import bearing

x = np.ones((2, 8, 512, 64), np.float32)


def work():
    while True:
        bearing.attention(x, x, x, mask="none", threads=THREADS)


for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
print("left")
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_a_daemon_thread_inside_a_call_lets_the_interpreter_end(threads: int) -> None:
    for _ in range(3):
        done = run(LEAVE.replace("THREADS", str(threads)))
        assert (done.returncode, done.stdout, done.stderr) == (0, "left\n", "")


def test_the_functions_of_the_library_are_here_under_their_names() -> None:
    """But for what the guide says of Python: executors, layouts of memory, files of numbers and JSON, tools of tests."""
    named_otherwise = {
        "bhtd", "bthd", "threads", "parallel", "fill", "version", "encoding_name", "parse_hf_config", "parse_rope",
        "to_json", "read_npy", "write_npy", "pair_axes", "trained_length", "name", "find", "make", "sites", "growth", "same_file", "add_npy", "shares_memory",
        "mean_scores", "registry", "python_type", "parse_record", "closest",
        "find_figure_kind", "colour_of", "subject_of", "make_with",
        "say_encoding", "say_encodings", "example_size", "measured_size", "description_of", "keys_of", "set_member", "stands_for",
        "task_answers", "kernel_answers", "serves", "model_types_of", "lengths_of", "scaled_length",
    }  # fmt: skip
    declared = set()
    for header in (ROOT / "include" / "bearing").rglob("*.hpp"):
        if "reference" not in header.parts and header.stem != "reference":
            declared |= set(re.findall(r"^BEARING_EXPORT [^\n(]*?\b([a-z]\w*)\(", header.read_text(), re.MULTILINE))
    assert len(declared) > 60
    assert declared - set(bearing.__all__) - named_otherwise == set()
    assert not named_otherwise & set(bearing.__all__) - {"fill"}
