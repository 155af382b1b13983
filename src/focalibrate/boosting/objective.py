"""Losses as objectives of XGBoost and LightGBM, and true probabilities from their margins."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate._check import binary_logits, check_choice, check_gamma, check_open_interval
from focalibrate.calibrate import PosteriorRecovery
from focalibrate.losses import focal_loss
from focalibrate.metrics.rows import row_chunks
from focalibrate.theory import LossForm, recover_by_gradient, recover_posterior

Curvature = Literal["exact", "bound"]
"""``"exact"``: the second derivative, floored; ``"bound"``: :math:`\\varphi\\,v(1-v)`."""

FOCAL_FLOOR = 0.05
"""Smallest curvature of the focal loss, as a share of the bound: the loss is not convex in the
margins, and a tree needs positive weights. Steps are at most 20 times those of the bound."""
NEAR_CERTAIN = 1e-6
"""Below this :math:`1 - p` the ratio r is taken from its series: the error is under 1e-12."""
TINY = 1e-140
"""Below this :math:`1 - p` every derivative is 0 in floating point, and ratios may overflow."""
STEP = 1e-3
FLOOR = 1e-3
"""Smallest curvature of other losses."""
Objective: TypeAlias = Callable[[Any, Any], tuple[Any, Any]]
Convention = Literal["scikit_learn", "native"]


@final
@dataclass(frozen=True, kw_only=True)
class FocalObjective:
    """Focal loss, or another, for boosted trees: pass it where a library takes an objective.

    ==========================================  =================================================
    library                                     pass
    ==========================================  =================================================
    ``xgb.train(params, d, obj=…)``             ``objective``
    ``xgb.train(…, custom_metric=…)``           ``objective.xgboost_metric``
    ``XGBClassifier(objective=…)``              ``objective``
    ``lgb.train({"objective": …}, d)``          ``objective``
    ``lgb.train(…, feval=…)``                   ``objective.lightgbm_metric``
    ``LGBMClassifier(objective=…)``             ``objective``
    ==========================================  =================================================

    The model then gives margins (raw scores), not probabilities: ask for them with
    ``output_margin=True`` (XGBoost) or ``raw_score=True`` (LightGBM), and pass them to
    ``objective.probs``. Start from a margin of 0: ``base_score=0`` in ``xgb.train``, and
    ``base_score=0.5`` in ``XGBClassifier``, which takes it for a probability.

    Args:
        gamma: focusing exponent, ``>= 0``; 0 is the log loss.
        alpha: for two classes, the weight of class 1, class 0 having ``1 - alpha``.
        class_weight: one positive weight per class, in place of `alpha`.
        curvature: ``"exact"`` second derivatives (floored), or their positive ``"bound"``, which
            takes smaller and safer steps: see `focal_derivatives`.
        loss: another loss in place of the focal one, as `focalibrate.theory.loss_form` returns it:
            of single labels or of classes alike, without weights. Its derivatives are difference
            quotients, which are slower.

    Example:
        >>> objective = FocalObjective(gamma=2.0)
        >>> margins, labels = np.array([0.0, 3.0]), np.array([1, 1])
        >>> gradient, curvature = objective(labels, margins)
        >>> gradient.round(4)
        array([-0.2983, -0.0003])
        >>> objective.probs(margins)[:, 1].round(4)
        array([0.5   , 0.9997])
        >>> from focalibrate.theory import loss_form
        >>> other = FocalObjective(loss=loss_form("poly_focal", gamma=2.0, epsilon=1.0))
        >>> other(np.array([1, 0]), np.array([0.0, 2.0]))[0].round(3)
        array([-0.486,  1.321])
    """

    gamma: float = field(default=2.0, kw_only=False)
    alpha: float | None = None
    class_weight: tuple[float, ...] | None = None
    curvature: Curvature = "exact"
    loss: LossForm | None = None

    def __post_init__(self) -> None:
        check_gamma(self.gamma)
        check_choice(self.curvature, ("exact", "bound"), name="curvature")
        if self.loss is not None and self.weights is not None:
            raise ValueError(
                "`class_weight` and `alpha` must be left out where `loss` is given; weight rows "
                "by `sample_weight`."
            )
        if self.alpha is not None:
            check_open_interval(self.alpha, low=0.0, high=1.0, name="alpha")
            if self.class_weight is not None:
                raise ValueError(
                    "`alpha` and `class_weight` must not be given together: alpha=a means "
                    "class_weight=(1 - a, a)."
                )
        if self.class_weight is not None:
            weight = tuple(float(w) for w in self.class_weight)
            if len(weight) < 2 or not all(0.0 < w < np.inf for w in weight):
                raise ValueError(
                    "`class_weight` must hold one finite number > 0 per class, got "
                    f"{self.class_weight!r}."
                )
            object.__setattr__(self, "class_weight", weight)

    @property
    def weights(self) -> tuple[float, ...] | None:
        """One weight per class, from `class_weight` or `alpha`."""
        return self.class_weight if self.alpha is None else (1.0 - self.alpha, self.alpha)

    def recovery(self) -> PosteriorRecovery:
        """Return the calibrator that takes this objective's margins to probabilities."""
        if self.loss is not None:
            return PosteriorRecovery(loss=self.loss)
        return PosteriorRecovery(gamma=self.gamma, class_weight=self.weights)

    def probs(self, margins: NDArray[Any]) -> Floats:
        """Return class probabilities ``[N, K]`` from margins ``[N]`` or ``[N, K]``.

        With another `loss`, nan for rows that no posterior can have produced.
        """
        z = np.asarray(margins, dtype=np.float64)
        if self.loss is not None and self.loss.head == "sigmoid":
            p = recover_posterior(logits=z, loss=self.loss)
            return np.stack([1.0 - p, p], axis=1)
        return np.asarray(self.recovery().probs(_both(z)))

    def __call__(
        self, first: Any, second: Any, sample_weight: Any = None
    ) -> tuple[Floats, Floats]:
        """Return gradient and curvature in the form that the calling library expects.

        ``xgb.train`` and ``lgb.train`` pass margins and data, their scikit-learn classes labels
        and margins, and weights of rows where `fit` was given any.
        """
        y, z, weight = self._called_with(first, second, sample_weight)
        if self.loss is None:
            gradient, curvature = focal_derivatives(z, y, self.gamma, curvature=self.curvature)
        else:
            gradient, curvature = _differences(lambda z: self._losses(y, z), z)
        if weight is None:
            return gradient, curvature
        weight = weight.reshape(-1, *[1] * (z.ndim - 1))
        return gradient * weight, curvature * weight

    def mean_loss(self, first: Any, second: Any, sample_weight: Any = None) -> float:
        """Return the weighted mean of the loss, what training lowers; called in the same way."""
        y, z, weight = self._called_with(first, second, sample_weight)
        return float(np.average(self._losses(y, z), weights=weight))

    def xgboost_metric(self, margins: NDArray[Any], data: Any) -> tuple[str, float]:
        """Return ``("loss", value)`` for ``xgb.train(custom_metric=…)``."""
        return "loss", self.mean_loss(margins, data)

    def lightgbm_metric(self, margins: NDArray[Any], data: Any) -> tuple[str, float, bool]:
        """Return ``("loss", value, False)`` for ``lgb.train(feval=…)``."""
        return "loss", self.mean_loss(margins, data), False

    def _called_with(
        self, first: Any, second: Any, sample_weight: Any
    ) -> tuple[NDArray[np.intp], Floats, Floats | None]:
        """Return labels, margins and weights, those of classes included."""
        labels, margins = first, second
        if hasattr(second, "get_label"):  # margins and data
            labels, margins, sample_weight = second.get_label(), first, second.get_weight()
        y, z = np.asarray(labels).astype(np.intp), np.asarray(margins, dtype=np.float64)
        n_classes, weight = (2 if z.ndim == 1 else z.shape[1]), None
        if self.weights is not None:
            if len(self.weights) != n_classes:
                raise ValueError(
                    f"`class_weight` must have one entry for each of the {n_classes} classes, got "
                    f"{len(self.weights)}."
                )
            weight = np.asarray(self.weights)[y]
        if sample_weight is not None and np.size(sample_weight):
            weight = np.asarray(sample_weight) * (1.0 if weight is None else weight)
        return y, z, weight

    def _losses(self, labels: NDArray[np.intp], margins: Floats) -> Floats:
        """Return the loss of each row."""
        if self.loss is None:
            return np.asarray(focal_loss(_both(margins), labels, gamma=self.gamma))
        is_sigmoid = self.loss.head == "sigmoid"
        if is_sigmoid and margins.ndim != 1:
            raise ValueError(
                f"`margins` must be those of two classes, shape [N], for the loss "
                f"{self.loss.name!r} of single labels, got {margins.shape}."
            )
        z = margins if is_sigmoid else _both(margins)
        return np.asarray(self.loss.by_label(z))[np.arange(len(z)), labels]


