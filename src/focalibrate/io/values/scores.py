"""Scores as read: errors by row, and warnings where they look wrong."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._check import (
    HALF_PROBS_ATOL,
    MAX_DIGITS,
    MAX_ROUNDING,
    PROBS_ATOL,
    rounding_explains,
)
from focalibrate.io.errors import Doubt, PredictionFileError, short
from focalibrate.io.predictions import ScoreKind
from focalibrate.io.roles.diagnoses import one_at_a_time
from focalibrate.io.roles.facts import Scores
from focalibrate.io.table import Table
from focalibrate.io.values.labels import Labels, Matched, first_number, match_labels

KEPT_ATOL = PROBS_ATOL / 2
"""Rows whose sums are off by less are left as they are. A sum in another order of the numbers may
differ in its last bits: a row that is off by `PROBS_ATOL` here may be off by more elsewhere."""


def checked_scores(
    stored: NDArray[Any],
    *,
    kind: ScoreKind,
    name: str,
    names: tuple[str, ...] = (),
    was_half: bool = False,
    view: Table,
    probs_atol: float,
    keeps_half: bool = False,
) -> tuple[NDArray[Any], int]:
    """Return scores ``[N, K]`` in float32 or float64, every row checked, and how many are rounded.

    Memory maps of either dtype are returned as they are. Rows of probabilities whose sums are
    off by more than rounding of float32, but within the tolerance or by no more than the digits
    of the file explain, are divided by their sum; the others are left as they are, so that a row
    does not depend on the rows around it.
    """
    name = short(name)
    if 0 in stored.shape:
        raise view.error(f"`{name}` is empty: shape {stored.shape}. Save some examples.")
    if stored.shape[1] < 2:
        raise view.error(f"`{name}` must have at least 2 classes, got shape {stored.shape}.")
    if keeps_half and kind == "logits" and _is_sound_half(stored):
        return stored, 0
    was_half = was_half or stored.dtype == np.float16
    scores = np.asarray(stored).astype(native_dtype(stored.dtype), copy=False)
    if kind == "logits":
        _check_logits(scores, view=view, name=name)
        return scores, 0
    atol = max(probs_atol, HALF_PROBS_ATOL) if was_half else max(probs_atol, PROBS_ATOL)
    worst, n_rounded = _check_probs(scores, names, view=view, name=name, atol=atol)
    return (scores if worst <= KEPT_ATOL else _normalised(scores)), n_rounded


def native_dtype(stored: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which numbers of another one are checked and returned."""
    is_short = stored.kind == "f" and stored.itemsize <= 4
    return np.dtype(np.float32 if is_short else np.float64)


MINUS_INF = 0xFC00
PLUS_INF = 0x7C00
"""Bits of infinite numbers in half precision; those of nan are above."""


def _is_sound_half(scores: NDArray[Any]) -> bool:
    """Return whether these are float16 without nan and +inf, a finite number in every row."""
    if scores.dtype != np.float16 or not scores.dtype.isnative or not scores.flags.c_contiguous:
        return False
    for row in scores.view(np.uint16):  # row by row: it stays in cache for the second look
        low = row.max()
        if row.view(np.int16).max() >= PLUS_INF or low > MINUS_INF:
            return False
        if low == MINUS_INF and row.min() == MINUS_INF:
            return False
    return True


_DROP = "Find the step that made them, or leave these rows out."
_DROP_FIX = ({"drop_missing": True},)


def _check_logits(scores: NDArray[Any], *, view: Table, name: str) -> None:
    with np.errstate(invalid="ignore"):
        top = scores.max(axis=1)
    if np.isfinite(top).all():
        return
    rule = f"`{name}` must be numbers"
    for bad, before, after, fixes in (
        (np.isnan(top), f"{rule}, but nan is in ", f". {_DROP}", _DROP_FIX),
        (top == np.inf, f"{rule} below infinity, but +inf is in ", ".", ()),
        (top == -np.inf, f"{rule}, but every logit is -inf in ", ".", ()),
    ):
        if bad.any():
            raise view.rows_error(before, np.flatnonzero(bad), after, fixes=fixes)


