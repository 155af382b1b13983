import json

import pytest


@pytest.mark.slow
def test_the_truth_is_met_and_files_are_written(cli, tmp_path):
    done = cli("demo", "--examples", "1000", "--json")
    plain, raw, recovered, *_ = json.loads(done.stdout)
    assert recovered["error"] == raw["error"]
    assert recovered["kl_divergence"] < 0.2 * raw["kl_divergence"]
    assert plain["method"] == "cross-entropy"
    assert sorted(p.name for p in (tmp_path / "focalibrate-demo").iterdir()) == [
        "calibrator.json",
        "report.html",
        "results.json",
        "test.npz",
        "val.npz",
    ]


@pytest.mark.slow
def test_it_ends_with_three_commands_that_work(cli, tmp_path):
    done = cli("demo", "--examples", "500")
    assert "\x1b[" not in done.stdout
    assert done.stdout.count("o: accuracy, |: confidence") == 2
    lines = [line.strip() for line in done.stdout.splitlines()]
    commands = [line.split()[1:] for line in lines if line.startswith("focalibrate ")]
    assert [command[0] for command in commands] == ["evaluate", "calibrate", "apply"]
    for command in commands:
        cli(*command)
    refused = cli("demo", ok=False)
    assert refused.returncode == 1
    assert "--force" in refused.stderr


def test_bad_options_are_refused(cli):
    done = cli("demo", "--gamma", "0", ok=False)
    assert done.returncode == 2
    assert "--gamma" in done.stderr
