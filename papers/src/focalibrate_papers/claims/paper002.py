"""Claims of paper 002, an anonymous submission to ICLR 2020."""

import math

import numpy as np

from focalibrate._array import Floats
from focalibrate.theory.factor import phi
from focalibrate.theory.minimiser import gamma_star
from focalibrate_papers.claims._claim import Finding, checks, erratum_if, holds_if
from focalibrate_papers.claims._plain import (
    entropy_bound_slack,
    plain_focal,
    plain_phi,
    plain_softmax,
)


@checks("002-prop-1")
def _gradient_factor() -> Finding:
    rng = np.random.default_rng(21)
    x, w, y = rng.normal(size=(50, 4)), rng.normal(size=(5, 4)), rng.integers(5, size=50)
    rows, step = np.arange(50), 1e-5

    def losses(weights: Floats, gamma: float) -> Floats:
        return plain_focal(plain_softmax(x @ weights.T)[rows, y], gamma)

    off = 0.0
    for gamma in (0.5, 1.0, 2.0, 5.0):
        slopes = {}
        for g in (0.0, gamma):  # per example: [50, 5, 4]
            moves = np.eye(20).reshape(20, 5, 4) * step
            both = [(losses(w + m, g) - losses(w - m, g)) / (2 * step) for m in moves]
            slopes[g] = np.stack(both, axis=-1)
        factor = phi(plain_softmax(x @ w.T)[rows, y], gamma)
        scale = np.abs(slopes[0.0]).max(axis=-1)
        error = np.abs(slopes[gamma] - factor[:, None] * slopes[0.0]).max(axis=-1)
        off = max(off, float((error / scale).max()))
    return holds_if(
        off < 1e-8,
        "central differences with respect to the last layer's 20 weights, 50 examples, four "
        f"exponents: the two gradients differ from a factor g by at most {off:.1g} relative",
        otherwise=f"the gradients are not proportional: relative difference {off:.2g}",
    )


def _lambert(p0: float) -> float:
    from scipy.special import lambertw

    a, b = 1.0 - p0, p0 * math.log(p0)
    w = lambertw(-(a ** (1.0 - a / b)) / b * math.log(a), k=-1)
    return a / b + float(w.real) / math.log(a)


@checks("002-prop-2")
def _lambert_exponent() -> Finding:
    p0s = np.linspace(0.02, 0.48, 24)
    off, highest = 0.0, -np.inf
    for p0 in p0s:
        formula = _lambert(float(p0))
        off = max(off, abs(formula / gamma_star(float(p0)) - 1.0))
        off = max(off, abs(float(plain_phi(np.array(p0), formula)) - 1.0))
        p = np.linspace(p0, 1.0 - 1e-9, 400)[1:]
        for gamma in formula * np.array([1.0, 1.5, 4.0]):
            highest = max(highest, float(plain_phi(p, gamma).max()))
    from_half = max(abs(_lambert(p0)) for p0 in (0.6, 0.7, 0.8, 0.9))
    return holds_if(
        off < 1e-8 and highest < 1.0 and from_half < 1e-12,
        f"at {len(p0s)} values of p0 the formula solves g(p0, γ*) = 1 to {off:.1g}, and g stays "
        f"below 1 for larger p and γ (largest {highest:.6f}); γ*(0.25) = {_lambert(0.25):.4f}; "
        f"|γ*| ≤ {from_half:.0e} for p0 = 0.6 to 0.9",
        otherwise=f"off by {off:.2g}, or g reaches {highest:.4f} beyond p0",
        grade="holds where",
        where="p0 < 1/2: for larger p0 the formula gives γ* = 0, cross-entropy, for which g = 1 "
        "at every p and not at p0 alone",
    )


