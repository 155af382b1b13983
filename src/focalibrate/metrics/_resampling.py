"""Metrics of resampled rows; the contribution of each row is computed only once."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats, device, namespace
from focalibrate._check import check_n_bins
from focalibrate.metrics._rows import read, row_chunks, top_label
from focalibrate.metrics.adaptive import Bins, adaptive_ece, debiased_ece
from focalibrate.metrics.binning import (
    equal_width_edges,
    equal_width_index,
    split_equal_mass,
)
from focalibrate.metrics.calibration_error import ece, mce
from focalibrate.metrics.classwise import above_first_bin, classwise_ece
from focalibrate.metrics.reliability_table import Norm, ReliabilityTable
from focalibrate.metrics.scores import (
    brier_rows,
    brier_score,
    entropy,
    entropy_rows,
    error_rate,
    error_rows,
    kl_divergence,
    kl_rows,
    nll,
    nll_rows,
)
from focalibrate.metrics.smooth import smooth_ece, smooth_ece_of_residuals

Indices: TypeAlias = NDArray[np.intp]


class Draws:
    """Some resamples of N rows: which rows, and how much each counts."""

    def __init__(self, indices: Indices, weights: Floats | None = None) -> None:
        self.indices = indices
        """shape ``[C, N]``"""
        self.weights = weights

    @cached_property
    def times(self) -> Floats:
        """How often each row was drawn, times its weight, ``[C, N]``."""
        times = _times(self.indices, self.indices.shape[1])
        return times if self.weights is None else times * self.weights

    @cached_property
    def total(self) -> Floats:
        """Sum of `times` of each resample, ``[C]``."""
        return np.asarray(self.times.sum(axis=1))


Resampler: TypeAlias = Callable[[Draws], Floats]
"""C resamples to the metric of each ``[C]``."""

SMOOTH_GRID = 4096
"""The grid of resampled `smooth_ece`: 8 times as coarse as its own, see there for the error."""


def resampler(
    metric: Callable[..., Any], probs: Array, labels: Array | None, options: dict[str, Any]
) -> Resampler:
    """Return the resampler of `metric`: a prepared one for the library's own, else any."""
    prepare = _PREPARED.get(metric)
    if prepare is None:
        return _of_any(metric, probs, labels, options)
    return prepare(probs, labels, **options)


def is_prepared(metric: Callable[..., Any]) -> bool:
    """Return whether `metric` is one of the library's own: never negative, resampled fast."""
    return metric in _PREPARED


def _of_any(
    metric: Callable[..., Any], probs: Array, labels: Array | None, options: dict[str, Any]
) -> Resampler:
    data = [probs] if labels is None else [probs, labels]
    if probs.ndim > 2:
        lead = probs.ndim - 1
        data = [namespace(x).reshape(x, (-1, *x.shape[lead:])) for x in data]

    def one(index: Indices, weights: Floats | None) -> float:
        weight = {} if weights is None else {"sample_weight": weights[index]}
        return float(metric(*(_take(x, index) for x in data), **weight, **options))

    return lambda draws: np.array([one(index, draws.weights) for index in draws.indices])


def _take(x: Array, index: Indices) -> Array:
    xp = namespace(x)
    return xp.take(x, xp.asarray(index, device=device(x)), axis=0)


def _of_means(values: Floats) -> Resampler:
    if not np.isfinite(values).all():  # such as an infinite loss: 0 times infinity must be 0
        return lambda draws: _means_with_infinities(values, draws)
    return lambda draws: draws.times @ values / draws.total


def _means_with_infinities(values: Floats, draws: Draws) -> Floats:
    drawn = values[draws.indices]
    if draws.weights is None:
        return np.asarray(drawn.mean(axis=1))
    weights = draws.weights[draws.indices]
    return np.asarray((np.where(weights > 0, drawn, 0.0) * weights).sum(axis=1) / draws.total)


def _equal_width(
    probs: Array,
    labels: Array,
    n_bins: int,
    binary: bool,
    value: Callable[[ReliabilityTable], float],
) -> Resampler:
    confidence, correct = top_label(*read(probs, labels, binary=binary))
    index, edges = equal_width_index(confidence, n_bins), equal_width_edges(n_bins)
    rows = np.arange(len(index))
    parts = np.zeros((len(index), 3, n_bins))
    parts[rows, 0, index] = 1.0
    parts[rows, 1, index] = confidence
    parts[rows, 2, index] = correct

    def all_of(draws: Draws) -> Floats:
        sums = (draws.times @ parts.reshape(len(rows), -1)).reshape(-1, 3, n_bins)
        return np.array(
            [value(ReliabilityTable(n, conf, right, edges)) for n, conf, right in sums]
        )

    return all_of


