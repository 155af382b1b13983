"""Labels as stored, and as positions of classes: a table of the ways to match them."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from focalibrate.io.cells import MISSING, is_number, numbers_in
from focalibrate.io.errors import OfFile, PredictionFileError, RowError, file_error, listing, short
from focalibrate.io.predictions import composed
from focalibrate.io.roles.vocabulary import plain

IGNORED = -100
"""Label of the examples that PyTorch's losses leave out."""

NEGATIVE = {"1": "0", "true": "false", "yes": "no", "y": "n", "t": "f", "pos": "neg"}
NEGATIVE |= {
    "positive": "negative",
    "+1": "-1",
    "+": "-",
    "correct": "incorrect",
    "right": "wrong",
}
"""Usual names of the positive class, and those of the negative class beside them."""

_NUMBERED = re.compile(r"(?:class|label|cls|cat|category|target|y|c)[ _.-]*(\d+)", re.IGNORECASE)
_NEGATED = re.compile(r"(?:no|non|not|without)[ _.-](?!shows?\b)(.+)", re.IGNORECASE)
"""``no_show`` is an outcome of its own."""

Names = tuple[str, ...]


def is_negative(name: str) -> bool:
    """Return whether a class is usually the negative one: ``no``, ``false``, ``not_fraud``."""
    text = name.strip().lower()
    numbered = _NUMBERED.fullmatch(text)
    is_first = numbered is not None and int(numbered[1]) == 0
    return is_first or text in NEGATIVE.values() or _NEGATED.fullmatch(text) is not None


def are_backwards(names: Names) -> bool:
    """Return whether two classes are the positive and then its negative: ``fraud, not_fraud``."""
    if len(names) != 2:
        return False
    positive, negative = (name.strip().lower() for name in without_shared([], names))
    negated = _NEGATED.fullmatch(negative)
    return NEGATIVE.get(positive) == negative or (negated is not None and negated[1] == positive)


@dataclass(frozen=True)
class Matched:
    """Labels as positions of classes.

    Attributes:
        labels: int64 ``[N]``.
        form: whether the file has positions, from 0 or from 1, or names.
        class_names: the names, where the labels show better ones than the columns have.
        notes: what the user should know.
        known: the names, where they were matched loosely, and the positions of their classes.
        is_unclear: nothing shows whether numbers count from 0 or from 1.
    """

    labels: NDArray[np.int64]
    form: Literal["index", "index from 1", "name"]
    class_names: Names | None
    notes: tuple[str, ...] = ()
    known: tuple[tuple[str, int], ...] = ()
    is_unclear: bool = False


