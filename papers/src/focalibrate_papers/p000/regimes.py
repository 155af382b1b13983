"""Where focal training is over- and underconfident: φ, its thresholds, max η against max q."""

from collections.abc import Iterator, Sequence

import numpy as np

from focalibrate._array import Floats
from focalibrate.theory import (
    confidence_regime,
    focal_minimiser,
    gamma_star,
    phi,
    recover_posterior,
    tau_over,
    tau_under,
)
from focalibrate_papers import engine as lab
from focalibrate_papers.charts import Chart, Panel, Series

GAMMAS = (0.5, 1.0, 2.0, 3.0, 5.0)
COUNTEREXAMPLES: tuple[tuple[tuple[float, ...], float], ...] = (
    ((0.33, 0.33, 0.33, 0.01), 0.5),
    ((0.331, 0.3295, 0.3295, 0.01), 0.1),
    ((0.05, *[0.95 / 999] * 999), 1.0),
    ((0.2, *[0.8 / 999] * 999), 2.0),
)
"""Vectors whose top probability Ψ lowers, with the exponent."""


def run(task: lab.Task, folders: lab.Folders) -> lab.Numbers:
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


def _factor(task: lab.Task) -> lab.Numbers:
    gamma = task["gamma"]
    v = np.unique(np.concatenate([np.linspace(0.0, 1.0, task["n"] // 2), _fine(task["n"] // 2)]))
    low, high = tau_over(gamma), tau_under(gamma)
    yield "tau_over", low
    yield "tau_under", high
    yield "phi at tau_over", float(phi(np.array(low), gamma))
    yield "phi at tau_under", float(phi(np.array(high), gamma))
    yield from lab.drawn("phi", v, phi(v, gamma))


def _fine(n: int) -> Floats:
    """Return points that are closer together near 0, where the regimes change."""
    return np.geomspace(1e-3, 0.6, n)


def _thresholds(task: lab.Task) -> lab.Numbers:
    for gamma in np.geomspace(1e-2, 30.0, task["n"] // 4):
        yield "tau_over", tau_over(float(gamma)), float(gamma)
        yield "tau_under", tau_under(float(gamma)), float(gamma)


def _one_above(top: Floats, n_classes: int) -> Floats:
    """Return rows with one class at `top` and the others equal."""
    rest = np.repeat((1.0 - top)[:, None] / (n_classes - 1), n_classes - 1, axis=1)
    return np.concatenate([top[:, None], rest], axis=1)


def _minimiser(task: lab.Task) -> lab.Numbers:
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
    yield from lab.drawn("max q", tops, top_q)


def _two_levels(task: lab.Task) -> lab.Numbers:
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


def _vectors(task: lab.Task) -> lab.Numbers:
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


def _counterexample(task: lab.Task) -> lab.Numbers:
    vector, gamma = COUNTEREXAMPLES[task["case"] - 1]
    q = np.array(vector)
    yield "gamma", gamma
    yield "classes", float(len(q))
    yield "max q", float(q.max())
    yield "max psi", float(recover_posterior(q, gamma).max())


def _slides(task: lab.Task) -> lab.Numbers:
    yield "q", float(focal_minimiser(np.array([0.9, 0.1]), task["gamma"])[0])


def _footnote(task: lab.Task) -> lab.Numbers:
    """Find the exponents up to which vectors of K classes can be overconfident.

    Near the uniform vector (the footnote's limit), and with K-1 equal classes above a rare one.
    """
    k = task["n_classes"]
    near_uniform = _one_above(np.array([1.0 / k + 1e-6]), k)
    yield "limit near uniform", _last_overconfident(near_uniform)
    yield "limit at tied classes", _last_overconfident(_rare(k, 1e-9))
    yield "gamma_star(1/(K-1))", gamma_star(1.0 / (k - 1))
    q = _rare(k, 0.01)
    gammas = np.geomspace(1e-3, 10.0, task["n"] // 4)
    falls = [q.max() - recover_posterior(q, float(gamma)).max() for gamma in gammas]
    yield from lab.drawn("fall", gammas, np.array(falls))


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


SHOWN_GAMMA = 3.0
"""The exponent whose regions are shaded in paper 000's Figure 1."""
FIGURE_CLASSES = (2, 1000)
SEARCHED_CLASSES = (2, 3, 4, 5, 10, 100, 1000)
SEARCHED_GAMMAS = (0.01, 0.03, 0.1, *GAMMAS)
FOOTNOTE_CLASSES = (3, 4, 5, 6)
ROUNDING = 1e-12


def fall(rows: lab.Rows, n_classes: int, gamma: float) -> float:
    """Return the largest max q - max Ψ(q) of the search."""
    return rows.one("largest fall", n_classes=n_classes, gamma=gamma)


def thresholds(rows: lab.Rows) -> lab.Table:
    """Return the thresholds of each exponent drawn."""
    head = ("γ", "τ_oc", "φ(τ_oc), the largest", "τ_uc", "largest over, K=1000", "crossing")
    body = []
    for g in GAMMAS:
        factor = rows.of(part="factor", gamma=g)
        numbers = [factor.one(m) for m in ("tau_over", "phi at tau_over", "tau_under")]
        curve = rows.of(part="minimiser", n_classes=FIGURE_CLASSES[1], gamma=g)
        numbers += [curve.one("largest over"), *curve.values("crossing")]
        body.append((f"{g:g}", *(f"{x:.5f}" for x in numbers)))
    return lab.Table("Thresholds of Theorem 8", head, tuple(body))


def falls(rows: lab.Rows) -> lab.Table:
    """Return for which classes and exponents Ψ can lower the confidence."""

    def cell(k: int, g: float) -> str:
        size = fall(rows, k, g)
        return f"{size:.2g}" if size > ROUNDING else "none"

    return lab.Table(
        "Largest max q - max Ψ(q) among vectors of two levels",
        ("classes", *(f"γ={g:g}" for g in SEARCHED_GAMMAS)),
        tuple((f"{k}", *(cell(k, g) for g in SEARCHED_GAMMAS)) for k in SEARCHED_CLASSES),
        "Vectors with some classes equal on top and the others equal below. Where there is a "
        "number, focal training is overconfident at some posterior, and Ψ lowers the confidence.",
    )


def counterexamples(rows: lab.Rows) -> lab.Table:
    """Return the vectors that refute Proposition 5 of paper 003."""
    body = []
    for case, (vector, gamma) in enumerate(COUNTEREXAMPLES, 1):
        few = len(vector) < 10
        shown = str(vector) if few else f"top {vector[0]:g} of {len(vector)}, the rest equal"
        body.append(
            (shown, f"{gamma:g}", *(f"{rows.one(m, case=case):.6f}" for m in ("max q", "max psi")))
        )
    head = ("q", "γ", "max q", "max Ψ(q)")
    return lab.Table(
        "Vectors whose confidence Ψ lowers (contradicting 003, Prop. 5)", head, tuple(body)
    )


def figure_1(rows: lab.Rows) -> Chart:
    """Return φ, the regions of one exponent and the thresholds of all."""
    curves = [
        Series(*rows.curve("phi", part="factor", gamma=g), label=f"γ={g:g}", color=i)
        for i, g in enumerate(GAMMAS)
    ]
    level = Series([0.0, 1.0], [1.0, 1.0], style="dashed", color=6)
    low, high = (
        rows.one(f"tau_{side}", part="factor", gamma=SHOWN_GAMMA) for side in ("over", "under")
    )
    top = rows.one("phi at tau_over", part="factor", gamma=SHOWN_GAMMA)

    def region(start: float, end: float, label: str, color: int) -> Series:
        edge, ceiling = [start, end], [1.1 * top] * 2
        return Series(edge, ceiling, label, low=[0.0, 0.0], high=ceiling, color=color)

    shaded = [
        region(0.0, low, "overconfident", 1),
        region(low, high, "ambiguous", 4),
        region(high, 1.0, "underconfident", 0),
        Series(*rows.curve("phi", part="factor", gamma=SHOWN_GAMMA), label="φ", color=7),
        level,
    ]
    at, tau_over = rows.curve("tau_over", part="thresholds")
    _, tau_under = rows.curve("tau_under", part="thresholds")
    moving = [
        Series(at, tau_under, "ambiguous", low=tau_over, high=tau_under, color=4),
        Series(at, tau_over, "τ_oc", color=1),
        Series(at, tau_under, "τ_uc", color=0),
    ]
    return Chart(
        "figure-1",
        "As Figure 1 of paper 000: φ for several γ; the regions of Theorem 8 for γ = 3; and how "
        "the two thresholds depend on γ (overconfident below, underconfident above; between them "
        "it depends on all classes).",
        (
            Panel("φ", "v", "φ(v)", [*curves, level]),
            Panel(f"Regions, γ = {SHOWN_GAMMA:g}", "max q", "φ", shaded),
            Panel("Thresholds", "γ", "max q", moving, log_x=True),
        ),
    )


def figure_2(rows: lab.Rows) -> Chart:
    """Return max q against max η."""

    def panel(k: int, title: str, limit: float) -> Panel:
        series = []
        for i, g in enumerate(GAMMAS):
            x, y = rows.curve("max q", part="minimiser", n_classes=k, gamma=g)
            keep = x <= limit
            series.append(Series(x[keep], y[keep], f"γ={g:g}", color=i))
        ends = [1.0 / k, limit]
        exact = Series(ends, ends, "exact", style="dashed", color=6)
        return Panel(title, "max η", "max q", [*series, exact])

    two, many = FIGURE_CLASSES
    return Chart(
        "figure-2",
        "As Figure 2 of paper 000: the top probability of the focal minimiser against that of "
        "the posterior, with the other classes equal. Below the diagonal it is underconfident, "
        "above it overconfident (with 1000 classes, where max η is small).",
        (
            panel(two, "(a) K = 2", 1.0),
            panel(many, "(b) K = 1000", 1.0),
            panel(many, "(b) near 0", 0.4),
        ),
    )


def few_classes(rows: lab.Rows) -> Chart:
    """Return the overconfidence with few classes, by exponent."""
    curves = {k: rows.curve("fall", n_classes=k) for k in FOOTNOTE_CLASSES}
    floor = -max(float(y.max()) for _, y in curves.values())  # lower values do not matter
    lines = [
        Series(x[y >= floor], y[y >= floor], f"K={k}", color=i)
        for i, (k, (x, y)) in enumerate(curves.items())
    ]
    zero = Series([1e-3, 10.0], [0.0, 0.0], style="dashed", color=6)
    return Chart(
        "few-classes",
        "Overconfidence with few classes: K - 1 equal classes above one of probability 0.01. "
        "Above the dashed line Ψ lowers the top probability. The rarer the last class, the "
        "closer the crossing is to γ*(1/(K - 1)). Our extension: footnote 2 of paper 000 is "
        "about vectors near the uniform one.",
        (Panel("K - 1 tied classes", "γ", "max q - max Ψ(q)", [*lines, zero], log_x=True),),
        columns=1,
    )


SLIDES = {1.0: 0.78, 3.0: 0.65, 5.0: 0.60}
"""Minimisers printed on the slides (001) for the posterior (0.9, 0.1)."""


def claims(rows: lab.Rows) -> tuple[lab.ClaimResult, ...]:
    """Judge the theorems and figures of paper 000, and claims that contradict them."""
    return (*_theorems(rows), *_figures(rows), *_footnote_claim(rows), *_elsewhere(rows))


def finding(rows: lab.Rows) -> str:
    """Return the main result in one sentence."""
    wrong = int(rows.values("in the wrong regime").sum())
    n = sum(int(rows.values(m).sum()) for m in ("below tau_over", "above tau_under"))
    return (
        f"Theorem 8 of paper 000 holds: {wrong:,} of {n:,} random vectors are in the wrong "
        "regime. Two claims of others do not hold: Proposition 5 of paper 003, because Ψ can "
        "lower the top probability with four or more classes, and one digit of the slides (001)."
    )


def _theorems(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    _, low = rows.curve("tau_over", part="thresholds")
    _, high = rows.curve("tau_under", part="thresholds")
    yield lab.judged(
        "regimes/thresholds",
        min(low.min(), (high - low).min(), (0.5 - high).min()),
        n_exponents=len(low),
    )
    n = [int(rows.values(m).sum()) for m in ("below tau_over", "above tau_under")]
    yield lab.judged(
        "regimes/wrong-regime",
        rows.values("in the wrong regime").sum() if min(n) else np.nan,
        n_over=n[0],
        n_under=n[1],
    )
    yield lab.judged("regimes/above-half", rows.values("least rise above 1/2").min())
    cases = [(k, g) for k in FIGURE_CLASSES for g in GAMMAS]
    yield lab.judged(
        "regimes/round-trip", max(rows.one("round trip", n_classes=k, gamma=g) for k, g in cases)
    )
    yield lab.judged("regimes/same-class", rows.values("predicted class changed").sum())


def _figures(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    two, many = FIGURE_CLASSES
    yield lab.judged(
        "regimes/two-classes", min(rows.one("least under", n_classes=two, gamma=g) for g in GAMMAS)
    )
    gaps = [rows.one("largest under", n_classes=two, gamma=g) for g in GAMMAS]
    yield lab.judged("regimes/gap-grows", np.diff(gaps).min(), first=gaps[0], last=gaps[-1])
    over = [rows.one("largest over", n_classes=many, gamma=g) for g in GAMMAS]
    yield lab.judged("regimes/many-classes", min(over))
    outside = 0
    for g in GAMMAS:
        crossing = rows.values("crossing", n_classes=many, gamma=g)
        low, high = (rows.one(f"tau_{side}", part="factor", gamma=g) for side in ("over", "under"))
        outside += not (len(crossing) == 1 and low <= crossing[0] <= high)
    yield lab.judged("regimes/crossings", outside, n_curves=len(GAMMAS))


def _footnote_claim(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    near = {k: rows.one("limit near uniform", n_classes=k) for k in FOOTNOTE_CLASSES}
    tied = {k: rows.one("limit at tied classes", n_classes=k) for k in FOOTNOTE_CLASSES}
    yield lab.judged("regimes/near-uniform", near[5])
    fewest = min(
        (k for k in SEARCHED_CLASSES for g in SEARCHED_GAMMAS if fall(rows, k, g) > ROUNDING),
        default=np.nan,
    )
    yield lab.judged("regimes/four-classes", fewest, tied_4=tied[4], tied_5=tied[5])


def _elsewhere(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    cases = range(1, len(COUNTEREXAMPLES) + 1)
    rises = [rows.one("max psi", case=c) - rows.one("max q", case=c) for c in cases]
    yield lab.judged("regimes/never-lower", min(rises), bound=-ROUNDING)
    for gamma, score in SLIDES.items():
        yield lab.judged(
            "regimes/slides",
            rows.one("q", gamma=gamma),
            gamma=gamma,
            score=score,
            bound=score,
            paper_value=f"001: ({score:.2f}, {1 - score:.2f})",
            note="One digit off." if gamma == 1.0 else "",
        )


NAME = "regimes"
SEEDS = (0, 1, 2)


def tasks(scale: lab.Scale) -> Sequence[lab.Task]:
    """Return the computations: the same at each scale, but on coarser grids at the smallest."""
    n = 40 if scale == "smallest" else 240
    found = [lab.Task.of(NAME, part="factor", gamma=g, n=n) for g in GAMMAS]
    found += [
        lab.Task.of(NAME, part="minimiser", n_classes=k, gamma=g, n=n)
        for k in FIGURE_CLASSES
        for g in GAMMAS
    ]
    found += [
        lab.Task.of(NAME, part="two levels", n_classes=k, gamma=g, n=n)
        for k in SEARCHED_CLASSES
        for g in SEARCHED_GAMMAS
    ]
    found += [lab.Task.of(NAME, part="vectors", seed=seed, n=10 * n) for seed in SEEDS]
    found += [
        lab.Task.of(NAME, part="counterexample", case=i)
        for i in range(1, len(COUNTEREXAMPLES) + 1)
    ]
    found += [lab.Task.of(NAME, part="slides", gamma=g) for g in SLIDES]
    found += [lab.Task.of(NAME, part="footnote", n_classes=k, n=n) for k in FOOTNOTE_CLASSES]
    return [*found, lab.Task.of(NAME, part="thresholds", n=n)]


EXPERIMENT = lab.Experiment.of(
    __name__, tables=(thresholds, falls, counterexamples), charts=(figure_1, figure_2, few_classes)
)
