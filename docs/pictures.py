"""The pictures of the site, drawn from the package itself while the site is built.

To look at them alone::

    python docs/pictures.py folder
"""

import io
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from scipy.optimize import brentq

from focalibrate.calibrate import (
    FocalTemperatureScaling,
    Identity,
    PosteriorRecovery,
    TemperatureScaling,
    fit_temperature,
)
from focalibrate.losses import cross_entropy, focal_loss, proper_focal_loss
from focalibrate.metrics import ece
from focalibrate.report import criterion_grid
from focalibrate.report.plot import (
    COLORS,
    CORNERS,
    GREY,
    reliability_diagram,
    simplex_map,
    simplex_points,
    temperature_grid,
)
from focalibrate.simulated import Simulated, simulate
from focalibrate.theory import (
    focal_minimiser,
    nearest_temperature,
    recover_posterior,
    tau_over,
    tau_under,
)

GAMMAS = (1.0, 2.0, 3.0, 5.0)


@cache
def simulated() -> Simulated:
    """Return a model trained by focal loss where the truth is known."""
    return simulate(gamma=3.0, n=10_000, seed=0)


def risk() -> Figure:
    """Expected loss against the probability reported, where the truth is 0.9."""
    figure, ax = plt.subplots(figsize=(8, 3.4), layout="constrained")
    q = np.arange(0.5, 0.996, 0.001)
    logits = np.log(np.stack([q, 1 - q], axis=1))
    truth = np.array([0.9, 0.1])
    for color, name, loss in (
        (COLORS[0], "cross-entropy", lambda z, y: cross_entropy(z, y)),
        (COLORS[1], "focal, γ=1", lambda z, y: focal_loss(z, y, gamma=1.0)),
        (COLORS[3], "focal, γ=3", lambda z, y: focal_loss(z, y, gamma=3.0)),
        (COLORS[2], "properised focal, γ=3", lambda z, y: proper_focal_loss(z, y, gamma=3.0)),
    ):
        labels = np.zeros(len(q), dtype=np.int64)
        expected = truth[0] * loss(logits, labels) + truth[1] * loss(logits, labels + 1)
        expected = expected / expected.min()
        best = int(expected.argmin())
        ax.plot(q, expected, color=color, label=f"{name}: lowest at {q[best]:.3f}")
        ax.plot(q[best], expected[best], "o", color=color)
    ax.axvline(0.9, color=GREY, linestyle="--", linewidth=1)
    ax.set(ylim=(0.98, 1.6), xlabel="probability reported", ylabel="expected loss / its minimum")
    ax.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def aim() -> Figure:
    """What focal training aims at, for two classes and for a thousand."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
    for ax, n_classes in zip(axes, (2, 1000), strict=True):
        top = np.linspace(1 / n_classes, 1 - 1e-6, 300)
        rest = np.repeat((1 - top)[:, None] / (n_classes - 1), n_classes - 1, axis=1)
        truth = np.concatenate([top[:, None], rest], axis=1)
        for gamma, color in zip(GAMMAS, COLORS, strict=False):
            aimed = focal_minimiser(truth, gamma)[:, 0]
            ax.plot(top, aimed, color=color, label=f"γ={gamma:g}")
        ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="calibrated")
        title = "two classes" if n_classes == 2 else "1000 classes, all but one equal"
        ax.set(xlabel="true probability of the top class", title=title, aspect="equal")
    axes[0].set_ylabel("probability a focal model aims at")
    axes[0].legend(frameon=False, fontsize="small")
    return figure


def regimes() -> Figure:
    """How far the truth lies above or below a focal score, and the two thresholds."""
    figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
    gamma, n_classes = 3.0, 1000
    top = np.linspace(0.002, 0.998, 500)
    rest = np.repeat((1 - top)[:, None] / (n_classes - 1), n_classes - 1, axis=1)
    gain = recover_posterior(np.concatenate([top[:, None], rest], axis=1), gamma)[:, 0] - top
    ax.fill_between(
        top, gain, 0, where=gain > 0, color=COLORS[0], alpha=0.4, label="underconfident"
    )
    ax.fill_between(
        top, gain, 0, where=gain < 0, color=COLORS[1], alpha=0.4, label="overconfident"
    )
    ax.plot(top, gain, color="black", linewidth=1)
    for name, x in (("τ_oc", tau_over(gamma)), ("τ_uc", tau_under(gamma))):
        ax.axvline(float(x), color=GREY, linestyle="--", linewidth=1)
        ax.annotate(f"{name} = {float(x):.3f}", (float(x), 0.12), rotation=90, ha="right")
    ax.set(xlabel="top score of a focal model, γ=3, K=1000", ylabel="truth − score")
    ax.legend(frameon=False, fontsize="small")
    return figure


def simplex() -> Figure:
    """Ψ and the nearest temperature on three classes."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
    near = nearest_temperature(3.0, n_classes=3).temperature
    simplex_map(PosteriorRecovery(gamma=3.0), axes[0]).set_title("Ψ, γ=3")
    simplex_map(TemperatureScaling(temperature=near), axes[1])
    axes[1].set_title(f"the nearest temperature, T={near:.3f}")
    return figure


