"""The rows of a fit: scores in any form, read and checked once, with labels and weights."""

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import (
    Array,
    Floats,
    array_of,
    is_array_api_obj,
    is_concrete,
    is_numpy_array,
    is_torch_array,
    namespace,
    to_numpy,
    working_dtype,
)
from focalibrate._check import (
    check_labels,
    check_logits,
    check_probs,
    check_same_order,
    check_sample_weight,
    column_names,
    is_whole,
    labels_for,
)
from focalibrate.calibrate.optimise import CalibrationWarning, FitReport, Minimum, warn
from focalibrate.metrics.rows import row_chunks

if TYPE_CHECKING:
    from focalibrate.calibrate.calibrator import Calibrator

C = TypeVar("C", bound="Calibrator")
S = TypeVar("S")
T = TypeVar("T")
ScoreKind = Literal["logits", "probs"]

SMALLEST = 2.0 * float(np.finfo(np.float32).tiny)
"""Smallest positive probability in the rule for zeros; half of it is not 0 in float32."""
HARD_MIX = 0.01
"""Weight of the uniform distribution where all probabilities are 0 or 1."""
LOOKED_AT = 64
"""Rows by which probabilities given as logits are recognised."""
SMALL_BLOCK, LARGE_BLOCK = 2**18, 2**19
"""Bytes of a block of rows: with its working copies it stays in second-level cache."""
MAX_THREADS = 8
BLOCK_ENTRIES = 1 << 18
"""Probabilities computed at once, 1 or 2 MB."""
LARGEST = 745.0
"""The log loss of the smallest float64, which counts instead of an infinite one."""
Folds = tuple[NDArray[np.intp], ...]

N_FOLDS = 5
FEW_FOLDS, MANY_ENTRIES = 3, 60_000
"""Numbers of folds, and from how many logits on each is used."""
FLOAT32_ABOVE = 2**19
"""Entries above which single-precision logits are worked on in float32, block by block."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The input of a fit: logits, labels and weights as NumPy arrays."""

    logits: NDArray[Any]
    """``[N, K]``, not copied where they were NumPy logits."""
    labels: NDArray[np.intp]
    """Class indices ``[N]``."""
    weights: Floats | None = None
    """Positive weights ``[N]``; None: every row counts 1."""
    zero_mix: float = 0.0
    """Weight of the uniform distribution that was mixed into probabilities with zeros."""
    class_names: tuple[str, ...] | None = None
    """The columns of the data frame that the scores came in."""
    kind: ScoreKind = "logits"
    """What was given: `logits` are log-probabilities if it was ``"probs"``."""
    options: bool = False
    """Whether each row has options of its own, -inf after the last, instead of classes."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.labels)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.logits.shape[1])

    @property
    def size(self) -> float:
        r"""Effective number of rows.

        Whole-number weights count copies of a row, so it is their sum. Other weights are only
        relative to each other: Kish's effective sample size :math:`(\sum w)^2 / \sum w^2`.
        """
        return sample_size(self.weights, self.n_rows)

    @cached_property
    def ends(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Each row's largest logit and its label's, ``[N]``; raises unless they are finite.

        This is the one check of the values. nan and +inf show in the largest logit of their row;
        -inf only if the whole row is -inf.
        """
        top, true = (np.empty(self.n_rows, self.logits.dtype) for _ in range(2))

        def fill(part: slice) -> None:
            block = self.logits[part]
            block.max(axis=1, out=top[part])
            true[part] = block[np.arange(len(block)), self.labels[part]]

        row_bytes = self.logits.itemsize * self.n_classes
        deque(in_threads(fill, row_blocks(self.n_rows, row_bytes=row_bytes)), maxlen=0)
        is_bad = ~(np.isfinite(top) & np.isfinite(true))
        if is_bad.any():
            _explain(self.logits, int(is_bad.argmax()))
        return top, true

    def check(self) -> None:
        """Raise unless every row has a largest logit, and its label's, that is finite."""
        _ = self.ends

    def take(self, index: Any) -> "Rows":
        """Return the rows of `index`: integers, booleans or a slice."""
        weights = None if self.weights is None else self.weights[index]
        logits, labels = self.logits[index], self.labels[index]
        found = replace(self, logits=logits, labels=labels, weights=weights)
        if "ends" in vars(self):
            vars(found)["ends"] = tuple(values[index] for values in self.ends)
        return found

    def losses(self, calibrator: "Calibrator") -> Floats:
        """Return the log loss of each row ``[N]``, at most `LARGEST`."""
        found = np.empty(self.n_rows)
        for part in row_chunks(self.n_rows, self.n_classes, BLOCK_ENTRIES):
            log_probs = np.asarray(calibrator.log_probs_of(self.logits[part]))
            found[part] = -log_probs[np.arange(len(log_probs)), self.labels[part]]
        return np.minimum(found, LARGEST)

    def mean_loss(self, calibrator: "Calibrator") -> float:
        """Return the mean log loss."""
        return float(np.average(self.losses(calibrator), weights=self.weights))

    def finish(
        self, calibrator: C, at: Minimum | None = None, *, criterion: str = "nll", **others: Any
    ) -> C:
        """Return `calibrator` as a fit returns it, with a `FitReport` of `at` and of `others`."""
        facts: dict[str, Any] = {}
        if at is not None:
            facts = {name: value for name, value in vars(at).items() if name != "x"}
        report = FitReport(
            method=calibrator.kind,
            criterion=criterion,
            n_rows=self.n_rows,
            n_classes=self.n_classes,
            **(facts | others),
        )
        return replace(self.stamp(calibrator), report=report)

    def stamp(self, calibrator: C) -> C:
        """Return `calibrator` with the classes, kind of score and rule for zeros of this data."""
        return replace(
            calibrator,
            n_classes=None if self.options else self.n_classes,
            zero_mix=self.zero_mix,
            class_names=self.class_names,
            fitted_on=self.kind,
        )


