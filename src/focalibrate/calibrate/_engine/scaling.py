r"""The scale and bias of every class that minimise the mean log loss."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate._engine.blocks import Workers, Workspace, row_blocks
from focalibrate.calibrate._input import check_rows, working_precision

TOLERANCE = 1e-10
"""Newton ends with a last step where the loss has no more than this to fall."""
SINGLE_TOLERANCE, ROUNDING = 3e-9, 1e-7
"""The same in single precision, and what that may add to a loss of 1."""
LEAST_GAIN = 4.0
"""Second derivatives of other rows are used while what is left falls by this factor per step."""
MAX_HALVINGS = 30
HESSIAN_SHARE = 0.1
HESSIAN_FLOOR = 2**24
"""Second derivatives may take this share of the logits' memory, or this many bytes."""


@dataclass(frozen=True, eq=False)
class ScalingMinimum:
    """Where the search ended."""

    x: Floats
    """Scales, in units, then biases, shape ``[2K]``."""
    loss: float
    converged: bool
    n_evaluations: int
    hessian: Floats | None = None
    """Second derivatives close to the minimum, where they were computed."""


def minimise_scaling(
    rows: NDArray[Any],
    labels: NDArray[np.intp],
    unit: float,
    *,
    weights: Floats | None = None,
    reach: float,
    max_iterations: int,
    near: ScalingMinimum | None = None,
) -> ScalingMinimum:
    r"""Return the minimum of the log loss of ``softmax(unit * x[:K] * z + x[K:])``.

    Args:
        rows: logits ``[N, K]``; -inf allowed, never at a label.
        labels: class indices ``[N]``.
        unit: what scales are counted in.
        weights: weights of the rows ``[N]``; None: 1 each.
        reach: scales stay in ``[0, reach]``, biases in ``[-reach, reach]``.
        max_iterations: of either method. Newton's takes a handful, but holds ``[2K, 2K]``
            numbers; where these are too many for the data it is L-BFGS-B.
        near: the minimum for nearly the same rows: where to start, and second derivatives that
            serve until they are too far off.
    """
    n_classes = rows.shape[1]
    low = np.concatenate([np.zeros(n_classes), np.full(n_classes, -reach)])
    high = np.full(2 * n_classes, reach)
    # A sum, one block's part of it, and what the solver copies.
    held = 4 * 8 * (2 * n_classes) ** 2
    is_small = held <= max(HESSIAN_FLOOR, HESSIAN_SHARE * rows.nbytes)
    # Newton's time goes into matrix products, for which BLAS has threads of its own: from
    # within ours they would wait for each other.
    with Workers(1 if is_small else None) as workers:
        objective = partial(_derivatives, rows, labels, weights, workers, unit)
        if not is_small:
            return _lbfgs(objective, (low, high), max_iterations, near)
        is_single = working_precision(rows) == np.float32
        return _newton(objective, (low, high), max_iterations, near, is_single=is_single)


_Objective = Callable[..., tuple[float, Floats, Floats]]
_Bounds = tuple[Floats, Floats]


def _start(bounds: _Bounds, near: ScalingMinimum | None) -> Floats:
    """Return the start: `near`, or temperature scaling, all scales one unit."""
    if near is not None:
        return near.x
    x = np.zeros(len(bounds[0]))
    x[: len(x) // 2] = 1.0
    return x


def _lbfgs(
    objective: _Objective, bounds: _Bounds, max_iterations: int, near: ScalingMinimum | None
) -> ScalingMinimum:
    from scipy.optimize import minimize

    options: Any = {"maxiter": max_iterations, "ftol": 1e-12, "gtol": 1e-7}
    result = minimize(
        lambda x: objective(x)[:2],
        _start(bounds, near),
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(*bounds, strict=True)),
        options=options,
    )
    return ScalingMinimum(result.x, float(result.fun), bool(result.success), int(result.nfev))


def _newton(
    objective: _Objective,
    bounds: _Bounds,
    max_iterations: int,
    near: ScalingMinimum | None,
    *,
    is_single: bool,
) -> ScalingMinimum:
    """Newton's method on the parameters that are not held by a bound, with halved steps."""
    x = _start(bounds, near)
    lent = None if near is None else near.hessian
    loss, gradient, hessian = objective(x, curved=lent is None)
    n_evaluations, fall_before = 1, np.inf
    tolerance, spare = (SINGLE_TOLERANCE, ROUNDING) if is_single else (TOLERANCE, 0.0)
    for _ in range(max_iterations):
        is_held = ((x <= bounds[0]) & (gradient > 0)) | ((x >= bounds[1]) & (gradient < 0))
        step = _newton_step(gradient, hessian if lent is None else lent, ~is_held)
        fall = -0.5 * float(gradient @ step)
        if fall <= (tolerance if lent is None else tolerance / 10.0):
            x = np.clip(x + step, *bounds)
            kept = hessian if lent is None else lent
            return ScalingMinimum(x, loss, True, n_evaluations, kept)
        if lent is not None and fall > fall_before / LEAST_GAIN:
            lent = None
            loss, gradient, hessian = objective(x, curved=True)
            n_evaluations += 1
            continue
        fall_before = fall
        for halving in range(MAX_HALVINGS):
            moved = np.clip(x + 0.5**halving * step, *bounds)
            found = objective(moved, curved=lent is None)
            n_evaluations += 1
            if found[0] <= loss + 1e-4 * float(gradient @ (moved - x)) + spare * abs(loss):
                break
        else:  # rounding hides what is left to gain
            return ScalingMinimum(x, loss, True, n_evaluations, lent)
        x, (loss, gradient, hessian) = moved, found
    return ScalingMinimum(x, loss, False, n_evaluations, lent)


