r"""Losses whose posterior has a closed form: the loss of each label, and the way back.

At the minimum of :math:`\sum_y q_y\,\ell(z, y)` the gradient vanishes, which is linear in the
posterior :math:`q`. For the losses here the solution can be written down; for any other loss see
`focalibrate.theory.any_loss`. Each is two functions of the scores and its parameters, listed in
`FORMULAS`. In the formulas :math:`p` is the softmax of the scores.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, final

from focalibrate._array import Array, is_array_api_obj, namespace, stop_gradient
from focalibrate._check import (
    check_choice,
    check_gamma,
    check_open_interval,
    check_positive,
    check_unit_interval,
)
from focalibrate._stable import LogSimplex, log_sigmoid, log_simplex, logsumexp
from focalibrate.theory.factor import focal_term, log_phi, log_phi_minor, one_minus_r, row_gamma
from focalibrate.theory.training_conditions import per_class

Head = Literal["softmax", "sigmoid"]
NOT_RECOVERABLE = {
    "dual_focal": "the minimum of its risk is the uniform vector for many different posteriors"
}


@final
@dataclass(frozen=True)
class LossForm:
    """A loss by name and parameters, as `loss_form` returns it."""

    name: str
    values: tuple[tuple[str, Any], ...]
    """name and value of each parameter"""

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters by name."""
        return dict(self.values)

    @property
    def head(self) -> Head:
        """What the scores are: logits of exclusive classes, or log-odds of single labels."""
        return FORMULAS[self.name].head

    @property
    def keeps_argmax(self) -> bool:
        """Whether the posterior of the top class is known to be the highest."""
        return FORMULAS[self.name].keeps_argmax

    def by_label(self, scores: Array) -> Array:
        """Return the loss of each possible label.

        For logits ``[..., K]`` the loss of label k stands in entry k; for log-odds of any shape
        a last axis is added, with the loss of label 0 and that of label 1.
        """
        return FORMULAS[self.name].by_label(scores, **self.parameters)

    def recovered(self, scores: Array) -> Array:
        """Return log-posteriors up to a constant per row ``[..., K]``, or log-odds."""
        return FORMULAS[self.name].recovered(scores, **self.parameters)

    def __str__(self) -> str:
        given = ", ".join(f"{name}={_shown(value)}" for name, value in self.values)
        return f"{self.name}({given})"


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
    known = list(LOSS_FORMS[loss])
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise ValueError(
            f"`{unknown[0]}` is no parameter of the loss {loss!r}, which has {known}."
        )
    given = {**DEFAULTS.get(loss, {}), **parameters}
    left = [name for name in known if name not in given]
    if left:
        raise ValueError(f"The loss {loss!r} has the parameters {known}; {left} were not given.")
    return LossForm(loss, tuple((name, _checked(loss, name, given[name])) for name in known))


OPEN_RANGES = {
    "alpha": (0.0, 1.0),
    "beta of class_balanced": (0.0, 1.0),
    "tau": (-math.inf, math.inf),
    "epsilon": (-1.0, math.inf),  # below, the loss rewards a low probability of the true class
}


def _checked(loss: str, name: str, value: Any) -> Any:
    """Return a parameter, or raise `ValueError` if it is outside its range."""
    if name in ("counts", "frequencies"):
        return tuple(float(x) for x in value)
    ends = OPEN_RANGES.get(name, OPEN_RANGES.get(f"{name} of {loss}"))
    if name == "margin":
        check_unit_interval(value, name=name)
    elif name == "weight":
        check_positive(value, name=name)
    elif ends is None:
        check_gamma(value, name=name, minimum=-1.0 if loss == "focal" else 0.0)
    elif value is not None or name != "alpha":
        check_open_interval(value, low=ends[0], high=ends[1], name=name)
    return value


def _focal(scores: Array, gamma: Any) -> Array:
    r"""Return :math:`-(1-p_k)^\gamma\log p_k`."""
    simplex = log_simplex(scores)
    exponent = row_gamma(gamma, scores) if is_array_api_obj(gamma) else gamma
    return focal_term(simplex.log_v, simplex.log_rest, exponent)


