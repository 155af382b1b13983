"""Checks of numbers: exponents, counts, shares, choices."""

import math
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Any

from focalibrate._array import is_array_api_obj, is_concrete, namespace


def check_gamma(gamma: Any, *, minimum: float = 0.0, name: str = "gamma") -> None:
    """Raise `ValueError` unless `gamma`, a number or an array, is finite and >= `minimum`."""
    rule = f"`{name}` must be a finite number >= {minimum:g}"
    if is_array_api_obj(gamma):
        if not is_concrete(gamma):
            return
        xp = namespace(gamma)
        if not bool(xp.all(xp.isfinite(gamma))) or not bool(xp.all(gamma >= minimum)):
            low = float(xp.min(gamma))
            raise ValueError(f"{rule}, but the array has a smallest entry of {low!r}.")
        return
    if isinstance(gamma, (str, bool)) or not isinstance(gamma, (int, float)):
        raise ValueError(f"{rule}, got {gamma!r}.")
    if not minimum <= gamma < math.inf:  # not `isfinite`, which a compiler cannot trace
        raise ValueError(f"{rule}, got {gamma!r}.")


def check_count(value: object, *, name: str, minimum: int = 1, hint: str = "") -> None:
    """Raise `ValueError` unless `value` is a whole number >= `minimum`."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or value.__index__() < minimum:
        raise ValueError(f"`{name}` must be a whole number >= {minimum}, got {value!r}.{hint}")


def check_n_bins(n_bins: object, *, name: str = "n_bins") -> None:
    """Raise `ValueError` unless `n_bins` is a whole number >= 1."""
    check_count(n_bins, name=name, hint=" The papers use 15.")


def check_n_classes(n_classes: object, *, name: str = "n_classes") -> None:
    """Raise `ValueError` unless `n_classes` is a whole number >= 2."""
    check_count(n_classes, name=name, minimum=2)


def check_unit_interval(value: float, *, name: str) -> None:
    """Raise `ValueError` unless `value` is a number in [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
        raise ValueError(f"`{name}` must be a number in [0, 1], got {value!r}.")


def check_positive(value: float, *, name: str) -> None:
    """Raise `ValueError` unless `value` is a finite number > 0."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0.0 < value < math.inf:
        raise ValueError(f"`{name}` must be a finite number > 0, got {value!r}.")


def check_open_interval(value: float, *, low: float, high: float, name: str) -> None:
    """Raise `ValueError` unless `value` is a number strictly between `low` and `high`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low < value < high:
        raise ValueError(f"`{name}` must be a number in ({low:g}, {high:g}), got {value!r}.")


def check_choice(value: object, choices: Collection[str], *, name: str) -> None:
    """Raise `ValueError` unless `value` is one of `choices`; the message names the nearest."""
    if value not in choices:
        raise ValueError(
            f"`{name}` must be one of {', '.join(choices)}; got {value!r}."
            f"{did_you_mean(value, choices)}"
        )


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` with the nearest of the `known` names, "" if none is close.

    Example:
        >>> did_you_mean("temprature", ["temperature", "vector"])
        " Did you mean 'temperature'?"
    """
    near = get_close_matches(str(name), list(known), n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else ""


def check_edges(edges: Any) -> None:
    """Raise `ValueError` unless `edges`, a NumPy array, is non-decreasing from 0 to 1."""
    if edges.ndim != 1 or len(edges) < 2:
        raise ValueError(
            f"`edges` must be a list of at least two numbers, got shape {tuple(edges.shape)}. "
            "`n_bins` bins have `n_bins + 1` edges."
        )
    if not (edges[0] == 0 and edges[-1] == 1 and bool((edges[1:] >= edges[:-1]).all())):
        raise ValueError(
            f"`edges` must be non-decreasing from 0 to 1, got {edges.tolist()}. "
            "Put 0 first and 1 last."
        )
