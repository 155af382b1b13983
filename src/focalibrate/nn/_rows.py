"""Common steps of every module: one example per row before the formula, a reduction after."""

import math
from abc import abstractmethod
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from focalibrate._array import is_concrete, working_dtype
from focalibrate._check import (
    check_choice,
    check_class_axis,
    check_class_weight,
    check_label_form,
    check_labels,
    check_logits,
    check_probs,
    check_unit_interval,
)
from focalibrate.calibrate import PosteriorRecovery

Reduction = Literal["mean", "sum", "none"]
REDUCTIONS: tuple[Reduction, ...] = ("mean", "sum", "none")


class LossRows(NamedTuple):
    """Checked input of a module, one example per row."""

    given: Tensor
    """logits as they came, class axis 1 or the only one"""
    target: Tensor
    """class indices ``[M]``, 0 for ignored rows; or soft targets ``[M, K]``"""
    ignored: Tensor | None
    """``[M]``, true for rows that do not count; None where all do"""
    shape: tuple[int, ...]
    """shape of the result without reduction"""
    dtype: torch.dtype
    """dtype of the result"""

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return self.given.shape[min(1, self.given.ndim - 1)]

    @property
    def is_soft(self) -> bool:
        """Whether `target` holds probabilities."""
        return self.target.ndim == 2

    @property
    def logits(self) -> Tensor:
        """Logits ``[M, K]``, float32 where the input is of half precision."""
        return _class_last(self.given.to(working_dtype(self.given)))

    @property
    def quiet_logits(self) -> Tensor:
        """The same with 0 in ignored rows, so that padding of any kind is harmless there."""
        if self.ignored is None:
            return self.logits
        return self.logits.masked_fill(self.ignored[:, None], 0.0)


def as_rows(logits: Tensor, labels: Tensor, *, ignore_index: int | None = None) -> LossRows:
    """Check the input of a module, whose class axis is 1 or the only one."""
    for name, given in (("logits", logits), ("labels", labels)):
        if not isinstance(given, Tensor):
            raise ValueError(
                f"`{name}` must be a torch tensor, got {type(given).__name__}. Wrap it: "
                f"`torch.as_tensor({name})`."
            )
    check_class_axis(logits)
    class_axis = min(1, logits.ndim - 1)
    shape = (*logits.shape[:class_axis], *logits.shape[class_axis + 1 :])
    dtype = logits.dtype
    if is_autocast(logits):  # as `cross_entropy` does
        dtype = working_dtype(logits)
    if labels.is_floating_point() and labels.shape == logits.shape:
        if ignore_index is not None and ignore_index >= 0:
            raise ValueError(
                f"`ignore_index` must be negative for soft targets, which name no class, got "
                f"{ignore_index}. Leave it out and drop the rows."
            )
        target = _class_last(labels.to(working_dtype(logits)))
        check_probs(target, name="labels")
        return LossRows(logits, target, None, shape, dtype)
    n_classes = logits.shape[class_axis]
    labels = as_class_indices(labels, shape)
    check_label_form(labels, shape=shape, n_classes=n_classes)
    target, ignored = _split_ignored(labels.reshape(-1).long(), ignore_index, n_classes)
    return LossRows(logits, target, ignored, shape, dtype)


