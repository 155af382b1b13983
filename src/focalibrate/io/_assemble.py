"""From the roles of a file's columns to checked predictions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._dialect import MISSING, is_number, is_numbering
from focalibrate.io._error import PredictionFileError, file_error, listing, rows_text, short
from focalibrate.io._frame import Frame, Progress
from focalibrate.io._labels import (
    Matched,
    check_names,
    match_binary,
    match_labels,
    missing_rows,
)
from focalibrate.io._request import Request
from focalibrate.io._roles import Roles
from focalibrate.io._scores import checked_scores
from focalibrate.io._text import bad_cell
from focalibrate.io._view import View
from focalibrate.io.predictions import Layout, Predictions

DISAGREEMENT = 0.0
"""Rate of disagreement with a column of predictions above which a note says so."""


@dataclass(frozen=True)
class Settled:
    """What the first rows of a data set settled for all its batches.

    Attributes:
        pair: the negative and the positive label, where one column holds the scores.
        is_first: these rows speak for all: doubts about them are worth a note.
    """

    pair: tuple[str, str] | None = None
    is_first: bool = False


def assemble(
    view: View,
    roles: Roles,
    request: Request,
    *,
    labels: tuple[NDArray[Any], str] | None,
    labels_path: Path | None,
    probs_atol: float,
    drop_missing: bool,
    progress: Progress,
    settled: Settled | None = None,
) -> Predictions | None:
    """Return the predictions of a file whose columns' roles are known, every row checked.

    Of a batch of rows, nothing is said that only all rows can say; where `drop_missing` leaves
    no row of a batch, None is returned.

    Args:
        view: the file.
        roles: of its columns.
        request: what the caller said.
        labels: labels from another file and what they are called there.
        labels_path: that file.
        probs_atol: how far a row of probabilities may be from summing to 1.
        drop_missing: leave out rows without a label or with a missing score.
        progress: called with work done and work in all.
        settled: what is known of all rows, where these are a batch of them.
    """
    is_batch = settled is not None
    frame, chosen = view.frame, roles.scores
    notes = [*frame.notes, *roles.notes]
    stored = _stored_scores(view, roles)
    names = _class_names(view, roles, request)
    raw_labels, labels_name = _raw_labels(view, roles, labels, names)
    weights = None if roles.weight is None else _weights(view, roles.weight, is_batch=is_batch)
    groups = {view.name(i): view.values(i)[0] for i in roles.groups}
    speaks = settled is None or settled.is_first
    checks_prediction = roles.prediction is not None and speaks
    prediction = view.values(roles.prediction or 0)[0] if checks_prediction else None
    kept = None
    if drop_missing:
        kept = _complete(stored, raw_labels, names)
        if kept is not None:
            stored = stored[kept]
            raw_labels = None if raw_labels is None else raw_labels[kept]
            weights = None if weights is None else weights[kept]
            groups = {name: values[kept] for name, values in groups.items()}
            prediction = None if prediction is None else prediction[kept]
            notes.append(f"{int((~kept).sum())} rows with missing values are left out")
            if not len(stored) and is_batch:
                return None
            if not len(stored):
                raise file_error(view.path, "has missing values in every row.")
    if raw_labels is not None:
        _check_labels_there(raw_labels, names, labels_path or view.path)
    scores_name = view.name(chosen.positions[0]) if chosen.form != "columns" else chosen.kind
    if chosen.form == "single":
        stored = _two_columns(stored, chosen.kind, view, scores_name)
    scores = checked_scores(
        stored,
        kind=chosen.kind,
        name=scores_name,
        names=tuple(view.name(i) for i in chosen.positions) if chosen.form == "columns" else (),
        was_half=any(view[i].is_half for i in chosen.positions),
        path=view.path,
        probs_atol=probs_atol,
        progress=progress,
    )
    check_names(names, n_classes=scores.shape[1], path=view.path)
    scores, names = _in_number_order(scores, names)
    matched, names, positive = _matched(
        raw_labels,
        scores,
        names,
        view,
        roles,
        request,
        labels_name,
        labels_path or view.path,
        pair=None if settled is None else settled.pair,
    )
    if chosen.form == "single" and names is not None:
        scores, names, matched = _sorted_pair(scores, names, matched)
    if matched is not None:
        notes += matched.notes
        notes += _doubts(scores, matched.labels) if speaks else []
    if prediction is not None and roles.prediction is not None:
        notes += _agreement(scores, prediction, names, view, roles.prediction)
    if chosen.kind == "probs" and not is_batch:
        zeros = int((scores == 0).any(axis=1).sum()) if scores.size < 1 << 31 else 0
        if zeros:
            notes.append(f"{zeros} rows have a probability of exactly 0")
    layout = _layout(view, roles, matched, labels_name if labels is None else None, kept)
    layout = replace(layout, class_names=names)
    return Predictions(
        scores=scores,
        kind=chosen.kind,
        labels=None if matched is None else matched.labels,
        class_names=names,
        source=view.path,
        checksum="",
        weights=weights,
        groups=groups,
        positive=positive,
        notes=tuple(dict.fromkeys(notes)),
        labels_name=None if matched is None else labels_name,
        scores_names=tuple(view.name(i) for i in chosen.positions),
        layout=layout,
    )


def _stored_scores(view: View, roles: Roles) -> NDArray[Any]:
    chosen = roles.scores
    arrays = view.values(*chosen.positions)
    for i, array in zip(chosen.positions, arrays, strict=True):
        if array.dtype.kind not in "fiu":
            if "cells" in view.frame.extra:
                raise bad_cell(view.frame, i)
            raise file_error(
                view.path,
                f"`{short(view.name(i))}` must hold numbers, got dtype {array.dtype}.",
            )
    if chosen.form == "columns":
        common = np.result_type(*arrays)
        dtype = common if common.kind == "f" else np.dtype(np.float64)
        scores = np.empty((len(arrays[0]), len(arrays)), dtype)
        for i, array in enumerate(arrays):
            scores[:, i] = array
        arrays = [scores]
    stored = arrays[0]
    if chosen.percent:
        stored = np.asarray(stored, np.float64) / 100
    return stored


def _raw_labels(
    view: View,
    roles: Roles,
    labels: tuple[NDArray[Any], str] | None,
    names: tuple[str, ...] | None,
) -> tuple[NDArray[Any] | None, str]:
    if labels is not None:
        return labels
    if roles.label is None:
        return None, "labels"
    if _needs_cells(view, roles.label, names):
        cells = view.frame.extra["cells"]([roles.label])[0]
        return np.array([cell.strip() for cell in cells], dtype=object), view.name(roles.label)
    return view.values(roles.label)[0], view.name(roles.label)


def _needs_cells(view: View, label: int, names: tuple[str, ...] | None) -> bool:
    """Say whether labels that were read as numbers must be matched as the text that they are.

    So it is where a class is called ``00`` next to ``0``, or ``none``, which means no value in
    a column of numbers.
    """
    if names is None or "cells" not in view.frame.extra or not view.is_kind(label, "number"):
        return False
    plain_numbers = {str(i) for i in range(len(names))}
    return any(
        (is_number(name) and name not in plain_numbers) or name.strip().lower() in MISSING - {""}
        for name in names
    )


def _class_names(view: View, roles: Roles, request: Request) -> tuple[str, ...] | None:
    names = roles.scores.class_names
    if roles.scores.form == "single":
        return None
    told = request.class_names
    if names is None or told is None:
        return told if names is None else names
    if set(told) == set(names) or names == tuple(str(i) for i in range(len(names))):
        return names if set(told) == set(names) else told
    raise file_error(
        view.path,
        f"`class_names` must be the classes of the file, {listing(names)}, got {listing(told)}.",
    )


def _weights(view: View, position: int, *, is_batch: bool) -> NDArray[np.float64]:
    values = view.values(position)[0]
    if values.dtype.kind not in "fiub" or values.ndim != 1:
        raise file_error(view.path, f"weights in `{short(view.name(position))}` must be numbers.")
    weights = values.astype(np.float64)
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero(~(weights >= 0) | ~np.isfinite(weights))
    if len(bad):
        raise file_error(
            view.path,
            f"weights in `{short(view.name(position))}` must be finite and >= 0, but not in "
            f"{rows_text(bad[:5].tolist(), len(bad))}.",
        )
    if not is_batch and not weights.sum() > 0:
        raise all_zero(view.path, view.name(position))
    return weights


def all_zero(path: Path, name: str) -> PredictionFileError:
    """Return the error for weights that are all 0."""
    return file_error(path, f"weights in `{short(name)}` must not all be 0.")


def _complete(
    scores: NDArray[Any],
    labels: NDArray[Any] | None,
    names: tuple[str, ...] | None,
) -> NDArray[np.bool_] | None:
    """Return which rows have a label and all scores, or None where all have."""
    if scores.dtype.kind == "f":
        missing = np.isnan(scores) if scores.ndim == 1 else np.isnan(scores).any(axis=1)
    else:
        missing = np.zeros(len(scores), bool)
    if labels is not None and labels.shape[:1] == missing.shape:
        missing = missing | missing_rows(labels, names)
    return ~missing if missing.any() else None


def _check_labels_there(labels: NDArray[Any], names: tuple[str, ...] | None, path: Path) -> None:
    missing = np.flatnonzero(missing_rows(labels, names))
    if len(missing):
        rows = rows_text(missing[:5].tolist(), len(missing))
        raise file_error(
            path,
            f"labels must not be missing, but they are in {rows}. Leave these rows out.",
            fixes=[{"drop_missing": True}],
        )


def _two_columns(stored: NDArray[Any], kind: str, view: View, name: str) -> NDArray[Any]:
    """Return the scores of both classes from those of the positive one."""
    if stored.ndim != 1:
        raise file_error(view.path, f"`{short(name)}` must have shape [N], got {stored.shape}.")
    scores = stored if stored.dtype.kind == "f" else stored.astype(np.float64)
    if scores.dtype == np.float16:
        scores = scores.astype(np.float32)
    if kind == "logits":
        return np.stack([np.zeros_like(scores), scores], axis=1)
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero((scores < 0) | (scores > 1))
    if len(bad):
        low, high = float(np.nanmin(scores)), float(np.nanmax(scores))
        rows = rows_text(bad[:5].tolist(), len(bad))
        if low >= 0 and 1 < high <= 100 and high > 50:
            raise file_error(
                view.path,
                f"`{short(name)}` must lie in [0, 1], but goes up to {high:.4g}, as percentages "
                "do.",
                fixes=[{"input": "percent"}],
            )
        raise file_error(
            view.path,
            f"`{short(name)}` must be probabilities in [0, 1], but {rows} are not: "
            f"found {low:.4g} to {high:.4g}. If these are log-odds, say so.",
            fixes=[{"input": "logits"}],
        )
    return np.stack([1 - scores, scores], axis=1)


def _in_number_order(
    scores: NDArray[Any], names: tuple[str, ...] | None
) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Put classes called 0, 1, 2, ... in that order; they count as unnamed."""
    if names is None:
        return scores, None
    if not is_numbering(names):
        return scores, names
    given = [int(float(name)) for name in names]
    if given == sorted(given):
        return scores, None
    return np.ascontiguousarray(scores[:, np.argsort(given)]), None


