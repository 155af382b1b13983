"""Calibration of a model over a loader, collected batch by batch in bounded memory."""

import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn

from focalibrate._check import check_count, check_n_bins
from focalibrate.calibrate import Calibrator, fit
from focalibrate.engines import versions
from focalibrate.io import SketchFile, check_time, parse_sketch, sketch_bytes, write_sketch
from focalibrate.metrics import METRICS, Cells, Sketch
from focalibrate.metrics.binning import equal_width_edges, equal_width_index
from focalibrate.metrics.scores import ConfidentFraction
from focalibrate.metrics.sketch import confident_of
from focalibrate.nn._counted import LARGE, KeptRows, RowSample, counted_rows
from focalibrate.nn._inputs import outputs_of

__all__ = ["CalibrationMonitor", "MonitorMetrics"]
PIXELS_KEPT = 256
"""Random pixels of a large image that may be kept as rows."""
Arrays = dict[str, NDArray[Any]]
_SETTINGS = ("n_bins", "max_rows", "seed", "classwise", "by_class", "per_image")


@dataclass(frozen=True)
class MonitorMetrics:
    """What a `CalibrationMonitor` has seen, in the metrics of `focalibrate.metrics`."""

    n: int
    """examples"""
    error: float
    nll: float
    """inf if a label was impossible"""
    brier: float
    ece: float
    adaptive_ece: float
    mce: float
    s99: ConfidentFraction
    """share of examples with a confidence of at least 0.99, and their accuracy"""
    classwise_ece: float | None = None
    """None unless the monitor keeps it"""

    @classmethod
    def of(cls, sketch: Sketch) -> "MonitorMetrics":
        """Return the metrics of a sketch, without its test and noise floors."""
        table, classes = sketch.table, sketch.classes
        return cls(
            n=sketch.n,
            error=sketch.scores["error"].mean,
            nll=sketch.scores["nll"].mean,
            brier=sketch.scores["brier"].mean,
            ece=table.ece(),
            adaptive_ece=sketch.top.equal_mass(sketch.n_bins).ece(),
            mce=table.ece("max"),
            s99=confident_of(sketch),
            classwise_ece=None if classes is None else classes.binned(sketch.n_bins).ece().mean(),
        )

    def as_dict(self, prefix: str = "") -> dict[str, float]:
        """Return the numbers by name, for a logger: ``{"ece": 0.02, ...}``, each with `prefix`."""
        found = {str(name): getattr(self, name, None) for name in METRICS}
        found["s99"] = self.s99.fraction
        return {prefix + name: value for name, value in found.items() if value is not None}


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
        `Cells.equal_mass`. Rows are kept as float32, or float64 if they are that.
        Images of 4,096 pixels or more are taken one at a time, pixels in the dtype of the logits
        and sums in float64; of each, up to 256 random pixels are candidates for the rows kept.
        For 512 x 512 pixels and 19 classes this takes as long as `argmax` (`make bench`).

    Example:
        >>> monitor = CalibrationMonitor()
        >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 2.0]])
        >>> for _ in range(2):
        ...     monitor.update(logits, torch.tensor([0, 0, 1]))
        >>> monitor.n, round(monitor.metrics().ece, 4)
        (6, 0.3232)
        >>> monitor.fit("temperature").describe()
        'temperature scaling: T=1.271'
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
        self._predicted: Cells | None = None
        self._rows: RowSample | None = None
        self._images: list[Cells] = []

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
        if pixels < LARGE:
            self._update(logits, labels, sample_weight)
            return
        for i in range(len(logits)):
            part = slice(i, i + 1)
            weights = None if sample_weight is None else sample_weight[part]
            self._update(logits[part], labels[part], weights)

    def _update(self, logits: Tensor, labels: Tensor, sample_weight: Tensor | None) -> None:
        rows = counted_rows(logits, labels, sample_weight, ignore_index=self.ignore_index)
        k, n_images, edges = rows.logits.shape[1], len(logits), equal_width_edges(self.n_bins)
        self._check_classes(k)
        if len(rows.labels) == 0:  # every label was to be ignored
            if self.per_image:
                self._images += [Cells.empty(bins=self.n_bins)] * n_images
            return
        terms = rows.terms(classwise=self.classwise, n_bins=self.n_bins)
        sketch = Sketch.of_terms(terms, n_bins=self.n_bins)
        self._sketch = sketch if self._sketch is None else self._sketch + sketch
        cell = equal_width_index(terms.confidence, self.n_bins)
        event = cell, terms.confidence, terms.correct, edges, rows.weights
        if self.by_class:
            predicted = rows.logits.argmax(axis=1)
            found = Cells.of_index(*event, event=predicted, n_events=k)
            self._predicted = found if self._predicted is None else self._predicted + found
        if self.per_image:
            self._images += Cells.of_index(*event, event=rows.image, n_events=n_images)
        if self._rows is None:
            self._rows = RowSample(self.max_rows, self.seed, k)
        some: Any = slice(None)
        if rows.is_large:
            rng = np.random.default_rng([self.seed, len(rows.labels)])
            some = rng.integers(len(rows.labels), size=min(PIXELS_KEPT, self.max_rows))
        w = None if rows.weights is None else rows.weights[some]
        self._rows.add(rows.logits[some], rows.labels[some], w)

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
        sketch = self.sketch()
        names = None if class_names is None else tuple(str(name) for name in class_names)
        if names is not None and len(names) != sketch.n_classes:
            raise ValueError(
                f"`class_names` must name the {sketch.n_classes} classes, got {len(names)} names."
            )
        for name, value in (("start", start), ("end", end)):
            if value is not None:
                check_time(value, name=name)
        file = SketchFile(
            sketch=sketch,
            class_names=names,
            kind="logits",
            sources=("CalibrationMonitor",),
            versions={name: (v,) for name, v in versions(["numpy", "torch"]).items()},
            start=start,
            end=end,
        )
        write_sketch(file, path, force=force)

    @property
    def table(self) -> Cells:
        """The cells of `n_bins` equally wide bins: the reliability diagram."""
        return self.sketch().table

    @property
    def cells(self) -> Cells:
        """The fine cells: for `Cells.equal_mass`, or for `FocalLoss.update_from`."""
        return self.sketch().top

    @property
    def predicted_tables(self) -> Cells:
        """The cells of `n_bins` bins, one event per predicted class; needs ``by_class=True``."""
        self.sketch()
        if self._predicted is None:
            raise ValueError("tables by class are kept only with `by_class=True`.")
        return self._predicted

    @property
    def image_tables(self) -> list[Cells]:
        """The cells of each image in the order they came; needs ``per_image=True``."""
        if not self.per_image:
            raise ValueError("tables by image are kept only with `per_image=True`.")
        return list(self._images)

    def metrics(self) -> MonitorMetrics:
        """Return the metrics of all examples seen."""
        return MonitorMetrics.of(self.sketch())

    def rows(self) -> tuple[Tensor, Tensor]:
        """Return the logits ``[M, K]`` and labels ``[M]`` that were kept."""
        self.sketch()
        assert self._rows is not None  # noqa: S101  (kept beside the sketch)
        kept = self._rows.rows
        return torch.from_numpy(kept.logits), torch.from_numpy(kept.labels)

    def fit(self, method: str = "temperature", **options: Any) -> Calibrator:
        """Return a calibrator fitted on the rows kept; `focalibrate.calibrate.fit`."""
        logits, labels = self.rows()
        if len(labels) == 0:
            raise ValueError("`max_rows` must be at least 1 for `fit`, got 0.")
        assert self._rows is not None  # noqa: S101  (kept beside the sketch)
        weights = self._rows.rows.weights
        if (weights != 1.0).any():
            options = {"sample_weight": weights} | options
        return fit(logits, labels, method=method, **options)

    def __add__(self, other: Self) -> "CalibrationMonitor":
        merged = self._like()
        for part in (self, other):
            merged._absorb(part.state_dict())
        return merged

    def synchronize(self, group: Any = None) -> "CalibrationMonitor":
        """Return the merged monitor of all ranks, the same on each; a copy on a single one."""
        merged = self._like()
        parts = (
            gather_arrays(self.state_dict(), group)
            if dist.is_available() and dist.is_initialized()
            else None
        )
        for state in parts or [self.state_dict()]:
            merged._absorb(state)
        return merged

    def state_dict(self) -> Arrays:
        """Return all that was seen as named arrays, for `np.savez` or a checkpoint."""
        state: Arrays = {"settings": np.array([int(getattr(self, name)) for name in _SETTINGS])}
        if self._images:
            state["images"] = np.stack([_weighted(cells) for cells in self._images])
        if self._sketch is None or self._rows is None:
            return state
        content = sketch_bytes(SketchFile(sketch=self._sketch, kind="logits"))
        state["sketch"] = np.frombuffer(content, dtype=np.uint8)
        if self._predicted is not None:
            state["predicted"] = self._predicted.sums
        return state | self._rows.rows._asdict()

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
        edges = equal_width_edges(self.n_bins)
        self._images += [Cells(x[:-1], edges, bool(x[-1, 0])) for x in state.get("images", ())]
        if "logits" not in state:
            return
        self._check_classes(state["logits"].shape[1])
        sketch = parse_sketch(state["sketch"].tobytes(), "the state of a monitor").sketch
        self._sketch = sketch if self._sketch is None else self._sketch + sketch
        if "predicted" in state:
            found = Cells(state["predicted"], edges, sketch.top.is_counted)
            self._predicted = found if self._predicted is None else self._predicted + found
        if self._rows is None:
            self._rows = RowSample(self.max_rows, self.seed, sketch.n_classes)
        self._rows.merge(KeptRows(*(state[name] for name in KeptRows._fields)))

    def _like(self) -> "CalibrationMonitor":
        settings: dict[str, Any] = {name: getattr(self, name) for name in _SETTINGS}
        return CalibrationMonitor(**settings, ignore_index=self.ignore_index)

    def _check_classes(self, n_classes: int) -> None:
        if self._rows is not None and self._rows.n_classes != n_classes:
            raise ValueError(
                f"`logits` must have the {self._rows.n_classes} classes of the batches before, "
                f"got {n_classes}. Use one monitor for each model."
            )