def as_class_indices(labels: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return class indices ``[N, d1, ...]``, also of ``[N, 1, d1, ...]`` in any dtype (MONAI)."""
    if not shape or tuple(labels.shape) != (shape[0], 1, *shape[1:]):
        return labels
    whole = labels.squeeze(1)
    if whole.is_floating_point() and not (can_look(whole) and bool((whole % 1 != 0).any())):
        return whole.long()
    return whole


def is_autocast(x: Tensor) -> bool:
    """Return whether `x` lives on a device where autocast is on."""
    kind = x.device.type
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)


def _class_last(x: Tensor) -> Tensor:
    if x.ndim == 2:
        return x
    class_axis = min(1, x.ndim - 1)
    return x.movedim(class_axis, -1).reshape(-1, x.shape[class_axis])


def can_look(x: Tensor) -> bool:
    """Return whether values of `x` can be read at no cost: on the CPU and not while traced."""
    return is_concrete(x) and x.device.type == "cpu"


def _split_ignored(
    labels: Tensor, ignore_index: int | None, n_classes: int
) -> tuple[Tensor, Tensor | None]:
    """Return the labels with 0 for ignored ones, and which those are."""
    if can_look(labels):
        low, high = (int(x) for x in torch.aminmax(labels))
        is_absent = ignore_index is None or not low <= ignore_index <= high
        if low >= 0 and high < n_classes and is_absent:
            return labels, None
    ignored = None
    if ignore_index is not None:
        ignored = labels == ignore_index
        labels = labels.masked_fill(ignored, 0)
    if can_look(labels):
        check_labels(labels, shape=tuple(labels.shape), n_classes=n_classes)
    return labels, ignored


def row_weights(weights: Any, rows: LossRows) -> Tensor:
    """Return the weight of each example, float64 ``[M]``, those of ignored ones as they are."""
    w, shape = torch.as_tensor(weights).detach().double(), rows.shape
    if tuple(w.shape) == shape[:1]:
        w = w.reshape(-1, *[1] * (len(shape) - 1)).expand(shape)
    if w.numel() != math.prod(shape) or w.shape[:1] != shape[:1]:
        raise ValueError(
            f"`sample_weight` must have shape {shape[:1]} or that of `labels`, {shape}, got "
            f"{tuple(w.shape)}."
        )
    w = w.reshape(-1)
    used = w if rows.ignored is None else w[~rows.ignored.to(w.device)]
    if is_concrete(used) and not bool((torch.isfinite(used) & (used >= 0)).all()):
        raise ValueError(
            f"`sample_weight` must be finite and >= 0, found {float(used.min()):.3g} to "
            f"{float(used.max()):.3g}."
        )
    return w


def class_weight(weight: Any, alpha: Any = None) -> Tensor | None:
    """Return class weights as a tensor, of a tensor or list, or of the `alpha` of two classes."""
    if alpha is not None:
        if weight is not None:
            raise ValueError(
                "`alpha` and `weight` must not be given together: both weight classes."
            )
        weight = alpha
        if isinstance(alpha, (int, float)):
            check_unit_interval(alpha, name="alpha")
            weight = [1.0 - alpha, alpha]
    if weight is None:
        return None
    found = weight if isinstance(weight, Tensor) else torch.tensor(weight, dtype=torch.float32)
    check_class_weight(found, n_classes=found.numel(), name="weight" if alpha is None else "alpha")
    return found


def is_empty(logits: Tensor, labels: Tensor) -> bool:
    """Return whether there are no examples, but at least one class."""
    if not (isinstance(logits, Tensor) and isinstance(labels, Tensor)) or logits.ndim < 2:
        return False
    return logits.numel() == labels.numel() == 0 and logits.shape[1] > 0


def reduced(losses: Tensor, reduction: Reduction, count: Any = None) -> Tensor:
    """Return the losses, their sum, or their mean: the sum over `count`, if it is given."""
    if reduction == "mean":
        return losses.mean() if count is None else losses.sum() / count
    return losses.sum() if reduction == "sum" else losses


def explained(loss: Tensor, rows: LossRows) -> Tensor:
    """Return `loss`, or raise `ValueError` if it is nan because logits are nan or +inf.

    Logits are checked only if the loss is nan, so that the check costs nothing otherwise.
    """
    if can_look(loss) and bool(loss.isnan().any()):
        check_logits(rows.logits)
    return loss


class RowLoss(nn.Module):
    """A loss of `focalibrate.losses`, one number per row, with `ignore_index` and a reduction.

    Shapes, `ignore_index`, `sample_weight` and `reduction` are those of `FocalLoss`.
    """

    _why_not = "the way back is not known"

    def __init__(self, reduction: Reduction, **settings: Any) -> None:
        super().__init__()
        check_choice(reduction, REDUCTIONS, name="reduction")
        self.reduction: Reduction = reduction
        self._shown = (*settings, "reduction")
        for name, value in settings.items():
            setattr(self, name, value)

    @abstractmethod
    def _losses(self, rows: LossRows) -> Any:
        """Return one loss per row ``[M]``, or one number where there is no other reduction."""

    def forward(
        self, logits: Tensor, labels: Tensor, *, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Return the loss of `labels` under `logits`; weighted rows count as often in the mean."""
        if is_empty(logits, labels):  # as torch: nan for the mean, 0 for the sum
            return reduced(logits.sum(dim=1), self.reduction)
        rows = as_rows(logits, labels, ignore_index=getattr(self, "ignore_index", None))
        loss: Tensor = self._losses(rows)
        weight = self._row_weight(rows)
        if loss.ndim == 0:
            if sample_weight is not None:
                raise ValueError("`sample_weight` must be left out: the loss is one of the batch.")
            return loss.to(rows.dtype)
        if sample_weight is not None:
            own = row_weights(sample_weight, rows).to(loss)
            loss, weight = loss * own, own if weight is None else own * weight
        if rows.ignored is not None:
            loss = loss.masked_fill(rows.ignored, 0.0)
        count = None
        if self.reduction == "mean" and not (rows.ignored is None and weight is None):
            # as in `torch.nn.CrossEntropyLoss`: nan if there are none
            share = torch.ones_like(loss) if weight is None else weight
            count = (share if rows.ignored is None else share.masked_fill(rows.ignored, 0.0)).sum()
        answer = reduced(loss, self.reduction, count)
        answer = answer.reshape(rows.shape) if self.reduction == "none" else answer
        return explained(answer, rows).to(rows.dtype)

    def _row_weight(self, rows: LossRows) -> Tensor | None:
        """Return the weight of each row's class, which is in its loss already."""
        return None

    def recovery(self) -> PosteriorRecovery:
        """Return the calibrator that turns scores of a model trained with it into probabilities.

        Raises:
            ValueError: the minimum of the loss does not tell the posterior.
        """
        raise ValueError(
            f"{type(self).__name__} has no posterior recovery: {self._why_not}. Fit a calibrator "
            "on validation logits instead: `CalibrationMonitor.fit`."
        )

    def extra_repr(self) -> str:
        """Show the arguments."""
        return ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)
