"""Claims of Kimura & Naganuma (2024): entropy bound, curvature, gradient limits."""

import numpy as np

from focalibrate.theory.claims._claim import Claim, Finding, holds_if, refuted_if
from focalibrate.theory.claims._entropy_bound import entropy_bound_slack, two_class_slack
from focalibrate.theory.claims._plain import (
    Floats,
    plain_focal,
    plain_phi,
    plain_slope,
    plain_softmax,
)

SOURCE = "Kimura & Naganuma (2024)"


def paper_gradient(p: Floats, gamma: float) -> Floats:
    r"""Return the expression of Eq. 30 as printed.

    .. math:: (1-p)^\gamma\,(\gamma p(1-p)^{\gamma-1}-(1-p)^\gamma\ln p)
    """
    power = (1.0 - p) ** gamma
    value: Floats = power * (gamma * p * (1.0 - p) ** (gamma - 1.0) - power * np.log(p))
    return value


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


def _bernoulli_step() -> Finding:
    p, gamma = 0.5, 0.5
    left, right = (1.0 - p) ** gamma, 1.0 - gamma * p
    grid = np.linspace(0.01, 0.99, 99)
    above = min(float(((1 - grid) ** g - (1 - g * grid)).min()) for g in (1.0, 1.5, 2.0, 5.0))
    return refuted_if(
        left < right and above >= -1e-15,
        f"γ={gamma}, p={p}: (1-p)^γ = {left:.4f} < 1-γp = {right:.4f}",
        f"for γ ≥ 1 the step is right (smallest difference {above:.1g}); below 1 it points the "
        "other way, and the bound has to be proved otherwise (see 004-lemma-1)",
        where="γ ≥ 1",
    )


def _linear_model() -> tuple[Floats, Floats, Floats]:
    rs = np.random.RandomState(3)
    x, w, y = rs.randn(200, 5), rs.randn(3, 5) * 0.5, rs.randint(0, 3, 200)
    return x, w, np.eye(3)[y]


def _analytic_traces(gamma: float) -> tuple[float, float]:
    """Return the trace of the true Hessian, and what Eq. 28 makes of it."""
    x, w, target = _linear_model()
    v = plain_softmax(x @ w.T)
    p = np.sum(v * target, axis=-1)
    size = np.sum(x**2, axis=-1)
    curvature = size * np.sum(v * (1.0 - v), axis=-1)
    gradient = size * np.sum((v - target) ** 2, axis=-1)
    log_p, rest = np.log(p), 1.0 - p
    phi_slope = -gamma * rest ** (gamma - 1.0) * (2.0 + log_p)
    phi_slope += gamma * (gamma - 1.0) * rest ** (gamma - 2.0) * p * log_p
    true = np.mean(plain_phi(p, gamma) * curvature - p * phi_slope * gradient)
    return float(true), float(np.mean(rest**gamma * curvature))


def _difference_trace(gamma: float) -> float:
    """Return the trace of the Hessian by second differences of the mean loss."""
    x, w, target = _linear_model()
    step = 1e-3

    def loss(weights: Floats) -> float:
        p = np.sum(plain_softmax(x @ weights.T) * target, axis=-1)
        return float(np.mean(plain_focal(p, gamma)))

    moves = np.eye(w.size).reshape(w.size, *w.shape) * step
    bends = [loss(w + m) - 2.0 * loss(w) + loss(w - m) for m in moves]
    return float(np.sum(bends)) / step**2


def _curvature_term() -> Finding:
    gammas = (0.0, 0.5, 1.0)
    true, paper = zip(*(_analytic_traces(g) for g in gammas), strict=True)
    measured = [_difference_trace(g) for g in gammas]
    off = max(abs(t - m) for t, m in zip(true, measured, strict=True))
    is_false = off < 1e-5 and true[0] < true[1] < true[2] and paper[2] < paper[0]

    def listed(values: tuple[float, ...]) -> str:
        return ", ".join(f"{v:.4f}" for v in values)

    tried = ", ".join(f"{g:g}" for g in gammas)

    return refuted_if(
        is_false,
        f"a fixed linear softmax model, γ = {tried}: the trace of the Hessian rises, "
        f"{listed(true)}, where the printed term gives {listed(paper)}",
        "φ(p) times cross-entropy's curvature plus the rank-one term -φ'(p)·p·(v-e)(v-e)ᵀ "
        f"agrees with second differences of the loss to {off:.0e}",
    )


def _printed_derivative() -> Finding:
    p, gamma, step = np.array([0.3, 0.6, 0.9]), 2.0, 1e-6
    measured = (plain_focal(p + step, gamma) - plain_focal(p - step, gamma)) / (2 * step)
    off = float(np.abs(plain_slope(p, gamma) - measured).max())
    printed = paper_gradient(p, gamma)
    is_false = off < 1e-8 and bool(np.all(np.sign(printed) != np.sign(measured)))
    return refuted_if(
        is_false,
        f"γ={gamma:g}, p={p[1]}: the loss changes at the rate {measured[1]:.4f}, the printed "
        f"expression gives {printed[1]:+.4f}",
        "the derivative is γ(1-p)^(γ-1) log p - (1-p)^γ/p, negative everywhere; it agrees with "
        f"central differences to {off:.0e}",
    )


