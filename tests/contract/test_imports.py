"""What importing the package may load."""

import subprocess
import sys

import pytest

FORBIDDEN = ("torch", "sklearn", "matplotlib", "jax", "click", "rich", "pandas")


def loaded_by(code: str) -> set[str]:
    code += "; import sys; print(*(m.split('.')[0] for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.slow
def test_the_core_loads_no_framework():
    code = (
        "import numpy as np, focalibrate as f; f.theory, f.losses, f.metrics, f.curvature; "
        "f.losses.focal_loss(np.zeros((1, 2)), np.array([0]))"
    )
    assert not loaded_by(code) & set(FORBIDDEN)


def test_the_bare_import_loads_nothing_but_itself():
    assert not loaded_by("import focalibrate") & {"numpy", "scipy", *FORBIDDEN}


@pytest.mark.parametrize("name", ["boosting", "deploy", "estimators", "nn"])
def test_subpackages_with_an_extra_are_there_after_a_bare_import(name, monkeypatch):
    import focalibrate

    assert name in dir(focalibrate)
    getattr(focalibrate, name)
    monkeypatch.delattr(focalibrate, name)  # as after a bare import, which has not set it
    assert getattr(focalibrate, name).__all__


def test_every_public_name_exists_and_is_documented():
    import importlib
    import inspect

    for package in (
        "theory",
        "losses",
        "metrics",
        "calibrate",
        "curvature",
        "nn",
        "comparison",
        "io",
        "boosting",
        "deploy",
        "estimators",
        "report",
        "pipeline",
    ):
        module = importlib.import_module(f"focalibrate.{package}")
        assert len(set(module.__all__)) == len(module.__all__)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value) or inspect.isclass(value):
                assert value.__doc__, f"{package}.{name}"


def test_an_unknown_name_is_an_attribute_error():
    import focalibrate

    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = focalibrate.nonsense
