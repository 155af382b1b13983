"""Predictions with labels, from a file or from arrays, ready for the calibrators."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, to_numpy
from focalibrate._check import check_labels, check_probs
from focalibrate.io import Predictions, as_logits, read_predictions

LEAST_LOG_PROB = float(np.log(np.finfo(np.float32).smallest_normal))
"""What a probability of exactly 0 is read as: one that float32 rounds to 0, about 1e-38."""


@dataclass(frozen=True, eq=False)
class Examples:
    """Logits and labels of the same rows."""

    logits: NDArray[Any]
    """``[N, K]``"""
    labels: NDArray[np.int64]
    """class positions ``[N]``"""
    class_names: tuple[str, ...] | None = None
    predictions: Predictions | None = None
    """what was read, where they come from a file"""

    @classmethod
    def of_predictions(cls, found: Predictions) -> "Examples":
        """Return the examples of a file that was read."""
        if found.labels is None:
            raise ValueError(
                f"{found.source}: no labels found. Put them into the file, or pass a file of "
                "labels (command line: --labels FILE)."
            )
        logits = as_logits(found)
        if found.kind == "probs":
            logits = np.maximum(logits, logits.dtype.type(LEAST_LOG_PROB))
        return cls(logits, found.labels, found.class_names, found)

    @classmethod
    def of_arrays(
        cls, *, logits: Array | None = None, probs: Array | None = None, labels: Array | None
    ) -> "Examples":
        """Return the examples of arrays, of which exactly one of `logits` and `probs` is given."""
        if (logits is None) == (probs is None):
            found = "neither" if logits is None else "both"
            raise ValueError(
                f"Exactly one of `logits` and `probs` must be given, got {found}. Pass `logits` "
                "for scores before the softmax and `probs` for probabilities."
            )
        if labels is None:
            raise ValueError("`labels` must be given with `logits` or `probs`, got None.")
        scores = to_numpy(logits if probs is None else probs)
        targets = to_numpy(labels)
        check_labels(targets, shape=scores.shape[:-1], n_classes=scores.shape[-1])
        if probs is not None:
            check_probs(scores)
            with np.errstate(divide="ignore"):
                scores = np.maximum(np.log(scores), scores.dtype.type(LEAST_LOG_PROB))
        return cls(scores, targets.astype(np.int64))


Source = str | os.PathLike[str] | Predictions
"""A file of predictions, or one that was read."""


def read_source(source: Source) -> Examples:
    """Return the examples of a file or of predictions that were read."""
    found = source if isinstance(source, Predictions) else read_predictions(Path(source))
    return Examples.of_predictions(found)
