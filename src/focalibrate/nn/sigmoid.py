"""Sigmoid focal loss as a torch module."""

from typing import final

from torch import Tensor, nn

from focalibrate._check import check_choice, check_gamma, check_unit_interval
from focalibrate.calibrate import SigmoidCalibrator
from focalibrate.losses.sigmoid import sigmoid_focal_loss
from focalibrate.nn._rows import REDUCTIONS, Reduction, is_autocast, working_dtype


@final
class SigmoidFocalLoss(nn.Module):
    """`focalibrate.losses.sigmoid_focal_loss` with a reduction; see there for maths and numerics.

    For labels that do not exclude each other, and for one score per example.

    Args:
        gamma: focusing exponent, ``>= 0``.
        alpha: weight of the positive labels, in [0, 1]; None for no weights.
        reduction: ``"mean"`` over all labels, ``"sum"``, or ``"none"``.

    Shape:
        Logits and labels of one shape, any.

    Example:
        >>> import torch
        >>> loss = SigmoidFocalLoss(reduction="none")
        >>> loss(torch.zeros(2), torch.tensor([1.0, 0.0]))
        tensor([0.0433, 0.1300])
    """

    def __init__(
        self,
        gamma: float = 2.0,
        alpha: float | None = 0.25,
        *,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        check_gamma(gamma)
        if alpha is not None:
            check_unit_interval(alpha, name="alpha")
        check_choice(reduction, REDUCTIONS, name="reduction")
        self.gamma = float(gamma)
        self.alpha = alpha
        self.reduction: Reduction = reduction

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of `labels` under `logits`."""
        x = logits.to(working_dtype(logits))
        loss: Tensor = sigmoid_focal_loss(x, labels, gamma=self.gamma, alpha=self.alpha)
        if self.reduction != "none":
            loss = loss.mean() if self.reduction == "mean" else loss.sum()
        return loss if is_autocast(logits) else loss.to(logits.dtype)

    def recovery(self) -> SigmoidCalibrator:
        """Return the calibrator that turns scores of a model trained with it into probabilities.

        It undoes the exponent and the weight `alpha`, for each label separately.

        Example:
            >>> SigmoidFocalLoss(2.0, alpha=0.25).recovery().describe()
            'sigmoid calibration: posterior recovery gamma=2, intercept 1.099'
        """
        return SigmoidCalibrator.recovery(self.gamma, alpha=self.alpha)

    def extra_repr(self) -> str:
        """Show the arguments."""
        return f"gamma={self.gamma}, alpha={self.alpha}, reduction={self.reduction}"
