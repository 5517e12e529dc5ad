"""Kernels in Triton, on the CPU's tensors: the interpreter must be chosen before anything imports Triton."""

import os

if "TRITON_INTERPRET" not in os.environ:
    os.environ["TRITON_INTERPRET"] = "1"
