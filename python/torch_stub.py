"""Writes the stub of bearing.torch.modules, whose classes are made while it is imported.

Usage: torch_stub.py FOLDER FILE. FOLDER has the compiled bearing/_core; PyTorch need not be there.
"""

import ast
import sys
from collections.abc import Iterator
from importlib import import_module, util
from pathlib import Path
from textwrap import indent
from typing import Any

from built import import_from

folder, file = sys.argv[1:]
package = Path(__file__).parent / "bearing"
import_from(f"{folder}/bearing")
import_module("bearing._core")
found = util.spec_from_file_location("bearing._modules", package / "_modules.py")
assert found is not None and found.loader is not None
modules = util.module_from_spec(found)
found.loader.exec_module(modules)


def names(source: Path) -> list[str]:
    """The classes and functions of __all__."""
    for node in ast.parse(source.read_text()).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "__all__":
            return list(ast.literal_eval(node.value))
    raise SystemExit(f"torch_stub.py: {source} must have an __all__")


def stub(layers: dict[str, list[str]]) -> str:
    """Classes that are made from descriptions; layers: those that have a file of their own, by the file."""
    own = {name for names in layers.values() for name in names}
    made = [one for one in modules.modules() if one.name not in own]
    lines = ["from typing import Any, Literal", "", "import torch", "from torch import Tensor, nn", ""]
    lines += ["from .. import _core"]
    lines += ["from .base import Bias, Described, Input, Rows", "from .encoding import Encoding"]
    lines += [f"from .layers.{file} import {name} as {name}" for file, names in layers.items() for name in names]
    lines += ["", f"__all__ = {sorted([*own, *(one.name for one in made)])!r}"]
    return "\n".join([*lines, *(line for one in made for line in ("", *_stub_of(one))), ""])


def _stub_of(one: Any) -> Iterator[str]:
    bases = one.base if one.base == "Described" else f"Described, {one.base}" if one.base == "Bias" else one.base
    yield f"class {one.name}({bases}):"
    yield indent(f'r"""{one.text}\n"""', "    ")
    for argument in one.arguments:
        if argument.role == "size":
            yield f"    {argument.name}: int"
        elif argument.role == "start":
            yield f"    {argument.name}: {argument.annotation}"
    for name in one.parameters:
        yield f"    {name}: nn.Parameter"
    yield f"    def __init__(self, {str(one.signature)[1:]} -> None: ..."
    if one.given:
        asked = ", ".join(f"{name}: Tensor" + (" | None = None" if optional else "") for name, optional in one.given)
        yield f"    def encoding(self, {asked}) -> Encoding: ...  # type: ignore[override]"


layers = {one.stem: names(one) for one in sorted((package / "torch/layers").glob("[a-z]*.py"))}
Path(file).write_text(stub(layers))