def _check_probs(
    scores: NDArray[Any], names: tuple[str, ...], *, view: Table, name: str, atol: float
) -> tuple[float, int]:
    """Return how far the worst row's sum is from 1, and how many only rounding explains."""
    with np.errstate(invalid="ignore"):
        gap = np.abs(scores.sum(axis=1, dtype=np.float64) - 1.0)
        low = scores.min(axis=1)
    nan, negative = np.flatnonzero(np.isnan(gap)), np.flatnonzero(low < 0)
    if len(nan):
        before = f"`{name}` must be numbers, but nan is in "
        raise view.rows_error(before, nan, f". {_DROP}", fixes=_DROP_FIX)
    if len(negative):
        before = f"`{name}` must be probabilities, but numbers below 0 are in "
        after = ". If these are logits, say so."
        raise view.rows_error(before, negative, after, fixes=[{"input": "logits"}])
    far = np.flatnonzero(gap > atol)
    explained = rounding_explains(scores[far], gap[far])
    if not explained.all():
        worst = float(gap.max())
        raise _off(scores, names, far[~explained], worst, view=view, name=name)
    return float(gap.max()), len(far)


def _off(
    scores: NDArray[Any],
    names: tuple[str, ...],
    off: NDArray[np.intp],
    worst: float,
    *,
    view: Table,
    name: str,
) -> PredictionFileError:
    """Return the error for rows that do not sum to 1, with the probable reason."""

    def found(text: str, *fixes: Mapping[str, object]) -> PredictionFileError:
        before = f"`{name}` must sum to 1 in every row, but does not in "
        rule = f"; the worst sum is off by {worst:.3g}."
        return view.rows_error(before, off, f"{rule} {text}", fixes=fixes)

    if len(off) < 0.1 * len(scores):
        return found("The others do: correct these rows, or leave them out.")
    part = np.asarray(scores[: 1 << 16], np.float64)
    more = [i for i, name in enumerate(names) if any(name.startswith(f"{n}_") for n in names)]
    rest = [i for i in range(part.shape[1]) if i not in more]
    if more and len(rest) > 1 and np.abs(part[:, rest].sum(axis=1) - 1).max() < MAX_ROUNDING / 2:
        return found(
            f"Without columns such as `{short(names[more[0]])}` they do, so these are probably no "
            "classes.",
            {"ignore": [names[i] for i in more]},
        )
    if worst < MAX_ROUNDING:
        return found(
            "If they were rounded when written, let each row be divided by its sum.",
            {"probs_atol": _round_up(worst)},
        )
    with np.errstate(invalid="ignore", over="ignore"):
        sums = part.sum(axis=1)
        if np.abs(sums - 100).max() < 100 * MAX_ROUNDING:
            return found("They are percentages.", {"input": "percent"})
        without = np.abs(sums[:, None] - part - 1).max(axis=0) if part.shape[1] > 2 else []
    extra = [i for i, gap in enumerate(without) if gap < MAX_ROUNDING]
    if extra and names:
        return found(
            f"Without column `{short(names[extra[0]])}` they do, so it is probably not a class.",
            {"ignore": [names[extra[0]]]},
        )
    digits = decimals_of(part) if np.isfinite(sums).all() else None
    if digits is not None and worst <= part.shape[1] * 10.0**-digits / 2:
        return found(
            f"They have {digits} decimals, too few for {part.shape[1]} classes. Save them "
            "with more."
        )
    if float(part.max()) > 1 + MAX_ROUNDING:
        return found(
            "Some numbers are above 1: if these are logits, say so; if a column is an "
            "index or an id, leave it out with `ignore` (command line: --ignore NAME).",
            {"input": "logits"},
        )
    if len(scores) < scores.shape[1] and np.abs(part.sum(axis=0) - 1).max() < MAX_ROUNDING:
        return found(f"Its columns do: save `{name}.T`, one row per example.")
    return found(
        "Is a class missing? If each column is a model of its own, or a class of its own "
        "(sigmoid), read one at a time.",
        *one_at_a_time(names),
    )


