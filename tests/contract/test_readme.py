"""The README is true: its code runs, and its numbers are those of the results."""

import json
import re
import runpy
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from focalibrate.cli import main

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
    shown = {k: int(n) for k, n in re.findall(r"^\| ([a-z ]+) \| (\d+) \|$", README, re.MULTILINE)}
    documents = [json.loads(p.read_text()) for p in (ROOT / "results").glob("*/verdicts.json")]
    claims = [claim for document in documents for claim in document["claims"]]
    assert shown == Counter(claim["verdict"] for claim in claims if claim["is_papers"])


def test_the_arena_table_is_that_of_the_results():
    summary = json.loads((ROOT / "results/arena/summary.json").read_text())
    for group, methods in summary.items():
        ours = methods["focalibrate auto"]
        peers = {k: v for k, v in methods.items() if not k.startswith("focalibrate")}
        best = max(peers, key=lambda k: peers[k]["win_logloss"][0])
        start = (
            f"| {group} ({ours['n']}) | {ours['win_logloss'][0]:.3f} | "
            f"{peers[best]['win_logloss'][0]:.3f} ({best}) |"
        )
        assert start in README
