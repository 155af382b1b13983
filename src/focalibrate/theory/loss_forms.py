r"""Losses whose posterior has a closed form: the loss of each label, and the way back.

At the minimum of :math:`\sum_y q_y\,\ell(z, y)` the gradient vanishes, which is linear in the
posterior :math:`q`. For the losses here the solution can be written down; for any other loss see
`focalibrate.theory.any_loss`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, ClassVar, Literal, final

from focalibrate._array import Array, is_array_api_obj, namespace, stop_gradient
from focalibrate._check import (
    check_choice,
    check_gamma,
    check_open_interval,
    check_positive,
    check_unit_interval,
)
from focalibrate._stable import LogSimplex, log_sigmoid, log_simplex, logsumexp
from focalibrate.theory.factor import log_phi, log_phi_minor, one_minus_r, row_gamma
from focalibrate.theory.focal import focal_term
from focalibrate.theory.training_conditions import per_class

Head = Literal["softmax", "sigmoid"]


class LossForm(ABC):
    """A loss by name and parameters: its value for each label, and the posterior behind it."""

    name: ClassVar[str]
    head: ClassVar[Head] = "softmax"
    """what the model's scores are: logits of exclusive classes, or log-odds of single labels"""
    keeps_argmax: ClassVar[bool] = False
    """whether the posterior of the top class is known to be the highest"""

    @abstractmethod
    def by_label(self, scores: Array) -> Array:
        """Return the loss of each possible label.

        For logits ``[..., K]`` the loss of label k stands in entry k; for log-odds of any shape
        a last axis is added, with the loss of label 0 and that of label 1.
        """

    @abstractmethod
    def recovered(self, scores: Array) -> Array:
        """Return log-posteriors up to a constant per row ``[..., K]``, or log-odds."""

    @classmethod
    def parameter_names(cls) -> tuple[str, ...]:
        """Return the names of the parameters."""
        return tuple(field.name for field in fields(cls))  # type: ignore[arg-type]

    @property
    def parameters(self) -> dict[str, Any]:
        """Name and value of each parameter."""
        return {name: getattr(self, name) for name in self.parameter_names()}

    def __str__(self) -> str:
        given = ", ".join(f"{name}={_shown(value)}" for name, value in self.parameters.items())
        return f"{self.name}({given})"


@final
@dataclass(frozen=True, eq=False)
class Focal(LossForm):
    r"""Focal loss :math:`-(1-p_y)^\gamma\log p_y`: the posterior is :math:`\Psi_\gamma`."""

    gamma: Any
    name: ClassVar[str] = "focal"
    keeps_argmax: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_gamma(self.gamma, minimum=-1.0)

    def by_label(self, scores: Array) -> Array:
        """Return the focal loss of each label."""
        simplex = log_simplex(scores)
        return focal_term(simplex.log_v, simplex.log_rest, self._at(scores))

    def recovered(self, scores: Array) -> Array:
        r"""Return :math:`\log p - \log\varphi_\gamma(p)`."""
        if isinstance(self.gamma, (int, float)) and self.gamma == 0:
            return scores
        return recovery_scores(log_simplex(scores), row_gamma(self.gamma, scores))

    def _at(self, scores: Array) -> Any:
        return row_gamma(self.gamma, scores) if is_array_api_obj(self.gamma) else self.gamma


