"""Calibration of sigmoid heads: labels that do not exclude each other, scores of detectors."""

import math
import os
from dataclasses import dataclass
from typing import Literal, Self, final

import numpy as np

from focalibrate._array import Array, Floats, like, namespace, to_numpy, working_dtype
from focalibrate._check import (
    check_choice,
    check_gamma,
    check_label_weight,
    check_multilabel,
    check_open_interval,
)
from focalibrate._stable import log_sigmoid
from focalibrate.calibrate.calibrator import (
    check_keys,
    check_version,
    frozen_numbers,
    read_document,
    write_document,
)
from focalibrate.calibrate.optimise import logistic_objective, minimise_convex
from focalibrate.theory import recover_log_odds

Line = Literal["platt", "temperature"]
Scope = Literal["shared", "per_label"]
FORMAT, VERSION = "focalibrate.sigmoid_calibrator", 1
LARGEST_SLOPE = 100.0
"""Bound of a fitted slope, reached where the scores separate the labels without error."""


@final
@dataclass(frozen=True)
class SigmoidCalibrator:
    r"""A map of the log-odds of each label: recovery, then a straight line.

    .. math:: \operatorname{logit} p_c = a_c\,\operatorname{logit}\Psi_\gamma(\sigma(z_c)) + b_c

    Temperature scaling has :math:`a = 1/T`, Platt scaling :math:`a, b`, and the recovery of a
    sigmoid focal loss :math:`a = 1`, :math:`b = -\log\frac{\alpha}{1-\alpha}`.

    Attributes:
        slope: :math:`a`, one number for all labels or one per label.
        intercept: :math:`b`, the same.
        gamma: exponent of the training loss that is undone first; 0 for none.

    Example:
        >>> recovery = SigmoidCalibrator.recovery(2.0, alpha=0.25)
        >>> recovery.probs(np.array([[-2.0, 0.0, 2.0]])).round(4)
        array([[0.0134, 0.75  , 0.9985]])

    References:
        Lin et al. (2017), Eq. 5 for the loss; paper 003, Proposition 2 for the recovery.
    """

    slope: tuple[float, ...] = (1.0,)
    intercept: tuple[float, ...] = (0.0,)
    gamma: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            numbers = frozen_numbers(value, name, depth=int(name != "gamma"))
            object.__setattr__(self, name, numbers)
        check_gamma(self.gamma, minimum=-1.0)
        sizes = {len(self.slope), len(self.intercept)} - {1}
        if len(sizes) > 1 or 0 in sizes:
            raise ValueError(
                "`slope` and `intercept` must have one number, or one per label, got "
                f"{len(self.slope)} and {len(self.intercept)}."
            )

    @classmethod
    def recovery(cls, gamma: float, *, alpha: float | None = None) -> Self:
        """Return the map that undoes a sigmoid focal loss; nothing is fitted.

        Args:
            gamma: exponent of the loss.
            alpha: weight of positive labels (negative ones have ``1 - alpha``), between 0 and 1;
                None if the loss had no weights.
        """
        if alpha is None:
            return cls(gamma=gamma)
        check_open_interval(alpha, low=0.0, high=1.0, name="alpha")
        return cls(intercept=(math.log1p(-alpha) - math.log(alpha),), gamma=gamma)

    @property
    def n_labels(self) -> int | None:
        """Number of labels; None if all share one map."""
        n = max(len(self.slope), len(self.intercept))
        return None if n == 1 else n

    def log_odds(self, logits: Array) -> Array:
        """Return calibrated log-odds, same library, shape, dtype and device as `logits`."""
        if self.n_labels not in (None, logits.shape[-1]):
            raise ValueError(
                f"`logits` must have {self.n_labels} labels on the last axis, got shape "
                f"{tuple(logits.shape)}."
            )
        xp = namespace(logits)
        x = recover_log_odds(xp.astype(logits, working_dtype(logits)), self.gamma)
        slope, intercept = (like(v, x, dtype=x.dtype) for v in (self.slope, self.intercept))
        return xp.astype(x * slope + intercept, logits.dtype)

    def probs(self, logits: Array) -> Array:
        """Return calibrated probabilities of each label, shaped as `logits`."""
        log_odds = self.log_odds(logits)
        return namespace(log_odds).exp(log_sigmoid(log_odds))

    def describe(self) -> str:
        """Return a one-line description."""
        parts = [f"posterior recovery gamma={self.gamma:g}"] if self.gamma else []
        for name, values, neutral in (
            ("slope", self.slope, 1.0),
            ("intercept", self.intercept, 0.0),
        ):
            if any(value != neutral for value in values):
                low, high = min(values), max(values)
                span = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
                parts.append(f"{name} {span}")
        n = "" if self.n_labels is None else f" of {self.n_labels} labels"
        return f"sigmoid calibration{n}: {', '.join(parts) or 'identity'}"

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write an ONNX graph from ``logits`` to ``probs``, one per label; needs onnx."""
        from focalibrate.deploy.onnx import calibrator_to_onnx

        calibrator_to_onnx(self, path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the calibrator to `path` as JSON, whole or not at all."""
        record = {"format": FORMAT, "version": VERSION, "parameters": vars(self)}
        write_document(path, record)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a calibrator that `save` wrote."""
        try:
            record = read_document(path)
            check_keys(record, ("format", "version", "parameters"), what="sigmoid calibrator file")
            check_version(record, form=FORMAT, version=VERSION)
            given = record["parameters"]
            check_keys(given, ("slope", "intercept", "gamma"), what="parameters")
            return cls(**given)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}: is not a sigmoid calibrator ({error}).") from error


def fit_multilabel(
    logits: Array,
    labels: Array,
    *,
    line: Line = "platt",
    scope: Scope = "per_label",
    gamma: float = 0.0,
    sample_weight: Array | None = None,
) -> SigmoidCalibrator:
    r"""Fit a straight line of the log-odds of each label, with the least log loss.

    ``line="platt"``, slope and intercept, has Platt's targets, :math:`\frac{n_+ + 1}{n_+ + 2}` and
    :math:`\frac{1}{n_- + 2}`, so that a label without positives, or one that the scores separate,
    has a finite fit. ``line="temperature"`` is the slope alone: convex in :math:`a = 1/T`, at most
    100, and at least 0.

    Args:
        logits: one score per label, ``[N, C]`` or ``[N]``.
        labels: 0 or 1, same shape.
        line: ``"platt"`` or ``"temperature"``.
        scope: one line ``"per_label"``, or one ``"shared"`` by all labels.
        gamma: exponent of the training loss, undone before the fit; 0 for none.
        sample_weight: ``[N]``, or ``[N, C]`` with 0 for a label that is unknown.

    Example:
        >>> z = np.array([[3.0], [3.0], [3.0], [-3.0]])
        >>> y = np.array([[1], [1], [0], [0]])
        >>> fit_multilabel(z, y, line="temperature", scope="shared").describe()
        'sigmoid calibration: slope 0.3662'

    References:
        Platt (1999), *Probabilistic outputs for support vector machines*.
    """
    check_choice(line, ("platt", "temperature"), name="line")
    with_intercept = line == "platt"
    check_choice(scope, ("shared", "per_label"), name="scope")
    z, y = to_numpy(logits), to_numpy(labels)
    check_multilabel(z, y)
    z, y = (x.astype(np.float64).reshape(len(x), -1) for x in (z, y))
    weight = np.ones(z.shape)
    if sample_weight is not None:
        weight = check_label_weight(sample_weight, shape=z.shape)
    x = recover_log_odds(z, gamma)
    if scope == "shared":
        x, y, weight = (a.reshape(-1, 1) for a in (x, y, weight))
    if with_intercept:
        positive, negative = (weight * y).sum(axis=0), (weight * (1.0 - y)).sum(axis=0)
        high, low = (positive + 1.0) / (positive + 2.0), 1.0 / (negative + 2.0)
        y = low + (high - low) * y
    lines = [_line(*column, with_intercept) for column in zip(x.T, y.T, weight.T, strict=True)]
    slope, intercept = zip(*lines, strict=True)
    return SigmoidCalibrator(slope, intercept if with_intercept else (0.0,), float(gamma))


def _line(x: Floats, y: Floats, w: Floats, with_intercept: bool) -> tuple[float, float]:
    """Return slope and intercept of one label."""
    if not w.any():
        return 1.0, 0.0
    scale = max(float(np.abs(x).max()), 1e-12)  # both parameters of one size, for the steps
    n = 1 + with_intercept
    features = np.stack([x / scale, np.ones_like(x)], axis=1)[:, :n]
    objective = logistic_objective(features, y, w)
    lower = np.array([0.0, -np.inf])[:n]
    found = minimise_convex(objective, np.array([scale, 0.0])[:n], lower=lower).x
    slope, intercept = float(found[0]) / scale, float(found[-1]) * with_intercept
    if slope <= LARGEST_SLOPE:
        return slope, intercept

    def at_bound(b: Floats) -> tuple[float, Floats, Floats]:
        value, gradient, second = objective(np.append(LARGEST_SLOPE * scale, b))
        return value, gradient[1:], second[1:, 1:]

    bounded = minimise_convex(at_bound, found[1:]).x if with_intercept else np.zeros(1)
    return LARGEST_SLOPE, float(bounded[0])