def _matched(
    labels: NDArray[Any] | None,
    scores: NDArray[Any],
    names: tuple[str, ...] | None,
    view: View,
    roles: Roles,
    request: Request,
    labels_name: str,
    path: Path,
    *,
    pair: tuple[str, str] | None,
) -> tuple[Matched | None, tuple[str, ...] | None, str | None]:
    """Return the labels as positions, the names of the classes, and the positive one."""
    name = short(labels_name)
    chosen = roles.scores
    if chosen.form == "single":
        matched, shown = match_binary(
            labels,
            positive=chosen.positive,
            told=request.positive is not None,
            n_rows=len(scores),
            path=path,
            name=name,
            pair=pair,
        )
        return matched, shown, chosen.positive if shown is None else shown[1]
    if request.positive is not None and names is not None and request.positive not in names:
        raise file_error(
            path,
            f"`positive` must be a class, got {request.positive!r}; they are {listing(names)}.",
        )
    if labels is None:
        return None, names, None
    told = chosen.class_names is None and request.class_names is not None
    by_column = chosen.form == "columns" or view.frame.numeric_classes or told
    matched = match_labels(
        labels,
        n_rows=len(scores),
        n_classes=scores.shape[1],
        class_names=names,
        names_are_labels=by_column,
        path=path,
        name=name,
    )
    return matched, matched.class_names if names is not None else None, None


