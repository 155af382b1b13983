"""The picture of the page on focal scores: what three kinds of models say, and what is true."""

import lightgbm as lgb
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from numpy.typing import NDArray

from focalibrate.boosting import FocalObjective
from focalibrate.report.plot import BLUE, GREY, ORANGE
from focalibrate.theory import focal_minimiser, recover_posterior

RAW, RECOVERED = ORANGE, BLUE


def focal_scores() -> Figure:
    """Scores of class 1 against its true probability, before and after recovery."""
    figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained", sharey=True)
    truth = np.linspace(0.001, 0.999, 400)
    both = np.stack([1 - truth, truth], axis=1)
    for ax, title, weight in (
        (axes[0], "softmax head, γ=2, weights 1 and 4", (1.0, 4.0)),
        (axes[1], "sigmoid head, γ=2, α=0.25", (0.75, 0.25)),
    ):
        scores = focal_minimiser(both, 2.0, class_weight=weight)
        probs = recover_posterior(scores, 2.0, class_weight=weight)
        ax.plot(truth, scores[:, 1], color=RAW, label="score at the minimum of the loss")
        ax.plot(truth, probs[:, 1], color=RECOVERED, label="recovered")
        ax.set_title(title, fontsize="medium")
    _trees(axes[2])
    for ax in axes:
        ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, zorder=0)
        ax.set(xlabel="true probability of class 1", xlim=(0, 1), ylim=(0, 1))
    axes[0].set_ylabel("what the model says")
    axes[0].legend(frameon=False, fontsize="small", loc="lower right")
    return figure


def _trees(ax: plt.Axes) -> None:
    """Draw boosted trees trained on simulated data, averaged over groups of like truth."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, size=(20_000, 1))
    truth = 1 / (1 + np.exp(-2 * x[:, 0]))
    labels = (rng.uniform(size=len(x)) < truth).astype(int)
    objective = FocalObjective(gamma=2.0, alpha=0.25)
    settings = {"objective": objective, "verbosity": -1, "num_threads": 1, "max_depth": 3}
    model = lgb.train(settings, lgb.Dataset(x, label=labels), 60)
    margins = np.asarray(model.predict(x, raw_score=True))
    group = np.minimum((truth * 20).astype(int), 19)

    def mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.bincount(group, values) / np.bincount(group)

    ax.plot(mean(truth), mean(1 / (1 + np.exp(-margins))), "o", color=RAW, markersize=3)
    ax.plot(mean(truth), mean(objective.probs(margins)[:, 1]), "o", color=RECOVERED, markersize=3)
    ax.set_title("LightGBM, γ=2, α=0.25", fontsize="medium")
