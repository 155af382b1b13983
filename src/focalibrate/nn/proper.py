"""Properised focal loss as a torch module."""

from typing import final

from torch import Tensor, nn

from focalibrate._check import check_choice, check_gamma
from focalibrate.nn._rows import REDUCTIONS, Reduction, as_rows, empty_loss, is_empty, reduce_rows
from focalibrate.theory.proper import proper_focal_loss


@final
class ProperFocalLoss(nn.Module):
    """`focalibrate.losses.proper_focal_loss` with a reduction; see there for maths and numerics.

    Its probabilities need no `recover_posterior` afterwards. Each call solves for the focal
    minimiser, some 25 Newton steps over ``[N, K]``: much slower than `FocalLoss`, which costs as
    much as cross-entropy. Shapes, `ignore_index` and `reduction` as for `FocalLoss`.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[0.9, 0.1]], dtype=torch.float64).log()
        >>> round(ProperFocalLoss(1.0)(logits, torch.tensor([0])).item(), 4)
        0.0577
    """

    def __init__(
        self, gamma: float = 2.0, *, ignore_index: int = -100, reduction: Reduction = "mean"
    ) -> None:
        super().__init__()
        check_gamma(gamma)
        check_choice(reduction, REDUCTIONS, name="reduction")
        self.gamma = float(gamma)
        self.ignore_index = ignore_index
        self.reduction: Reduction = reduction

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of `labels` under `logits`."""
        if is_empty(logits, labels):
            return empty_loss(logits, reduction=self.reduction)
        rows = as_rows(logits, labels, ignore_index=self.ignore_index)
        loss = proper_focal_loss(rows.quiet_logits, rows.target, self.gamma)
        return reduce_rows(loss, rows, reduction=self.reduction)

    def extra_repr(self) -> str:
        """Show the arguments."""
        return f"gamma={self.gamma}, ignore_index={self.ignore_index}, reduction={self.reduction}"
