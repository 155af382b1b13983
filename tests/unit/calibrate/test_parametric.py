import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate._array import to_numpy
from focalibrate.calibrate import (
    FocalTemperatureScaling,
    Identity,
    PosteriorRecovery,
    TemperatureScaling,
    VectorScaling,
    fit,
)
from focalibrate.theory import recover_log_odds, recover_log_posterior

CALIBRATORS = [
    Identity(),
    PosteriorRecovery(2.0),
    TemperatureScaling(1.7),
    FocalTemperatureScaling(-0.5, 0.6),
    VectorScaling((1.0, 2.0, 0.5), (0.0, 0.1, -0.1)),
]
LOGITS = np.array([[0.5, 2.0, -1.0], [100.0, -100.0, 0.0], [3.0, -np.inf, 3.0]])


@pytest.mark.slow
@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=lambda c: c.kind)
def test_every_library_gives_the_same_rows_on_the_simplex(xp, calibrator):
    want = calibrator.log_probs(LOGITS)
    logits = xp.asarray(LOGITS)
    got = calibrator.log_probs(logits)
    assert type(got) is type(logits)
    assert got.dtype == logits.dtype
    assert_allclose(to_numpy(got), want, rtol=1e-12)
    assert_allclose(to_numpy(calibrator.probs(logits)).sum(axis=-1), 1.0, rtol=1e-12)
    assert want[2, 1] == -np.inf


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=lambda c: c.kind)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_dtype_is_kept(calibrator, dtype):
    got = calibrator.probs(LOGITS.astype(dtype))
    assert got.dtype == dtype
    assert_allclose(got, calibrator.probs(LOGITS), atol=1e-3 if dtype == np.float16 else 1e-6)


def test_half_precision_does_not_overflow_at_low_temperatures():
    logits = np.array([[900.0, 899.0]], dtype=np.float16)
    assert_allclose(TemperatureScaling(0.01).log_probs(logits), [[0.0, -100.0]])


@pytest.mark.parametrize("calibrator", CALIBRATORS[:-1], ids=lambda c: c.kind)
def test_the_predicted_class_is_kept(rows_of, calibrator):
    logits, _ = rows_of(500, 7, dtype=np.float64)
    assert calibrator.keeps_argmax
    assert (calibrator.probs(logits).argmax(axis=1) == logits.argmax(axis=1)).all()


def test_neutral_parameters_are_the_identity():
    for neutral in (
        PosteriorRecovery(0.0),
        TemperatureScaling(1.0),
        FocalTemperatureScaling(0.0, 1.0),
        VectorScaling((1.0,) * 3, (0.0,) * 3),
    ):
        assert_allclose(neutral.log_probs(LOGITS), Identity().log_probs(LOGITS), rtol=1e-14)


def test_descriptions_are_one_line_with_the_parameters():
    lines = [c.describe() for c in CALIBRATORS]
    assert all("\n" not in line and len(line) < 90 for line in lines)
    assert "gamma=-0.5, T=0.6" in lines[3]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TemperatureScaling(0.0), "`temperature` must be a finite number > 0, got 0.0"),
        (lambda: TemperatureScaling(float("nan")), "got nan"),
        (lambda: TemperatureScaling("1"), "got '1'"),
        (lambda: PosteriorRecovery(-1.5), "`gamma` must be a finite number >= -1"),
        (
            lambda: FocalTemperatureScaling(float("inf"), 1.0),
            "`gamma` must hold finite numbers only",
        ),
        (lambda: VectorScaling((1.0,), (0.0,)), "one entry per class"),
        (lambda: VectorScaling((1.0, 2.0), (0.0, 1.0, 2.0)), "one entry per class, got 2 and 3"),
        (
            lambda: VectorScaling((1.0, float("nan")), (0.0, 1.0)),
            "`scale` must hold finite numbers only, got nan",
        ),
    ],
)
def test_bad_parameters_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_low_temperature_costs_no_digits_in_float32():
    rng = np.random.default_rng(0)
    z = (rng.normal(size=(200, 5)) * 0.02 + 500).astype(np.float32)
    for calibrator in (TemperatureScaling(0.01), FocalTemperatureScaling(1.0, 0.01)):
        want = calibrator.probs(z.astype(np.float64))
        assert_allclose(calibrator.probs(z), want, atol=3e-7)


CONDITIONS = {
    "class_weight": (5.0, 1.0, 0.5),
    "label_smoothing": 0.1,
    "prior": (0.2, 0.3, 0.5),
    "target_prior": (0.5, 0.3, 0.2),
}


def test_recovery_with_weights_smoothing_and_priors(tmp_path):
    z = 2 * np.random.default_rng(0).standard_normal((50, 3))
    found = PosteriorRecovery(2.0, **CONDITIONS)
    assert_allclose(found.log_probs(z), recover_log_posterior(z, 2.0, **CONDITIONS), rtol=1e-12)
    found.save(tmp_path / "c.json")
    assert PosteriorRecovery.load(tmp_path / "c.json") == found
    assert found.n_classes == 3
    assert not found.keeps_argmax
    assert found.describe() == (
        "posterior recovery: gamma=2, class weights 5, 1, 0.5, label smoothing 0.1, "
        "other class frequencies"
    )
    assert "class_weight=(5.0, 1.0, 0.5)" in repr(found)
    assert fit(z, np.arange(50) % 3, gamma=2.0, **CONDITIONS, method="posterior_recovery") == found
    with pytest.raises(ValueError, match=r"`logits` must have the 3 classes"):
        found.probs(np.zeros((1, 2)))


def test_recovery_of_a_sigmoid_focal_loss_with_alpha():
    s = np.linspace(-4, 4, 9)
    probs = PosteriorRecovery(2.0, class_weight=(0.75, 0.25)).probs(s)
    want = recover_log_odds(s, 2.0, alpha=0.25)
    assert_allclose(np.log(probs[:, 1] / probs[:, 0]), want, rtol=1e-10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"class_weight": [1.0, "2"]}, "`class_weight` must hold finite numbers only, got '2'"),
        ({"class_weight": (1.0, 0.0)}, "`class_weight` must hold finite numbers > 0"),
        ({"label_smoothing": 1.0}, r"`label_smoothing` must be a number in \[0, 1\)"),
        ({"prior": (0.5, 0.5)}, "`prior` and `target_prior` must be given together"),
        (
            {"class_weight": (1.0, 2.0), "prior": (1.0,) * 3, "target_prior": (1.0,) * 3},
            "`prior` must have one number per class",
        ),
    ],
)
def test_conditions_that_cannot_be(options, message):
    with pytest.raises(ValueError, match=message):
        PosteriorRecovery(2.0, **options)
