"""Fits by name, for the command line and for comparisons."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array
from focalibrate._check import check_choice
from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._grid import Part
from focalibrate.calibrate._input import read_logits
from focalibrate.calibrate._settings import CalibrationWarning
from focalibrate.calibrate.compressed import exact_logits
from focalibrate.calibrate.fit_report import FitReport
from focalibrate.calibrate.focal_temperature import (
    cross_fit_focal_temperature,
    fit_focal_temperature,
)
from focalibrate.calibrate.histogram import fit_histogram_binning
from focalibrate.calibrate.isotonic import fit_isotonic
from focalibrate.calibrate.parametric import Identity, PosteriorRecovery
from focalibrate.calibrate.temperature import fit_temperature
from focalibrate.calibrate.vector import fit_vector_scaling

Fitted = Calibrator | tuple[Calibrator, FitReport]


def fit(method: str, logits: Array, labels: Array, **options: Any) -> Fitted:
    """Fit the calibrator called `method`.

    Args:
        method: one of `METHODS`: ``"identity"``, ``"posterior"`` (needs ``gamma``),
            ``"temperature"``, ``"focal_loss_temperature"`` (needs ``gamma``),
            ``"focal_temperature"``, ``"vector"``, ``"isotonic"``, ``"histogram"``.
        logits: real array ``[N, K]``.
        labels: class indices ``[N]``.
        options: keyword arguments of that method's own fit, ``return_report`` among them.

    Returns:
        The calibrator, or the calibrator and its `FitReport`.

    Example:
        >>> import numpy as np
        >>> logits, labels = np.log([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]]), np.array([0, 1, 1])
        >>> fit("posterior", logits, labels, gamma=2.0)
        PosteriorRecovery(gamma=2.0)
    """
    check_choice(method, tuple(METHODS), name="method")
    found: Fitted = METHODS[method](logits, labels, **options)
    return found


def _fit_identity(logits: Array, labels: Array, *, return_report: bool = False) -> Fitted:
    read_logits(logits, labels)
    return _fixed(Identity(), 0.0, logits, labels) if return_report else Identity()


def _fit_posterior(
    logits: Array, labels: Array, *, gamma: float, return_report: bool = False
) -> Fitted:
    read_logits(logits, labels)
    found = PosteriorRecovery(gamma)
    return _fixed(found, gamma, logits, labels) if return_report else found


def _fixed(
    found: Calibrator, gamma: float, logits: Array, labels: Array
) -> tuple[Calibrator, FitReport]:
    """Return a calibrator that has nothing to fit, with its log loss on these rows."""
    rows = exact_logits(logits, labels)
    return found, FitReport(
        method=found.kind,
        criterion="nll",
        value=rows.nll(gamma=gamma, temperature=1.0),
        n_rows=rows.n_rows,
        n_classes=rows.n_classes,
        n_evaluations=1,
    )


def _fit_focal_loss_temperature(
    logits: Array, labels: Array, *, gamma: float, **options: Any
) -> Fitted:
    found: Fitted = fit_temperature(logits, labels, criterion="focal", gamma=gamma, **options)
    return found


METHODS: dict[str, Callable[..., Any]] = {
    "identity": _fit_identity,
    "posterior": _fit_posterior,
    "temperature": fit_temperature,
    "focal_loss_temperature": _fit_focal_loss_temperature,
    "focal_temperature": fit_focal_temperature,
    "vector": fit_vector_scaling,
    "isotonic": fit_isotonic,
    "histogram": fit_histogram_binning,
}
"""The fits by name."""


def fit_parts(
    method: str,
    logits: NDArray[Any],
    labels: NDArray[np.intp],
    parts: Sequence[Part],
    **options: Any,
) -> list[Calibrator]:
    """Fit the calibrator called `method` to each of several parts of the same rows.

    Each is what `fit` returns for the part alone; a grid search shares what the rows have in
    common. `parts` are indices or slices; warnings are those of the first.
    """
    is_grid = options.get("search", "full") == "full" and options.get("criterion") != "nll"
    if method == "focal_temperature" and is_grid:
        return list(cross_fit_focal_temperature(logits, labels, parts, **options))
    found = [METHODS[method](logits[parts[0]], labels[parts[0]], **options)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        found += [METHODS[method](logits[p], labels[p], **options) for p in parts[1:]]
    return found
