"""The calibration methods by name: one vocabulary for the whole project."""

from collections.abc import Mapping, Sequence
from typing import Any

from focalibrate._array import Array
from focalibrate._check import check_choice
from focalibrate.calibrate.calibrator import Calibrator
from focalibrate.calibrate.choice import (
    AUTO,
    AVERAGE,
    AVERAGE_LABEL,
    explain_auto,
    fit_average,
)
from focalibrate.calibrate.rows import option_rows
from focalibrate.calibrate.single import SINGLE_METHODS, Method

METHODS: Mapping[str, Method] = {
    **SINGLE_METHODS,
    AVERAGE: Method(
        name=AVERAGE,
        label=AVERAGE_LABEL,
        complexity=11,
        fit=fit_average,
        default=False,
        treats_alike=True,
    ),
}
"""The methods, from simple to complex."""


def fit(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    method: str = AUTO,
    probs: Array | None = None,
    confidence: Array | None = None,
    correct: Array | None = None,
    option_logits: Sequence[Any] | None = None,
    sample_weight: Array | None = None,
    **options: Any,
) -> Calibrator:
    """Fit a calibrator: the one to deploy, or that of a method.

    ``method="auto"`` chooses by cross-validated log loss. The candidates are, from simple to
    complex, the model itself, temperature scaling, then Platt scaling and beta calibration for
    two classes or structured vector and matrix scaling for more, and an average of these with
    isotonic regression and the like (`Average`). The model is kept if its log loss is within one
    standard error of the lowest. Otherwise the first candidate within half a standard error of
    the lowest is taken. ``focalibrate calibrate`` and ``method="auto"`` of the estimators choose
    by the same rule; `explain_auto` says why.

    Args:
        logits: real array ``[N, K]`` of any library, data frame or list; ``[N]`` or ``[N, 1]`` are
            margins of class 1.
        labels: class indices ``[N]``.
        method: ``"auto"`` or one of `METHODS`; ``"posterior_recovery"`` and
            ``"focal_loss_temperature"`` need the option ``gamma``.
        probs: probabilities instead of logits; ``[N]`` or ``[N, 1]`` are those of class 1.
        confidence: instead of scores, a probability ``[N]`` of being right: class 1 of two.
        correct: instead of `labels`, whether it was, ``[N]``.
        option_logits: instead of logits, one list of scores per row, of any length: the options
            of a question. Labels are positions in it, and options are treated alike.
        sample_weight: one number >= 0 per row.
        options: keyword arguments of that method's own fit. Of ``"auto"``: ``trained_gamma``, the
            exponent of the focal loss that the model was trained with, which makes posterior
            recovery the second candidate; ``simple=True``, never the average; ``seed`` of the
            folds.

    Returns:
        The calibrator; its ``report`` says how the fit of a method went.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> truth = 2.0 * rng.standard_normal((2000, 4))
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> fit(3.0 * truth, labels).kind
        'temperature'
        >>> fit(truth, labels).kind
        'identity'
        >>> fit(truth, labels, method="posterior_recovery", gamma=2.0)
        PosteriorRecovery(gamma=2.0)
    """
    check_choice(method, (AUTO, *METHODS), name="method")
    if confidence is not None or correct is not None:
        if confidence is None or correct is None:
            raise ValueError("`confidence` and `correct` go together: one is missing.")
        if any(one is not None for one in (logits, probs, labels)):
            raise ValueError(
                "Pass either `confidence` and `correct`, or scores and `labels`, not both."
            )
        probs, labels = confidence, correct
    if option_logits is not None:
        if logits is not None or probs is not None:
            raise ValueError("Pass one of `logits`, `probs` and `option_logits`.")
        logits = option_rows(option_logits, labels, sample_weight=sample_weight)
        if method != AUTO and not METHODS[method].treats_alike:
            raise ValueError(f"`method` must treat options alike, got {method!r}.")
    given: dict[str, Any] = {"probs": probs, "sample_weight": sample_weight}
    if method == AUTO:
        return explain_auto(logits=logits, labels=labels, **given, **options).calibrator
    found: Calibrator = METHODS[method].fit(logits, labels, **given, **options)
    return found
