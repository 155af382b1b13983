"""Calibration of networks trained with focal loss, before and after temperature scaling."""

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import Identity
from focalibrate.metrics import adaptive_ece, classwise_ece, ece, error_rate, mce, nll
from focalibrate_papers import engine as lab
from focalibrate_papers.charts import Chart, Panel, Series
from focalibrate_papers.networks import (
    PROBLEMS,
    SET_NAMES,
    SHOWN,
    TOO_FEW,
    UNPUBLISHED,
    Fold,
    Problem,
    Trained,
    best_temperature,
    by_problem,
    difference,
    folds,
    losses_in,
    pool_recipe,
    pool_tasks,
    trained,
)

PaperValues: TypeAlias = Mapping[str, float]
"""A network's numbers by the columns of tables.csv, in percent except the temperatures."""


def _printed() -> dict[tuple[Problem, str], dict[str, PaperValues]]:
    found: dict[tuple[Problem, str], dict[str, PaperValues]] = {}
    with Path(__file__).with_name("tables.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            problem, network, loss = (row.pop(name) for name in ("problem", "network", "loss"))
            values = {name: float(cell) for name, cell in row.items()}
            found.setdefault((cast("Problem", problem), network), {})[loss] = values
    return found


PAPER_VALUES = _printed()
"""Of Tables 1 to 13, by set and network, then by loss; FLSD-53 is the paper's FLA-53, "sample-wise
γ 5,3". Schedules and FLSD-532 are only given for SST, for the experiment `sst`."""
MAIN: dict[Problem, str] = {
    "cifar10": "ResNet-50",
    "20newsgroups": "Global-pooling CNN",
    "sst_binary": "Tree-LSTM",
}
"""The network of the paper that the pool trains at full size."""


def paper_values(problem: Problem, loss: str) -> dict[str, PaperValues]:
    """Return the paper's numbers for a data set and loss, by network; empty if it prints none."""
    return {
        network: losses[loss]
        for (where, network), losses in PAPER_VALUES.items()
        if where == problem and loss in losses
    }


def scores(log_probs: NDArray[np.float64], labels: NDArray[np.int64]) -> dict[str, float]:
    """Return the scores of the paper's tables in percent, with NLL times 100 as in the paper."""
    v = np.exp(log_probs)
    return {
        "ECE %": 100 * ece(v, labels, n_bins=15),
        "AdaECE %": 100 * adaptive_ece(v, labels, n_bins=15),
        "classwise ECE %": 100 * classwise_ece(v, labels, n_bins=15),
        "MCE %": 100 * mce(v, labels, n_bins=15),
        "NLL %": 100 * nll(labels=labels, log_probs=log_probs),
        "error %": 100 * error_rate(v, labels),
    }


def network_numbers(found: Trained, parts: Sequence[Fold]) -> Iterator[tuple[str, float]]:
    """Yield the final error on training rows, and what `scaled_numbers` yields."""
    yield from scaled_numbers(found.fold.logits, found.test_labels, parts)
    yield "train error %", 100 * float(found.dynamics["train_error"][-1])


def scaled_numbers(
    logits: NDArray[np.float64], labels: NDArray[np.int64], parts: Sequence[Fold]
) -> Iterator[tuple[str, float]]:
    """Yield scores before T on all rows, and after T as means over the parts; temperatures."""
    yield from raw_scores(logits, labels).items()
    by_ece, by_ada = ([best_temperature(p, c) for p in parts] for c in ("ece", "adaptive_ece"))
    after, adaptive = (
        [
            scores(np.asarray(fit.log_probs(part.logits)), part.labels)
            for fit, part in zip(fits, parts, strict=True)
        ]
        for fits in (by_ece, by_ada)
    )
    for name in ("ECE %", "classwise ECE %", "MCE %", "NLL %"):
        yield f"{name} after T", float(np.mean([found[name] for found in after]))
    yield "AdaECE % after T", float(np.mean([found["AdaECE %"] for found in adaptive]))
    if len(parts) > 1:  # with as few rows as the ECE after T
        eces = [raw_scores(part.logits, part.labels)["ECE %"] for part in parts]
        yield "ECE % on halves", float(np.mean(eces))
    temperature = float(np.mean([fit.temperature for fit in by_ece]))
    yield "T", temperature
    yield "|ln T|", abs(float(np.log(temperature)))
    yield "T of AdaECE", float(np.mean([fit.temperature for fit in by_ada]))


def raw_scores(logits: NDArray[np.float64], labels: NDArray[np.int64]) -> dict[str, float]:
    """Return the scores without temperature scaling."""
    return scores(np.asarray(Identity().log_probs(logits.astype(np.float64))), labels)


def score_tables(rows: lab.Rows) -> Iterator[lab.Table]:
    """Yield both tables of each data set."""
    for problem, own in by_problem(rows).items():
        yield main_table(own, problem)
        yield other_table(own, problem)


def main_table(rows: lab.Rows, problem: Problem) -> lab.Table:
    """Return ECE, temperature and error beside the paper's (Tables 1, 3, 4, 7 and 9)."""
    columns = [("ECE %", "ece"), ("ECE % on halves", ""), ("ECE % after T", "ece_post")]
    if not any(row.metric == "ECE % on halves" for row in rows):
        columns.pop(1)
    columns += [("T", "temperature"), ("error %", "error"), ("train error %", "")]
    return _table(rows, problem, f"{SET_NAMES[problem]}: ECE, temperature and error", columns)


def other_table(rows: lab.Rows, problem: Problem) -> lab.Table:
    """Return AdaECE, classwise ECE and NLL beside the paper's (Tables 2, 5, 8 and 10–13)."""
    columns = [("AdaECE %", "ada"), ("AdaECE % after T", "ada_post")]
    columns += [("classwise ECE %", ""), ("classwise ECE % after T", "")]
    columns += [("NLL %", "nll"), ("NLL % after T", "nll_post")]
    columns += [("MCE %", "mce"), ("MCE % after T", "mce_post")]
    return _table(rows, problem, f"{SET_NAMES[problem]}: other scores", columns)


def _table(
    rows: lab.Rows, problem: Problem, title: str, columns: Sequence[tuple[str, str]]
) -> lab.Table:
    has_paper = any(paper_values(problem, loss) for loss in SHOWN)
    head, body = ["loss"], []
    for metric, field in columns:
        head += [metric, "paper"] if field and has_paper else [metric]
    for loss in losses_in(rows):
        cells = [SHOWN[loss]]
        for metric, field in columns:
            cells.append(lab.spread(rows.values(metric, loss=loss)))
            if field and has_paper:
                cells.append(_paper_cell(paper_values(problem, loss), field))
        body.append(tuple(cells))
    networks = " and ".join(paper_values(problem, "ce"))
    note = "Mean ± standard deviation over the seeds; train error after the last epoch."
    note += f" Paper: {networks}." if has_paper else " The paper does not have this data set."
    return lab.Table(title, tuple(head), tuple(body), note)


def _paper_cell(found: dict[str, PaperValues], field: str) -> str:
    values = [one[field] for one in found.values()]
    return " / ".join(f"{value:.2f}" for value in values) or "–"


def set_charts(rows: lab.Rows) -> Iterator[Chart]:
    """Yield ECE and temperature of each set, by training loss."""
    sets = concluded(rows)
    yield Chart(
        "ece",
        "ECE on the test rows before and after temperature scaling, by training loss; bars are "
        "95 % confidence intervals over the seeds.",
        [_panel(own, p, ("ECE %", "ECE % after T"), "ECE %") for p, own in sets.items()],
        columns=2,
    )
    yield Chart(
        "temperature",
        "The temperature that minimises ECE, by training loss; 1 leaves the network unchanged.",
        [_panel(own, p, ("T",), "T") for p, own in sets.items()],
        columns=2,
    )


def _panel(rows: lab.Rows, problem: Problem, metrics: Sequence[str], y_label: str) -> Panel:
    losses = losses_in(rows)
    names = [SHOWN[loss] for loss in losses]
    series = []
    for metric in metrics:
        found = [
            lab.mean_interval(rows.values(metric, loss=x)).within(0.0, np.inf) for x in losses
        ]
        series.append(Series.of_intervals(names, found, metric if len(metrics) > 1 else ""))
    if metrics == ("T",):
        series.append(Series(names, np.ones(len(names)), style="dashed", color=6))
    return Panel(SET_NAMES[problem], "", y_label, series)


FOCAL = ("flsd53", "fl3")
ECE_TOLERANCE = 0.5
"""Points of ECE within which a printed number counts as reproduced."""
SHORT: Mapping[Problem, str] = {"sst_binary": "SST, 10 epochs"}
"""Problems that another experiment trains as long as the paper, with their name in the claims: at
reduced scale they are a question of our own."""
_EARLY = (
    "A question of our own: does it hold after 10 epochs? The paper trains for 25, as the "
    "experiment sst does."
)
ALMOST_ALL = 0.9
"""The fraction of cases that "almost all" requires; the paper gives no number."""
OVERCONFIDENT = 1.1
"""Temperature of cross-entropy from which a network counts as overconfident: below it there is
hardly any overconfidence that focal loss could reduce."""
_TEXT = (
    'Sec. 1: "Our experiments show that in almost all cases, DNNs trained with focal loss are '
    'more calibrated than those trained with cross-entropy loss, MMCE, and Brier loss"'
)
_AFTER_T = (
    'Sec. 6: "It broadly produces the lowest ECE and AdaECE values both before and after '
    'temperature scaling"'
)
_ERROR = (
    'Sec. 7: "Our results show that in almost all cases, networks trained with focal loss are '
    "more calibrated than those trained with cross-entropy loss, whilst having similar levels of "
    'accuracy"'
)
_NEAR_ONE = (
    'Sec. 6: "for focal loss with sample-based γ […], beside most other focal loss models, the '
    "optimal temperatures are very close to 1, mostly lying between 0.9 and 1.1. By contrast, the "
    "optimal temperatures for the baselines (cross-entropy and MMCE) are significantly higher, "
    'with values lying between 2.0 to 2.8."'
)


@dataclass(frozen=True)
class Measure:
    """A number by which two losses are compared."""

    metric: str
    value: Callable[[PaperValues], float]
    what: str
    """the number that is lower, such as ``"ECE before T"``"""
    unit: str
    sentence: str
    bound: float = 0.0
    """how much worse still counts as no worse"""
    sides: tuple[str, str] = ("", "")
    """words for the lower and the higher number, if "a lower" and "a higher" do not say it"""

    def words(self, *, below: bool) -> str:
        """Return the comparison in words, to put between the names of two losses."""
        if any(self.sides):
            return f"has {self.sides[0 if below else 1]} than"
        if self.bound:
            most = "at most" if below else "more than"
            return f"has {most} {self.bound:g} point more {self.what} than"
        return f"has a {'lower' if below else 'higher'} {self.what} than"


BEFORE = Measure("ECE %", lambda p: p["ece"], "ECE before T", "points of ECE", _TEXT)
AFTER = Measure("ECE % after T", lambda p: p["ece_post"], "ECE after T", "points of ECE", _AFTER_T)
NEAR_ONE = Measure(
    "|ln T|",
    lambda p: abs(math.log(p["temperature"])),
    "|ln T|",
    "of |ln T|",
    _NEAR_ONE,
    sides=("a best temperature closer to 1", "a best temperature further from 1"),
)
ERROR = Measure("error %", lambda p: p["error"], "error", "points of error", _ERROR, 1.0)


Gap: TypeAlias = Callable[[lab.Rows, str, str, str], lab.Interval | None]


def claims(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    """Yield how many data sets agree, then the comparisons per set, then the printed numbers."""
    shown, is_full = concluded(rows), rows.scale == "full"
    trained = {p: own for p, own in shown.items() if is_full or p not in SHORT}
    if is_full:
        for loss in FOCAL:
            for measure in (BEFORE, AFTER):
                yield from _count(trained, loss, measure)
    for problem, own in trained.items():
        yield from claims_of_set(own, problem)
    for problem in MAIN:
        for loss in ("ce", "flsd53") if problem in trained else ():
            yield from claims_of_number(trained[problem], problem, loss)
    for problem in (problem for problem in shown if problem not in trained):
        for result in claims_of_set(shown[problem], problem, name=SHORT[problem]):
            yield lab.as_ours(result, paper_value=f"{_EARLY} {result.paper_value}")


def concluded(rows: lab.Rows) -> dict[Problem, lab.Rows]:
    """Return the sets to conclude from: at full size all, else without `TOO_FEW`."""
    return {
        p: own for p, own in by_problem(rows).items() if p not in TOO_FEW or rows.scale == "full"
    }


def claims_of_set(
    rows: lab.Rows,
    problem: Problem,
    *,
    name: str = "",
    gap: Gap = difference,
    paired_by: str = "seed",
) -> Iterator[lab.ClaimResult]:
    """Yield the comparisons of losses on one set.

    Args:
        rows: of the networks.
        problem: the set.
        name: of the set in the claims, if not its own.
        gap: the difference of a metric between two losses, with its interval.
        paired_by: what the two have in common in `gap`.
    """
    name = name or SET_NAMES[problem]
    pairs = [(m, loss, "ce") for m in (BEFORE, NEAR_ONE, AFTER, ERROR) for loss in FOCAL]
    pairs += [(BEFORE, "flsd53", other) for other in ("brier", "mmce", "ls")]
    pairs += [(AFTER, "flsd53", other) for other in ("brier", "mmce")]
    for measure, loss, other in pairs:
        found = gap(rows, loss, other, measure.metric)
        if found is not None:
            what = f"{measure.what}, {SHOWN[loss]} − {SHOWN[other]}, paired by {paired_by}"
            yield _compared(rows, problem, (loss, other), measure, found, name=name, what=what)


def _compared(
    rows: lab.Rows,
    problem: Problem,
    pair: tuple[str, str],
    measure: Measure,
    ours: lab.Interval,
    *,
    name: str,
    what: str,
) -> lab.ClaimResult:
    """Return the result for two losses, in the direction of the paper's table."""
    loss, other = pair
    below, note = _direction(problem, loss, other, measure)
    warmth = rows.values("T", loss="ce")
    if other == "ce" and measure is not ERROR and 0 < np.sum(warmth) < OVERCONFIDENT * warmth.size:
        note += (
            f" With cross-entropy T is {warmth.mean():.2f} here: it is hardly overconfident, so "
            "there is little that focal loss could improve."
        )
    return lab.side_result(
        ours,
        claim=f"{name}: {SHOWN[loss]} {measure.words(below=below)} {SHOWN[other]}",
        what=what,
        paper_value=_paper_words(problem, loss, other, measure),
        unit=f"{measure.unit}, {SHOWN[loss]} − {SHOWN[other]}",
        below=below,
        bound=measure.bound,
        is_papers=_is_papers(problem, other),
        note=note.strip(),
    )


def _is_papers(problem: Problem, other: str) -> bool:
    return problem not in UNPUBLISHED and other != "ls"


def _direction(problem: Problem, loss: str, other: str, measure: Measure) -> tuple[bool, str]:
    """Return whether the claim is that `loss` is lower, and a note if it is not.

    The claim is what the paper's text says, unless all networks in its table show the opposite.
    """
    tables = [
        table
        for (where, _), table in PAPER_VALUES.items()
        if where == problem and loss in table and other in table
    ]
    gaps = [measure.value(table[loss]) - measure.value(table[other]) for table in tables]
    if not gaps or min(gaps) <= measure.bound:
        return True, ""
    return False, (
        "The paper's table has an exception to its text here; the claim judged is that of the "
        "table."
    )


def _paper_words(problem: Problem, loss: str, other: str, measure: Measure) -> str:
    found = [
        f"{_shown(measure, table[loss])} against {_shown(measure, table[other])} ({network})"
        for (where, network), table in PAPER_VALUES.items()
        if where == problem and loss in table and other in table
    ]
    if not found:
        what = "set" if problem in UNPUBLISHED else "loss"
        return f"the paper does not have this {what}"
    return f"{measure.sentence}; its table: {', '.join(found)}"


def _shown(measure: Measure, values: PaperValues) -> str:
    return (
        f"T {values['temperature']:.2f}" if measure is NEAR_ONE else f"{measure.value(values):.2f}"
    )


def _count(
    sets: Mapping[Problem, lab.Rows], loss: str, measure: Measure
) -> Iterator[lab.ClaimResult]:
    """Yield on which fraction of the paper's sets `loss` is lower than cross-entropy.

    At full size only: fewer of its sets cannot decide a claim about almost all cases.
    """
    gaps = {
        SET_NAMES[p]: difference(own, loss, "ce", measure.metric)
        for p, own in sets.items()
        if {loss, "ce"} <= set(losses_in(own)) and p not in UNPUBLISHED
    }
    if not gaps:
        return
    below = [name for name, gap in gaps.items() if gap is not None and gap.estimate < 0]
    paper = [
        (where, network)
        for (where, network), table in PAPER_VALUES.items()
        if measure.value(table[loss]) < measure.value(table["ce"])
    ]
    yield lab.judged(
        "focal-calibration/almost-all",
        lab.share_interval(len(below), len(gaps)),
        loss=SHOWN[loss],
        measure=measure.what,
        n_gaps=len(gaps),
        sentence=measure.sentence,
        n_paper=len(paper),
        n_printed=len(PAPER_VALUES),
        unit=f"of {len(gaps)} sets ({', '.join(below) or 'none'})",
        bound=ALMOST_ALL,
        covers=True,
    )


def claims_of_number(
    rows: lab.Rows, problem: Problem, loss: str, *, name: str = ""
) -> Iterator[lab.ClaimResult]:
    """Yield the result for a printed ECE, if the network was trained."""
    values = rows.values(BEFORE.metric, loss=loss)
    if not np.size(values):
        return
    network = MAIN[problem]
    paper = PAPER_VALUES[problem, network][loss]["ece"]
    yield lab.judged(
        "focal-calibration/printed",
        lab.mean_interval(values).within(0.0, 100.0),
        paper=paper,
        network=network,
        bound=paper,
        tolerance=ECE_TOLERANCE,
        claim=f"{name or SET_NAMES[problem]}: ECE of {SHOWN[loss]} before T",
    )


NAME = "focal-calibration"
LOSSES = ("ce", "ls", "brier", "mmce", "fl1", "fl2", "fl3", "flsd53")


def tasks(scale: lab.Scale) -> list[lab.Task]:
    """Return one task per network."""
    return pool_tasks(NAME, scale, problems=PROBLEMS, losses=LOSSES)


def run(task: lab.Task, folders: lab.Folders) -> lab.Numbers:
    """Return the network's scores on its test rows, and its final error on training rows."""
    found = trained(pool_recipe(task), folders)
    return network_numbers(found, folds(found.test_logits, found.test_labels))


def finding(rows: lab.Rows) -> str:
    """Return the main result in one sentence."""
    parts = []
    for problem, own in concluded(lab.Rows(rows.rows, "reduced")).items():
        before, after = (
            "{:.1f} ({:.1f})".format(
                *(own.values(name, loss=loss).mean() for name in ("ECE %", "T"))
            )
            for loss in ("ce", "fl3")
        )
        parts.append(f"{SHORT.get(problem, SET_NAMES[problem])}: {before} → {after}")
    return f"ECE in % (and best T) with CE → with FL-3: {'; '.join(parts)}."


EXPERIMENT = lab.Experiment.of(
    __name__, tables=(score_tables,), charts=(set_charts,), network=pool_recipe
)
