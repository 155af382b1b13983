"""Predictions of a classifier, as read from a file."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from focalibrate.io.errors import file_error, listing, printable, short

ScoreKind: TypeAlias = Literal["logits", "probs"]
"""What the scores are, as the file or the caller says."""

BLOCK_BYTES = 1 << 22
"""Bytes of scores in one block: small enough for the cache, large enough for few blocks."""

SHOWN_CLASSES = 4


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a file stored what it holds, so that an output can look like its input.

    Attributes:
        names: columns or arrays to keep, in the order of the file, without the scores.
        place: how many of `names` come before the scores.
        label_column: name of the labels, or None.
        labels_as: whether labels were class positions, from 0 or from 1, or class names.
        form: one column per class, one matrix, one list of options per row, or one column of the
            positive class.
        class_names: in the order of the file, to which positions as labels refer.
        known: labels that are names, and the positions of their classes.
        has_names: the columns have names.
        separator: between the cells of a text table, else None.
        decimal_comma: numbers are written ``0,5``.
        pandas: what pandas stored about the table.
        rest: reads the kept columns as an Arrow table, as the file has them.
        constants: reads the arrays to keep that do not have one entry per row.
        rewrite: writes the file again with probabilities in it, where the format has a place.
        is_right: the scores are how sure answers are, the labels whether they are right.
        letters: options are shown to the model as A, B, C, so that their order may matter.
        matched: `focalibrate.detection.MatchedDetections`, one per row, where rows are boxes.
    """

    names: tuple[str, ...] = ()
    place: int = 0
    label_column: str | None = None
    labels_as: Literal["index", "index from 1", "name"] = "index"
    form: str = "columns"
    class_names: tuple[str, ...] | None = None
    known: tuple[tuple[str, int], ...] = ()
    has_names: bool = True
    separator: str | None = None
    decimal_comma: bool = False
    pandas: bytes | None = None
    rest: Callable[[], Any] | None = None
    constants: Callable[[], dict[str, NDArray[Any]]] = dict
    rewrite: Callable[[Path, Iterable[NDArray[Any]]], None] | None = None
    is_right: bool = False
    letters: bool = False
    matched: Any = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions:
    """Scores of N examples over K classes, with what the file says about them.

    Attributes:
        scores: ``[N, K]``, float32 or float64.
        kind: ``"logits"`` or ``"probs"``.
        labels: int64 ``[N]``, positions of the true classes, or None.
        class_names: one name per column, or None where the file gives none.
        source: the file.
        checksum: SHA-256 of the file's bytes, in hex.
        labels_source: the file of the labels, where they came from another one.
        labels_checksum: its SHA-256.
        weights: float64 ``[N]``, or None.
        groups: columns to group by, each an array of N values.
        cluster: N values, equal where rows belong together, or None.
        positive: name of the positive class, where the file has one column of scores.
        notes: what was ignored, inferred, counted or looks doubtful.
        labels_name: the column or array of the labels, or None.
        scores_names: the columns or arrays of the scores.
        layout: how the file was laid out, and its other columns.
        n_rounded: rows that were rounded so that they did not sum to 1.
        n_dropped: rows with missing values that are left out.
    """

    scores: NDArray[Any]
    kind: ScoreKind
    labels: NDArray[np.int64] | None
    class_names: tuple[str, ...] | None
    source: Path
    checksum: str
    labels_source: Path | None = None
    labels_checksum: str | None = None
    weights: NDArray[np.float64] | None = None
    groups: dict[str, NDArray[Any]] = field(default_factory=dict)
    cluster: NDArray[Any] | None = None
    positive: str | None = None
    notes: tuple[str, ...] = ()
    labels_name: str | None = None
    scores_names: tuple[str, ...] = ()
    layout: Layout = field(default_factory=Layout)
    n_rounded: int = 0
    n_dropped: int = 0

    @property
    def n_rows(self) -> int:
        """Number of examples N."""
        return int(self.scores.shape[0])

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int(self.scores.shape[1])

    @property
    def names_positive(self) -> bool:
        """Whether the name of the one column of scores says of which class: ``p_fraud``."""
        is_numbered = self.positive is None or any(c.isdigit() for c in self.positive)
        return self.layout.form == "single" and not is_numbered

    def take(self, rows: NDArray[Any] | slice) -> Self:
        """Return some rows, without the other columns of the file."""
        return replace(
            self,
            scores=self.scores[rows],
            labels=None if self.labels is None else self.labels[rows],
            weights=None if self.weights is None else self.weights[rows],
            cluster=None if self.cluster is None else np.asarray(self.cluster)[rows],
            groups={name: np.asarray(column)[rows] for name, column in self.groups.items()},
            layout=replace(self.layout, rest=None),
        )

    def describe(self) -> str:
        """Return one line that says what was read: rows, classes, kind, labels."""
        name = (
            "standard input" if str(self.source) == "-" else self.source.name or str(self.source)
        )
        rows = "1 row" if self.n_rows == 1 else f"{self.n_rows:,} rows"
        return printable(f"{name}: {rows} × {contents(self)}")