def _round_up(x: float) -> float:
    """Return the power of ten at or above `x`, at most `MAX_ROUNDING`.

    Example:
        >>> _round_up(0.0003), _round_up(0.02)
        (0.001, 0.05)
    """
    return min(MAX_ROUNDING, float(f"1e{int(np.ceil(np.log10(x)))}"))


def _normalised(scores: NDArray[Any]) -> NDArray[Any]:
    sums = scores.sum(axis=1, dtype=np.float64, keepdims=True)
    sums[np.abs(sums - 1.0) <= KEPT_ATOL] = 1.0
    probs: NDArray[Any] = np.divide(scores, sums, out=np.empty_like(scores), casting="same_kind")
    return probs


def decimals_of(rows: NDArray[Any]) -> int | None:
    """Return how many decimals all numbers have, or None if more than a few.

    Example:
        >>> decimals_of(np.array([[0.25, 0.3], [0.0, 1.0]]))
        2
    """
    for digits in range(1, MAX_DIGITS):
        steps = rows * 10.0**digits
        if (np.abs(steps - np.rint(steps)) <= 1e-6).all():
            return digits
    return None


def doubts_about(scores: NDArray[Any], matched: Matched | None, chosen: Scores) -> list[Doubt]:
    """Return a warning for each sign that the classes or the rows are in the wrong order."""
    notes = [] if chosen.form == "options" else [_falling(scores)]
    if chosen.kind == "logits" and chosen.form != "options":
        notes.append(_of_another_base(scores))
    if matched is not None:
        notes.append(_worse_than_chance(scores, matched.labels))
        notes.append(_always_right(scores, matched.labels, chosen.kind))
        if matched.is_unclear and len(scores) >= 5 * scores.shape[1]:
            notes.append(
                "the labels are counted from 0, so that no row is of the first class; if "
                "they are counted from 1, subtract 1 before you save them"
            )
        # the confidence of an answer is meant to be that of the predicted class
        if chosen.form == "single" and chosen.outcome is None and chosen.kind == "probs":
            notes.append(_never_below_half(scores, matched.labels))
    return [Doubt(f"WARNING: {note}") for note in notes if note is not None]


