"""What a comparison says, in plain words."""

from focalibrate.comparison.choose import Choice
from focalibrate.comparison.result import Comparison
from focalibrate.metrics import BootstrapInterval


def verdict(comparison: Comparison, choice: Choice) -> str:
    """Return one sentence: how the model errs, what cures it, how well, at what price.

    Example:
        >>> import numpy as np
        >>> from focalibrate.comparison import choose, compare
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.normal(size=(1000, 4)) * 2
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> found = compare(3 * truth, labels, methods=["temperature"], n_resamples=100)
        >>> print(verdict(found, choose(found)))  # doctest: +ELLIPSIS
        overconfident by 19.9 points; temperature scaling, T=2.9... predictions unchanged
    """
    raw, chosen = comparison.row("identity"), choice.row
    gap = raw.card.confidence_gap
    side = "overconfident" if gap > 0 else "underconfident"
    opening = f"{side} by {abs(gap) * 100:.1f} points"
    before = raw.scores["adaptive_ece"]
    if chosen.method == "identity":
        return (
            f"{opening}; AdaECE {percent(before)}; no method makes the probabilities "
            "provably better: keep the model as it is"
        )
    after = chosen.scores["adaptive_ece"]
    n = chosen.n_predictions_changed
    price = (
        "predictions unchanged" if n == 0 else f"{n} of {comparison.n_judged} predictions change"
    )
    turn = "brings" if after.estimate < before.estimate else "takes"
    cure = chosen.calibrator.describe().replace(": ", ", ", 1).replace("gamma=", "γ=")
    return (
        f"{opening}; {cure}, {turn} AdaECE from "
        f"{before.estimate * 100:.1f} % to {percent(after)}; {price}"
    )


def percent(value: BootstrapInterval, digits: int = 1) -> str:
    """Return a fraction with its interval, in percent.

    Example:
        >>> percent(BootstrapInterval(0.009, 0.006, 0.014, 0.95, 500))
        '0.9 % [0.6, 1.4]'
    """
    low, high = value.low * 100, value.high * 100
    return f"{value.estimate * 100:.{digits}f} % [{low:.{digits}f}, {high:.{digits}f}]"
