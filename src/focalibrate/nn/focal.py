"""Focal loss as a torch module, with a gradient that costs less than that of cross-entropy."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias, final

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.functional import cross_entropy

from focalibrate._array import working_dtype
from focalibrate._check import check_class_weight, check_unit_interval
from focalibrate.calibrate import PosteriorRecovery
from focalibrate.losses import AdaFocal, ByEpoch, BySample, GammaPolicy, focal_loss, gamma_policy
from focalibrate.losses.policy import SignedSteps
from focalibrate.metrics import Cells
from focalibrate.nn._counted import counted_rows
from focalibrate.nn._rows import (
    LossRows,
    Reduction,
    RowLoss,
    as_rows,
    can_look,
    class_weight,
    explained,
    is_empty,
)

RowGamma: TypeAlias = float | BySample | SignedSteps


@final
class FocalLoss(RowLoss):
    r"""Focal loss with the arguments of `torch.nn.CrossEntropyLoss`.

    .. math:: \ell_\gamma(z, y) = -\sum_i w_i\, y_i (1-v_i)^\gamma \log v_i,
              \qquad v = \operatorname{softmax}(z)

    `focalibrate.losses.focal_loss` with a reduction; see there for maths and numerics.
    ``gamma=0`` calls `torch.nn.functional.cross_entropy`.

    Args:
        gamma: exponent, ``>= 0``; a policy by sample (``"flsd-53"``, `BySample`); or a schedule
            (``"fls-532"``, `ByEpoch`), which needs `set_epoch` before every epoch; or
            ``"adafocal"`` (`AdaFocal`), which needs `update` after every epoch.
        weight: class weights ``[K]``, each ``>= 0``; a tensor or a list.
        alpha: the same by the name of the focal paper: a list, or for two classes the weight of
            class 1, class 0 having ``1 - alpha``.
        ignore_index: label of examples that do not count. Not for soft targets.
        label_smoothing: share of each target spread evenly over all classes, in [0, 1].
        reduction: ``"mean"`` divides by the weight of the examples that count; ``"sum"``;
            ``"none"`` keeps one loss per example.

    Shape:
        Logits ``[N, K]``, ``[N, K, d1, ...]`` or ``[K]``; labels the same without the class axis
        (class indices), or with it (probabilities). Class indices ``[N, 1, d1, ...]``, as MONAI
        has them, are taken too. `sample_weight` of `forward`: one number per example or label.

    Numerics:
        For class indices, forward and backward together keep only one array of the size of the
        logits. Under `torch.compile`, `torch.func` and forward-mode autograd, with soft targets or
        smoothing, the array-agnostic formula is used. float16 and bfloat16 are computed in
        float32; the result has the dtype of the logits, or float32 under autocast. nan or +inf
        logits raise `ValueError` on CPU and give nan elsewhere and while traced.

    State:
        `state_dict` holds `weight`, if given, and for a schedule the buffer `progress`: epoch and
        number of epochs, so that a restored module continues with the same exponent; for AdaFocal
        the buffers `cuts` and `gammas`.

    Example:
        >>> loss = FocalLoss(2.0)
        >>> round(loss(torch.zeros(1, 2), torch.tensor([0])).item(), 4)
        0.1733
        >>> scheduled = FocalLoss("fls-532")
        >>> scheduled.set_epoch(0, 350)
        >>> scheduled.gamma_now
        5.0
        >>> adaptive = FocalLoss("adafocal")
        >>> adaptive.update(torch.zeros(30, 2), torch.zeros(30, dtype=torch.int64))
        >>> round(adaptive.gamma.gammas[0], 4)  # lower: a confidence of 0.5 that is always right
        0.6065
    """

    label_smoothing: float
    ignore_index: int
    weight: Tensor | None
    progress: Tensor
    cuts: Tensor
    gammas: Tensor

    def __init__(
        self,
        gamma: float | str | GammaPolicy = 2.0,
        *,
        weight: Tensor | Sequence[float] | None = None,
        alpha: float | Sequence[float] | None = None,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        reduction: Reduction = "mean",
    ) -> None:
        check_unit_interval(label_smoothing, name="label_smoothing")
        super().__init__(reduction, ignore_index=ignore_index, label_smoothing=label_smoothing)
        self.gamma = gamma_policy(gamma)
        self.register_buffer("weight", class_weight(weight, alpha))
        self._weight_name = "weight" if alpha is None else "alpha"
        self.gamma_now = None if isinstance(self.gamma, ByEpoch) else self.gamma
        if isinstance(self.gamma, ByEpoch):
            self.register_buffer("progress", torch.zeros(2, dtype=torch.int64))
        if isinstance(self.gamma, AdaFocal):
            for name in ("cuts", "gammas"):
                value = torch.tensor(getattr(self.gamma, name), dtype=torch.float64)
                self.register_buffer(name, value)
        self.register_load_state_dict_post_hook(_restore)  # type: ignore[no-untyped-call]

    def set_epoch(self, epoch: int, n_epochs: int | None) -> None:
        """Move a schedule to `epoch`, counted from 0, of `n_epochs`; other exponents stay."""
        if isinstance(self.gamma, ByEpoch):
            if n_epochs is None or n_epochs <= 0:
                raise ValueError(
                    f"a schedule of `gamma` needs the number of epochs, got {n_epochs}. Set it in "
                    "the trainer (`max_epochs`, `num_train_epochs`), not a number of steps."
                )
            self.gamma_now = self.gamma.at(epoch, n_epochs)
            self.progress.copy_(torch.tensor([epoch, n_epochs]))

    def update(self, logits: Tensor, labels: Tensor) -> None:
        """Adapt AdaFocal's exponents to validation logits after an epoch; others stay.

        Args:
            logits: logits of all validation examples, in the shapes of `forward`.
            labels: class indices; those of `ignore_index` do not count.
        """
        if isinstance(self.gamma, AdaFocal):
            rows = counted_rows(logits, labels, ignore_index=self.ignore_index)
            if len(rows.labels) == 0:
                raise ValueError("`labels` must not be empty, but all are ignored.")
            terms = rows.terms()
            self._adopt(self.gamma.updated(terms.confidence, terms.correct))

    def update_from(self, cells: Cells) -> None:
        """Do the same from a table of fine cells: `CalibrationMonitor.cells`."""
        if isinstance(self.gamma, AdaFocal):
            self._adopt(self.gamma.updated_from(cells))

    def _adopt(self, policy: AdaFocal) -> None:
        self.gamma = self.gamma_now = policy
        for buffer, values in ((self.cuts, policy.cuts), (self.gammas, policy.gammas)):
            buffer.copy_(torch.tensor(values, dtype=torch.float64))

    def forward(
        self, logits: Tensor, labels: Tensor, *, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Return the loss of `labels` under `logits`; weighted rows count as often in the mean."""
        if self._exponent() != 0.0 or sample_weight is not None or is_empty(logits, labels):
            return super().forward(logits, labels, sample_weight=sample_weight)
        rows = as_rows(logits, labels, ignore_index=self.ignore_index)
        weight = self._class_weight(rows)
        loss = cross_entropy(
            rows.given,
            labels if rows.is_soft else labels.reshape(rows.shape).long(),
            weight=None if weight is None else weight.to(rows.given.dtype),
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            reduction=self.reduction,
        )
        return explained(loss, rows)

    def _losses(self, rows: LossRows) -> Any:
        gamma, weight = self._exponent(), self._class_weight(rows)
        if rows.is_soft or self.label_smoothing > 0.0 or gamma == 0.0:
            smoothing = self.label_smoothing
            return focal_loss(
                rows.quiet_logits,
                rows.target,
                gamma=gamma,
                label_smoothing=smoothing,
                weight=weight,
            )
        loss = focal_rows(rows.logits, rows.target, gamma)
        return loss if weight is None else loss * weight[rows.target]

    def _class_weight(self, rows: LossRows) -> Tensor | None:
        if self.weight is not None and len(self.weight) != rows.n_classes:
            check_class_weight(self.weight, n_classes=rows.n_classes, name=self._weight_name)
        return None if self.weight is None else self.weight.to(working_dtype(rows.given))

    def _row_weight(self, rows: LossRows) -> Tensor | None:
        weight = None if rows.is_soft else self._class_weight(rows)
        return None if weight is None else weight[rows.target]

    def recovery(self) -> PosteriorRecovery:
        r"""Return the calibrator that turns scores of a model trained with it into probabilities.

        Posterior recovery :math:`\Psi_\gamma` with the exponent, the class weights and the label
        smoothing of this loss.

        Raises:
            ValueError: the exponent differs from example to example (``"flsd-53"``,
                ``"adafocal"``), for which no such map is known. Fit a calibrator on validation
                logits instead: `CalibrationMonitor.fit`.

        Example:
            >>> FocalLoss(2.0).recovery().describe()
            'posterior recovery: gamma=2'
        """
        gamma = self._exponent()
        if not isinstance(gamma, float):
            raise ValueError(
                f"`gamma` must be one number for posterior recovery, got {self.gamma}. Fit a "
                "calibrator on validation logits instead, for instance by "
                "`CalibrationMonitor.fit`."
            )
        settings: dict[str, Any] = {"gamma": gamma}
        if self.weight is not None:
            settings["class_weight"] = tuple(self.weight.double().tolist())
        if self.label_smoothing > 0.0:
            settings["label_smoothing"] = self.label_smoothing
        return PosteriorRecovery(**settings)

    def _exponent(self) -> RowGamma:
        if isinstance(self.gamma_now, AdaFocal):
            return SignedSteps(self.cuts, self.gammas)  # tensors: no recompilation
        if self.gamma_now is None:
            raise ValueError(
                f"`gamma` is a schedule, {self.gamma}, and the epoch is not known. "
                "Call `loss.set_epoch(epoch, n_epochs)` at the start of every epoch."
            )
        return self.gamma_now

    def extra_repr(self) -> str:
        """Show the arguments."""
        weight = "" if self.weight is None else f"weight=[{len(self.weight)} classes], "
        return (
            f"gamma={self.gamma}, {weight}ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, reduction={self.reduction}"
        )


