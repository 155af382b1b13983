"""The columns of a file by role, as stored."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from focalibrate.io.cells import MISSING, is_number
from focalibrate.io.errors import PredictionFileError, RowError, file_error, listing, short
from focalibrate.io.options import Request
from focalibrate.io.roles.decide import Roles
from focalibrate.io.roles.diagnoses import not_numbers
from focalibrate.io.table import Table, texts_of
from focalibrate.io.values.labels import Labels


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The values of the columns by role, one entry per row.

    Attributes:
        scores: ``[N]`` of the positive class, or ``[N, K]``.
        labels: of any form, or None.
        weights: float64 ``[N]``, or None.
        groups: columns to group by.
        cluster: which rows belong together, or None.
        prediction: the predicted class, to be compared with the scores, or None.
    """

    scores: NDArray[Any]
    labels: Labels | None
    weights: NDArray[np.float64] | None
    groups: dict[str, NDArray[Any]]
    cluster: NDArray[Any] | None
    prediction: NDArray[Any] | None

    def rows(self, kept: NDArray[Any]) -> Self:
        """Return these rows, by a mask or by number."""
        return replace(
            self,
            scores=self.scores[kept],
            labels=None if self.labels is None else self.labels[kept],
            weights=None if self.weights is None else self.weights[kept],
            groups={name: values[kept] for name, values in self.groups.items()},
            cluster=None if self.cluster is None else self.cluster[kept],
            prediction=None if self.prediction is None else self.prediction[kept],
        )

    def split(self) -> tuple[Self, NDArray[np.intp]] | None:
        """Return rows with outcomes 0 and 1 only, and which rows they are; None if all are.

        A row whose outcome is a share, such as 0.5 for a tie, becomes two: one of outcome 1 with
        that share of its weight, one of outcome 0 with the rest. The log loss is the same.
        """
        if self.labels is None or not (shares := self.labels.shares()).any():
            return None
        index = np.repeat(np.arange(len(shares)), 1 + shares)
        is_second = np.append(False, index[1:] == index[:-1])
        y = self.labels.values[index]
        weights = np.where(is_second, 1.0 - y, np.where(shares[index], y, 1.0))
        if self.weights is not None:
            weights *= self.weights[index]
        outcomes = replace(self.labels, values=np.where(is_second, 0.0, np.ceil(y)))
        return replace(self.rows(index), labels=outcomes, weights=weights), index


def read_stored(
    view: Table,
    roles: Roles,
    labels: Labels | None,
    names: tuple[str, ...] | None,
    *,
    with_prediction: bool,
) -> Stored:
    """Return the columns of a file by role.

    Args:
        view: the file.
        roles: of its columns.
        labels: labels from another file.
        names: of the classes.
        with_prediction: read the predicted class too.
    """
    if labels is None and roles.label is not None:
        at = roles.label
        is_text = _needs_cells(view, at, names)
        values = texts_of(view.data[at]) if is_text else view.values(at)
        labels = Labels(values, view.name(at), view.path)
    predicted = roles.prediction if with_prediction else None
    return Stored(
        scores=_stored_scores(view, roles),
        labels=labels,
        weights=None if roles.weight is None else _weights(view, roles.weight),
        groups={view.name(i): _group(view, i) for i in roles.groups},
        cluster=None if roles.cluster is None else _group(view, roles.cluster),
        prediction=None if predicted is None else view.values(predicted),
    )


def _group(view: Table, position: int) -> NDArray[Any]:
    """Return a column to group by; of a text table its cells, whatever the other rows hold."""
    return texts_of(view.data[position]) if view.has_cells else view.values(position)


def _stored_scores(view: Table, roles: Roles) -> NDArray[Any]:
    chosen = roles.scores
    arrays = [view.values(i) for i in chosen.positions]
    for i, array in zip(chosen.positions, arrays, strict=True):
        if array.dtype.kind not in "fiu":
            raise not_numbers(view, i)
    if chosen.form == "columns":
        common = np.result_type(*arrays)
        dtype = common if common.kind == "f" else np.dtype(np.float64)
        arrays = [np.stack(arrays, axis=1, dtype=dtype)]
    stored = arrays[0]
    if chosen.percent:
        stored = np.asarray(stored, np.float64) / 100
    return stored


def _needs_cells(view: Table, label: int, names: tuple[str, ...] | None) -> bool:
    """Return whether labels that were read as numbers must be matched as text.

    They must if a class is called ``00`` next to ``0``, or ``none``, which means no value in
    a column of numbers.
    """
    if names is None or not view.has_cells or not view.is_kind(label, "number"):
        return False
    plain_numbers = {str(i) for i in range(len(names))}
    return any(
        (is_number(name) and name not in plain_numbers) or name.strip().lower() in MISSING - {""}
        for name in names
    )


def class_names_of(view: Table, roles: Roles, request: Request) -> tuple[str, ...] | None:
    """Return the names of the classes, from the file or from the caller, or None."""
    names = roles.scores.class_names
    if roles.scores.form == "single":
        return None
    requested = request.class_names
    if names is None or requested is None:
        return requested if names is None else names
    if set(requested) == set(names) or names == tuple(str(i) for i in range(len(names))):
        return names if set(requested) == set(names) else requested
    raise file_error(
        view.path,
        f"`class_names` must be the classes of the file, {listing(names)}, got "
        f"{listing(requested)}.",
    )


def _weights(view: Table, position: int) -> NDArray[np.float64]:
    values = view.values(position)
    if values.dtype.kind not in "fiub" or values.ndim != 1:
        raise file_error(view.path, f"weights in `{short(view.name(position))}` must be numbers.")
    weights = values.astype(np.float64)
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero(~(weights >= 0) | ~np.isfinite(weights))
    if len(bad):
        raise RowError(
            view.path,
            f"weights in `{short(view.name(position))}` must be finite and >= 0, but those in ",
            bad,
            " are not.",
        )
    return weights


def all_zero(path: Path, name: str) -> PredictionFileError:
    """Return the error for weights that are all 0."""
    return file_error(path, f"weights in `{short(name)}` must not all be 0.")


def complete_rows(stored: Stored, names: tuple[str, ...] | None) -> NDArray[np.bool_] | None:
    """Return which rows have a label and all scores, or None if all have."""
    scores, labels = stored.scores, stored.labels
    if scores.dtype.kind == "f":
        missing = np.isnan(scores) if scores.ndim == 1 else np.isnan(scores).any(axis=1)
    else:
        missing = np.zeros(len(scores), bool)
    if labels is not None and labels.values.shape[:1] == missing.shape:
        missing = missing | labels.missing(names)
    return ~missing if missing.any() else None


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
