"""Scores of a scikit-learn classifier."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io import ScoreKind


def classifier_scores(estimator: Any, X: Any) -> tuple[NDArray[np.float64], ScoreKind]:
    """Return scores ``[N, K]`` in the order of ``estimator.classes_``, and what they are.

    Logits from ``decision_function`` where there is one, a binary score `s` as ``(0, s)``; else
    probabilities from ``predict_proba``. Trees and neighbours give probability 0 to classes that
    do occur: the fits have a rule for that (`Calibrator.zero_mix`).
    """
    n_classes = len(estimator.classes_)
    kind: ScoreKind = "logits" if hasattr(estimator, "decision_function") else "probs"
    method = "decision_function" if kind == "logits" else "predict_proba"
    if not hasattr(estimator, method):
        raise TypeError(
            f"`estimator` must have `decision_function` or `predict_proba`, but "
            f"{type(estimator).__name__} has neither."
        )
    scores = np.asarray(getattr(estimator, method)(X)).astype(np.float64, copy=False)
    if scores.ndim == 2 and scores.shape[1] == 1 and n_classes == 2:
        scores = scores[:, 0]
    if scores.ndim == 1 and n_classes == 2:
        first = np.zeros_like(scores) if kind == "logits" else 1.0 - scores
        scores = np.stack([first, scores], axis=-1)
    if scores.ndim != 2 or scores.shape[1] != n_classes:
        raise ValueError(
            f"`estimator` must give one score per class, shape [N, {n_classes}], but "
            f"{type(estimator).__name__} gives {scores.shape}. Set "
            "decision_function_shape='ovr' where it has that option."
        )
    if kind == "probs":
        # float32 rounds sums of many classes; the fits want rows that sum to 1.
        scores = scores / scores.sum(axis=1, keepdims=True)
    return scores, kind
