"""Every input check, and so every error message, of the toolkit.

A check of values runs only if values can be read: under `jax.jit`, `torch.compile`
or `vmap` the checks on shapes and dtypes remain.
"""

import math
from collections.abc import Collection, Iterable, Sequence
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


def check_gamma(gamma: Any, *, minimum: float = 0.0, name: str = "gamma") -> None:
    """Raise `ValueError` unless `gamma`, a number or an array, is finite and >= `minimum`."""
    rule = f"`{name}` must be a finite number >= {minimum:g}"
    if is_array_api_obj(gamma):
        if not is_concrete(gamma):
            return
        xp = namespace(gamma)
        if not bool(xp.all(xp.isfinite(gamma))) or not bool(xp.all(gamma >= minimum)):
            low = float(xp.min(gamma))
            raise ValueError(f"{rule}, but the array has a smallest entry of {low!r}.")
        return
    if isinstance(gamma, (str, bool)) or not isinstance(gamma, (int, float)):
        raise ValueError(f"{rule}, got {gamma!r}.")
    if not minimum <= gamma < math.inf:  # not `isfinite`, which a compiler cannot trace
        raise ValueError(f"{rule}, got {gamma!r}.")


def check_count(value: object, *, name: str, minimum: int = 1, hint: str = "") -> None:
    """Raise `ValueError` unless `value` is a whole number >= `minimum`."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or value.__index__() < minimum:
        raise ValueError(f"`{name}` must be a whole number >= {minimum}, got {value!r}.{hint}")


def check_n_bins(n_bins: object, *, name: str = "n_bins") -> None:
    """Raise `ValueError` unless `n_bins` is a whole number >= 1."""
    check_count(n_bins, name=name, hint=" The papers use 15.")


def check_n_classes(n_classes: object, *, name: str = "n_classes") -> None:
    """Raise `ValueError` unless `n_classes` is a whole number >= 2."""
    check_count(n_classes, name=name, minimum=2)


def check_unit_interval(value: float, *, name: str) -> None:
    """Raise `ValueError` unless `value` is a number in [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
        raise ValueError(f"`{name}` must be a number in [0, 1], got {value!r}.")


def check_positive(value: float, *, name: str) -> None:
    """Raise `ValueError` unless `value` is a finite number > 0."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0.0 < value < math.inf:
        raise ValueError(f"`{name}` must be a finite number > 0, got {value!r}.")


def check_open_interval(value: float, *, low: float, high: float, name: str) -> None:
    """Raise `ValueError` unless `value` is a number strictly between `low` and `high`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low < value < high:
        raise ValueError(f"`{name}` must be a number in ({low:g}, {high:g}), got {value!r}.")


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
        raise ValueError(
            f"`edges` must be a list of at least two numbers, got shape {tuple(edges.shape)}. "
            "`n_bins` bins have `n_bins + 1` edges."
        )
    if not (edges[0] == 0 and edges[-1] == 1 and bool((edges[1:] >= edges[:-1]).all())):
        raise ValueError(
            f"`edges` must be non-decreasing from 0 to 1, got {edges.tolist()}. "
            "Put 0 first and 1 last."
        )


PROBS_ATOL = 1e-5
"""How far a row of probabilities may be from summing to 1 (float32 softmax: about 1e-6)."""
HALF_PROBS_ATOL = 1e-2
"""The same for float16 and bfloat16, which have about 3 digits."""


def is_floating(x: Array) -> bool:
    return "float" in str(x.dtype)


def _atol(x: Array) -> float:
    bits = 16 if "bfloat16" in str(x.dtype) else namespace(x).finfo(x.dtype).bits
    return HALF_PROBS_ATOL if bits < 32 else PROBS_ATOL


def first_row(bad: Array) -> int:
    """Return the index of the first true entry of a flattened boolean array."""
    xp = namespace(bad)
    return int(xp.argmax(xp.astype(xp.reshape(bad, (-1,)), xp.int32)))


def _check_matrix(x: Array, *, name: str) -> None:
    """Raise unless `x` is a non-empty floating array ``[..., K]`` with K >= 2."""
    if not is_array_api_obj(x):
        raise ValueError(
            f"`{name}` must be an array, got {type(x).__name__}. Wrap it: `np.asarray({name})`."
        )
    if not is_floating(x):
        raise ValueError(
            f"`{name}` must be floating point, got dtype {x.dtype}. Convert it to float32 first."
        )
    if x.ndim == 0:
        raise ValueError(f"`{name}` must have shape [..., K], got a single number.")
    if 0 in x.shape:
        raise ValueError(
            f"`{name}` must not be empty, got shape {tuple(x.shape)}. Pass at least one example."
        )
    if x.shape[-1] < 2:
        raise ValueError(
            f"`{name}` must have at least 2 classes on its last axis, got shape "
            f"{tuple(x.shape)}. For one score per example pass shape [N] and `binary=True`."
        )


def check_logits(logits: Array, *, name: str = "logits") -> None:
    """Raise `ValueError` unless `logits` are ``[..., K]``, free of nan and +inf.

    -inf marks an impossible class and is allowed, but not for every class of a row.
    """
    _check_matrix(logits, name=name)
    if not is_concrete(logits):
        return
    xp = namespace(logits)
    top = xp.max(
        stop_gradient(logits), axis=-1
    )  # nan and +inf propagate to the top, -inf only if all are
    bad = ~xp.isfinite(top)
    if bool(xp.any(bad)):
        row = first_row(bad)
        value = float(xp.reshape(top, (-1,))[row])
        if value == -math.inf:
            raise ValueError(
                f"`{name}` must leave at least one class possible, but every entry of row {row} "
                "is -inf. Unmask one class or drop the row."
            )
        raise ValueError(
            f"`{name}` must not contain nan or +inf, but row {row} contains {value}. "
            "Drop the row or find the step that produced it."
        )


def check_class_axis(logits: Array, *, name: str = "logits") -> None:
    """Raise `ValueError` unless `logits` are ``[N, K, ...]`` or ``[K]``; values are not read."""
    if not is_array_api_obj(logits) or not is_floating(logits) or logits.ndim == 0:
        found = logits.dtype if is_array_api_obj(logits) else type(logits).__name__
        raise ValueError(
            f"`{name}` must be a floating tensor of shape [K] or [N, K, ...], got {found}. "
            "Pass the raw output of the model."
        )
    if 0 in logits.shape:
        raise ValueError(
            f"`{name}` must not be empty, got shape {tuple(logits.shape)}. "
            "Pass at least one example."
        )
    if logits.shape[min(1, logits.ndim - 1)] < 2:
        raise ValueError(
            f"`{name}` must have at least 2 classes on its class axis, got shape "
            f"{tuple(logits.shape)}. For one score per example use `SigmoidFocalLoss`."
        )


def is_on_simplex(probs: Array) -> bool:
    xp = namespace(probs)
    off = xp.abs(xp.sum(probs, axis=-1) - 1.0)
    return bool(xp.all(off <= _atol(probs))) and bool(xp.all(probs >= 0))


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
            raise ValueError(f"`{name}` must not contain nan, but row {row} does. Drop the row.")
        hint = "If these are logits, apply `softmax` first."
        if low >= 0.0 and off < 0.05:
            hint = f"If they were rounded: `{name} / {name}.sum(axis=-1, keepdims=True)`."
        raise ValueError(
            f"`{name}` must be probabilities over its last axis, but its smallest "
            f"entry is {low:.3g} and its worst row sum is off by {off:.3g}. {hint}"
        )


def check_log_probs(log_probs: Array, *, name: str = "log_probs") -> None:
    """Raise `ValueError` unless the rows of `log_probs`, ``[..., K]``, are logs of a simplex."""
    check_logits(log_probs, name=name)
    if not is_concrete(log_probs):
        return
    xp = namespace(log_probs)
    total = xp.sum(xp.exp(stop_gradient(log_probs)), axis=-1)
    off = float(xp.max(xp.abs(total - 1.0)))
    if not off <= _atol(log_probs):
        raise ValueError(
            f"`{name}` must be logs of probabilities over the last axis, but the probabilities "
            f"of a row sum to 1 only within {off:.3g}. If these are logits, apply "
            "`log_softmax` first."
        )


def check_unit_array(p: Array, *, name: str) -> None:
    """Raise `ValueError` unless `p` is a floating array with entries in [0, 1]."""
    if not is_array_api_obj(p) or not is_floating(p):
        raise ValueError(
            f"`{name}` must be a floating array, got {getattr(p, 'dtype', type(p).__name__)}. "
            f"Convert it: `np.asarray({name}, float)`."
        )
    if not is_concrete(p) or 0 in p.shape:
        return
    xp = namespace(p)
    if not bool(xp.all((p >= 0) & (p <= 1))):
        raise ValueError(
            f"`{name}` must lie in [0, 1], found entries from {float(xp.min(p)):.3g} to "
            f"{float(xp.max(p)):.3g}. If these are logits, apply `softmax` first."
        )


def binary_logits(scores: Array, *, name: str = "logits") -> Array:
    """Return ``[..., 2]`` logits ``(0, s)`` for binary scores `s` (log-odds of class 1)."""
    _check_scores(scores, name=name)
    xp = namespace(scores)
    return xp.stack([xp.zeros_like(scores), scores], axis=-1)


def check_binary_probs(scores: Array, *, name: str = "probs") -> None:
    """Raise `ValueError` unless `scores` are probabilities of class 1, ``[N]``."""
    _check_scores(scores, name=name)
    xp = namespace(scores)
    if is_concrete(scores) and not bool(xp.all((scores >= 0) & (scores <= 1))):
        raise ValueError(
            f"`{name}` with `binary=True` must be probabilities of class 1 in [0, 1], found "
            f"[{float(xp.min(scores)):.3g}, {float(xp.max(scores)):.3g}]. "
            "If these are logits, apply `sigmoid` first."
        )


def _check_scores(scores: Array, *, name: str) -> None:
    if not is_array_api_obj(scores) or not is_floating(scores) or scores.ndim != 1:
        found = tuple(scores.shape) if is_array_api_obj(scores) else type(scores).__name__
        raise ValueError(
            f"`{name}` with `binary=True` must be a floating array of shape [N], one score per "
            f"example, got {found}. For [N, K] leave `binary` out."
        )
    if 0 in scores.shape:
        raise ValueError(f"`{name}` must not be empty, got shape {tuple(scores.shape)}.")


def check_rows(probs: Array, *, name: str = "probs") -> None:
    """Raise `ValueError` for shape ``[N]``, which may be one score each or one example."""
    if is_array_api_obj(probs) and probs.ndim == 1:
        raise ValueError(
            f"`{name}` must have shape [..., K] with at least one axis of examples, got shape "
            f"{tuple(probs.shape)}. If these are probabilities of class 1, one per example, pass "
            f"`binary=True`; if they are one example, pass `{name}[None, :]`."
        )


def check_label_form(
    labels: Array, *, shape: tuple[int, ...], n_classes: int, name: str = "labels"
) -> None:
    """Raise `ValueError` unless `labels` is an integer array of `shape`; values are not read."""
    if not is_array_api_obj(labels):
        raise ValueError(
            f"`{name}` must be an array of class indices, got {type(labels).__name__}. "
            f"Wrap it: `np.asarray({name})`."
        )
    xp = namespace(labels)
    if not xp.isdtype(labels.dtype, "integral"):
        raise ValueError(
            f"`{name}` must be integer class indices, got dtype {labels.dtype}. Convert them "
            "to int64; soft targets must have the shape of the logits."
        )
    if tuple(labels.shape) != tuple(shape):
        hint = "Pass one label per example."
        if tuple(labels.shape) == (*shape, n_classes):
            hint += " For one score per example pass `binary=True`."
        raise ValueError(f"`{name}` must have shape {shape}, got {tuple(labels.shape)}. {hint}")


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
        bad = (labels < 0) | (labels >= n_classes)
        raise ValueError(
            f"`{name}` must lie in [0, {n_classes - 1}] for {n_classes} classes, found "
            f"[{low}, {high}], first at row {first_row(bad)}. Number the classes from 0."
        )


def check_class_weight(weight: Array, *, n_classes: int, name: str = "weight") -> None:
    """Raise `ValueError` unless `weight` is an array with one number >= 0 per class."""
    if not is_array_api_obj(weight) or tuple(weight.shape) != (n_classes,):
        found = tuple(weight.shape) if is_array_api_obj(weight) else type(weight).__name__
        raise ValueError(
            f"`{name}` must be an array with one entry per class, shape ({n_classes},), "
            f"got {found}."
        )
    if is_concrete(weight) and not bool(namespace(weight).all(weight >= 0)):
        raise ValueError(f"`{name}` must hold numbers >= 0, got {weight}.")


def check_targets(logits: Array, labels: Array, *, name: str = "labels") -> bool:
    """Check `labels` against `logits`; return True for soft targets, False for class indices."""
    check_logits(logits)
    if is_array_api_obj(labels) and is_floating(labels) and labels.shape == logits.shape:
        if logits.ndim == 1 and is_concrete(labels) and not is_on_simplex(labels):
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
    for x, name in ((logits, "logits"), (labels, "labels")):
        if not is_array_api_obj(x):
            raise ValueError(f"`{name}` must be an array, got {type(x).__name__}.")
    if not is_floating(logits):
        raise ValueError(f"`logits` must be floating point, got dtype {logits.dtype}.")
    if 0 in logits.shape:
        raise ValueError(f"`logits` must not be empty, got shape {tuple(logits.shape)}.")
    if tuple(labels.shape) != tuple(logits.shape):
        raise ValueError(
            f"`labels` must have the shape of `logits`, {tuple(logits.shape)}, got "
            f"{tuple(labels.shape)}. Class indices go to `focal_loss`."
        )
    if not (is_concrete(logits) and is_concrete(labels)):
        return
    xp = namespace(logits)
    if bool(xp.any(xp.isnan(logits))):
        raise ValueError("`logits` must not contain nan. Find the step that produced it.")
    if not is_floating(labels):
        labels = xp.astype(labels, xp.int64)
    low, high = float(xp.min(labels)), float(xp.max(labels))
    if not (low >= 0.0 and high <= 1.0):
        raise ValueError(f"`labels` must lie in [0, 1], found [{low:g}, {high:g}].")


def check_confidence(confidence: Array, correct: Array) -> None:
    """Raise `ValueError` unless both are ``[N]`` in [0, 1]; `correct` may be booleans."""
    _check_scores(confidence, name="confidence")
    xp = namespace(confidence)
    if not bool(xp.all((confidence >= 0) & (confidence <= 1))):
        raise ValueError(
            f"`confidence` must lie in [0, 1], found [{float(xp.min(confidence)):.3g}, "
            f"{float(xp.max(confidence)):.3g}]. Pass probabilities, not logits or percent."
        )
    if not is_array_api_obj(correct) or tuple(correct.shape) != tuple(confidence.shape):
        found = tuple(correct.shape) if is_array_api_obj(correct) else type(correct).__name__
        raise ValueError(
            f"`correct` must have shape {tuple(confidence.shape)} like `confidence`, got {found}. "
            "Pass one value per example."
        )
    if not bool(namespace(correct).all((correct >= 0) & (correct <= 1))):
        raise ValueError(
            "`correct` must be 0 or 1 (or booleans; a share in [0, 1] for a tie). Pass "
            "`predicted == labels`."
        )


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
    _check_same_order(scores, labels)
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


def _check_same_order(scores: Any, labels: Any) -> None:
    """Raise if both have an index, the same but in another order."""
    one, other = getattr(scores, "index", None), getattr(labels, "index", None)
    if not (hasattr(one, "difference") and hasattr(other, "difference")):  # pandas only
        return
    if one is None or other is None or len(one) != len(other) or one.equals(other):
        return
    if one.is_unique and other.is_unique and not len(one.difference(other, sort=False)):
        raise ValueError(
            "The scores and `labels` have the same index in another order. If rows belong "
            "together by index, pass `labels.reindex(scores.index)`; if by position, "
            "`labels.to_numpy()`."
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
        raise ValueError(
            f"`{name}` must have one weight per example, {n_rows}, got {len(weights)}."
        )
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"`{name}` must be finite and >= 0, but row {row} has {weights[row]}. "
            "Give a row that should not count the weight 0."
        )
    if n_rows and not weights.any():
        raise ValueError(f"`{name}` must not be zero for every example.")
    return weights


def check_label_weight(
    sample_weight: Any, *, shape: tuple[int, ...], name: str = "sample_weight"
) -> NDArray[np.float64]:
    """Return weights ``[N]`` or ``[N, C]`` of independent labels as float64 ``[N, C]``.

    Raise `ValueError` unless finite, >= 0 and not all 0.
    """
    weights = np.asarray(to_numpy(sample_weight), dtype=np.float64)
    weights = weights[:, None] if weights.ndim == 1 else weights
    if weights.shape not in (shape, (shape[0], 1)):
        raise ValueError(
            f"`{name}` must be [N] or [N, C] for scores of shape {list(shape)}, got "
            f"{list(weights.shape)}."
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError(f"`{name}` must be finite and >= 0, and not 0 everywhere.")
    return np.ascontiguousarray(np.broadcast_to(weights, shape))


def is_whole(weights: NDArray[np.float64]) -> bool:
    """Return whether every weight is a whole number, that is, counts repeated rows."""
    return bool((weights == np.rint(weights)).all())
