"""Calibration of a model over a loader, collected batch by batch in bounded memory."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self, final

import numpy as np
import torch
from torch import Tensor, nn

from focalibrate._array import Floats
from focalibrate._check import check_count, check_n_bins
from focalibrate.calibrate import Calibrator, fit
from focalibrate.io import write_sketch
from focalibrate.metrics import ClasswiseTable, ReliabilityTable, Sketch
from focalibrate.nn._batch import BatchTaker
from focalibrate.nn._image import LARGE
from focalibrate.nn._inputs import outputs_of
from focalibrate.nn._ranks import Arrays, gather_arrays, is_distributed
from focalibrate.nn._sample import RowKeeper, RowSample
from focalibrate.nn._seen import (
    MonitorMetrics,
    arrays_of,
    sketch_file,
    sketch_of,
    table_of,
)

__all__ = ["CalibrationMonitor", "MonitorMetrics"]

_SETTINGS = ("n_bins", "max_rows", "seed", "classwise", "by_class", "per_image")
_ROWS = ("logits", "labels", "priority", "weights")


@final
class CalibrationMonitor:
    r"""Metrics, a reliability table and a calibrator for logits that come in batches.

    A `Sketch` is kept, and a sample of at most `max_rows` rows for fits: memory is
    ``O(max_rows * K)`` however many examples are seen. ``+`` merges monitors and `synchronize`
    merges those of all ranks; the result is that of one monitor that saw all examples, in any
    order. `save` writes the sketch for ``focalibrate evaluate`` and ``focalibrate check``.

    Args:
        n_bins: bins of the binned metrics.
        max_rows: rows kept for `fit`, all of them until there are more; 0 for none.
        seed: random seed of the choice which rows are kept.
        classwise: keep the sums by class too, for the classwise error.
        by_class: keep a table of each predicted class too: `predicted_tables`.
        per_image: keep a table of each image (each example of the batch) too: `image_tables`,
            ``3 * n_bins`` numbers per image.
        ignore_index: label of examples that do not count.

    Numerics:
        Float64. All metrics are exact to rounding, `adaptive_ece` to the error stated in
        `ReliabilityTable.equal_mass`. Rows are kept as float32, or float64 if they are that.
        Images of 4,096 pixels or more are taken one at a time, pixels in the dtype of the logits
        and sums in float64; of each, up to 256 random pixels are candidates for the rows kept.
        For 512 x 512 pixels and 19 classes this takes as long as `argmax` (`make bench`).

    Example:
        >>> monitor = CalibrationMonitor()
        >>> for _ in range(2):
        ...     monitor.update(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]))
        >>> monitor.n, round(monitor.metrics().ece, 4)
        (4, 0.4251)
        >>> monitor.fit("temperature").describe()
        'temperature scaling: T=2.383'
    """

    def __init__(
        self,
        *,
        n_bins: int = 15,
        max_rows: int = 10_000,
        seed: int = 0,
        classwise: bool = False,
        by_class: bool = False,
        per_image: bool = False,
        ignore_index: int = -100,
    ) -> None:
        check_n_bins(n_bins)
        check_count(max_rows, name="max_rows", minimum=0)
        check_count(seed, name="seed", minimum=0)
        self.n_bins, self.max_rows, self.seed = n_bins, max_rows, seed
        self.classwise, self.by_class, self.per_image = classwise, by_class, per_image
        self.ignore_index = ignore_index
        self.reset()

    def reset(self) -> None:
        """Forget all examples."""
        self._sketch: Sketch | None = None
        self._predicted: Floats | None = None
        self._rows: RowKeeper | None = None
        self._images: list[Floats] = []

    def update(
        self, logits: Tensor, labels: Tensor, *, sample_weight: Tensor | None = None
    ) -> None:
        """Take in a batch.

        Args:
            logits: ``[N, K]``, ``[N, K, d1, ...]`` (segmentation: ``[N, K, H, W]``), any dtype
                and device.
            labels: class indices ``[N]`` or ``[N, d1, ...]``.
            sample_weight: ``[N]``, or of the shape of `labels`. Whole numbers count repeated
                examples.
        """
        pixels = math.prod(logits.shape[2:]) if isinstance(logits, Tensor) else 0
        if not self.per_image and pixels < LARGE:
            self._update(logits, labels, sample_weight)
            return
        for i in range(len(logits)):
            part = slice(i, i + 1)
            weights = None if sample_weight is None else sample_weight[part]
            self._update(logits[part], labels[part], weights, is_large=pixels >= LARGE)

    def _update(
        self, logits: Tensor, labels: Tensor, weights: Tensor | None, *, is_large: bool = False
    ) -> None:
        take = BatchTaker(self.n_bins, self.classwise, self.by_class, self.ignore_index, self.seed)
        if is_large and not self.classwise and weights is None:
            batch = take.of_large_image(logits, labels, max_rows=self.max_rows)
        else:
            batch = take.of_rows(logits, labels, weights)
        self._check_classes(batch.n_classes)
        if self.per_image:
            empty = np.zeros((3, self.n_bins))
            self._images.append(empty if batch.sketch is None else _three(batch.sketch.table))
        if batch.sketch is None:  # every label was to be ignored
            return
        self._add(batch.sketch, batch.predicted)
        if self._rows is None:
            self._rows = RowKeeper(RowSample.empty(self.max_rows, self.seed, batch.n_classes))
        self._rows.add(batch.logits.cpu().numpy(), batch.labels.cpu().numpy(), batch.weights)

    def _add(self, sketch: Sketch, predicted: Floats | None) -> None:
        self._sketch = sketch if self._sketch is None else self._sketch + sketch
        if predicted is not None:
            kept = self._predicted
            self._predicted = predicted if kept is None else kept + predicted

    @torch.no_grad()
    def collect(
        self,
        model: nn.Module,
        loader: Iterable[Any],
        *,
        labels: str | None = None,
        logits: str = "logits",
    ) -> Self:
        """Take in the logits of `model` for every batch of `loader`.

        The model is in evaluation mode meanwhile; inputs are moved to its device.

        Args:
            model: any module. A tuple or mapping of inputs is spread over its arguments. Its
                output is the logits, a mapping that holds them, or a tuple that begins with them.
            loader: yields ``(inputs, labels)``, ``(inputs, labels, weights)``, or mappings as the
                loaders of Hugging Face do (`dict`, `BatchEncoding`): the labels are taken out
                and the rest goes to the model by name. Labels of -100 (padding of tokens) do
                not count.
            labels: key of the labels in a mapping; without it ``"labels"``, ``"label"`` or
                ``"label_ids"``.
            logits: key of the logits in the model's output.

        Example:
            >>> class Model(nn.Module):  # as a model of transformers does
            ...     def forward(self, input_ids):
            ...         return {"logits": torch.eye(2)[input_ids]}
            >>> batch = {"input_ids": torch.tensor([0, 1, 1]), "labels": torch.tensor([0, 1, 0])}
            >>> monitor = CalibrationMonitor().collect(Model(), [batch])
            >>> monitor.n, round(monitor.metrics().error, 4)
            (3, 0.3333)
        """
        before = self.n
        for found, targets, weights in outputs_of(model, loader, labels=labels, logits=logits):
            self.update(found, targets, sample_weight=weights)
        if self.n == before:
            raise ValueError(
                "`loader` must yield at least one batch with labels that count, got none. "
                "Check the data set, `drop_last` and `ignore_index`."
            )
        return self

    @property
    def n(self) -> int:
        """Number of examples seen."""
        return 0 if self._sketch is None else self._sketch.n

    def sketch(self) -> Sketch:
        """Return the sketch of all examples seen: test, noise floors, CORP and the rest."""
        if self._sketch is None:
            raise ValueError(
                "the monitor has seen no examples. Call `update(logits, labels)` for each batch "
                "or `collect(model, loader)` first."
            )
        return self._sketch

    def save(
        self,
        path: str | Path,
        *,
        class_names: Sequence[str] | None = None,
        start: str | None = None,
        end: str | None = None,
        force: bool = False,
    ) -> None:
        """Write the sketch for ``focalibrate evaluate`` and ``focalibrate check``.

        It merges with sketches of the same classes, also with those of ``focalibrate sketch``.
        Sums by class remain if all of them have these: pass ``classwise=True`` to the monitor.

        Args:
            path: the file, such as day1.sketch.
            class_names: names of the classes in order.
            start: first moment of the examples, as ISO 8601.
            end: last moment.
            force: replace the file where it exists.

        Example:
            >>> import tempfile
            >>> from focalibrate.io import read_sketch
            >>> monitor = CalibrationMonitor()
            >>> monitor.update(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     monitor.save(f"{folder}/day1.sketch", start="2026-01-31")
            ...     read_sketch(f"{folder}/day1.sketch").describe()
            '2 rows × 2 classes, 2026-01-31 to ...'
        """
        file = sketch_file(self.sketch(), class_names=class_names, start=start, end=end)
        write_sketch(file, path, force=force)

    @property
    def table(self) -> ReliabilityTable:
        """The reliability table of `n_bins` equally wide bins."""
        return self.sketch().table

    @property
    def cells(self) -> ReliabilityTable:
        """The table of fine cells: for `equal_mass`, or for `FocalLoss.update_from`."""
        return self.sketch().cells

    @property
    def predicted_tables(self) -> list[ReliabilityTable]:
        """The table of each predicted class, of `n_bins` bins; needs ``by_class=True``."""
        self.sketch()
        sums = self._predicted
        if sums is None:
            raise ValueError("tables by class are kept only with `by_class=True`.")
        return [table_of(sums[:, k]) for k in range(sums.shape[1])]

    @property
    def image_tables(self) -> list[ReliabilityTable]:
        """The table of each image in the order they came; needs ``per_image=True``."""
        if not self.per_image:
            raise ValueError("tables by image are kept only with `per_image=True`.")
        return [table_of(sums) for sums in self._images]

    @property
    def classwise_table(self) -> ClasswiseTable | None:
        """The table of every class; None unless `classwise`."""
        return self.sketch().classwise_table

    def metrics(self) -> MonitorMetrics:
        """Return the metrics of all examples seen."""
        return MonitorMetrics.of(self.sketch())

    def rows(self) -> tuple[Tensor, Tensor]:
        """Return the logits ``[M, K]`` and labels ``[M]`` that were kept."""
        self.sketch()
        assert self._rows is not None  # noqa: S101  (kept beside the sketch)
        kept = self._rows.sample
        return torch.from_numpy(kept.logits), torch.from_numpy(kept.labels)

    def fit(self, method: str = "temperature", **options: Any) -> Calibrator:
        """Return a calibrator fitted on the rows kept; `focalibrate.calibrate.fit`."""
        logits, labels = self.rows()
        if len(labels) == 0:
            raise ValueError("`max_rows` must be at least 1 for `fit`, got 0.")
        weights = self._rows.sample.weights if self._rows is not None else np.empty(0)
        if (weights != 1.0).any():
            options = {"sample_weight": weights} | options
        found = fit(method, logits, labels, **options)
        return found if isinstance(found, Calibrator) else found[0]

    def __add__(self, other: Self) -> "CalibrationMonitor":
        merged = self._like()
        for part in (self, other):
            merged._absorb(part.state_dict())
        return merged

    def synchronize(self, group: Any = None) -> "CalibrationMonitor":
        """Return the merged monitor of all ranks, the same on each; a copy on a single one."""
        merged = self._like()
        parts = gather_arrays(self.state_dict(), group) if is_distributed() else None
        for state in parts or [self.state_dict()]:
            merged._absorb(state)
        return merged

    def state_dict(self) -> Arrays:
        """Return all that was seen as named arrays, for `np.savez` or a checkpoint."""
        state: Arrays = {"settings": np.array([int(getattr(self, name)) for name in _SETTINGS])}
        if self._images:
            state["images"] = np.stack(self._images)
        if self._sketch is None or self._rows is None:
            return state
        state |= arrays_of(self._sketch)
        if self._predicted is not None:
            state["predicted"] = self._predicted
        for name in _ROWS:
            state[name] = getattr(self._rows.sample, name)
        return state

    def load_state_dict(self, state: Arrays) -> None:
        """Take over what another monitor of the same settings has seen, and forget the rest."""
        self.reset()
        self._absorb(state)

    def _absorb(self, state: Arrays) -> None:
        own = self.state_dict()["settings"]
        if not np.array_equal(state["settings"], own):
            theirs, mine = (
                dict(zip(_SETTINGS, x.tolist(), strict=True)) for x in (state["settings"], own)
            )
            raise ValueError(
                f"monitors must have the same settings to be merged, got {mine} and {theirs}."
            )
        self._images += list(state.get("images", ()))
        if "counts" not in state:
            return
        self._check_classes(state["logits"].shape[1])
        self._add(sketch_of(state, self.n_bins), state.get("predicted"))
        parts = (state[name] for name in _ROWS)
        sample = RowSample(self.max_rows, self.seed, *parts)
        if self._rows is None:
            self._rows = RowKeeper(sample)
        else:
            self._rows.merge(sample)

    def _like(self) -> "CalibrationMonitor":
        settings: dict[str, Any] = {name: getattr(self, name) for name in _SETTINGS}
        return CalibrationMonitor(**settings, ignore_index=self.ignore_index)

    def _check_classes(self, n_classes: int) -> None:
        if self._rows is not None and self._rows.n_classes != n_classes:
            raise ValueError(
                f"`logits` must have the {self._rows.n_classes} classes of the batches before, "
                f"got {n_classes}. Use one monitor for each model."
            )


def _three(table: ReliabilityTable) -> Floats:
    return np.stack([table.count, table.confidence_sum, table.correct_sum])
