"""A mask is a word: an array in its place is named by its shape, with where it goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bearing
import bearing.jax as bj
import bearing.torch as bt
import jax.numpy as jnp
import numpy as np
import pytest
import torch

WAYS = {
    "numpy": (bearing, np.ones),
    "torch through bearing": (bearing, torch.ones),
    "torch": (bt, torch.ones),
    "jax": (bj, jnp.ones),
}


@pytest.mark.parametrize(("module", "make"), WAYS.values(), ids=list(WAYS))
def test_an_array_in_place_of_the_mask_is_told_where_it_goes(module: Any, make: Callable[..., Any]) -> None:
    x = make((1, 2, 5, 16))
    x = x.astype(np.float32) if make is np.ones else x
    seen = make((40, 5)) > 0
    for mask in (seen, np.ones((40, 5), bool)):
        wanted = r"\[{}\] mask: must be one of 'none', 'causal', .*'causal_bottom_right'{}, got <class '.*'> of shape \[40, 5\]$"
        with pytest.raises(ValueError, match=wanted.format("attention", "; an? .* of what is seen goes to visible=")):
            module.attention(x, x, x, mask=mask)
        with pytest.raises(ValueError, match=wanted.format("linear_attention", "")):
            module.linear_attention(x, x, x, mask=mask)