@dataclass(frozen=True)
class Labels(OfFile):
    """Labels of some rows as stored, their name and their file."""

    values: NDArray[Any]
    name: str
    path: Path

    def __getitem__(self, rows: Any) -> "Labels":
        return replace(self, values=self.values[rows])

    def bad_rows(self, rule: str, rows: NDArray[np.intp], after: str) -> RowError:
        """Return the error that labels break a rule in some rows."""
        return self.rows_error(f"`{short(self.name)}` {rule}", rows, after)

    def missing(self, class_names: Names | None) -> NDArray[np.bool_]:
        """Return which rows have none: nan, -100, or text such as NA unless that names a class.

        Where the classes have no names, such a text may be one of two labels.
        """
        y = self.values
        if y.ndim == 1 and y.dtype.kind in "fiu":
            return np.asarray(np.isnan(y) | (y == IGNORED))
        if y.ndim == 1 and y.dtype.kind in "OU":
            values = set(y.tolist())
            words = {v for v in values if v.strip().lower() in MISSING} - set(class_names or ())
            if class_names is None and len(values) <= 2:
                words &= {""}
            if words:
                return np.array([value in words for value in y.tolist()], bool)
        return np.zeros(len(y), bool)

    def shares(self) -> NDArray[np.bool_]:
        """Return which lie between 0 and 1; none does where others are not 0 or 1.

        Example:
            >>> Labels(np.array([0.0, 0.5, 1.0]), "y", Path()).shares().tolist()
            [False, True, False]
            >>> Labels(np.array([0.5, 2.0]), "y", Path()).shares().tolist()
            [False, False]
        """
        y = self.values
        if y.dtype.kind != "f" or y.ndim != 1:
            return np.zeros(len(y), bool)
        with np.errstate(invalid="ignore"):
            outside = (y < 0) | (y > 1)
            return np.asarray((y > 0) & (y < 1) & ~outside.any())

    def column(self) -> NDArray[Any]:
        """Return one label per row, whole numbers or text; raise where they are not."""
        y = self.values
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if y.ndim != 1:
            raise self.error(f"`{short(self.name)}` must have shape [{len(y)}], got {y.shape}.")
        if y.dtype.kind != "f":
            return y
        with np.errstate(invalid="ignore"):
            bad = np.flatnonzero(~(np.abs(y) < 2.0**53) | (y != np.trunc(y)))
        if len(bad):
            raise self.bad_rows(
                "must be whole numbers, but those in ",
                bad,
                f" are not; found {float(y[bad[0]])!r}. Save class numbers, or the names of the "
                "classes.",
            )
        return y.astype(np.int64)

    def distinct(self) -> tuple[list[str], NDArray[np.intp]]:
        """Return the distinct labels as text, and the position among them of each row's label."""
        return _distinct(self.column())


def _distinct(labels: NDArray[Any]) -> tuple[list[str], NDArray[np.intp]]:
    values, where = np.unique(labels.astype(str), return_inverse=True)
    return [str(value) for value in values], where.reshape(-1)


def match_labels(
    given: Labels,
    *,
    n_classes: int,
    class_names: Names | None,
    names_are_labels: bool,
    first: int | None = None,
    known: Mapping[str, int] | None = None,
) -> Matched:
    """Return labels as int64 ``[N]``, each the position of a class.

    Text is matched to the class names. Numbers are matched to the names where the columns of a
    table are named by numbers; else they are positions, counted from `first`. Default: from 1 if
    a label or the names show that, else from 0.
    """
    notes: tuple[str, ...] = ()
    if given.values.shape[1:] == (n_classes,) and n_classes > 1:
        given = replace(given, values=_from_one_hot(given))
        notes = (f"`{short(given.name)}` is one-hot: the class of each row is where the 1 is",)
    labels = given.column()
    lower = {name.lower() for name in class_names or ()}
    text, is_bool = labels.dtype.kind in "OU", labels.dtype.kind == "b"
    if text and class_names is None and _are_plain_numbers(labels):
        labels, text = labels.astype(np.int64), False
    is_named = names_are_labels and not is_bool and any(map(is_number, class_names or ()))
    if text or is_named or (is_bool and lower == {"false", "true"}):
        return match_names(replace(given, values=labels), class_names, known=known)
    if is_bool:
        labels = labels.astype(np.int8)
    if first is None:
        first = first_number(labels, n_classes=n_classes)
    from_1 = min(numbers_in(class_names or ()) or [0]) == 1 if first is None else first == 1
    positions = _in_range(replace(given, values=labels), int(from_1), n_classes)
    if from_1 or (class_names is not None and names_are_labels):
        shown = class_names or tuple(f"column {i + 1}" for i in range(n_classes))
        order = ", ".join(f"{i + from_1} = {short(n)}" for i, n in enumerate(shown[:4]))
        what = "numbers from 1" if from_1 else "numbers"
        more = ", ..." if n_classes > 4 else ""
        notes = (*notes, f"labels are {what}, in the order of the classes: {order}{more}")
    is_unclear = first is None and not from_1 and not is_bool and n_classes > 2
    return Matched(
        positions,
        "index from 1" if from_1 else "index",
        class_names,
        notes,
        is_unclear=is_unclear and not (labels == 0).any(),
    )