@final
@dataclass(frozen=True)
class PolyFocal(LossForm):
    r"""Focal loss with a polynomial term added.

    .. math:: \ell = -(1-p_y)^\gamma\log p_y + \varepsilon(1-p_y)^{\gamma+1}

    .. math:: q_k \propto \frac{p_k}{\varphi_\gamma(p_k)
              + \varepsilon(\gamma+1)\,p_k(1-p_k)^\gamma}

    The denominator is positive for :math:`\varepsilon > -1`, because
    :math:`1 + \gamma r - (\gamma+1)p \ge 1 - p`. ``gamma=0`` is Poly-1 cross-entropy.
    """

    gamma: float
    epsilon: float
    name: ClassVar[str] = "poly_focal"

    def __post_init__(self) -> None:
        check_gamma(self.gamma)
        if not (math.isfinite(self.epsilon) and self.epsilon > -1):
            raise ValueError(
                f"`epsilon` must be a number > -1, got {self.epsilon!r}: below, the loss rewards "
                "a low probability of the true class."
            )

    def by_label(self, scores: Array) -> Array:
        """Return the loss of each label."""
        simplex = log_simplex(scores)
        xp = namespace(scores)
        focal = focal_term(simplex.log_v, simplex.log_rest, self.gamma)
        certain = xp.full_like(simplex.log_rest, -1e30)  # as in `focal_term`
        log_rest = xp.where(xp.isfinite(simplex.log_rest), simplex.log_rest, certain)
        return focal + self.epsilon * xp.exp((self.gamma + 1.0) * log_rest)

    def recovered(self, scores: Array) -> Array:
        r"""Return :math:`\log p` minus the log of the denominator."""
        simplex = log_simplex(scores)
        xp = namespace(scores)
        log_v, log_rest = _finite(simplex)
        # 1 + gamma r + epsilon (gamma + 1) p, written in 1 - p: near 0 for epsilon near -1.
        rest = xp.exp(log_rest)
        share = (1.0 + self.epsilon) - self.epsilon * rest
        total = (1.0 + self.gamma) * share - self.gamma * one_minus_r(log_v, log_rest)
        return simplex.log_v - self.gamma * log_rest - xp.log(total)


@final
@dataclass(frozen=True)
class BrierWeighted(LossForm):
    r"""Cross-entropy weighted by its Brier score, :math:`-s_y^{\beta/2}\log p_y` (BSCE).

    :math:`s_y = \lVert p - e_y\rVert^2`. With :math:`b_k = \beta\,(-p_k\log p_k)/s_k`,

    .. math:: q_k \propto \frac{p_k\,(1 + \rho p_k)}{s_k^{\beta/2}(1 + b_k)}, \qquad
              \rho = \frac{\sum_k b_k/(1+b_k)}{\sum_k p_k/(1+b_k)}
    """

    beta: float
    name: ClassVar[str] = "bsce"

    def __post_init__(self) -> None:
        check_gamma(self.beta, name="beta")

    def by_label(self, scores: Array) -> Array:
        """Return the loss of each label."""
        simplex = log_simplex(scores)
        return -namespace(scores).exp(0.5 * self.beta * _log_squares(simplex)) * simplex.log_v

    def recovered(self, scores: Array) -> Array:
        """Return the log of the numerator minus that of the denominator."""
        simplex = log_simplex(scores)
        log_s = _log_squares(simplex)
        if self.beta == 0:
            return simplex.log_v
        xp = namespace(scores)
        log_v, _ = _finite(simplex)
        tiny = xp.full_like(log_v, -1e30)
        # An impossible class has b = 0; so has one that is certain, up to a factor of the row.
        log_b = math.log(self.beta) + log_v + xp.log(xp.where(log_v < 0, -log_v, -tiny)) - log_s
        log_b = xp.where(log_v < 0, log_b, tiny)
        gain = xp.logaddexp(xp.zeros_like(log_b), log_b)
        log_rho = logsumexp(log_b - gain) - logsumexp(simplex.log_v - gain)
        lift = xp.logaddexp(xp.zeros_like(log_v), xp.expand_dims(log_rho, axis=-1) + log_v)
        return simplex.log_v + lift - 0.5 * self.beta * log_s - gain


@final
@dataclass(frozen=True)
class BrierWeightedGradient(LossForm):
    r"""Cross-entropy with the constant weight :math:`s_y^{\beta/2}` (BSCE-GRA).

    .. math:: q_k \propto p_k / s_k^{\beta/2}, \qquad s_k = 1 - 2p_k + \lVert p\rVert^2

    The weight has no derivative, so the values that `by_label` returns are those of BSCE, but
    only their gradient counts.
    """

    beta: float
    name: ClassVar[str] = "bsce_gra"
    keeps_argmax: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_gamma(self.beta, name="beta")

    def by_label(self, scores: Array) -> Array:
        """Return the loss of each label, its weight without a derivative."""
        simplex = log_simplex(scores)
        weight = namespace(scores).exp(0.5 * self.beta * _log_squares(simplex))
        return -stop_gradient(weight) * simplex.log_v

    def recovered(self, scores: Array) -> Array:
        """Return log p minus the log of the weight."""
        simplex = log_simplex(scores)
        return simplex.log_v - 0.5 * self.beta * _log_squares(simplex)


