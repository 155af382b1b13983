"""Brier, dual focal, properised focal, calibration-penalised and sigmoid focal loss as modules."""

from abc import abstractmethod
from typing import Any, final

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from focalibrate._check import check_choice, check_gamma, check_positive, check_unit_interval
from focalibrate.calibrate import SigmoidCalibrator
from focalibrate.losses.brier import brier_loss
from focalibrate.losses.by_label import label_loss
from focalibrate.losses.dual import dual_focal_loss
from focalibrate.losses.mmce import mmce, weighted_mmce
from focalibrate.losses.sigmoid import sigmoid_focal_loss
from focalibrate.nn._rows import (
    REDUCTIONS,
    LossRows,
    Reduction,
    as_rows,
    empty_loss,
    is_autocast,
    is_empty,
    reduce_rows,
    working_dtype,
)
from focalibrate.theory import LossForm, loss_form, recover_posterior
from focalibrate.theory.proper import proper_focal_loss


class RowLoss(nn.Module):
    """A loss of `focalibrate.losses`, one number per row, with `ignore_index` and a reduction.

    Shapes, `ignore_index` and `reduction` are those of `FocalLoss`.
    """

    def __init__(self, reduction: Reduction, **settings: Any) -> None:
        super().__init__()
        check_choice(reduction, REDUCTIONS, name="reduction")
        self.reduction: Reduction = reduction
        self._shown = (*settings, "reduction")
        for name, value in settings.items():
            setattr(self, name, value)

    @abstractmethod
    def _losses(self, rows: LossRows) -> Tensor:
        """Return one loss per row ``[M]``, or one number where there is no other reduction."""

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of `labels` under `logits`."""
        if is_empty(logits, labels):
            return empty_loss(logits, reduction=self.reduction)
        rows = as_rows(logits, labels, ignore_index=getattr(self, "ignore_index", None))
        loss = self._losses(rows)
        if loss.ndim == 0:
            return loss.to(rows.dtype)
        return reduce_rows(loss, rows, reduction=self.reduction)

    def extra_repr(self) -> str:
        """Show the arguments."""
        return ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)


@final
class BrierLoss(RowLoss):
    """`focalibrate.losses.brier_loss` with a reduction; see there for maths and numerics.

    Example:
        >>> import torch
        >>> round(BrierLoss()(torch.zeros(1, 2), torch.tensor([0])).item(), 4)
        0.5
    """

    label_smoothing: float

    def __init__(
        self,
        *,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        reduction: Reduction = "mean",
    ) -> None:
        check_unit_interval(label_smoothing, name="label_smoothing")
        super().__init__(reduction, ignore_index=ignore_index, label_smoothing=label_smoothing)

    def _losses(self, rows: LossRows) -> Tensor:
        target, smoothing = rows.target, self.label_smoothing
        loss: Tensor = brier_loss(rows.quiet_logits, target, label_smoothing=smoothing)
        return loss


@final
class DualFocalLoss(RowLoss):
    """`focalibrate.losses.dual_focal_loss` with a reduction; see there for maths and numerics.

    Class indices only.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[0.7, 0.2, 0.1]]).log()
        >>> round(DualFocalLoss(2.0)(logits, torch.tensor([0])).item(), 4)
        0.0892
    """

    gamma: float

    def __init__(
        self, gamma: float = 2.0, *, ignore_index: int = -100, reduction: Reduction = "mean"
    ) -> None:
        check_gamma(gamma)
        super().__init__(reduction, gamma=float(gamma), ignore_index=ignore_index)

    def _losses(self, rows: LossRows) -> Tensor:
        loss: Tensor = dual_focal_loss(rows.quiet_logits, rows.target, gamma=self.gamma)
        return loss


@final
class ProperFocalLoss(RowLoss):
    """`focalibrate.losses.proper_focal_loss` with a reduction; see there for maths and numerics.

    Its probabilities need no `recover_posterior` afterwards. Each call solves for the focal
    minimiser, some 25 Newton steps over ``[N, K]``: much slower than `FocalLoss`.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[0.9, 0.1]], dtype=torch.float64).log()
        >>> round(ProperFocalLoss(1.0)(logits, torch.tensor([0])).item(), 4)
        0.0577
    """

    gamma: float

    def __init__(
        self, gamma: float = 2.0, *, ignore_index: int = -100, reduction: Reduction = "mean"
    ) -> None:
        check_gamma(gamma)
        super().__init__(reduction, gamma=float(gamma), ignore_index=ignore_index)

    def _losses(self, rows: LossRows) -> Tensor:
        loss: Tensor = proper_focal_loss(rows.quiet_logits, rows.target, self.gamma)
        return loss


@final
class MMCELoss(RowLoss):
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

    lambda_: float
    weighted: bool
    kernel_width: float

    def __init__(
        self, lambda_: float = 2.0, *, weighted: bool = False, kernel_width: float = 0.4
    ) -> None:
        check_positive(lambda_, name="lambda_")
        check_positive(kernel_width, name="kernel_width")
        settings = {"lambda_": float(lambda_), "weighted": weighted}
        super().__init__("mean", **settings, kernel_width=float(kernel_width))
        self._shown = self._shown[:-1]  # there is no other reduction

    def _losses(self, rows: LossRows) -> Tensor:
        penalty = weighted_mmce if self.weighted else mmce
        calibration = penalty(rows.logits, rows.target, kernel_width=self.kernel_width)
        loss: Tensor = cross_entropy(rows.logits, rows.target) + self.lambda_ * calibration
        return loss


@final
class NamedLoss(RowLoss):
    """A loss of `focalibrate.theory.loss_forms` by its name, and the way back from its scores.

    Args:
        loss: ``"poly_focal"``, ``"bsce"``, ``"bsce_gra"``, ``"focal_calibration"``,
            ``"asymmetric"`` and the others of `focalibrate.theory.LOSS_FORMS`.
        ignore_index: label of examples that do not count; for losses of classes.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        **parameters: those of the loss.

    Shape:
        As `FocalLoss`; for a loss of single labels, logits and labels of one shape, any.

    Example:
        >>> import torch
        >>> criterion = NamedLoss("poly_focal", gamma=2.0, epsilon=1.0)
        >>> round(criterion(torch.zeros(1, 2), torch.tensor([0])).item(), 4)
        0.2983
        >>> criterion.recover(torch.tensor([[2.0, 0.0]])).round(decimals=3)
        tensor([[0.9930, 0.0070]])
    """

    form: LossForm

    def __init__(
        self,
        loss: str,
        *,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        **parameters: Any,
    ) -> None:
        form = loss_form(loss, **parameters)
        super().__init__(reduction, form=form, ignore_index=ignore_index)

    def _losses(self, rows: LossRows) -> Tensor:
        loss: Tensor = label_loss(self.form, rows.quiet_logits, rows.target)
        return loss

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of `labels` under `logits`."""
        if self.form.head == "softmax":
            return super().forward(logits, labels)
        loss: Tensor = label_loss(self.form, logits.to(working_dtype(logits)), labels)
        if self.reduction != "none":
            loss = loss.mean() if self.reduction == "mean" else loss.sum()
        return loss if is_autocast(logits) else loss.to(logits.dtype)

    def recover(self, logits: Tensor) -> Tensor:
        """Return the probabilities behind the scores of a model at the minimum of this loss."""
        probs: Tensor = recover_posterior(logits=logits, loss=self.form)
        return probs


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
        self, gamma: float = 2.0, alpha: float | None = 0.25, *, reduction: Reduction = "mean"
    ) -> None:
        check_gamma(gamma)
        if alpha is not None:
            check_unit_interval(alpha, name="alpha")
        super().__init__()
        check_choice(reduction, REDUCTIONS, name="reduction")
        self.gamma, self.alpha = float(gamma), alpha
        self.reduction: Reduction = reduction

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of `labels` under `logits`, both of any one shape."""
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