def _focal_back(scores: Array, gamma: Any) -> Array:
    r"""Return :math:`\log p - \log\varphi_\gamma(p)`: the posterior is :math:`\Psi_\gamma`."""
    if isinstance(gamma, (int, float)) and gamma == 0:
        return scores
    return recovery_scores(log_simplex(scores), row_gamma(gamma, scores))


def _poly_focal(scores: Array, gamma: float, epsilon: float) -> Array:
    r"""Return :math:`-(1-p_k)^\gamma\log p_k + \varepsilon(1-p_k)^{\gamma+1}`.

    The focal loss with a polynomial term; ``gamma=0`` is Poly-1 cross-entropy.
    """
    log_v, log_rest, _ = log_simplex(scores)
    xp = namespace(scores)
    focal = focal_term(log_v, log_rest, gamma)
    certain = xp.full_like(log_rest, -1e30)  # as in `focal_term`
    log_rest = xp.where(xp.isfinite(log_rest), log_rest, certain)
    return focal + epsilon * xp.exp((gamma + 1.0) * log_rest)


def _poly_focal_back(scores: Array, gamma: float, epsilon: float) -> Array:
    r"""Return the logarithm of the posterior.

    .. math:: q_k \propto \frac{p_k}{\varphi_\gamma(p_k)
              + \varepsilon(\gamma+1)\,p_k(1-p_k)^\gamma}

    The denominator is positive for :math:`\varepsilon > -1`, because
    :math:`1 + \gamma r - (\gamma+1)p \ge 1 - p`.
    """
    simplex = log_simplex(scores)
    xp = namespace(scores)
    log_v, log_rest = _finite(simplex)
    # 1 + gamma r + epsilon (gamma + 1) p, written in 1 - p: near 0 for epsilon near -1.
    share = (1.0 + epsilon) - epsilon * xp.exp(log_rest)
    total = (1.0 + gamma) * share - gamma * one_minus_r(log_v, log_rest)
    return simplex.log_v - gamma * log_rest - xp.log(total)


def _bsce(scores: Array, beta: float) -> Array:
    r"""Return :math:`-s_k^{\beta/2}\log p_k`: cross-entropy weighted by its Brier score.

    :math:`s_k = \lVert p - e_k\rVert^2`, a sum of squares above one half, so nothing cancels.
    """
    simplex = log_simplex(scores)
    return -namespace(scores).exp(0.5 * beta * _log_squares(simplex)) * simplex.log_v


def _bsce_back(scores: Array, beta: float) -> Array:
    r"""Return the logarithm of the posterior.

    With :math:`b_k = \beta\,(-p_k\log p_k)/s_k`,

    .. math:: q_k \propto \frac{p_k\,(1 + \rho p_k)}{s_k^{\beta/2}(1 + b_k)}, \qquad
              \rho = \frac{\sum_k b_k/(1+b_k)}{\sum_k p_k/(1+b_k)}
    """
    simplex = log_simplex(scores)
    if beta == 0:
        return simplex.log_v
    xp = namespace(scores)
    log_s = _log_squares(simplex)
    log_v, _ = _finite(simplex)
    tiny = xp.full_like(log_v, -1e30)
    # An impossible class has b = 0; so has one that is certain, up to a factor of the row.
    log_b = math.log(beta) + log_v + xp.log(xp.where(log_v < 0, -log_v, -tiny)) - log_s
    log_b = xp.where(log_v < 0, log_b, tiny)
    gain = xp.logaddexp(xp.zeros_like(log_b), log_b)
    log_rho = logsumexp(log_b - gain) - logsumexp(simplex.log_v - gain)
    lift = xp.logaddexp(xp.zeros_like(log_v), xp.expand_dims(log_rho, axis=-1) + log_v)
    return simplex.log_v + lift - 0.5 * beta * log_s - gain


def _bsce_gra(scores: Array, beta: float) -> Array:
    """Return the values of BSCE whose weight has no derivative: only the gradient counts."""
    simplex = log_simplex(scores)
    weight = namespace(scores).exp(0.5 * beta * _log_squares(simplex))
    return -stop_gradient(weight) * simplex.log_v


