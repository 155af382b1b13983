"""Which methods are compared."""

from collections.abc import Sequence

from focalibrate._check import check_choice
from focalibrate.calibrate import METHODS, ScoredRows
from focalibrate.calibrate.effort import is_too_slow
from focalibrate.calibrate.rule import candidates, pool_members

AUTO = "auto"
"""The methods that the automatic choice is made from."""
LeftOut = tuple[tuple[str, str], ...]


def selected(
    methods: Sequence[str] | None,
    trained_gamma: float | None,
    *,
    rows: ScoredRows,
    n_fits: int,
) -> tuple[list[str], LeftOut]:
    """Return the methods to compare, and those left out because they would take too long.

    Args:
        methods: names. Default: every default method that applies, and their pool.
        trained_gamma: exponent of the focal loss trained with, where it is known.
        rows: what they are fitted on.
        n_fits: how often each is fitted.
    """
    if methods is None:
        return _default(trained_gamma, rows, n_fits)
    automatic = (*candidates(rows, trained_gamma), "pool")
    methods = [m for name in methods for m in (automatic if name == AUTO else (name,))]
    for name in methods:
        check_choice(name, (AUTO, *METHODS), name="methods")
        method = METHODS[name]
        if method.needs_gamma and trained_gamma is None:
            raise ValueError(
                f"`trained_gamma` must be given for the method {name!r}, got None. Pass the "
                "exponent the model was trained with, or leave the method out."
            )
        if not method.applies_to(rows.n_classes, trained_gamma):
            raise ValueError(
                f"`methods`: {name!r} is for two classes, but there are {rows.n_classes}. Leave "
                "it out."
            )
    # Every method is compared with the uncalibrated model; a pool needs its members.
    names = ["identity", *methods]
    if "pool" in methods:
        names = ["identity", *pool_members(rows, trained_gamma), *methods]
    in_order = sorted(dict.fromkeys(names), key=lambda name: name == "pool")
    return in_order, ()


def _default(
    trained_gamma: float | None, rows: ScoredRows, n_fits: int
) -> tuple[list[str], LeftOut]:
    names, left_out = [], []
    pooled = (*pool_members(rows, trained_gamma), "pool")
    applying = [n for n, m in METHODS.items() if m.default or n in pooled]
    for name in applying:
        if not METHODS[name].applies_to(rows.n_classes, trained_gamma):
            continue
        if is_too_slow(name, rows, n_fits):
            size = f"{rows.n_rows:,} rows of {rows.n_classes:,} classes"
            left_out.append((name, f"too slow for {size}"))
        else:
            names.append(name)
    return names, tuple(left_out)