def _newton_step(gradient: Floats, hessian: Floats, is_free: NDArray[np.bool_]) -> Floats:
    n_classes = len(gradient) // 2
    curved = hessian.copy()
    # Adding one number to all biases changes nothing: here that is given a curvature.
    curved[n_classes:, n_classes:] += np.trace(hessian) / (2 * n_classes) ** 2
    # A class of next to no mass has next to no curvature; 1e-9 of it keeps the matrix regular.
    diagonal = np.diagonal(curved)
    curved[np.diag_indices_from(curved)] += 1e-9 * diagonal + 1e-14
    step = np.zeros_like(gradient)
    step[is_free] = np.linalg.solve(curved[np.ix_(is_free, is_free)], -gradient[is_free])
    return step


def _derivatives(
    rows: NDArray[Any],
    labels: NDArray[np.intp],
    weights: Floats | None,
    workers: Workers,
    unit: float,
    x: Floats,
    *,
    curved: bool = False,
) -> tuple[float, Floats, Floats]:
    """Return the mean log loss, its gradient and, where `curved`, its second derivatives.

    Otherwise these are empty.
    """
    k = rows.shape[1]
    dtype = working_precision(rows)
    scale, bias = (unit * x[:k]).astype(dtype), x[k:].astype(dtype)
    n_total = len(rows) if weights is None else weights.sum()

    def sums(part: slice, space: Workspace) -> Floats:
        n = len(rows[part])
        z, both = (space.array(x, (n, m), dtype) for x, m in (("z", k), ("both", 2 * k)))
        p = both[:, k:]
        z[...] = rows[part]
        at_label = (np.arange(n), labels[part])
        check_rows(z.max(axis=-1), z[at_label], rows, labels)
        is_impossible = None if np.isfinite(z.min()) else ~np.isfinite(z)
        if is_impossible is not None:
            z[is_impossible] = 0.0  # a finite stand-in; its probability is set to 0 below
        np.multiply(z, scale, out=p)
        p += bias
        if is_impossible is not None:
            p[is_impossible] = -np.inf
        p -= p.max(axis=-1, keepdims=True)
        true = p[at_label]
        np.exp(p, out=p)
        total = p.sum(axis=-1)
        p /= total[:, None]
        z *= dtype(unit)
        out = np.zeros((2 * k + 1 if curved else 1, 2 * k + 1))
        if curved:
            _add_curvature(out[1:, 1:], z, both, None if weights is None else weights[part])
        p[at_label] -= 1.0
        losses = np.log(total.astype(np.float64)) - true
        if weights is not None:
            losses *= weights[part]
            p *= weights[part, None].astype(dtype)
        out[0, 0] = losses.sum()
        out[0, 1 : k + 1] = np.einsum("nk,nk->k", p, z)
        out[0, k + 1 :] = p.sum(axis=0)
        return out

    blocks = row_blocks(len(rows), row_bytes=(2 if curved else 8) * k)
    total: Floats = reduce(np.add, workers.map(sums, blocks)) / n_total
    return float(total[0, 0]), total[0, 1:], total[1:, 1:]


def _add_curvature(
    out: Floats, z: NDArray[Any], both: NDArray[Any], weights: Floats | None
) -> None:
    r"""Add :math:`\sum_i \operatorname{diag}(p_i) - p_i p_i^\top` in scales and biases.

    `both` holds the probabilities in its right half, and room for them times `z` in its left.
    """
    k = z.shape[1]
    left, p = both[:, :k], both[:, k:]
    np.multiply(p, z, out=left)
    if weights is None:
        out -= both.T @ both
    else:
        share = weights[:, None].astype(both.dtype)
        out -= (both * share).T @ both
        left, p = left * share, p * share
    at = np.arange(k)
    mixed = left.sum(axis=0)
    out[at, at] += np.einsum("nk,nk->k", left, z)
    out[at, at + k] += mixed
    out[at + k, at] += mixed
    out[at + k, at + k] += p.sum(axis=0)
