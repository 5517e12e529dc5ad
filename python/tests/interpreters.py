"""Other interpreters of Python, for what only a process of its own can show."""

from __future__ import annotations

import os
import subprocess
import sys


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