def _equal_mass(
    probs: Array,
    labels: Array,
    n_bins: int,
    binary: bool,
    value: Callable[[ReliabilityTable], float],
) -> Resampler:
    check_n_bins(n_bins)
    confidence, correct = top_label(*read(probs, labels, binary=binary))
    order = np.argsort(confidence)
    distinct, first = np.unique(confidence[order], return_index=True)
    hits = correct[order].astype(np.float64)
    edges = equal_width_edges(n_bins)  # no value depends on them

    def one(times: Floats) -> float:
        count = times[order]
        right = count * hits
        if len(first) < len(count):
            count, right = np.add.reduceat(count, first), np.add.reduceat(right, first)
        size, (conf, right), _ = split_equal_mass(count, (count * distinct, right), n_bins)
        return value(ReliabilityTable(size, conf, right, edges))

    return lambda draws: np.array([one(times) for times in draws.times])


def _ece(
    probs: Array, labels: Array, *, n_bins: int = 15, norm: Norm = "l1", binary: bool = False
) -> Resampler:
    return _equal_width(probs, labels, n_bins, binary, lambda t: t.ece(norm=norm))


def _mce(probs: Array, labels: Array, *, n_bins: int = 15, binary: bool = False) -> Resampler:
    return _equal_width(probs, labels, n_bins, binary, ReliabilityTable.mce)


def _adaptive_ece(
    probs: Array, labels: Array, *, n_bins: int = 15, norm: Norm = "l1", binary: bool = False
) -> Resampler:
    return _equal_mass(probs, labels, n_bins, binary, lambda t: t.ece(norm=norm))


def _debiased_ece(
    probs: Array,
    labels: Array,
    *,
    n_bins: int = 15,
    bins: Bins = "equal-mass",
    binary: bool = False,
) -> Resampler:
    cut = _equal_mass if bins == "equal-mass" else _equal_width
    return cut(probs, labels, n_bins, binary, ReliabilityTable.debiased_ece)


def _smooth_ece(probs: Array, labels: Array, *, binary: bool = False) -> Resampler:
    confidence, correct = top_label(*read(probs, labels, binary=binary))
    residual = confidence - correct
    start = smooth_ece_of_residuals(confidence, residual, grid=SMOOTH_GRID)

    def all_of(draws: Draws) -> Floats:
        return np.array(
            [
                smooth_ece_of_residuals(
                    confidence,
                    times * residual * (len(residual) / total),
                    grid=SMOOTH_GRID,
                    start=start,
                )
                for times, total in zip(draws.times, draws.total, strict=True)
            ]
        )

    return all_of


def _classwise_ece(
    probs: Array, labels: Array, *, n_bins: int = 15, binary: bool = False
) -> Resampler:
    r"""Resample residuals :math:`v_k - [y = k]`, summed per class and bin by matrix products.

    Entries above the first bin are few and go into a sparse matrix; the first bin is the
    rest of the column total, as in `ClasswiseTable`.
    """
    from scipy.sparse import csr_array

    rows, y = read(probs, labels, binary=binary)
    n, k = rows.shape
    parts = [(part, *above_first_bin(rows[part], n_bins)) for part in row_chunks(n, k)]
    row = np.concatenate([part.start + r for part, r, _, _ in parts])
    cell = np.concatenate([c for _, _, c, _ in parts])
    residual = np.concatenate([p for _, _, _, p in parts]) - (cell // n_bins == y[row])
    above = csr_array((residual, (cell, row)), shape=(k * n_bins, n))
    hit = csr_array((np.ones(n), (np.arange(n), y)), shape=(n, k))

    def all_of(draws: Draws) -> Floats:
        times = draws.times
        total = -times @ hit
        for part in row_chunks(n, k):
            total += times[:, part] @ rows[part].astype(np.float64)
        binned = (above @ times.T).T.reshape(-1, k, n_bins)
        first = total - binned.sum(axis=2)
        gaps = np.abs(first).sum(axis=1) + np.abs(binned).sum(axis=(1, 2))
        return np.asarray(gaps / (draws.total * k))

    return all_of


def _times(indices: Indices, n: int) -> Floats:
    """Return how often each of ``range(n)`` occurs in each row of `indices`, ``[C, n]``."""
    c = len(indices)
    flat = (indices + n * np.arange(c)[:, None]).reshape(-1)
    return np.bincount(flat, minlength=c * n).reshape(c, n).astype(np.float64)


_PREPARED: dict[Callable[..., Any], Callable[..., Resampler]] = {
    ece: _ece,
    mce: _mce,
    adaptive_ece: _adaptive_ece,
    debiased_ece: _debiased_ece,
    classwise_ece: _classwise_ece,
    smooth_ece: _smooth_ece,
    nll: lambda probs, labels, **options: _of_means(nll_rows(probs, labels, **options)),
    brier_score: lambda probs, labels, **options: _of_means(brier_rows(probs, labels, **options)),
    error_rate: lambda probs, labels, **options: _of_means(error_rows(probs, labels, **options)),
    entropy: lambda probs, _, **options: _of_means(entropy_rows(probs, **options)),
    kl_divergence: lambda eta, probs, **options: _of_means(kl_rows(eta, probs, **options)),
}
