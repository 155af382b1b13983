"""The experiments by name."""

from importlib import import_module

from focalibrate._check import did_you_mean
from focalibrate.experiments.experiment import Experiment

EXPERIMENTS: tuple[str, ...] = (
    "regimes",
    "synthetic-posterior",
    "psi-images",
    "psi-tabular",
    "focal-calibration",
    "dynamics",
    "linear",
    "s99",
    "temperature-relation",
    "focal-temperature",
    "curvature",
    "curvature-regularised",
    "published-logits",
)
"""Names in the order of SPEC E; each is ``EXPERIMENT`` of the module of that name."""


def find_experiment(name: str) -> Experiment:
    """Return the experiment of a name.

    Raises:
        ValueError: there is none, with the nearest name.
    """
    if name not in EXPERIMENTS:
        hint = did_you_mean(name, EXPERIMENTS)
        raise ValueError(
            f"there is no experiment {name!r}.{hint} There are {', '.join(EXPERIMENTS)}."
        )
    module = import_module(f"focalibrate.experiments.{name.replace('-', '_')}")
    found: Experiment = module.EXPERIMENT
    return found
