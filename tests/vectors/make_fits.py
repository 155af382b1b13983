"""Write fits.json: what every fit finds on six small generated data sets.

    python tests/vectors/make_fits.py

The table is the answer before a change of the fits; `test_fits.py` compares the answer after it.
Run this again only where a difference is meant, and say so in the commit.
"""

import json
import warnings
from pathlib import Path

import numpy as np

from focalibrate import calibrate

PATH = Path(__file__).with_name("fits.json")
GRID = {"temperatures": [round(0.05 * k, 2) for k in range(4, 81)]}
N_SHOWN = 6
"""Rows of which the calibrated log-probabilities are in the table."""

FITS = {
    "temperature": ("temperature", {}),
    "temperature, ece": ("temperature_ece", {"criterion": "ece"}),
    "temperature, adaptive ece": ("temperature_ece", {}),
    "temperature, focal": ("focal_loss_temperature", {"gamma": 2.0}),
    "focal temperature": ("focal_temperature", {}),
    "focal temperature, ece": ("focal_temperature_ece", {"criterion": "ece", **GRID}),
    "focal temperature, adaptive ece": ("focal_temperature_ece", GRID),
    "vector": ("vector", {}),
    "structured vector": ("structured_vector", {}),
    "structured matrix": ("structured_matrix", {}),
    "focal structured vector": ("structured_vector", {"base": "focal_temperature"}),
    "dirichlet": ("dirichlet", {}),
    "ensemble temperature": ("ensemble_temperature", {}),
    "isotonic": ("isotonic", {}),
    "venn-abers": ("venn_abers", {}),
    "histogram": ("histogram", {}),
    "platt": ("platt", {"pseudo_count": 0.0}),
    "quadratic": ("quadratic", {"pseudo_count": 0.0}),
    "beta": ("beta", {"pseudo_count": 0.0}),
    "spline": ("spline", {}),
}
TWO_ONLY = ("platt", "quadratic", "beta", "spline")


def data_sets():
    """Return scores, labels and weights by name."""
    rng = np.random.default_rng(20261118)

    def drawn(n, k, scale=2.0):
        truth = scale * rng.standard_normal((n, k))
        return truth, (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)

    found = {}
    truth, labels = drawn(400, 2)
    found["two classes"] = {"logits": 1.7 * truth + [0.0, 0.4], "labels": labels}
    truth, labels = drawn(600, 3)
    weights = rng.gamma(2.0, size=600)
    found["three classes, weights"] = {
        "logits": 2.5 * truth + [0.0, -0.8, 0.3],
        "labels": labels,
        "sample_weight": weights,
    }
    truth, labels = drawn(1500, 10)
    found["ten classes"] = {"logits": 1.6 * truth, "labels": labels}
    truth, labels = drawn(2000, 100, 3.0)
    found["hundred classes, float32"] = {
        "logits": (1.3 * truth + 0.3 * rng.standard_normal(100)).astype(np.float32),
        "labels": labels,
    }
    truth, labels = drawn(500, 5)
    is_masked = rng.random(truth.shape) < 0.2
    is_masked[np.arange(500), labels] = False
    masks = np.where(rng.random(500) < 0.5, -np.inf, -1e9)
    found["five classes, masks"] = {
        "logits": np.where(is_masked, masks[:, None], 2.0 * truth),
        "labels": labels,
    }
    truth, labels = drawn(700, 3)
    odds = np.exp(1.5 * truth)
    votes = np.rint(20 * odds / odds.sum(axis=1, keepdims=True))
    votes[np.arange(700), labels] += rng.random(700) < 0.9
    votes[votes.sum(axis=1) == 0] = 1.0
    found["three classes, zeros"] = {
        "probs": votes / votes.sum(axis=1, keepdims=True),
        "labels": labels,
    }
    return found


def names_for(data):
    """Return the fits that a data set of `data_sets` is for."""
    scores = data.get("logits", data.get("probs"))
    k = scores.shape[1]
    left_out = (*(TWO_ONLY if k > 2 else ()), *(("dirichlet",) if k == 100 else ()))
    return [name for name in FITS if name not in left_out]


def found_by(name, data):
    """Return the log loss, a few rows and, where they are few, the parameters of one fit."""
    method, options = FITS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrator = calibrate.fit(**data, method=method, **options)
    scores = {key: data[key] for key in ("logits", "probs") if key in data}
    log_probs = np.asarray(calibrator.log_probs(**scores), dtype=np.float64)
    true = log_probs[np.arange(len(data["labels"])), data["labels"]]
    shown = np.maximum(log_probs[:N_SHOWN, :5], -700.0)
    record = {
        "nll": float(-np.average(np.maximum(true, -700.0), weights=data.get("sample_weight"))),
        "log_probs": shown.tolist(),
    }
    parameters = np.concatenate(
        [np.ravel(value) for value in calibrator.to_dict()["parameters"].values()]
        if all(_is_regular(v) for v in calibrator.to_dict()["parameters"].values())
        else [[]]
    )
    if 0 < len(parameters) <= 24:
        record["parameters"] = parameters.tolist()
    return record


def _is_regular(value):
    try:
        np.asarray(value, dtype=np.float64)
    except ValueError:
        return False
    return True


def sigmoid_fits():
    """Return slopes and intercepts of multi-label heads."""
    rng = np.random.default_rng(7)
    z = 2.0 * rng.standard_normal((800, 4)) + [0.0, -2.0, 1.0, -4.0]
    y = (0.6 * z + rng.logistic(size=z.shape) > 0.3).astype(int)
    w = (rng.random(z.shape) < 0.9).astype(float)
    found = {}
    for line in ("temperature", "platt"):
        for scope in ("shared", "per_label"):
            for gamma in (0.0, 2.0):
                got = calibrate.fit_multilabel(
                    z, y, line=line, scope=scope, gamma=gamma, sample_weight=w
                )
                found[f"{line}, {scope}, {gamma:g}"] = [*got.slope, *got.intercept]
    return found


if __name__ == "__main__":
    table = {
        title: {name: found_by(name, data) for name in names_for(data)}
        for title, data in data_sets().items()
    }
    table["sigmoid heads"] = sigmoid_fits()
    PATH.write_text(json.dumps(table, indent=0) + "\n", encoding="utf-8")
