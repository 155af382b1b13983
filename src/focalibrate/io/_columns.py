"""Which columns of a table are classes, and which holds the labels."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from focalibrate.io._error import fault, how, listing
from focalibrate.io._table import NO_LABELS, Request
from focalibrate.io.predictions import Kind

LABEL_NAMES = ("label", "labels", "y", "target")
"""Column names that mean labels without being told."""

PREFIXES: dict[str, Kind] = {
    "logit_": "logits",
    "logits_": "logits",
    "prob_": "probs",
    "probs_": "probs",
}
"""Column prefixes that say what the column holds; the rest of the name is the class."""


@dataclass(frozen=True)
class Columns:
    """Positions of the class columns and of the labels, and what the names say."""

    scores: tuple[int, ...]
    label: int | None
    kind: Kind
    class_names: tuple[str, ...] | None


def choose_columns(names: Sequence[str], request: Request) -> Columns:
    """Return the columns to read of a table with named columns.

    Columns with a prefix (``logit_cat``, ``prob_cat``) are the classes, and every other
    column but the label is passed over. Without prefixes every column but the label is a
    class, and `request.input` must say of what kind.
    """
    _check_distinct(names, request)
    label = label_position(names, request)
    by_kind: dict[Kind, list[int]] = {"logits": [], "probs": []}
    for position, name in enumerate(names):
        kind = _prefix_kind(name)
        if kind is not None and position != label:
            by_kind[kind].append(position)
    if by_kind["logits"] or by_kind["probs"]:
        kind = request.input or ("logits" if by_kind["logits"] else "probs")
        if not by_kind[kind]:
            raise fault(
                request.path,
                f"has no column that begins with `{kind[:-1]}_`, but `input` says {kind!r}; its "
                f"columns are {listing(names)}. Leave `input` out to read what is there.",
            )
        _check_label_known(label, names, request)
        classes = tuple(names[i].split("_", 1)[1].strip() for i in by_kind[kind])
        return Columns(tuple(by_kind[kind]), label, kind, plain_names(classes))
    if label is None and not _labels_are_elsewhere(request):
        raise fault(
            request.path,
            f"has no column named {', '.join(LABEL_NAMES)}; its columns are {listing(names)}. "
            f"Pass {how('label_column', names[0])} or, if none holds labels, "
            f"{how('label_column', NO_LABELS)}.",
        )
    _check_label_known(label, names, request)
    kind = _told_kind(request)
    rest = tuple(i for i in range(len(names)) if i != label)
    return Columns(rest, label, kind, plain_names(tuple(names[i] for i in rest)))


def choose_positions(n_columns: int, request: Request) -> Columns:
    """Return the columns to read of a table without names: all but the label are classes."""
    kind = _told_kind(request)
    label: int | None = None
    if request.label_column is None and not request.other_labels:
        raise fault(
            request.path,
            "has no header row, so the column of labels must be said by its position. Pass "
            f"{how('label_column', 0)}, -1 for the last, or, if none holds labels, "
            f"{how('label_column', NO_LABELS)}.",
        )
    if not _labels_are_elsewhere(request):
        label = _position(str(request.label_column), n_columns)
        if label is None:
            raise fault(
                request.path,
                f"`label_column` must be a position from 0 to {n_columns - 1} or -1 for the last, "
                f"because the file has no header row; got {request.label_column!r}.",
            )
    _check_label_known(label, (), request)
    return Columns(tuple(i for i in range(n_columns) if i != label), label, kind, None)


def label_position(names: Sequence[str], request: Request) -> int | None:
    """Return which of `names` holds the labels: as told, else by its name, else None."""
    wanted = request.label_column
    if wanted == NO_LABELS:
        return None
    if wanted is not None:
        if wanted in names:
            return list(names).index(str(wanted))
        position = _position(str(wanted), len(names))
        if position is None:
            raise fault(
                request.path,
                f"`label_column` must name a column, got {wanted!r}; "
                f"the columns are {listing(names)}.",
            )
        return position
    found = [i for i, name in enumerate(names) if name.strip().lower() in LABEL_NAMES]
    if len(found) > 1:
        raise fault(
            request.path,
            f"has {len(found)} columns that could be the labels: "
            f"{', '.join(names[i] for i in found)}. Pass {how('label_column', names[found[0]])}.",
        )
    return found[0] if found else None


def has_prefix(names: Sequence[str]) -> bool:
    """Say whether some column says by its prefix what it holds."""
    return any(_prefix_kind(name) is not None for name in names)


def plain_names(names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return `names`, or None where they are 0, 1, 2, ... and so say nothing."""
    return None if names == tuple(str(i) for i in range(len(names))) else names


def _position(text: str, n_columns: int) -> int | None:
    try:
        position = int(text)
    except ValueError:
        return None
    if position == -1:
        return n_columns - 1
    return position if 0 <= position < n_columns else None


def _labels_are_elsewhere(request: Request) -> bool:
    return request.label_column == NO_LABELS or (
        request.label_column is None and request.other_labels
    )


def _prefix_kind(name: str) -> Kind | None:
    for prefix, kind in PREFIXES.items():
        if name.startswith(prefix) and len(name) > len(prefix):
            return kind
    return None


def _told_kind(request: Request) -> Kind:
    if request.input is None:
        raise fault(
            request.path,
            "does not say whether its columns are logits or probabilities, and that is never "
            f"guessed. Pass {how('input', 'logits')} or {how('input', 'probs')}, or name the "
            "columns `logit_<class>` or `prob_<class>`.",
        )
    return request.input


def _check_label_known(label: int | None, names: Sequence[str], request: Request) -> None:
    if label is None and request.need_labels and not request.other_labels:
        of = f"; its columns are {listing(names)}" if names else ""
        raise fault(
            request.path,
            f"has no column of labels{of}. Name it `label`, or pass "
            f"{how('label_column', 'NAME')} or "
            "`labels_path='labels.npy'` (command line: --labels labels.npy).",
        )


def _check_distinct(names: Sequence[str], request: Request) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise fault(
            request.path,
            f"names must differ between columns, but {listing([repr(n) for n in twice])} "
            "stands more than once in the header. Rename one.",
        )
