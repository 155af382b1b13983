"""Fixtures shared by all tests."""

import gc
import os
import pickle
import sys
from collections.abc import Callable, Generator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

# Said by environment variables and before any test: a run that needs no torch and no JAX does not
# wait for them to be imported.
os.environ.setdefault("JAX_ENABLE_X64", "1")
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # compiling takes longer than running
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Where no bytecode is written, each of the many processes that tests start compiles the package
# anew, which takes longer than what is tested.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Collecting makes a million objects that live to the end: looking for garbage among them again and
# again took a quarter of the collection's time.
gc.disable()
# The same examples in every run: what decides whether a change lands must not depend on luck.
# HYPOTHESIS_PROFILE=hunt draws new ones, and more of them.
settings.register_profile("focalibrate", deadline=None, max_examples=30, derandomize=True)
settings.register_profile("hunt", deadline=None, max_examples=1000)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "focalibrate")
settings.load_profile(PROFILE)
if PROFILE == "focalibrate":
    # Hypothesis also draws numbers that it finds in the source of loaded modules. Which are loaded
    # depends on the tests that ran before, and every change of a number would draw other examples.
    providers._get_local_constants = lambda: providers._local_constants

BACKENDS = {
    "numpy": "array_api_compat.numpy",
    "torch": "array_api_compat.torch",
    "jax": "jax.numpy",
    "array_api_strict": "array_api_strict",
}


LONGEST = (
    "test_docs.py",
    "test_integrations.py",
    "test_every_name.py",
    "test_package.py",
    "test_part_engines.py",
    "test_cluster.py",
    "test_kill.py",
    "test_claims.py",
)
"""Files with tests of many seconds: begun first, so that no worker is left with one at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONGEST)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for doctests in the package only, not in tests."""
    found = yield
    return [each for each in found if type(each).__name__ != "DoctestModule"]


SLOW = ("jax",)  # compiles every operation


@pytest.fixture(
    params=[pytest.param(b, marks=pytest.mark.slow if b in SLOW else ()) for b in BACKENDS]
)
def xp(request: pytest.FixtureRequest) -> ModuleType:
    """The array namespace of each supported library in turn."""
    return import_module(BACKENDS[request.param])


@pytest.fixture(scope="session")
def jax() -> ModuleType:
    """JAX, imported only where slow tests are run."""
    import_module("jax.numpy")
    return import_module("jax")


@pytest.fixture
def whole(xp: ModuleType) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function as a whole if the library is JAX.

    Outside of `jax.jit`, each operation is compiled separately, and again for every shape, which
    takes up to twenty times as long.
    """
    if xp.__name__ == "jax.numpy":
        jit: Callable[..., Any] = import_module("jax").jit
        return jit
    return lambda function: function


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of oracles and real data beside the checkout; skips if it does not exist."""
    here = Path(os.environ.get("FOCALIBRATE_SHARED", Path(__file__).parents[2] / "shared"))
    if not here.is_dir():
        pytest.skip(f"no shared data at {here} (set FOCALIBRATE_SHARED)")
    return here


class Serial:
    """A backend that makes the runs one after the other, with what a worker would be sent."""

    def map(self, function: Any, arguments: Any) -> Generator[tuple[int, Any], None, None]:
        for place, given in enumerate(arguments):
            try:
                outcome = function(*pickle.loads(pickle.dumps(given)))
            except Exception as error:
                outcome = error
            yield place, outcome


@pytest.fixture
def serial() -> Serial:
    return Serial()
