"""Focal loss with a gradient that costs less than that of cross-entropy."""

import math
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from focalibrate.losses.adafocal import SignedSteps
from focalibrate.losses.focal import focal_loss
from focalibrate.losses.policy import BySample
from focalibrate.nn._rows import can_look

RowGamma: TypeAlias = float | BySample | SignedSteps

LEAST_TOTAL, GREATEST_TOTAL = 0.5, 1e30
"""Sums of exponentials between which plain logits need no shift: nothing overflows float32, and
no class above 3e-38 of the whole is lost."""
LEAST_P = 1e-30
"""True-class probability above which its logarithm may be taken directly in float32."""


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

    Forward keeps the exponentials :math:`e_k` of the logits with a 0 for the true class, whose
    sum :math:`s` gives :math:`1-p = s/(s+e_y)` without cancellation. Backward multiplies them by
    one number per row, in place: no second exponential and no second array, where cross-entropy
    needs both. Derivatives of the gradient (``create_graph=True``) are those of `focal_loss`.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, gamma: RowGamma) -> Tensor:
        """Return the loss of each row."""
        split = _split(logits, labels[:, None])
        p, rest = split.p, split.rest
        log_p = torch.where(rest < 0.5, torch.log1p(-rest), split.log_p)
        power, slope = _power_and_slope(p, rest, log_p, gamma)
        if ctx.needs_input_grad[0]:
            phi = power * (1.0 + slope)
            ctx.save_for_backward(logits, labels, phi / split.total, phi * rest)
            ctx.gamma = gamma
            # Not among the saved tensors: backward turns it into the gradient, in place.
            ctx.e = split.e
        return -(power * log_p).squeeze(1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient with respect to the logits."""
        (grad,) = grads
        logits, labels, scale, slope = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _differentiable_gradient(logits, labels, ctx.gamma, grad), None, None
        at_true, grad = labels[:, None], grad[:, None]
        e, ctx.e = ctx.e, None
        if e is None:  # a second backward through a retained graph
            e = _split(logits, at_true).e
        e.mul_(scale * grad)
        e.scatter_(1, at_true, -slope * grad)
        return e, None, None


class TrueAndRest(NamedTuple):
    """Rows of logits seen as the true class against the others; columns ``[M, 1]``."""

    e: Tensor
    """exponentials of the logits, up to a factor per row, 0 for the true class, ``[M, K]``"""
    total: Tensor
    """their sum with the true class"""
    p: Tensor
    """probability of the true class"""
    rest: Tensor
    """that of all others"""
    log_p: Tensor
    """logarithm of `p`, accurate where `p` is at most one half"""


def _split(logits: Tensor, at_true: Tensor) -> TrueAndRest:
    plain = _split_unshifted(logits, at_true) if can_look(logits) else None
    if plain is not None:
        return plain
    top = logits.amax(dim=-1, keepdim=True)
    # Exponentials below the smallest normal number are set to 0: each costs a hundred others.
    floor = math.log(torch.finfo(logits.dtype).tiny)
    e = torch.threshold_(torch.sub(logits, top), floor, -math.inf).exp_()
    total, p, rest = _take_true(e, at_true)
    return TrueAndRest(e, total, p, rest, logits.gather(1, at_true) - top - total.log())


def _split_unshifted(logits: Tensor, at_true: Tensor) -> TrueAndRest | None:
    """Return the split without two passes for the largest logit, or None where it is needed."""
    e = logits.exp()
    total, p, rest = _take_true(e, at_true)
    low, high = torch.aminmax(total)
    if not (low >= LEAST_TOTAL and high <= GREATEST_TOTAL):
        return None
    log_p = p.log()
    if p.amin() < LEAST_P:  # p may have underflowed; the difference is accurate there
        log_p = torch.where(p < LEAST_P, logits.gather(1, at_true) - total.log(), log_p)
    return TrueAndRest(e, total, p, rest, log_p)


def _take_true(e: Tensor, at_true: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the row sums of `e`, the share of the true class, now 0 in `e`, and of the rest."""
    e_true = e.gather(1, at_true)
    e.scatter_(1, at_true, torch.zeros_like(e_true))  # a bare 0 is scattered 3 times slower
    s = e.sum(dim=-1, keepdim=True)
    total = s + e_true
    return total, e_true / total, s / total


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


def _differentiable_gradient(
    logits: Tensor, labels: Tensor, gamma: RowGamma, grad: Tensor
) -> Tensor:
    loss = focal_loss(logits, labels, gamma=gamma)
    return torch.autograd.grad(loss, logits, grad, create_graph=True)[0]
