"""Computations of the experiment `regimes`, one function per part."""

import numpy as np

from focalibrate._array import Floats
from focalibrate.experiments.engine.experiment import Folders, Numbers, Task
from focalibrate.theory import (
    confidence_regime,
    focal_minimiser,
    gamma_star,
    phi,
    recover_posterior,
    tau_over,
    tau_under,
)

GAMMAS = (0.5, 1.0, 2.0, 3.0, 5.0)
COUNTEREXAMPLES: tuple[tuple[tuple[float, ...], float], ...] = (
    ((0.33, 0.33, 0.33, 0.01), 0.5),
    ((0.331, 0.3295, 0.3295, 0.01), 0.1),
    ((0.05, *[0.95 / 999] * 999), 1.0),
    ((0.2, *[0.8 / 999] * 999), 2.0),
)
"""Vectors whose top probability Ψ lowers, with the exponent."""


def run(task: Task, folders: Folders) -> Numbers:
    """Compute one part; nothing is read or trained."""
    del folders
    part = {
        "factor": _factor,
        "minimiser": _minimiser,
        "two levels": _two_levels,
        "vectors": _vectors,
        "counterexample": _counterexample,
        "slides": _slides,
        "footnote": _footnote,
        "thresholds": _thresholds,
    }
    return part[task["part"]](task)