def _sorted_pair(
    scores: NDArray[Any], names: tuple[str, ...], matched: Matched | None
) -> tuple[NDArray[Any], tuple[str, ...] | None, Matched | None]:
    """Put the classes ("1", "0") of one column in the order 0, 1."""
    if names != ("1", "0"):
        return scores, names, matched
    if matched is not None:
        matched = replace(matched, labels=1 - matched.labels, class_names=None)
    return np.ascontiguousarray(scores[:, ::-1]), None, matched


def _doubts(scores: NDArray[Any], labels: NDArray[np.int64]) -> list[str]:
    """Return a warning where the most probable class is right less often than by chance."""
    n, k = scores.shape
    if n < 50:
        return []
    part = slice(0, 1 << 20)
    right = float((np.argmax(scores[part], axis=1) == labels[part]).mean())
    if right < 0.5 / k:
        return [
            f"WARNING: the class with the highest score is right in {right:.1%} of the rows, "
            "less often than by chance: check the order of the classes and of the rows"
        ]
    return []


def _agreement(
    scores: NDArray[Any],
    prediction: NDArray[Any],
    names: tuple[str, ...] | None,
    view: View,
    position: int,
) -> list[str]:
    """Return how often a column of predictions differs from the class with the highest score."""
    name = short(view.name(position))
    if len(prediction) != len(scores):
        return []
    kept = ~missing_rows(prediction, names)
    try:
        matched = match_labels(
            prediction[kept],
            n_rows=int(kept.sum()),
            n_classes=scores.shape[1],
            class_names=names,
            names_are_labels=True,
            path=view.path,
            name=name,
        )
    except PredictionFileError:
        return [f'column "{name}" could not be compared with the scores']
    top = np.take_along_axis(scores[kept], np.argmax(scores[kept], axis=1)[:, None], axis=1)[:, 0]
    own = np.take_along_axis(scores[kept], matched.labels[:, None], axis=1)[:, 0]
    rate = float((own < top).mean()) if kept.any() else 0.0
    if rate > DISAGREEMENT:
        return [
            f'WARNING: "{name}" differs from the class with the highest score in {rate:.1%} of '
            "the rows: check the order of the classes, or the threshold"
        ]
    return []


