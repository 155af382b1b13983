"""Claims of our own, not in any paper: how weights, α, smoothing and priors change Ψ."""

import numpy as np

from focalibrate._array import Floats
from focalibrate.theory.posterior import recover_posterior
from focalibrate.theory.temperature import recover_log_odds
from focalibrate_papers.claims._claim import Finding, checks, holds_if
from focalibrate_papers.claims._plain import as_text, minimise_plain_risk, plain_focal

GAMMAS = (0.0, 0.5, 2.0, 5.0)
CLOSE = 1e-7
"""Largest error of a probability; a general-purpose minimiser reaches 1e-8."""


def _random_cases(seed: int) -> list[tuple[Floats, Floats]]:
    """Return posteriors and weights of 2 to 6 classes."""
    rng = np.random.default_rng(seed)
    return [(rng.dirichlet(np.full(k, 2.0)), rng.uniform(0.2, 5.0, size=k)) for k in (2, 3, 4, 6)]


@checks("ours-weights")
def _weights_are_divided_out() -> Finding:
    worst, n = 0.0, 0
    for eta, weight in _random_cases(0):
        for gamma in GAMMAS:
            trained = minimise_plain_risk(weight * eta, gamma)
            back = recover_posterior(trained, gamma, class_weight=weight)
            worst, n = max(worst, float(np.abs(back - eta).max())), n + 1
    eta, weight = np.array([0.95, 0.05]), np.array([1.0, 10.0])
    trained = minimise_plain_risk(weight * eta, 2.0)
    plain = recover_posterior(trained, 2.0)
    return holds_if(
        worst < CLOSE,
        f"largest error {worst:.1g} over {n} numeric minimisers of the weighted risk (2 to 6 "
        f"classes, weights .2 to 5). A class of frequency .05 with weight 10 at γ=2: the model "
        f"gives {as_text(trained)}, Ψ alone {as_text(plain)}, Ψ with the weights "
        f"{as_text(recover_posterior(trained, 2.0, class_weight=weight))}",
        otherwise=f"off by {worst:.2g}",
    )


@checks("ours-alpha")
def _alpha_shifts_the_log_odds() -> Finding:
    from scipy.optimize import minimize_scalar

    worst, n = 0.0, 0
    for eta in (0.02, 0.3, 0.5, 0.9):
        for alpha in (0.1, 0.25, 0.75):
            for gamma in GAMMAS:
                found = minimize_scalar(
                    lambda z, g=gamma, a=alpha, e=eta: float(_sigmoid_risk(z, e, a, g)),
                    bounds=(-30.0, 30.0),
                    method="bounded",
                    options={"xatol": 1e-11},
                )
                odds = float(recover_log_odds(np.array([found.x]), gamma, alpha=alpha)[0])
                worst, n = max(worst, abs(1.0 / (1.0 + np.exp(-odds)) - eta)), n + 1
    return holds_if(
        worst < CLOSE,
        f"largest error {worst:.1g} over {n} numeric minimisers of the sigmoid focal risk",
        otherwise=f"off by {worst:.2g}",
    )


def _sigmoid_risk(z: float, eta: float, alpha: float, gamma: float) -> Floats:
    p = np.asarray(1.0 / (1.0 + np.exp(-z)))
    return alpha * eta * plain_focal(p, gamma) + (1.0 - alpha) * (1.0 - eta) * plain_focal(
        1.0 - p, gamma
    )


@checks("ours-smoothing")
def _smoothing_is_undone() -> Finding:
    worst, n = 0.0, 0
    for eta, weight in _random_cases(1):
        for gamma in GAMMAS:
            for smoothing in (0.05, 0.2):
                target = (1.0 - smoothing) * eta + smoothing / len(eta)
                trained = minimise_plain_risk(weight * target, gamma)
                back = recover_posterior(
                    trained, gamma, class_weight=weight, label_smoothing=smoothing
                )
                worst, n = max(worst, float(np.abs(back - eta).max())), n + 1
    return holds_if(
        worst < CLOSE,
        f"largest error {worst:.1g} over {n} numeric minimisers of the weighted risk of smoothed "
        "targets, 5 and 20 %",
        otherwise=f"off by {worst:.2g}",
    )


@checks("ours-priors")
def _priors_are_exchanged() -> Finding:
    rng = np.random.default_rng(2)
    worst, n = 0.0, 0
    for k in (2, 3, 5):
        like = rng.dirichlet(np.full(6, 1.0), size=k)  # P(x | class) of six values of x
        train, use = rng.dirichlet(np.full(k, 3.0), size=2)
        for gamma in GAMMAS:
            for x in range(6):
                eta, want = (p * like[:, x] / (p @ like[:, x]) for p in (train, use))
                back = recover_posterior(
                    minimise_plain_risk(eta, gamma), gamma, prior=train, target_prior=use
                )
                worst, n = max(worst, float(np.abs(back - want).max())), n + 1
    return holds_if(
        worst < CLOSE,
        f"largest error {worst:.1g} over {n} posteriors, against Bayes' rule under the new "
        "frequencies",
        otherwise=f"off by {worst:.2g}",
    )