def first_number(labels: NDArray[Any], *, n_classes: int) -> int | None:
    """Return the number of the first class, 0 or 1, or None where the labels do not tell.

    With a label K no numbering from 0 is possible, with a label 0 none from 1.

    Example:
        >>> first_number(np.array([1, 3]), n_classes=3)
        1
        >>> first_number(np.array([2, 0]), n_classes=3)
        0
        >>> first_number(np.array([1, 2]), n_classes=3) is None
        True
    """
    if labels.ndim != 1 or labels.dtype.kind not in "iuf":
        return None
    labels = labels[labels >= 0]  # -1 is no class: the row is refused
    if not len(labels):
        return None
    low, high = labels.min(), labels.max()
    if 0 < low <= high <= n_classes:
        return 1 if high == n_classes else None
    return 0


def _are_plain_numbers(labels: NDArray[Any]) -> bool:
    words = _distinct(labels)[0]
    return len(words) <= 10_000 and all(w.isascii() and w.isdigit() and len(w) < 10 for w in words)


def _in_range(given: Labels, first: int, n_classes: int) -> NDArray[np.int64]:
    """Return labels, counted from `first`, as positions."""
    labels = given.values
    bad = np.flatnonzero((labels < first) | (labels >= first + n_classes))
    if not len(bad):
        return labels.astype(np.int64) - first
    if (labels[bad] == -1).all():
        raise given.bad_rows(
            "is -1 in ",
            bad,
            f", and classes are numbered from {first}. If -1 means that the label is missing "
            "(pandas' code for it), leave these rows out: "
            f"`df = df[df[{short(given.name)!r}] >= 0]`; if it is a class, save the names of the "
            "classes.",
        )
    raise given.bad_rows(
        f"must lie in [{first}, {first + n_classes - 1}] for {n_classes} classes, "
        f"{'as other rows count from 1, ' if first else ''}but those in ",
        bad,
        f" do not; found {labels.min()} to {labels.max()}. Number the classes from 0.",
    )


def _from_one_hot(given: Labels) -> NDArray[np.int64]:
    labels, name = given.values, short(given.name)
    if labels.dtype.kind in "fiub":
        is_zero_one = ((labels == 0) | (labels == 1)).all()
        if is_zero_one and (labels.sum(axis=1) == 1).all():
            return np.asarray(np.argmax(labels, axis=1), np.int64)
    raise given.error(
        f"`{name}` must hold one class per example, shape [{len(labels)}], got {labels.shape}, "
        f"and is not one-hot. Save `{name}.argmax(axis=1)`."
    )


def check_names(names: Names | None, *, n_classes: int, path: Path) -> None:
    """Raise unless `names`, where given, has one name per class and no name twice."""
    if names is None:
        return
    if len(names) != n_classes:
        raise file_error(
            path,
            f"`class_names` must give one name per class, got {len(names)} names for {n_classes} "
            "classes. Save them in the order of the columns.",
        )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise file_error(
            path,
            f"`class_names` must differ, but {listing(twice)} occurs more than once. Rename one "
            "of the columns.",
        )


