"""Run an experiment by its name and write its folder of evidence."""

import csv
import io
import json
import math
import os
import platform
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from focalibrate._atomic import atomic_path, replaced_folder
from focalibrate.datasets import VARIABLE
from focalibrate.engines import Backend, LocalProcesses, commit, versions
from focalibrate.experiments.engine.experiment import (
    Conclusion,
    Experiment,
    Folders,
    Row,
    Rows,
    Scale,
    Task,
)
from focalibrate.experiments.engine.forest import forest_svg
from focalibrate.experiments.engine.markdown import tables_markdown
from focalibrate.experiments.engine.page import render_page
from focalibrate.experiments.engine.registry import find_experiment
from focalibrate.experiments.engine.sweep import (
    Result,
    is_at_hand,
    result_path,
    run_sweep,
    write_result,
)
from focalibrate.experiments.engine.verdict import ClaimResult, tally
from focalibrate.report.charts import chart_svg

RUNS = "runs"
COLUMNS = ("run", "recipe", "seed", "metric", "at", "value")


@dataclass(frozen=True)
class Reproduced:
    """A finished experiment; its folder contains the same."""

    experiment: Experiment
    scale: Scale
    folder: Path
    rows: Rows
    conclusion: Conclusion


def reproduce(
    name: str,
    *,
    out: str | Path,
    scale: Scale = "reduced",
    data: str | Path | None = None,
    trained: str | Path | None = None,
    only_trained: bool = False,
    keep_rows: bool = False,
    backend: Backend | None = None,
    command: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> Reproduced:
    """Run an experiment of the papers, or the runs that are missing, and write its evidence.

    The folder gets ``runs/`` (a file for each run, so that an interrupted sweep resumes where it
    stopped), ``rows.csv`` (run, recipe, seed, metric, at, value), ``verdicts.json``, ``meta.json``
    (command, scale, versions, durations, settings of every run), ``figures/``, ``page.html`` and,
    for pages that include it, ``tables.md``.

    Args:
        name: one of `EXPERIMENTS`.
        out: folder; created if it does not exist.
        scale: how large, relative to the paper; the page states what is smaller.
        data: where the data sets are; FOCALIBRATE_DATA when None.
        trained: trained networks, shared by experiments; ``trained`` beside `out` when None.
        only_trained: leave out the runs whose network is not in `trained` yet, instead of training
            it; meta.json records how many were left out.
        keep_rows: take the runs in `out`'s rows.csv as finished, as it is with committed evidence,
            whose run files and networks are gone, and make only those that are missing.
        backend: where the runs are made; this machine's cores when None.
        command: to be recorded.
        progress: called with the number of finished runs and the total.

    Raises:
        ValueError: unknown name, missing data, or no run left by `only_trained`.
        EngineError: runs failed; the others are kept.
    """
    experiment, out = find_experiment(name), Path(out)
    data = data or os.environ.get(VARIABLE)  # workers on other machines do not have it
    folders = Folders(
        Path(data).absolute() if data else None,
        Path(trained or out.parent / "trained").absolute(),
    )
    started = time.perf_counter()
    tasks = every = list(experiment.tasks(scale))
    if keep_rows:
        _restore_runs(out, every)
    if only_trained:
        tasks = [t for t in every if is_at_hand(experiment, t, out / RUNS, folders)]
        if not tasks:
            raise ValueError(
                f"none of the {len(every)} networks of {name!r} at scale {scale!r} is in "
                f"{folders.trained}. Leave out --only-trained to train them."
            )
    results = run_sweep(
        tasks,
        folder=out / RUNS,
        folders=folders,
        backend=backend or LocalProcesses(os.cpu_count() or 1),
        progress=progress,
    )
    rows = Rows(tuple(row for result in results for row in result.rows))
    found = experiment.conclude(rows, scale)
    meta = _meta(experiment, scale, command, results, time.perf_counter() - started)
    meta["runs_left_out"] = len(every) - len(tasks)
    _write_folder(out, experiment, scale, rows, found, meta)
    return Reproduced(experiment, scale, out, rows, found)


def _restore_runs(out: Path, tasks: Sequence[Task]) -> None:
    """Write the result file of every task whose numbers are in rows.csv."""
    meta, numbers = read_meta(out), defaultdict[str, list[Row]](list)
    for row in read_rows(out / "rows.csv"):
        numbers[row.run].append(row)
    for task in tasks:
        if task.key not in numbers or result_path(out / RUNS, task).exists():
            continue
        found, known = numbers[task.key], dict(meta["runs"][task.key])
        seconds = known.pop("seconds")
        write_result(
            out / RUNS,
            Result(
                task,
                tuple(found),
                seconds,
                meta["versions"],
                meta.get("commit", ""),
                {k: value for k, value in known.items() if k not in dict(task.settings)},
            ),
        )


def _meta(
    experiment: Experiment, scale: Scale, command: str, results: Sequence[Result], spent: float
) -> dict[str, Any]:
    return {
        "experiment": experiment.name,
        "code": experiment.code,
        "source": experiment.source,
        "command": command,
        "scale": scale,
        "smaller_than_the_paper": experiment.smaller[scale],
        "seconds_of_last_call": round(spent, 1),
        "seconds_of_all_runs": round(sum(result.seconds for result in results), 1),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "versions": versions(experiment.packages),
        "commit": _one_or_all({result.commit for result in results}),
        "judged_by": commit(),
        "runs": {
            result.task.key: dict(result.task.settings)
            | {"seconds": result.seconds}
            | result.network
            for result in results
        },
    }


def _one_or_all(commits: set[str]) -> str:
    return ", ".join(sorted(commits - {""}))


def judge_again(folder: str | Path) -> Reproduced:
    """Judge the rows of a finished experiment by the current rules and rewrite its pages.

    Nothing is run; rows.csv is unchanged. meta.json records the commit of the rules.

    Args:
        folder: what `reproduce` wrote: rows.csv and meta.json.

    Raises:
        ValueError: rows.csv is something else.
        OSError: a file is absent.
    """
    out = Path(folder)
    meta = read_meta(out)
    experiment, rows = find_experiment(meta["experiment"]), read_rows(out / "rows.csv")
    scale: Scale = meta["scale"]
    found = experiment.conclude(rows, scale)
    meta |= {
        "code": experiment.code,
        "source": experiment.source,
        "smaller_than_the_paper": experiment.smaller[scale],
        "commit": meta.get("commit", ""),
        "judged_by": commit(),
    }
    _write_folder(out, experiment, scale, rows, found, meta)
    return Reproduced(experiment, scale, out, rows, found)


def read_meta(folder: str | Path) -> dict[str, Any]:
    """Return the content of meta.json in an experiment's folder.

    Raises:
        ValueError: there is none, or it is something else.
    """
    path = Path(folder, "meta.json")
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if "experiment" not in found:
            raise ValueError("no experiment is named")
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path}: must be the meta.json of a finished experiment ({error}). Run it first."
        ) from error
    return found


