"""Claims of Kimura & Naganuma (2024): entropy bound, curvature, gradient limits."""

from typing import Any

import numpy as np
from scipy import optimize

from focalibrate._array import Floats
from focalibrate_papers.claims._claim import Finding, checks, erratum_if, holds_if
from focalibrate_papers.claims._plain import (
    entropy_bound_slack,
    plain_focal,
    plain_phi,
    plain_slope,
    plain_softmax,
    two_class_slack,
)


def paper_gradient(p: Floats, gamma: float) -> Floats:
    r"""Return the expression of Eq. 30 as printed.

    .. math:: (1-p)^\gamma\,(\gamma p(1-p)^{\gamma-1}-(1-p)^\gamma\ln p)
    """
    power = (1.0 - p) ** gamma
    value: Floats = power * (gamma * p * (1.0 - p) ** (gamma - 1.0) - power * np.log(p))
    return value


@checks("004-lemma-1")
def _entropy_bound_below_one() -> Finding:
    slack = entropy_bound_slack(seed=41, gammas=(1e-3, 0.1, 0.5, 0.9, 1.0, 3.0))
    x = np.geomspace(1e-300, 0.5, 20_000)
    room = two_class_slack(x)
    return holds_if(
        slack.smallest > 0.0 and float(room.min()) > 0.0,
        f"least slack {slack.smallest:.2g} of γ·H in {slack.n} cases, γ from 0.001 to 3. "
        "It reduces, for every γ ≥ 0, to log x·log(1-x) ≤ h(x), the entropy of two classes, "
        "which follows from -log(1-x) ≤ x/√(1-x); least slack on a grid of x: "
        f"{float(room.min()):.2g}",
        otherwise=f"violated by {-min(slack.smallest, float(room.min())):.2g} of γ·H",
    )


@checks("004-lemma-1-proof")
def _bernoulli_step() -> Finding:
    p, gamma = 0.5, 0.5
    left, right = (1.0 - p) ** gamma, 1.0 - gamma * p
    grid = np.linspace(0.01, 0.99, 99)
    above = min(float(((1 - grid) ** g - (1 - g * grid)).min()) for g in (1.0, 1.5, 2.0, 5.0))
    return erratum_if(
        left < right and above >= -1e-15,
        f"γ={gamma}, p={p}: (1-p)^γ = {left:.4f} < 1-γp = {right:.4f}",
        f"for γ ≥ 1 the step is right (smallest difference {above:.1g}); below 1 the "
        "inequality is reversed, and the bound needs another proof (see 004-lemma-1)",
        where="γ ≥ 1",
    )


