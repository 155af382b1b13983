import warnings
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from focalibrate.calibrate import METHODS, TemperatureScaling, fit_temperature
from focalibrate.comparison import compare_methods
from focalibrate.metrics import (
    METRICS,
    adaptive_ece,
    bootstrap,
    brier_score,
    classwise_ece,
    ece,
    error_rate,
    mce,
    nll,
    smooth_ece,
)

METRIC_FUNCTIONS = {
    "ece": ece,
    "adaptive_ece": adaptive_ece,
    "classwise_ece": classwise_ece,
    "smooth_ece": smooth_ece,
    "mce": mce,
    "nll": nll,
    "brier": brier_score,
    "error": error_rate,
}

QUICK = {"n_resamples": 40}


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_on_a_test_set_the_numbers_are_those_of_the_metrics(overconfident):
    z, y = overconfident
    found = compare_methods(z[:600], y[:600], z[600:], y[600:], methods=["temperature"], **QUICK)
    row = found.row("temperature")
    fitted = replace(fit_temperature(z[:600], y[:600]), uniform_mix=1 / 601)
    assert row.calibrator == fitted
    probs, raw = fitted.probs(z[600:]), softmax(z[600:])
    for name, metric in METRIC_FUNCTIONS.items():
        assert_allclose(row.scores[name].estimate, metric(probs, y[600:]), rtol=1e-9)
    want = bootstrap(nll, probs, y[600:], minus=raw, n_resamples=40, seed=0)
    got = row.to_raw["nll"]
    assert_allclose([got.estimate, got.low, got.high], [want.estimate, want.low, want.high])
    assert row.scores["ece"].low is None
    assert (found.judged_on, found.n_fitted, found.n_judged) == ("test", 600, 600)


def test_no_row_is_judged_by_what_it_was_fitted_on(overconfident):
    z, y = (x[:300] for x in overconfident)
    found = compare_methods(z, y, methods=["temperature"], **QUICK)
    row = found.row("temperature")
    assert np.array_equal(np.sort(np.concatenate(found.folds)), np.arange(300))
    for fold, calibrator in zip(found.folds, row.fitted.without_fold, strict=True):
        rest = np.setdiff1d(np.arange(300), fold)
        alone = fit_temperature(z[rest], y[rest]).temperature
        assert calibrator.temperature == pytest.approx(alone, rel=1e-6)
        held_out = -calibrator.log_probs(z[fold])[np.arange(len(fold)), y[fold]]
        assert_allclose(row.units.nll[fold], held_out)


@pytest.mark.slow
def test_every_method_appears_with_all_its_scores(overconfident):
    z, y = overconfident
    found = compare_methods(z[:300], y[:300], trained_gamma=2.0, **QUICK)
    assert found.skipped == ()
    names = [row.method for row in found.rows]
    defaults = {m.name for m in METHODS.values() if m.default and m.applies_to(4, 2.0)}
    assert set(names) >= defaults | {"dirichlet"}  # a member of the average
    assert names[-1] == "average" or found.sole_member in names
    for row in found.rows:
        assert set(row.scores) == set(METRICS)
        for m in METRICS:
            assert np.isfinite(row.scores[m].estimate) or m == "nll"
        if row.calibrator.keeps_argmax:
            assert row.n_predictions_changed == 0
            assert row.to_raw["error"].estimate == 0
    assert found.row("temperature").to_raw["nll"].high < 0
    assert found.row("temperature").to_temperature["nll"].estimate == 0


def test_methods_that_need_gamma_wait_for_it(overconfident):
    z, y = overconfident
    with pytest.raises(ValueError, match=r"`trained_gamma` must be given for the method"):
        compare_methods(z, y, methods=["posterior_recovery"])


def test_deterministic_and_any_library(overconfident):
    z, y = overconfident
    once = compare_methods(z, y, methods=["temperature"], **QUICK)
    again = compare_methods(torch.tensor(z), torch.tensor(y), methods=["temperature"], **QUICK)
    for m in METRICS:
        assert once.rows[1].scores[m] == again.rows[1].scores[m]
    assert isinstance(again.rows[1].calibrator, TemperatureScaling)


def test_what_cannot_be_fitted_is_skipped_with_the_reason_unless_asked_for(overconfident):
    z, y = overconfident[0][:100, :2], np.zeros(100, dtype=int)
    y[0] = 1  # the only row of a class, which one fold holds out
    found = compare_methods(z, y, **QUICK)
    assert "class" in dict(found.skipped)["platt"]
    with pytest.raises(ValueError, match="class"):
        compare_methods(z, y, methods=["platt"], **QUICK)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": ["magic"]}, r"`methods` must be one of .* got 'magic'"),
        ({"test_logits": np.zeros((5, 4))}, r"must be given together"),
        (
            {"test_logits": np.zeros((5, 3)), "test_labels": np.zeros(5, int)},
            r"`test_logits` must have the 4 classes of `val_logits`, got 3",
        ),
        (
            {"test_logits": np.full((5, 4), np.nan), "test_labels": np.zeros(5, int)},
            r"test: `logits` must not contain nan",
        ),
        ({"n_bins": 0}, r"`n_bins` must be a whole number >= 1, got 0"),
        ({"n_folds": 1}, r"`n_folds` must be"),
        ({"n_folds": 5000}, r"at least 5000 rows to cross-validate, got 1200"),
    ],
)
def test_bad_input_is_named(overconfident, change, message):
    with pytest.raises(ValueError, match=message):
        compare_methods(*overconfident, **change)


def test_unknown_row(overconfident):
    found = compare_methods(*overconfident, methods=["identity"], **QUICK)
    with pytest.raises(ValueError, match=r"one of those compared, identity; got 'vector'"):
        found.row("vector")


def test_the_number_of_threads_changes_nothing(overconfident, monkeypatch):
    z, y = overconfident
    module = import_module("focalibrate.calibrate.choice")
    monkeypatch.setattr(module, "FEW_ENTRIES", 0)
    monkeypatch.setattr(module, "available_cores", lambda: 3)
    names = ["temperature", "vector", "isotonic", "structured_vector"]
    found = []
    for n_threads in (1, 3):
        monkeypatch.setattr(module, "MAX_THREADS", n_threads)
        found.append(compare_methods(z[:400], y[:400], methods=names, **QUICK))
    for one, three in zip(found[0].rows, found[1].rows, strict=True):
        assert one.method == three.method
        assert one.scores == three.scores
        assert one.calibrator == three.calibrator


def test_warnings_of_a_fit_are_notes_on_every_thread(overconfident, monkeypatch):
    z, y = overconfident
    module = import_module("focalibrate.calibrate.choice")
    monkeypatch.setattr(module, "FEW_ENTRIES", 0)
    labels = np.where(y[:200] == 3, 0, y[:200])  # a class that never occurs
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = compare_methods(z[:200], labels, methods=["temperature", "isotonic"], **QUICK)
    assert "never occur" in " ".join(found.row("isotonic").notes)
    assert found.row("temperature").notes == ()
