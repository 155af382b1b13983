"""The front end's own tests, and the proof that the bundle in the package is its build."""

import json
import runpy
import subprocess
from pathlib import Path

import pytest

FRONTEND = Path(__file__).parents[2] / "frontend"


@pytest.mark.parametrize("script", ["check", "typecheck", "test"])
def test_npm_run(frontend, script):
    done = subprocess.run(
        ["npm", "run", "--silent", script],
        cwd=frontend,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _without_text(value):
    """Return the fixture without packed bytes, which depend on the release of zlib."""
    if isinstance(value, dict):
        return {k: _without_text(v) for k, v in value.items() if k != "data"}
    return [_without_text(v) for v in value] if isinstance(value, list) else value


def _flat(value):
    if isinstance(value, dict):
        return [x for v in value.values() for x in _flat(v)]
    return [x for v in value for x in _flat(v)] if isinstance(value, list) else [value]


def test_the_numbers_that_the_page_is_tested_by_are_those_of_python():
    made = runpy.run_path(str(FRONTEND / "test" / "make_fixture.py"))
    now = _without_text(json.loads(json.dumps(made["rounded"](made["fixture"]()))))
    committed = _without_text(json.loads((FRONTEND / "test" / "fixture.json").read_text()))
    hint = "run `python frontend/test/make_fixture.py`"
    for got, want in zip(_flat(now), _flat(committed), strict=True):
        is_number = isinstance(got, (int, float))
        assert got == (pytest.approx(want, rel=1e-7, abs=1e-9) if is_number else want), hint
