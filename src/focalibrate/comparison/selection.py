"""Which methods a comparison takes up."""

from collections.abc import Sequence

from focalibrate._check import check_choice
from focalibrate.calibrate import METHODS, ScoredRows
from focalibrate.calibrate.pool import default_members

LeftOut = tuple[tuple[str, str], ...]

MAX_ENTRIES: dict[str, int] = {
    "vector": 12_000_000,
    "structured_vector": 12_000_000,
    "ensemble_temperature": 60_000_000,
    "isotonic": 60_000_000,
    "focal_temperature": 400_000_000,
    "pool": 12_000_000,
}
"""Rows times classes times fits, above which a method is left out unless it is named: measured
so that ``focalibrate calibrate`` takes 5 seconds at 10,000 x 100 and 30 at 50,000 x 1000."""
MAX_MATRIX_COST = 1_500_000_000
"""The same for methods with a matrix, whose cost grows with the square of the classes."""
MATRICES = ("structured_matrix", "focal_structured_matrix", "dirichlet")


def selected(
    methods: Sequence[str] | None,
    trained_gamma: float | None,
    *,
    rows: ScoredRows,
    n_fits: int,
) -> tuple[list[str], LeftOut]:
    """Return the methods to compare, and those left out because they would take too long.

    Args:
        methods: names asked for. Default: every default method that applies, and their pool.
        trained_gamma: exponent of the focal loss trained with, where it is known.
        rows: what they are fitted on.
        n_fits: how often each is fitted.
    """
    if methods is None:
        return _default(trained_gamma, rows, n_fits)
    for name in methods:
        check_choice(name, tuple(METHODS), name="methods")
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
        names = ["identity", *default_members(rows), *methods]
    in_order = sorted(dict.fromkeys(names), key=lambda name: name == "pool")
    return in_order, ()


def _default(
    trained_gamma: float | None, rows: ScoredRows, n_fits: int
) -> tuple[list[str], LeftOut]:
    names, left_out = [], []
    applying = [n for n, m in METHODS.items() if m.default or n == "pool"]
    for name in applying:
        if not METHODS[name].applies_to(rows.n_classes, trained_gamma):
            continue
        if _is_too_slow(name, rows, n_fits):
            size = f"{rows.n_rows:,} rows of {rows.n_classes:,} classes"
            left_out.append((name, f"too slow for {size}"))
        else:
            names.append(name)
    return names, tuple(left_out)


def _is_too_slow(name: str, rows: ScoredRows, n_fits: int) -> bool:
    entries = rows.n_rows * rows.n_classes * n_fits
    if name in MATRICES:
        return entries * rows.n_classes > MAX_MATRIX_COST
    return entries > MAX_ENTRIES.get(name, entries)
