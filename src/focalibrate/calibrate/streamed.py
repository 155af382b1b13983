"""Fits to rows that do not fit into memory, by exact passes over all of them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from focalibrate._array import Floats
from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._engine.blocks import Workers
from focalibrate.calibrate._engine.descent import Minimum, minimise
from focalibrate.calibrate._engine.joint import minimise_jointly_in_passes
from focalibrate.calibrate._engine.passes import (
    Derivatives,
    Kernel,
    LogitPasses,
    log_loss_sums,
)
from focalibrate.calibrate._engine.ridge import RidgeBlock, minimise_ridge_in_passes
from focalibrate.calibrate._input import ScoredRows
from focalibrate.calibrate.fit_report import warn
from focalibrate.calibrate.fit_structured import Base, Form, form_of_shape
from focalibrate.calibrate.focal_temperature import CONTINUOUS_GAMMAS
from focalibrate.calibrate.parametric import FocalTemperatureScaling, TemperatureScaling
from focalibrate.calibrate.row_stream import RowStream
from focalibrate.calibrate.structured import tempered

MOST_PARAMETERS = 2100
"""So many a structured scaling may have: the matrix of their second derivatives is held."""
BLOCK_NUMBERS = 1 << 21
"""Numbers of the largest array that a pass makes of some rows."""
GAPS_KEPT = 1_000_000
AT_EDGE = (
    "The best parameters, {}, are at the edge of what was tried: the criterion still falls there. "
    "If every row is right, fit on harder data; if classes are masked by large finite logits, "
    "mask them with -inf."
)


def fit_streamed(method: str, stream: RowStream, *, near: RowStream | None = None) -> Calibrator:
    """Return what the method's fit finds on all rows of `stream`, by passes over them.

    The objective and its derivatives are summed over batches; optimiser, start and tolerance are
    those of the fit in memory. Only the last digits depend on the batches. A temperature takes
    about five passes, focal temperature about ten (thirty where gamma ends near -1), a structured
    scaling about four more.

    Args:
        method: one of `STREAMED`.
        stream: the rows.
        near: nearly the same rows, to which the method was fitted: where to start.

    Raises:
        ValueError: the method cannot be fitted in passes, or not with so many classes.
    """
    if method not in STREAMED:
        raise ValueError(
            f"`method` must be one that is fitted in passes, {', '.join(STREAMED)}; "
            f"got {method!r}."
        )
    found = STREAMED[method](stream, near)
    return replace(found, n_classes=stream.n_classes)


@dataclass(frozen=True, eq=False)
class _StreamPasses:
    """What `LogitPasses` does, over rows that are read anew by every pass."""

    stream: RowStream
    workers: Workers
    unit: float = 1.0

    @property
    def dtype(self) -> Any:
        return self.stream.dtype

    @property
    def n_rows(self) -> int:
        return self.stream.n_rows

    @property
    def n_classes(self) -> int:
        return self.stream.n_classes

    def thinned(self, rows: slice) -> LogitPasses:
        return self._over(self.stream.thinned(rows))

    def in_units_of(self, unit: float) -> "_StreamPasses":
        return replace(self, unit=unit)

    def derivatives(self, kernel: Kernel, beta: float) -> Derivatives:
        return Derivatives(*self._means(lambda part: part.kernel_sums(kernel, beta)))

    def typical_gap(self) -> float:
        gaps, n_kept = [], 0
        for part in self._parts():
            gaps.append(part.gaps_to_next())
            n_kept += len(gaps[-1])
            if n_kept > GAPS_KEPT:
                break
        every = np.concatenate(gaps)
        return float(np.median(every)) if len(every) else 0.0

    def limits(self) -> tuple[float, bool]:
        slope, n_wrong = self._means(LogitPasses.limit_sums)
        return slope, n_wrong == 0

    def _means(self, sums: Callable[[LogitPasses], Floats]) -> list[float]:
        total = sum(sums(part) for part in self._parts())
        means: list[float] = (np.asarray(total) / self.stream.counts.weight).tolist()
        return means

    def _parts(self) -> Iterator[LogitPasses]:
        return map(self._over, self.stream.batches())

    def _over(self, rows: ScoredRows) -> LogitPasses:
        return LogitPasses(
            rows.logits,
            rows.labels,
            self.workers,
            weights=rows.weights,
            unit=self.unit,
            dtype=self.dtype,
        )


def _plain(stream: RowStream) -> Minimum:
    if "temperature" not in stream.known:
        with Workers() as workers:
            passes = _StreamPasses(stream, workers)
            stream.known["temperature"] = minimise(passes, log_loss_sums, is_convex=True)
    found: Minimum = stream.known["temperature"]
    return found


def _temperature(stream: RowStream, near: RowStream | None) -> TemperatureScaling:
    found = _plain(stream)
    calibrator = TemperatureScaling(found.temperature)
    if found.at_bound:
        warn(AT_EDGE.format(calibrator.describe()))
    return calibrator


def _focal(stream: RowStream) -> tuple[float, float, bool]:
    """Return gamma, T, and whether they are at a bound."""
    if "focal temperature" not in stream.known:
        plain = _plain(stream)
        found = (0.0, plain.temperature, True)
        if not plain.at_bound:
            bounds = (min(CONTINUOUS_GAMMAS), max(CONTINUOUS_GAMMAS))
            with Workers() as workers:
                best = minimise_jointly_in_passes(stream, workers, plain.temperature, bounds)
            found = (best.gamma, best.temperature, best.at_bound)
        stream.known["focal temperature"] = found
    known: tuple[float, float, bool] = stream.known["focal temperature"]
    return known


def _focal_temperature(stream: RowStream, near: RowStream | None) -> FocalTemperatureScaling:
    gamma, temperature, at_bound = _focal(stream)
    calibrator = FocalTemperatureScaling(gamma, temperature)
    if at_bound:
        warn(AT_EDGE.format(calibrator.describe()))
    return calibrator


def _structured(
    stream: RowStream, near: RowStream | None, *, base: Base, form: Form
) -> Calibrator:
    penalty = form.penalty(stream.n_classes, stream.counts.size)
    if len(penalty) > MOST_PARAMETERS:
        raise ValueError(
            f"with {stream.n_classes} classes it has {len(penalty):,} parameters, too many to be "
            f"fitted in passes over the rows (at most {MOST_PARAMETERS:,}). Fit on a sample: "
            "leave out --fit-rows all."
        )
    plain = _plain(stream).temperature
    gamma, temperature = (0.0, plain) if base == "temperature" else _focal(stream)[:2]
    mix = 1.0 / (stream.counts.size + 1.0)
    start = (gamma, temperature, mix)
    key = f"{base} {form.__name__}"
    dtype = stream.dtype
    parameters, _ = minimise_ridge_in_passes(
        partial(_blocks, stream, start, form, len(penalty)),
        penalty,
        itemsize=np.dtype(dtype).itemsize,
        start=None if near is None else near.known.get(key),
    )
    stream.known[key] = parameters
    return form.calibrator(start, parameters)


def _blocks(
    stream: RowStream, base: tuple[float, float, float], form: Form, n_parameters: int
) -> Iterator[RidgeBlock]:
    gamma, temperature, mix = base
    step = max(1, BLOCK_NUMBERS // n_parameters)
    for batch in stream.batches():
        for at in range(0, batch.n_rows, step):
            rows = batch.take(slice(at, at + step))
            z = rows.logits.astype(stream.dtype, copy=False)
            x = tempered(z, gamma=gamma, temperature=temperature, mix=mix)
            weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
            share = (weights / stream.counts.weight).astype(stream.dtype, copy=False)
            offset = np.where(np.isfinite(z), x, -np.inf)
            yield RidgeBlock(form.design(x), offset, rows.labels, share)


STREAMED: Mapping[str, Callable[[RowStream, RowStream | None], Calibrator]] = {
    "temperature": _temperature,
    "focal_temperature": _focal_temperature,
    "structured_vector": partial(_structured, base="temperature", form=form_of_shape("vector")),
    "structured_matrix": partial(_structured, base="temperature", form=form_of_shape("matrix")),
    "focal_structured_vector": partial(
        _structured, base="focal_temperature", form=form_of_shape("vector")
    ),
    "focal_structured_matrix": partial(
        _structured, base="focal_temperature", form=form_of_shape("matrix")
    ),
}
"""Methods that are fitted in passes, by name."""
