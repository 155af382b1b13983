"""Which methods would take too long for data of a given size."""

from focalibrate.calibrate._input import ScoredRows

MAX_ENTRIES: dict[str, int] = {
    "vector": 12_000_000,
    "structured_vector": 12_000_000,
    "ensemble_temperature": 60_000_000,
    "isotonic": 60_000_000,
    "focal_temperature": 400_000_000,
    "spline": 12_000_000,
    "pool": 12_000_000,
}
"""Rows times classes times fits, above which a method is left out unless it is named: measured
so that ``focalibrate calibrate`` takes 5 seconds at 10,000 x 100 and 30 at 50,000 x 1000."""
MAX_MATRIX_COST = 1_500_000_000
"""The same for methods with a matrix, whose cost grows with the square of the classes."""
MATRICES = ("structured_matrix", "focal_structured_matrix", "dirichlet")


def is_too_slow(name: str, rows: ScoredRows, n_fits: int) -> bool:
    """Return whether this many fits of the method `name` would take too long."""
    entries = rows.n_rows * rows.n_classes * n_fits
    if name in MATRICES:
        return entries * rows.n_classes > MAX_MATRIX_COST
    return entries > MAX_ENTRIES.get(name, entries)