@final
@dataclass(frozen=True)
class FocalCalibration(LossForm):
    r"""Focal loss plus :math:`\lambda\lVert p - e_y\rVert^2`.

    The condition :math:`-q_k\varphi_k/p_k + 2\lambda(p_k - q_k) = c` gives, with
    :math:`D_k = 2\lambda p_k + \varphi_k`,

    .. math:: q_k = \frac{p_k(2\lambda p_k + C)}{D_k}, \qquad
              C = \frac{\sum_k p_k\varphi_k/D_k}{\sum_k p_k/D_k}
    """

    gamma: float
    weight: float
    name: ClassVar[str] = "focal_calibration"

    def __post_init__(self) -> None:
        check_gamma(self.gamma)
        check_positive(self.weight, name="weight")

    def by_label(self, scores: Array) -> Array:
        """Return the loss of each label."""
        simplex = log_simplex(scores)
        focal = focal_term(simplex.log_v, simplex.log_rest, self.gamma)
        return focal + float(self.weight) * _squares(simplex)

    def recovered(self, scores: Array) -> Array:
        r"""Return :math:`\log q`."""
        simplex = log_simplex(scores)
        xp = namespace(scores)
        log_h = (
            recovery_scores(simplex, row_gamma(self.gamma, scores))
            if self.gamma
            else simplex.log_v
        )
        log_v, _ = _finite(simplex)
        log_factor = log_v - xp.where(xp.isfinite(log_h), log_h, log_v)  # log phi
        brier = math.log(2.0 * self.weight) + log_v
        log_d = xp.logaddexp(brier, log_factor)
        log_c = logsumexp(simplex.log_v + log_factor - log_d) - logsumexp(simplex.log_v - log_d)
        return simplex.log_v + xp.logaddexp(brier, xp.expand_dims(log_c, axis=-1)) - log_d


@final
@dataclass(frozen=True)
class ClassBalanced(LossForm):
    r"""Focal loss with the weights :math:`(1-\beta)/(1-\beta^{n_y})` of the class counts."""

    counts: tuple[float, ...]
    beta: float
    gamma: float = 0.0
    name: ClassVar[str] = "class_balanced"

    def __post_init__(self) -> None:
        check_gamma(self.gamma)
        check_open_interval(self.beta, low=0.0, high=1.0, name="beta")
        object.__setattr__(self, "counts", tuple(float(n) for n in self.counts))

    def by_label(self, scores: Array) -> Array:
        """Return the weighted focal loss of each label."""
        return Focal(self.gamma).by_label(scores) * self._weight(scores)

    def recovered(self, scores: Array) -> Array:
        """Return the scores of the focal loss without the weights."""
        return Focal(self.gamma).recovered(scores) - namespace(scores).log(self._weight(scores))

    def _weight(self, scores: Array) -> Array:
        counts = per_class(self.counts, scores, name="counts")
        return (1.0 - self.beta) / (1.0 - self.beta**counts)


@final
@dataclass(frozen=True)
class LogitAdjusted(LossForm):
    r"""Cross-entropy of :math:`z + \tau\log\pi`, whose softmax is the posterior.

    :math:`\pi` are the class frequencies of training.
    """

    frequencies: tuple[float, ...]
    tau: float = 1.0
    name: ClassVar[str] = "logit_adjusted"

    def __post_init__(self) -> None:
        object.__setattr__(self, "frequencies", tuple(float(x) for x in self.frequencies))
        if not math.isfinite(self.tau):
            raise ValueError(f"`tau` must be a finite number, got {self.tau!r}.")

    def by_label(self, scores: Array) -> Array:
        """Return the loss of each label."""
        return -log_simplex(self.recovered(scores)).log_v

    def recovered(self, scores: Array) -> Array:
        """Return the adjusted logits."""
        frequencies = per_class(self.frequencies, scores, name="frequencies")
        return scores + self.tau * namespace(scores).log(frequencies)