def _both(margins: Floats) -> Floats:
    """Return margins ``[N, K]``, of two classes where they are log-odds ``[N]``."""
    return np.asarray(binary_logits(margins)) if margins.ndim == 1 else margins


def _differences(value: Callable[[Floats], Floats], z: Floats) -> tuple[Floats, Floats]:
    """Return first and second derivatives by five points, good to about nine and six digits."""
    first, second = np.empty_like(z), np.empty_like(z)
    columns: list[Any] = [np.s_[:]] if z.ndim == 1 else [np.s_[:, k] for k in range(z.shape[1])]
    for column in columns:
        values = []
        for k in (-2, -1, 0, 1, 2):
            moved = z.copy()
            moved[column] += k * STEP
            values.append(value(moved))
        far_left, left, here, right, far_right = values
        first[column] = (far_left - 8.0 * left + 8.0 * right - far_right) / (12.0 * STEP)
        bend = -far_left + 16.0 * left - 30.0 * here + 16.0 * right - far_right
        second[column] = np.maximum(bend / (12.0 * STEP**2), FLOOR)
    return first, second


def focal_derivatives(
    margins: NDArray[Any],
    labels: NDArray[Any],
    gamma: float,
    *,
    curvature: Curvature = "exact",
) -> tuple[Floats, Floats]:
    r"""Gradient and curvature of the focal loss of each row, per class.

    With :math:`v = \operatorname{softmax}(z)`, :math:`p = v_y` and :math:`\varphi`, :math:`r` of
    `focalibrate.theory.phi`,

    .. math:: \frac{\partial\ell}{\partial z_k} = \varphi(p)(v_k - [k = y]), \qquad
              \frac{\partial^2\ell}{\partial z_k^2} = \varphi(p)\,v_k(1-v_k)
              + \gamma p (1-p)^{\gamma-1}\,\bigl(2 + \log p + (\gamma-1) r\bigr)(v_k - [k=y])^2

    Args:
        margins: raw scores ``[N, K]``, or log-odds of class 1 of two ``[N]``.
        labels: class indices ``[N]``.
        gamma: focusing exponent, ``>= 0``.
        curvature: ``"exact"`` for the second derivative, raised to 0.05 times the bound where it
            is smaller; ``"bound"`` for :math:`\varphi(p)v_k(1-v_k)`, which is always positive.

    Returns:
        Gradient and curvature, float64 and of the shape of `margins`.

    Numerics:
        :math:`1-p` is the sum of the other classes, so that nothing cancels near ``p = 1``;
        :math:`(v_k-[k=y])^2(1-p)^{\gamma-1}` is finite for every ``gamma >= 0``.

    Example:
        >>> g, h = focal_derivatives(np.zeros((1, 2)), np.array([0]), 2.0)
        >>> g.round(4), h.round(4)
        (array([[-0.2983,  0.2983]]), array([[0.3991, 0.3991]]))
    """
    check_gamma(gamma)
    check_choice(curvature, ("exact", "bound"), name="curvature")
    z = np.asarray(margins, dtype=np.float64)
    y = np.asarray(labels)
    if z.ndim == 1:
        both = np.stack([np.zeros_like(z), z], axis=1)
        gradient, second = focal_derivatives(both, y > 0, gamma, curvature=curvature)
        return gradient[:, 1], second[:, 1]
    gradient, second = np.empty(z.shape), np.empty(z.shape)
    for part in row_chunks(len(z), z.shape[1]):
        _block(z[part], y[part], gamma, curvature, gradient[part], second[part])
    return gradient, second


