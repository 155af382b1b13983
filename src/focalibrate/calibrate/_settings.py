"""Grids of the papers, and checks of the options of a fit."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import is_array_api_obj, to_numpy
from focalibrate._check import check_gamma

COARSE_TEMPERATURES = tuple(k / 10 for k in range(1, 101))
"""0.1 to 10 by 0.1 (Mukhoti et al. 2020): the grid of `fit_temperature` by ECE."""
FINE_TEMPERATURES = tuple(k / 100 for k in range(1, 501))
"""0.01 to 5 by 0.01 (Komisarenko & Kull 2024): the grid of `fit_focal_temperature`."""
FOCAL_GAMMAS = (-0.5, -0.25, 0.0, 0.05, 0.25, 0.37, 0.5, 0.75, 1.0, 5.0)
"""The exponents of `fit_focal_temperature` (Komisarenko & Kull 2024)."""


class CalibrationWarning(UserWarning):
    """Warning that the result of a fit should be checked before it is used."""


def check_temperature(temperature: Any, *, name: str = "temperature") -> None:
    """Raise `ValueError` unless `temperature` is a finite number above 0."""
    is_number = isinstance(temperature, (int, float)) and not isinstance(temperature, bool)
    if not is_number or not (math.isfinite(temperature) and temperature > 0):
        raise ValueError(f"`{name}` must be a finite number > 0, got {temperature!r}.")


def read_temperatures(
    temperatures: Sequence[float] | NDArray[Any], *, name: str = "temperatures"
) -> tuple[float, ...]:
    """Return the grid as checked numbers, in the order given."""
    grid = _numbers(temperatures, name=name)
    for value in grid:
        check_temperature(value, name=name)
    return grid


def read_gammas(
    gammas: Sequence[float] | NDArray[Any], *, name: str = "gammas"
) -> tuple[float, ...]:
    """Return the exponents as checked numbers, in the order given."""
    grid = _numbers(gammas, name=name)
    for value in grid:
        check_gamma(value, minimum=-1.0, name=name)
    return grid


def _numbers(values: Any, *, name: str) -> tuple[float, ...]:
    array = to_numpy(values) if is_array_api_obj(values) else np.asarray(values)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "fiu":
        raise ValueError(
            f"`{name}` must be a non-empty sequence of numbers, got {values!r}. "
            "Leave it out for the papers' grid."
        )
    return tuple(array.astype(np.float64).tolist())


def check_numbers(values: Any, *, name: str) -> None:
    """Raise `ValueError` unless `values` is a tuple of finite numbers."""
    # By type and by `map`: a matrix of 1000 classes has a million numbers.
    kinds = set(map(type, values)) if isinstance(values, tuple) else {tuple}
    is_number = all(issubclass(kind, (int, float)) and kind is not bool for kind in kinds)
    is_good = is_number and all(map(math.isfinite, values))
    if not is_good:
        raise ValueError(f"`{name}` must be a tuple of finite numbers, got {values!r:.80}.")
