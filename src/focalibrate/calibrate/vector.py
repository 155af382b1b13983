"""Vector scaling."""

from functools import partial, reduce
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array
from focalibrate.calibrate._blocks import Workers, Workspace, row_blocks
from focalibrate.calibrate._columns import check_classes_present, count_changed
from focalibrate.calibrate._input import check_rows, read_logits
from focalibrate.calibrate.parametric import VectorScaling
from focalibrate.calibrate.report import FitReport, warn
from focalibrate.calibrate.temperature import quiet_temperature

Floats = NDArray[np.float64]

MAX_ITERATIONS = 300
REACH = 50.0
"""Scales stay within 0 and this many times 1/T of temperature scaling; biases within it."""


@overload
def fit_vector_scaling(
    logits: Array, labels: Array, *, return_report: Literal[False] = ...
) -> VectorScaling: ...


@overload
def fit_vector_scaling(
    logits: Array, labels: Array, *, return_report: Literal[True]
) -> tuple[VectorScaling, FitReport]: ...


def fit_vector_scaling(
    logits: Array, labels: Array, *, return_report: bool = False
) -> VectorScaling | tuple[VectorScaling, FitReport]:
    r"""Fit one scale and one bias a class by log loss, to validation data.

    .. math:: \min_{w, b} \frac1N \sum_i -\log\operatorname{softmax}(w \odot z_i + b)_{y_i}

    Convex in both. Starts from temperature scaling.

    Args:
        logits: real array ``[N, K]``, any library.
        labels: class indices ``[N]`` of at least two classes; for classes that never occur
            the bias falls to its bound, with a warning.
        return_report: also return a `FitReport`.

    Returns:
        `VectorScaling`; the biases sum to 0.

    Numerics:
        L-BFGS-B (SciPy), gradients on float64 blocks. Scales in ``[0, 50/T]`` and biases in
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
    from scipy.optimize import minimize

    rows, targets = read_logits(logits, labels)
    n_classes = rows.shape[1]
    check_classes_present(targets, n_classes, method="vector scaling")
    temperature, plain = quiet_temperature(rows, targets)
    inverse = 1.0 / temperature
    options: Any = {"maxiter": MAX_ITERATIONS, "ftol": 1e-12, "gtol": 1e-7}
    with Workers() as workers:
        objective: Any = partial(_loss_and_gradient, rows, targets, workers, inverse)
        result = minimize(
            objective,
            np.concatenate([np.ones(n_classes), np.zeros(n_classes)]),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, REACH)] * n_classes + [(-REACH, REACH)] * n_classes,
            options=options,
        )
    scale, bias = inverse * result.x[:n_classes], result.x[n_classes:]
    at_bound = plain.at_bound or bool(max(result.x.max(), -bias.min()) >= REACH)
    bias = bias - bias.mean()
    found = VectorScaling(tuple(scale.tolist()), tuple(bias.tolist()))
    if at_bound:
        warn(
            f"{found.describe()}: a scale or bias is at its bound, so the log loss still falls "
            "there. Fit on more data, or fit a temperature."
        )
    if not return_report:
        return found
    return found, FitReport(
        method=found.kind,
        criterion="nll",
        value=float(result.fun),
        n_rows=rows.shape[0],
        n_classes=n_classes,
        n_evaluations=int(result.nfev),
        converged=bool(result.success),
        at_bound=at_bound,
        n_predictions_changed=count_changed(found, rows),
    )


def _loss_and_gradient(
    rows: NDArray[Any], labels: NDArray[np.intp], workers: Workers, unit: float, x: Floats
) -> tuple[float, Floats]:
    """Return the mean log loss at ``softmax(unit * x[:K] * z + x[K:])`` and its gradient."""
    n_classes = rows.shape[1]
    scale, bias = unit * x[:n_classes], x[n_classes:]

    def sums(part: slice, space: Workspace) -> Floats:
        z, p = (space.array(name, rows[part].shape) for name in ("z", "p"))
        z[...] = rows[part]
        at_label = (np.arange(len(z)), labels[part])
        check_rows(z.max(axis=-1), z[at_label], rows, labels)
        is_possible = np.isfinite(z)
        z[~is_possible] = 0.0  # a finite stand-in; its probability is set to 0 below
        np.multiply(z, scale, out=p)
        p += bias
        p[~is_possible] = -np.inf
        p -= p.max(axis=-1, keepdims=True)
        true = p[at_label]
        np.exp(p, out=p)
        total = p.sum(axis=-1)
        p /= total[:, None]
        p[at_label] -= 1.0
        loss = np.log(total).sum() - true.sum()
        return np.concatenate([[loss], unit * np.einsum("nk,nk->k", p, z), p.sum(axis=0)])

    blocks = row_blocks(len(rows), row_bytes=8 * n_classes)
    total: Floats = reduce(np.add, workers.map(sums, blocks)) / len(rows)
    return float(total[0]), total[1:]
