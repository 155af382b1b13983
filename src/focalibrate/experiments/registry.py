"""The experiments by name."""

from difflib import get_close_matches
from importlib import import_module

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
        near = get_close_matches(name, EXPERIMENTS, n=1, cutoff=0.4)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"there is no experiment {name!r}.{hint} There are {', '.join(EXPERIMENTS)}."
        )
    module = import_module(f"focalibrate.experiments.{name.replace('-', '_')}")
    found: Experiment = module.EXPERIMENT
    return found
