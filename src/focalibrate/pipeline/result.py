"""The result of the main job, and how it is saved."""

import math
import os
from dataclasses import asdict, dataclass, field
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

from focalibrate._atomic import claim_folder, finish_folder, json_text
from focalibrate.calibrate import Calibrator
from focalibrate.comparison import MEANS, Choice, Comparison, GroupChoice, MethodResult, Verdict
from focalibrate.io import Predictions, Scan
from focalibrate.metrics import Assessment
from focalibrate.metrics.errors import MetricName
from focalibrate.metrics.groups import GroupAssessment, WorstSlice
from focalibrate.pipeline.evaluation import score_record, worst_record
from focalibrate.pipeline.examples import Examples
from focalibrate.pipeline.pages import result_page
from focalibrate.report import PageData, Provenance, write_report

COLUMNS: tuple[tuple[str, MetricName, str], ...] = (
    ("log loss", "nll", "{:.4f}"),
    ("Brier score", "brier", "{:.4f}"),
    ("ECE", "ece", "{:.2%}"),
    ("error", "error", "{:.2%}"),
)
"""Heading, score and format of the columns of the table in a notebook."""
FILES = ("report.html", "calibrator.json", "results.json", "calibrator.onnx")
"""What `CalibrationResult.save` may write."""


@dataclass(frozen=True)
class Sizes:
    """How many rows a job on a sample used.

    Attributes:
        n_rows: rows of the data that the sample was drawn from.
        n_fitted: rows that the methods were fitted on.
        n_judged: rows that they were evaluated on.
        n_shown: how many of these the diagrams are drawn from.
        has_test: whether the rows evaluated on come from a test set.
    """

    n_rows: int
    n_fitted: int
    n_judged: int
    n_shown: int
    has_test: bool

    @property
    def summary(self) -> str:
        """The same as a sentence."""
        where = "rows of the test set" if self.has_test else "others"
        some = f"{self.n_fitted:,} of {self.n_rows:,} rows, chosen by a hash of their position,"
        fitted = f"all {self.n_fitted:,} rows" if self.n_fitted == self.n_rows else some
        text = f"Fitted on {fitted} and evaluated on all {self.n_judged:,} {where}"
        if self.n_shown < self.n_judged:
            text += f"; the diagrams of the page are drawn from {self.n_shown:,} of these"
        return f"{text}."