def _weighted(cells: Cells) -> Any:
    """Return the sums of an image, and whether its weights count rows."""
    whole = np.full((1, cells.n_bins), float(cells.is_counted))
    return np.concatenate([cells.sums, whole])


def gather_arrays(arrays: Arrays, group: Any = None) -> list[Arrays]:
    """Return the named arrays of every rank, in the order of ranks, on every rank.

    Sizes and names may differ between ranks. They travel as bytes of an ``npz`` in tensors,
    which any backend can send; nothing that is received is executed.
    """
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    content = torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)
    is_nccl = dist.get_backend(group) == "nccl"
    device = torch.device("cuda", torch.cuda.current_device()) if is_nccl else torch.device("cpu")
    n_ranks = dist.get_world_size(group)
    sizes = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(n_ranks)]
    dist.all_gather(sizes, torch.tensor([len(content)], device=device), group=group)
    longest = max(int(size) for size in sizes)
    padded = torch.zeros(longest, dtype=torch.uint8, device=device)
    padded[: len(content)] = content.to(device)
    received = [torch.empty_like(padded) for _ in range(n_ranks)]
    dist.all_gather(received, padded, group=group)
    return [
        _read(part[: int(size)].cpu().numpy().tobytes())
        for part, size in zip(received, sizes, strict=True)
    ]


def _read(content: bytes) -> Arrays:
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}
