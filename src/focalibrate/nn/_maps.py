"""The maps of the calibrators in torch alone, so that scripts, compilers and exporters see them.

A second writing of `focalibrate.theory` and `focalibrate.calibrate`, which TorchScript cannot
read; tests hold the two to each other.
"""

import math
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from focalibrate.calibrate.formula import CurveTables
from focalibrate.theory.factor import SERIES_BELOW, SERIES_TERMS


def _gaps(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``z - z_top``, the log-sum-exp ``s`` of the others' gaps, and where the top is."""
    top = z.argmax(dim=-1, keepdim=True)
    is_top = torch.zeros_like(z, dtype=torch.bool).scatter(-1, top, True)
    gaps = z - z.gather(-1, top)
    others = gaps.masked_fill(is_top, -math.inf)
    shift = others.detach().amax(dim=-1, keepdim=True)
    shift = shift.masked_fill(torch.isinf(shift), 0.0)
    total = torch.exp(others - shift).sum(dim=-1, keepdim=True)
    is_none = total == 0
    s = torch.log(total.masked_fill(is_none, 1.0)) + shift
    return gaps, s.masked_fill(is_none, -math.inf), is_top


def log_softmax(z: Tensor) -> Tensor:
    """See `focalibrate._stable.log_softmax`."""
    gaps, s, _ = _gaps(z)
    return gaps + logsigmoid(-s)


def _log_phi_top(
    s: Tensor, gamma: Tensor, below: float = SERIES_BELOW, terms: int = SERIES_TERMS
) -> Tensor:
    """See `focalibrate.theory.factor.log_phi`; `s` is the log-odds of all the other classes."""
    log_p, log_rest = logsigmoid(-s), logsigmoid(s)
    rest = torch.exp(log_rest)
    is_near = rest < below
    safe_rest = rest.masked_fill(is_near, 1.0)
    r_far = -torch.exp(log_p) * log_p / safe_rest
    eps = rest.masked_fill(~is_near, 0.0)
    d_near = torch.zeros_like(eps)
    for k in range(terms, 0, -1):
        d_near = 1.0 / (k * (k + 1)) + eps * d_near
    gain = torch.where(is_near, (1.0 + gamma) - gamma * (eps * d_near), 1.0 + gamma * r_far)
    d = torch.where(is_near, d_near, (1.0 - r_far) / safe_rest)
    is_limit = gamma == -1
    return gamma.masked_fill(is_limit, 0.0) * log_rest + torch.log(torch.where(is_limit, d, gain))


def recover_log_posterior(z: Tensor, gamma: Tensor) -> Tensor:
    """See `focalibrate.theory.recover_log_posterior`."""
    gaps, s, is_top = _gaps(z)
    log_v = gaps + logsigmoid(-s)
    is_certain = torch.isinf(s)  # any finite score of the top will do: its rivals are at -inf
    is_major = is_top & (s < 0)
    # What `where` discards must stay finite, or its gradient spoils what is kept.
    minor_log_v = log_v.masked_fill(is_major, -1.0)
    minor_log_v = minor_log_v.masked_fill(torch.isinf(minor_log_v), -1e4)  # exp of it is 0
    v = torch.exp(minor_log_v)
    log_rest = torch.log1p(-v)
    minor = gamma * log_rest + torch.log1p(-gamma * v * minor_log_v / (1.0 - v))
    major = _log_phi_top(s.masked_fill(is_certain, 0.0), gamma)
    return log_softmax(log_v - torch.where(is_major, major, minor))


@final
class Recovery(nn.Module):
    """Logits over T, then posterior recovery; gamma 0 and T 1 do nothing."""

    gamma: Tensor
    temperature: Tensor

    def __init__(self, gamma: float, temperature: float) -> None:
        super().__init__()
        self.register_buffer("gamma", torch.tensor(gamma, dtype=torch.float64))
        self.register_buffer("temperature", torch.tensor(temperature, dtype=torch.float64))

    def forward(self, z: Tensor) -> Tensor:
        """Return log-probabilities."""
        # Gaps first: the rounding of a large z / T would be an error of the gap.
        gaps = z - z.detach().amax(dim=-1, keepdim=True)
        return recover_log_posterior(gaps / self.temperature.to(z.dtype), self.gamma.to(z.dtype))


@final
class Affine(nn.Module):
    """Logits times a scale plus a bias a class; an impossible class stays so."""

    scale: Tensor
    bias: Tensor

    def __init__(self, scale: tuple[float, ...], bias: tuple[float, ...]) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor(scale, dtype=torch.float64))
        self.register_buffer("bias", torch.tensor(bias, dtype=torch.float64))

    def forward(self, z: Tensor) -> Tensor:
        """Return log-probabilities."""
        check_class_count(z, self.scale.size(0))
        is_impossible = torch.isinf(z)
        scaled = z.masked_fill(is_impossible, 0.0) * self.scale.to(z.dtype) + self.bias.to(z.dtype)
        return log_softmax(scaled.masked_fill(is_impossible, -math.inf))


