"""The command that comes with the package: on the PATH, as ``python -m bearing``, in pipes, with completions."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import bearing
import pytest

SCRIPTS, DATA = Path(sysconfig.get_path("scripts")), Path(sysconfig.get_path("data"))
SCRIPT = [str(SCRIPTS / "bearing")]
MODULE = [sys.executable, "-m", "bearing"]
PACKAGE = Path(bearing.__file__).parent


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120, check=False
    )


def is_of_the_package(command: Path, **environment: str) -> bool:
    done = run(str(command), "--version", **environment)
    return done.returncode == 0 and done.stdout.startswith(f"bearing {bearing.__version__}\n")


@pytest.mark.parametrize("way", [SCRIPT, MODULE])
def test_the_command_has_the_version_and_the_instruction_sets_of_the_module(way: list[str]) -> None:
    version, target, *_ = run(*way, "--version").stdout.splitlines()
    assert version == f"bearing {bearing.__version__}"
    assert target.split() == ["SIMD", "target", bearing.target()["used"], *target.split()[3:]]
    assert target.endswith(f": {' '.join(bearing.simd_targets())})")


def test_the_environments_path_finds_the_command() -> None:
    found = shutil.which("bearing", path=os.pathsep.join([str(SCRIPTS), os.environ["PATH"]]))
    assert found == SCRIPT[0]


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["list"], 0),
        (["check", "alibi", "--length", "16", "--require", "norm"], 1),
        (["check", "two words"], 2),
        (["config", "no such file"], 3),
    ],
)
def test_both_ways_print_and_end_alike(words: list[str], status: int) -> None:
    script, module = (run(*way, *words) for way in (SCRIPT, MODULE))
    assert (script.returncode, module.returncode) == (status, status)
    assert (script.stdout, script.stderr) == (module.stdout, module.stderr)
    assert script.stderr.count("\n") == [0, 1, 2, 1][status]
    assert words[-1] in script.stderr or status < 2


@pytest.mark.parametrize("way", [SCRIPT, MODULE])
def test_a_reader_that_leaves_early_ends_it_quietly(way: list[str]) -> None:
    """Of more text than a pipe holds, so that the command is still writing."""
    long = [*way, "table", "alibi", "--length", "128", "--format", "csv"]
    with subprocess.Popen(long, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert len(process.stdout.readline()) > 1
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == -signal.SIGPIPE


@pytest.mark.parametrize("way", [SCRIPT, MODULE])
def test_it_reads_what_is_piped_into_it(way: list[str]) -> None:
    config = (Path(__file__).parents[2] / "examples/models/llama-3.1-8b.json").read_bytes()
    done = subprocess.run([*way, "config", "-"], input=config, capture_output=True, timeout=60, check=True)
    assert done.stdout.splitlines()[1].split()[:2] == [b"model", b"llama,"]


# A tool of its own for each place where pip puts packages: an environment, --user, --target.


@pytest.mark.parametrize("packages", ["lib/{}/site-packages", "lib64/{}/site-packages", "lib/{}/dist-packages", "."])
def test_the_script_finds_the_package_without_python(packages: str, tmp_path: Path) -> None:
    python = Path(sysconfig.get_path("platlib", "posix_prefix")).parent.name
    home, bin_, tools = tmp_path / packages.format(python), tmp_path / "bin", tmp_path / "tools"
    for folder in (home, bin_, tools):
        folder.mkdir(parents=True, exist_ok=True)
    copy = shutil.copy(SCRIPT[0], bin_)
    (tools / "readlink").symlink_to(shutil.which("readlink") or "")
    assert not is_of_the_package(copy, PATH=str(tools))
    (home / "bearing").symlink_to(PACKAGE)
    assert is_of_the_package(copy, PATH=str(tools))


def test_a_link_to_the_script_runs_it(tmp_path: Path) -> None:
    (tmp_path / "bearing").symlink_to(SCRIPT[0])
    assert is_of_the_package(tmp_path / "bearing")


def test_elsewhere_the_script_asks_the_python_beside_it(tmp_path: Path) -> None:
    copy = shutil.copy(SCRIPT[0], tmp_path)
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    assert is_of_the_package(copy)


def test_a_package_without_the_command_says_so(tmp_path: Path) -> None:
    copy = tmp_path / "bearing"
    copy.mkdir()
    shutil.copy(PACKAGE / "__main__.py", copy)
    (copy / "__init__.py").write_text("")
    done = run(*MODULE, "list", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("bearing: the command must lie in the package, got no file ")


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("bash", "bash-completion/completions/bearing"),
        ("fish", "fish/vendor_completions.d/bearing.fish"),
        ("zsh", "zsh/site-functions/_bearing"),
    ],
)
def test_completions_lie_where_shells_look(shell: str, file: str) -> None:
    assert (DATA / "share" / file).read_text() == run(*SCRIPT, "completion", shell).stdout != ""
