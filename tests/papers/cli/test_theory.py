"""The command `focalibrate theory`, and the command group."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from focalibrate import __version__
from focalibrate.cli import COMMANDS, main
from focalibrate_papers import claims
from focalibrate_papers.claims import CLAIMS, Claim, Finding

KEYS = {
    "id", "source", "statement", "sentence", "scan", "expected", "verdict", "is_expected", "where",
    "counterexample", "evidence", "error", "seconds",
}  # fmt: skip


def run(*args: str):
    return CliRunner().invoke(main, list(args))


def broken(check, expected="holds") -> Claim:
    return Claim(
        id="x-1",
        source="Nobody",
        statement="Nothing.",
        sentence="s",
        expected=expected,
        check=check,
    )


def test_one_claim_is_printed_with_its_counterexample():
    result = run("theory", "003-prop-5")
    text = " ".join(result.output.split())
    assert result.exit_code == 0
    assert "003-prop-5 false claim: Ψ never lowers" in text
    assert "counterexample: (0.33, 0.33, 0.33, 0.01), γ=0.5: 0.33 falls to 0.3299" in text
    assert "Claims checked: 1, in" in text
    assert "All verdicts match those recorded in the repository." in text
    assert "\x1b" not in result.output
    assert not any(line.endswith(" ") for line in result.output.splitlines())


def test_the_condition_is_printed():
    assert "    true where: p0 < 1/2" in run("theory", "002-prop-2").output


def test_json_is_a_list_of_objects():
    result = run("theory", "--json", "004-fig-1", "000-thm-5")
    records = json.loads(result.output)
    assert result.exit_code == 0
    assert [r["id"] for r in records] == ["000-thm-5", "004-fig-1"]
    assert all(set(r) == KEYS and r["is_expected"] for r in records)
    assert [r["verdict"] for r in records] == ["holds", "slip"]


def test_unknown_claim_lists_the_known_ones():
    result = run("theory", "nonsense")
    assert result.exit_code == 2
    assert "there is no claim 'nonsense'" in result.output
    assert all(claim.id in result.output for claim in CLAIMS)


@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_an_unexpected_verdict_fails(monkeypatch, extra):
    other = Finding(verdict="false", evidence="e", counterexample="c")
    monkeypatch.setattr(claims, "CLAIMS", (broken(lambda: other),))
    result = run("theory", *extra)
    assert result.exit_code == 1
    assert ("UNEXPECTED" in result.output) == (not extra)


def test_a_check_that_raises_fails_and_says_why(monkeypatch):
    monkeypatch.setattr(claims, "CLAIMS", (broken(lambda: 1 / 0),))
    result = run("theory")
    assert result.exit_code == 1
    assert "x-1  not checked  UNEXPECTED: recorded as holds" in result.output
    assert "error: ZeroDivisionError: division by zero" in result.output
    (record,) = json.loads(run("theory", "--json").output)
    assert (record["verdict"], record["is_expected"]) == (None, False)


@pytest.mark.parametrize("args", [["--help"], ["theory", "--help"]])
def test_help_shows_an_example(args):
    result = run(*args)
    assert result.exit_code == 0
    assert "Example:\n      focalibrate " in result.output


def test_group_lists_all_commands_and_its_version():
    listed = " ".join(run("--help").output.split())
    assert all(name in listed and c.short_help in listed for name, c in COMMANDS.items())
    assert run("--version").output == f"focalibrate, version {__version__}\n"
    assert run("nonsense").exit_code == 2


def test_help_imports_click_only():
    code = (
        "import sys\nfrom focalibrate.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "print(sorted({'numpy', 'scipy', 'rich', 'torch', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
