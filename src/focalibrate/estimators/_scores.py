"""Logits of a scikit-learn classifier."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def classifier_logits(estimator: Any, X: Any) -> NDArray[np.float64]:
    r"""Return logits ``[N, K]`` in the order of ``estimator.classes_``.

    ``decision_function`` where there is one, a binary score `s` as ``(0, s)``; else
    ``log(predict_proba)``.

    Numerics:
        Trees and neighbours give probability 0 to classes that do occur, which no log loss
        survives. Probabilities are raised to the rounding of 1, 2e-16 for float64, which
        moves no other entry.
    """
    n_classes = len(estimator.classes_)
    if hasattr(estimator, "decision_function"):
        scores = np.asarray(estimator.decision_function(X))
        if scores.ndim == 1 and n_classes == 2:
            scores = np.stack([np.zeros_like(scores), scores], axis=-1)
    else:
        probs = np.asarray(estimator.predict_proba(X))
        floor = np.finfo(probs.dtype if probs.dtype.kind == "f" else np.float64).eps
        scores = np.log(np.maximum(probs, floor))
    if scores.ndim != 2 or scores.shape[1] != n_classes:
        raise ValueError(
            f"`estimator` must give one score a class, shape [N, {n_classes}], but "
            f"{type(estimator).__name__} gives {scores.shape}. Set "
            "decision_function_shape='ovr' where it has that option."
        )
    return scores.astype(np.float64, copy=False)
