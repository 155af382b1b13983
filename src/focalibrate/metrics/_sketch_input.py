"""The arguments of `Sketch.of`, checked and as NumPy rows."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, array_of, to_numpy
from focalibrate._check import check_labels, check_log_probs, check_logits, check_rows, labels_for
from focalibrate.metrics._rows import read
from focalibrate.metrics._sketch_rows import Given


def read_given(
    probs: Array | None, log_probs: Array | None, logits: Array | None, labels: Array | None
) -> tuple[Given, NDArray[Any], NDArray[np.intp]]:
    """Return what was given, its rows ``[N, K]`` and the labels ``[N]``."""
    pairs: tuple[tuple[Given, Array | None], ...] = (
        ("probs", probs),
        ("log_probs", log_probs),
        ("logits", logits),
    )
    named = {name: value for name, value in pairs if value is not None}
    if len(named) != 1 or labels is None:
        raise ValueError(
            "`Sketch.of` takes `labels` and exactly one of `probs`, `log_probs` and `logits`, got "
            f"{', '.join(named) or 'none of them'}{'' if labels is not None else ', no `labels`'}."
        )
    ((given, scores),) = named.items()
    if given == "probs":
        return given, *read(scores, labels, binary=np.ndim(scores) == 1)
    labels, scores = labels_for(scores, labels), array_of(scores)
    check_rows(scores, name=given)
    (check_logits if given == "logits" else check_log_probs)(scores, name=given)
    check_labels(labels, shape=tuple(scores.shape[:-1]), n_classes=scores.shape[-1])
    rows = to_numpy(scores).reshape(-1, scores.shape[-1])
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float32)
    return given, rows, to_numpy(labels).reshape(-1).astype(np.intp, copy=False)


def read_groups(groups: Array | Mapping[str, Array] | None, n: int) -> dict[str, NDArray[Any]]:
    """Return the columns of groups ``[n]`` by name."""
    if groups is None:
        return {}
    named = groups if isinstance(groups, Mapping) else {"group": groups}
    found = {}
    for name, column in named.items():
        values = np.asarray(to_numpy(column)).reshape(-1)
        if len(values) != n:
            raise ValueError(f"`groups`: column {name!r} must have {n} rows, got {len(values)}.")
        found[name] = values
    return found
