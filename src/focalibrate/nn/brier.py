"""Brier loss as a torch module."""

from typing import final

from torch import Tensor, nn

from focalibrate._check import check_choice, check_unit_interval
from focalibrate.losses.brier import brier_loss
from focalibrate.nn._rows import REDUCTIONS, Reduction, as_rows, empty_loss, is_empty, reduce_rows


@final
class BrierLoss(nn.Module):
    """`focalibrate.losses.brier_loss` with a reduction; see there for maths and numerics.

    Shapes, `ignore_index` and `reduction` as for `FocalLoss`.

    Example:
        >>> import torch
        >>> round(BrierLoss()(torch.zeros(1, 2), torch.tensor([0])).item(), 4)
        0.5
    """

    def __init__(
        self,
        *,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        check_unit_interval(label_smoothing, name="label_smoothing")
        check_choice(reduction, REDUCTIONS, name="reduction")
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.reduction: Reduction = reduction

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of `labels` under `logits`."""
        if is_empty(logits, labels):
            return empty_loss(logits, reduction=self.reduction)
        rows = as_rows(logits, labels, ignore_index=self.ignore_index)
        loss = brier_loss(rows.quiet_logits, rows.target, label_smoothing=self.label_smoothing)
        return reduce_rows(loss, rows, reduction=self.reduction)

    def extra_repr(self) -> str:
        """Show the arguments."""
        return (
            f"ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}, "
            f"reduction={self.reduction}"
        )
