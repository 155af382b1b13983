import json
import subprocess
import sys

from click.testing import CliRunner

from focalibrate.cli import main


def test_figures_fall_as_promised():
    done = CliRunner().invoke(main, ["demo", "--examples", "2000", "--json"])
    assert done.exit_code == 0
    plain, raw, recovered = json.loads(done.output)
    assert recovered["error"] == raw["error"]
    assert recovered["kl_divergence"] < 0.2 * raw["kl_divergence"]
    assert plain["name"] == "cross-entropy"


def test_table_and_two_charts(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "focalibrate", "demo", "--examples", "2000"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    assert "\x1b[" not in done.stdout  # no colours when piped
    assert done.stdout.count("accuracy █ where the model said |") == 2
    assert "It changes no prediction" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_same_seed_same_figures():
    once, again = (
        CliRunner().invoke(main, ["demo", "--examples", "500", "--json"]).output for _ in range(2)
    )
    assert once == again


def test_bad_options_are_refused():
    done = CliRunner().invoke(main, ["demo", "--gamma", "0"])
    assert done.exit_code == 2
    assert "--gamma" in done.output
