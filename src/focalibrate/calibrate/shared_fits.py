"""Fits of one method to several parts of the same rows, which share what they can."""

from collections.abc import Callable
from functools import partial
from typing import Any

from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._input import ScoredRows
from focalibrate.calibrate.ensemble import cross_fit_ensemble
from focalibrate.calibrate.fit_report import collected_warnings
from focalibrate.calibrate.fit_structured import cross_fit_structured
from focalibrate.calibrate.focal_temperature import (
    cross_fit_continuous,
    cross_fit_focal_temperature,
)
from focalibrate.calibrate.isotonic import cross_fit_isotonic
from focalibrate.calibrate.parts import Parts
from focalibrate.calibrate.temperature import cross_fit_temperature
from focalibrate.calibrate.vector import cross_fit_vector

SHARED_FITS: dict[str, Callable[..., list[Any]]] = {
    "temperature": cross_fit_temperature,
    "focal_temperature": cross_fit_continuous,
    "focal_temperature_ece": cross_fit_focal_temperature,
    "ensemble_temperature": cross_fit_ensemble,
    "vector": cross_fit_vector,
    "structured_vector": partial(cross_fit_structured, base="temperature", shape="vector"),
    "structured_matrix": partial(cross_fit_structured, base="temperature", shape="matrix"),
    "focal_structured_vector": partial(
        cross_fit_structured, base="focal_temperature", shape="vector"
    ),
    "focal_structured_matrix": partial(
        cross_fit_structured, base="focal_temperature", shape="matrix"
    ),
    "isotonic": cross_fit_isotonic,
}
"""Fits to several parts by the name of the method; others are made one by one."""


def fit_each_part(
    name: str, parts: Parts, fit: Callable[..., Any], **options: Any
) -> list[Calibrator]:
    """Return what `fit` finds on each part alone. Warnings are those of the first.

    Args:
        name: of the method.
        parts: the rows of each fit.
        fit: the method's fit of one part, used where there is nothing to share.
        options: of the fit.
    """
    if name in SHARED_FITS:
        found = SHARED_FITS[name](parts, **options)
    else:
        found = [_fit_alone(fit, parts[0], **options)]
        with collected_warnings():
            found += [_fit_alone(fit, parts[i], **options) for i in range(1, len(parts))]
    return [parts.rows.stamp(calibrator) for calibrator in found]


def _fit_alone(fit: Callable[..., Any], rows: ScoredRows, **options: Any) -> Any:
    return fit(rows.logits, rows.labels, sample_weight=rows.weights, **options)
