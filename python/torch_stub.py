"""Writes the stub of bearing.torch.modules, whose classes are made while it is imported.

Usage: torch_stub.py FOLDER FILE. FOLDER has the compiled bearing/_core; PyTorch need not be there.
"""

import ast
import sys
from importlib import import_module, util
from pathlib import Path

folder, file = sys.argv[1:]
package = Path(__file__).parent / "bearing"
sys.path.insert(0, folder)
import_module("bearing._core")
found = util.spec_from_file_location("bearing._modules", package / "_modules.py")
assert found is not None and found.loader is not None
modules = util.module_from_spec(found)
found.loader.exec_module(modules)


def names(source: Path) -> list[str]:
    """What __all__ has."""
    for node in ast.parse(source.read_text()).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "__all__":
            return ast.literal_eval(node.value)
    raise SystemExit(f"torch_stub.py: {source} must have an __all__")


layers = {one.stem: names(one) for one in sorted((package / "torch/layers").glob("[a-z]*.py"))}
Path(file).write_text(modules.stub(layers))
