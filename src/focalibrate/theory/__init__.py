"""What focal training does to probabilities, and how to undo it (SPEC F)."""

from focalibrate.theory.factor import phi
from focalibrate.theory.minimizer import focal_minimizer
from focalibrate.theory.posterior import recover_log_posterior, recover_posterior
from focalibrate.theory.proper import proper_focal_loss
from focalibrate.theory.regime import confidence_regime
from focalibrate.theory.temperature import (
    NearestTemperature,
    TemperatureBounds,
    nearest_temperature,
    recover_log_odds,
    temperature_bounds,
    tight_temperature_bounds,
)
from focalibrate.theory.thresholds import gamma_star, tau_over, tau_under

__all__ = [
    "NearestTemperature",
    "TemperatureBounds",
    "confidence_regime",
    "focal_minimizer",
    "gamma_star",
    "nearest_temperature",
    "phi",
    "proper_focal_loss",
    "recover_log_odds",
    "recover_log_posterior",
    "recover_posterior",
    "tau_over",
    "tau_under",
    "temperature_bounds",
    "tight_temperature_bounds",
]
