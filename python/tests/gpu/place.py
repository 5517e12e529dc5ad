"""Where the kernels of this process work."""

import os

import pytest

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
ON_DEVICE = os.environ.get("BEARING_GPU", "")  # "cuda" or "xpu"
needs_device = pytest.mark.skipif(not ON_DEVICE, reason="needs a GPU")
