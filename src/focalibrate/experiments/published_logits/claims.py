"""Claims of papers 000, 002 and 003, judged on the published outputs."""

from collections.abc import Iterator

from focalibrate.experiments.engine.experiment import Rows
from focalibrate.experiments.engine.verdict import (
    ClaimResult,
    Interval,
    mean_interval,
    number_result,
    side_result,
)
from focalibrate.experiments.published_logits.figures import interval, number, percent
from focalibrate.experiments.published_logits.methods import FINE

PAPER_VALUES = (
    ("error", "Table 3", "raw error", 4.98, "%"),
    ("ECE", "Table 1", "raw ece", 1.55, "%"),
    ("AdaECE", "Table 2", "raw adaptive_ece", 1.56, "%"),
    ("MCE", "Table 12", "raw mce", 14.89, "%"),
    ("NLL", "Table 10", "raw nll", 17.55, "%"),
    ("T by ECE", "Table 1", "T_ece T", 1.1, ""),
    ("ECE after T by ECE", "Table 1", "T_ece ece", 0.95, "%"),
    ("NLL after T by ECE", "Table 11", "T_ece nll", 17.37, "%"),
    ("MCE after T by ECE", "Table 13", "T_ece mce", 26.37, "%"),
    ("T by AdaECE", "Table 2", "TS_ECE T", 1.1, ""),
    ("AdaECE after T by AdaECE", "Table 2", "TS_ECE adaptive_ece", 1.26, "%"),
)
"""What paper 002 prints for its ResNet-50 on CIFAR-10 with sample-wise exponents 5, 3."""
MARGINAL = 0.02
"""How much more log loss still counts as 003's "marginally", in our reading."""
INFERRED = (
    "That this published ResNet-50 was trained with that loss is inferred: its source does not "
    "say so, but its numbers equal the paper's row."
)


def claims(rows: Rows, *, is_full: bool) -> tuple[ClaimResult, ...]:
    """Compare with paper 002's row, and judge what 003 and 000 say."""
    return (*_digits(rows, is_full), *_second_parameter(rows), _psi(rows, is_full))


def finding(rows: Rows) -> str:
    """Return the main result in one sentence."""
    equal = sum(
        abs(round(number(rows, _focal(rows), metric) * (100 if unit else 1), 2) - value) < 1e-9
        for _, _, metric, value, unit in PAPER_VALUES
    )
    return (
        f"A published ResNet-50, evaluated by our own metrics and fits, gives {equal} of "
        f"{len(PAPER_VALUES)} numbers of a row of paper 002 to the last digit."
    )


def _focal(rows: Rows) -> str:
    """Return the set whose training exponent is known."""
    return next(name for name in rows.recipes() if rows.values(name, "T_ece T").size)


def _digits(rows: Rows, is_full: bool) -> Iterator[ClaimResult]:
    for what, table, metric, value, unit in PAPER_VALUES:
        ours = number(rows, _focal(rows), metric) * (100 if unit else 1)
        yield number_result(
            Interval.exact(round(ours, 2)),
            value,
            tolerance=1e-9,
            claim=f"ResNet-50, CIFAR-10, sample-wise exponents 5, 3: {what}",
            what="to the last digit printed",
            paper_value=f"002 {table}: {value:g}{f' {unit}' if unit else ''}",
            unit=unit or "T",
            covers=is_full,
            note=INFERRED if is_full else "generated logits are used in place of that network",
        )


def _second_parameter(rows: Rows) -> Iterator[ClaimResult]:
    note = (
        "Nine of the sixteen sets are from CIFAR-10, so these are fewer than sixteen independent "
        "trials."
    )
    yield side_result(
        percent(mean_interval(_over_sets(rows, f"FTS less {FINE} adaptive_ece"))),
        claim="FTS has a lower AdaECE than TS on published networks",
        what="mean difference over the sets, both fitted by AdaECE on 003's grid",
        paper_value="003, Sec. 5.2 and Table 1: lower ECE than TS for every training loss; these "
        "are not its networks",
        unit="points of AdaECE, FTS − TS",
        covers=False,
        is_papers=False,
        note=note,
    )
    yield side_result(
        mean_interval(_over_sets(rows, "FTS_NLL less TS_NLL nll")),
        claim="FTS has about the same log loss as TS on published networks",
        what="mean difference over the sets, both fitted by log loss",
        paper_value='003, Sec. 6: "log-loss being approximately the same"; these are not its '
        "networks",
        unit="log loss, FTS − TS",
        bound=MARGINAL,
        covers=False,
        is_papers=False,
        note=note,
    )


def _over_sets(rows: Rows, metric: str) -> list[float]:
    return [number(rows, name, metric) for name in rows.recipes()]


def _psi(rows: Rows, is_full: bool) -> ClaimResult:
    return side_result(
        percent(interval(rows, _focal(rows), "Ψ less raw adaptive_ece")),
        claim="Ψ raises the calibration error of a large network trained on CIFAR-10",
        what="AdaECE with Ψ − without, paired bootstrap over the rows",
        paper_value='000, Sec. 6.2: "it worsens the performance for Standard in CIFAR10. This '
        "demonstrates that our proposed transformation does not always improve the performance "
        "in practice, which could occur when the focal risk minimizer is not successfully "
        'learned" (ResNet110)',
        unit="points of AdaECE, Ψ − raw",
        below=False,
        covers=False,
        note=f"One ResNet-50, with γ = 3 for all rows. {INFERRED}"
        if is_full
        else "The generated logits are those of the focal minimiser, where Ψ does help.",
    )
