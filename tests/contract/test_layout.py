"""The layout that CONTRIBUTING shows is the one that the code has."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "focalibrate"
PAPERS = ROOT / "papers" / "src" / "focalibrate_papers"


def layers():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract, papers = (
        c for c in settings["tool"]["importlinter"]["contracts"] if c["type"] == "layers"
    )
    return [line.replace("focalibrate.", "") for line in contract["layers"]], papers["layers"]


def test_the_diagram_in_contributing_is_the_import_contract():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for start, contract in zip((r"cli ", r"focalibrate_papers\.cli "), layers(), strict=True):
        (diagram,) = re.findall(rf"```\n({start}.*?)```", text, re.DOTALL)
        assert [re.split(r" {2,}", line)[0] for line in diagram.splitlines()] == contract


def test_every_package_has_its_line_in_the_contract():
    named = {name for line in layers()[0] for name in line.split(" | ")}
    found = {p.stem for p in SOURCE.iterdir() if p.stem not in ("__init__", "__main__", "py")}
    assert found - {"__pycache__"} == named


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.slow
def test_no_private_module_is_imported_from_another_package():
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        package = path.relative_to(SOURCE).parts[0]
        for name in imported(path):
            root, *parts = name.split(".")
            if root != "focalibrate" or len(parts) < 2 or parts[0] == package:
                continue
            if any(part.startswith("_") and not part.startswith("__") for part in parts[1:]):
                found.append(f"{path.relative_to(ROOT)}: {name}")
    assert not found


def test_the_files_that_a_command_is_followed_through_exist():
    section = re.search(
        r"^## Follow a command\n(.*?)^## ",
        (ROOT / "CONTRIBUTING.md").read_text(),
        re.DOTALL | re.M,
    )
    named = re.findall(r"`((?!src|papers)[a-z_0-9/]+/(?:[a-z_0-9]+\.py)?)`", section[1])
    assert len(named) > 20
    assert [
        name for name in named if not any((source / name).exists() for source in (SOURCE, PAPERS))
    ] == []
