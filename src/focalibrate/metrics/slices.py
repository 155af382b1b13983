"""Search for the slice of rows on which a model is most clearly miscalibrated."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats
from focalibrate._check import check_count
from focalibrate.metrics.interval import Interval
from focalibrate.metrics.null import generator, independent_residuals
from focalibrate.metrics.rows import EventArguments, EventKind, read_event, read_groups
from focalibrate.metrics.words import ALPHA, p_text, points, side_of


@dataclass(frozen=True, eq=False)
class WorstSlice:
    """The slice of rows whose probabilities are most clearly off on average."""

    description: str
    """such as "age > 41.5 and region = north\""""
    n: int
    gap: Interval
    """mean probability minus observed rate; the interval allows for the search over slices"""
    p_value: float
    """chance that the worst slice of a calibrated model is at least as far off"""
    n_slices: int
    """number of slices searched"""
    rows: NDArray[np.bool_]
    """which rows belong to it, shape ``[N]``"""
    event: EventKind
    """what the probabilities are of, see `Assessment`"""
    n_draws: int = 499

    @property
    def summary(self) -> str:
        """The finding as a sentence."""
        if self.p_value >= ALPHA:
            return (
                f"no slice stands out: the worst of {self.n_slices:,} ({self.description}) is "
                f"within chance ({p_text(self.p_value)})"
            )
        p = p_text(self.p_value, n_draws=self.n_draws)
        return (
            f"{self.description} ({self.n:,} rows): {side_of(self.gap, self.event)} by "
            f"{points(abs(self.gap.estimate))} ({p}, allowing for {self.n_slices:,} slices "
            "searched)"
        )


def worst_slice(
    probs: Array | None = None,
    labels: Array | None = None,
    columns: Mapping[str, Array] | None = None,
    *,
    min_rows: int = 50,
    n_draws: int = 499,
    seed: int | np.random.Generator = 0,
    **rows: Unpack[EventArguments],
) -> WorstSlice:
    r"""Search for the slice of rows with the clearest mean error, with an honest p-value.

    The event is that of `assess`. Slices are one condition (``region = north``, ``age > 41.5``
    at a quartile) or two on different columns. For each,
    :math:`z = \sum r / \sqrt{\sum c(1-c)}`; the largest
    :math:`|z|` is compared with the largest of the *same search* on outcomes drawn from the
    predictions, so that the p-value allows for the number of slices searched.

    Args:
        probs: probabilities ``[N, K]``, any array library, or ``[N]`` of class 1.
        labels: class indices ``[N]``.
        columns: values of each row ``[N]`` by name, numbers or text. Of a text column the
            eight most frequent values are used.
        min_rows: rows a slice must have.
        n_draws: draws for the p-value.
        seed: random seed of the draws, or a `numpy.random.Generator`.
        rows: ``confidence``, ``correct``, ``event``, ``sample_weight`` and ``copies``, as in
            `assess`.

    Returns:
        `WorstSlice`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> p, region = rng.uniform(0.5, 1, size=4000), rng.choice(["north", "south"], 4000)
        >>> y = (rng.uniform(size=4000) < p - 0.15 * (region == "north")).astype(int)
        >>> worst_slice(p, y, {"region": region}).description
        'region = north'
    """
    check_count(n_draws, name="n_draws", minimum=19)
    check_count(min_rows, name="min_rows")
    if columns is None:
        raise ValueError("`columns` must name at least one column to slice by.")
    found = read_event(probs, labels, keep_all=True, **rows)
    if found.code is not None:
        raise ValueError(
            "`worst_slice` takes no `cluster`: its draws treat rows as independent. Leave it out, "
            "or use `assess_groups`."
        )
    slices = _large_slices(columns, found.counts, min_rows=min_rows)
    counted = np.flatnonzero(found.counts)
    kept = found.take(counted)
    order = np.argsort(kept.probability, kind="stable")
    atoms = kept.cells().binned(slices.atom[counted][order], slices.matrix.shape[1])
    scale = np.sqrt(np.maximum(slices.matrix @ atoms.variance, 1e-12))
    z = slices.matrix @ atoms.residual / scale
    drawn = slices.matrix @ independent_residuals(atoms, n_draws, generator(seed))
    null = np.abs(drawn / scale[:, None]).max(axis=0)
    worst = int(np.abs(z).argmax())
    reached = np.count_nonzero(null >= abs(z[worst]) - 1e-9)
    held = slices.matrix[worst, slices.atom] > 0
    unit = float(scale[worst] / (slices.matrix[worst] @ atoms.weight))
    gap, half = float(z[worst]) * unit, float(np.quantile(null, 0.95)) * unit
    return WorstSlice(
        slices.names[worst],
        int(held.sum()),
        Interval(gap, max(-1.0, gap - half), min(1.0, gap + half)),
        float((1 + reached) / (1 + n_draws)),
        len(slices.names),
        held,
        found.kind,
        n_draws,
    )


