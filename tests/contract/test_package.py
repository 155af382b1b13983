"""The wheel and the sdist: complete, without junk, and enough to run the demo."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from numpy.testing import assert_allclose

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def run(*words, cwd):
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        [str(w) for w in words], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the sdist, and the wheel that is built from it; no network is used."""
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "-o", out, ROOT, cwd=out)
    return out


def needed(requirements):
    """Return the installed distributions that `requirements` need, with their own requirements."""
    found, names = {}, list(requirements)
    while names:
        text = names.pop()
        if ";" in text and ("extra" in text or "python_version <" in text):
            continue
        name = re.match(r"[A-Za-z0-9_.-]+", text)[0].lower()
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:  # for another system
            continue
        names += found[name].requires or []
    return found


@pytest.fixture(scope="module")
def empty(built, tmp_path_factory):
    """An environment with only the wheel and its declared dependencies.

    The dependencies are linked from this environment, so that no index has to be reached.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for found in needed(PROJECT["dependencies"]).values():
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            place = Path(found.locate_file(top))
            if place.exists() and not (site / top).exists():
                (site / top).symlink_to(place)
    python = folder / "bin/python"
    (wheel,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", "--no-compile", wheel, cwd=folder)
    return folder / "bin"


def test_the_extra_all_has_every_extra_of_users():
    extras = PROJECT["optional-dependencies"]
    (named,) = extras["all"]
    inside = set(re.fullmatch(r"focalibrate\[(.*)\]", named)[1].split(","))
    assert inside == set(extras) - {"all", "dev", "docs"}


@pytest.mark.slow
def test_the_wheel_has_types_and_the_page_and_no_tests(built):
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "focalibrate/py.typed" in names
    assert "focalibrate/report/static/report.js" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"focalibrate"}
    assert not [name for name in names if "/test_" in name or "__pycache__" in name]


@pytest.mark.slow
def test_the_sdist_has_no_junk(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = [n.split("/", 1)[1] for n in archive.getnames()]
    assert {name.split("/")[0] for name in names} == {
        ".gitignore",
        "CHANGELOG.md",
        "LICENSE",
        "PKG-INFO",
        "README.md",
        "constraints.txt",
        "frontend",
        "pyproject.toml",
        "src",
    }
    assert not [n for n in names if "node_modules" in n or "__pycache__" in n]


@pytest.mark.slow
def test_the_demo_runs_in_an_empty_environment_and_recovers_the_posterior(empty, tmp_path):
    where = run(empty / "python", "-c", "import focalibrate as f; print(f.__file__)", cwd=tmp_path)
    assert where.startswith(str(empty.parent))
    missing = "import importlib.util as u; print(u.find_spec('torch'), u.find_spec('sklearn'))"
    assert run(empty / "python", "-c", missing, cwd=tmp_path) == "None None\n"
    assert run(empty / "focalibrate", "--version", cwd=tmp_path).startswith("focalibrate")
    printed = run(empty / "focalibrate", "demo", cwd=tmp_path)
    assert (tmp_path / "focalibrate-demo/report.html").stat().st_size > 100_000
    row = r"^ +(?:► )?(\S.*?) {2,}([\d.]+) ± ([\d.]+) +([\d.]+) +([\d.]+) +\d+.*$"
    loss = {line[0]: float(line[1]) for line in re.findall(row, printed, flags=re.MULTILINE)}
    assert len(loss) > 3
    # L-BFGS may end a hair elsewhere on another machine.
    assert_allclose(loss["uncalibrated"], 0.618, atol=0.01)
    assert_allclose(loss["posterior recovery"], 0.505, atol=0.01)


@pytest.mark.slow
def test_the_check_of_ci_runs_there_too(empty, tmp_path):
    code = (
        "import numpy as np; r = np.random.default_rng(0); z = 2 * r.normal(size=(3000, 3));"
        "y = (z + r.gumbel(size=z.shape)).argmax(1); np.savez('a.npz', logits=z, labels=y)"
    )
    run(empty / "python", "-c", code, cwd=tmp_path)
    assert "PASS" in run(empty / "focalibrate", "check", "a.npz", "--max-ece", "0.1", cwd=tmp_path)


def test_extras_are_documented():
    text = (ROOT / "docs/install.md").read_text()
    for name in PROJECT["optional-dependencies"]:
        if name not in ("docs", "dev"):
            assert f"| `{name}` |" in text
