import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for support.py


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260101)


@pytest.fixture
def rotations(monkeypatch):
    """A list with an entry for each call that bearing has turned for PyTorch."""
    import bearing
    from bearing.torch import ops  # here, as most tests do without PyTorch

    calls = []
    for owner, name in ((ops, "rotate"), (ops, "rotate_now"), (bearing._core, "rotate")):
        own = getattr(owner, name)

        def counting(*args, own=own, **rest):
            calls.append(1)
            return own(*args, **rest)

        monkeypatch.setattr(owner, name, counting)
    return calls