def sample_size(weights: Floats | None, n_rows: int) -> float:
    """Return the effective number of rows; see `Rows.size`."""
    if weights is None:
        return float(n_rows)
    total = float(weights.sum())
    if is_whole(weights):
        return total
    return total**2 / float((weights**2).sum())


def read_scores(
    logits: Any = None, labels: Any = None, *, probs: Any = None, sample_weight: Any = None
) -> Rows:
    """Return scores, labels and weights as NumPy arrays.

    Exactly one of `logits` and `probs`: arrays of any library, data frames or lists,
    ``[N, K]``, or ``[N]`` and ``[N, 1]`` for the margin or probability of class 1. Rows of
    weight 0 are dropped. Shapes, dtypes and labels are checked here; the values of logits are
    checked by the fit that looks at them first (`Rows.ends`). `Rows`, as `logits`, have been read
    before and come back as they are.
    """
    if isinstance(logits, Rows):
        return logits
    if (logits is None) == (probs is None):
        raise ValueError(
            "Pass exactly one of `logits` and `probs`, got "
            f"{'neither' if logits is None else 'both'}."
        )
    if labels is None:
        raise ValueError("`labels` must be given: one class index per row of the scores.")
    name = "logits" if probs is None else "probs"
    given = logits if probs is None else probs
    scores = score_matrix(given, name=name)
    targets = labels_for(given, labels)
    check_same_order(given, {"sample_weight": sample_weight})
    if not is_array_api_obj(targets) or "bool" in str(targets.dtype):
        targets = np.asarray(targets).astype(np.intp)
    check_labels(targets, shape=(scores.shape[0],), n_classes=scores.shape[1])
    targets = to_numpy(targets).astype(np.intp, copy=False)
    weights = read_weights(sample_weight, n_rows=len(targets))
    if weights is not None and not weights.all():
        is_kept = weights > 0
        scores, targets, weights = scores[is_kept], targets[is_kept], weights[is_kept]
    if weights is not None and (weights == 1.0).all():
        weights = None
    names = column_names(given)
    if probs is None:
        return Rows(scores, targets, weights, class_names=names)
    check_probs(scores)
    mix = zero_mix_for(scores)
    logs = log_probabilities(scores, mix)
    return Rows(logs, targets, weights, mix, class_names=names, kind="probs")


def read_given(logits: Any = None, labels: Any = None, **others: Any) -> Rows:
    """Return `read_scores` of what a user passed, with a warning if logits are probabilities."""
    rows = read_scores(logits, labels, **others)
    if rows is not logits and rows.kind == "logits":
        warn_of_probabilities(rows.logits)
    return rows


