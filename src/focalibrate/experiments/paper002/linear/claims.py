"""The claims of paper 002's appendix G, with the rules that judge them."""

from collections.abc import Iterator
from dataclasses import replace

from focalibrate.experiments.engine.experiment import Rows
from focalibrate.experiments.engine.verdict import (
    ClaimResult,
    Interval,
    mean_interval,
    side_result,
)

RECIPE = "gradient descent"
LOSSES = {"CE": 0.0, "FL-1": 1.0}
_NORMS = (
    'App. G: "Figure 5 shows, for a generalised linear model, that the norm of the logits and the '
    'weights of a network blows for Cross Entropy as compared to Focal Loss"'
)
_MISTAKES = (
    'App. G: "it shows that CE misclassifies almost always with greater than 90% confidence '
    'whereas FL misclassifies with much lower confidence"'
)


def claims(rows: Rows, *, is_full: bool) -> tuple[ClaimResult, ...]:
    """Return one result per claim."""
    return (*_norms(rows, is_full), *_mistakes(rows, is_full))


def finding(rows: Rows) -> str:
    """Return the main result in one sentence."""
    norms, sure = (
        [rows.values(RECIPE, f"{loss} {metric}").mean() for loss in LOSSES]
        for metric in ("weight norm", "confidence of mistakes")
    )
    return (
        f"CE ends with larger weights than focal loss ({norms[0]:.2f} against {norms[1]:.2f}) "
        f"and is more confident in its mistakes ({sure[0]:.3f} against {sure[1]:.3f}), as the "
        "paper's figures and argument say; in one sentence of appendix G, CE and FL are swapped."
    )


def _gap(rows: Rows, metric: str) -> Interval:
    """Return CE − FL-1, paired by the seed."""
    ce, fl = (rows.values(RECIPE, f"{loss} {metric}") for loss in LOSSES)
    return mean_interval(ce - fl)


def _norms(rows: Rows, is_full: bool) -> Iterator[ClaimResult]:
    for metric in ("weight norm", "logit norm"):
        yield side_result(
            _gap(rows, metric),
            claim=f"The {metric} grows larger with CE than with focal loss",
            what="CE − FL-1 after the last step, per seed",
            paper_value=_NORMS,
            unit=f"{metric}, CE − FL-1",
            below=False,
            covers=is_full,
        )
    gap = _gap(rows, "weight norm")
    yield side_result(
        Interval(-gap.estimate, -gap.high, -gap.low),
        claim="The weight norm is larger for focal loss, as one sentence says",
        what="FL-1 − CE after the last step, per seed",
        paper_value='App. G: "However, as we have seen that the norm of the weights is much '
        "larger for FL as compared to CE, we would expect the confidence of misclassified test "
        'points to be large for CE as compared to FL"',
        unit="weight norm, FL-1 − CE",
        below=False,
        covers=is_full,
        theory="002-app-g",
        note="A slip: the paragraph before, its figure and the conclusion of the sentence say "
        "the opposite.",
    )


def _mistakes(rows: Rows, is_full: bool) -> Iterator[ClaimResult]:
    angle = rows.values(RECIPE, "angle between weights").mean()
    yield side_result(
        mean_interval(rows.values(RECIPE, "same prediction")).within(0.0, 1.0),
        claim="Both losses give the same decision regions",
        what="fraction of test points for which both predict the same class",
        paper_value='App. G: "running gradient descent with cross entropy (CE) and focal loss '
        '(FL) both gives the same decision regions"',
        unit="share of test points",
        below=False,
        bound=0.99,
        covers=is_full,
        note=f"Angle between the weights: {angle:.2f}°.",
    )
    yield side_result(
        _gap(rows, "confidence of mistakes"),
        claim="CE makes its mistakes with more confidence",
        what="mean confidence of misclassified test points, CE − FL-1, per seed",
        paper_value=_MISTAKES,
        unit="confidence, CE − FL-1",
        below=False,
        covers=is_full,
    )
    other = rows.values(RECIPE, "FL-1 share of confident mistakes").mean()
    share = side_result(
        mean_interval(rows.values(RECIPE, "CE share of confident mistakes")).within(0.0, 1.0),
        claim="CE misclassifies almost always with a confidence above 90 %",
        what="fraction of the misclassified test points",
        paper_value=_MISTAKES,
        unit="of CE's mistakes",
        below=False,
        bound=0.9,
        covers=False,
        note=f"For FL-1 it is {other:.3f}. It depends on the spread of the clusters, which the "
        "paper does not print, so our run cannot decide the claim.",
    )
    yield replace(share, verdict="undecided")
