"""Tables and figures of the experiment `regimes`."""

from focalibrate.experiments.engine.experiment import Rows, Table
from focalibrate.experiments.paper000.regimes.numbers import COUNTEREXAMPLES, GAMMAS
from focalibrate.report.charts import Chart, Panel, Series

SHOWN_GAMMA = 3.0
"""The exponent whose regions are shaded in paper 000's Figure 1."""
FIGURE_CLASSES = (2, 1000)
SEARCHED_CLASSES = (2, 3, 4, 5, 10, 100, 1000)
SEARCHED_GAMMAS = (0.01, 0.03, 0.1, *GAMMAS)
FOOTNOTE_CLASSES = (3, 4, 5, 6)
ROUNDING = 1e-12


def one(rows: Rows, recipe: str, metric: str) -> float:
    """Return a number that one run gave."""
    return float(rows.values(recipe, metric)[0])


def fall(rows: Rows, n_classes: int, gamma: float) -> float:
    """Return the largest max q - max Ψ(q) of the search."""
    return one(rows, f"two levels K={n_classes} γ={gamma:g}", "largest fall")


def thresholds(rows: Rows) -> Table:
    """Return the thresholds of each exponent drawn."""
    head = ("γ", "τ_oc", "φ(τ_oc), the largest", "τ_uc", "largest over, K=1000", "crossing")
    body = []
    for g in GAMMAS:
        factor, curve = f"factor γ={g:g}", f"minimiser K={FIGURE_CLASSES[1]} γ={g:g}"
        numbers = [one(rows, factor, m) for m in ("tau_over", "phi at tau_over", "tau_under")]
        numbers.append(one(rows, curve, "largest over"))
        numbers += rows.values(curve, "crossing").tolist()
        body.append((f"{g:g}", *(f"{x:.5f}" for x in numbers)))
    return Table("Thresholds of Theorem 8", head, tuple(body))


def falls(rows: Rows) -> Table:
    """Return for which classes and exponents Ψ can lower the confidence."""

    def cell(k: int, g: float) -> str:
        size = fall(rows, k, g)
        return f"{size:.2g}" if size > ROUNDING else "none"

    return Table(
        "Largest max q - max Ψ(q) among vectors of two levels",
        ("classes", *(f"γ={g:g}" for g in SEARCHED_GAMMAS)),
        tuple((f"{k}", *(cell(k, g) for g in SEARCHED_GAMMAS)) for k in SEARCHED_CLASSES),
        "Vectors with some classes equal on top and the others equal below. Where there is a "
        "number, focal training is overconfident at some posterior, and Ψ lowers the confidence.",
    )


def counterexamples(rows: Rows) -> Table:
    """Return the vectors that refute Proposition 5 of paper 003."""
    body = []
    for i, (vector, gamma) in enumerate(COUNTEREXAMPLES, 1):
        case = f"counterexample {i}"
        few = len(vector) < 10
        shown = str(vector) if few else f"top {vector[0]:g} of {len(vector)}, the rest equal"
        body.append(
            (shown, f"{gamma:g}", *(f"{one(rows, case, m):.6f}" for m in ("max q", "max psi")))
        )
    head = ("q", "γ", "max q", "max Ψ(q)")
    return Table(
        "Vectors whose confidence Ψ lowers (contradicting 003, Prop. 5)", head, tuple(body)
    )


def figure_1(rows: Rows) -> Chart:
    """Return φ, the regions of one exponent and the thresholds of all."""
    curves = [
        Series(*rows.curve(f"factor γ={g:g}", "phi"), label=f"γ={g:g}", color=i)
        for i, g in enumerate(GAMMAS)
    ]
    level = Series([0.0, 1.0], [1.0, 1.0], style="dashed", color=6)
    low, high = (
        one(rows, f"factor γ={SHOWN_GAMMA:g}", f"tau_{side}") for side in ("over", "under")
    )
    top = one(rows, f"factor γ={SHOWN_GAMMA:g}", "phi at tau_over")

    def region(start: float, end: float, label: str, color: int) -> Series:
        edge, ceiling = [start, end], [1.1 * top] * 2
        return Series(edge, ceiling, label, low=[0.0, 0.0], high=ceiling, color=color)

    shaded = [
        region(0.0, low, "overconfident", 1),
        region(low, high, "ambiguous", 4),
        region(high, 1.0, "underconfident", 0),
        Series(*rows.curve(f"factor γ={SHOWN_GAMMA:g}", "phi"), label="φ", color=7),
        level,
    ]
    at, tau_over = rows.curve("thresholds", "tau_over")
    _, tau_under = rows.curve("thresholds", "tau_under")
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


def figure_2(rows: Rows) -> Chart:
    """Return max q against max η."""

    def panel(k: int, title: str, limit: float) -> Panel:
        series = []
        for i, g in enumerate(GAMMAS):
            x, y = rows.curve(f"minimiser K={k} γ={g:g}", "max q")
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


def few_classes(rows: Rows) -> Chart:
    """Return the overconfidence with few classes, by exponent."""
    curves = {k: rows.curve(f"footnote K={k}", "fall") for k in FOOTNOTE_CLASSES}
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
