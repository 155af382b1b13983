"""Focal loss with a gradient that costs less than that of cross-entropy."""

from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from focalibrate.losses import BySample, focal_loss
from focalibrate.losses.policy import SignedSteps
from focalibrate.nn._rows import can_look

RowGamma: TypeAlias = float | BySample | SignedSteps


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