@dataclass(frozen=True, eq=False, kw_only=True)
class CalibrationResult:
    """Methods compared, the one chosen, and why; made by `calibrate_predictions`."""

    comparison: Comparison
    choice: Choice
    verdict: Verdict
    """what is wrong, what calibration gains and what to do"""
    assessment: Assessment
    """is the uncalibrated model miscalibrated, by how much, or is it noise?"""
    assessment_after: Assessment
    """the same of the chosen method, on held-out examples"""
    calibrator: Calibrator
    """the chosen one, fitted on all examples, to deploy"""
    provenance: Provenance
    class_names: tuple[str, ...] | None = None
    groups: tuple[GroupAssessment, ...] = ()
    """a verdict per group of the uncalibrated examples, where groups were given"""
    worst: WorstSlice | None = None
    """the slice that is most clearly off, where several columns of groups were given"""
    by_group: GroupChoice | None = None
    """which groups get a calibrator of their own, where groups were given"""
    assessment_by_group: Assessment | None = None
    """`assessment_after` with the groups' own calibrators, where there are some"""
    notes: tuple[str, ...] = ()
    """what was done to the examples before fitting"""
    fitted: Examples = field(repr=False)
    """the examples that the methods were fitted on"""
    judged: Examples = field(repr=False)
    """those they were evaluated on: the test examples, or the same, cross-validated"""

    sizes: Sizes | None = None
    """how many rows were used for what, where the methods were fitted on a sample of rows;
    `judged` are then the rows that the diagrams are drawn from"""
    files: tuple[dict[str, Any], ...] = ()
    """what identifies the files that were read"""

    def __repr__(self) -> str:
        words = str(self.verdict)
        return f"CalibrationResult(chosen={self.choice.row.method!r}, verdict={words!r})"

    def to_dict(self) -> dict[str, Any]:
        """Return the content of results.json."""
        comparison = self.comparison
        return {
            "verdict": self.verdict.to_dict(),
            "chosen": self.choice.row.method,
            "held_out": {m: score_record(self.choice.row.scores[m]) for m in MEANS},
            "groups": [group.to_dict() for group in self.groups],
            "worst_slice": worst_record(self.worst),
            "assessment_by_group": None
            if self.assessment_by_group is None
            else self.assessment_by_group.to_dict(),
            "by_group": None if self.by_group is None else self.by_group.to_dict(),
            "notes": list(self.notes),
            "sample": None if self.sizes is None else asdict(self.sizes),
            "excluded": [
                {"method": row.method, "reason": row.why_not}
                for row in comparison.rows
                if row.why_not
            ],
            "assessment": self.assessment.to_dict(),
            "assessment_after": self.assessment_after.to_dict(),
            "calibrator": self.calibrator.to_dict(),
            "comparison": {
                "judged_on": comparison.judged_on,
                "n_fitted": comparison.n_fitted,
                "n_judged": comparison.n_judged,
                "n_classes": comparison.n_classes,
                "n_bins": comparison.settings.n_bins,
                "n_folds": comparison.n_folds,
                "n_resamples": comparison.n_resamples,
                "methods": [_method(row) for row in comparison.rows],
                "left_out": [{"method": m, "reason": r} for m, r in comparison.left_out],
                "skipped": [{"method": m, "reason": r} for m, r in comparison.skipped],
            },
            "made_with": asdict(self.provenance) | {"files": list(self.files)},
        }

    def to_records(self) -> list[dict[str, Any]]:
        """Return one flat dictionary per method: scores, interval ends, what was chosen."""
        return [method_row(row, self.choice) for row in self.comparison.rows]

    def to_frame(self) -> Any:
        """Return `to_records` as a pandas data frame (needs pandas)."""
        return import_module("pandas").DataFrame.from_records(self.to_records())

    def page_data(self) -> PageData:
        """Return what the page shows; with `trained_gamma`, also the criterion over γ and T."""
        return result_page(self)

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        force: bool = False,
        onnx: bool = False,
    ) -> None:
        """Write report.html, calibrator.json and results.json, all of them or none.

        Args:
            folder: where to write; made if it does not exist.
            force: replace the files of an earlier run.
            onnx: write calibrator.onnx too (needs onnx).
        """
        out = Path(folder)
        claim_folder(out, FILES, force=force)
        with finish_folder(out, FILES, force=force) as made:
            text = json_text(self.to_dict(), ensure_ascii=False)
            (made / "results.json").write_text(text, encoding="utf-8")
            self.calibrator.save(made / "calibrator.json")
            if onnx:
                self.calibrator.to_onnx(made / "calibrator.onnx")
            write_report(made / "report.html", self.page_data())

    def _repr_html_(self) -> str:
        """Return the verdict and one row per method, the chosen one in bold, for notebooks."""
        head = "".join(f"<th>{heading}</th>" for heading, _, _ in COLUMNS)
        rows = []
        for row in self.comparison.rows:
            values = ((row.scores[name].estimate, text) for _, name, text in COLUMNS)
            cells = "".join(
                f"<td>{text.format(v) if math.isfinite(v) else '∞'}</td>" for v, text in values
            )
            label = escape(row.label)
            is_chosen = row.method == self.choice.row.method
            rows.append(f"<tr><th>{f'<b>► {label}</b>' if is_chosen else label}</th>{cells}</tr>")
        reason = self.verdict.reason and f"<p>{escape(self.verdict.reason)}</p>"
        return (
            f"<p><b>{escape(str(self.verdict))}</b></p>{reason}"
            f"<table><thead><tr><th>method</th>{head}</tr></thead>"
            f"<tbody>{''.join(rows)}</tbody></table>"
        )


def _method(row: MethodResult) -> dict[str, Any]:
    to_temperature = row.to_temperature
    return {
        "method": row.method,
        "label": row.label,
        "calibrator": row.calibrator.describe(),
        "predictions_changed": row.n_predictions_changed,
        "scores": {m: score_record(v) for m, v in row.scores.items()},
        "difference_to_uncalibrated": {m: score_record(v) for m, v in row.to_raw.items()},
        "difference_to_temperature": None
        if to_temperature is None
        else {m: score_record(v) for m, v in to_temperature.items()},
        "notes": list(row.notes),
    }


def method_row(row: MethodResult, choice: Choice) -> dict[str, Any]:
    """Return one method as a flat dictionary, a row of a data frame."""
    cells: dict[str, Any] = {
        "method": row.method,
        "label": row.label,
        "is_chosen": row.method == choice.row.method,
        "calibrator": row.calibrator.describe(),
        "predictions_changed": row.n_predictions_changed,
    }
    for name, value in row.scores.items():
        cells[name] = value.estimate
        if value.low is not None:
            cells |= {f"{name}_low": value.low, f"{name}_high": value.high}
    return cells


def file_record(found: Predictions | Scan) -> dict[str, Any]:
    """Return what identifies a file that was read, or a data set that was read in batches."""
    held = {"kind": found.kind, "rows": found.n_rows, "classes": found.n_classes}
    if isinstance(found, Scan):
        read = {"file": found.source, "sha256": found.checksum()}
        return {**read, **held, "parts": len(found.parts)}
    return {
        "file": found.source.name,
        "sha256": found.checksum,
        "labels_file": found.labels_source and found.labels_source.name,
        "labels_sha256": found.labels_checksum,
        **held,
    }