def _restore(loss: FocalLoss, _: object) -> None:
    """Bring the exponent in line with the buffers just loaded."""
    if isinstance(loss.gamma, AdaFocal):
        cuts, gammas = loss.cuts.tolist(), loss.gammas.tolist()
        loss.gamma_now = loss.gamma = replace(loss.gamma, cuts=tuple(cuts), gammas=tuple(gammas))
    elif isinstance(loss.gamma, ByEpoch) and int(loss.progress[1]) > 0:
        loss.set_epoch(*loss.progress.tolist())


def focal_rows(logits: Tensor, labels: Tensor, gamma: RowGamma) -> Tensor:
    r"""Return the focal loss of each row: `focalibrate.losses.focal_loss`, fast.

    Args:
        logits: ``[M, K]``, float32 or float64.
        labels: class indices ``[M]``, int64, in range.
        gamma: exponent, ``> 0``, or a policy by sample.
    """
    if _is_eager(logits):
        loss: Tensor = FusedFocal.apply(logits, labels, gamma)  # type: ignore[no-untyped-call]
        return loss
    plain: Tensor = focal_loss(logits, labels, gamma=gamma)
    return plain


def _is_eager(logits: Tensor) -> bool:
    """Return whether only backward-mode autograd is active: no compiler, no transform."""
    return (
        not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()  # as asked by `Function.apply` itself
        and type(logits) in (Tensor, nn.Parameter)
        and forward_ad.unpack_dual(logits).tangent is None  # type: ignore[no-untyped-call]
    )


