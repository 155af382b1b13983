"""Commands stop where the data look wrong, and go on if told to."""

import numpy as np
import pytest

QUICK = ("--methods", "temperature", "--resamples", "10")


@pytest.fixture
def shifted(tmp_path, examples):
    for name, scale in (("bad.npz", 1.0), ("worse.npz", 2.0)):
        z = scale * examples.logits
        np.savez(tmp_path / name, logits=z, labels=(examples.labels + 1) % 3)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("calibrate", "bad.npz", *QUICK), 1),
        (("evaluate", "bad.npz"), 1),
        (("compare", "bad.npz", "worse.npz"), 1),
        (("check", "bad.npz", "--max-ece", "0.99"), 2),
    ],
)
def test_accuracy_by_chance_stops_a_command(cli, shifted, words, status):
    done = cli(*words, ok=False)
    assert done.returncode == status
    assert "no better than chance" in done.stderr
    assert "--anyway" in done.stderr
    assert "classes of the scores are in another order" in done.stderr
    again = cli(*words, "--anyway", ok=False)
    assert again.returncode in (0, 3)
    assert "WARNING: bad.npz: the scores predict the labels no better" in again.stdout


def test_a_test_set_that_is_the_file_itself(cli, val):
    done = cli("calibrate", "val.npz", "--test", "val.npz", *QUICK, ok=False)
    assert done.returncode == 1
    assert "identical to the file that methods are fitted on" in done.stderr


def test_classes_that_never_occur_are_named(cli, tmp_path, examples):
    kept = examples.labels != 2
    z, y = examples.logits[kept], examples.labels[kept]
    np.savez(tmp_path / "two.npz", logits=z, labels=y, class_names=["ox", "cat", "dog"])
    done = cli("evaluate", "two.npz")
    assert "WARNING: two.npz: dog has scores, but no row has this label" in done.stdout


def test_labels_of_one_class_stop_a_fit(cli, tmp_path, examples):
    np.savez(tmp_path / "one.npz", logits=examples.logits, labels=0 * examples.labels)
    done = cli("calibrate", "one.npz", *QUICK, ok=False)
    assert done.returncode == 1
    assert "nothing can be learned about the other classes" in done.stderr


def test_probabilities_named_logits_are_said_once(cli, tmp_path, examples):
    p = np.exp(examples.logits) / np.exp(examples.logits).sum(axis=1, keepdims=True)
    np.savez(tmp_path / "p.npz", logits=p, labels=examples.labels)
    done = cli("evaluate", "p.npz")
    assert (done.stdout + done.stderr).count("--input probs") == 1
