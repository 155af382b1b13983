"""Pictures of errata and extensions of the papers, computed while the site is built."""

from collections.abc import Callable

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from scipy.special import log_softmax

from focalibrate.report.plot import COLORS, GREY
from focalibrate.simulated import simulate
from focalibrate.theory import (
    focal_minimiser,
    gamma_star,
    nearest_temperature,
    phi,
    recover_log_odds,
    recover_posterior,
)
from focalibrate_papers.claims import tight_temperature_bounds

CLAIMED = {"marker": "x", "linestyle": "", "color": "black", "label": "as printed"}


def lowered_top() -> Figure:
    """003, proposition 5: Ψ lowers the top probability."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.3), layout="constrained")
    top = np.linspace(0.33, 0.345, 300)
    rest = (0.99 - top) / 2
    four = np.stack([top, rest, rest, np.full_like(top, 0.01)], axis=1)
    many = np.linspace(0.002, 0.6, 300)
    thousand = np.concatenate(
        [many[:, None], np.repeat((1 - many)[:, None] / 999, 999, axis=1)], axis=1
    )
    for ax, title, x, probs in (
        (axes[0], "4 classes: (top, r, r, 0.01)", top, four),
        (axes[1], "1000 classes, all but one equal", many, thousand),
    ):
        for color, gamma in zip(COLORS, (0.1, 0.5, 1.0, 2.0), strict=False):
            rise = recover_posterior(probs, gamma).max(axis=1) - probs.max(axis=1)
            ax.plot(x, rise, color=color, label=f"γ={gamma:g}")
        ax.axhline(0, color=GREY, linewidth=1)
        ax.set(title=title, xlabel="top probability", ylabel="top of Ψ − top")
    axes[0].set(xlim=(0.33, 0.335), ylim=(-0.00012, 0.00012))
    axes[1].set(xlim=(0, 0.35), ylim=(-0.03, 0.02))
    axes[1].legend(frameon=False, fontsize="small")
    return figure


def few_classes() -> Figure:
    """Our extension of 000, footnote 2: overconfidence away from the uniform vector."""
    figure, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    gammas = np.linspace(0.02, 4, 150)
    for color, k in zip(COLORS, (4, 5), strict=False):
        # K-1 classes nearly equal: just above 1/(K-1) on one of them, a trace on the last.
        p = np.full(k, (1 - 1e-3) / (k - 1))
        p[-1] = 1e-3
        fall = [recover_posterior(p[None], g)[0, 0] - p[0] for g in gammas]
        end = float(gamma_star(1 / (k - 1)))
        ax.plot(gammas, 1e4 * np.array(fall), color=color, label=f"K={k}, until γ*={end:.4f}")
        ax.axvline(end, color=color, linestyle="--", linewidth=1)
    ax.axvspan(0, 0.03, color=GREY, alpha=0.3, label="footnote 2: near the uniform vector, K=5")
    ax.axhline(0, color=GREY, linewidth=1)
    ax.set(xlabel="γ", ylabel="top of Ψ − top, 1e-4", ylim=(-0.5, 1.2))
    ax.legend(framealpha=1.0, edgecolor="none", fontsize="small", loc="upper left")
    return figure


def slide_scores() -> Figure:
    """001: the score that focal training aims at if the true probability is 0.9."""
    figure, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    gammas = np.linspace(0, 6, 100)
    truth = np.array([[0.9, 0.1]])
    aimed = [focal_minimiser(truth, float(g))[0, 0] for g in gammas]
    ax.plot(gammas, aimed, color=COLORS[0], label="the minimiser")
    ax.plot([1, 3, 5], [0.78, 0.65, 0.60], **CLAIMED)
    ax.set(xlabel="γ", ylabel="score if the true probability is 0.9")
    ax.legend(frameon=False)
    return figure


def printed_temperatures() -> Figure:
    """003: the temperatures printed in the text and the captions, and those found."""
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained")
    s = np.linspace(0.01, 20, 400)
    axes[0].plot(s, s / np.asarray(recover_log_odds(s, 4.0)), color=COLORS[0], label="the map")
    found = tight_temperature_bounds(4.0)
    for y in (found.low, found.high):
        axes[0].axhline(float(y), color=COLORS[0], linestyle="--", linewidth=1)
    axes[0].axhline(0.206, color="black", linestyle=":", label="as printed: from 0.206")
    axes[0].set(
        title="two classes, γ=4", xlabel="logit s", ylabel="temperature with the same effect"
    )
    gammas = np.linspace(0.25, 4, 16)
    for color, k, printed in (
        (COLORS[0], 2, {0.5: 0.76, 3.0: 0.36}),
        (COLORS[1], 3, {1.0: 0.81, 3.0: 0.46}),
    ):
        near = [nearest_temperature(float(g), n_classes=k).temperature for g in gammas]
        axes[1].plot(gammas, near, color=color, label=f"nearest, K={k}")
        axes[1].plot(list(printed), list(printed.values()), "x", color=color)
    axes[1].plot([], [], "x", color=GREY, label="captions of figures 2 and 5")
    axes[1].set(title="nearest temperature", xlabel="γ", ylabel="T")
    for ax in axes:
        ax.legend(frameon=False, fontsize="small")
    return figure


def focal_slope() -> Figure:
    """004, equations 30 and 31: the derivative of the focal loss."""
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained", sharey=True)
    p = np.linspace(0.02, 0.9995, 500)
    for ax, gamma in zip(axes, (0.25, 1.0), strict=True):
        step = 1e-6
        loss = [-((1 - x) ** gamma) * np.log(x) for x in (p - step * p, p + step * (1 - p))]
        numeric = (loss[1] - loss[0]) / (step * p + step * (1 - p))
        printed = (1 - p) ** gamma * (
            gamma * p * (1 - p) ** (gamma - 1) - (1 - p) ** gamma * np.log(p)
        )
        ax.plot(p, -np.asarray(phi(p, gamma)) / p, color=COLORS[0], label="−φ(p)/p")
        ax.plot(p[::40], numeric[::40], "o", color=COLORS[2], label="by finite differences")
        ax.plot(p, printed, color="black", linestyle=":", label="Eq. 30 as printed")
        ax.set(title=f"γ={gamma:g}", xlabel="probability p of the true class", ylim=(-6, 2))
    axes[0].set_ylabel("slope of the loss")
    axes[0].legend(frameon=False, fontsize="small")
    return figure


def focal_curvature() -> Figure:
    """004, equation 28: the factor on the curvature of cross-entropy."""
    figure, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    p = np.linspace(0.001, 0.999, 400)
    for color, gamma in zip(COLORS, (1.0, 3.0), strict=False):
        ax.plot(p, phi(p, gamma), color=color, label=f"φ, γ={gamma:g}")
        ax.plot(p, (1 - p) ** gamma, color=color, linestyle=":", label=f"(1−p)^{gamma:g}, Eq. 28")
    ax.axhline(1, color=GREY, linewidth=1)
    ax.set(xlabel="probability p of the true class", ylabel="factor on cross-entropy's curvature")
    ax.legend(frameon=False, fontsize="small")
    return figure


def loss_and_gradient() -> Figure:
    """004, Figure 1: loss and gradient against p, for several γ, with the true derivative."""
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained")
    p = np.linspace(0.01, 0.9999, 500)
    for color, gamma in zip(COLORS, (0.0, 0.25, 0.5, 1.0, 2.0), strict=False):
        name = "cross-entropy (γ=0)" if gamma == 0 else f"γ={gamma:g}"
        axes[0].plot(p, -((1 - p) ** gamma) * np.log(p), color=color, label=name)
        axes[1].plot(p, np.asarray(phi(p, gamma)) / p, color=color)
    axes[0].set(xlabel="probability p of the true class", ylabel="loss", ylim=(0, 4))
    axes[1].set(xlabel="probability p of the true class", ylabel="size of the slope", ylim=(0, 6))
    axes[0].legend(frameon=False, fontsize="small")
    return figure


def one_valley() -> Figure:
    """002: the log loss over the temperature has one minimum, being convex in 1/T."""
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.2), layout="constrained", sharey=True)
    made = simulate(gamma=3.0, n=2000, seed=0)
    t = np.geomspace(0.08, 10, 200)
    rows = np.arange(len(made.validation.labels))
    nll = [
        -log_softmax(made.validation_logits / x, axis=1)[rows, made.validation.labels].mean()
        for x in t
    ]
    for ax, x, name in ((axes[0], t, "T"), (axes[1], 1 / t, "1/T")):
        ax.plot(x, nll, color=COLORS[0])
        ax.plot(x[int(np.argmin(nll))], min(nll), "*", color=COLORS[1], markersize=11)
        ax.set(xlabel=name)
    axes[0].set(ylabel="log loss", title="not convex, but one minimum")
    axes[1].set(title="convex", xlim=(0, 8))
    return figure


ERRATA: dict[str, Callable[[], Figure]] = {
    "lowered-top": lowered_top,
    "few-classes": few_classes,
    "slide-scores": slide_scores,
    "printed-temperatures": printed_temperatures,
    "focal-slope": focal_slope,
    "focal-curvature": focal_curvature,
    "loss-and-gradient": loss_and_gradient,
    "one-valley": one_valley,
}
