"""The scores of paper 002's tables, and those of a network before and after T."""

import warnings
from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import CalibrationWarning, Identity, fit_temperature
from focalibrate.experiments.networks.trained import Trained
from focalibrate.metrics import adaptive_ece, classwise_ece, ece, error_rate, mce, nll


def scores(log_probs: NDArray[np.float64], labels: NDArray[np.int64]) -> dict[str, float]:
    """Return the scores of the paper's tables in percent, with NLL times 100 as in the paper."""
    v = np.exp(log_probs)
    return {
        "ECE %": 100 * ece(v, labels, n_bins=15),
        "AdaECE %": 100 * adaptive_ece(v, labels, n_bins=15),
        "classwise ECE %": 100 * classwise_ece(v, labels, n_bins=15),
        "MCE %": 100 * mce(v, labels, n_bins=15),
        "NLL %": 100 * nll(labels=labels, log_probs=log_probs),
        "error %": 100 * error_rate(v, labels),
    }


def before_and_after(found: Trained) -> Iterator[tuple[str, float]]:
    """Yield the scores on the test part before and after T, fitted on the validation part."""
    logits, labels = found.test_logits.astype(np.float64), found.test_labels
    yield from scores(np.asarray(Identity().log_probs(logits)), labels).items()
    by_ece, temperature = _scaled(found, "ece")
    yield from ((f"{name} after T", x) for name, x in by_ece.items() if name in _AFTER)
    by_ada, ada_temperature = _scaled(found, "adaptive_ece")
    yield "AdaECE % after T", by_ada["AdaECE %"]
    yield "T", temperature
    yield "|ln T|", abs(float(np.log(temperature)))
    yield "T of AdaECE", ada_temperature


_AFTER = ("ECE %", "classwise ECE %", "MCE %", "NLL %")


def _scaled(
    found: Trained, criterion: Literal["ece", "adaptive_ece"]
) -> tuple[dict[str, float], float]:
    """Return the scores after the T that minimises `criterion` on the validation part, and T."""
    with warnings.catch_warnings():  # for a T at the edge of the grid, which the rows show
        warnings.simplefilter("ignore", CalibrationWarning)
        fitted = fit_temperature(
            found.validation_logits.astype(np.float64),
            found.validation_labels,
            criterion=criterion,
        )
    log_probs: NDArray[np.float64] = np.asarray(
        fitted.log_probs(found.test_logits.astype(np.float64))
    )
    return scores(log_probs, found.test_labels), fitted.temperature
