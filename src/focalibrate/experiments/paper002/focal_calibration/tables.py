"""Paper 002's tables beside ours, and charts of them."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from focalibrate.experiments.engine.experiment import Rows, Table
from focalibrate.experiments.engine.verdict import mean_interval
from focalibrate.experiments.networks.pool import (
    SET_NAMES,
    losses_in,
    network_name,
    problems_in,
    spread_text,
)
from focalibrate.experiments.networks.recipes import SHOWN, Problem
from focalibrate.experiments.paper002.focal_calibration.paper_values import (
    PaperValues,
    paper_values,
)
from focalibrate.report.charts import Chart, Panel, Series


def main_table(rows: Rows, problem: Problem) -> Table:
    """Return ECE, temperature and error beside the paper's (Tables 1, 3, 4, 7 and 9)."""
    columns = [("ECE %", "ece"), ("ECE % on halves", ""), ("ECE % after T", "ece_post")]
    if not any(row.metric == "ECE % on halves" for row in rows):
        columns.pop(1)
    columns += [("T", "temperature"), ("error %", "error"), ("train error %", "")]
    return _table(rows, problem, f"{SET_NAMES[problem]}: ECE, temperature and error", columns)


def other_table(rows: Rows, problem: Problem) -> Table:
    """Return AdaECE, classwise ECE and NLL beside the paper's (Tables 2, 5, 8 and 10–13)."""
    columns = [("AdaECE %", "ada"), ("AdaECE % after T", "ada_post")]
    columns += [("classwise ECE %", ""), ("classwise ECE % after T", "")]
    columns += [("NLL %", "nll"), ("NLL % after T", "nll_post")]
    columns += [("MCE %", "mce"), ("MCE % after T", "mce_post")]
    return _table(rows, problem, f"{SET_NAMES[problem]}: other scores", columns)


def _table(rows: Rows, problem: Problem, title: str, columns: Sequence[tuple[str, str]]) -> Table:
    has_paper = any(paper_values(problem, loss) for loss in SHOWN)
    head, body = ["loss"], []
    for metric, field in columns:
        head += [metric, "paper"] if field and has_paper else [metric]
    for loss in losses_in(rows, problem):
        cells = [SHOWN[loss]]
        for metric, field in columns:
            cells.append(spread_text(rows, network_name(problem, loss), metric))
            if field and has_paper:
                cells.append(_paper_cell(paper_values(problem, loss), field))
        body.append(tuple(cells))
    networks = " and ".join(paper_values(problem, "ce"))
    note = "Mean ± standard deviation over the seeds; train error after the last epoch."
    note += f" Paper: {networks}." if has_paper else " The paper does not have this data set."
    return Table(title, tuple(head), tuple(body), note)


def _paper_cell(found: dict[str, PaperValues], field: str) -> str:
    values: list[Any] = [getattr(one, field) for one in found.values()]
    return " / ".join(f"{value:.2f}" for value in values) or "–"


def charts(rows: Rows, problems: Sequence[Problem] = ()) -> Iterator[Chart]:
    """Yield ECE and temperature of the given data sets (all if none), by training loss."""
    problems = problems or problems_in(rows)
    yield Chart(
        "ece",
        "ECE on the test rows before and after temperature scaling, by training loss; bars are "
        "95 % confidence intervals over the seeds.",
        [_panel(rows, p, ("ECE %", "ECE % after T"), "ECE %") for p in problems],
        columns=2,
    )
    yield Chart(
        "temperature",
        "The temperature that minimises ECE, by training loss; 1 leaves the network unchanged.",
        [_panel(rows, p, ("T",), "T") for p in problems],
        columns=2,
    )


def _panel(rows: Rows, problem: Problem, metrics: Sequence[str], y_label: str) -> Panel:
    losses = losses_in(rows, problem)
    names = [SHOWN[loss] for loss in losses]
    series = []
    for metric in metrics:
        found = [
            mean_interval(rows.values(network_name(problem, x), metric)).within(0.0, np.inf)
            for x in losses
        ]
        series.append(
            Series(
                names,
                [i.estimate for i in found],
                label=metric if len(metrics) > 1 else "",
                style="points",
                low=[i.low for i in found],
                high=[i.high for i in found],
            )
        )
    if metrics == ("T",):
        series.append(Series(names, np.ones(len(names)), style="dashed", color=6))
    return Panel(SET_NAMES[problem], "", y_label, series)
