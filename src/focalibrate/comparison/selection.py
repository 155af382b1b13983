"""Which methods are compared."""

from collections.abc import Sequence

from focalibrate._check import check_choice
from focalibrate.calibrate import METHODS, ScoredRows
from focalibrate.calibrate.auto import AUTO
from focalibrate.calibrate.effort import is_too_slow
from focalibrate.calibrate.rule import candidates, pool_members

LeftOut = tuple[tuple[str, str], ...]


def selected(
    methods: Sequence[str] | None,
    trained_gamma: float | None,
    *,
    rows: ScoredRows,
    n_fits: int,
    also: str | None = None,
) -> tuple[list[str], LeftOut]:
    """Return the methods to compare, and those left out because they would take too long.

    Args:
        methods: names. Default: every default method that applies, and their pool.
        trained_gamma: exponent of the focal loss trained with, where it is known.
        rows: what they are fitted on.
        n_fits: how often each is fitted.
        also: a method that is compared in any case.
    """
    automatic = (*candidates(rows, trained_gamma), "pool")
    asked = [m for name in methods or () for m in (automatic if name == AUTO else (name,))]
    asked += [] if also is None else [also]
    for name in asked:
        _check_applies(name, trained_gamma, rows.n_classes)
    # Every method is compared with the uncalibrated model; a pool needs its members.
    names: list[str] = ["identity"]
    left_out: LeftOut = ()
    if methods is None:
        names, left_out = _default(trained_gamma, rows, n_fits)
    if "pool" in asked:
        names += pool_members(rows, trained_gamma)
    in_order = sorted(dict.fromkeys([*names, *asked]), key=lambda name: name == "pool")
    return in_order, tuple((name, why) for name, why in left_out if name not in in_order)


def _check_applies(name: str, trained_gamma: float | None, n_classes: int) -> None:
    check_choice(name, (AUTO, *METHODS), name="methods")
    if METHODS[name].needs_gamma and trained_gamma is None:
        raise ValueError(
            f"`trained_gamma` must be given for the method {name!r}, got None. Pass the exponent "
            "the model was trained with, or leave the method out."
        )
    if not METHODS[name].applies_to(n_classes, trained_gamma):
        raise ValueError(
            f"`methods`: {name!r} is for two classes, but there are {n_classes}. Leave it out."
        )


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