def _bsce_gra_back(scores: Array, beta: float) -> Array:
    r"""Return :math:`\log p_k - \frac\beta2\log s_k`."""
    simplex = log_simplex(scores)
    return simplex.log_v - 0.5 * beta * _log_squares(simplex)


def _focal_calibration(scores: Array, gamma: float, weight: float) -> Array:
    r"""Return the focal loss plus :math:`\lambda\lVert p - e_k\rVert^2`."""
    simplex = log_simplex(scores)
    focal = focal_term(simplex.log_v, simplex.log_rest, gamma)
    return focal + float(weight) * _squares(simplex)


def _focal_calibration_back(scores: Array, gamma: float, weight: float) -> Array:
    r"""Return the logarithm of the posterior.

    The condition :math:`-q_k\varphi_k/p_k + 2\lambda(p_k - q_k) = c` gives, with
    :math:`D_k = 2\lambda p_k + \varphi_k`,

    .. math:: q_k = \frac{p_k(2\lambda p_k + C)}{D_k}, \qquad
              C = \frac{\sum_k p_k\varphi_k/D_k}{\sum_k p_k/D_k}
    """
    simplex = log_simplex(scores)
    xp = namespace(scores)
    log_h = recovery_scores(simplex, row_gamma(gamma, scores)) if gamma else simplex.log_v
    log_v, _ = _finite(simplex)
    log_factor = log_v - xp.where(xp.isfinite(log_h), log_h, log_v)  # log phi
    brier = math.log(2.0 * weight) + log_v
    log_d = xp.logaddexp(brier, log_factor)
    log_c = logsumexp(simplex.log_v + log_factor - log_d) - logsumexp(simplex.log_v - log_d)
    return simplex.log_v + xp.logaddexp(brier, xp.expand_dims(log_c, axis=-1)) - log_d


def _class_balanced(scores: Array, counts: tuple[float, ...], beta: float, gamma: float) -> Array:
    r"""Return the focal loss with weights :math:`(1-\beta)/(1-\beta^{n_k})` of class counts."""
    return _focal(scores, gamma) * _balance(scores, counts, beta)


def _class_balanced_back(
    scores: Array, counts: tuple[float, ...], beta: float, gamma: float
) -> Array:
    """Return the scores of the focal loss without the weights."""
    weight = _balance(scores, counts, beta)
    return _focal_back(scores, gamma) - namespace(scores).log(weight)


def _balance(scores: Array, counts: tuple[float, ...], beta: float) -> Array:
    return (1.0 - beta) / (1.0 - beta ** per_class(counts, scores, name="counts"))


def _logit_adjusted(scores: Array, frequencies: tuple[float, ...], tau: float) -> Array:
    r"""Return the cross-entropy of :math:`z + \tau\log\pi`, of the class frequencies."""
    return -log_simplex(_logit_adjusted_back(scores, frequencies, tau)).log_v


def _logit_adjusted_back(scores: Array, frequencies: tuple[float, ...], tau: float) -> Array:
    """Return the adjusted logits."""
    pi = per_class(frequencies, scores, name="frequencies")
    return scores + tau * namespace(scores).log(pi)


def _sigmoid_focal(scores: Array, gamma: float, alpha: float | None) -> Array:
    r"""Return the focal loss, weighted by :math:`1-\alpha` for label 0, :math:`\alpha` for 1."""
    plain = _asymmetric(scores, gamma, gamma, 0.0)
    low, high = (1.0, 1.0) if alpha is None else (1.0 - alpha, alpha)
    return namespace(scores).stack([low * plain[..., 0], high * plain[..., 1]], axis=-1)


def _sigmoid_focal_back(scores: Array, gamma: float, alpha: float | None) -> Array:
    r"""Return :math:`\operatorname{logit}\Psi_\gamma(\sigma(z)) - \log(\alpha/(1-\alpha))`."""
    found = _asymmetric_back(scores, gamma, gamma, 0.0)
    return found if alpha is None else found - math.log(alpha / (1.0 - alpha))


