"""Metrics, sketches and monitors on six fixed data sets, against values recorded before a change.

``python tests/vectors/test_metrics.py`` writes them again.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate import metrics
from focalibrate.metrics.sketch import confident_of

FILE = Path(__file__).with_name("metrics.json")
TOP = ("ece", "mce", "adaptive_ece", "debiased_ece", "classwise_ece", "smooth_ece")
MEANS = ("nll", "brier_score", "error_rate")


def softmax(z):
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def rows(seed, n, k, scale):
    """Return logits of a model that is overconfident, and labels."""
    rng = np.random.default_rng(seed)
    z = 2.0 * rng.normal(size=(n, k))
    return scale * z, (z + rng.gumbel(size=z.shape)).argmax(axis=1), rng


def case(name):
    """Return probabilities, labels and weights (or none) of one data set."""
    if name == "two classes":
        z, y, _ = rows(1, 600, 2, 1.4)
        return softmax(z), y, None
    if name == "three classes, ties and certain rows":
        z, y, _ = rows(2, 500, 3, 2.0)
        p = softmax(z).round(1)
        p[:40] = np.eye(3)[y[:40]]
        p[40:60] = np.array([1e-9, 1.0 - 2e-9, 1e-9])
        y[40:60] = 1
        return p / p.sum(axis=1, keepdims=True), y, None
    if name == "ten classes, whole weights":
        z, y, rng = rows(3, 700, 10, 1.5)
        return softmax(z), y, rng.integers(0, 4, size=700).astype(float)
    if name == "hundred classes, fractional weights":
        z, y, rng = rows(4, 800, 100, 1.2)
        return softmax(z), y, rng.gamma(1.0, size=800)
    if name == "two classes, float32, ties, fractional weights":
        z, y, rng = rows(5, 400, 2, 3.0)
        p = softmax(z).round(2).astype(np.float32)
        return p, y, rng.gamma(2.0, size=400)
    rng = np.random.default_rng(6)
    p = rng.beta(0.5, 1.0, size=(300, 4))
    return p, (rng.random(p.shape) < p**1.3).astype(int), rng.integers(0, 3, size=p.shape) / 2.0


CASES = (
    "two classes",
    "three classes, ties and certain rows",
    "ten classes, whole weights",
    "hundred classes, fractional weights",
    "two classes, float32, ties, fractional weights",
    "four labels",
)


def is_above_0(p, y):
    """Return whether no label has probability 0."""
    return bool((p[np.arange(len(y)), y] > 0).all())


def counts(w):
    """Return weights as arguments; whole ones were recorded as numbers of copies."""
    return {"sample_weight": w, "copies": w is not None and bool((w % 1 == 0).all())}


def of_functions(p, y, w):
    out = {name: getattr(metrics, name)(p, y, sample_weight=w) for name in TOP}
    for norm in ("l2", "max"):
        for name in ("ece", "adaptive_ece"):
            out[f"{name} {norm}"] = getattr(metrics, name)(p, y, norm=norm, sample_weight=w)
    for n_bins in (1, 7, 100):
        for name in ("ece", "adaptive_ece", "debiased_ece", "classwise_ece"):
            value = getattr(metrics, name)(p, y, n_bins=n_bins, sample_weight=w)
            out[f"{name} {n_bins}"] = value
    out["debiased_ece wide"] = metrics.debiased_ece(p, y, bins="equal-width", sample_weight=w)
    for name in MEANS if is_above_0(p, y) else MEANS[1:]:
        out[name] = getattr(metrics, name)(p, y, sample_weight=w)
        found = metrics.bootstrap(getattr(metrics, name), p, y, **counts(w), n_resamples=50)
        out[f"{name} interval"] = [found.estimate, found.low, found.high]
        other = 0.9 * p + 0.1 / p.shape[1]
        found = metrics.bootstrap(
            getattr(metrics, name), p, y, minus=other, **counts(w), n_resamples=50
        )
        out[f"{name} difference"] = [found.estimate, found.low, found.high]
    out["entropy"] = metrics.entropy(p, sample_weight=w)
    blunt = 0.9 * p + 0.1 / p.shape[1]
    out["kl_divergence"] = metrics.kl_divergence(p, blunt, sample_weight=w)
    sure = metrics.confident_fraction(p, y, threshold=0.9, sample_weight=w)
    out["confident"] = [sure.fraction, sure.accuracy]
    if p.shape[1] == 2:
        out["binary_brier_score"] = metrics.binary_brier_score(p, y, sample_weight=w)
        p1 = p[:, 1].astype(np.float64)
        out["ece binary"] = metrics.ece(p1, y, sample_weight=w, binary=True)
    return out


def of_sketch(p, y, w):
    group = np.where(np.arange(len(y)) % 3 == 0, "a", "b")
    halves = (slice(0, len(y) // 2), slice(len(y) // 2, None))
    parts = [
        metrics.Sketch.of(p[at], y[at], groups=group[at], **counts(None if w is None else w[at]))
        for at in halves
    ]
    both = parts[0] + parts[1]
    found, sure = both.evaluate(n_draws=19), confident_of(both)
    out = {f"error {name}": value for name, value in found.errors.items()}
    out |= {f"bound {name}": value for name, value in found.error_bound.items()}
    for name, score in found.scores.items():
        if np.isfinite(score.estimate):
            out[name] = [score.estimate, score.low, score.high]
    out["n"] = [both.n, both.n_zeros, sure.fraction, sure.accuracy]
    return out | {f"group {group.group}": group.n for group in found.groups}


def of_monitor(p, y, w):
    torch = pytest.importorskip("torch")
    nn = pytest.importorskip("focalibrate.nn")
    monitor = nn.CalibrationMonitor(classwise=True, by_class=True, max_rows=100)
    logits = torch.log(torch.tensor(np.maximum(p, 1e-30), dtype=torch.float64))
    labels = torch.tensor(y)
    for at in range(0, len(y), 150):
        part = slice(at, at + 150)
        weights = None if w is None else torch.tensor(w[part])
        monitor.update(logits[part], labels[part], sample_weight=weights)
    found = monitor.metrics()
    out = {}
    for name in ("ece", "adaptive_ece", "classwise_ece", "smooth_ece", "mce", "nll", "brier"):
        value = getattr(found, name, None)
        if value is not None:
            out[name] = float(value)
    out["kept"] = float(monitor.rows()[0].sum())
    return out


def of_labels(p, y, w):
    return {
        f"{average} {weights is not None}": metrics.multilabel_ece(
            p, y, average=average, sample_weight=weights
        )
        for average in ("macro", "micro")
        for weights in (None, w)
    }


def values(name):
    data = case(name)
    if name == "four labels":
        return {"functions": of_labels(*data)}
    found = {"functions": of_functions(*data), "sketch": of_sketch(*data)}
    return found | {"monitor": of_monitor(*data)}


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_recorded(name):
    recorded = json.loads(FILE.read_text(encoding="utf-8"))[name]
    found = values(name)
    assert set(found) == set(recorded)
    for kind, record in recorded.items():
        assert set(found[kind]) == set(record)
        for key, value in record.items():
            # an absolute 1e-9 for the smooth errors, which are roots
            assert_allclose(
                found[kind][key], value, rtol=1e-10, atol=1e-11, err_msg=f"{kind} {key}"
            )


if __name__ == "__main__":
    record = {name: values(name) for name in CASES}
    FILE.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
