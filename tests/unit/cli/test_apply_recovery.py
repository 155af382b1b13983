import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.calibrate import PosteriorRecovery
from focalibrate.theory import estimate_prior, recover_log_odds, shift_prior


@pytest.fixture
def scores(tmp_path):
    s = 2 * np.random.default_rng(0).standard_normal(200)
    rows = np.stack([np.zeros(200), s], axis=1)
    np.savez(tmp_path / "new.npz", logits=rows)
    return rows


def applied(cli, tmp_path, *options):
    done = cli("apply", *options, "new.npz", "-o", "out.npz", "--force")
    with np.load(tmp_path / "out.npz") as data:
        return data["probs"], done.stdout


def test_a_sigmoid_focal_loss_with_alpha(cli, scores, tmp_path):
    probs, said = applied(cli, tmp_path, "--focal", "2", "--alpha", ".25")
    want = 1 / (1 + np.exp(-recover_log_odds(scores[:, 1], 2.0, alpha=0.25)))
    assert_allclose(probs[:, 1], want, rtol=1e-6)
    assert "Calibrated 200 rows (posterior recovery: gamma=2, class weights 0.75, 0.25)" in said


def test_weights_rates_and_smoothing(cli, scores, tmp_path):
    options = ("--focal", "1", "--class-weight", "1,3", "--sampling-rate", "1=0.5")
    probs, _ = applied(cli, tmp_path, *options, "--label-smoothing", "0.1")
    found = PosteriorRecovery(1.0, class_weight=(1.0, 1.5), label_smoothing=0.1)
    assert_allclose(probs, found.probs(scores), rtol=1e-6)


def test_class_frequencies_given_and_estimated(cli, scores, tmp_path):
    found = PosteriorRecovery(2.0)
    frequencies = ("--trained-prior", "1,1", "--prior")
    probs, _ = applied(cli, tmp_path, "--focal", "2", *frequencies, "0.9,0.1")
    want = shift_prior(found.log_probs(scores), [0.5, 0.5], [0.9, 0.1])
    assert_allclose(probs, np.exp(want), rtol=1e-6)
    probs, said = applied(cli, tmp_path, "--focal", "2", *frequencies, "em")
    prior = estimate_prior(found.probs(scores), [0.5, 0.5])
    want = shift_prior(found.log_probs(scores), [0.5, 0.5], prior)
    assert_allclose(probs, np.exp(want), rtol=1e-6)
    assert f"class frequencies {prior[0]:.3g}, {prior[1]:.3g}" in said


def test_class_frequencies_behind_a_calibrator(cli, scores, tmp_path):
    PosteriorRecovery(2.0).save(tmp_path / "c.json")
    want, _ = applied(cli, tmp_path, "--focal", "2", "--trained-prior", "1,1", "--prior", "3,1")
    done = cli(
        "apply", "c.json", "new.npz", "--trained-prior", "1,1", "--prior", "3,1", "-o", "b.npz"
    )
    assert "class frequencies 0.75, 0.25" in done.stdout
    with np.load(tmp_path / "b.npz") as data:
        assert_allclose(data["probs"], want, rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "Give a calibrator and a file"),
        (("c.json", "--focal", "2"), "either a calibrator or how the model was trained"),
        (("--focal", "2", "--class-weight", "1,2,3"), "--class-weight must have 2 numbers"),
        (("--focal", "2", "--class-weight", "dog=2"), "--class-weight must name classes"),
        (("--focal", "2", "--class-weight", "1,x"), "--class-weight must hold numbers, found 'x'"),
        (("--focal", "2", "--class-weight", "1,0"), "--class-weight must hold finite numbers > 0"),
        (("--focal", "2", "--prior", "em"), "--prior needs --trained-prior"),
        (("--focal", "2", "--trained-prior", "1=2", "--prior", "em"), "must name every class"),
        (("--focal", "-2"), "`gamma` must be a finite number >= -1, got -2"),
    ],
)
def test_what_cannot_be(cli, scores, options, message):
    done = cli("apply", *options, "new.npz", "-o", "out.npz", ok=False)
    assert done.returncode != 0
    assert message in done.stderr


def test_rows_that_smoothing_cannot_reach_are_counted(cli, tmp_path):
    probs = np.array([[0.5, 0.5], [0.96, 0.04], [0.999, 0.001], [0.2, 0.8]])
    np.savez(tmp_path / "new.npz", probs=probs)
    found, said = applied(cli, tmp_path, "--label-smoothing", "0.1")
    assert "2 of 4 rows have a score that no posterior explains" in said
    assert_allclose(found[1], [1.0, 0.0], atol=1e-30)
    assert "label smoothing leaves" not in applied(cli, tmp_path, "--focal", "2")[1]
    assert PosteriorRecovery(0.0, label_smoothing=0.1).n_clipped(probs=probs) == 2
    assert PosteriorRecovery(0.0).n_clipped(probs=probs) == 0
