r"""The gamma and temperature that minimise the mean log loss together."""

import math
from dataclasses import dataclass

import numpy as np

from focalibrate.calibrate._grid import GridEvaluator

START_GAMMAS = (-0.5, 0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
START_FACTORS = (0.6, 0.8, 1.0, 1.25, 1.6)
MAX_EVALUATIONS = 600


@dataclass(frozen=True)
class JointMinimum:
    """Where the search ended."""

    gamma: float
    temperature: float
    loss: float
    converged: bool
    at_bound: bool
    n_evaluations: int


def minimise_jointly(
    evaluate: GridEvaluator, temperature: float, gammas: tuple[float, float]
) -> JointMinimum:
    r"""Return the minimum over gamma, within `gammas`, and every T.

    A coarse look around the ray :math:`T = (1+\gamma)\,T_0`, along which the confidence of a
    binary classifier hardly changes, then Nelder-Mead in :math:`\gamma` and :math:`\log T`.
    Both are relative to the temperature :math:`T_0` of plain scaling, so that scaling the
    logits scales T and nothing else.

    Args:
        evaluate: the mean log loss.
        temperature: the best :math:`T_0` at ``gamma = 0``.
        gammas: least and largest gamma.
    """
    from scipy.optimize import minimize

    low, high = gammas
    starts = sorted({min(max(g, low), high) for g in START_GAMMAS})
    coarse = [
        (g, temperature * max(1.0 + g, 0.5) * factor) for g in starts for factor in START_FACTORS
    ]
    losses = [result[0, 0] for result in evaluate([(t, (g,)) for g, t in coarse])]
    g0, t0 = coarse[int(np.argmin(losses))]

    def loss(x: np.ndarray) -> float:
        point = (temperature * math.exp(float(x[1])), (float(x[0]),))
        return float(evaluate([point])[0][0, 0])

    result = minimize(
        loss,
        [g0, math.log(t0 / temperature)],
        method="Nelder-Mead",
        bounds=[(low, high), (-math.log(1e3), math.log(1e3))],
        options={"xatol": 1e-7, "fatol": 1e-13, "maxfev": MAX_EVALUATIONS},
    )
    gamma = float(result.x[0])
    at_bound = low < high and (gamma - low < 1e-6 or high - gamma < 1e-6)
    return JointMinimum(
        gamma,
        temperature * math.exp(float(result.x[1])),
        float(result.fun),
        bool(result.success),
        at_bound or abs(abs(float(result.x[1])) - math.log(1e3)) < 1e-6,
        len(coarse) + int(result.nfev),
    )
