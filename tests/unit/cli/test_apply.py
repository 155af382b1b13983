import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.calibrate import FocalTemperatureScaling


@pytest.fixture
def calibrator(tmp_path):
    found = FocalTemperatureScaling(gamma=1.0, temperature=2.5)
    found.save(tmp_path / "c.json")
    return found


def test_probabilities_come_in_the_format_of_the_input(cli, val, examples, calibrator, tmp_path):
    cli("apply", "c.json", "val.npz", "-o", "out.npz")
    with np.load(tmp_path / "out.npz") as data:
        assert_allclose(data["probs"], calibrator.probs(examples.logits), rtol=1e-6)
        assert (data["labels"] == examples.labels).all()


def test_labels_are_not_needed(cli, examples, calibrator, tmp_path):
    np.save(tmp_path / "new.npy", examples.logits)
    cli("apply", "c.json", "new.npy", "--input", "logits", "-o", "out.npy")
    got = np.load(tmp_path / "out.npy")
    assert_allclose(got, calibrator.probs(examples.logits), rtol=1e-6)


def test_nothing_is_overwritten_and_nothing_half_written(cli, val, calibrator, tmp_path):
    (tmp_path / "out.npz").write_text("precious")
    done = cli("apply", "c.json", "val.npz", "-o", "out.npz", ok=False)
    assert done.returncode == 1
    assert (tmp_path / "out.npz").read_text() == "precious"
    cli("apply", "c.json", "val.npz", "-o", "out.npz", "--force")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.json", "out.npz", "val.npz"]


def test_an_absent_calibrator(cli, val):
    done = cli("apply", "none.json", "val.npz", "-o", "out.npz", ok=False)
    assert done.returncode == 1
    assert "none.json" in done.stderr