def _factor(task: Task) -> Numbers:
    gamma = task["gamma"]
    v = np.unique(np.concatenate([np.linspace(0.0, 1.0, task["n"] // 2), _fine(task["n"] // 2)]))
    low, high = tau_over(gamma), tau_under(gamma)
    yield "tau_over", low
    yield "tau_under", high
    yield "phi at tau_over", float(phi(np.array(low), gamma))
    yield "phi at tau_under", float(phi(np.array(high), gamma))
    yield from (("phi", float(y), float(x)) for x, y in zip(v, phi(v, gamma), strict=True))


def _fine(n: int) -> Floats:
    """Return points that are closer together near 0, where the regimes change."""
    return np.geomspace(1e-3, 0.6, n)


def _thresholds(task: Task) -> Numbers:
    for gamma in np.geomspace(1e-2, 30.0, task["n"] // 4):
        yield "tau_over", tau_over(float(gamma)), float(gamma)
        yield "tau_under", tau_under(float(gamma)), float(gamma)


def _one_above(top: Floats, n_classes: int) -> Floats:
    """Return rows with one class at `top` and the others equal."""
    rest = np.repeat((1.0 - top)[:, None] / (n_classes - 1), n_classes - 1, axis=1)
    return np.concatenate([top[:, None], rest], axis=1)


def _minimiser(task: Task) -> Numbers:
    k, gamma = task["n_classes"], task["gamma"]
    low = 1.0 / k
    tops = np.unique(
        np.concatenate([np.linspace(low, 1.0, task["n"]), low + _fine(task["n"]) * (1.0 - low)])
    )[1:-1]
    eta = _one_above(tops, k)
    q = focal_minimiser(eta, gamma)
    top_q = q.max(axis=-1)
    yield "round trip", float(np.abs(recover_posterior(q, gamma) - eta).max())
    yield "largest over", float((top_q - tops).max())
    yield "largest under", float((tops - top_q).max())
    yield "least under", float((tops - top_q).min())
    above = np.flatnonzero(top_q > tops)
    if len(above):
        yield "crossing", float(top_q[above[-1]])
    yield from (("max q", float(y), float(x)) for x, y in zip(tops, top_q, strict=True))


def _two_levels(task: Task) -> Numbers:
    """Return the largest decrease among vectors of two levels, with `a` classes on top."""
    k, gamma = task["n_classes"], task["gamma"]
    largest, where = -np.inf, (0, 0.0)
    tied = range(1, k) if k <= 10 else np.unique(np.geomspace(1, k - 1, 10).astype(int))
    for a in (int(a) for a in tied):
        # From 1/k to 1/a, and close to 1/a, where the others become rare.
        way = np.linspace(0.0, 1.0, task["n"] // 4 + 2)[1:-1]
        way = np.concatenate([way, 1.0 - np.geomspace(1e-5, 0.5, task["n"] // 4)])
        tops = 1.0 / k + way * (1.0 / a - 1.0 / k)
        rest = np.repeat((1.0 - a * tops)[:, None] / (k - a), k - a, axis=1)
        q = np.concatenate([np.repeat(tops[:, None], a, axis=1), rest], axis=1)
        fall = tops - recover_posterior(q, gamma).max(axis=-1)
        i = int(fall.argmax())
        if fall[i] > largest:
            largest, where = float(fall[i]), (a, float(tops[i]))
    yield "largest fall", largest
    yield "tied on top", float(where[0])
    yield "max q there", where[1]


def _vectors(task: Task) -> Numbers:
    """Count random vectors that contradict Theorem 8, and find the least rise above ½."""
    rng = np.random.default_rng(task["seed"])
    wrong, n_over, n_under, rise, argmax = 0, 0, 0, np.inf, 0
    for k in (3, 5, 10, 30, 300):
        for spread in (0.3, 1.0, 30.0):
            q = np.clip(rng.dirichlet(np.full(k, spread), size=task["n"] // k + 4), 1e-12, None)
            q /= q.sum(axis=-1, keepdims=True)
            top = q.max(axis=-1)
            for gamma in GAMMAS:
                sign, after = confidence_regime(q, gamma), recover_posterior(q, gamma)
                is_over, is_under = top <= tau_over(gamma), top >= tau_under(gamma)
                wrong += int(np.sum(sign[is_over] != 1) + np.sum(sign[is_under] != -1))
                n_over, n_under = n_over + int(is_over.sum()), n_under + int(is_under.sum())
                high = (top > 0.5) & (top < 0.999)
                rise = min(rise, float((after.max(axis=-1) - top)[high].min(initial=np.inf)))
                argmax += int(np.sum(after.argmax(axis=-1) != q.argmax(axis=-1)))
    yield "in the wrong regime", float(wrong)
    yield "below tau_over", float(n_over)
    yield "above tau_under", float(n_under)
    yield "least rise above 1/2", rise
    yield "predicted class changed", float(argmax)


def _counterexample(task: Task) -> Numbers:
    vector, gamma = COUNTEREXAMPLES[task["case"] - 1]
    q = np.array(vector)
    yield "gamma", gamma
    yield "classes", float(len(q))
    yield "max q", float(q.max())
    yield "max psi", float(recover_posterior(q, gamma).max())


def _slides(task: Task) -> Numbers:
    yield "q", float(focal_minimiser(np.array([0.9, 0.1]), task["gamma"])[0])


def _footnote(task: Task) -> Numbers:
    """Find the exponents up to which vectors of K classes can be overconfident.

    Near the uniform vector (the footnote's limit), and with K-1 equal classes above a rare one.
    """
    k = task["n_classes"]
    near_uniform = _one_above(np.array([1.0 / k + 1e-6]), k)
    yield "limit near uniform", _last_overconfident(near_uniform)
    yield "limit at tied classes", _last_overconfident(_rare(k, 1e-9))
    yield "gamma_star(1/(K-1))", gamma_star(1.0 / (k - 1))
    q = _rare(k, 0.01)
    for gamma in np.geomspace(1e-3, 10.0, task["n"] // 4):
        yield "fall", float(q.max() - recover_posterior(q, float(gamma)).max()), float(gamma)


def _rare(n_classes: int, share: float) -> Floats:
    """Return K-1 equal classes above one of probability `share`."""
    return np.append(np.full(n_classes - 1, (1.0 - share) / (n_classes - 1)), share)[None]


def _last_overconfident(q: Floats) -> float:
    """Return the exponent up to which a vector is overconfident, by bisection; 0 if never."""
    low, high = 1e-4, 50.0
    if int(confidence_regime(q, low)[0]) != 1:
        return 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        is_over = int(confidence_regime(q, middle)[0]) == 1
        low, high = (middle, high) if is_over else (low, middle)
    return 0.5 * (low + high)