def _asymmetric(scores: Array, gamma_pos: float, gamma_neg: float, margin: float) -> Array:
    r"""Return the loss of label 0 and of label 1: exponents for each side, and a margin.

    With :math:`p = \sigma(z)` and :math:`u = \max(p - m, 0)`, label 1 costs
    :math:`-(1-p)^{\gamma_+}\log p` and label 0 costs :math:`-u^{\gamma_-}\log(1-u)`.
    """
    log_p, log_rest = log_sigmoid(scores), log_sigmoid(-scores)
    log_u, log_not_u, _ = _shifted(log_p, log_rest, margin)
    negative = focal_term(log_not_u, log_u, gamma_neg)
    positive = focal_term(log_p, log_rest, gamma_pos)
    return namespace(scores).stack([negative, positive], axis=-1)


def _asymmetric_back(scores: Array, gamma_pos: float, gamma_neg: float, margin: float) -> Array:
    r"""Return the log-odds of label 1.

    .. math:: \frac{q}{1-q} = \frac{p\,\varphi_{\gamma_-}(1-u)}{(1-u)\,\varphi_{\gamma_+}(p)}

    Up to the margin label 0 costs nothing, so nothing is known of the posterior there: the
    log-odds are nan.
    """
    xp = namespace(scores)
    # The odds of the extremes are those of the formula's limits, far outside every float.
    z = xp.clip(scores, -1e4, 1e4)
    log_p, log_rest = log_sigmoid(z), log_sigmoid(-z)
    log_u, log_not_u, is_flat = _shifted(log_p, log_rest, margin)
    log_u = xp.where(is_flat, xp.full_like(log_u, -1.0), log_u)
    zero = xp.zeros_like(z)
    found = (log_p - log_not_u) + (
        log_phi(log_not_u, log_u, zero + gamma_neg) - log_phi(log_p, log_rest, zero + gamma_pos)
    )
    found = xp.where(xp.isfinite(scores), found, scores)
    return found if margin == 0 else xp.where(is_flat, xp.full_like(found, math.nan), found)


def _shifted(log_p: Array, log_rest: Array, margin: float) -> tuple[Array, Array, Array]:
    """Return log u, log(1 - u) and where u is 0."""
    xp = namespace(log_p)
    if margin == 0:
        return log_p, log_rest, xp.zeros_like(log_p) > 1.0
    u = xp.exp(log_p) - margin
    is_flat = u <= 0
    safe = xp.where(is_flat, xp.ones_like(u), u)
    log_u = xp.where(is_flat, xp.full_like(u, -xp.inf), xp.log(safe))
    log_not_u = xp.where(is_flat, xp.zeros_like(u), xp.log(xp.exp(log_rest) + margin))
    return log_u, log_not_u, is_flat


class Formula(NamedTuple):
    """The two functions of a loss, each of the scores and the parameters."""

    by_label: Callable[..., Array]
    recovered: Callable[..., Array]
    head: Head = "softmax"
    keeps_argmax: bool = False


FORMULAS = {
    "focal": Formula(_focal, _focal_back, keeps_argmax=True),
    "poly_focal": Formula(_poly_focal, _poly_focal_back),
    "bsce": Formula(_bsce, _bsce_back),
    "bsce_gra": Formula(_bsce_gra, _bsce_gra_back, keeps_argmax=True),
    "focal_calibration": Formula(_focal_calibration, _focal_calibration_back),
    "class_balanced": Formula(_class_balanced, _class_balanced_back),
    "logit_adjusted": Formula(_logit_adjusted, _logit_adjusted_back),
    "sigmoid_focal": Formula(_sigmoid_focal, _sigmoid_focal_back, "sigmoid"),
    "asymmetric": Formula(_asymmetric, _asymmetric_back, "sigmoid"),
}
DEFAULTS = {"class_balanced": {"gamma": 0.0}, "logit_adjusted": {"tau": 1.0}}
LOSS_FORMS = {
    name: tuple(inspect.signature(formula.by_label).parameters)[1:]
    for name, formula in FORMULAS.items()
}
"""The losses that have a name, and the parameters that each takes."""


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