def _layout(
    view: View,
    roles: Roles,
    matched: Matched | None,
    labels_name: str | None,
    kept: NDArray[np.bool_] | None,
) -> Layout:
    """Return which columns an output keeps, and how to read them."""
    frame = view.frame
    chosen = set(roles.scores.positions)
    dropped = {frame.extra.get("class_names_at", -1)}
    others = [i for i in range(len(frame.columns)) if i not in chosen and i not in dropped]
    others = [i for i in others if frame.columns[i].problem is None]
    first = min(chosen)

    def load() -> list[Any]:
        found = read_kept(frame, others)
        return found if kept is None else [_masked(values, kept) for values in found]

    return Layout(
        names=tuple(frame.names[i] for i in others),
        place=len([i for i in others if i < first]),
        label_column=labels_name if roles.label is not None else None,
        labels_as="index" if matched is None else matched.form,
        form=roles.scores.form,
        load=load,
        extra={"has_names": frame.has_names, **_kept_extra(frame, others, kept)},
    )


def _masked(values: Any, kept: NDArray[np.bool_]) -> Any:
    if isinstance(values, list):
        return [v for v, keep in zip(values, kept, strict=True) if keep]
    return values[kept] if len(values) == len(kept) else values


def read_kept(frame: Frame, positions: Sequence[int]) -> list[Any]:
    """Return columns as they are to be written again: cells of text where the file is text."""
    if not positions:
        return []
    for key in ("cells", "values"):
        if key in frame.extra:
            found: list[Any] = frame.extra[key](positions)
            return found
    return frame.load(positions, lambda done, total: None)


def _kept_extra(
    frame: Frame, positions: Sequence[int], kept: NDArray[np.bool_] | None
) -> dict[str, Any]:
    extra = {k: v for k, v in frame.extra.items() if k in ("pandas", "separator", "decimal_comma")}
    if "arrow" in frame.extra:

        def arrow() -> Any:
            table = frame.extra["arrow"](positions)
            return table if kept is None else table.filter(kept)

        extra["arrow"] = arrow
    return extra