@final
class Curves(nn.Module):
    """One curve a class, read in the precision of its table, then rows brought back to sum 1."""

    knots: Tensor
    values: Tensor

    def __init__(self, tables: CurveTables) -> None:
        super().__init__()
        self.is_linear = tables.is_linear
        self.register_buffer("knots", torch.from_numpy(tables.knots))
        self.register_buffer("values", torch.from_numpy(tables.values))

    def forward(self, z: Tensor) -> Tensor:
        """Return log-probabilities, -inf where the probability is 0."""
        n_classes = self.knots.size(0)
        check_class_count(z, n_classes)
        raw = torch.softmax(z.to(self.knots.dtype), dim=-1)
        p = raw.reshape(-1, n_classes).T.contiguous()
        new = self._interpolated(p) if self.is_linear else self._binned(p)
        new = new.T.reshape(raw.shape).masked_fill(raw == 0.0, 0.0)
        total = new.sum(dim=-1, keepdim=True)
        probs = torch.where(total > 0, new / total.masked_fill(total == 0, 1.0), raw)
        is_zero = probs == 0
        log_probs = torch.log(probs.masked_fill(is_zero, 1.0)).masked_fill(is_zero, -math.inf)
        return log_probs.to(z.dtype)

    def _interpolated(self, p: Tensor) -> Tensor:
        # The last knot is at infinity; only nan, sorted behind it, would be beyond the table.
        after = torch.searchsorted(self.knots, p.detach(), right=True)
        after = after.clamp(max=self.knots.size(1) - 1)
        before = after - 1
        x0, x1 = self.knots.gather(1, before), self.knots.gather(1, after)
        y0, y1 = self.values.gather(1, before), self.values.gather(1, after)
        return y0 + (y1 - y0) * ((p - x0) / (x1 - x0))

    def _binned(self, p: Tensor) -> Tensor:
        return self.values.gather(1, torch.searchsorted(self.knots, p.detach()))


def check_class_count(z: Tensor, n_classes: int) -> None:
    """Raise `ValueError` unless `z` has the classes the calibrator was fitted on."""
    if z.size(-1) != n_classes:
        raise ValueError(
            f"`logits` must have the {n_classes} classes of the fit on the last axis, got "
            f"{z.size(-1)}."
        )


def keep_precision(moved: Any, tensor: Tensor) -> Tensor:
    """Return ``moved(tensor)``, but with the precision of `tensor` where the device has it.

    ``model.half()`` converts buffers too, and a temperature of three digits is not the one
    that was fitted.
    """
    try:
        result: Tensor = moved(tensor)
    except TypeError:  # a device without float64 (MPS) refuses the move
        return torch.as_tensor(moved(tensor.float())).float()
    if result.dtype == tensor.dtype:
        return result
    dtype = torch.float32 if result.device.type == "mps" else tensor.dtype
    return tensor.to(device=result.device, dtype=dtype)