def no_temperature() -> Figure:
    """How far Ψ lies from the nearest temperature, over three classes."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    points = simplex_points(90)
    for ax, gamma in zip(axes, (1.0, 3.0), strict=True):
        near = nearest_temperature(gamma, n_classes=3).temperature
        gap = PosteriorRecovery(gamma).probs(np.log(points))
        gap = np.abs(gap - TemperatureScaling(near).probs(np.log(points))).max(axis=1)
        drawn = ax.tripcolor(
            *(points @ CORNERS).T, 100 * gap, shading="gouraud", cmap="cividis", rasterized=True
        )
        ax.set(aspect="equal", title=f"γ={gamma:g} against T={near:.3f}")
        ax.set_axis_off()
        figure.colorbar(drawn, ax=ax, label="points", shrink=0.8)
    return figure


def reliability() -> Figure:
    """The demo's model before, after temperature scaling and after Ψ."""
    found = simulated()
    fitted = fit_temperature(found.validation_logits, found.validation.labels)
    figure, axes = plt.subplots(1, 3, figsize=(11, 4.4), layout="constrained")
    for ax, title, calibrator in (
        (axes[0], "trained with focal loss, γ=3", Identity()),
        (axes[1], f"temperature scaling, T={fitted.temperature:.2f}", fitted),
        (axes[2], "Ψ with γ=3, nothing fitted", PosteriorRecovery(3.0)),
    ):
        probs = calibrator.probs(found.test_logits)
        reliability_diagram(probs, found.test.labels, ax)
        ax.set_title(title, y=1.23, fontsize="medium")
        if ax is not axes[0]:
            ax.get_legend().remove()
    return figure


def grid() -> Figure:
    """The criterion of focal temperature scaling over both parameters."""
    found = simulated()
    figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    temperature_grid(criterion_grid(found.validation_logits, found.validation.labels), ax)
    return figure


def bias() -> Figure:
    """The ECE of a model that is perfectly honest."""
    figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
    rng = np.random.default_rng(0)
    sizes = (100, 300, 1000, 3000, 10_000)
    for n_bins, color in zip((5, 15, 50), COLORS, strict=False):
        values = np.array([[_honest_ece(n, n_bins, rng) for _ in range(60)] for n in sizes])
        middle, low, high = (np.quantile(values, q, axis=1) for q in (0.5, 0.05, 0.95))
        ax.plot(sizes, 100 * middle, "o-", color=color, label=f"{n_bins} bins")
        ax.fill_between(sizes, 100 * low, 100 * high, color=color, alpha=0.2)
    ax.set(xscale="log", xlabel="examples", ylabel="ECE measured, %", ylim=(0, None))
    ax.legend(frameon=False, title="true error: 0")
    return figure


def _honest_ece(n: int, n_bins: int, rng: np.random.Generator) -> float:
    """Return the measured error of `n` labels drawn from the very probabilities reported."""
    logits = 1.5 * rng.standard_normal((n, 5))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return ece(Identity().probs(logits), labels, n_bins=n_bins)


def sharpen() -> Figure:
    """Maps of the top probability that agree at 0.9 and differ elsewhere."""
    figure, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    top, n_classes = np.linspace(0.101, 0.999, 300), 10

    def mapped(q: np.ndarray, gamma: float, temperature: float) -> np.ndarray:
        others = np.repeat((1 - q)[:, None] / (n_classes - 1), n_classes - 1, axis=1)
        logits = np.log(np.concatenate([q[:, None], others], axis=1))
        return FocalTemperatureScaling(gamma, temperature).probs(logits)[:, 0]

    for gamma, color in zip((0.0, -0.5, 1.0, 5.0), COLORS, strict=False):
        at_09 = brentq(lambda t, g=gamma: mapped(np.array([0.9]), g, t)[0] - 0.7, 0.5, 50.0)
        label = f"γ={gamma:g}, T={at_09:.2f}"
        ax.plot(top, mapped(top, gamma, at_09), color=color, label=label)
    ax.plot([0.1, 1], [0.1, 1], color=GREY, linestyle="--", linewidth=1, label="unchanged")
    ax.set(xlabel="top probability before (ten classes, the others equal)", ylabel="after")
    ax.legend(frameon=False, fontsize="small")
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    "risk": risk,
    "aim": aim,
    "regimes": regimes,
    "simplex": simplex,
    "no-temperature": no_temperature,
    "reliability": reliability,
    "grid": grid,
    "bias": bias,
    "sharpen": sharpen,
}


def svg_of(draw: Callable[[], Figure]) -> str:
    """Return a picture as SVG, the same bytes each time."""
    with mpl.rc_context({"svg.hashsalt": "focalibrate", "font.size": 9.0}):
        out = io.StringIO()
        figure = draw()
        figure.savefig(out, format="svg", metadata={"Date": None})
        plt.close(figure)
    return out.getvalue()


if __name__ == "__main__":
    mpl.use("Agg")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        (folder / f"{name}.svg").write_text(svg_of(draw), encoding="utf-8")
        draw().savefig(folder / f"{name}.png", dpi=70)
