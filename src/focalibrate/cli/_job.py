"""The main job: compare, choose, and write what a person and a machine need."""

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from focalibrate import __version__
from focalibrate.cli._charts import reliability_chart
from focalibrate.cli._output import finish_folder
from focalibrate.cli._read import Examples, reported, steps
from focalibrate.cli._record import comparison_record, file_record
from focalibrate.cli._tables import comparison_table
from focalibrate.comparison import Choice, Comparison, choose, compare, verdict
from focalibrate.metrics import ReliabilityTable
from focalibrate.report import Provenance, SourceFile, criterion_grid, page_data, write_report

FILES = ("report.html", "calibrator.json", "results.json", "calibrator.onnx")
"""What a job may write."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a job compares."""

    methods: tuple[str, ...] | None = None
    trained_gamma: float | None = None
    criterion: Literal["adaptive_ece", "ece"] = "adaptive_ece"
    bins: int = 15
    resamples: int = 300
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Result:
    """What a job found."""

    comparison: Comparison
    choice: Choice
    judged: Examples
    record: dict[str, Any]
    """the content of results.json"""


def find(fitted: Examples, test: Examples | None, settings: Settings) -> Result:
    """Compare the methods, fitted on `fitted` and judged on `test` or by cross-fit."""
    with steps() as bar, reported():
        task = bar.add_task("fitting", total=None)
        comparison = compare(
            fitted.logits,
            fitted.labels,
            None if test is None else test.logits,
            None if test is None else test.labels,
            methods=settings.methods,
            trained_gamma=settings.trained_gamma,
            criterion=settings.criterion,
            n_bins=settings.bins,
            n_resamples=settings.resamples,
            seed=settings.seed,
            progress=lambda label: bar.update(task, description=f"fitting: {label}"),
        )
    choice = choose(comparison)
    files = [file_record(e.predictions) for e in (fitted, test) if e is not None]
    record = {
        "verdict": verdict(comparison, choice),
        "reason": choice.reason,
        "chosen": choice.row.method,
        "calibrator": choice.row.calibrator.to_dict(),
        "comparison": comparison_record(comparison),
        "made_with": {
            "command": command_line(),
            "version": __version__,
            "seed": settings.seed,
            "files": files,
        },
    }
    return Result(comparison, choice, fitted if test is None else test, record)


def command_line() -> str:
    """Return the command as it was typed."""
    return shlex.join(["focalibrate", *sys.argv[1:]])


def write(
    result: Result,
    fitted: Examples,
    out: Path,
    *,
    settings: Settings,
    onnx: bool,
    made_at: str,
) -> None:
    """Write the files of a job into the folder `out`, all of them or none."""
    with steps() as bar, reported(), finish_folder(out) as folder:
        bar.add_task("writing the report", total=None)
        text = json.dumps(result.record, indent=1, ensure_ascii=False, allow_nan=False)
        (folder / "results.json").write_text(text + "\n", encoding="utf-8")
        calibrator = result.choice.row.calibrator
        calibrator.save(folder / "calibrator.json")
        if onnx:
            calibrator.to_onnx(folder / "calibrator.onnx")
        data = page_data(
            result.comparison,
            result.choice,
            result.judged.logits,
            result.judged.labels,
            provenance=_provenance(result, made_at),
            class_names=fitted.predictions.class_names,
            criterion=criterion_grid(
                fitted.logits,
                fitted.labels,
                criterion=settings.criterion,
                n_bins=settings.bins,
                seed=settings.seed,
            ),
        )
        write_report(folder / "report.html", data)


def _provenance(result: Result, made_at: str) -> Provenance:
    made_with = result.record["made_with"]
    files = []
    for record, role in zip(made_with["files"], ("fitted on", "judged on"), strict=False):
        files.append(SourceFile(name=record["file"], sha256=record["sha256"], role=role))
        if record["labels_file"]:
            files.append(
                SourceFile(
                    name=record["labels_file"], sha256=record["labels_sha256"], role="labels"
                )
            )
    return Provenance(
        command=made_with["command"],
        version=made_with["version"],
        seed=made_with["seed"],
        made_at=made_at,
        files=tuple(files),
    )


def show(result: Result, out: Path) -> None:
    """Print the table, the diagrams and the verdict."""
    console = Console(highlight=False)
    comparison, choice = result.comparison, result.choice
    console.print(comparison_table(comparison, choice, width=console.width))
    for method, reason in comparison.skipped:
        console.print(f"skipped {method}: {reason}", style="dim")
    for row in comparison.rows:
        for note in row.notes:
            console.print(f"{row.label}: {note}", style="dim")
    raw = comparison.row("identity").calibrator
    for title, calibrator in (("before", raw), ("after", choice.row.calibrator)):
        console.print(f"\n{title}: accuracy █ where the model said |")
        probs = calibrator.probs(result.judged.logits)
        table = ReliabilityTable.of(probs, result.judged.labels, n_bins=10)
        for line in reliability_chart(table, width=max(20, min(40, console.width - 50))):
            console.print(line, style="cyan", no_wrap=True, crop=False)
    console.print(f"\n{verdict(comparison, choice)}.", style="bold", markup=False)
    console.print(choice.reason, markup=False)
    console.print(f"\nWritten to {out}: {', '.join(sorted(p.name for p in out.iterdir()))}")