def _data() -> tuple[Floats, Floats]:
    """Return inputs ``[200, 5]`` and one-hot labels of three classes, drawn from a softmax."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(200, 5)), rng.normal(size=(3, 5))
    return x, np.eye(3)[(x @ w.T + rng.gumbel(size=(200, 3))).argmax(axis=1)]


def _mean_loss(flat: Floats, gamma: float) -> float:
    x, target = _data()
    p = np.sum(plain_softmax(x @ flat.reshape(3, 5).T) * target, axis=-1)
    return float(np.mean(plain_focal(p, gamma)))


def _maximum_likelihood() -> Floats:
    """Return the weights of a linear softmax model at the minimum of its cross-entropy."""
    x, target = _data()

    def slope(flat: Floats) -> Floats:
        v = plain_softmax(x @ flat.reshape(3, 5).T)
        gradient: Floats = ((v - target).T @ x / len(x)).ravel()
        return gradient

    minimize: Any = optimize.minimize  # its stubs, if installed, do not allow this call
    found = minimize(_mean_loss, np.zeros(15), args=(0.0,), jac=lambda f, _: slope(f), tol=1e-12)
    return np.asarray(found.x)


def _hessian(flat: Floats, gamma: float) -> Floats:
    r"""Return the Hessian of the mean focal loss over the weights.

    .. math:: \varphi(p)\,(\operatorname{diag} v - vv^\top)
              - \varphi'(p)\,p\,(v-e)(v-e)^\top, \text{ by example, times } xx^\top
    """
    x, target = _data()
    v = plain_softmax(x @ flat.reshape(3, 5).T)
    p = np.sum(v * target, axis=-1)
    log_p, rest = np.log(p), 1.0 - p
    phi_slope = -gamma * rest ** (gamma - 1.0) * (2.0 + log_p)
    phi_slope += gamma * (gamma - 1.0) * rest ** (gamma - 2.0) * p * log_p
    plain = v[:, :, None] * np.eye(3) - v[:, :, None] * v[:, None, :]
    off = (v - target)[:, :, None] * (v - target)[:, None, :]
    by_logit = plain_phi(p, gamma)[:, None, None] * plain - (p * phi_slope)[:, None, None] * off
    found: Floats = np.einsum("nij,na,nb->iajb", by_logit, x, x).reshape(15, 15) / len(x)
    return found


@checks("004-eq-28")
def _curvature_term() -> Finding:
    gammas, w, step = (0.0, 0.5, 1.0, 2.0, 3.0), _maximum_likelihood(), 1e-3
    top = [float(np.linalg.eigvalsh(_hessian(w, g))[-1]) for g in gammas]
    off = 0.0
    for gamma in gammas:
        bends = [
            _mean_loss(w + m, gamma) - 2.0 * _mean_loss(w, gamma) + _mean_loss(w - m, gamma)
            for m in np.eye(15) * step
        ]
        off = max(off, abs(float(np.sum(bends)) / step**2 - float(np.trace(_hessian(w, gamma)))))
    x, target = _data()
    p = np.sum(plain_softmax(x @ w.reshape(3, 5).T) * target, axis=-1)
    factors = ", ".join(f"{np.mean((1.0 - p) ** g):.3f}" for g in gammas)
    return erratum_if(
        off < 1e-4 and top[0] < top[1] < top[2] < top[3],
        "a linear softmax model at the minimum of its cross-entropy, γ = "
        f"{', '.join(f'{g:g}' for g in gammas)}: the largest eigenvalue of the Hessian of the "
        f"focal loss is {', '.join(f'{x:.4f}' for x in top)}; (1-p)^γ is {factors} on average",
        "the second-order term is φ(p) times cross-entropy's curvature plus a rank-one term, "
        f"-φ'(p)·p·(v-e)(v-e)ᵀ; second differences of the loss agree to {off:.0e}. That focal "
        "loss reduces the curvature of trained networks is an experimental question (E11)",
    )


@checks("004-eq-30")
def _printed_derivative() -> Finding:
    p, gamma, step = np.array([0.3, 0.6, 0.9]), 2.0, 1e-6
    measured = (plain_focal(p + step, gamma) - plain_focal(p - step, gamma)) / (2 * step)
    off = float(np.abs(plain_slope(p, gamma) - measured).max())
    printed = paper_gradient(p, gamma)
    is_false = off < 1e-8 and bool(np.all(np.sign(printed) != np.sign(measured)))
    return erratum_if(
        is_false,
        f"γ={gamma:g}, p={p[1]}: the loss changes at the rate {measured[1]:.4f}, the printed "
        f"expression gives {printed[1]:+.4f}",
        "the derivative is γ(1-p)^(γ-1) log p - (1-p)^γ/p, negative everywhere; it agrees with "
        f"central differences to {off:.0e}",
    )


@checks("004-eq-31")
def _limits_at_one() -> Finding:
    gaps = np.array([1e-4, 1e-8, 1e-12])
    near = 1.0 - gaps
    gammas = (0.1, 0.25, 0.4, 0.5, 0.75, 2.0)
    true = {g: plain_slope(near, g) for g in gammas}
    own = {g: paper_gradient(near, g) for g in gammas}
    vanishes = all(abs(s[2]) < abs(s[1]) < abs(s[0]) for s in true.values())
    # The derivative behaves like -(1+γ)(1-p)^γ: on a log-log scale its slope is γ.
    orders = [float(np.log(s[1] / s[0]) / np.log(gaps[1] / gaps[0])) for s in true.values()]
    follows = max(abs(o - g) for o, g in zip(orders, gammas, strict=True)) < 1e-2
    as_printed = own[0.25][2] > own[0.25][1] > own[0.25][0] > 1.0 and abs(own[0.75][2]) < 1e-5
    as_printed = as_printed and abs(own[0.5][2] - 0.5) < 1e-5
    return erratum_if(
        vanishes and follows and as_printed,
        f"γ=0.25: the derivative of the loss at 1-p = 1e-4, 1e-8, 1e-12 is {true[0.25][0]:.3g}, "
        f"{true[0.25][1]:.3g}, {true[0.25][2]:.3g}, tending to 0 like (1-p)^γ, while the "
        f"printed expression grows to {own[0.25][0]:.3g}, {own[0.25][1]:.3g}, "
        f"{own[0.25][2]:.3g}",
        "the printed limits are those of the printed expression (0.5 at γ=0.5: "
        f"{own[0.5][2]:.4f}), which is not the derivative (004-eq-30). The derivative falls like "
        f"(1-p)^γ for all of γ = {gammas}; only at γ=0 is its limit not 0 but "
        f"{float(plain_slope(near, 0.0)[2]):.0f}. A bound of γ > 0.5 does not follow",
    )


@checks("004-eq-32")
def _limit_in_gamma() -> Finding:
    p = np.array([0.2, 0.5, 0.8])
    own = paper_gradient(p, 0.5)
    printed = 0.5 * p - np.log(p) + 0.5 * np.log(p)
    meant = 0.5 * p - np.log(p) + p * np.log(p)
    off = float(np.abs(own - meant).max())
    return erratum_if(
        off < 1e-12 and abs(own[0] - printed[0]) > 1e-3,
        f"p={p[0]}: the expression of Eq. 30 gives {own[0]:.4f} at γ=0.5, the printed limit "
        f"{printed[0]:.4f}",
        f"with p ln p in place of γ ln p the two agree to {off:.0e}",
        grade="slip",
    )


@checks("004-fig-1")
def _cross_entropy_exponent() -> Finding:
    p = np.linspace(0.01, 0.99, 99)
    at_zero = float(np.abs(plain_focal(p, 0.0) + np.log(p)).max())
    example = float(plain_focal(np.array(0.5), 1.0))
    return erratum_if(
        at_zero == 0.0 and abs(example + np.log(0.5)) > 0.1,
        f"p=0.5: focal loss at γ=1 is {example:.4f}, cross-entropy {-np.log(0.5):.4f}",
        f"it is γ=0 that gives cross-entropy (largest difference {at_zero:.0f}), as the paper's "
        "text says below its Eq. 3",
        grade="slip",
    )


@checks("004-cor-1")
def _bound_direction() -> Finding:
    """Draw many training sets for two hypotheses and count how often the bound holds."""
    rng, n, epsilon, lam = np.random.default_rng(45), 100, 0.05, 1.0
    risks = np.array([0.3, 0.4])
    seen = rng.binomial(n, risks, size=(20_000, 2)) / n
    # Posterior and prior both uniform: KL = 0.
    room = np.log(2.0 * np.sqrt(n) / epsilon) / (n * lam * (1.0 - lam / 2.0))
    bound = seen.mean(axis=1) / (1.0 - lam / 2.0) + room
    holds = float(np.mean(risks.mean() <= bound))
    return erratum_if(
        holds >= 1.0 - epsilon,
        f"two hypotheses, n={n}, ε={epsilon}, λ={lam:g}: the bound holds in {holds:.1%} of 20,000 "
        f"training sets, so its probability is not at most {epsilon}",
        "Thiemann's bound, which the corollary cites, holds with probability at least 1-ε",
        grade="slip",
    )
