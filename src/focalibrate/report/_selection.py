"""Error if only the most confident rows are decided by the model: risk by coverage."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.report._numbers import short, shorts

N_POINTS = 100


def risk_coverage(
    confidence: NDArray[np.float64],
    correct: NDArray[np.bool_],
    weight: NDArray[np.float64] | None = None,
) -> dict[str, Any]:
    """Return the error among the most confident rows, for shares of the rows from 1 % to all.

    Rows of equal confidence share their outcomes, so that the order of the rows does not matter.

    Args:
        confidence: ``[N]``.
        correct: ``[N]``.
        weight: weights ``[N]``, or None for equal ones.

    Returns:
        JSON: `coverage`, the observed `risk` and the `stated` one, 1 - mean confidence, of the
        rows kept; `area`, the mean risk over all coverages.
    """
    w = np.ones_like(confidence) if weight is None else weight
    order = np.argsort(-confidence, kind="stable")
    c, wrong, w = confidence[order], 1.0 - correct[order], w[order]
    starts = np.flatnonzero(np.concatenate([[True], c[1:] != c[:-1]]))
    mass = np.add.reduceat(w, starts)
    shared = np.add.reduceat(w * wrong, starts)
    kept = np.concatenate([[0.0], np.cumsum(mass)])
    errors = np.concatenate([[0.0], np.cumsum(shared)])
    doubt = np.concatenate([[0.0], np.cumsum(mass * (1.0 - c[starts]))])
    n = min(N_POINTS, len(c))
    coverage = np.arange(1, n + 1) / n
    target = coverage * kept[-1]
    risk = np.interp(target, kept, errors) / target
    stated = np.interp(target, kept, doubt) / target
    return {
        "coverage": shorts(coverage, 4),
        "risk": shorts(risk, 5),
        "stated": shorts(stated, 5),
        "area": short(float(risk.mean())),
    }
