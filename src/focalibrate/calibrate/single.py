"""The single calibration methods by name: all but the average of several."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from focalibrate._array import Array
from focalibrate._check import check_choice
from focalibrate.calibrate.affine import (
    fit_dirichlet,
    fit_structured_matrix,
    fit_structured_vector,
    fit_vector_scaling,
)
from focalibrate.calibrate.calibrator import Calibrator
from focalibrate.calibrate.ensemble import fit_ensemble_temperature
from focalibrate.calibrate.fit_focal_temperature import (
    fit_focal_temperature,
)
from focalibrate.calibrate.fit_temperature import fit_temperature
from focalibrate.calibrate.focal_rows import focal_rows
from focalibrate.calibrate.log_odds import fit_beta, fit_platt, fit_quadratic, fit_spline
from focalibrate.calibrate.one_vs_rest import (
    fit_histogram_binning,
    fit_isotonic,
    fit_venn_abers,
)
from focalibrate.calibrate.rows import Rows, read_scores
from focalibrate.calibrate.temperature import Identity, PosteriorRecovery
from focalibrate.metrics import nll

CAUTION = (
    "with more than two classes, one curve per class did worse than no calibration in {} of four "
    "experiments on real predictions (docs: Which calibrator)"
)
"""Measured: ``results/arena``."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """A calibration method: what it is called, how it is fitted, and when it applies."""

    name: str
    label: str
    """The name that is shown."""
    complexity: int
    """Lower is simpler; of two equally good methods the simpler is chosen."""
    fit: Callable[..., Any]
    """``fit(logits, labels, *, probs, sample_weight, start, ...)``."""
    needs_gamma: bool = False
    """Whether the fit needs ``gamma``, the exponent of the focal loss trained with."""
    classes: Literal["any", "two"] = "any"
    """How many classes it is for."""
    default: bool = True
    """Whether `compare_methods` includes it by default."""
    keeps_argmax: bool = False
    """Whether the predicted class never changes."""
    is_by_ece: bool = False
    """Whether the fit minimises a calibration error, with options ``criterion`` and ``n_bins``."""
    caution: str = ""
    """A caution for its use with more than two classes."""
    learns: bool = True
    """Whether it learns anything from the rows."""
    max_entries: float = math.inf
    """Rows times classes times fits above which it is left out unless it is named: measured so
    that ``focalibrate calibrate`` takes 5 seconds at 10,000 x 100 and 30 at 50,000 x 1000."""
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


def _fit_identity(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    start: Calibrator | None = None,
) -> Identity:
    rows = read_scores(logits, labels, probs=probs, sample_weight=sample_weight)
    return rows.finish(Identity(), value=focal_rows(rows).nll(gamma=0.0, temperature=1.0))


def _fit_posterior_recovery(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    gamma: float,
    class_weight: Sequence[float] | None = None,
    label_smoothing: float = 0.0,
    prior: Sequence[float] | None = None,
    target_prior: Sequence[float] | None = None,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    start: Calibrator | None = None,
) -> PosteriorRecovery:
    rows = read_scores(logits, labels, probs=probs, sample_weight=sample_weight)
    per_class = {"class_weight": class_weight, "prior": prior, "target_prior": target_prior}
    given: dict[str, Any] = {
        name: None if values is None else tuple(map(float, values))
        for name, values in per_class.items()
    }
    found = PosteriorRecovery(gamma, label_smoothing=label_smoothing, **given)
    log_probs = found.log_probs(rows.logits)
    value = nll(labels=rows.labels, log_probs=log_probs, sample_weight=rows.weights)
    return rows.finish(found, value=value)


def _fit_temperature_by_ece(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    criterion: Literal["adaptive_ece", "ece"] = "adaptive_ece",
    **options: Any,
) -> Calibrator:
    return fit_temperature(logits, labels, criterion=criterion, **options)


def _fit_focal_loss_temperature(
    logits: Array | None = None, labels: Array | None = None, *, gamma: float, **options: Any
) -> Calibrator:
    return fit_temperature(logits, labels, criterion="focal", gamma=gamma, **options)


def _fit_focal_temperature(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    criterion: Literal["nll"] = "nll",
    **options: Any,
) -> Calibrator:
    check_choice(criterion, ("nll",), name="criterion")
    return fit_focal_temperature(logits, labels, criterion=criterion, **options)


def _fit_focal_temperature_by_ece(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    criterion: Literal["adaptive_ece", "ece"] = "adaptive_ece",
    **options: Any,
) -> Calibrator:
    return fit_focal_temperature(logits, labels, criterion=criterion, **options)


_TABLE = (
    Method(
        name="identity",
        treats_alike=True,
        label="uncalibrated",
        complexity=0,
        fit=_fit_identity,
        keeps_argmax=True,
        learns=False,
    ),
    Method(
        name="posterior_recovery",
        treats_alike=True,
        label="posterior recovery",
        complexity=1,
        fit=_fit_posterior_recovery,
        needs_gamma=True,
        keeps_argmax=True,
        learns=False,
    ),
    Method(
        name="temperature",
        treats_alike=True,
        label="temperature",
        complexity=2,
        fit=fit_temperature,
        keeps_argmax=True,
    ),
    Method(
        name="temperature_ece",
        treats_alike=True,
        label="temperature (by ECE)",
        complexity=3,
        fit=_fit_temperature_by_ece,
        default=False,
        keeps_argmax=True,
        is_by_ece=True,
    ),
    Method(
        name="focal_loss_temperature",
        treats_alike=True,
        label="focal-loss temperature",
        complexity=3,
        fit=_fit_focal_loss_temperature,
        needs_gamma=True,
        keeps_argmax=True,
    ),
    Method(
        name="focal_temperature",
        treats_alike=True,
        label="focal temperature",
        complexity=4,
        fit=_fit_focal_temperature,
        keeps_argmax=True,
        max_entries=400e6,
    ),
    Method(
        name="focal_temperature_ece",
        treats_alike=True,
        label="focal temperature (by ECE)",
        complexity=5,
        fit=_fit_focal_temperature_by_ece,
        default=False,
        keeps_argmax=True,
        is_by_ece=True,
    ),
    Method(name="platt", label="Platt scaling", complexity=4, fit=fit_platt, classes="two"),
    Method(
        name="quadratic", label="quadratic map", complexity=5, fit=fit_quadratic, classes="two"
    ),
    Method(name="beta", label="beta calibration", complexity=5, fit=fit_beta, classes="two"),
    Method(
        name="ensemble_temperature",
        treats_alike=True,
        label="ensemble temperature",
        complexity=5,
        fit=fit_ensemble_temperature,
        keeps_argmax=True,
        max_entries=60e6,
    ),
    Method(
        name="vector",
        label="vector scaling",
        complexity=6,
        fit=fit_vector_scaling,
        max_entries=12e6,
    ),
    Method(
        name="structured_vector",
        label="structured vector scaling",
        complexity=6,
        fit=fit_structured_vector,
        max_entries=12e6,
    ),
    Method(
        name="focal_structured_vector",
        label="focal structured vector scaling",
        complexity=7,
        fit=partial(fit_structured_vector, base="focal_temperature"),
        default=False,
    ),
    Method(
        name="structured_matrix",
        label="structured matrix scaling",
        complexity=7,
        fit=fit_structured_matrix,
        max_entries=1.5e9,
        is_matrix=True,
    ),
    Method(
        name="focal_structured_matrix",
        label="focal structured matrix scaling",
        complexity=8,
        fit=partial(fit_structured_matrix, base="focal_temperature"),
        default=False,
        max_entries=1.5e9,
        is_matrix=True,
    ),
    Method(
        name="dirichlet",
        label="Dirichlet calibration",
        complexity=8,
        fit=fit_dirichlet,
        default=False,
        max_entries=1.5e9,
        is_matrix=True,
    ),
    Method(
        name="spline",
        label="spline",
        complexity=8,
        fit=fit_spline,
        classes="two",
        default=False,
        max_entries=12e6,
    ),
    Method(
        name="isotonic",
        label="isotonic regression",
        complexity=9,
        fit=fit_isotonic,
        caution=CAUTION.format("one"),
        max_entries=60e6,
    ),
    Method(name="venn_abers", label="Venn-Abers", complexity=9, fit=fit_venn_abers, default=False),
    Method(
        name="histogram",
        label="histogram binning",
        complexity=10,
        fit=fit_histogram_binning,
        default=False,
        caution=CAUTION.format("three"),
    ),
)

SINGLE_METHODS: Mapping[str, Method] = {method.name: method for method in _TABLE}
"""All methods but the average, from simple to complex."""