def _block(
    z: Floats,
    labels: NDArray[Any],
    gamma: float,
    curvature: Curvature,
    v: Floats,
    second: Floats,
) -> None:
    """Write the gradient to `v` and the curvature to `second`, ``[n, K]`` each."""
    at = np.arange(0, z.size, z.shape[1])
    top = at + z.argmax(axis=1)  # places in the flat arrays, which are faster than pairs
    true = at + labels
    flat, flat_second = v.reshape(-1), second.reshape(-1)
    np.subtract(z, z.reshape(-1)[top][:, None], out=v)
    gap = flat[true]
    np.exp(v, out=v)
    flat[top] = 0.0
    others = v.sum(axis=1)  # of all but the top class, whose own entry is 1
    flat[top] = 1.0
    total = 1.0 + others
    v /= total[:, None]
    rest_of_top = others / total
    p = flat[true]
    # Only the top class can exceed one half, where 1 - p would cancel.
    rest = np.where(top == true, rest_of_top, 1.0 - p)
    p_log_p = np.multiply(p, gap - np.log1p(others), out=np.zeros_like(p), where=p > 0)
    near = rest < NEAR_CERTAIN
    r = np.where(near, 1.0 - 0.5 * rest, -p_log_p / np.where(near, 1.0, rest))
    power = rest**gamma
    phi = power * (1.0 + gamma * r)
    np.subtract(1.0, v, out=second)
    flat_second[top] = rest_of_top
    second *= v
    second *= phi[:, None]
    if curvature == "exact":
        bend = gamma * power * rest * (p * (2.0 + (gamma - 1.0) * r) + p_log_p)
        share = np.divide(bend, rest * rest, out=np.zeros_like(rest), where=rest > TINY)
        floor = FOCAL_FLOOR * second
        on_label = flat_second[true] + bend
        second += v * v * share[:, None]
        flat_second[true] = on_label
        np.maximum(second, floor, out=second)
    flat[true] = -rest
    v *= phi[:, None]


