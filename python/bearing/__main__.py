"""``python -m bearing``: the command ``bearing``, in the place of this process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_command = Path(__file__).with_name("bin") / "bearing"

if __name__ == "__main__":
    if not _command.exists():
        sys.exit(f"bearing: the command must lie in the package, got no file {_command}: this build left it out")
    os.execv(_command, ["bearing", *sys.argv[1:]])
