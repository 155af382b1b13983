"""Run an experiment by its name and write its folder of evidence."""

import csv
import io
import json
import math
import os
import platform
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from focalibrate._atomic import atomic_path, finish_folder
from focalibrate.engines import Backend, LocalProcesses, commit, versions
from focalibrate_papers.charts import chart_picture
from focalibrate_papers.datasets import VARIABLE
from focalibrate_papers.engine import (
    EXPERIMENTS,
    GROUNDS,
    VERDICTS,
    ClaimResult,
    Conclusion,
    Experiment,
    Folders,
    Row,
    Rows,
    Scale,
    Table,
    Task,
    find_experiment,
    sentence_of,
    show_interval,
    tally,
)
from focalibrate_papers.sweep import Result, is_at_hand, result_path, run_sweep, write_result


def tables_markdown(tables: Iterable[Table]) -> str:
    """Return the tables one below the other, each under its title."""
    parts = []
    for table in tables:
        parts.append(f"**{_cell(table.title)}**\n\n{_grid(table.head, table.body)}")
        if table.note:
            parts.append(f"{_cell(table.note)}\n")
    return "\n".join(parts)


def _grid(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    rows = [_row(head), "|-" * len(head) + "|", *map(_row, body)]
    return "\n".join(rows) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _cell(text: str) -> str:
    """Escape what would end the cell or be read as a tag."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")
    return " ".join(escaped.split())


RUNS = "runs"
MIXED = "mixed"
"""Verdict on a sentence whose claims have different ones."""
OUTCOMES = (*VERDICTS, MIXED)
MANY_LOOKS = (
    "Intervals over networks rest on few seeds, mostly three (a t interval with two degrees of "
    "freedom), and nothing corrects for the number of claims: of 20 true ones, expect one miss."
)
COVERAGE = ("", "in the paper", "here")
AT = "at"
"""Column of the position on a curve; settings are left of it, metrics right."""


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
    progress: Callable[[int, int], None] | None = None,
) -> Reproduced:
    """Run an experiment of the papers, or the runs that are missing, and write its evidence.

    The folder gets ``runs/`` (a file for each run, so that an interrupted sweep resumes where it
    stopped), ``rows.csv`` (settings, position on a curve, metrics), ``verdicts.json``,
    ``meta.json`` (command, scale, versions, durations, commits), ``figures/`` and ``README.md``.

    Args:
        name: one of `EXPERIMENTS`.
        out: folder; created if it does not exist.
        scale: how large, relative to the paper; README.md says what is smaller.
        data: where the data sets are; FOCALIBRATE_DATA when None.
        trained: trained networks, shared by experiments; ``trained`` beside `out` when None.
        only_trained: leave out the runs whose network is not in `trained` yet, instead of training
            it; meta.json records how many were left out.
        keep_rows: take the runs in `out`'s rows.csv as finished, as it is with committed evidence,
            whose run files and networks are gone, and make only those that are missing.
        backend: where the runs are made; this machine's cores when None.
        progress: called with the number of finished runs and the total.

    Raises:
        ValueError: unknown name, missing data, or no run left by `only_trained`.
        EngineError: runs failed; the others are kept.
    """
    experiment, out = find_experiment(name), Path(out)
    data = data or os.environ.get(VARIABLE)  # workers on other machines do not have it
    folders = Folders(
        Path(data).absolute() if data else None, Path(trained or out.parent / "trained").absolute()
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
    meta = _meta(experiment, scale, results, time.perf_counter() - started)
    meta["runs_left_out"] = len(every) - len(tasks)
    _write(out / "rows.csv", rows_csv(rows))
    _write_folder(out, experiment, scale, found, meta)
    return Reproduced(experiment, scale, out, rows, found)


def _restore_runs(out: Path, tasks: Sequence[Task]) -> None:
    """Write the result file of every task whose numbers are in rows.csv."""
    meta, numbers = read_meta(out), defaultdict[Task, list[Row]](list)
    for row in read_rows(out / "rows.csv", meta["experiment"]):
        numbers[row.task].append(row)
    for task in tasks:
        if task in numbers and not result_path(out / RUNS, task).exists():
            known = dict(meta["runs"][task.key])
            made = known.pop("seconds"), meta["versions"], meta.get("commit", ""), known
            write_result(out / RUNS, Result(task, tuple(numbers[task]), *made))


def _meta(
    experiment: Experiment, scale: Scale, results: Sequence[Result], spent: float
) -> dict[str, Any]:
    return {
        "experiment": experiment.name,
        "code": experiment.code,
        "source": experiment.source,
        "command": canonical_command(experiment.name, scale),
        "scale": scale,
        "smaller_than_the_paper": experiment.smaller.get(scale, ""),
        "seconds_of_last_call": round(spent, 1),
        "seconds_of_all_runs": round(sum(result.seconds for result in results), 1),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "versions": versions(experiment.packages),
        "commit": _one_or_all({result.commit for result in results}),
        "judged_by": commit(),
        "runs": {
            result.task.key: {"seconds": result.seconds} | result.network for result in results
        },
    }


def _one_or_all(commits: set[str]) -> str:
    return ", ".join(sorted(commits - {""}))


def judge_again(folder: str | Path) -> Reproduced:
    """Judge the rows of a finished experiment by the current rules; rewrite texts and figures.

    Nothing is run; rows.csv is unchanged. meta.json records the commit of the rules.

    Args:
        folder: what `reproduce` wrote: rows.csv and meta.json.

    Raises:
        ValueError: rows.csv is something else.
        OSError: a file is absent.
    """
    out = Path(folder)
    meta = read_meta(out)
    experiment, rows = (
        find_experiment(meta["experiment"]),
        read_rows(out / "rows.csv", meta["experiment"]),
    )
    scale: Scale = meta["scale"]
    found = experiment.conclude(rows, scale)
    meta |= {
        "code": experiment.code,
        "source": experiment.source,
        "smaller_than_the_paper": experiment.smaller.get(scale, ""),
        "command": canonical_command(experiment.name, scale),
        "commit": meta.get("commit", ""),
        "judged_by": commit(),
    }
    _write_folder(out, experiment, scale, found, meta)
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
    out: Path, experiment: Experiment, scale: Scale, found: Conclusion, meta: dict[str, Any]
) -> None:
    verdicts = {
        "finding": found.finding,
        "tally": tally(found.results),
        "figures": {chart.name: chart.caption for chart in found.charts},
        "claims": [_record(result) for result in found.results],
    }
    texts = {
        "verdicts.json": json.dumps(verdicts, indent=1, ensure_ascii=False) + "\n",
        "meta.json": json.dumps(meta, indent=1, ensure_ascii=False) + "\n",
        "README.md": readme(experiment, scale, found, meta),
    }
    for name, text in texts.items():
        _write(out / name, text)
    _replace_figures(out / "figures", {c.name: chart_picture(c) for c in found.charts})


def _write(path: Path, text: str) -> None:
    with atomic_path(path, force=True) as beside:
        beside.write_text(text, encoding="utf-8")


def readme(
    experiment: Experiment, scale: Scale, found: Conclusion, meta: Mapping[str, Any]
) -> str:
    """Return what a reader sees first: finding, verdicts, figures, and how it was made."""
    covered, smaller = experiment.coverage.get(scale), experiment.smaller.get(scale)
    parts = [
        f"# {experiment.title}",
        f"{experiment.source}. Tested on {experiment.ground}.",
        f"**{_cell(found.finding)}**" if found.finding else "",
        f"{tally(found.results)} {_sentences(found.results)}".strip(),
        f"**Smaller than the paper.** {smaller}" if smaller else "",
        "## Claims",
        tables_markdown([_claims_table(found.results)]),
        "## Figures" if found.charts else "",
        *(f"![{c.name}](figures/{c.name}.webp)\n\n{c.caption}" for c in found.charts),
        "## How it was done",
        experiment.protocol,
        experiment.changed_rules,
        tables_markdown([Table("Coverage", COVERAGE, covered)] if covered else []),
        "## Tables" if found.tables else "",
        f"<!-- --8<-- [start:tables] -->\n\n{tables_markdown(found.tables)}\n"
        "<!-- --8<-- [end:tables] -->",
        "## Made by",
        _made(meta),
    ]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def by_sentence(claims: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the verdict on each sentence or printed number; `MIXED` if its claims differ.

    Args:
        claims: sentence of the paper and verdict.

    Example:
        >>> by_sentence([("a", "reproduced"), ("a", "reproduced"), ("b", "undecided")])
        {'a': 'reproduced', 'b': 'undecided'}
    """
    found: dict[str, set[str]] = {}
    for sentence, verdict in claims:
        found.setdefault(sentence, set()).add(verdict)
    return {text: only.pop() if len(only) == 1 else MIXED for text, only in found.items()}


def _sentences(results: Sequence[ClaimResult]) -> str:
    found = by_sentence((r.sentence, r.verdict) for r in results if r.is_papers)
    if not found:
        return ""
    counts = Counter(found.values())
    shown = ", ".join(f"{counts[word]} {word}" for word in OUTCOMES if counts[word])
    plural = "sentences or printed numbers" if len(found) > 1 else "sentence or printed number"
    return f"They test {len(found)} {plural}: {shown}."


def outcome(folder: str | Path) -> str:
    """Return a table of the experiments in a folder: sentences of the papers by ground, verdict.

    A sentence that several experiments test counts once per ground.
    """
    by_ground: dict[str, list[tuple[str, str]]] = {ground: [] for ground in GROUNDS}
    for name in EXPERIMENTS:
        path = Path(folder, name, "verdicts.json")
        if path.exists():
            claims = json.loads(path.read_text(encoding="utf-8"))["claims"]
            by_ground[find_experiment(name).ground] += [
                (sentence_of(claim["paper_value"]), claim["verdict"])
                for claim in claims
                if claim["is_papers"]
            ]
    body = []
    for ground, found in by_ground.items():
        counts = Counter(by_sentence(found).values())
        cells = [counts[word] for word in OUTCOMES]
        body.append((ground, *(str(n) if n else "–" for n in cells), str(len(found))))
    return _grid(("tested on", *OUTCOMES, "comparisons"), body)


def _claims_table(results: Sequence[ClaimResult]) -> Table:
    body = tuple(
        (
            result.shown,
            result.claim,
            " ".join(filter(None, (show_interval(result.ours), result.unit, result.note))),
            result.paper_value if result.is_papers else "our own question",
            result.rule,
        )
        for result in results
    )
    head = ("verdict", "claim", "here, with its 95 % interval", "the paper", "rule")
    return Table(MANY_LOOKS, head, body)


def _made(meta: Mapping[str, Any]) -> str:
    spent = f"{len(meta['runs'])} runs, {meta['seconds_of_all_runs']:g} s, {meta['machine']}"
    if meta.get("runs_left_out"):
        spent += f"; {meta['runs_left_out']} more are planned, whose networks are not trained yet"
    shown = ", ".join(f"{name} {number}" for name, number in meta["versions"].items())
    lines = [
        f"- {spent}; {shown}",
        f"- commit of the runs: {meta['commit'] or 'not recorded'}",
        f"- commit of the rules: {meta['judged_by']}",
        "- every number: rows.csv (settings, position `at` on a curve, one column per metric)",
    ]
    return f"```sh\n{meta['command']}\n```\n\n" + "\n".join(lines)


def _record(result: ClaimResult) -> dict[str, Any]:
    """Return a result as JSON: null instead of infinite numbers."""

    def known(x: float) -> float | None:
        return x if math.isfinite(x) else None

    record = asdict(result)
    del record["smaller_shows"]
    record["ours"] = {name: known(x) for name, x in record["ours"].items()}
    record["claimed"] = [known(x) for x in result.claimed]
    return record


def canonical_command(name: str, scale: Scale) -> str:
    """Return the command that makes an experiment anywhere, without folders of one machine."""
    return f"focalibrate reproduce {name} --scale {scale} --data DATA"


def _replace_figures(folder: Path, figures: dict[str, bytes]) -> None:
    """Replace all figures at once, so that none of an older run is left."""
    with finish_folder(folder, [path.name for path in folder.glob("*")]) as beside:
        for name, picture in figures.items():
            (beside / f"{name}.webp").write_bytes(picture)


def rows_csv(rows: Rows) -> str:
    """Return one line per run and position: its settings, the position, and one column per metric.

    Metrics of curves come first, each kind in the order of its first number, so that a further run
    adds lines and leaves the others as they are; empty cells at the end of a line are left out.
    """
    lines: dict[tuple[Task, str], dict[str, str]] = {}
    for row in rows:
        at = "" if row.at != row.at else repr(row.at)
        lines.setdefault((row.task, at), {})[row.metric] = repr(row.value)
    settings = dict.fromkeys(name for row in rows for name, _ in row.task.settings)
    of_curves = [row.metric for row in rows if row.at == row.at]
    metrics = list(dict.fromkeys([*of_curves, *(row.metric for row in rows)]))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*settings, AT, *metrics])
    for (task, at), numbers in lines.items():
        known = {name: _cell_of(value) for name, value in task.settings}
        cells = [*(known.get(name, "") for name in settings), at]
        cells += [numbers.get(name, "") for name in metrics]
        while not cells[-1]:
            cells.pop()
        writer.writerow(cells)
    return out.getvalue()


