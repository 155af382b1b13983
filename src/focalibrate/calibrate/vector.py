"""Vector scaling."""

from typing import Literal, overload

from focalibrate._array import Array
from focalibrate.calibrate._engine.columns import check_classes_present
from focalibrate.calibrate._engine.reporting import finished
from focalibrate.calibrate._engine.scaling import ScalingMinimum, minimise_scaling
from focalibrate.calibrate._input import ScoredRows, read_scores
from focalibrate.calibrate.fit_report import FitReport, collected_warnings, warn
from focalibrate.calibrate.parametric import VectorScaling
from focalibrate.calibrate.parts import Parts
from focalibrate.calibrate.temperature import quiet_temperature, share_temperatures

MAX_ITERATIONS = 300
REACH = 50.0
"""Scales stay within 0 and this many times 1/T of temperature scaling; biases within it."""


@overload
def fit_vector_scaling(
    logits: Array | None = ...,
    labels: Array | None = ...,
    *,
    probs: Array | None = ...,
    sample_weight: Array | None = ...,
    return_report: Literal[False] = ...,
) -> VectorScaling: ...


@overload
def fit_vector_scaling(
    logits: Array | None = ...,
    labels: Array | None = ...,
    *,
    probs: Array | None = ...,
    sample_weight: Array | None = ...,
    return_report: Literal[True],
) -> tuple[VectorScaling, FitReport]: ...


def fit_vector_scaling(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    return_report: bool = False,
) -> VectorScaling | tuple[VectorScaling, FitReport]:
    r"""Fit one scale and one bias per class by log loss, to validation data.

    .. math:: \min_{w, b} \frac1N \sum_i -\log\operatorname{softmax}(w \odot z_i + b)_{y_i}

    Convex in both. Starts from temperature scaling.

    Args:
        logits: real array ``[N, K]`` of any library, data frame or list; ``[N]`` or ``[N, 1]`` are
            margins of class 1.
        labels: class indices ``[N]`` of at least two classes; for classes that never occur
            the bias falls to its bound, with a warning.
        probs: probabilities instead of logits; ``[N]`` or ``[N, 1]`` are those of class 1.
        sample_weight: one number >= 0 per row; a whole number counts copies of the row.
        return_report: also return a `FitReport`.

    Returns:
        `VectorScaling`; the biases sum to 0.

    Numerics:
        Newton's method on float64 blocks (float32 for large single-precision logits), to within
        1e-10 of the least log loss; L-BFGS-B
        (SciPy) where ``[2K, 2K]`` second derivatives would take more than a tenth of the
        logits' memory, and more than 16 MB. Scales in ``[0, 50/T]`` and biases in
        ``[-50, 50]`` keep separable data finite.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.standard_normal((20000, 3))
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> found = fit_vector_scaling(truth - [0.0, 1.0, 0.0], labels)
        >>> round(found.bias[1] - found.bias[0], 1)
        1.0

    References:
        Guo et al. (2017), Sec. 4.2.
    """
    rows = read_scores(logits, labels, probs=probs, sample_weight=sample_weight)
    found, result, at_bound = _fit(rows, None)
    return finished(
        found,
        rows,
        return_report,
        value=result.loss,
        n_evaluations=result.n_evaluations,
        converged=result.converged,
        at_bound=at_bound,
    )


def cross_fit_vector(parts: Parts) -> list[VectorScaling]:
    """Return the vector scaling of each part; the first's minimum is near those of the others."""
    share_temperatures(parts)
    whole, near, _ = _fit(parts[0], None)
    with collected_warnings():
        return [whole, *(_fit(parts[i], near)[0] for i in range(1, len(parts)))]


def _fit(
    rows: ScoredRows, near: ScalingMinimum | None
) -> tuple[VectorScaling, ScalingMinimum, bool]:
    """Return the calibrator, the minimum, and whether it is at a bound."""
    check_classes_present(rows.labels, rows.n_classes, method="vector scaling")
    temperature, plain = quiet_temperature(rows)
    inverse = 1.0 / temperature
    result = minimise_scaling(
        rows.logits,
        rows.labels,
        inverse,
        weights=rows.weights,
        reach=REACH,
        max_iterations=MAX_ITERATIONS,
        near=near,
    )
    scale, bias = inverse * result.x[: rows.n_classes], result.x[rows.n_classes :]
    at_bound = plain.at_bound or bool(max(result.x.max(), -bias.min()) >= REACH)
    bias = bias - bias.mean()
    found = VectorScaling(tuple(scale.tolist()), tuple(bias.tolist()))
    if at_bound:
        warn(
            f"{found.describe()}: a scale or bias is at its bound, so the log loss still falls "
            "there. Fit on more data, or fit a temperature."
        )
    return rows.stamp(found), result, at_bound