@final
@dataclass(frozen=True)
class SigmoidFocal(LossForm):
    r"""Focal loss of single labels, with weight :math:`\alpha` for 1, :math:`1-\alpha` for 0."""

    gamma: float
    alpha: float | None
    name: ClassVar[str] = "sigmoid_focal"
    head: ClassVar[Head] = "sigmoid"

    def __post_init__(self) -> None:
        check_gamma(self.gamma)
        if self.alpha is not None:
            check_open_interval(self.alpha, low=0.0, high=1.0, name="alpha")

    def by_label(self, scores: Array) -> Array:
        """Return the loss of label 0 and of label 1."""
        plain = Asymmetric(self.gamma, self.gamma, 0.0).by_label(scores)
        low, high = (1.0, 1.0) if self.alpha is None else (1.0 - self.alpha, self.alpha)
        return namespace(scores).stack([low * plain[..., 0], high * plain[..., 1]], axis=-1)

    def recovered(self, scores: Array) -> Array:
        r"""Return :math:`\operatorname{logit}\Psi_\gamma(\sigma(z)) - \log(\alpha/(1-\alpha))`."""
        found = Asymmetric(self.gamma, self.gamma, 0.0).recovered(scores)
        return found if self.alpha is None else found - math.log(self.alpha / (1.0 - self.alpha))


@final
@dataclass(frozen=True)
class Asymmetric(LossForm):
    r"""Asymmetric loss of single labels: exponents of its own for each side, and a margin.

    With :math:`p = \sigma(z)` and :math:`u = \max(p - m, 0)`, label 1 costs
    :math:`-(1-p)^{\gamma_+}\log p` and label 0 costs :math:`-u^{\gamma_-}\log(1-u)`;

    .. math:: \frac{q}{1-q} = \frac{p\,\varphi_{\gamma_-}(1-u)}{(1-u)\,\varphi_{\gamma_+}(p)}

    Up to the margin label 0 costs nothing, so nothing is known of the posterior there: the
    log-odds are nan.
    """

    gamma_pos: float
    gamma_neg: float
    margin: float
    name: ClassVar[str] = "asymmetric"
    head: ClassVar[Head] = "sigmoid"

    def __post_init__(self) -> None:
        check_gamma(self.gamma_pos, name="gamma_pos")
        check_gamma(self.gamma_neg, name="gamma_neg")
        check_unit_interval(self.margin, name="margin")

    def by_label(self, scores: Array) -> Array:
        """Return the loss of label 0 and of label 1."""
        log_p, log_rest = log_sigmoid(scores), log_sigmoid(-scores)
        log_u, log_not_u, _ = self._shifted(scores, log_p, log_rest)
        negative = focal_term(log_not_u, log_u, self.gamma_neg)
        positive = focal_term(log_p, log_rest, self.gamma_pos)
        return namespace(scores).stack([negative, positive], axis=-1)

    def recovered(self, scores: Array) -> Array:
        """Return the log-odds of label 1; nan up to the margin."""
        xp = namespace(scores)
        # The odds of the extremes are those of the formula's limits, far outside every float.
        z = xp.clip(scores, -1e4, 1e4)
        log_p, log_rest = log_sigmoid(z), log_sigmoid(-z)
        log_u, log_not_u, is_flat = self._shifted(z, log_p, log_rest)
        log_u = xp.where(is_flat, xp.full_like(log_u, -1.0), log_u)
        zero = xp.zeros_like(z)
        found = (log_p - log_not_u) + (
            log_phi(log_not_u, log_u, zero + self.gamma_neg)
            - log_phi(log_p, log_rest, zero + self.gamma_pos)
        )
        found = xp.where(xp.isfinite(scores), found, scores)
        if self.margin == 0:
            return found
        return xp.where(is_flat, xp.full_like(found, math.nan), found)

    def _shifted(self, scores: Array, log_p: Array, log_rest: Array) -> tuple[Array, Array, Array]:
        """Return log u, log(1 - u) and where u is 0."""
        xp = namespace(scores)
        if self.margin == 0:
            return log_p, log_rest, xp.zeros_like(scores) > 1.0
        u = xp.exp(log_p) - self.margin
        is_flat = u <= 0
        safe = xp.where(is_flat, xp.ones_like(u), u)
        log_u = xp.where(is_flat, xp.full_like(u, -xp.inf), xp.log(safe))
        log_not_u = xp.where(is_flat, xp.zeros_like(u), xp.log(xp.exp(log_rest) + self.margin))
        return log_u, log_not_u, is_flat


LOSS_FORMS: Mapping[str, type[LossForm]] = MappingProxyType(
    {
        form.name: form
        for form in (
            Focal,
            PolyFocal,
            BrierWeighted,
            BrierWeightedGradient,
            FocalCalibration,
            ClassBalanced,
            LogitAdjusted,
            SigmoidFocal,
            Asymmetric,
        )
    }
)
"""The losses that have a name, and the parameters that each takes."""