def _of_another_base(scores: NDArray[Any]) -> str | None:
    """Return a warning where the numbers are logarithms of probabilities, but not natural ones."""
    part = scores[: max(1, (1 << 18) // scores.shape[1])].astype(np.float64)
    for base, factor in (("10", np.log(10.0)), ("2", np.log(2.0)), ("1/e", -1.0)):
        with np.errstate(over="ignore"):
            off = np.abs(np.exp(factor * part).sum(axis=1) - 1.0).max()
        if off < 1e-3 and np.abs(part.sum(axis=1)).max() > 1e-3:
            return (
                f"each row of {base} to the power of these numbers sums to 1, as if they were "
                f"logarithms to base {base}; if so, multiply them by {factor:.6g}"
            )
    return None


def _worse_than_chance(scores: NDArray[Any], labels: NDArray[np.int64]) -> str | None:
    """Return a warning where the classes or rows are ordered worse than by chance.

    Of many classes the most probable is right less often than by chance; of two, the positive
    one is rarer where its score is higher, however sure a model is of it.
    """
    part = slice(0, 1 << 16)
    z, y = scores[part], labels[part]
    n, k = z.shape
    if n < 50:
        return None
    right = float((np.argmax(z, axis=1) == y).mean())
    n_1 = int((y == 1).sum()) if k == 2 else 0
    if 0 < n_1 < n:
        gap = z[:, 1].astype(np.float64) - z[:, 0]
        _, where, counts = np.unique(gap, return_inverse=True, return_counts=True)
        ranks = (np.cumsum(counts) - (counts - 1) / 2)[where.reshape(-1)]
        auc = float((ranks[y == 1].mean() - (n_1 + 1) / 2) / (n - n_1))
        if auc < 0.5 - FAR * np.sqrt((n + 1) / (12 * n_1 * (n - n_1))):
            return (
                f"the higher the score of a class, the rarer it is (AUC {auc:.2f}): check the "
                "order of the classes and of the rows"
            )
    spread = FAR * np.sqrt((k - 1) / n) / k if k > 2 else 0.5
    if right >= max(0.5 / k, 1 / k - spread):
        return None
    return (
        f"the class with the highest score is right in {right:.1%} of the rows, less "
        "often than by chance: check the order of the classes and of the rows"
    )


FAR = 3
"""Standard deviations by which ranks or hits are hardly below those by chance."""


def _falling(scores: NDArray[Any]) -> str | None:
    """Return a warning where the first class is the likeliest in every row, then the second."""
    part = scores[: 1 << 16]
    if len(part) < 20 or part.shape[1] < 3 or (part[:, 1:] > part[:, :-1]).any():
        return None
    if (part == part[0]).all():
        return None
    return (
        "in every row the scores fall from the first class to the last: if they are the "
        "highest, the second and so on, save one column per class instead"
    )


SURPRISE = 1e-6
"""Probability below which that every prediction is right is no coincidence."""


def _always_right(scores: NDArray[Any], labels: NDArray[np.int64], kind: str) -> str | None:
    """Return a warning where every label is the predicted class, and the scores deny that.

    By its own probabilities the model is right in all rows with the product of the highest.
    """
    part = scores[: 1 << 16]
    if not np.array_equal(np.argmax(part, axis=1), labels[: len(part)]):
        return None
    top = np.asarray(part.max(axis=1), np.float64)
    if kind == "logits":
        rest = np.asarray(part, np.float64) - top[:, None]
        log_top = -np.log(np.exp(rest).sum(axis=1))
    else:
        log_top = np.log(np.minimum(top, 1))
    if float(log_top.sum()) > np.log(SURPRISE):
        return None
    return (
        "the label of every row is the class with the highest score; if it is the "
        "predicted class, pass the column of the true class: --label-column NAME"
    )


def _never_below_half(scores: NDArray[Any], labels: NDArray[np.int64]) -> str | None:
    """Return a warning where the positive class always seems likelier, but often is not true."""
    if len(scores) < 50 or (scores[:, 1] < 0.5).any() or (labels == 0).mean() < 0.2:
        return None
    return (
        "the probability of the positive class is at least 0.5 in every row; if each "
        "value belongs to the predicted class, save the probability of one class instead"
    )


def disagreement(
    scores: NDArray[Any], predicted: Labels, names: tuple[str, ...] | None, matched: Matched | None
) -> list[str]:
    """Return how often a column of predictions differs from the class with the highest score.

    Numbers that do not tell from where they count do so as the labels do.
    """
    name, k = short(predicted.name), scores.shape[1]
    if len(predicted.values) != len(scores):
        return []
    kept = ~predicted.missing(names)
    given, scores = predicted[kept], scores[kept]
    first = first_number(given.values, n_classes=k)
    if first is None and matched is not None:
        first = int(matched.form == "index from 1")
    try:
        found = match_labels(
            given, n_classes=k, class_names=names, names_are_labels=True, first=first
        )
    except PredictionFileError:
        return [f'column "{name}" could not be compared with the scores']
    own = np.take_along_axis(scores, found.labels[:, None], axis=1)[:, 0]
    rate = float((own < scores.max(axis=1)).mean()) if len(scores) else 0.0
    if rate == 0:
        return []
    return [
        Doubt(
            f'WARNING: "{name}" differs from the class with the highest score in {rate:.1%} '
            "of the rows: check the order of the classes, or the threshold"
        )
    ]
