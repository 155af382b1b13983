"""The calibration methods by name: one vocabulary for the whole project."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from focalibrate._check import check_choice
from focalibrate.calibrate.affine import (
    fit_dirichlet,
    fit_structured_matrix,
    fit_structured_vector,
    fit_vector_scaling,
)
from focalibrate.calibrate.calibrator import Calibrator
from focalibrate.calibrate.fit_focal_temperature import fit_focal_temperature
from focalibrate.calibrate.fit_temperature import fit_temperature
from focalibrate.calibrate.log_odds import (
    PlattScaling,
    QuadraticScaling,
    fit_beta,
    fit_margin,
    fit_spline,
)
from focalibrate.calibrate.mixtures import fit_ensemble_temperature
from focalibrate.calibrate.one_vs_rest import (
    fit_histogram_binning,
    fit_isotonic,
    fit_venn_abers,
)
from focalibrate.calibrate.rows import C, Rows
from focalibrate.calibrate.temperature import Identity, PosteriorRecovery
from focalibrate.theory import LossForm

MODEL = "identity"
"""Name of the model as it is."""
AVERAGE = "average"
"""Name of the average of several methods."""
CAUTION = (
    "with more than two classes, one curve per class did worse than no calibration in {} of four "
    "experiments on real predictions (docs: Which calibrator)"
)
"""Measured: ``results/arena``."""


@dataclass(frozen=True)
class Method:
    """A calibration method: what it is called, how it is fitted, and when it applies."""

    name: str
    label: str
    """The name that is shown."""
    complexity: int
    """Lower is simpler; of two equally good methods the simpler is chosen."""
    fit: Callable[..., Any]
    """``fit(rows, *, start=None, ...)``; `start` is a calibrator fitted to similar rows."""
    needs_gamma: bool = False
    """Whether the fit needs ``gamma``, the exponent of the focal loss trained with."""
    classes: Literal["any", "two"] = "any"
    """How many classes it is for."""
    default: bool = True
    """Whether `compare_methods` includes it by default."""
    is_by_ece: bool = False
    """Whether the fit minimises a calibration error, with options ``criterion`` and ``n_bins``."""
    caution: str = ""
    """A caution for its use with more than two classes."""
    learns: bool = True
    """Whether it learns anything from the rows."""
    max_entries: float = math.inf
    """Rows times classes times fits above which it is left out unless it is named: measured so
    that ``focalibrate calibrate`` takes 5 seconds at 10,000 x 100 and 30 at 50,000 x 1000."""
    takes_weights: bool = False
    """Whether the fit takes the class weights of training, ``class_weight``."""
    treats_alike: bool = False
    """Whether permuted classes give permuted probabilities: it can be used for options."""
    is_matrix: bool = False
    """Whether its cost grows with the square of the classes."""

    def applies_to(
        self, n_classes: int, trained_gamma: float | None, *, options: bool = False
    ) -> bool:
        """Return whether the method can be fitted to such data."""
        has_gamma = trained_gamma is not None or not self.needs_gamma
        if options:
            return has_gamma and self.treats_alike
        return has_gamma and (self.classes == "any" or n_classes == 2)

    def is_too_slow(self, rows: Rows, n_fits: int) -> bool:
        """Return whether this many fits to `rows` would take too long."""
        cost = rows.n_rows * rows.n_classes * n_fits
        return cost * (rows.n_classes if self.is_matrix else 1) > self.max_entries


def _fit_identity(rows: Rows, *, start: Calibrator | None = None) -> Identity:
    return _unfitted(Identity(), rows)


def _fit_posterior_recovery(
    rows: Rows,
    *,
    gamma: float | None = None,
    loss: LossForm | None = None,
    class_weight: Sequence[float] | None = None,
    label_smoothing: float = 0.0,
    prior: Sequence[float] | None = None,
    target_prior: Sequence[float] | None = None,
    start: Calibrator | None = None,
) -> PosteriorRecovery:
    per_class: Any = {"class_weight": class_weight, "prior": prior, "target_prior": target_prior}
    found = PosteriorRecovery(gamma, loss=loss, label_smoothing=label_smoothing, **per_class)
    return _unfitted(found, rows)


def _unfitted(calibrator: C, rows: Rows) -> C:
    rows.check()
    return rows.finish(calibrator, value=rows.mean_loss(rows.stamp(calibrator)))


def _fit_focal_temperature(rows: Rows, *, criterion: str = "nll", **options: Any) -> Calibrator:
    check_choice(criterion, ("nll",), name="criterion")
    return fit_focal_temperature(rows, **options)


def _fit_average(rows: Rows, **options: Any) -> Calibrator:
    from focalibrate.calibrate.choice import fit_average  # an average of these methods

    return fit_average(rows, **options)


_ALIKE: dict[str, Any] = {"treats_alike": True}
_RARE: dict[str, Any] = {"default": False}
_BY_ECE: dict[str, Any] = {"is_by_ece": True, **_ALIKE, **_RARE}
_GIVEN: dict[str, Any] = {"learns": False, **_ALIKE}
_TWO: dict[str, Any] = {"classes": "two"}
_MATRIX: dict[str, Any] = {"is_matrix": True, "max_entries": 1.5e9}
_FOCAL = partial(fit_temperature, criterion="focal")
_T_ECE = partial(fit_temperature, criterion="adaptive_ece")
_FT_ECE = partial(fit_focal_temperature, criterion="adaptive_ece")
_PLATT = partial(fit_margin, PlattScaling, np.eye(2), (1.0, 0.0), 0)
_QUADRATIC = partial(fit_margin, QuadraticScaling, np.eye(3), (1.0, 0.0, 0.0), 0)
_FOCAL_SV = partial(fit_structured_vector, base="focal_temperature")
_FOCAL_SM = partial(fit_structured_matrix, base="focal_temperature")
_ISOTONIC: dict[str, Any] = {"caution": CAUTION.format("one"), "max_entries": 60e6}

# fmt: off
_TABLE = (
    Method(MODEL, "uncalibrated", 0, _fit_identity, **_GIVEN),
    Method("posterior_recovery", "posterior recovery", 1, _fit_posterior_recovery, True,
           takes_weights=True, **_GIVEN),
    Method("temperature", "temperature", 2, fit_temperature, **_ALIKE),
    Method("temperature_ece", "temperature (by ECE)", 3, _T_ECE, **_BY_ECE),
    Method("focal_loss_temperature", "focal-loss temperature", 3, _FOCAL, True, **_ALIKE),
    Method("focal_temperature", "focal temperature", 4, _fit_focal_temperature,
           max_entries=400e6, **_ALIKE),
    Method("focal_temperature_ece", "focal temperature (by ECE)", 5, _FT_ECE, **_BY_ECE),
    Method("platt", "Platt scaling", 4, _PLATT, **_TWO),
    Method("quadratic", "quadratic map", 5, _QUADRATIC, **_TWO),
    Method("beta", "beta calibration", 5, fit_beta, **_TWO),
    Method("ensemble_temperature", "ensemble temperature", 5, fit_ensemble_temperature,
           max_entries=60e6, **_ALIKE),
    Method("vector", "vector scaling", 6, fit_vector_scaling, max_entries=12e6),
    Method("structured_vector", "structured vector scaling", 6, fit_structured_vector,
           max_entries=12e6),
    Method("focal_structured_vector", "focal structured vector scaling", 7, _FOCAL_SV, **_RARE),
    Method("structured_matrix", "structured matrix scaling", 7, fit_structured_matrix, **_MATRIX),
    Method("focal_structured_matrix", "focal structured matrix scaling", 8, _FOCAL_SM,
           **_MATRIX, **_RARE),
    Method("dirichlet", "Dirichlet calibration", 8, fit_dirichlet, **_MATRIX, **_RARE),
    Method("spline", "spline", 8, fit_spline, max_entries=12e6, **_TWO, **_RARE),
    Method("isotonic", "isotonic regression", 9, fit_isotonic, **_ISOTONIC),
    Method("venn_abers", "Venn-Abers", 9, fit_venn_abers, **_RARE),
    Method("histogram", "histogram binning", 10, fit_histogram_binning,
           caution=CAUTION.format("three"), **_RARE),
    Method(AVERAGE, "average of methods", 11, _fit_average, **_ALIKE, **_RARE),
)
# fmt: on

METHODS: Mapping[str, Method] = {method.name: method for method in _TABLE}
"""The methods, from simple to complex."""
