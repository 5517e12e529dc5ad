"""Writes the stub of bearing._core by nanobind's program.

Usage: core_stub.py FOLDER FILE STUBGEN PATTERNS. FOLDER has the compiled bearing/_core; STUBGEN is nanobind's stubgen.py.
"""

import runpy
import sys

from built import import_from

folder, file, stubgen, patterns = sys.argv[1:]
import_from(f"{folder}/bearing")
sys.argv[1:] = ["-q", "-p", patterns, "-m", "bearing._core", "-o", file]
runpy.run_path(stubgen, run_name="__main__")