def _cell_of(value: Any) -> str:
    """Return a setting as JSON; a text as it is, unless that would read back as something else."""
    is_plain = isinstance(value, str) and value and _setting(value) == value
    return value if is_plain else json.dumps(value)


def _setting(cell: str) -> Any:
    try:
        return json.loads(cell)
    except ValueError:
        return cell


def read_rows(path: str | Path, experiment: str) -> Rows:
    """Read what `rows_csv` wrote.

    Raises:
        ValueError: the file is something else, with its path.
    """
    found = []
    with Path(path).open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        head = next(reader, [])
        if AT not in head:
            raise ValueError(f"{path}: must have the column {AT!r} between settings and metrics.")
        place = head.index(AT)
        try:
            for line in reader:
                settings = {
                    name: _setting(cell)
                    for name, cell in zip(head[:place], line[:place], strict=True)
                    if cell
                }
                task = Task.of(experiment, **settings)
                if not place < len(line) <= len(head):
                    raise ValueError(f"{len(line)} cells, where there are {len(head)} columns")
                at = float(line[place] or "nan")
                found += [
                    Row(task, metric, float(cell), at)
                    for metric, cell in zip(head[place + 1 :], line[place + 1 :], strict=False)
                    if cell
                ]
        except ValueError as error:
            raise ValueError(f"{path}: line {reader.line_num}: {error}") from error
    return Rows(tuple(found))
