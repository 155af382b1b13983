"""Every input check, and so every error message, of the toolkit.

A check of values runs only if values can be read: under `jax.jit`, `torch.compile`
or `vmap` the checks on shapes and dtypes remain.
"""

import math
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import (
    Array,
    array_of,
    is_array_api_obj,
    is_concrete,
    is_numpy_array,
    namespace,
    stop_gradient,
    to_numpy,
)


def wrong(name: str, rule: str, found: object, hint: str = "") -> ValueError:
    """Return the error that says which argument breaks which rule, with what, and what to do."""
    return ValueError(f"`{name}` must {rule}, {found}.{hint and ' '}{hint}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_gamma(gamma: Any, *, minimum: float = 0.0, name: str = "gamma") -> None:
    """Raise `ValueError` unless `gamma`, a number or an array, is finite and >= `minimum`."""
    rule = f"be a finite number >= {minimum:g}"
    if is_array_api_obj(gamma):
        if not is_concrete(gamma):
            return
        xp = namespace(gamma)
        if not bool(xp.all(xp.isfinite(gamma))) or not bool(xp.all(gamma >= minimum)):
            low = float(xp.min(gamma))
            raise wrong(name, rule, f"but the array has a smallest entry of {low!r}")
    # not `isfinite`, which a compiler cannot trace
    elif not (_is_number(gamma) and minimum <= gamma < math.inf):
        raise wrong(name, rule, f"got {gamma!r}")


def check_count(value: object, *, name: str, minimum: int = 1, hint: str = "") -> None:
    """Raise `ValueError` unless `value` is a whole number >= `minimum`."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or value.__index__() < minimum:
        raise wrong(name, f"be a whole number >= {minimum}", f"got {value!r}", hint)


def check_n_bins(n_bins: object, *, name: str = "n_bins") -> None:
    """Raise `ValueError` unless `n_bins` is a whole number >= 1."""
    check_count(n_bins, name=name, hint="The papers use 15.")


def check_n_classes(n_classes: object, *, name: str = "n_classes") -> None:
    """Raise `ValueError` unless `n_classes` is a whole number >= 2."""
    check_count(n_classes, name=name, minimum=2)


def check_unit_interval(value: float, *, name: str) -> None:
    """Raise `ValueError` unless `value` is a number in [0, 1]."""
    if not (_is_number(value) and 0.0 <= value <= 1.0):
        raise wrong(name, "be a number in [0, 1]", f"got {value!r}")


def check_positive(value: float, *, name: str) -> None:
    """Raise `ValueError` unless `value` is a finite number > 0."""
    if not (_is_number(value) and 0.0 < value < math.inf):
        raise wrong(name, "be a finite number > 0", f"got {value!r}")


def check_open_interval(value: float, *, low: float, high: float, name: str) -> None:
    """Raise `ValueError` unless `value` is a number strictly between `low` and `high`."""
    if not (_is_number(value) and low < value < high):
        raise wrong(name, f"be a number in ({low:g}, {high:g})", f"got {value!r}")


def check_choice(value: object, choices: Collection[str], *, name: str) -> None:
    """Raise `ValueError` unless `value` is one of `choices`; the message names the nearest."""
    if value not in choices:
        raise ValueError(
            f"`{name}` must be one of {', '.join(choices)}; got {value!r}."
            f"{did_you_mean(value, choices)}"
        )


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` with the nearest of the `known` names, "" if none is close.

    Example:
        >>> did_you_mean("temprature", ["temperature", "vector"])
        " Did you mean 'temperature'?"
    """
    near = get_close_matches(str(name), list(known), n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else ""


def check_edges(edges: Any) -> None:
    """Raise `ValueError` unless `edges`, a NumPy array, is non-decreasing from 0 to 1."""
    if edges.ndim != 1 or len(edges) < 2:
        hint = "`n_bins` bins have `n_bins + 1` edges."
        raise wrong("edges", "be a list of at least two numbers", _got(edges), hint)
    if not (edges[0] == 0 and edges[-1] == 1 and bool((edges[1:] >= edges[:-1]).all())):
        hint = "Put 0 first and 1 last."
        raise wrong("edges", "be non-decreasing from 0 to 1", f"got {edges.tolist()}", hint)


PROBS_ATOL = 1e-5
"""How far a row of probabilities may be from summing to 1 (float32 softmax: about 1e-6). From
1,400 classes on, the rounding of a sum in float32 that adds them one by one."""
HALF_PROBS_ATOL = 1e-2
"""The same for float16 and bfloat16, which have about 3 digits."""
MAX_ROUNDING = 0.05
"""Rows whose sum is off by more than this cannot be rounded probabilities."""
MAX_DIGITS = 7
ROUNDINGS = (
    *((10, digits, least) for least in (-1, -30) for digits in range(1, MAX_DIGITS + 1)),
    (2, 11, -14),
    (2, 8, -126),
)
"""Base, digits and smallest exponent of the first digit: decimals of numbers below 1, significant
digits, float16 and bfloat16."""


def is_floating(x: Array) -> bool:
    return "float" in str(x.dtype)


def _atol(x: Array) -> float:
    bits = 16 if "bfloat16" in str(x.dtype) else namespace(x).finfo(x.dtype).bits
    return HALF_PROBS_ATOL if bits < 32 else max(PROBS_ATOL, 2.0**-27 * x.shape[-1])


def first_row(bad: Array) -> int:
    """Return the index of the first true entry of a flattened boolean array."""
    xp = namespace(bad)
    return int(xp.argmax(xp.astype(xp.reshape(bad, (-1,)), xp.int32)))


def _got(x: Any) -> str:
    """Return what an argument of the wrong shape is."""
    return f"got shape {tuple(x.shape)}" if is_array_api_obj(x) else f"got {type(x).__name__}"


def _check_floating(x: Any, *, name: str) -> None:
    """Raise unless `x` is a floating array that is not empty."""
    if not is_array_api_obj(x):
        raise wrong(name, "be an array", _got(x), f"Wrap it: `np.asarray({name})`.")
    if not is_floating(x):
        hint = "Convert it to float32 first."
        raise wrong(name, "be floating point", f"got dtype {x.dtype}", hint)
    _check_filled(x, name=name)


def _check_filled(x: Array, *, name: str) -> None:
    if 0 in x.shape:
        raise wrong(name, "not be empty", _got(x), "Pass at least one example.")


def _check_unit(x: Array, *, name: str, hint: str) -> None:
    """Raise unless the entries of `x`, where they can be read, lie in [0, 1]."""
    if not is_concrete(x) or 0 in x.shape:
        return
    xp = namespace(x)
    if not bool(xp.all((x >= 0) & (x <= 1))):
        low, high = float(xp.min(x)), float(xp.max(x))
        raise wrong(name, "lie in [0, 1]", f"found entries from {low:.3g} to {high:.3g}", hint)


def _check_matrix(x: Array, *, name: str) -> None:
    """Raise unless `x` is a non-empty floating array ``[..., K]`` with K >= 2."""
    _check_floating(x, name=name)
    if x.ndim == 0:
        raise wrong(name, "have shape [..., K]", "got a single number")
    if x.shape[-1] < 2:
        hint = "For one score per example pass shape [N] and `binary=True`."
        raise wrong(name, "have at least 2 classes on its last axis", _got(x), hint)


def check_logits(logits: Array, *, name: str = "logits") -> None:
    """Raise `ValueError` unless `logits` are ``[..., K]``, free of nan and +inf.

    -inf marks an impossible class and is allowed, but not for every class of a row.
    """
    _check_matrix(logits, name=name)
    if not is_concrete(logits):
        return
    xp = namespace(logits)
    # nan and +inf propagate to the top, -inf only if all are
    top = xp.max(stop_gradient(logits), axis=-1)
    bad = ~xp.isfinite(top)
    if bool(xp.any(bad)):
        row = first_row(bad)
        value = float(xp.reshape(top, (-1,))[row])
        if value == -math.inf:
            found = f"but every entry of row {row} is -inf"
            hint = "Unmask one class or drop the row."
            raise wrong(name, "leave at least one class possible", found, hint)
        hint = "Drop the row or find the step that produced it."
        raise wrong(name, "not contain nan or +inf", f"but row {row} contains {value}", hint)


def check_class_axis(logits: Array, *, name: str = "logits") -> None:
    """Raise `ValueError` unless `logits` are ``[N, K, ...]`` or ``[K]``; values are not read."""
    if not is_array_api_obj(logits) or not is_floating(logits) or logits.ndim == 0:
        found = f"got {logits.dtype}" if is_array_api_obj(logits) else _got(logits)
        rule = "be a floating tensor of shape [K] or [N, K, ...]"
        raise wrong(name, rule, found, "Pass the raw output of the model.")
    _check_filled(logits, name=name)
    if logits.shape[min(1, logits.ndim - 1)] < 2:
        hint = "For one score per example use `SigmoidFocalLoss`."
        raise wrong(name, "have at least 2 classes on its class axis", _got(logits), hint)


def _row_sums(x: Array) -> Array:
    xp = namespace(x)
    if is_numpy_array(x) and xp.finfo(x.dtype).bits >= 32:
        return x @ xp.ones(x.shape[-1], dtype=x.dtype)  # 8x faster than `sum` for short rows
    return xp.sum(x, axis=-1)


def check_probs(probs: Array, *, name: str = "probs") -> None:
    """Raise `ValueError` unless the rows of `probs`, ``[..., K]``, lie on the simplex."""
    _check_matrix(probs, name=name)
    if not is_concrete(probs):
        return
    xp = namespace(probs)
    probs = stop_gradient(probs)
    low = float(xp.min(probs))
    off = float(xp.max(xp.abs(_row_sums(probs) - 1.0)))
    if not (low >= 0.0 and off <= _atol(probs)):  # written so that nan fails too
        if math.isnan(low) or math.isnan(off):
            row = first_row(xp.any(xp.isnan(probs), axis=-1))
            raise wrong(name, "not contain nan", f"but row {row} does", "Drop the row.")
        if low >= 0.0 and off < MAX_ROUNDING and _is_rounded(probs):
            warnings.warn(
                f"`{name}` sum to 1 only within {off:.2g}, as their few digits explain. To divide "
                f"each row by its sum: `{name} / {name}.sum(axis=-1, keepdims=True)`.",
                stacklevel=4,
            )
            return
        hint = "If these are logits, apply `softmax` first."
        if low >= 0.0 and off < MAX_ROUNDING:
            hint = f"If they were rounded: `{name} / {name}.sum(axis=-1, keepdims=True)`."
        found = f"but its smallest entry is {low:.3g} and its worst row sum is off by {off:.3g}"
        raise wrong(name, "be probabilities over its last axis", found, hint)


def _is_rounded(probs: Array) -> bool:
    """Return whether rounding explains every row that does not sum to 1."""
    rows = to_numpy(probs).reshape(-1, probs.shape[-1])
    gaps = np.abs(rows.sum(axis=1, dtype=np.float64) - 1.0)
    far = gaps > PROBS_ATOL
    return bool(rounding_explains(rows[far], gaps[far]).all())


def rounding_explains(rows: NDArray[Any], gaps: NDArray[Any]) -> NDArray[np.bool_]:
    """Return for each row whether rounding alone can have moved its sum away from 1.

    Every number of such a row is a multiple of one decimal, or has few significant digits, or is
    one of float16 or bfloat16, and the sum is off by at most half a unit of the last digit per
    number.

    Args:
        rows: ``[N, K]``, numbers in [0, 1].
        gaps: ``[N]``, how far the sums are from 1.

    Example:
        >>> rows = np.array([[0.333, 0.333, 0.333], [0.5, 0.3, 0.1], [0.31234, 0.3, 0.4]])
        >>> rounding_explains(rows, np.abs(rows.sum(axis=1) - 1))
        array([ True, False, False])
    """
    precision = float(np.finfo(rows.dtype).eps)
    explained = np.zeros(len(rows), bool)
    for kind in ROUNDINGS:
        left = np.flatnonzero(~explained & (gaps < MAX_ROUNDING))
        values = np.asarray(rows[left], np.float64)
        units = _last_digit(values, *kind)
        off = np.abs(values - np.rint(values / units) * units)
        slack = 1e-6 if kind[0] == 10 else 1e-3  # bits are often written with 7 decimals
        is_rounded = (off <= slack * units + precision * values).all(axis=1)
        explained[left] = is_rounded & (gaps[left] <= 0.525 * units.sum(axis=1) + precision)
    return explained


def _last_digit(
    values: NDArray[np.float64], base: int, digits: int, least: float
) -> NDArray[np.float64]:
    """Return the unit of the last of so many digits of each number."""
    with np.errstate(divide="ignore"):
        leading = np.floor((np.log10 if base == 10 else np.log2)(values))
    return np.asarray(float(base) ** (np.maximum(leading, least) - digits + 1.0), np.float64)


def check_log_probs(log_probs: Array, *, name: str = "log_probs") -> None:
    """Raise `ValueError` unless the rows of `log_probs`, ``[..., K]``, are logs of a simplex."""
    check_logits(log_probs, name=name)
    if not is_concrete(log_probs):
        return
    xp = namespace(log_probs)
    total = xp.sum(xp.exp(stop_gradient(log_probs)), axis=-1)
    off = float(xp.max(xp.abs(total - 1.0)))
    if not off <= _atol(log_probs):
        found = f"but the probabilities of a row sum to 1 only within {off:.3g}"
        hint = "If these are logits, apply `log_softmax` first."
        raise wrong(name, "be logs of probabilities over the last axis", found, hint)


def check_unit_array(p: Array, *, name: str) -> None:
    """Raise `ValueError` unless `p` is a floating array with entries in [0, 1]."""
    if not is_array_api_obj(p) or not is_floating(p):
        found = f"got {getattr(p, 'dtype', type(p).__name__)}"
        raise wrong(
            name, "be a floating array", found, f"Convert it: `np.asarray({name}, float)`."
        )
    _check_unit(p, name=name, hint="If these are logits, apply `softmax` first.")


def binary_logits(scores: Array, *, name: str = "logits") -> Array:
    """Return ``[..., 2]`` logits ``(0, s)`` for binary scores `s` (log-odds of class 1)."""
    _check_scores(scores, name=name)
    xp = namespace(scores)
    return xp.stack([xp.zeros_like(scores), scores], axis=-1)


def check_binary_probs(scores: Array, *, name: str = "probs") -> None:
    """Raise `ValueError` unless `scores` are probabilities of class 1, ``[N]``."""
    _check_scores(scores, name=name)
    hint = "With `binary=True` pass probabilities of class 1; of logits, apply `sigmoid` first."
    _check_unit(scores, name=name, hint=hint)


def _check_scores(scores: Array, *, name: str) -> None:
    if not is_array_api_obj(scores) or not is_floating(scores) or scores.ndim != 1:
        found = tuple(scores.shape) if is_array_api_obj(scores) else type(scores).__name__
        raise ValueError(
            f"`{name}` with `binary=True` must be a floating array of shape [N], one score per "
            f"example, got {found}. For [N, K] leave `binary` out."
        )
    _check_filled(scores, name=name)


def check_rows(probs: Array, *, name: str = "probs") -> None:
    """Raise `ValueError` for shape ``[N]``, which may be one score each or one example."""
    if is_array_api_obj(probs) and probs.ndim == 1:
        hint = (
            "If these are probabilities of class 1, one per example, pass `binary=True`; if they "
            f"are one example, pass `{name}[None, :]`."
        )
        rule = "have shape [..., K] with at least one axis of examples"
        raise wrong(name, rule, _got(probs), hint)


def check_label_form(
    labels: Array, *, shape: tuple[int, ...], n_classes: int, name: str = "labels"
) -> None:
    """Raise `ValueError` unless `labels` is an integer array of `shape`; values are not read."""
    if not is_array_api_obj(labels):
        hint = f"Wrap it: `np.asarray({name})`."
        raise wrong(name, "be an array of class indices", _got(labels), hint)
    if not namespace(labels).isdtype(labels.dtype, "integral"):
        if is_floating(labels) and labels.ndim == 1 and is_concrete(labels):
            missing = namespace(labels).isnan(labels)
            if bool(namespace(labels).any(missing)):
                found = f"row {first_row(missing)} has none"
                raise wrong(name, "not be missing", found, "Leave such rows out.")
        hint = "Convert them to int64; soft targets must have the shape of the logits."
        raise wrong(name, "be integer class indices", f"got dtype {labels.dtype}", hint)
    if tuple(labels.shape) != tuple(shape):
        hint = "Pass one label per example."
        if tuple(labels.shape) == (*shape, n_classes):
            hint += " For one score per example pass `binary=True`."
        raise wrong(name, f"have shape {shape}", f"got {tuple(labels.shape)}", hint)


def check_labels(
    labels: Array, *, shape: tuple[int, ...], n_classes: int, name: str = "labels"
) -> None:
    """Raise `ValueError` unless `labels` are class indices below `n_classes`, of `shape`."""
    check_label_form(labels, shape=shape, n_classes=n_classes, name=name)
    if not is_concrete(labels):
        return
    xp = namespace(labels)
    low, high = int(xp.min(labels)), int(xp.max(labels))
    if low < 0 or high >= n_classes:
        row = first_row((labels < 0) | (labels >= n_classes))
        rule = f"lie in [0, {n_classes - 1}] for {n_classes} classes"
        found = f"found [{low}, {high}], first at row {row}"
        raise wrong(name, rule, found, "Number the classes from 0.")


def check_class_weight(weight: Array, *, n_classes: int, name: str = "weight") -> None:
    """Raise `ValueError` unless `weight` is an array with one number >= 0 per class."""
    if not is_array_api_obj(weight) or tuple(weight.shape) != (n_classes,):
        found = tuple(weight.shape) if is_array_api_obj(weight) else type(weight).__name__
        rule = f"be an array with one entry per class, shape ({n_classes},)"
        raise wrong(name, rule, f"got {found}")
    check_factor(weight, name=name)


def check_factor(value: Array, *, name: str, most: float = math.inf) -> None:
    """Raise `ValueError` unless the numbers of an array are finite and from 0 to `most`."""
    xp = namespace(value)
    if not is_concrete(value) or bool(xp.all((value >= 0) & (value <= most) & (value < xp.inf))):
        return
    rule = "be in [0, 1]" if most == 1.0 else "hold finite numbers >= 0"
    hint = "None means no weights." if name == "alpha" else ""
    low, high = float(xp.min(value)), float(xp.max(value))
    raise wrong(name, rule, f"found {low:.3g} to {high:.3g}", hint)


def check_targets(logits: Array, labels: Array, *, name: str = "labels") -> bool:
    """Check `labels` against `logits`; return True for soft targets, False for class indices."""
    check_logits(logits)
    if is_array_api_obj(labels) and is_floating(labels) and labels.shape == logits.shape:
        is_one = logits.ndim == 1 and is_concrete(labels)
        if is_one and not abs(float(namespace(labels).sum(labels)) - 1.0) <= _atol(labels):
            # [N] scores with [N] float labels have the shape of one example's soft target.
            raise ValueError(
                f"`{name}` of shape {tuple(labels.shape)} must be one soft target that sums to 1. "
                "For one score per example pass integer labels and `binary=True`."
            )
        check_probs(labels, name=name)
        return True
    check_labels(labels, shape=tuple(logits.shape[:-1]), n_classes=logits.shape[-1], name=name)
    return False


def check_multilabel(logits: Array, labels: Array) -> None:
    """Raise `ValueError` unless `labels` are 0 to 1 and of the shape of finite `logits`."""
    _check_floating(logits, name="logits")
    if not is_array_api_obj(labels) or tuple(labels.shape) != tuple(logits.shape):
        rule = f"have the shape of `logits`, {tuple(logits.shape)}"
        raise wrong("labels", rule, _got(labels), "Class indices go to `focal_loss`.")
    if is_concrete(logits) and bool(namespace(logits).any(namespace(logits).isnan(logits))):
        raise ValueError("`logits` must not contain nan. Find the step that produced it.")
    _check_unit(labels, name="labels", hint="Pass 0, 1, or a share between.")


SHOWN = 5
"""Most names that a message lists."""


def column_names(scores: Any) -> tuple[str, ...] | None:
    """Return the names of a data frame's columns; None for arrays and columns 0, 1, 2, ...

    Example:
        >>> column_names(np.zeros((2, 3))) is None
        True
    """
    columns = None if is_array_api_obj(scores) else getattr(scores, "columns", None)
    if columns is None or len(columns) < 2:
        return None
    names = tuple(str(name) for name in columns)
    return None if names == tuple(str(i) for i in range(len(names))) else names


def in_class_order(scores: Any, class_names: Sequence[str] | None, *, name: str) -> Any:
    """Return a data frame with its columns in the order of `class_names`; arrays as they are.

    What all columns begin with, such as ``prob_``, does not count.

    Raises:
        ValueError: the columns are not the classes.
    """
    names = column_names(scores)
    if names is None or class_names is None:
        return scores
    for cut in dict.fromkeys((0, _shared(names))):
        places = {n[cut:]: column for n, column in zip(names, scores.columns, strict=True)}
        if len(places) == len(names) and set(places) == set(class_names):
            return scores[[places[n] for n in class_names]]
    raise ValueError(
        f"`{name}` must have one column per class, {_listing(class_names)}, got "
        f"{_listing(names)}. Choose them: `df[{list(class_names[:SHOWN])!r}]`; to go by position, "
        "pass `df.to_numpy()`."
    )


def labels_for(scores: Any, labels: Any, class_names: Sequence[str] | None = None) -> Array:
    """Return the labels of the rows of `scores`, names of classes as positions.

    The classes are called as `class_names` says, or else as the columns. Numbers stay as they are,
    unless the columns are called by other numbers than 0, 1, 2, ...

    Raises:
        ValueError: labels are text that no column is called, or the rows are in another order.
    """
    check_same_order(scores, {"labels": labels})
    check_same_names(scores, class_names)
    found = array_of(labels)
    names = column_names(scores) if class_names is None else tuple(map(str, class_names))
    if not isinstance(found, np.ndarray) or found.ndim != 1:
        return found
    if found.dtype.kind == "b":
        return found.astype(np.int64)
    is_text = found.dtype.kind in "OUS"
    if names is None and is_text:
        raise ValueError(
            f"`labels` are text ({_listing(sorted(set(map(str, found[:1000]))))}), and nothing "
            "says which column is which class. Pass class numbers from 0, or scores in a data "
            "frame whose columns are called as the classes."
        )
    if names is None or not (is_text or (found.dtype.kind in "iu" and _are_numbers(names))):
        return found
    cut = _shared(names)
    values, where = np.unique(found.astype(str), return_inverse=True)
    for places in ({n: i for i, n in enumerate(names)}, {n[cut:]: i for i, n in enumerate(names)}):
        if set(values.tolist()) <= set(places):
            return np.array([places[v] for v in values.tolist()], np.int64)[where.reshape(-1)]
    unknown = [v for v in values.tolist() if v not in names]
    raise ValueError(
        f"`labels` must be names of classes, {_listing(names)}; found {_listing(unknown)}. If "
        "they are positions of columns, pass the scores as an array."
    )


def check_same_order(first: Any, others: Mapping[str, Any], *, name: str = "scores") -> None:
    """Raise if one of `others` has the index of `first` in another order; pandas only."""
    index = getattr(first, "index", None)
    for what, values in others.items():
        other = getattr(values, "index", None)
        if not (hasattr(index, "difference") and hasattr(other, "difference")):
            continue
        if index is None or other is None or len(index) != len(other) or index.equals(other):
            continue
        if index.is_unique and other.is_unique and not len(index.difference(other, sort=False)):
            raise ValueError(
                f"The {name} and `{what}` have the same index in another order. If rows belong "
                f"together by index, pass `{what}.reindex({name}.index)`; if by position, "
                f"`{what}.to_numpy()`."
            )


def check_same_names(scores: Any, class_names: Sequence[str] | None) -> None:
    """Raise if the columns of a data frame are called as the classes, in another order."""
    names = column_names(scores)
    if names is None or class_names is None:
        return
    given = [str(name) for name in class_names]
    if sorted(names) == sorted(given) and list(names) != given:
        raise ValueError(
            f"`class_names` are the columns in another order: {_listing(given)}, but the columns "
            f"are {_listing(names)}. Leave `class_names` away, as the columns name the classes; "
            f"for numbers as labels, choose the columns in their order: `df[{given[:SHOWN]!r}]`."
        )


def _are_numbers(names: Sequence[str]) -> bool:
    return all(name.lstrip("-").isdigit() for name in names)


def _shared(names: Sequence[str]) -> int:
    """Return the length of what all names begin with, up to a mark such as ``_``."""
    low, high = min(names), max(names)
    at = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))
    while at and low[at - 1].isalnum():
        at -= 1
    return at