def contents(found: Predictions) -> str:
    """Return what the rows hold, in words: classes, kind, labels."""
    if found.layout.form == "options":
        text = f"up to {found.n_classes} options"
    else:
        text = f"{found.n_classes} classes"
    if found.class_names is not None:
        names = [short(n) or '""' for n in found.class_names[:SHOWN_CLASSES]]
        more = found.n_classes - len(names)
        text += f" ({', '.join(names)}{f', ... {more} more' if more > 0 else ''})"
    text += ", probabilities" if found.kind == "probs" else ", logits"
    if found.layout.form == "single":
        of = "class 1" if found.positive is None else f'"{short(found.positive)}"'
        text += f' of {of} in "{short(found.scores_names[0])}"'
    if found.labels is None:
        text += ", no labels"
    elif found.labels_source is not None:
        text += f", labels in {found.labels_source.name}"
    elif found.labels_name is not None:
        text += f', labels in "{short(found.labels_name)}"'
    return text


def align(predictions: Predictions, class_names: tuple[str, ...] | None) -> Predictions:
    """Return the predictions with their classes in the order of `class_names`.

    Args:
        predictions: what was read.
        class_names: of a calibrator, or of the predictions that another file is compared with;
            None where they are not known, which leaves everything as it is.

    Returns:
        The same predictions, or their columns in another order. Where only one side has names
        the columns are taken in order, and a note says so.

    Raises:
        PredictionFileError: where the number of classes differs or a name is unknown.

    Example:
        >>> from pathlib import Path
        >>> found = Predictions(scores=np.array([[0.2, 0.8]]), kind="probs", labels=np.array([1]),
        ...                     class_names=("dog", "cat"), source=Path("x.csv"), checksum="")
        >>> aligned = align(found, ("cat", "dog"))
        >>> aligned.scores.tolist(), aligned.labels.tolist()
        ([[0.8, 0.2]], [0])
    """
    if class_names is None:
        return predictions
    if len(class_names) != predictions.n_classes:
        raise file_error(
            predictions.source,
            f"has {predictions.n_classes} classes, but {len(class_names)} are expected "
            f"({listing(class_names)}).",
        )
    given, positive = predictions.class_names, predictions.positive
    is_open = class_names[0] == f"not {class_names[1]}"  # the negative class has no name
    is_single = predictions.layout.form == "single"
    if predictions.names_positive and (given is None or predictions.labels is None):
        given = _of_column(str(positive), class_names)  # labels are 0 and 1, or unknown
    if given is None:
        numbers = tuple(str(i) for i in range(len(class_names)))
        if is_single or class_names == numbers:
            return replace(predictions, class_names=class_names)
        note = f"has no class names: its columns are taken in the order {listing(class_names)}"
        named = None if is_open else class_names
        return replace(predictions, class_names=named, notes=(*predictions.notes, note))
    if is_open and class_names[1] in given and len(given) == 2:
        class_names = (next(n for n in given if n != class_names[1]), class_names[1])
    spelled = {composed(name): name for name in class_names}
    same = tuple(spelled.get(composed(name), name) for name in given)
    given = same if len({*same}) == len(given) else given
    unknown = [name for name in given if name not in class_names]
    if unknown:
        advice = "Rename the columns, or use the calibrator that was fitted for these classes."
        if predictions.names_positive:  # such as ``prob_xgb``, called after the model
            unknown = [str(positive)]
            advice = f"If its probabilities are those of {class_names[1]}, call it so."
        raise file_error(
            predictions.source,
            f"its classes must be {listing(class_names)}, but {listing(unknown)} "
            f"{'are' if unknown[1:] else 'is'} not among them. {advice}",
        )
    if given == class_names:
        return replace(predictions, class_names=class_names)
    places = {name: i for i, name in enumerate(given)}
    order = np.array([places[name] for name in class_names])
    labels = predictions.labels
    if labels is not None:
        labels = np.argsort(order)[labels].astype(np.int64)
    note = "columns are put in the order of the expected classes, by name"
    return replace(
        predictions,
        scores=np.ascontiguousarray(predictions.scores[:, order]),
        labels=labels,
        class_names=class_names,
        notes=(*predictions.notes, note),
    )


def composed(text: str) -> str:
    """Return text with every accent in its letter: macOS names files with the two apart."""
    return normalize("NFC", text)


_JUST_POSITIVE = {"1", "+1", "true", "t", "yes", "y", "positive", "pos"}


def _of_column(name: str, class_names: tuple[str, ...]) -> tuple[str, str]:
    """Return the two classes, that of the only column, called `name`, last."""
    negative, positive = class_names
    if name.lower() == negative.lower():
        return positive, negative
    if name.lower() == positive.lower() or positive.lower() in _JUST_POSITIVE:
        return negative, positive  # ``prob_churn`` of the classes no and yes
    return f"not {name}", name


def blocks(predictions: Predictions) -> Iterator[NDArray[Any]]:
    """Yield the scores as they are, some rows at a time, in order; a block of 4 MB is a view."""
    scores = predictions.scores
    step = max(1, BLOCK_BYTES // (predictions.n_classes * scores.dtype.itemsize))
    for start in range(0, predictions.n_rows, step):
        yield scores[start : start + step]


def as_logits(predictions: Predictions) -> NDArray[Any]:
    r"""Return logits ``[N, K]`` in the dtype of the scores.

    Logits are returned as they are. Probabilities become :math:`\log p` in a new array. A
    probability of zero becomes ``-inf``: no epsilon is added, and a class the model excluded
    stays excluded.
    """
    if predictions.kind == "logits":
        return predictions.scores
    with np.errstate(divide="ignore"):
        logits: NDArray[Any] = np.log(predictions.scores)
    return logits