def _write_folder(
    out: Path,
    experiment: Experiment,
    scale: Scale,
    rows: Rows,
    found: Conclusion,
    meta: dict[str, Any],
) -> None:
    figures = {chart.name: chart_svg(chart) for chart in found.charts}
    verdicts = {
        "finding": found.finding,
        "tally": tally(found.results),
        "figures": {chart.name: chart.caption for chart in found.charts},
        "claims": [_record(result) for result in found.results],
    }
    texts = {
        "rows.csv": rows_csv(rows),
        "verdicts.json": json.dumps(verdicts, indent=1, ensure_ascii=False) + "\n",
        "meta.json": json.dumps(meta, indent=1, ensure_ascii=False) + "\n",
        "tables.md": tables_markdown(found.tables),
        "page.html": render_page(experiment, scale, found, figures, meta),
    }
    for name, text in texts.items():
        with atomic_path(out / name, force=True) as path:
            path.write_text(text, encoding="utf-8")
    _replace_figures(out / "figures", {"claims": forest_svg(found.results)} | figures)


def _record(result: ClaimResult) -> dict[str, Any]:
    """Return a result as JSON: null instead of infinite numbers."""

    def known(x: float) -> float | None:
        return x if math.isfinite(x) else None

    record = asdict(result)
    record["ours"] = {name: known(x) for name, x in record["ours"].items()}
    record["claimed"] = [known(x) for x in result.claimed]
    return record


def _replace_figures(folder: Path, figures: dict[str, str]) -> None:
    """Replace all figures at once, so that none of an older run is left."""
    with replaced_folder(folder) as beside:
        for name, svg in figures.items():
            (beside / f"{name}.svg").write_text(svg, encoding="utf-8")


def rows_csv(rows: Rows) -> str:
    """Return one line per number, as the shortest text that reads back as the same number."""
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
