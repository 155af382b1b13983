"""Cross-entropy with a calibration penalty, as a torch module."""

from typing import final

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from focalibrate._check import check_positive
from focalibrate.losses.mmce import mmce, weighted_mmce
from focalibrate.nn._rows import as_rows, empty_loss, is_empty


@final
class MMCELoss(nn.Module):
    r"""Cross-entropy plus a multiple of the kernel calibration error of the batch.

    .. math:: L = \frac1N\sum_i -\log v_{i,y_i} + \lambda\,\mathrm{MMCE}

    `focalibrate.losses.mmce` has the maths and numerics. One number per batch: there is no other
    reduction, and every example counts.

    Args:
        lambda_: weight of the penalty, ``> 0``; the paper takes 2 for images and 8 for text.
        weighted: penalise by `focalibrate.losses.weighted_mmce`, in which right and wrong
            examples have equal weight.
        kernel_width: scale of the Laplacian kernel.

    Shape:
        Logits ``[N, K]``, class indices ``[N]``.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[0.8, 0.2], [0.8, 0.2]]).log()
        >>> round(MMCELoss(2.0)(logits, torch.tensor([0, 1])).item(), 4)  # 0.9163 + 2 * 0.3
        1.5163
    """

    def __init__(
        self, lambda_: float = 2.0, *, weighted: bool = False, kernel_width: float = 0.4
    ) -> None:
        super().__init__()
        check_positive(lambda_, name="lambda_")
        check_positive(kernel_width, name="kernel_width")
        self.lambda_ = float(lambda_)
        self.weighted = weighted
        self.kernel_width = float(kernel_width)

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of the batch."""
        if is_empty(logits, labels):
            return empty_loss(logits, reduction="mean")
        rows = as_rows(logits, labels)
        penalty = weighted_mmce if self.weighted else mmce
        calibration = penalty(rows.logits, rows.target, kernel_width=self.kernel_width)
        loss: Tensor = cross_entropy(rows.logits, rows.target) + self.lambda_ * calibration
        return loss.to(rows.dtype)

    def extra_repr(self) -> str:
        """Show the arguments."""
        return (
            f"lambda_={self.lambda_}, weighted={self.weighted}, kernel_width={self.kernel_width}"
        )
