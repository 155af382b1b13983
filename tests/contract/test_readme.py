"""The README is true: its code runs, and its numbers are those of the results."""

import json
import re
import runpy
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.churn import write_churn

from focalibrate import calibrate_predictions
from focalibrate.cli import main
from focalibrate_papers.evidence import outcome

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: b.splitlines()[0][:40])
def test_every_python_block_runs(block, tmp_path, monkeypatch):
    script = tmp_path / "block.py"
    script.write_text(block)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")


def test_every_command_of_the_readme_exists():
    for command in re.findall(r"^\$? ?focalibrate (\w+)", README, flags=re.MULTILINE):
        done = CliRunner().invoke(main, [command, "--help"])
        assert done.exit_code == 0
        assert re.search("Examples?:", done.output)


def test_the_tally_of_verdicts_is_that_of_the_results():
    assert outcome(ROOT / "results") in README
    assert outcome(ROOT / "results") in (ROOT / "results/README.md").read_text()


def test_the_arena_table_is_that_of_the_results():
    summary = json.loads((ROOT / "results/arena/summary.json").read_text())
    for group, methods in summary.items():
        ours = methods["focalibrate auto"]
        peers = {k: v for k, v in methods.items() if not k.startswith("focalibrate")}
        nearest = min(peers, key=lambda k: peers[k]["above_auto_logloss"][0])
        best = max(peers, key=lambda k: peers[k]["win_logloss"][0])
        above = f"{100 * peers[nearest]['above_auto_logloss'][0]:+.2f}"
        assert f"| {group} ({ours['n']}) | {nearest} | {above} [" in README
        wins = f"{ours['win_logloss'][0]:.3f} / {peers[best]['win_logloss'][0]:.3f} ({best})"
        assert f"| {wins} |" in README


def test_the_answer_to_the_first_command_is_today_s(tmp_path):
    write_churn(tmp_path / "churn.csv")
    found = calibrate_predictions(tmp_path / "churn.csv").verdict
    words = " ".join(README.split())
    assert found.status == "repairable"
    for sentence in (found.headline, found.line, found.gain, found.after, found.advice):
        assert sentence in words


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 150