def recover_from_objective(
    margins: NDArray[Any],
    objective: Objective,
    *,
    convention: Convention = "scikit_learn",
    second_order: bool = True,
) -> Floats:
    r"""True probabilities behind the margins of a model trained with an objective of your own.

    At the minimum of the risk the expected gradient is 0. For two classes, with :math:`g_y` the
    gradient if the label were y,

    .. math:: P(1) = \frac{g_0}{g_0 - g_1}

    and for more the posterior is the null vector of the matrix of gradients. The second value that
    the objective returns is not used.

    Args:
        margins: raw scores, ``[N]`` for two classes or ``[N, K]``.
        objective: your function, unchanged: ``objective(labels, margins)`` as the scikit-learn
            classes of XGBoost and LightGBM take it, or ``objective(margins, data)`` as
            ``xgb.train`` and ``lgb.train`` do.
        convention: ``"scikit_learn"`` or ``"native"``: which of the two it is.
        second_order: also check that each row is a minimum.

    Returns:
        Probabilities ``[N, K]``; rows that no posterior can have produced are nan, counted in a
        `focalibrate.theory.RecoveryWarning`.

    Example:
        >>> def weighted(labels, margins):  # positives count four times
        ...     p = 1 / (1 + np.exp(-margins))
        ...     w = np.where(labels == 1, 4.0, 1.0)
        ...     return w * (p - labels), w * p * (1 - p)
        >>> recover_from_objective(np.array([0.0]), weighted).round(3)
        array([[0.8, 0.2]])
    """
    check_choice(convention, ("scikit_learn", "native"), name="convention")
    z = np.asarray(margins, dtype=np.float64)
    if z.ndim not in (1, 2):
        raise ValueError(f"`margins` must have shape [N] or [N, K], got {z.shape}.")

    def gradient(scores: Floats, label: int) -> Floats:
        labels = np.full(len(scores), float(label))
        data = SimpleNamespace(get_label=lambda: labels, get_weight=lambda: None)
        called = (labels, scores) if convention == "scikit_learn" else (scores, data)
        try:
            found = np.asarray(objective(*called)[0], dtype=np.float64)
        except (AttributeError, TypeError) as error:
            other = "native" if convention == "scikit_learn" else "scikit_learn"
            error.add_note(
                f"`objective` was called with convention={convention!r}. If it takes the "
                f"arguments of the other one, pass convention={other!r}."
            )
            raise
        if found.shape != scores.shape:
            raise ValueError(
                f"`objective` must return gradients of the margins' shape {scores.shape}, got "
                f"{found.shape}."
            )
        return found

    result = recover_by_gradient(z, gradient, second_order=second_order)
    result.warn()
    return result.probs
