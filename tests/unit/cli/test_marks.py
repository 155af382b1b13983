"""A file that `apply` wrote is known as calibrated, and not calibrated again."""

import shutil

import numpy as np
import pytest

from focalibrate.calibrate import TemperatureScaling


@pytest.fixture
def scores(tmp_path, examples):
    TemperatureScaling(2.0).save(tmp_path / "t.json")
    names = ["cat", "dog", "owl"]
    rows = [
        ",".join([*(repr(x) for x in z), names[k]])
        for z, k in zip(examples.logits.tolist(), examples.labels, strict=True)
    ]
    header = "logit_cat,logit_dog,logit_owl,label"
    path = tmp_path / "scores.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_apply_in_place_run_again_does_not_calibrate_twice(cli, scores):
    cli("apply", "t.json", "scores.csv", "-o", "scores.csv", "--force")
    once = scores.read_bytes()
    done = cli("apply", "t.json", "scores.csv", "-o", "scores.csv", "--force", ok=False)
    assert done.returncode == 1
    assert "was written by `focalibrate apply` (temperature scaling: T=2)" in done.stderr
    assert scores.read_bytes() == once


def test_new_scores_under_the_same_name_are_calibrated(cli, scores, tmp_path):
    shutil.copy(scores, tmp_path / "kept.csv")
    cli("apply", "t.json", "scores.csv", "-o", "scores.csv", "--force")
    shutil.copy(tmp_path / "kept.csv", scores)
    cli("apply", "t.json", "scores.csv", "-o", "scores.csv", "--force")


def test_parts_that_apply_wrote_are_not_calibrated_again(cli, scores, tmp_path, examples):
    (tmp_path / "day").mkdir()
    for i, part in enumerate(np.array_split(np.arange(400), 2)):
        np.savez(tmp_path / f"day/{i}.npz", logits=examples.logits[part])
    cli("apply", "t.json", "day", "-o", "done")
    done = cli("apply", "t.json", "done", "-o", "twice", ok=False)
    assert (done.returncode, "calibrated already" in done.stderr) == (1, True)
    one = cli("apply", "t.json", "done/0.npz", "-o", "twice.npz", ok=False)
    assert (one.returncode, "calibrated already" in one.stderr) == (1, True)


def test_parts_are_not_replaced_in_place(cli, scores, tmp_path, examples):
    """A run that is killed half way could not be continued: which parts are done?"""
    (tmp_path / "day").mkdir()
    for i in range(2):
        np.savez(tmp_path / f"day/{i}.npz", logits=examples.logits[i:])
    before = (tmp_path / "day/0.npz").read_bytes()
    done = cli("apply", "t.json", "day", "-o", "day", "--force", ok=False)
    assert (done.returncode, "the folder of the parts themselves" in done.stderr) == (1, True)
    assert (tmp_path / "day/0.npz").read_bytes() == before


def test_a_copy_of_a_calibrated_file_is_known(cli, scores, tmp_path):
    cli("apply", "t.json", "scores.csv", "-o", "new.csv")
    shutil.copy(tmp_path / "new.csv", tmp_path / "copy.csv")
    done = cli("apply", "t.json", "copy.csv", "-o", "twice.csv", ok=False)
    assert (done.returncode, "calibrated already" in done.stderr) == (1, True)


def test_a_calibrated_file_is_not_called_uncalibrated(cli, scores):
    cli("apply", "t.json", "scores.csv", "-o", "new.csv")
    done = cli("evaluate", "new.csv")
    assert "calibrated already (temperature scaling: T=2)" in done.stdout
    assert "uncalibrated" not in done.stdout
    assert "WARNING: calibrated a second time" not in done.stdout
    done = cli("evaluate", "new.csv", "--calibrator", "t.json")
    assert "WARNING: calibrated a second time" in done.stdout
    words = ("--methods", "temperature", "--resamples", "10")
    done = cli("calibrate", "new.csv", *words)
    assert "was written by `focalibrate apply`" in done.stdout
    assert "  calibrated already " in done.stdout
    assert "► uncalibrated" not in done.stdout
    assert "  uncalibrated" not in done.stdout