NOT_RECOVERABLE = MappingProxyType(
    {"dual_focal": "the minimum of its risk is the uniform vector for many different posteriors"}
)


def loss_form(loss: str | LossForm, **parameters: Any) -> LossForm:
    """Return the loss called `loss`, with these parameters.

    Example:
        >>> print(loss_form("poly_focal", gamma=2.0, epsilon=0.5))
        poly_focal(gamma=2, epsilon=0.5)
    """
    if isinstance(loss, LossForm):
        if parameters:
            raise ValueError(
                f"`loss` has its parameters already, {loss}: leave out {sorted(parameters)}."
            )
        return loss
    if loss in NOT_RECOVERABLE:
        raise ValueError(
            f"`loss` {loss!r} hides the posterior: {NOT_RECOVERABLE[loss]}. Calibrate on "
            "held-out data instead: `focalibrate.fit(logits, labels)`."
        )
    check_choice(loss, LOSS_FORMS, name="loss")
    form = LOSS_FORMS[loss]
    known = list(form.parameter_names())
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise ValueError(
            f"`{unknown[0]}` is no parameter of the loss {loss!r}, which has {known}."
        )
    try:
        return form(**parameters)
    except TypeError:  # one is missing
        left = [name for name in known if name not in parameters]
        raise ValueError(
            f"The loss {loss!r} has the parameters {known}; {left} were not given."
        ) from None


def recovery_scores(simplex: LogSimplex, gamma: Any) -> Array:
    r"""Return :math:`\log h(v)` of every class; :math:`\Psi` is its softmax."""
    log_v = simplex.log_v
    is_major = simplex.is_major
    xp = namespace(log_v)
    zero = xp.zeros_like(log_v)
    finite_log_v, log_rest = _finite(simplex)
    major_log_v, major_log_rest = (
        xp.sum(xp.where(is_major, x, zero), axis=-1, keepdims=True)
        for x in (finite_log_v, log_rest)
    )
    # The discarded branch must stay finite, or its gradient spoils the kept one.
    minor = log_phi_minor(
        xp.where(is_major, zero - 1.0, finite_log_v), xp.where(is_major, zero, log_rest), gamma
    )
    return log_v - xp.where(is_major, log_phi(major_log_v, major_log_rest, gamma), minor)


def _finite(simplex: LogSimplex) -> tuple[Array, Array]:
    """Return log v and log(1 - v) with finite numbers where a class is impossible or certain.

    A class that is certain or impossible would give inf - inf; any finite score will do for the
    first, as all others are at -inf.
    """
    log_v, log_rest, _ = simplex
    xp = namespace(log_v)
    zero = xp.zeros_like(log_v)
    return (
        xp.where(xp.isfinite(log_v), log_v, zero - xp.finfo(log_v.dtype).max),
        xp.where(xp.isfinite(log_rest), log_rest, zero),
    )


def _squares(simplex: LogSimplex) -> Array:
    r"""Return :math:`\lVert p - e_k\rVert^2` of every class k, without cancellation.

    Below one half :math:`1 - 2p_k + \lVert p\rVert^2` loses no digits; above it, the sum of the
    squares of :math:`1-p_k` and of the other classes is taken.
    """
    log_v, log_rest, is_major = simplex
    xp = namespace(log_v)
    zero = xp.zeros_like(log_v)
    v = xp.exp(log_v)
    rest = xp.where(is_major, xp.exp(log_rest), zero)
    others = xp.where(is_major, zero, v)
    major = rest * rest + xp.sum(others * others, axis=-1, keepdims=True)
    return xp.where(is_major, major, 1.0 - 2.0 * v + xp.sum(v * v, axis=-1, keepdims=True))


def _log_squares(simplex: LogSimplex) -> Array:
    r"""Return the logarithm of `_squares`, finite where one class is certain."""
    log_v, log_rest, is_major = simplex
    xp = namespace(log_v)
    zero = xp.zeros_like(log_v)
    safe_rest = xp.where(xp.isfinite(log_rest), log_rest, zero)
    major = logsumexp(2.0 * xp.where(is_major, safe_rest, log_v))
    major = xp.expand_dims(major, axis=-1)
    return xp.where(is_major, major, xp.log(xp.where(is_major, zero + 1.0, _squares(simplex))))


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)
