"""Everything that a page shows, gathered before it is written, and the HTML file made of it."""

import base64
import hashlib
import html
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array
from focalibrate._atomic import atomic_path
from focalibrate.calibrate import Calibrator
from focalibrate.calibrate.rows import read_scores
from focalibrate.comparison import (
    Choice,
    Comparison,
    GroupChoice,
    Verdict,
    verdict,
)
from focalibrate.io import ScoreKind
from focalibrate.metrics import Assessment
from focalibrate.metrics.groups import GroupAssessment
from focalibrate.metrics.slices import WorstSlice
from focalibrate.report.criterion import CriterionGrid
from focalibrate.report.records import (
    BIN_COUNTS,
    assessment_record,
    by_group_record,
    class_table,
    criterion_record,
    diagrams,
    group_records,
    judge_rows,
    method_record,
    mistakes,
    risk_coverage,
    short,
    top_label_figures,
)
from focalibrate.report.rows import packed_sample, planned_entries
from focalibrate.report.snippets import Snippet, deployment_snippets

SCHEMA_VERSION = 3
"""Version of the JSON inside the page."""


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """One file that was read."""

    name: str
    sha256: str
    role: str = ""
    """what it was used for, such as ``"fitted on"``"""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How a page was made, as given: the same arguments give the same page."""

    command: str
    version: str
    """of focalibrate"""
    seed: int
    made_at: str = ""
    """date, as it is to be shown; empty: none is shown"""
    files: tuple[SourceFile, ...] = ()


@dataclass(frozen=True, eq=False)
class PageData:
    """The document that a page shows; made by `page_data`."""

    document: dict[str, Any]
    """JSON: finite numbers, text, lists"""

    def to_json(self) -> str:
        """Return the document as compact JSON."""
        return json.dumps(
            self.document, ensure_ascii=False, separators=(",", ":"), allow_nan=False
        )


def page_data(
    comparison: Comparison,
    choice: Choice,
    logits: Array,
    labels: Array,
    *,
    provenance: Provenance,
    class_names: Sequence[str] | None = None,
    criterion: CriterionGrid | None = None,
    assessment: Assessment | None = None,
    assessment_after: Assessment | None = None,
    groups: Sequence[GroupAssessment] = (),
    worst: WorstSlice | None = None,
    by_group: GroupChoice | None = None,
    found: Verdict | None = None,
    scores: ScoreKind = "logits",
    file: str | None = None,
    ids: Array | None = None,
    title: str | None = None,
    are_answers: bool = False,
    seed: int = 0,
) -> PageData:
    """Gather what a page shows.

    Args:
        comparison: what `compare_methods` returned.
        choice: what `choose` returned.
        logits: real array ``[N, K]``, the rows evaluated: the test set, or the validation set
            where the methods were cross-validated.
        labels: class indices ``[N]``.
        provenance: how the page was made. The same arguments give the same page.
        class_names: one for each class; any text. Default: the class indices.
        criterion: map over gamma and temperature, see `criterion_grid`. With it the page lets
            its reader try gammas and temperatures and explains posterior recovery, which is
            meant for models trained with focal loss. Default: neither is shown.
        assessment: `focalibrate.metrics.assess` of the uncalibrated rows. Default: none shown.
        assessment_after: the same of the calibrated rows, held out.
        groups: what `focalibrate.metrics.assess_groups` returned, for a forest plot.
        worst: what `focalibrate.metrics.worst_slice` returned.
        by_group: what `focalibrate.comparison.choose_by_group` returned.
        found: what `focalibrate.comparison.verdict` returned. Default: made here.
        scores: what the model returns, for the code that deploys the calibrator.
        file: name of the file that the rows come from, for the list of mistakes.
        ids: what that file calls each row ``[N]``.
        title: title of the page. Default: the name of the first file in `provenance`.
        are_answers: rows are a confidence and whether it was right: those of least probability
            are handed on first, never folded at one half.
        seed: random seed of the sample of rows, if the page cannot hold all.

    Returns:
        `PageData`, for `write_report`.

    Numerics:
        Probabilities are computed once, in blocks; `logits` is not copied.

    Example:
        >>> from focalibrate.comparison import choose, compare_methods
        >>> rng = np.random.default_rng(0)
        >>> truth = 2 * rng.normal(size=(500, 3))
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> found = compare_methods(3 * truth, labels, methods=["temperature"], n_resamples=20)
        >>> made = Provenance(command="none", version="0.1.0", seed=0)
        >>> data = page_data(found, choose(found), 3 * truth, labels, provenance=made)
        >>> data.document["chosen"], len(data.document["mistakes"])
        ('temperature', 25)
    """
    scored = read_scores(logits, labels)
    rows, targets = scored.logits, scored.labels
    n_classes = rows.shape[1]
    _check(comparison, rows, class_names)
    weights, is_kept = comparison.weights, choice.row.method == "identity"

    def probs(index: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        raw = comparison.held_out_probs("identity", rows, index)
        return raw, raw if is_kept else comparison.held_out_probs(choice.row.method, rows, index)

    entries = planned_entries(probs, len(rows), n_classes, weights, np.random.default_rng(seed))
    before, after = judge_rows(probs, targets, weights, entries)
    sides = {"before": before, "after": after}
    figures = {n: top_label_figures(s.confidence, s.correct, weights) for n, s in sides.items()}
    if are_answers:
        for name, side in sides.items():
            figures[name]["risk"] = risk_coverage(side.positive, targets == 1, weights)
    document = {
        "schema": SCHEMA_VERSION,
        "title": title if title is not None else _title(provenance),
        "verdict": (
            found or verdict(comparison, choice, assessment, by_group, assessment_after)
        ).to_dict(),
        "event": event_record(n_classes, assessment, class_names),
        "chosen": choice.row.method,
        "file": file,
        "judged_on": comparison.judged_on,
        "n_judged": comparison.n_judged,
        "n_fitted": comparison.n_fitted,
        "n_classes": n_classes,
        "n_folds": comparison.n_folds,
        "is_weighted": comparison.weights is not None,
        "n_bins": comparison.settings.n_bins,
        "n_resamples": comparison.n_resamples,
        "bin_counts": list(BIN_COUNTS),
        "class_names": None if class_names is None else [str(name) for name in class_names],
        "accuracy": short(float(np.average(before.correct, weights=weights))),
        "assessment": None
        if assessment is None
        else {
            "before": assessment_record(assessment),
            "after": None
            if assessment_after is None or is_kept
            else assessment_record(assessment_after),
        },
        "groups": group_records(groups),
        "worst_slice": None if worst is None else worst.summary,
        "by_group": None if by_group is None else by_group_record(by_group),
        "deploy": [asdict(snippet) for snippet in _snippets(choice, by_group, scores)],
        "methods": [method_record(row, comparison, choice) for row in comparison.rows],
        "skipped": [list(pair) for pair in comparison.skipped],
        **figures,
        "positive": None
        if n_classes != 2
        else {
            name: diagrams(side.positive, targets == 1, weights) for name, side in sides.items()
        },
        "classes": class_table(before, after, targets, n_classes, weights),
        "entries": entries.record(),
        "mistakes": mistakes(before, after, targets, ids),
        "rows": None if criterion is None else packed_sample(rows, targets, weights, seed),
        "criterion": None if criterion is None else criterion_record(criterion),
        "provenance": asdict(provenance) | {"files": [asdict(f) for f in provenance.files]},
    }
    return PageData(document)


def event_record(
    n_classes: int, assessment: Assessment | None, class_names: Sequence[str] | None
) -> dict[str, Any] | None:
    """Return whose probability the page speaks of; None for that of the predicted class."""
    if n_classes != 2:
        return None
    if assessment is not None and assessment.class_name is not None:
        return {"name": assessment.class_name, "klass": 1}
    return {"name": "class 1" if class_names is None else str(class_names[1]), "klass": 1}


def _snippets(
    choice: Choice, by_group: GroupChoice | None, scores: ScoreKind
) -> Sequence[Snippet]:
    found: Calibrator = choice.row.calibrator
    if by_group is not None and by_group.calibrator is not None:
        found = by_group.calibrator
    elif choice.row.method == "identity":
        return ()
    return deployment_snippets(found, method=choice.row.method, scores=scores)


def _title(provenance: Provenance) -> str:
    if not provenance.files:
        return "Calibration report"
    return f"{Path(provenance.files[0].name).name}: calibration report"


def _check(comparison: Comparison, rows: NDArray[Any], class_names: Sequence[str] | None) -> None:
    n, k = rows.shape
    if (n, k) != (comparison.n_judged, comparison.n_classes):
        raise ValueError(
            f"`logits` must be the rows evaluated, {comparison.n_judged} of "
            f"{comparison.n_classes} classes, got {n} of {k}. Pass the test set, or the "
            "validation set where the methods were cross-validated."
        )
    if class_names is not None and len(class_names) != k:
        raise ValueError(
            f"`class_names` must name each of the {k} classes, got {len(class_names)}. "
            "Leave them out to number the classes."
        )


_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="focalibrate {version}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div id="app"><noscript><p>{verdict}</p><p>This page draws its charts with JavaScript, which is \
switched off here.</p></noscript></div>
<script type="application/json" id="focalibrate-data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def escape_json(text: str) -> str:
    r"""Return JSON that is safe inside a script element: no ``<``, no ``&``, no line breaks."""
    return text.translate(_ESCAPES)


def render_report(data: PageData) -> str:
    """Return the page as text: template, bundle and data, with a policy that allows no request."""
    static = files("focalibrate.report") / "static"
    script = (static / "report.js").read_text(encoding="utf-8")
    style = (static / "report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    document = data.document
    return _PAGE.format(
        policy=policy,
        version=html.escape(document["provenance"]["version"]),
        title=html.escape(document["title"]),
        verdict=html.escape(_words(document["verdict"])),
        style=style,
        script=script,
        data=escape_json(data.to_json()),
    )


def _words(verdict: str | dict[str, str]) -> str:
    """Return the verdict as text; that of a training run is a sentence."""
    return verdict if isinstance(verdict, str) else f"{verdict['headline']} {verdict['gain']}"


def write_report(path: str | os.PathLike[str], data: PageData) -> None:
    """Write the page to `path`, whole or not at all.

    Args:
        path: file to write; one that exists is replaced.
        data: what `page_data` returned.
    """
    text = render_report(data)
    with atomic_path(Path(path), force=True) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