class FusedFocal(torch.autograd.Function):
    r"""Focal loss of class indices with one ``[M, K]`` array for forward and backward together.

    .. math:: \frac{\partial\ell}{\partial z_k} = \varphi_\gamma(p)\,v_k \ (k \ne y), \qquad
              \frac{\partial\ell}{\partial z_y} = -\varphi_\gamma(p)\,(1-p)

    Forward keeps the softmax :math:`v` with a 0 for the true class, whose sum is :math:`1-p`
    without cancellation. Backward multiplies it by one number per row, in place: no second
    exponential and no second array, where cross-entropy needs both. Derivatives of the gradient
    (``create_graph=True``) are those of `focal_loss`.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, gamma: RowGamma) -> Tensor:
        """Return the loss of each row."""
        at_true = labels[:, None]
        others, p = _others(logits, at_true)
        rest = others.sum(dim=-1, keepdim=True)
        log_p = torch.where(rest < 0.5, torch.log1p(-rest), p.log())
        if not can_look(p) or p.amin() == 0:  # where p underflows, its logarithm need not
            far = logits.gather(1, at_true) - logits.logsumexp(dim=-1, keepdim=True)
            log_p = torch.where(p == 0, far, log_p)
        power, slope = _power_and_slope(p, rest, log_p, gamma)
        if ctx.needs_input_grad[0]:
            phi = power * (1.0 + slope)
            ctx.save_for_backward(logits, labels, phi, phi * rest)
            ctx.gamma = gamma
            # Not among the saved tensors: backward turns it into the gradient, in place.
            ctx.others = others
        return -(power * log_p).squeeze(1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient with respect to the logits."""
        (grad,) = grads
        logits, labels, phi, at_label = ctx.saved_tensors
        if torch.is_grad_enabled():
            loss = focal_loss(logits, labels, gamma=ctx.gamma)
            return torch.autograd.grad(loss, logits, grad, create_graph=True)[0], None, None
        at_true, grad = labels[:, None], grad[:, None]
        found, ctx.others = ctx.others, None
        if found is None:  # a second backward through a retained graph
            found = _others(logits, at_true)[0]
        found.mul_(phi * grad)
        found.scatter_(1, at_true, -at_label * grad)
        return found, None, None


