import importlib.util
import os
import sys
from pathlib import Path

import pytest

from focalibrate_papers import engine as registry

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def logged_runs():
    """The module `logged_runs`, not registered."""
    spec = importlib.util.spec_from_file_location("logged_runs", HERE / "logged_runs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def registered(logged_runs, monkeypatch):
    """The module `logged_runs`, whose experiment is known here while the test runs."""
    monkeypatch.setattr(registry, "EXPERIMENTS", registry.EXPERIMENTS)
    monkeypatch.delitem(sys.modules, "focalibrate_papers.logged_runs", raising=False)
    logged_runs.register()
    yield logged_runs
    del sys.modules["focalibrate_papers.logged_runs"]


@pytest.fixture
def environment(tmp_path_factory, monkeypatch):
    """The environment of processes that know the experiment from their start."""
    folder = tmp_path_factory.mktemp("site")
    lines = (f"import sys; sys.path.insert(0, {str(HERE)!r})", "import logged_runs")
    (folder / "sitecustomize.py").write_text("\n".join([*lines, "logged_runs.register()\n"]))
    before = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(folder), before])))
    return os.environ
