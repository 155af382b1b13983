"""What every calibrator and every fit accepts: forms of scores, weights, names, old files."""

import json
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.calibrate import (
    METHODS,
    CalibrationWarning,
    Calibrator,
    TemperatureScaling,
    fit,
    fit_temperature,
)
from focalibrate.calibrate.rows import read_scores

OPTIONS = {"posterior_recovery": {"gamma": 2.0}, "focal_loss_temperature": {"gamma": 2.0}}


def two_classes(n=300, seed=0):
    rng = np.random.default_rng(seed)
    margin = 2.0 * rng.standard_normal(n)
    labels = (margin + rng.logistic(size=n) > 0).astype(int)
    return 1.7 * margin + 0.3, labels


def quiet_fit(method, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return fit(*args, method=method, **options, **OPTIONS.get(method, {}))


def test_margins_and_probabilities_of_class_1_are_two_columns():
    margin, labels = two_classes()
    wide = np.stack([np.zeros_like(margin), margin], axis=1)
    p = 1 / (1 + np.exp(-margin))
    found = fit_temperature(wide, labels)
    for logits in (margin, margin[:, None], margin.tolist()):
        again = fit_temperature(logits, labels)
        assert again == found
        assert_allclose(again.probs(logits), found.probs(wide))
    for probs in (p, p[:, None], np.stack([1 - p, p], axis=1)):
        again = fit_temperature(probs=probs, labels=labels.tolist())
        assert_allclose(again.temperature, found.temperature, rtol=1e-9)
        assert_allclose(again.probs(probs=probs), found.probs(wide), rtol=1e-9)


def test_data_frames_and_other_libraries_give_the_same_fit(rows_of):
    pandas, torch = pytest.importorskip("pandas"), pytest.importorskip("torch")
    logits, labels = rows_of(200, 3)
    found = fit_temperature(logits, labels)
    assert fit_temperature(pandas.DataFrame(logits), pandas.Series(labels)) == found
    assert fit_temperature(torch.tensor(logits), torch.tensor(labels)) == found
    assert_allclose(found.probs(pandas.DataFrame(logits)), found.probs(logits))
    polars = pytest.importorskip("polars")
    assert fit_temperature(polars.DataFrame(logits), polars.Series(labels)) == found


def test_exactly_one_of_logits_and_probs_is_taken(rows_of):
    logits, labels = rows_of(10, 3)
    with pytest.raises(ValueError, match="exactly one of `logits` and `probs`, got both"):
        fit_temperature(logits, labels, probs=np.full((10, 3), 1 / 3))
    with pytest.raises(ValueError, match="got neither"):
        TemperatureScaling(1.0).probs()
    with pytest.raises(ValueError, match="`labels` must be given"):
        fit_temperature(logits)
    with pytest.raises(ValueError, match="apply `softmax` first"):
        fit_temperature(probs=logits, labels=labels)


def test_a_calibrator_refuses_another_number_of_classes(rows_of):
    found = fit_temperature(*rows_of(50, 3))
    with pytest.raises(ValueError, match="must have the 3 classes that the calibrator was fitted"):
        found.probs(np.zeros((2, 4)))


def test_zeros_are_mixed_with_the_uniform_distribution():
    probs = np.array([[1.0, 0.0], [0.6, 0.4], [0.0, 1.0], [0.3, 0.7]])
    found = fit_temperature(probs=probs, labels=[0, 1, 1, 1])
    assert 0 < found.zero_mix < 1
    assert np.isfinite(found.log_probs(probs=np.array([[0.0, 1.0]]))).all()
    again = Calibrator.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again == found


def test_probabilities_without_zeros_are_taken_as_they_are(rows_of):
    logits, labels = rows_of(100, 3, dtype=np.float64)
    probs = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    found = fit_temperature(probs=probs, labels=labels)
    assert found.zero_mix == 0
    assert_allclose(found.temperature, fit_temperature(logits, labels).temperature, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("method", [m for m in METHODS if m != "average"])  # it draws folds
def test_whole_number_weights_are_copies_in_any_order(method):
    margin, labels = two_classes(120)
    logits = np.stack([np.zeros_like(margin), margin], axis=1)
    counts = np.random.default_rng(1).integers(0, 4, len(labels))
    copies = np.repeat(np.arange(len(labels)), counts)
    repeated = quiet_fit(method, logits[copies], labels[copies])
    weighted = quiet_fit(method, logits, labels, sample_weight=counts)
    assert_allclose(weighted.probs(logits), repeated.probs(logits), rtol=1e-9, atol=1e-12)
    order = np.random.default_rng(2).permutation(len(labels))
    shuffled = quiet_fit(method, logits[order], labels[order], sample_weight=counts[order])
    assert_allclose(shuffled.probs(logits), weighted.probs(logits), rtol=1e-9, atol=1e-12)


def test_bad_weights_are_refused(rows_of):
    logits, labels = rows_of(10, 3)
    with pytest.raises(ValueError, match="`sample_weight` must have one weight per example, 10"):
        fit_temperature(logits, labels, sample_weight=[1.0])
    with pytest.raises(ValueError, match="must be finite and >= 0, but row 0 has -1"):
        fit_temperature(logits, labels, sample_weight=-np.ones(10))


def test_names_go_into_the_file(tmp_path):
    path = tmp_path / "c.json"
    named = TemperatureScaling(2.0).with_class_names(["no", "yes"])
    named.save(path)
    assert Calibrator.load(path) == named
    assert json.loads(path.read_text())["class_names"] == ["no", "yes"]
    assert named.n_classes == 2


def test_deeply_nested_files_are_refused(tmp_path):
    path = tmp_path / "c.json"
    path.write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"c\.json"):
        Calibrator.load(path)


def test_rows_that_were_checked_are_not_looked_at_again():
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(50, 3)), rng.integers(3, size=50)
    rows = read_scores(logits, labels)
    for index in (slice(0, 50, 3), labels == 1, np.array([4, 4, 2])):
        fresh = read_scores(logits[index], labels[index]).ends
        rows.check()
        taken = rows.take(index)
        assert "ends" in vars(taken)
        for got, want in zip(taken.ends, fresh, strict=True):
            assert (got == want).all()
    logits[7, 1] = np.nan
    with pytest.raises(ValueError, match="row 7 contains nan"):
        read_scores(logits, labels).check()


@pytest.mark.parametrize("method", ["platt", "quadratic", "beta", "isotonic", "auto"])
def test_an_option_that_a_method_does_not_have_is_named_with_those_it_has(rows_of, method):
    logits, labels = rows_of(100, 2)
    with pytest.raises(TypeError, match=f"`method='{method}'` has no option `foo`; it has "):
        fit(logits, labels, method=method, foo=1)
