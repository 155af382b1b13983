"""Dirichlet calibration: a matrix on log-probabilities."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from focalibrate._array import Array, Floats, namespace, working_dtype
from focalibrate._check import check_positive
from focalibrate._stable import log_softmax
from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._engine.columns import check_classes_present
from focalibrate.calibrate._engine.reporting import finished
from focalibrate.calibrate._engine.ridge import minimise_ridge
from focalibrate.calibrate._engine.ridge_design import MatrixDesign
from focalibrate.calibrate._input import check_rows, read_scores
from focalibrate.calibrate.binary import MAX_LOG_ODDS
from focalibrate.calibrate.structured import check_matrix, constant, scaled_log_probs


def _cut_logs(z: Array) -> Array:
    """Return log-probabilities, cut at -87."""
    xp = namespace(z)
    x = xp.astype(z, working_dtype(z))
    return xp.clip(log_softmax(x), -MAX_LOG_ODDS, 0.0)


@final
@dataclass(frozen=True)
class DirichletCalibration(Calibrator):
    r"""Dirichlet calibration :math:`\operatorname{softmax}(W\log p + b)`: may change predictions.

    References:
        Kull, Perelló-Nieto et al. (2019), *Beyond temperature scaling*.
    """

    matrix: tuple[tuple[float, ...], ...]
    bias: tuple[float, ...]
    kind: ClassVar[str] = "dirichlet"
    keeps_argmax: ClassVar[bool] = False

    def _check(self) -> None:
        check_matrix(self.matrix, self.bias)

    def _own_classes(self) -> int:
        return len(self.bias)

    def _log_probs(self, x: Array) -> Array:
        logs = _cut_logs(x)
        matrix, bias = (constant(v, logs) for v in self._arrays)
        return scaled_log_probs(x, logs @ matrix + bias)

    @cached_property
    def _arrays(self) -> tuple[Floats, Floats]:
        return np.ascontiguousarray(np.asarray(self.matrix).T), np.asarray(self.bias)

    def describe(self) -> str:
        """Return a one-line description."""
        return f"Dirichlet calibration: {len(self.bias)} classes"


def fit_dirichlet(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    off_diagonal: float = 1e-3,
    intercept: float = 1e-3,
    return_report: bool = False,
) -> Any:
    r"""Fit a matrix and a bias on log-probabilities, by log loss with two penalties.

    .. math:: \min_{W, b} \frac1n \sum_i -\log\operatorname{softmax}(W\log p_i + b)_{y_i}
              + \frac{\lambda}{K(K-1)} \|\operatorname{offdiag} W\|^2 + \frac{\mu}{K} \|b\|^2

    Args:
        logits: real array ``[N, K]`` of any library, data frame or list; ``[N]`` or ``[N, 1]`` are
            margins of class 1.
        labels: class indices ``[N]``.
        probs: probabilities instead of logits; ``[N]`` or ``[N, 1]`` are those of class 1.
        sample_weight: one number >= 0 per row; a whole number counts copies of the row.
        off_diagonal: :math:`\lambda > 0`.
        intercept: :math:`\mu > 0`.
        return_report: also return a `FitReport`.

    Returns:
        `DirichletCalibration`, and the report if requested.

    Numerics:
        Convex; Newton's method in float64 from the identity. Log-probabilities are cut at -87.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.standard_normal((4000, 3))
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> found = fit_dirichlet(2 * truth, labels)
        >>> round(found.matrix[0][0] - found.matrix[1][0], 1)
        0.5

    References:
        Kull, Perelló-Nieto et al. (2019), Sec. 2.3 (off-diagonal and intercept regularisation).
    """
    check_positive(off_diagonal, name="off_diagonal")
    check_positive(intercept, name="intercept")
    rows = read_scores(logits, labels, probs=probs, sample_weight=sample_weight)
    check_classes_present(rows.labels, rows.n_classes, method="Dirichlet calibration")
    z = rows.logits.astype(np.float64)
    check_rows(z.max(axis=1), z[np.arange(len(z)), rows.labels], rows.logits, rows.labels)
    k, logs = rows.n_classes, np.asarray(_cut_logs(z))
    penalty = np.full((k, k + 1), off_diagonal / (k * (k - 1)))
    penalty[np.arange(k), np.arange(k)] = 0.0
    penalty[:, k] = intercept / k
    # The penalty pulls towards 0, and the parameters are changes from the identity, whose
    # off-diagonal entries and intercept are 0 too.
    design = MatrixDesign(np.concatenate([logs, np.ones((len(logs), 1))], axis=1))
    offset = np.where(np.isfinite(z), logs, -np.inf)
    result = minimise_ridge(design, offset, rows.labels, penalty.ravel(), weights=rows.weights)
    table = result.parameters.reshape(k, k + 1)
    found = rows.stamp(
        DirichletCalibration(
            tuple(map(tuple, (np.eye(k) + table[:, :k]).tolist())), tuple(table[:, k].tolist())
        )
    )
    return finished(
        found,
        rows,
        return_report,
        value=result.loss,
        n_evaluations=result.n_evaluations,
        converged=result.converged,
    )