def _limits_at_one() -> Finding:
    gaps = np.array([1e-4, 1e-8, 1e-12])
    near = 1.0 - gaps
    gammas = (0.1, 0.25, 0.4, 0.5, 0.75, 2.0)
    true = {g: plain_slope(near, g) for g in gammas}
    own = {g: paper_gradient(near, g) for g in gammas}
    vanishes = all(abs(s[2]) < abs(s[1]) < abs(s[0]) for s in true.values())
    # The derivative goes like -(1+γ)(1-p)^γ, so that on a log scale its slope is γ.
    orders = [float(np.log(s[1] / s[0]) / np.log(gaps[1] / gaps[0])) for s in true.values()]
    follows = max(abs(o - g) for o, g in zip(orders, gammas, strict=True)) < 1e-2
    as_printed = own[0.25][2] > own[0.25][1] > own[0.25][0] > 1.0 and abs(own[0.75][2]) < 1e-5
    as_printed = as_printed and abs(own[0.5][2] - 0.5) < 1e-5
    return refuted_if(
        vanishes and follows and as_printed,
        f"γ=0.25: the derivative of the loss at 1-p = 1e-4, 1e-8, 1e-12 is {true[0.25][0]:.3g}, "
        f"{true[0.25][1]:.3g}, {true[0.25][2]:.3g}, on its way to 0 like (1-p)^γ, where the "
        f"printed expression grows to {own[0.25][0]:.3g}, {own[0.25][1]:.3g}, "
        f"{own[0.25][2]:.3g}",
        "the printed limits are those of the printed expression (0.5 at γ=0.5: "
        f"{own[0.5][2]:.4f}), which is not the derivative (004-eq-30). The derivative falls like "
        f"(1-p)^γ for all of γ = {gammas}; only at γ=0 is its limit not 0 but "
        f"{float(plain_slope(near, 0.0)[2]):.0f}. A bound of γ > 0.5 does not follow",
    )


def _limit_in_gamma() -> Finding:
    p = np.array([0.2, 0.5, 0.8])
    own = paper_gradient(p, 0.5)
    printed = 0.5 * p - np.log(p) + 0.5 * np.log(p)
    meant = 0.5 * p - np.log(p) + p * np.log(p)
    off = float(np.abs(own - meant).max())
    return refuted_if(
        off < 1e-12 and abs(own[0] - printed[0]) > 1e-3,
        f"p={p[0]}: the expression of Eq. 30 gives {own[0]:.4f} at γ=0.5, the printed limit "
        f"{printed[0]:.4f}",
        f"with p ln p in place of γ ln p the two agree to {off:.0e}",
    )


def _cross_entropy_exponent() -> Finding:
    p = np.linspace(0.01, 0.99, 99)
    at_zero = float(np.abs(plain_focal(p, 0.0) + np.log(p)).max())
    example = float(plain_focal(np.array(0.5), 1.0))
    return refuted_if(
        at_zero == 0.0 and abs(example + np.log(0.5)) > 0.1,
        f"p=0.5: focal loss at γ=1 is {example:.4f}, cross-entropy {-np.log(0.5):.4f}",
        f"it is γ=0 that gives cross-entropy (largest difference {at_zero:.0f})",
    )


CLAIMS = (
    Claim(
        id="004-lemma-1",
        source=SOURCE,
        statement="For every γ ≥ 0 focal loss is at least cross-entropy minus γ times the "
        "entropy of the prediction.",
        expected="holds",
        check=_entropy_bound_below_one,
    ),
    Claim(
        id="004-lemma-1-proof",
        source=SOURCE,
        statement="The first step of the lemma's proof, (1-p)^γ ≥ 1-γp, holds for every γ ≥ 0.",
        expected="refuted",
        check=_bernoulli_step,
    ),
    Claim(
        id="004-eq-28",
        source=SOURCE,
        statement="The second-order term of focal loss is cross-entropy's times (1-p)^γ, so that "
        "a larger γ makes the curvature smaller.",
        expected="refuted",
        check=_curvature_term,
    ),
    Claim(
        id="004-eq-30",
        source=SOURCE,
        statement="The gradient of focal loss with respect to p is "
        "(1-p)^γ (γp(1-p)^(γ-1) - (1-p)^γ ln p).",
        expected="refuted",
        check=_printed_derivative,
    ),
    Claim(
        id="004-eq-31",
        source=SOURCE,
        statement="As p goes to 1 the gradient of focal loss vanishes only for γ > 0.5 (and 0); "
        "below it grows without bound.",
        expected="refuted",
        check=_limits_at_one,
    ),
    Claim(
        id="004-eq-32",
        source=SOURCE,
        statement="As γ goes to 0.5 the expression of Eq. 30 becomes 0.5p - ln p + γ ln p.",
        expected="refuted",
        check=_limit_in_gamma,
    ),
    Claim(
        id="004-fig-1",
        source=SOURCE,
        statement="Focal loss is cross-entropy at γ = 1.",
        expected="refuted",
        check=_cross_entropy_exponent,
    ),
)