def option_rows(option_logits: Sequence[Any], labels: Any, *, sample_weight: Any = None) -> Rows:
    """Return rows that each have options of their own, in any number.

    An array ``[N, K]`` has -inf after the last option of a row.
    """
    listed = [np.asarray(row, np.float64).reshape(-1) for row in option_logits]
    width = max((len(row) for row in listed), default=0)
    if width < 2:
        raise ValueError("`option_logits` must have at least two options in some row.")
    logits = np.full((len(listed), width), -np.inf)
    for row, scores in zip(logits, listed, strict=True):
        row[: len(scores)] = scores
    rows = replace(read_scores(logits, labels, sample_weight=sample_weight), options=True)
    order = by_rank(rows.logits)
    ranked = np.take_along_axis(rows.logits, order, axis=1)
    return replace(rows, logits=ranked, labels=rank_of(rows.labels, order))


def by_rank(scores: NDArray[Any]) -> NDArray[np.intp]:
    """Return the options of each row from the lowest score to the highest, ``[N, K]``.

    In this order everything computed is exactly the same whatever order the options came in. Of
    equal scores the first stays first, so that it still is the predicted one.
    """
    return np.argsort(scores, axis=1, kind="stable")


def rank_of(labels: NDArray[np.integer], order: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return where the labels are in the order of `by_rank`."""
    return np.asarray(np.argmax(order == labels[:, None], axis=1))


def zero_mix_for(probs: NDArray[Any]) -> float:
    """Return the weight of the uniform distribution to mix into `probs` before the logarithm.

    0 if no probability is exactly 0. Otherwise a zero means less than the scores can resolve, and
    is read as half the smallest positive probability: half a vote of a forest or of the nearest
    neighbours, or almost nothing if an exponential underflowed. It is at least what float32 can
    hold, and at most half of the mixture; `HARD_MIX` where all are 0 or 1. Of the rules tried on
    the arena's calibration sets, 1 / (n + 1) and float32's smallest number among them, it had the
    least log loss.
    """
    if not bool((probs == 0).any()):
        return 0.0
    return zero_mix_below(float(probs[probs > 0].min()), probs.shape[1])


def zero_mix_below(least: float, n_classes: int) -> float:
    """Return the weight by which a zero counts as half of `least`, the smallest above 0."""
    if least == 1.0:
        return HARD_MIX
    return float(min(0.5 * max(least, SMALLEST) * n_classes, 0.5))


def read_weights(sample_weight: Any, *, n_rows: int) -> Floats | None:
    """Return `sample_weight` as one finite number >= 0 per row, or None."""
    if sample_weight is None:
        return None
    weights = as_array(sample_weight, name="sample_weight")
    return check_sample_weight(weights, n_rows=n_rows)


def score_matrix(scores: Any, *, name: str) -> NDArray[Any]:
    """Return scores ``[N, K]`` in NumPy, one column of binary scores as two."""
    array = as_array(scores, name=name)
    if not is_array_api_obj(array) or 0 in array.shape or array.ndim == 0:
        check_logits(array, name=name)
    if array.ndim > 2:
        raise ValueError(
            f"`{name}` must have shape [N, K], got {tuple(array.shape)}. "
            f"Flatten leading axes with `{name}.reshape(-1, K)` and the labels alike."
        )
    rows = to_numpy(array)
    if rows.ndim == 1 or rows.shape[1] == 1:
        rows = two_columns(rows.reshape(-1), is_probs=name == "probs")
    check_logits(rows[:1], name=name)  # dtype and class count; `Rows.ends` checks the rest
    return rows


def _explain(logits: NDArray[Any], row: int) -> NoReturn:
    try:
        check_logits(logits[row : row + 1])
    except ValueError as error:
        raise ValueError(str(error).replace("row 0 ", f"row {row} ")) from None
    raise ValueError(
        f"`logits` must not rule out the true class, but the logit of row {row}'s label is "
        "-inf. Unmask it, correct the label or drop the row."
    )


def working_precision(logits: NDArray[Any]) -> Any:
    """Return float64, or float32 for large single- and half-precision logits."""
    is_large = logits.size > FLOAT32_ABOVE and logits.dtype.itemsize <= 4
    return np.float32 if is_large else np.float64


def as_array(values: Any, *, name: str) -> Array:
    """Return arrays as they are, data frames and lists as NumPy arrays; whole numbers as floats.

    Labels keep their integers: only `name` ``"labels"`` is exempt from becoming floating.
    """
    values = array_of(values)
    is_scores = name in ("logits", "probs", "sample_weight")
    if isinstance(values, np.ndarray) and is_scores and values.dtype.kind in "iuO":
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"`{name}` must hold numbers only, got dtype {values.dtype}."
            ) from None
    return values


def two_columns(scores: Array, *, is_probs: bool) -> Array:
    """Return ``[..., 2]`` scores for the margins or probabilities of class 1."""
    xp = namespace(scores)
    first = 1.0 - scores if is_probs else xp.zeros_like(scores)
    return xp.stack([first, scores], axis=-1)


def precise_dtype(x: Array) -> Any:
    """Return float64, or the working precision on a device without it."""
    is_wide = is_numpy_array(x) or (is_torch_array(x) and x.device.type != "mps")
    return namespace(x).float64 if is_wide else working_dtype(x)


def log_probabilities(probs: Array, zero_mix: float) -> Array:
    r"""Return :math:`\log((1-\varepsilon)p + \varepsilon/K)`; if unmixed, of `SMALLEST` for 0.

    A probability of exactly 0 means less than its model can resolve, not that the class is
    impossible: the logarithm is finite.
    """
    xp = namespace(probs)
    x = xp.astype(probs, working_dtype(probs))
    if zero_mix:
        return xp.log((1.0 - zero_mix) * x + zero_mix / x.shape[-1])
    return xp.log(xp.where(x == 0, xp.full_like(x, SMALLEST), x))


def warn_of_probabilities(logits: Array) -> None:
    """Warn if `logits` are probabilities: rows in [0, 1] that sum to 1."""
    if not is_concrete(logits) or len(logits.shape) != 2 or 0 in logits.shape:
        return
    seen = to_numpy(logits[: min(LOOKED_AT, logits.shape[0]), ...]).astype(np.float64)
    if ((seen >= 0) & (seen <= 1)).all() and (abs(seen.sum(axis=-1) - 1.0) < 1e-3).all():
        warnings.warn(
            "`logits` look like probabilities: the rows lie in [0, 1] and sum to 1. Pass "
            "probabilities as `probs=`; as `logits` their softmax is calibrated.",
            CalibrationWarning,
            stacklevel=4,
        )


def row_blocks(n_rows: int, *, row_bytes: int) -> list[slice]:
    """Return slices that cover `n_rows`, large for large data, small where memory is scarce.

    The cut depends on the shape alone, never on the number of threads, so that sums over
    blocks round the same way on every machine.
    """
    block = min(LARGE_BLOCK, max(SMALL_BLOCK, n_rows * row_bytes // 256))
    size = max(1, block // max(1, row_bytes))
    return [slice(i, min(i + size, n_rows)) for i in range(0, n_rows, size)]


def thin_rows(n_rows: int, *, at_most: int) -> slice:
    """Return an evenly spaced subset of the rows: deterministic, and a view when applied."""
    return slice(0, n_rows, max(1, -(-n_rows // at_most)))


def in_threads(function: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """Yield ``function(item)`` for each of `items`, in order, from a few threads.

    NumPy releases the interpreter lock inside its loops, so threads are enough. At most two
    results per thread are in flight: memory does not grow with the items. A thread, such as that
    of one method among several, starts no others.
    """
    given: Sequence[S] = list(items)
    n_threads = available_cores()
    if n_threads == 1 or len(given) == 1 or current_thread() is not main_thread():
        yield from map(function, given)
        return
    queue = iter(given)
    with ThreadPoolExecutor(n_threads) as pool:
        pending: deque[Future[T]] = deque(
            pool.submit(function, item) for item in islice(queue, 2 * n_threads)
        )
        while pending:
            yield pending.popleft().result()
            pending.extend(pool.submit(function, item) for item in islice(queue, 1))


def available_cores() -> int:
    """Return how many cores this process may use, at most `MAX_THREADS`."""
    if hasattr(os, "sched_getaffinity"):
        return min(MAX_THREADS, len(os.sched_getaffinity(0)))
    return min(MAX_THREADS, os.cpu_count() or 1)


def check_classes_present(labels: NDArray[np.intp], n_classes: int, *, method: str) -> None:
    """Raise if only one class occurs; warn if some of the classes never occur."""
    present = np.unique(labels)
    if len(present) < 2:
        raise ValueError(
            f"`labels` must hold at least two classes to fit {method}, found only class "
            f"{present[0]}. Fit on data with more classes, or fit a temperature."
        )
    if len(present) < n_classes:
        missing = np.setdiff1d(np.arange(n_classes), present)
        shown = ", ".join(map(str, missing[:5].tolist())) + (", ..." if len(missing) > 5 else "")
        warn(
            f"{len(missing)} of {n_classes} classes never occur among the labels ({shown}): "
            f"{method} gives them probability 0 or nearly so. A temperature needs no label of "
            "every class."
        )


def fold_count(rows: Rows) -> int:
    """Return the number of folds for data of this size."""
    return min(FEW_FOLDS if rows.logits.size > MANY_ENTRIES else N_FOLDS, rows.n_rows)


def random_folds(
    rows: Rows,
    n_folds: int,
    seed: int | np.random.Generator,
    cluster: NDArray[np.intp] | None = None,
) -> Folds:
    """Return which rows each fold holds, at random.

    Classes are not spread evenly: a fold with the class frequencies of the others would reward
    a method for fitting the chance in them, and a calibrated model would lose to it. But of a
    class of several rows, one is outside of each fold. Folds depend on the content of a row and
    not on its position.

    With the number of the `cluster` of each row ``[N]``, no cluster is split: they are dealt in
    random order, the largest first, each to the fold with the fewest rows.
    """
    rng = np.random.default_rng(seed)
    if cluster is not None:
        return _clustered(rows, n_folds, rng, cluster)
    fold = np.empty(rows.n_rows, dtype=np.intp)
    fold[_by_content(rows)] = rng.permutation(rows.n_rows) % n_folds
    _spread(fold, np.arange(rows.n_rows), rows.labels, n_folds)
    return tuple(np.flatnonzero(fold == i) for i in range(n_folds))


def _spread(
    fold: NDArray[np.intp],
    cluster: NDArray[np.intp],
    labels: NDArray[np.intp],
    n_folds: int,
) -> None:
    """Move a cluster of each class that is in one fold only into the next."""
    for label, count in enumerate(np.bincount(labels)):
        if 1 < count <= n_folds * 10:  # more are hardly ever all in one fold
            held = np.unique(cluster[labels == label])
            if len(held) > 1 and (fold[held] == fold[held[0]]).all():
                fold[held[0]] = (fold[held[0]] + 1) % n_folds


def _clustered(
    rows: Rows, n_folds: int, rng: np.random.Generator, cluster: NDArray[np.intp]
) -> Folds:
    size = np.bincount(cluster)
    first = np.full(len(size), rows.n_rows)
    np.minimum.at(first, cluster[_by_content(rows)], np.arange(rows.n_rows))
    dealt = np.argsort(first, kind="stable")[rng.permutation(len(size))]
    fold, filled = np.empty(len(size), dtype=np.intp), np.zeros(n_folds)
    for one in dealt[np.argsort(-size[dealt], kind="stable")]:
        fold[one] = filled.argmin()
        filled[fold[one]] += size[one]
    _spread(fold, cluster, rows.labels, n_folds)
    of_row = fold[cluster]
    return tuple(np.flatnonzero(of_row == i) for i in range(n_folds))


def _by_content(rows: Rows) -> NDArray[np.intp]:
    """Return an order of the rows that does not depend on their positions."""
    direction = np.random.default_rng(rows.n_classes).normal(size=rows.n_classes)
    key = np.empty(rows.n_rows)
    for part in row_chunks(rows.n_rows, rows.n_classes, BLOCK_ENTRIES):
        block = np.asarray(rows.logits[part], dtype=np.float64)
        # not `@`, whose rounding depends on a row's neighbours
        key[part] = (np.where(np.isfinite(block), block, -1e3) * direction).sum(1)
    return np.lexsort((rows.labels, key))
