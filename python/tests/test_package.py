"""The package: what it exports, its version and target, help, stubs, signatures."""

from __future__ import annotations

import ast
import inspect
import os
import platform
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import bearing
import pytest
from interpreters import run

ROOT = Path(__file__).parents[2]
PACKAGE = Path(bearing.__file__).parent


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


def test_the_stub_is_of_what_was_built_and_not_of_a_package_that_is_installed(tmp_path: Path) -> None:
    stubgen = Path(pytest.importorskip("nanobind").__file__).with_name("stubgen.py")
    (tmp_path / "bearing").mkdir()
    (tmp_path / "bearing/_core.py").write_text("def built_now() -> None: ...\n")
    program, patterns = ROOT / "python/core_stub.py", ROOT / "python/stubs.txt"
    subprocess.run([sys.executable, program, ".", "_core.pyi", stubgen, patterns], cwd=tmp_path, check=True, timeout=60)
    assert "def built_now() -> None:" in (tmp_path / "_core.pyi").read_text()


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


def test_a_strict_type_checker_takes_what_users_write_and_refuses_what_is_wrong(tmp_path: Path) -> None:
    programs = [str(Path(__file__).with_name(name)) for name in ("typed_user.py", "typed_torch_user.py")]
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "--config-file", os.devnull]
    checked = subprocess.run([*mypy, *programs], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    config = ROOT / "examples" / "models" / "llama-3.1-8b.json"
    for program in programs:
        subprocess.run([sys.executable, program, str(config)], cwd=tmp_path, check=True)


def test_an_import_leaves_pytorchs_compiler_where_it_is() -> None:
    program = "import sys, bearing.torch; sys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_build_that_lacks_libraries_names_their_packages() -> None:
    hidden = [
        f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("hwy", "Boost", "RapidJSON", "TBB", "CLI11", "fmt")
    ]
    for tool, packages in (
        ("ON", "libhwy-dev libboost-dev rapidjson-dev libtbb-dev libcli11-dev libfmt-dev"),
        ("OFF", "libhwy-dev libboost-dev rapidjson-dev libtbb-dev"),
    ):
        build = ["cmake", *hidden, f"-DBEARING_BUILD_TOOL={tool}", "-P", str(ROOT / "python" / "requirements.cmake")]
        done = subprocess.run(build, capture_output=True, text=True, check=False)
        assert done.returncode != 0
        said = " ".join(done.stderr.split())
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


def test_the_functions_of_the_library_are_here_under_their_names() -> None:
    """Except what the guide says of Python: executors, layouts of memory, files of numbers and JSON, tools of tests."""
    named_otherwise = {
        "bhtd", "bthd", "threads", "parallel", "fill", "version", "encoding_name", "parse_hf_config", "parse_rope",
        "to_json", "read_npy", "write_npy", "pair_axes", "trained_length", "name", "find", "make", "sites", "growth", "length_note", "position_unit", "same_file", "add_npy", "shares_memory",
        "mean_scores", "registry", "python_type", "parse_record", "closest",
        "find_figure_kind", "parse_figure", "colour_of", "subject_of", "make_with", "with_numbers",
        "say_encoding", "say_encodings", "example_size", "measured_size", "description_of", "keys_of", "set_member", "stands_for",
        "parse_gguf", "is_gguf", "is_gguf_file", "read_model_file", "is_safetensors_file", "to_text", "load_model", "add_safetensors", "write_sharded_safetensors", "stored_types",
        "attention_in_regions", "attention_in_regions_backward", "regions",
        "older_reader_warnings_of_file", "picture_models", "spell_hf_config_file", "member_frequencies",
        "task_answers", "kernel_answers", "serves", "take_model", "model_types_of", "lengths_of", "scaled_length",
    }  # fmt: skip
    declared = set()
    for header in (ROOT / "include" / "bearing").rglob("*.hpp"):
        if "reference" not in header.parts and header.stem != "reference":
            declared |= set(re.findall(r"^BEARING_EXPORT [^\n(]*?\b([a-z]\w*)\(", header.read_text(), re.MULTILINE))
    assert len(declared) > 60
    assert declared - set(bearing.__all__) - named_otherwise == set()
    assert not named_otherwise & set(bearing.__all__) - {"fill"}