def match_names(
    given: Labels, class_names: Names | None, *, known: Mapping[str, int] | None = None
) -> Matched:
    """Return the position of each label among the class names, by the first way that fits all.

    Labels that the first rows `known` are those classes, so that all rows are matched alike.
    """
    values, where = _distinct(given.values)
    if class_names is None:
        fixes = [{"class_names": values}] if 2 <= len(values) <= 50 else []
        raise given.error(
            f"`{short(given.name)}` are text ({listing([repr(v) for v in values])}), and nothing "
            "says which column is which class. Save numbers from 0, or give the names in the "
            "order of the columns"
            + (" (scikit-learn sorts them)." if fixes else ": `class_names` in an .npz file."),
            fixes=fixes,
        )
    exact = {n: i for i, n in enumerate(class_names)} | dict(known or {})
    index = _or_by_number([exact.get(v, -1) for v in values], values, class_names)
    if index.min(initial=0) >= 0:
        return Matched(index[where], "name", class_names)
    found = next((way for way in _looser(values, class_names) if way is not None), None)
    if found is None:
        unknown = [repr(v) for v, i in zip(values, index, strict=True) if i < 0]
        raise given.bad_rows(
            "must be names of classes, but those in ",
            np.flatnonzero((index < 0)[where]),
            f" are not: found {listing(unknown)}, the classes are {listing(class_names)}. Correct "
            "the labels, or add the class.",
        )
    places, names, by = found
    ways = tuple(zip(values, places.tolist(), strict=True))
    notes = (f"labels are matched to {by}",)
    return Matched(places[where], "name", names, known=ways, notes=notes)


def _or_by_number(index: list[int], values: list[str], names: Names) -> NDArray[np.int64]:
    """Return positions; if one is -1, the position of the only name that is the same number."""
    if min(index, default=0) < 0:
        numbers = [(float(n), i) for i, n in enumerate(names) if is_number(n)]
        counts = Counter(number for number, _ in numbers)
        places = {number: i for number, i in numbers if counts[number] == 1}
        index = [
            i if i >= 0 or not is_number(v) else places.get(float(v), -1)
            for i, v in zip(index, values, strict=True)
        ]
    return np.array(index, np.int64)


def _lower(text: str) -> str:
    return composed(text.strip()).casefold()


Found: TypeAlias = tuple[NDArray[np.int64], Names, str]
"""The position of each distinct label, the names the classes then have, and by what."""


def _looser(values: list[str], names: Names) -> Iterator[Found | None]:
    """Yield what the looser ways to compare labels with names find, in this order."""
    cut, part = without_shared(values, names), "the part of the column names that differs"
    ways: tuple[tuple[Names, Callable[[str], str], str], ...] = (
        (cut, str, f"{part} ({listing(cut)})"),
        (names, composed, "the names, however accents are stored"),
        (names, _lower, "the names, ignoring case"),
        (cut, _lower, part),
        (names, plain, "the names, ignoring case and punctuation"),
    )
    for kept, fold, by in ways:
        places = {fold(n): i for i, n in enumerate(kept)}
        if len(places) < len(kept) or "" in places:
            continue
        near = [places.get(v, places.get(fold(v), -1)) for v in values]
        index = _or_by_number(near, values, tuple(places))
        if index.min() >= 0 and len(set(index.tolist())) == len(index):
            yield index, kept, by
    yield _by_beginning(values, names)


def _by_beginning(values: list[str], class_names: Names) -> Found | None:
    """Match ``neg`` and ``pos`` to ``negative`` and ``positive``, where only one way fits."""
    places = []
    for value in map(_lower, values):
        fits = [
            i
            for i, n in enumerate(map(_lower, class_names))
            if min(len(n), len(value)) > 1 and (n.startswith(value) or value.startswith(n))
        ]
        places.append(fits[0] if len(fits) == 1 else -1)
    if sorted(places) != list(range(len(class_names))):
        return None
    pairs = [f"{short(v)} = {short(class_names[i])}" for v, i in zip(values, places, strict=True)]
    return np.array(places), class_names, f"the classes: {listing(pairs)}"


def without_shared(values: list[str], names: Names) -> Names:
    """Return the names without what all begin and end with, cut between words.

    Example:
        >>> without_shared([], ("model_cat", "model_car")), without_shared([], ("c1", "c2"))
        (('cat', 'car'), ('1', '2'))
    """
    common = len(_common(names))
    if set(values) <= {n[common:] for n in names} and values:  # P_targetcat, P_targetdog
        return tuple(n[common:] for n in names)
    start = _boundary(_common(names), names)
    rest = [n[start:][::-1] for n in names]
    end = _boundary(_common(rest), rest)
    return tuple(n[start : len(n) - end].strip() for n in names)