def _others(logits: Tensor, at_true: Tensor) -> tuple[Tensor, Tensor]:
    """Return the softmax with a 0 for the true class, and the probability that stood there."""
    v = logits.softmax(dim=-1)
    # Each number below the smallest normal one costs a hundred others.
    torch.threshold_(v, torch.finfo(v.dtype).tiny, 0.0)
    p = v.gather(1, at_true)
    v.scatter_(1, at_true, torch.zeros_like(p))  # a bare 0 is scattered 3 times slower
    return v, p


def _r(p: Tensor, rest: Tensor, log_p: Tensor) -> Tensor:
    r"""Return :math:`r = -p\log p/(1-p)`, finite where a factor is 0 or infinite."""
    info = torch.finfo(p.dtype)
    return -p * log_p.clamp_min(info.min) / rest.clamp_min(info.tiny)


def _power_and_slope(
    p: Tensor, rest: Tensor, log_p: Tensor, gamma: RowGamma
) -> tuple[Tensor, Tensor]:
    r"""Return the factor of :math:`-\log p` in the loss, and :math:`\varphi` over it, minus 1.

    They are :math:`(1-p)^\gamma` and :math:`\gamma r`. For the negative exponents of AdaFocal,
    :math:`(1+p)^{|\gamma|}` and :math:`|\gamma|\,p\log p/(1+p)`: the same with the complement
    :math:`1-p` replaced by :math:`-(1+p)`.
    """
    if isinstance(gamma, float):
        return rest.pow(gamma), gamma * _r(p, rest, log_p)
    exponent = gamma(p)
    if isinstance(gamma, BySample):
        return rest.pow(exponent), exponent * _r(p, rest, log_p)
    is_negative, size = exponent < 0, exponent.abs()
    power = torch.where(is_negative, 1.0 + p, rest).pow(size)
    opposite = -_r(p, 1.0 + p, log_p)
    return power, size * torch.where(is_negative, opposite, _r(p, rest, log_p))
