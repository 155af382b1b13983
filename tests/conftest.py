"""Fixtures shared by all tests."""

import os
from pathlib import Path
from types import ModuleType

import array_api_compat
import array_api_strict
import jax
import numpy as np
import pytest
import torch
from hypothesis import settings

jax.config.update("jax_enable_x64", True)
torch.set_num_threads(1)
settings.register_profile("focalibrate", deadline=None, max_examples=60)
settings.load_profile("focalibrate")

BACKENDS: dict[str, ModuleType] = {
    "numpy": array_api_compat.array_namespace(np.empty(0)),
    "torch": array_api_compat.array_namespace(torch.empty(0)),
    "jax": jax.numpy,
    "array_api_strict": array_api_strict,
}


@pytest.fixture(params=list(BACKENDS))
def xp(request: pytest.FixtureRequest) -> ModuleType:
    """The array namespace of each supported library in turn."""
    return BACKENDS[request.param]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The directory of oracles and real data beside the checkout; skips where it is absent."""
    here = Path(os.environ.get("FOCALIBRATE_SHARED", Path(__file__).parents[2] / "shared"))
    if not here.is_dir():
        pytest.skip(f"no shared data at {here} (set FOCALIBRATE_SHARED)")
    return here
