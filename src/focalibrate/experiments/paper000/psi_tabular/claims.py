"""The claims of paper 000's appendix C about Ψ on small data sets, with their rules."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from focalibrate.experiments.engine.verdict import (
    ClaimResult,
    Interval,
    mean_interval,
    share_interval,
    side_result,
)
from focalibrate.experiments.paper000.psi_tabular.tables import (
    CE,
    ERROR,
    GAMMAS,
    METRICS,
    TabularRows,
    focal,
    mapped,
    told_apart,
)

MARGIN = 1.0
"""An ECE of at most one point more counts as comparable; the paper gives no number."""
_PAPER = (
    'Sec. 6.3: "In Appx. C, we provide additional experimental results on 30 datasets to show '
    "that the focal loss is less desirable compared with the cross-entropy loss in most datasets, "
    'and that Ψ can successfully improve ECE to be comparable with that of the cross-entropy loss"'
)


def claims(found: TabularRows, *, large: tuple[str, ...], is_full: bool) -> list[ClaimResult]:
    """Return one result per claim."""
    results = [r for gamma in GAMMAS[1:] for r in _of_ece(found, gamma, large, is_full=is_full)]
    results += [_of_metric(found, metric, large) for metric in METRICS[1:]]
    return [*results, _same_error(found)]


def finding(found: TabularRows) -> str:
    """Return the main result in one sentence."""
    gamma = GAMMAS[-1]
    raw, psi, plain = (
        100 * found.mean(name, "ECE").mean() for name in (focal(gamma), mapped(gamma), CE)
    )
    return (
        f"Mean ECE over {len(found.sets)} tables: {plain:.1f} % with CE, {raw:.1f} % with "
        f"{focal(gamma)} and {psi:.1f} % with {focal(gamma)} and Ψ."
    )


def _share(holds: NDArray[np.bool_]) -> Interval:
    return share_interval(int(holds.sum()), len(holds))


def _of_ece(
    found: TabularRows, gamma: float, large: tuple[str, ...], *, is_full: bool
) -> Iterator[ClaimResult]:
    n, raw, fixed = len(found.sets), focal(gamma), mapped(gamma)
    is_higher = found.mean(raw, "ECE") > found.mean(CE, "ECE")
    yield side_result(
        _share(is_higher),
        claim=f"{raw} has a higher ECE than cross-entropy on most tables",
        what="fraction of tables, by the mean over trials",
        paper_value=_PAPER,
        unit=f"of {n} tables",
        below=False,
        bound=0.5,
        covers=is_full,
        note=_by_size(found, is_higher, large),
    )
    is_lower = found.mean(fixed, "ECE") < found.mean(raw, "ECE")
    yield side_result(
        _share(is_lower),
        claim=f"Ψ lowers the ECE of {raw} on most tables",
        what="fraction of tables, by the mean over trials",
        paper_value=_PAPER,
        unit=f"of {n} tables",
        below=False,
        bound=0.5,
        covers=is_full,
        note=_by_size(found, is_lower, large),
    )
    gap = 100 * found.gap(fixed, CE, "ECE")
    better, like, worse = told_apart(gap)
    yield side_result(
        mean_interval(gap.mean(axis=1)),
        claim=f"{fixed} has at most {MARGIN:g} point more ECE than cross-entropy",
        what="mean difference, over tables",
        paper_value=_PAPER,
        unit=f"points of ECE, {fixed} − CE",
        bound=MARGIN,
        covers=is_full,
        note=f"By the paired 95 % confidence interval over trials, {fixed} is lower than CE on "
        f"{better} tables, not significantly different on {like}, higher on {worse}.",
    )


def _of_metric(found: TabularRows, metric: str, large: tuple[str, ...]) -> ClaimResult:
    """Judge the effect of Ψ on another metric, over all exponents together."""
    gaps = [found.gap(mapped(g), focal(g), metric).mean(axis=1) for g in GAMMAS[1:]]
    is_lower = np.mean(gaps, axis=0) < 0
    return side_result(
        _share(is_lower),
        claim=f"Ψ lowers the {metric} of focal loss on most tables",
        what="fraction of tables, by the mean over trials and exponents",
        paper_value="appendix C has this metric, but our copy lacks the appendix",
        unit=f"of {len(found.sets)} tables",
        below=False,
        bound=0.5,
        covers=False,
        is_papers=False,
        note=_by_size(found, is_lower, large),
    )


def _by_size(found: TabularRows, holds: NDArray[np.bool_], large: tuple[str, ...]) -> str:
    """Return on how many small and large tables something holds, if there are both."""
    is_large = np.array([name in large for name in found.sets])
    if not is_large.any():
        return ""
    return (
        f"{int(holds[~is_large].sum())} of the {int((~is_large).sum())} tables with fewer than "
        f"2,000 rows, {int(holds[is_large].sum())} of the {int(is_large.sum())} larger ones."
    )


def _same_error(found: TabularRows) -> ClaimResult:
    gaps = [found.gap(mapped(g), focal(g), ERROR) for g in GAMMAS[1:]]
    return side_result(
        Interval.exact(float(np.abs(gaps).max())),
        claim="Ψ does not change any prediction",
        what="largest change of the error in any trial",
        paper_value="Prop. 12: Ψ preserves the decision rule",
        unit="largest change of the error",
        bound=1e-12,
        covers=True,
    )
