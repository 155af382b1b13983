"""What focal training does to probabilities, and how to undo it."""

from focalibrate.theory.any_loss import (
    Recoverability,
    Recovered,
    RecoveryWarning,
    recover_by_gradient,
    recoverability,
)
from focalibrate.theory.factor import phi
from focalibrate.theory.loss_forms import LOSS_FORMS, LossForm, loss_form
from focalibrate.theory.minimiser import (
    confidence_regime,
    focal_minimiser,
    gamma_star,
    tau_over,
    tau_under,
)
from focalibrate.theory.posterior import recover_log_posterior, recover_posterior
from focalibrate.theory.temperature import (
    NearestTemperature,
    nearest_temperature,
    recover_log_odds,
)
from focalibrate.theory.training_conditions import estimate_prior, shift_prior

__all__ = [
    "LOSS_FORMS",
    "LossForm",
    "NearestTemperature",
    "Recoverability",
    "Recovered",
    "RecoveryWarning",
    "confidence_regime",
    "estimate_prior",
    "focal_minimiser",
    "gamma_star",
    "loss_form",
    "nearest_temperature",
    "phi",
    "recover_by_gradient",
    "recover_log_odds",
    "recover_log_posterior",
    "recover_posterior",
    "recoverability",
    "shift_prior",
    "tau_over",
    "tau_under",
]
