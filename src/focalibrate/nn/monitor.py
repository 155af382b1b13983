"""Calibration of a model over a loader, collected batch by batch in bounded memory."""

from collections.abc import Iterable
from typing import Any, Self, final

import numpy as np
import torch
from torch import Tensor, nn

from focalibrate._check import check_count, check_n_bins
from focalibrate.calibrate import Calibrator, fit
from focalibrate.metrics import ClasswiseTable, ReliabilityTable, log_odds_edges
from focalibrate.nn._ranks import Arrays, gather_arrays, is_distributed
from focalibrate.nn._rows import counted_rows
from focalibrate.nn._sample import RowKeeper, RowSample
from focalibrate.nn._totals import MonitorMetrics, Totals

__all__ = ["CalibrationMonitor", "MonitorMetrics"]

_SETTINGS = ("n_bins", "n_cells", "max_rows", "seed", "classwise")


@final
class CalibrationMonitor:
    r"""Metrics, a reliability table and a calibrator for logits that come in batches.

    Sums over bins are kept, and a sample of at most `max_rows` rows for fits: memory is
    ``O(n_cells + max_rows * K)`` however many examples pass. ``+`` merges monitors and
    `synchronize` merges those of all ranks; either gives what one monitor would have seen, in
    any order.

    Args:
        n_bins: bins of the binned metrics.
        n_cells: cells from which bins of equal mass are cut; see `ReliabilityTable.equal_mass`.
        max_rows: rows kept for `fit`, all of them until there are more; 0 for none.
        seed: of the choice which rows are kept.
        classwise: keep the ``K * n_bins`` sums of the classwise error too.
        ignore_index: label of examples that do not count.

    Numerics:
        Float64. All metrics are exact to rounding, `adaptive_ece` to the error stated in
        `ReliabilityTable.equal_mass`. Rows are kept as float32, or float64 if they are that.

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
        n_cells: int = 4096,
        max_rows: int = 10_000,
        seed: int = 0,
        classwise: bool = False,
        ignore_index: int = -100,
    ) -> None:
        check_n_bins(n_bins)
        check_count(n_cells, name="n_cells", minimum=3)
        check_count(max_rows, name="max_rows", minimum=0)
        check_count(seed, name="seed", minimum=0)
        self.n_bins, self.n_cells, self.max_rows, self.seed = n_bins, n_cells, max_rows, seed
        self.classwise = classwise
        self.ignore_index = ignore_index
        self.reset()

    def reset(self) -> None:
        """Forget all examples."""
        self._totals: Totals | None = None
        self._rows: RowKeeper | None = None

    def update(self, logits: Tensor, labels: Tensor) -> None:
        """Take in a batch.

        Args:
            logits: ``[N, K]`` or ``[N, K, d1, ...]``, any dtype and device.
            labels: class indices ``[N]`` or ``[N, d1, ...]``.
        """
        z, y = counted_rows(logits, labels, ignore_index=self.ignore_index)
        self._check_classes(z.shape[1])
        if len(z) == 0:  # every label was to be ignored
            return
        z, targets = z.cpu(), y.cpu().numpy()
        totals = Totals.of(
            z.double().log_softmax(-1).numpy(),
            targets,
            n_bins=self.n_bins,
            n_cells=self.n_cells,
            classwise=self.classwise,
        )
        self._totals = totals if self._totals is None else self._totals + totals
        if self._rows is None:
            self._rows = RowKeeper(RowSample.empty(self.max_rows, self.seed, z.shape[1]))
        self._rows.add(z.numpy(), targets)

    @torch.no_grad()
    def collect(self, model: nn.Module, loader: Iterable[Any]) -> Self:
        """Take in the logits of `model` for every ``(inputs, labels)`` of `loader`.

        The model is in evaluation mode meanwhile; inputs are moved to its device.
        """
        device = next((p.device for p in model.parameters()), torch.device("cpu"))
        before, was_training = self.n, model.training
        model.eval()
        try:
            for inputs, labels in loader:
                self.update(model(inputs.to(device)), labels.to(device))
        finally:
            model.train(was_training)
        if self.n == before:
            raise ValueError(
                "`loader` must yield at least one batch with labels that count, got none. "
                "Check the data set, `drop_last` and `ignore_index`."
            )
        return self

    @property
    def n(self) -> int:
        """Number of examples seen."""
        return 0 if self._totals is None else self._totals.bins.n

    @property
    def table(self) -> ReliabilityTable:
        """The reliability table of `n_bins` equally wide bins."""
        return self._seen().bins

    @property
    def cells(self) -> ReliabilityTable:
        """The table of fine cells: for `equal_mass`, or for `FocalLoss.update_from`."""
        return self._seen().cells

    @property
    def classwise_table(self) -> ClasswiseTable | None:
        """The table of every class; None unless `classwise`."""
        return self._seen().classwise

    def metrics(self) -> MonitorMetrics:
        """Return the metrics of all examples seen."""
        return self._seen().metrics()

    def rows(self) -> tuple[Tensor, Tensor]:
        """Return the logits ``[M, K]`` and labels ``[M]`` that were kept."""
        self._seen()
        assert self._rows is not None  # noqa: S101  (kept beside the totals)
        kept = self._rows.sample
        return torch.from_numpy(kept.logits), torch.from_numpy(kept.labels)

    def fit(self, method: str = "temperature", **options: Any) -> Calibrator:
        """Return a calibrator fitted on the rows kept; `focalibrate.calibrate.fit`."""
        logits, labels = self.rows()
        if len(labels) == 0:
            raise ValueError("`max_rows` must be at least 1 for `fit`, got 0.")
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
        if self._totals is None or self._rows is None:
            return state
        tables = {"bins": self._totals.bins, "cells": self._totals.cells}
        for name, table in tables.items():
            state[name] = np.stack([table.count, table.confidence_sum, table.correct_sum])
        if (classes := self._totals.classwise) is not None:
            state["classes"] = np.stack([classes.count, classes.prob_sum, classes.label_sum])
        state["sums"] = self._totals.sums
        for name in ("logits", "labels", "priority"):
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
        if "sums" not in state:
            return
        self._check_classes(state["logits"].shape[1])
        bins, cells = state["bins"], state["cells"]
        totals = Totals(
            state["sums"],
            ReliabilityTable(bins[0], bins[1], bins[2], np.arange(self.n_bins + 1) / self.n_bins),
            ReliabilityTable(cells[0], cells[1], cells[2], log_odds_edges(self.n_cells)),
            ClasswiseTable(*state["classes"]) if "classes" in state else None,
        )
        parts = (state[name] for name in ("logits", "labels", "priority"))
        sample = RowSample(self.max_rows, self.seed, *parts)
        self._totals = totals if self._totals is None else self._totals + totals
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

    def _seen(self) -> Totals:
        if self._totals is None:
            raise ValueError(
                "the monitor has seen no examples. Call `update(logits, labels)` for each batch "
                "or `collect(model, loader)` first."
            )
        return self._totals
