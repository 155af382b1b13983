"""Brier, dual focal, properised focal, calibration-penalised and sigmoid focal loss as modules."""

from collections.abc import Sequence
from math import inf
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from focalibrate._array import is_concrete, working_dtype
from focalibrate._check import (
    check_choice,
    check_factor,
    check_gamma,
    check_positive,
    check_unit_interval,
)
from focalibrate.calibrate import PosteriorRecovery, SigmoidCalibrator
from focalibrate.losses import (
    brier_loss,
    dual_focal_loss,
    mmce,
    named_loss,
    proper_focal_loss,
    weighted_mmce,
)
from focalibrate.losses.sigmoid import SOFT_LABELS, SoftLabels, factor, sigmoid_focal_loss
from focalibrate.nn._rows import REDUCTIONS, LossRows, Reduction, RowLoss, is_autocast, reduced
from focalibrate.theory import LossForm, loss_form, recover_posterior
from focalibrate.theory.loss_forms import NOT_RECOVERABLE


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

    def _losses(self, rows: LossRows) -> Any:
        smoothing = self.label_smoothing
        return brier_loss(rows.quiet_logits, rows.target, label_smoothing=smoothing)

    def recovery(self) -> PosteriorRecovery:
        """Return the calibrator that undoes the smoothing: the loss itself is proper."""
        return PosteriorRecovery(gamma=0.0, label_smoothing=self.label_smoothing)


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

    _why_not = NOT_RECOVERABLE["dual_focal"]
    gamma: float

    def __init__(
        self, gamma: float = 2.0, *, ignore_index: int = -100, reduction: Reduction = "mean"
    ) -> None:
        check_gamma(gamma)
        super().__init__(reduction, gamma=float(gamma), ignore_index=ignore_index)

    def _losses(self, rows: LossRows) -> Any:
        return dual_focal_loss(rows.quiet_logits, rows.target, gamma=self.gamma)


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

    def _losses(self, rows: LossRows) -> Any:
        return proper_focal_loss(rows.quiet_logits, rows.target, self.gamma)

    def recovery(self) -> PosteriorRecovery:
        """Return the calibrator that changes nothing: the loss is proper."""
        return PosteriorRecovery(gamma=0.0)


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

    _why_not = "its penalty is of a batch, not of an example"
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

    def _losses(self, rows: LossRows) -> Any:
        penalty = weighted_mmce if self.weighted else mmce
        calibration = penalty(rows.logits, rows.target, kernel_width=self.kernel_width)
        return cross_entropy(rows.logits, rows.target) + self.lambda_ * calibration


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

    def _losses(self, rows: LossRows) -> Any:
        loss: Tensor = named_loss(self.form, rows.quiet_logits, rows.target)
        return loss

    def forward(
        self, logits: Tensor, labels: Tensor, *, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Return the loss of `labels` under `logits`; `sample_weight` is for losses of classes."""
        if self.form.head == "softmax":
            return super().forward(logits, labels, sample_weight=sample_weight)
        if sample_weight is not None:
            raise ValueError("`sample_weight` must be left out for a loss of single labels.")
        loss: Tensor = named_loss(self.form, logits.to(working_dtype(logits)), labels)
        return _as_given(reduced(loss, self.reduction), logits)

    def recovery(self) -> PosteriorRecovery:
        """Return the calibrator of this loss; for one of single labels, of two classes."""
        return PosteriorRecovery(loss=self.form)

    def recover(self, logits: Tensor) -> Tensor:
        """Return the probabilities behind the scores, of labels in any shape too."""
        probs: Tensor = recover_posterior(logits=logits, loss=self.form)
        return probs


@final
class SigmoidFocalLoss(nn.Module):
    """`focalibrate.losses.sigmoid_focal_loss` with a reduction; see there for maths and numerics.

    For labels that do not exclude each other, and for one score per example.

    Args:
        gamma: focusing exponent, ``>= 0``.
        alpha: weight of the positive labels, in [0, 1], a number or one per class; None for no
            weights.
        pos_weight: factor of the positive term, a number or one per class.
        weight: factor of both terms, a number or one per class.
        ignore_index: label that does not count.
        soft_labels: ``"mixed"``, or ``"p_t"`` as in torchvision, optax and Keras.
        reduction: ``"mean"`` over the labels that count, ``"sum"``, or ``"none"``.

    Shape:
        Logits and labels of one shape, any. What is given per class broadcasts with them: ``[C]``
        for ``[N, C]``, ``[C, 1, 1]`` for images.

    Example:
        >>> import torch
        >>> loss = SigmoidFocalLoss(reduction="none")
        >>> loss(torch.zeros(2), torch.tensor([1.0, 0.0]))
        tensor([0.0433, 0.1300])
    """

    alpha: Tensor | None
    pos_weight: Tensor | None
    weight: Tensor | None

    def __init__(
        self,
        gamma: float = 2.0,
        alpha: float | Sequence[float] | Tensor | None = 0.25,
        *,
        pos_weight: float | Sequence[float] | Tensor | None = None,
        weight: float | Sequence[float] | Tensor | None = None,
        ignore_index: int | None = None,
        soft_labels: SoftLabels = "mixed",
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        check_gamma(gamma)
        check_choice(reduction, REDUCTIONS, name="reduction")
        check_choice(soft_labels, SOFT_LABELS, name="soft_labels")
        self.gamma, self.ignore_index = float(gamma), ignore_index
        self.soft_labels: SoftLabels = soft_labels
        self.reduction: Reduction = reduction
        for name, value in (("alpha", alpha), ("pos_weight", pos_weight), ("weight", weight)):
            found: Tensor | None = None
            if value is not None:
                dtype = None if isinstance(value, Tensor) else torch.float64
                found = torch.as_tensor(value, dtype=dtype)
                check_factor(found, name=name, most=1.0 if name == "alpha" else inf)
            self.register_buffer(name, found, persistent=False)

    def forward(
        self,
        logits: Tensor,
        labels: Tensor,
        *,
        weight: Tensor | None = None,
        normaliser: Tensor | float | None = None,
    ) -> Tensor:
        """Return the loss of `labels` under `logits`, both of any one shape.

        Args:
            logits: log-odds.
            labels: 0, 1, or soft labels in between.
            weight: factor of each label, ``>= 0``, that broadcasts with `logits`; 0 masks it.
            normaliser: what ``"mean"`` divides the sum by, ``> 0``, such as the number of objects;
                without it the number of labels that count.
        """
        if normaliser is not None:
            if self.reduction != "mean":
                raise ValueError(
                    f"`normaliser` must be left out for reduction={self.reduction!r}."
                )
            if is_concrete(normaliser) and not 0 < normaliser < inf:
                raise ValueError(
                    f"`normaliser` must be a finite number > 0, got {float(normaliser):g}. For "
                    "batches without objects: `max(1, n_objects)`."
                )
        x, ignored = logits.to(working_dtype(logits)), None
        if self.ignore_index is not None:
            ignored = labels == self.ignore_index
            x, labels = x.masked_fill(ignored, 0.0), labels.masked_fill(ignored, 0)
        loss: Tensor = sigmoid_focal_loss(
            x,
            labels,
            gamma=self.gamma,
            alpha=self.alpha,
            pos_weight=self.pos_weight,
            weight=self.weight,
            soft_labels=self.soft_labels,
        )
        if weight is not None:
            loss = loss * factor(weight, loss, name="weight")
        if ignored is not None:
            loss = loss.masked_fill(ignored, 0.0)
            normaliser = (~ignored).sum() if normaliser is None else normaliser
        return _as_given(reduced(loss, self.reduction, normaliser), logits)

    def recovery(self) -> SigmoidCalibrator:
        """Return the calibrator that turns scores of a model trained with it into probabilities.

        It undoes the exponent and the weights `alpha` and `pos_weight`, for each label separately.

        Example:
            >>> SigmoidFocalLoss(2.0, alpha=0.25).recovery().describe()
            'sigmoid calibration: posterior recovery gamma=2, intercept 1.099'
        """
        shift = torch.zeros(1, dtype=torch.float64)
        if self.alpha is not None:
            shift = shift - torch.logit(self.alpha.double().cpu())
        if self.pos_weight is not None:
            shift = shift - self.pos_weight.double().cpu().log()
        return SigmoidCalibrator(intercept=tuple(shift.flatten().tolist()), gamma=self.gamma)

    def extra_repr(self) -> str:
        """Show the arguments."""
        factors = ("alpha", "pos_weight", "weight")
        names = ("gamma", *factors, "ignore_index", "soft_labels", "reduction")
        shown = ((name, getattr(self, name)) for name in names)
        return ", ".join(
            f"{name}={value.tolist() if isinstance(value, Tensor) else value}"
            for name, value in shown
            if value is not None and value != "mixed"
        )


def _as_given(loss: Tensor, logits: Tensor) -> Tensor:
    """Return a loss of labels in the dtype that torch's losses have."""
    return loss if is_autocast(logits) else loss.to(logits.dtype)
