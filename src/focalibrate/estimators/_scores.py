"""Scores of a scikit-learn classifier."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config

from focalibrate._array import is_array_api_obj, is_numpy_array, like, namespace, to_numpy
from focalibrate.io import ScoreKind


def as_given(found: NDArray[Any], X: Any) -> Any:
    """Return `found` in the library, on the device and in the precision of `X`.

    Only where scikit-learn is told to do so (``array_api_dispatch=True``); labels that are text
    stay in NumPy, as no other library has them.
    """
    is_foreign = is_array_api_obj(X) and not is_numpy_array(X)
    if not (get_config()["array_api_dispatch"] and is_foreign) or found.dtype.kind in "OUS":
        return found
    is_float = found.dtype.kind == "f"
    dtype = X.dtype if is_float and "float" in str(X.dtype) else None
    return like(found.tolist(), X, dtype=dtype or getattr(namespace(X), found.dtype.name))


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
    scores = to_numpy(getattr(estimator, method)(X)).astype(np.float64, copy=False)
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
