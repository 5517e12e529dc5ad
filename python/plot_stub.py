"""Writes the stub of bearing.plot, whose functions are made while it is imported.

Usage: plot_stub.py FOLDER FILE. FOLDER has the compiled bearing/_core; matplotlib need not be there.
"""

import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from textwrap import indent

from built import import_from

folder, file = sys.argv[1:]
import_from(f"{folder}/bearing", str(Path(__file__).parent / "bearing"))  # not all that the package imports
plot = import_module("bearing.plot")


def lines() -> Iterator[str]:
    yield from ("from collections.abc import Sequence", "from typing import Any", "")
    yield from (
        "from ._core import Claim",
        "from ._figures import Figure",
        "from ._types import ArrayLike",
        "",
        f"__all__ = {plot.__all__!r}",
    )
    for name in plot.__all__:
        function = getattr(plot, name)
        yield from ("", f"def {name}{inspect.signature(function)}:")
        yield indent(f'"""{inspect.getdoc(function)}"""', "    ")


Path(file).write_text("\n".join([*lines(), ""]))
