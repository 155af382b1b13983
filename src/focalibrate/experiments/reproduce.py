"""An experiment from its name to its folder of evidence."""

import csv
import io
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from focalibrate._atomic import atomic_path, replaced_folder
from focalibrate.datasets import VARIABLE
from focalibrate.experiments.experiment import Conclusion, Experiment, Places, Row, Rows, Scale
from focalibrate.experiments.markdown import tables_markdown
from focalibrate.experiments.page import render_page
from focalibrate.experiments.registry import find_experiment
from focalibrate.experiments.sweep import Backend, Here, Result, run_sweep, versions
from focalibrate.report.charts import chart_svg

RUNS = "runs"
COLUMNS = ("run", "recipe", "seed", "metric", "at", "value")


@dataclass(frozen=True)
class Reproduced:
    """A finished experiment; its folder holds the same."""

    experiment: Experiment
    scale: Scale
    folder: Path
    rows: Rows
    conclusion: Conclusion
    run_seconds: float
    """of all runs together"""


def reproduce(
    name: str,
    *,
    out: str | Path,
    scale: Scale = "reduced",
    data: str | Path | None = None,
    trained: str | Path | None = None,
    backend: Backend | None = None,
    command: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> Reproduced:
    """Run an experiment of the papers, or what is missing of it, and write its evidence.

    The folder gets ``runs/`` (a file for each run, so that an interrupted sweep goes on where it
    was), ``rows.csv`` (run, recipe, seed, metric, at, value), ``verdicts.json``, ``meta.json``
    (command, scale, versions, durations, settings of every run), ``figures/``, ``page.html`` and,
    for pages that include it, ``tables.md``.

    Args:
        name: one of `EXPERIMENTS`.
        out: folder; made if absent.
        scale: how much of the paper's size; what is smaller is said on the page.
        data: where the data sets are; FOCALIBRATE_DATA when None.
        trained: trained networks, shared by experiments; ``trained`` beside `out` when None.
        backend: where the runs are made; this machine's cores when None.
        command: to be recorded.
        progress: called with the numbers of runs done and of all.

    Raises:
        ValueError: for an unknown name or data that are absent.
        SweepError: where runs failed; the others are kept.
    """
    experiment, out = find_experiment(name), Path(out)
    data = data or os.environ.get(VARIABLE)  # which workers elsewhere do not have
    places = Places(
        Path(data).absolute() if data else None,
        Path(trained or out.parent / "trained").absolute(),
    )
    started = time.perf_counter()
    results = run_sweep(
        experiment.tasks(scale),
        folder=out / RUNS,
        places=places,
        backend=backend or Here(os.cpu_count() or 1),
        progress=progress,
    )
    rows = Rows(tuple(row for result in results for row in result.rows))
    found = experiment.conclude(rows, scale)
    meta = _meta(experiment, scale, command, results, time.perf_counter() - started)
    _write_folder(out, experiment, scale, rows, found, meta)
    return Reproduced(experiment, scale, out, rows, found, meta["seconds_of_all_runs"])


def _meta(
    experiment: Experiment, scale: Scale, command: str, results: Sequence[Result], spent: float
) -> dict[str, Any]:
    return {
        "experiment": experiment.name,
        "spec": experiment.spec,
        "source": experiment.source,
        "command": command,
        "scale": scale,
        "smaller_than_the_paper": experiment.smaller[scale],
        "seconds_of_last_call": round(spent, 1),
        "seconds_of_all_runs": round(sum(result.seconds for result in results), 1),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "versions": versions(experiment.packages),
        "runs": {
            result.task.key: dict(result.task.settings) | {"seconds": result.seconds}
            for result in results
        },
    }


def _write_folder(
    out: Path,
    experiment: Experiment,
    scale: Scale,
    rows: Rows,
    found: Conclusion,
    meta: dict[str, Any],
) -> None:
    figures = {chart.name: chart_svg(chart) for chart in found.charts}
    lines = [asdict(line) for line in found.lines]
    texts = {
        "rows.csv": rows_csv(rows),
        "verdicts.json": json.dumps(lines, indent=1, ensure_ascii=False) + "\n",
        "meta.json": json.dumps(meta, indent=1, ensure_ascii=False) + "\n",
        "tables.md": tables_markdown(found.tables),
        "page.html": render_page(experiment, scale, found, figures, meta),
    }
    for name, text in texts.items():
        with atomic_path(out / name, force=True) as path:
            path.write_text(text, encoding="utf-8")
    _replace_figures(out / "figures", figures)


def _replace_figures(folder: Path, figures: dict[str, str]) -> None:
    """Put the figures in place together, so that none of an older run is left among them."""
    with replaced_folder(folder) as beside:
        for name, svg in figures.items():
            (beside / f"{name}.svg").write_text(svg, encoding="utf-8")


def rows_csv(rows: Rows) -> str:
    """Return one line a number, to the shortest text that reads back as the same number."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        at = "" if row.at != row.at else repr(row.at)
        writer.writerow([row.run, row.recipe, row.seed, row.metric, at, repr(row.value)])
    return out.getvalue()


def read_rows(path: str | Path) -> Rows:
    """Read what `rows_csv` wrote.

    Raises:
        ValueError: the file holds something else, with its path.
    """
    with Path(path).open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        if tuple(next(reader, ())) != COLUMNS:
            raise ValueError(f"{path}: must begin with the columns {', '.join(COLUMNS)}.")
        try:
            return Rows(
                tuple(
                    Row(run, recipe, int(seed), metric, float(value), float(at or "nan"))
                    for run, recipe, seed, metric, at, value in reader
                )
            )
        except ValueError as error:
            raise ValueError(f"{path}: line {reader.line_num}: {error}") from error
