"""The columns of a file by role, as stored; which rows are complete, and which count twice."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io.cells import MISSING, is_number
from focalibrate.io.errors import PredictionFileError, RowError, file_error, listing, short
from focalibrate.io.options import Request
from focalibrate.io.roles.decide import Roles
from focalibrate.io.roles.diagnoses import not_numbers
from focalibrate.io.roles.facts import Scores
from focalibrate.io.table import Table, texts_of
from focalibrate.io.values.labels import Labels


def stored_scores(view: Table, chosen: Scores) -> NDArray[Any]:
    """Return scores ``[N]`` of the positive class, or ``[N, K]``."""
    arrays = [view.values(i) for i in chosen.positions]
    for i, array in zip(chosen.positions, arrays, strict=True):
        if array.dtype.kind not in "fiu":
            raise not_numbers(view, i)
    if chosen.form == "columns":
        common = np.result_type(*arrays)
        dtype = common if common.kind == "f" else np.dtype(np.float64)
        arrays = [np.stack(arrays, axis=1, dtype=dtype)]
    return np.asarray(arrays[0], np.float64) / 100 if chosen.percent else arrays[0]


def stored_labels(view: Table, at: int, names: tuple[str, ...] | None) -> Labels:
    """Return the labels in a column.

    Those that were read as numbers are text if a class is called ``00`` next to ``0``, or
    ``none``, which means no value in a column of numbers.
    """
    plain_numbers = {str(i) for i in range(len(names or ()))}
    is_text = view.has_cells and any(
        (is_number(name) and name not in plain_numbers) or name.strip().lower() in MISSING - {""}
        for name in (names or ())
    )
    values = texts_of(view.data[at]) if is_text else view.values(at)
    return Labels(values, view.name(at), view.path)


def stored_group(view: Table, position: int) -> NDArray[Any]:
    """Return a column to group by; of a text table its cells, whatever the other rows hold."""
    return texts_of(view.data[position]) if view.has_cells else view.values(position)


def stored_weights(view: Table, position: int) -> NDArray[np.float64]:
    """Return weights, finite and >= 0."""
    values, rule = view.values(position), f"weights in `{short(view.name(position))}` must be "
    if values.dtype.kind not in "fiub" or values.ndim != 1:
        raise file_error(view.path, f"{rule}numbers.")
    weights = values.astype(np.float64)
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero(~(weights >= 0) | ~np.isfinite(weights))
    if len(bad):
        raise RowError(view.path, f"{rule}finite and >= 0, but those in ", bad, " are not.")
    return weights


def all_zero(path: Path, name: str) -> PredictionFileError:
    """Return the error for weights that are all 0."""
    return file_error(path, f"weights in `{short(name)}` must not all be 0.")


def class_names_of(view: Table, roles: Roles, request: Request) -> tuple[str, ...] | None:
    """Return the names of the classes, from the file or from the caller, or None."""
    names, requested = roles.scores.class_names, request.class_names
    if roles.scores.form == "single":
        return None
    if names is None or requested is None or set(requested) == set(names):
        return requested if names is None else names
    if names == tuple(str(i) for i in range(len(names))):
        return requested
    raise file_error(
        view.path,
        f"`class_names` must be the classes of the file, {listing(names)}, got "
        f"{listing(requested)}.",
    )


def complete_rows(
    scores: NDArray[Any], labels: Labels | None, names: tuple[str, ...] | None
) -> NDArray[np.intp] | None:
    """Return the rows that have a label and all scores, or None if all have."""
    missing = np.isnan(scores.reshape(len(scores), -1)).any(axis=1)
    if labels is not None and labels.values.shape[:1] == missing.shape:
        missing = missing | labels.missing(names)
    return np.flatnonzero(~missing) if missing.any() else None


def check_not_missing(labels: Labels, names: tuple[str, ...] | None) -> None:
    """Raise where a row has no label."""
    missing = np.flatnonzero(labels.missing(names))
    if len(missing):
        raise RowError(
            labels.path,
            "labels must not be missing, but they are in ",
            missing,
            ". Leave these rows out.",
            fixes=[{"drop_missing": True}],
        )


def split_shares(labels: Labels) -> tuple[Labels, NDArray[np.float64], NDArray[np.intp]]:
    """Return outcomes 0 and 1 only, a factor of their weights, and the rows they are from.

    A row whose outcome is a share, such as 0.5 for a tie, becomes two: one of outcome 1 with
    that share of its weight, one of outcome 0 with the rest. The log loss is the same.
    """
    shares = labels.shares()
    index = np.repeat(np.arange(len(shares)), 1 + shares)
    is_second = np.append(False, index[1:] == index[:-1])
    y = labels.values[index]
    factor = np.where(is_second, 1.0 - y, np.where(shares[index], y, 1.0))
    return replace(labels, values=np.where(is_second, 0.0, np.ceil(y))), factor, index
