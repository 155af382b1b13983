"""Every line of the tables in docs/which-file.md works as written."""

import re
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from focalibrate.cli import main

WHOLE = (Path(__file__).parents[3] / "docs" / "which-file.md").read_text(encoding="utf-8")
PAGE = WHOLE.split("## What we never do silently\n")[0]
ROW = re.compile(
    r"^\| (?P<what>.+?) \| `(?P<code>.+?)` \| `(?P<command>.+?)` \| (?P<line>.+) \|$", re.M
)
ROWS = [found.groupdict() for found in ROW.finditer(PAGE)]
OPTIONAL = {"torch.save": "torch", "safetensors.numpy": "safetensors", "to_excel": "openpyxl"}


def marked(row):
    slow = [pytest.mark.slow] if "torch" in row["code"] else []  # importing it takes seconds
    return pytest.param(row, id=row["what"], marks=slow)


@pytest.fixture(scope="module")
def names():
    """The files that the page says its lines use."""
    for package in ("pandas", "sklearn", "pyarrow"):
        pytest.importorskip(package)
    found = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.S)), found)
    return found


def test_the_tables_were_found():
    assert len(ROWS) == PAGE.count("\n| ") - 2 * PAGE.count("\n| --- ")
    assert len(ROWS) > 40


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", [marked(row) for row in ROWS])
def test_a_line_of_the_page(row, names, tmp_path, monkeypatch):
    given = dict(names)
    for mark, package in OPTIONAL.items():
        if mark in row["code"]:
            pytest.importorskip(package)
            given[mark.split(".")[0]] = pytest.importorskip(mark.rpartition(".")[0] or package)
            if package == "safetensors":
                pytest.importorskip("safetensors.numpy")
                given["safetensors"] = sys.modules["safetensors"]
    monkeypatch.chdir(tmp_path)
    exec(row["code"].replace("\\|", "|"), given)
    words = [*shlex.split(row["command"].replace("\\|", "|"))[1:], "--resamples", "10"]
    monkeypatch.setattr(sys, "argv", ["focalibrate", *words])
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0] == row["line"]
