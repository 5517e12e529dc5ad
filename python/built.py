"""For programs that write stubs: a package `bearing` of what was built just now.

`import bearing` would find another one: the folder has no __init__.py yet, and a `bearing` that is installed here has.
"""

import sys
from types import ModuleType


def import_from(*folders: str) -> ModuleType:
    """Makes `bearing` the package of these folders' modules; the first has the compiled bearing._core."""
    bearing = ModuleType("bearing")
    bearing.__path__ = list(folders)
    sys.modules["bearing"] = bearing
    return bearing