def _nll_shapes() -> tuple[float, list[int], int]:
    """Return the least curvature in 1/T, the numbers of stationary points, and sets concave in T.

    Computed on random sets of logits of very different scales.
    """
    rng = np.random.default_rng(23)
    betas = np.geomspace(1e-2, 1e2, 161)
    least, roots, concave = np.inf, [], 0
    for scale in (0.3, 1.0, 3.0, 10.0, 30.0):
        z = scale * rng.normal(size=(200, 5))
        y = (z / 1.7 + rng.gumbel(size=z.shape)).argmax(axis=-1)
        p = plain_softmax(betas[:, None, None] * z)
        mean = np.sum(p * z, axis=-1)
        slope = np.mean(mean - z[np.arange(200), y], axis=-1)
        bend = np.mean(np.sum(p * z**2, axis=-1) - mean**2, axis=-1)
        least = min(least, float((bend / scale**2).min()))
        roots.append(int(np.sum(np.diff(np.sign(slope)) != 0)))
        # d²/dT² = β⁴ NLL''(β) + 2 β³ NLL'(β)
        concave += int(np.any(betas**4 * bend + 2.0 * betas**3 * slope < 0.0))
    return least, roots, concave


@checks("002-nll-convex")
def _not_convex() -> Finding:
    _, roots, concave = _nll_shapes()
    return holds_if(
        concave == len(roots),
        f"the second derivative in T is negative somewhere on {concave} of {len(roots)} random "
        "sets of logits",
        otherwise="the NLL is convex in T on some set",
    )


@checks("002-nll-stuck")
def _one_optimum() -> Finding:
    least, roots, _ = _nll_shapes()
    return erratum_if(
        least > -1e-12 and max(roots) == 1,
        f"on {len(roots)} random sets of logits the slope of the NLL changes sign exactly "
        f"{max(roots)} time for T from 0.01 to 100",
        f"the curvature in 1/T is a mean variance of logits, {least:.1g} or more: convex, and one "
        "optimum in 1/T is one optimum in T. The paper's choice of a grid does not depend on it: "
        "it minimises the ECE, which is neither convex nor smooth",
    )


@checks("002-app-g")
def _weight_norms() -> Finding:
    rng = np.random.default_rng(24)
    corners = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    x = np.repeat(corners, 100, axis=0) + 0.3 * rng.normal(size=(400, 2))
    y = np.repeat([-1.0, -1.0, 1.0, 1.0], 100)
    y[rng.choice(400, size=40, replace=False)] *= -1.0
    norms, confidence = {}, {}
    for gamma in (0.0, 1.0):
        w = np.zeros(2)
        for _ in range(1500):
            p = 1.0 / (1.0 + np.exp(-y * (x @ w)))
            w += np.mean((plain_phi(p, gamma) * (1.0 - p) * y)[:, None] * x, axis=0)
        norms[gamma] = float(np.linalg.norm(w))
        p = 1.0 / (1.0 + np.exp(-y * (x @ w)))
        confidence[gamma] = float(np.mean(1.0 - p[p < 0.5]))
    return erratum_if(
        norms[0.0] > norms[1.0],
        "logistic regression on four clusters, one label in ten flipped: "
        f"‖w‖ = {norms[0.0]:.3f} for cross-entropy, {norms[1.0]:.3f} for γ=1",
        "mean confidence of the mistakes: "
        f"{confidence[0.0]:.3f} for cross-entropy, {confidence[1.0]:.3f} for γ=1; the "
        "appendix's own figure, the paragraph before and the conclusion of the sentence agree "
        "with these numbers",
        grade="slip",
    )


@checks("002-app-h")
def _entropy_bound() -> Finding:
    slack = entropy_bound_slack(seed=25, gammas=(1.0, 1.5, 2.0, 5.0, 20.0))
    return holds_if(
        slack.smallest > 0.0,
        f"least slack {slack.smallest:.2g} of γ·H in {slack.n} cases (targets one-hot "
        f"and soft, 2 to 100 classes, γ ≥ 1)",
        otherwise=f"violated by {-slack.smallest:.2g} of γ·H",
    )
