"""The experiments by name."""

from importlib import import_module

from focalibrate._check import did_you_mean
from focalibrate.experiments.engine.experiment import Experiment

_PACKAGE = "focalibrate.experiments"
EXPERIMENTS: dict[str, str] = {
    "regimes": f"{_PACKAGE}.paper000.regimes.experiment",
    "synthetic-posterior": f"{_PACKAGE}.paper000.synthetic_posterior.experiment",
    "psi-images": f"{_PACKAGE}.paper000.psi_images.experiment",
    "psi-tabular": f"{_PACKAGE}.paper000.psi_tabular.experiment",
    "psi-gap": f"{_PACKAGE}.paper000.psi_gap.experiment",
    "focal-calibration": f"{_PACKAGE}.paper002.focal_calibration.experiment",
    "sst": f"{_PACKAGE}.paper002.sst.experiment",
    "interpolation": f"{_PACKAGE}.paper002.interpolation.experiment",
    "dynamics": f"{_PACKAGE}.paper002.dynamics.experiment",
    "linear": f"{_PACKAGE}.paper002.linear.experiment",
    "s99": f"{_PACKAGE}.paper002.s99.experiment",
    "temperature-relation": f"{_PACKAGE}.paper003.temperature_relation.experiment",
    "focal-temperature": f"{_PACKAGE}.paper003.focal_temperature.experiment",
    "curvature": f"{_PACKAGE}.paper004.curvature.experiment",
    "curvature-regularised": f"{_PACKAGE}.paper004.curvature_regularised.experiment",
    "published-logits": f"{_PACKAGE}.published_logits.experiment",
}
"""Names and modules, in the order of the papers; a module's experiment is its ``EXPERIMENT``."""


def find_experiment(name: str) -> Experiment:
    """Return the experiment with this name.

    Raises:
        ValueError: there is none; the message suggests the nearest name.
    """
    if name not in EXPERIMENTS:
        hint = did_you_mean(name, EXPERIMENTS)
        raise ValueError(
            f"there is no experiment {name!r}.{hint} There are {', '.join(EXPERIMENTS)}."
        )
    found: Experiment = import_module(EXPERIMENTS[name]).EXPERIMENT
    return found
