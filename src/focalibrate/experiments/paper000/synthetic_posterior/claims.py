"""The claims of paper 000's Figure 3, with the rules that judge them."""

from collections.abc import Iterator, Sequence

import numpy as np

from focalibrate.experiments.engine.experiment import Rows
from focalibrate.experiments.engine.verdict import (
    ClaimResult,
    Interval,
    mean_interval,
    number_result,
    side_result,
)

FOCAL = ("FL-1", "FL-5")
BAR = 0.05
"""The fraction of the KLD added by focal loss that counts as almost zero."""
_ZERO = (
    'Sec. 5.2: "Ψ(q(x)) can improve the quality of the estimation, where both KLD and ECE are '
    'almost zero"'
)
_GAP = (
    'Sec. 5.2: "while TS_NLL made the q(x) move closer to η(x), a large gap between them still '
    'exists, suggesting that TS_NLL fails to obtain the true class-posterior probability"'
)
_UNDER = (
    'Sec. 5.2: "the value of the max q(x) is lower than max η(x), which indicates that q(x) is '
    "ηUC. With a larger γ, we can observe this trend more significantly by looking at KLD and the "
    'expected calibration error"'
)
_ERROR = (
    'Sec. 5.2: "all MLPs can correctly identify the class having the highest class-posterior '
    'probability for the whole X and achieve roughly the same classification error"'
)


def claims(
    rows: Rows, sizes: Sequence[str], losses: Sequence[str], *, is_full: bool
) -> tuple[ClaimResult, ...]:
    """Return one result per claim."""
    return (
        *_recovery(rows, sizes, is_full),
        *_temperature(rows, sizes[-1], is_full),
        *_raw(rows, sizes[-1], losses, is_full),
    )


def finding(rows: Rows, size: str) -> str:
    """Return the main result in one sentence."""
    raw, scaled, psi = (rows.values(size, f"FL-5 {m} KLD").mean() for m in ("raw", "TS", "Ψ"))
    floor = rows.values(size, "CE raw KLD").mean()
    return (
        f"The KLD of FL-5 to the known posterior falls from {raw:.4f} to {scaled:.4f} by "
        f"temperature scaling and to {psi:.4f} by Ψ; that of CE is {floor:.4f} ({size})."
    )


def _recovery(rows: Rows, sizes: Sequence[str], is_full: bool) -> Iterator[ClaimResult]:
    for size in reversed(sizes):
        for loss in FOCAL:
            raw, psi = (rows.values(size, f"{loss} {m} KLD") for m in ("raw", "Ψ"))
            floor = rows.values(size, "CE raw KLD")
            yield side_result(
                mean_interval((psi - floor) / (raw - floor)),
                claim=f"Ψ removes the KLD that {loss} adds to that of CE ({size})",
                what="(KLD after Ψ − KLD of CE) / (KLD before Ψ − KLD of CE), per seed",
                paper_value=_ZERO,
                unit="fraction of what focal loss adds",
                bound=BAR,
                covers=is_full,
                note=f"KLD {raw.mean():.5f} before Ψ, {psi.mean():.5f} after; CE, which needs no "
                f"Ψ, has {floor.mean():.5f}, due to the finite number of examples.",
            )
    moved = [
        np.abs(rows.values(size, f"{loss} Ψ ERR") - rows.values(size, f"{loss} raw ERR")).max()
        for size in sizes
        for loss in FOCAL
    ]
    yield side_result(
        Interval.exact(max(moved)),
        claim="Ψ leaves the error exactly the same",
        what="largest change of the error over losses, sizes and seeds",
        paper_value='Sec. 5.2: "the ERR remains exactly the same"',
        unit="largest change",
        bound=1e-12,
        covers=is_full,
    )
    for loss in FOCAL:
        found, before = (rows.values(sizes[-1], f"{loss} {m} ECE") for m in ("Ψ", "raw"))
        yield side_result(
            mean_interval(found),
            claim=f"Ψ brings the ECE of {loss} to almost zero ({sizes[-1]})",
            what="ECE after Ψ",
            paper_value=_ZERO,
            unit="ECE",
            bound=0.01,
            covers=is_full,
            note=f"{before.mean():.4f} before.",
        )


def _temperature(rows: Rows, size: str, is_full: bool) -> Iterator[ClaimResult]:
    for loss in FOCAL:
        raw, scaled, psi = (rows.values(size, f"{loss} {m} KLD") for m in ("raw", "TS", "Ψ"))
        yield side_result(
            mean_interval(raw - scaled),
            claim=f"TS_NLL moves {loss} closer to the posterior ({size})",
            what="KLD before − KLD after, per seed",
            paper_value=_GAP,
            unit="KLD, raw − TS_NLL",
            below=False,
            covers=is_full,
        )
        yield side_result(
            mean_interval(scaled - psi),
            claim=f"After TS_NLL a gap remains that Ψ closes, for {loss} ({size})",
            what="KLD of TS_NLL − KLD of Ψ, per seed",
            paper_value=_GAP,
            unit="KLD, TS_NLL − Ψ",
            below=False,
            covers=is_full,
            note=f"TS_NLL leaves {(scaled / raw).mean():.1%} of the KLD, Ψ "
            f"{(psi / raw).mean():.1%}. The paper gives no number for a large gap.",
        )


def _raw(rows: Rows, size: str, losses: Sequence[str], is_full: bool) -> Iterator[ClaimResult]:
    under = {loss: rows.values(size, f"{loss} raw under") for loss in losses}
    for low, high in (("CE", "FL-1"), ("FL-1", "FL-5")):
        yield side_result(
            mean_interval(under[high] - under[low]),
            claim=f"{high} is less confident than {low} ({size})",
            what=f"mean of max η − max q, {high} − {low}, per seed",
            paper_value=_UNDER,
            unit="of probability",
            below=False,
            covers=is_full,
            note=f"The top probability is below the true one by {under[low].mean():.4f} with "
            f"{low} and by {under[high].mean():.4f} with {high}.",
        )
    for loss in FOCAL:
        gap = rows.values(size, f"{loss} raw ERR") - rows.values(size, "CE raw ERR")
        yield number_result(
            mean_interval(gap),
            0.0,
            tolerance=0.005,
            claim=f"The error of {loss} is roughly that of CE ({size})",
            what="mean difference over seeds",
            paper_value=_ERROR,
            unit=f"error, {loss} − CE",
            covers=is_full,
        )
    best = np.min([rows.values(size, f"{loss} raw best class") for loss in losses], axis=0)
    yield side_result(
        mean_interval(best).within(0.0, 1.0),
        claim=f"All networks find the most probable class ({size})",
        what="fraction of test points, for the worst of the three losses",
        paper_value=_ERROR,
        unit="of test points",
        below=False,
        bound=0.99,
        covers=is_full,
    )
