"""Calibration as a metric of torchmetrics: for its collections, loggers and ranks."""

from typing import Any

import torch
from torch import Tensor

from focalibrate._check import check_n_bins
from focalibrate.metrics import Cells
from focalibrate.metrics.sketch import fine_index
from focalibrate.nn._counted import counted_rows

try:
    from torchmetrics import Metric
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "`focalibrate.nn.integrations.torchmetrics` needs torchmetrics. Install it: "
        "`pip install torchmetrics`.",
        name=error.name,
    ) from error

SCORES = ("nll", "brier", "error")


class CalibrationMetrics(Metric):  # type: ignore[misc]  # of type Any here
    """Calibration errors and proper scores of logits, from sums that batches and ranks add up.

    Args:
        n_bins: bins of the errors.
        ignore_index: label of examples that do not count.
        **settings: those of `torchmetrics.Metric`.

    Example:
        >>> metric = CalibrationMetrics()
        >>> metric.update(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]))
        >>> {name: round(value.item(), 4) for name, value in metric.compute().items()}["ece"]
        0.4251
    """

    is_differentiable = False
    full_state_update = False
    cells: Tensor
    scores: Tensor

    def __init__(self, *, n_bins: int = 15, ignore_index: int = -100, **settings: Any) -> None:
        super().__init__(**settings)
        check_n_bins(n_bins)
        self.n_bins, self.ignore_index = n_bins, ignore_index
        none = torch.from_numpy(Cells.empty(bins=fine_index(n_bins).edges).sums)
        self.add_state("cells", none, dist_reduce_fx="sum")
        self.add_state("scores", torch.zeros(1 + len(SCORES)).double(), dist_reduce_fx="sum")
        self.set_dtype(torch.float64)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Take in logits ``[N, K]`` or ``[N, K, d1, ...]`` and class indices."""
        rows = counted_rows(preds, target, ignore_index=self.ignore_index)
        if len(rows.labels) == 0:
            return
        terms = rows.terms()
        cell_of = fine_index(self.n_bins)
        cell = cell_of(terms.confidence)
        found = Cells.of_index(cell, terms.confidence, terms.correct, cell_of.edges)
        sums = [terms.nll.sum(), terms.brier.sum(), (~terms.correct).sum()]
        self.cells += torch.from_numpy(found.sums).to(self.cells)
        self.scores += torch.tensor([len(terms.nll), *sums]).to(self.scores)

    def compute(self) -> dict[str, Tensor]:
        """Return ``ece``, ``adaptive_ece``, ``mce``, ``nll``, ``brier`` and ``error``."""
        fine = Cells(self.cells.cpu().double().numpy(), fine_index(self.n_bins).edges)
        table = fine.binned(self.n_bins)
        found = {
            "ece": table.ece(),
            "adaptive_ece": fine.equal_mass(self.n_bins).ece(),
            "mce": table.ece("max"),
            **dict(zip(SCORES, (self.scores[1:] / self.scores[0]).tolist(), strict=True)),
        }
        return {name: torch.tensor(value, dtype=torch.float64) for name, value in found.items()}
