"""The GitHub action at the root works: its script is run with a simulated GitHub."""

import os
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest

from focalibrate.cli import main

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())


def test_it_is_a_composite_action_with_documented_inputs():
    assert ACTION["runs"]["using"] == "composite"
    assert all(entry["description"] for entry in ACTION["inputs"].values())
    assert [name for name, entry in ACTION["inputs"].items() if entry.get("required")] == [
        "predictions"
    ]
    for step in ACTION["runs"]["steps"]:
        assert "run" not in step or step["shell"] == "bash"


def test_every_input_is_used_and_none_is_pasted_into_a_script():
    text = (ROOT / "action.yml").read_text()
    for name in ACTION["inputs"]:
        assert f"inputs.{name} }}" in text
    assert not any("${{" in step.get("run", "") for step in ACTION["runs"]["steps"])


def test_its_options_are_those_of_the_command():
    script = ACTION["runs"]["steps"][-1]["run"]
    options = {o for p in main.get_command(click.Context(main), "check").params for o in p.opts}
    used = {word.strip("(") for word in script.split() if word.strip("(").startswith("--")}
    assert used - {"--"} <= options


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "factor", "allow", "status", "code"),
    [
        (3000, 1, "false", "pass", 0),
        (3000, 4, "false", "fail", 1),
        (3000, 4, "true", "fail", 1),
        (0, 1, "false", "error", 2),
        (20, 1, "false", "undetermined", 3),
        (20, 1, "true", "undetermined", 0),
    ],
)
def test_its_script_runs(tmp_path, n, factor, allow, status, code):
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(n, 3))
    labels = (logits + rng.gumbel(size=(n, 3))).argmax(axis=1)
    if n:
        np.savez(tmp_path / "a b.npz", logits=factor * logits, labels=labels)
    (tmp_path / "focalibrate").write_text(
        f'#!/bin/sh\nexec {sys.executable} -m focalibrate "$@"\n'
    )
    if allow == "true":  # what it ends with on these files, the other cases say
        ends = {"fail": 1, "undetermined": 3}[status]
        (tmp_path / "focalibrate").write_text(f"#!/bin/sh\nexit {ends}\n")
    (tmp_path / "focalibrate").chmod(0o755)
    step = ACTION["runs"]["steps"][-1]
    given = {"predictions": "a b.npz", "max-ece": "0.1", "allow-undetermined": allow}
    inputs = {name: given.get(name, e.get("default", "")) for name, e in ACTION["inputs"].items()}
    env = {
        key: inputs[value.removeprefix("${{ inputs.").removesuffix(" }}")]
        for key, value in step["env"].items()
    }
    env |= {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "GITHUB_OUTPUT": str(tmp_path / "out"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "PYTHONPATH": str(ROOT / "src"),
    }
    done = subprocess.run(["bash", "-c", step["run"]], cwd=tmp_path, env=env, capture_output=True)
    assert done.returncode == code, done.stderr
    assert (tmp_path / "out").read_text() == f"status={status}\n"
    if status != "error" and allow == "false":
        assert "Calibration check" in (tmp_path / "summary.md").read_text()