def _common(names: Sequence[str]) -> str:
    low, high = min(names), max(names)
    at = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))
    return low[:at]


def _boundary(prefix: str, names: Sequence[str]) -> int:
    """Return the length of `prefix` without the part of a word or number at its end."""
    at = len(prefix.rstrip("0123456789"))
    if prefix and all(n[at : at + 1].isdigit() for n in names):
        return at
    while at and prefix[at - 1].isalnum():
        at -= 1
    return at


def match_binary(
    given: Labels | None, pair: tuple[str, str] | None, positive: str | None
) -> tuple[Matched | None, Names | None]:
    """Return labels of two classes, and the names of the classes, negative first."""
    if given is None or pair is None:
        if positive is None or positive == "1":
            return None, None
        return None, (NEGATIVE.get(positive.lower(), f"not {positive}"), positive)
    values, where = given.distinct()
    unknown = [value for value in values if value not in pair]
    if unknown:
        raise _more_than_two(given, [*pair, *unknown])
    positions = np.array([pair.index(v) for v in values], np.int64)[where]
    if pair != ("0", "1"):
        return Matched(positions, "name", pair), pair
    is_told = positive is None or any(c.isdigit() for c in positive)
    notes = () if is_told else (f"labels are numbers: 1 = {short(str(positive))}",)
    return Matched(positions, "index", None, notes), None


def pair_of(
    given: Labels, values: list[str], *, positive: str | None, requested: bool
) -> tuple[str, str]:
    """Return the negative and the positive label, of all distinct `values`."""
    if len(values) > 2:
        raise _more_than_two(given, values)
    chosen = _positive_of(given, values, positive, requested=requested)
    other = next((v for v in values if v != chosen), None)
    if other is None:
        opposite = {**NEGATIVE, **{no: yes for yes, no in NEGATIVE.items()}}
        other = opposite.get(chosen.lower(), f"not {chosen}")
    return other, chosen


def _more_than_two(given: Labels, values: list[str]) -> PredictionFileError:
    return given.error(
        f"has one column of scores, so two classes, but `{short(given.name)}` holds {len(values)} "
        f"different values: {listing(values)}. Save one column of scores per class."
    )


def _positive_of(
    given: Labels, values: list[str], positive: str | None, *, requested: bool
) -> str:
    """Return which of the one or two label values is the positive class."""
    lower, of = {v.lower(): v for v in values}, ""
    if positive is not None:
        numbered = _NUMBERED.fullmatch(positive.strip())
        alike = {positive} if numbered is None else {positive, numbered[1]}
        same = [v for v in values if v == positive or any(_are_one_number(v, a) for a in alike)]
        folded = [v for v in values if _lower(v) == _lower(positive)]
        if same or len(folded) == 1:
            return (same or folded)[0]
        if len(values) == 1 and (requested or NEGATIVE.get(positive.lower()) in lower):
            return positive
        if len(values) > 1 and requested:
            raise given.error(
                f"`positive` must be a value of `{short(given.name)}`, got {positive!r}; its "
                f"values are {listing(values)}."
            )
        of = f" of {positive!r}" if is_negative(positive) else ""
    for yes, no in () if of else NEGATIVE.items():
        if set(lower) in ({yes, no}, {yes}):
            return lower[yes]
        if set(lower) == {no}:
            return {"0": "1", "False": "True", "false": "true"}.get(values[0], yes)
    if set(values) == {"-1", "1"} and not of:
        return "1"
    raise given.error(
        f"has one column of scores{of}, and nothing says which of the labels {listing(values)} it "
        "is the score of. Say which is the positive class.",
        fixes=[{"positive": value} for value in values],
    )


def _are_one_number(a: str, b: str) -> bool:
    return is_number(a) and is_number(b) and float(a) == float(b)
