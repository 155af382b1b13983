"""Checks of scores: logits, probabilities, and one score per example for two classes."""

import math

from focalibrate._array import (
    Array,
    is_array_api_obj,
    is_concrete,
    is_numpy_array,
    namespace,
    stop_gradient,
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


def binary_probs(scores: Array, *, name: str = "probs") -> Array:
    """Return ``[..., 2]`` probabilities ``(1 - p, p)`` for probabilities `p` of class 1."""
    _check_scores(scores, name=name)
    xp = namespace(scores)
    if is_concrete(scores) and not bool(xp.all((scores >= 0) & (scores <= 1))):
        raise ValueError(
            f"`{name}` with `binary=True` must be probabilities of class 1 in [0, 1], found "
            f"[{float(xp.min(scores)):.3g}, {float(xp.max(scores)):.3g}]. "
            "If these are logits, apply `sigmoid` first."
        )
    return xp.stack([1.0 - scores, scores], axis=-1)


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