@dataclass(frozen=True, eq=False)
class _Slices:
    """Slices as sums over atoms: rows of one atom meet exactly the same conditions."""

    names: list[str]
    atom: NDArray[np.intp]
    """the atom of each row, shape ``[N]``"""
    matrix: Floats
    """1 where a slice holds an atom, shape ``[slices, atoms]``"""


def _large_slices(
    columns: Mapping[str, Array], counts: NDArray[np.bool_], *, min_rows: int
) -> _Slices:
    """Return the slices with at least `min_rows` rows, of the rows for which `counts` is true."""
    conditions = _conditions(columns, len(counts))
    atoms, atom = np.unique(
        np.stack([held for _, _, held in conditions], axis=1), axis=0, return_inverse=True
    )
    names, matrix = _slices(conditions, atoms)
    atom = atom.reshape(-1)
    kept = np.flatnonzero(matrix @ np.bincount(atom, counts, len(atoms)) >= min_rows)
    if not len(kept):
        raise ValueError(
            f"no slice has {min_rows} rows; lower `min_rows` or pass columns with fewer values."
        )
    return _Slices([names[i] for i in kept], atom, matrix[kept])


def _conditions(columns: Mapping[str, Array], n: int) -> list[tuple[str, str, NDArray[np.bool_]]]:
    """Return column, text and rows of every single condition."""
    found: list[tuple[str, str, NDArray[np.bool_]]] = []
    for name, values in read_groups(columns, n, argument="columns").items():
        is_number = values.dtype.kind in "iuf"
        if not is_number:
            values = values.astype(str)
        distinct, count = np.unique(values, return_counts=True)
        if is_number and len(distinct) > 8:
            for cut in np.unique(np.quantile(values, [0.25, 0.5, 0.75])):
                found.append((name, f"{name} <= {cut:g}", values <= cut))
                found.append((name, f"{name} > {cut:g}", values > cut))
            continue
        for value in distinct[np.argsort(-count, kind="stable")[:8]]:
            found.append((name, f"{name} = {value}", values == value))
    if not found:
        raise ValueError("`columns` must name at least one column to slice by.")
    return found


def _slices(
    conditions: list[tuple[str, str, NDArray[np.bool_]]], atoms: NDArray[np.bool_]
) -> tuple[list[str], Floats]:
    """Return the text of every slice and the matrix ``[slices, atoms]`` of what it holds."""
    names, parts = [text for _, text, _ in conditions], [atoms.T]
    pairs = [
        (i, j)
        for i, j in combinations(range(len(conditions)), 2)
        if conditions[i][0] != conditions[j][0]
    ]
    names += [f"{names[i]} and {names[j]}" for i, j in pairs]
    if pairs:
        first, second = np.array(pairs).T
        parts.append(atoms.T[first] & atoms.T[second])
    return names, np.concatenate(parts).astype(np.float64)
