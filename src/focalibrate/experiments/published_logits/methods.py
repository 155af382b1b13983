"""What is measured on one set of logits: calibration methods side by side."""

import warnings
from collections.abc import Iterator
from typing import Any

from focalibrate.calibrate import (
    FINE_TEMPERATURES,
    CalibrationWarning,
    Calibrator,
    TemperatureScaling,
    fit_temperature,
)
from focalibrate.comparison import compare
from focalibrate.experiments.published_logits.sets import SEED, LogitSet
from focalibrate.metrics import METRIC_NAMES, MetricName, Scorecard, scorecard

METHODS = {
    "identity": "raw",
    "posterior_recovery": "Ψ",
    "temperature": "TS_NLL",
    "temperature_ece": "TS_ECE",
    "focal_temperature": "FTS_NLL",
    "focal_temperature_ece": "FTS",
}
"""Methods compared, by their names in the literature; both ECE fits minimise AdaECE."""
FINE = "TS_ECE_fine"
"""Temperature by AdaECE on paper 003's grid, as for FTS; TS_ECE uses paper 002's grid."""
PAIRS = (
    ("TS_NLL", "raw"),
    ("FTS", "raw"),
    ("Ψ", "raw"),
    ("Ψ", "TS_NLL"),
    ("TS_ECE", "TS_NLL"),
    ("FTS_NLL", "TS_NLL"),
    ("FTS", "TS_NLL"),
    ("FTS", "TS_ECE"),
    ("FTS", FINE),
)
"""Methods whose difference is measured."""
COUNTED: dict[MetricName, str] = {"adaptive_ece": "AdaECE", "nll": "NLL"}
"""Metrics of that difference."""


def measure(one: LogitSet, *, gamma: float | None, n_resamples: int) -> list[tuple[str, float]]:
    """Fit every method on one part of a set and evaluate it on the other.

    Args:
        one: the set.
        gamma: exponent of the training loss, if it is focal loss; Ψ is then among the methods, and
            paper 002's row is measured.
        n_resamples: number of bootstrap resamples.

    Returns:
        Names and values: ``<method> <metric>``, ``<method> less <other> <metric>`` (paired), both
        with `` low`` and `` high``; ``<method> T`` and ``<method> γ``.
    """
    found = compare(
        one.fit_logits,
        one.fit_labels,
        one.test_logits,
        one.test_labels,
        methods=[m for m in METHODS if m != "posterior_recovery" or gamma is not None],
        trained_gamma=gamma,
        n_resamples=n_resamples,
        seed=SEED,
    )
    calibrators: dict[str, Calibrator] = {
        METHODS[row.method]: row.calibrator for row in found.rows
    }
    calibrators[FINE] = _fit(one, criterion="adaptive_ece", temperatures=FINE_TEMPERATURES)
    # intervals of calibration errors too: they are part of the published comparison
    cards = {
        method: scorecard(
            calibrator.probs(one.test_logits),
            one.test_labels,
            n_resamples=n_resamples,
            seed=SEED,
            resampled=METRIC_NAMES,
        )
        for method, calibrator in calibrators.items()
    }
    numbers: list[tuple[str, float]] = [
        ("rows fitted on", found.n_fitted),
        ("rows judged on", found.n_judged),
        ("classes", found.n_classes),
    ]
    numbers += _parameters(calibrators)
    numbers += _scores(cards)
    if gamma is not None:
        numbers += _by_ece(one)
    return numbers


def _fit(one: LogitSet, **options: Any) -> TemperatureScaling:
    with warnings.catch_warnings():  # a minimum at the grid's edge is a result, not an error
        warnings.simplefilter("ignore", CalibrationWarning)
        found: TemperatureScaling = fit_temperature(one.fit_logits, one.fit_labels, **options)
        return found


def _parameters(calibrators: dict[str, Calibrator]) -> Iterator[tuple[str, float]]:
    for method, calibrator in calibrators.items():
        for name, letter in (("gamma", "γ"), ("temperature", "T")):
            if hasattr(calibrator, name):
                yield f"{method} {letter}", float(getattr(calibrator, name))


def _scores(cards: dict[str, Scorecard]) -> Iterator[tuple[str, float]]:
    """Yield each metric and the paired differences, with both ends of the 95 % interval."""
    found = {
        f"{method} {metric}": card.interval(metric)
        for method, card in cards.items()
        for metric in METRIC_NAMES
    }
    found |= {
        f"{method} less {other} {metric}": cards[method].difference(cards[other], metric)
        for method, other in PAIRS
        if method in cards
        for metric in COUNTED
    }
    for name, interval in found.items():
        yield name, interval.estimate
        yield f"{name} low", interval.low
        yield f"{name} high", interval.high


def _by_ece(one: LogitSet) -> Iterator[tuple[str, float]]:
    """Yield what paper 002 prints after the temperature that minimises ECE, its own criterion."""
    found = _fit(one, criterion="ece")
    yield "T_ece T", found.temperature
    card = scorecard(found.probs(one.test_logits), one.test_labels, n_resamples=2)
    for metric in METRIC_NAMES:
        yield f"T_ece {metric}", card.estimates[metric]
