import json

import numpy as np

from focalibrate.calibrate import TemperatureScaling

QUICK = ("--resamples", "40")


def test_two_models(cli, val, examples, tmp_path):
    np.savez(tmp_path / "cool.npz", logits=examples.logits / 3, labels=examples.labels)
    done = cli("compare", "val.npz", "cool.npz", *QUICK)
    assert "B better" in done.stdout
    record = json.loads(cli("compare", "val.npz", "cool.npz", *QUICK, "--json").stdout)
    assert record["nll"]["a_less_b"]["low"] > 0
    assert record["error"]["a_less_b"]["estimate"] == 0


def test_two_calibrators_on_one_file(cli, val, tmp_path):
    TemperatureScaling(3.0).save(tmp_path / "t.json")
    record = json.loads(
        cli("compare", "t.json", "raw", "--on", "val.npz", *QUICK, "--json").stdout
    )
    assert record["nll"]["a_less_b"]["high"] < 0


def test_other_examples_are_refused(cli, val, examples, tmp_path):
    np.savez(tmp_path / "short.npz", logits=examples.logits[:10], labels=examples.labels[:10])
    done = cli("compare", "val.npz", "short.npz", ok=False)
    assert (done.returncode, "same examples" in done.stderr) == (1, True)
    labels = examples.labels.copy()
    labels[3] = (labels[3] + 1) % 3
    np.savez(tmp_path / "other.npz", logits=examples.logits, labels=labels)
    done = cli("compare", "val.npz", "other.npz", ok=False)
    assert "1 rows differ, first row 3" in done.stderr