def _listing(items: Sequence[object]) -> str:
    more = f" and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return ", ".join(map(str, items[:SHOWN])) + more


def check_sample_weight(
    sample_weight: Any, *, n_rows: int, name: str = "sample_weight"
) -> NDArray[np.float64]:
    """Return `sample_weight` as float64 ``[n_rows]``; raise unless finite, >= 0 and not all 0."""
    try:
        weights = np.asarray(to_numpy(sample_weight), dtype=np.float64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` must be one number per example: {error}.") from error
    if len(weights) != n_rows:
        raise wrong(name, f"have one weight per example, {n_rows}", f"got {len(weights)}")
    return _checked_weights(weights, name)


def check_label_weight(
    sample_weight: Any, *, shape: tuple[int, ...], name: str = "sample_weight"
) -> NDArray[np.float64]:
    """Return weights ``[N]`` or ``[N, C]`` of independent labels as float64 ``[N, C]``."""
    weights = np.asarray(to_numpy(sample_weight), dtype=np.float64)
    weights = weights[:, None] if weights.ndim == 1 else weights
    if weights.shape not in (shape, (shape[0], 1)):
        rule = f"be [N] or [N, C] for scores of shape {list(shape)}"
        raise wrong(name, rule, f"got {list(weights.shape)}")
    return np.ascontiguousarray(np.broadcast_to(_checked_weights(weights, name), shape))


def _checked_weights(weights: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row, found = int(np.argwhere(bad)[0, 0]), weights[bad][0]
        hint = "Give a row that should not count the weight 0."
        raise wrong(name, "be finite and >= 0", f"but row {row} has {found}", hint)
    if weights.size and not weights.any():
        raise ValueError(f"`{name}` must not be zero for every example.")
    return weights


def is_whole(weights: NDArray[np.float64]) -> bool:
    """Return whether every weight is a whole number, that is, counts repeated rows."""
    return bool((weights == np.rint(weights)).all())
