"""Calibrators as torch modules."""

from collections.abc import Callable
from typing import Any, Self, final

import torch
from torch import Tensor, nn

from focalibrate.calibrate import Calibrator, VectorScaling
from focalibrate.calibrate.formula import Recovered, formula_of
from focalibrate.nn._maps import Affine, Curves, Recovery, keep_precision


@final
class CalibratorModule(nn.Module):
    """A fitted calibrator as a module from logits to probabilities; see its class for the maths.

    The parameters are buffers: they move with ``.to(device)`` and are part of ``state_dict``.
    They keep float64 when the module is converted to another dtype; the result has the dtype
    of the logits. Half-precision logits are computed in float32, isotonic curves and histograms
    in float64 (float32 on a device without).

    Runs under ``torch.compile``, ``torch.export`` (with the batch and, for calibrators with a
    formula, the number of classes free) and ``torch.jit.script``. Values are not checked, as
    looking at them would stop a GPU: nan in gives nan out.

    Args:
        calibrator: any calibrator of `focalibrate.calibrate`.

    Shape:
        Logits and probabilities ``[..., K]``; -inf marks an impossible class.

    Example:
        >>> from focalibrate.calibrate import TemperatureScaling
        >>> module = TemperatureScaling(temperature=2.0).to_torch()
        >>> module(torch.tensor([[2.0, 0.0]]))
        tensor([[0.7311, 0.2689]])
    """

    def __init__(self, calibrator: Calibrator) -> None:
        super().__init__()
        self.map = _map_of(calibrator)

    def log_probs(self, logits: Tensor) -> Tensor:
        """Return calibrated log-probabilities, of the shape and dtype of `logits`."""
        return self._log_probs(logits).to(logits.dtype)

    def forward(self, logits: Tensor) -> Tensor:
        """Return calibrated probabilities, of the shape and dtype of `logits`."""
        return torch.exp(self._log_probs(logits)).to(logits.dtype)

    def _log_probs(self, logits: Tensor) -> Tensor:
        if not logits.is_floating_point():
            raise ValueError("`logits` must be floating point. Convert them to float32 first.")
        is_half = logits.dtype == torch.float16 or logits.dtype == torch.bfloat16
        log_probs: Tensor = self.map(logits.to(torch.float32) if is_half else logits)
        return log_probs

    def _apply(self, fn: Callable[[Tensor], Any], recurse: bool = True) -> Self:
        apply: Any = super()._apply
        apply(lambda tensor: keep_precision(fn, tensor), recurse)
        return self


def _map_of(calibrator: Calibrator) -> nn.Module:
    formula = formula_of(calibrator)
    if isinstance(formula, Recovered):
        return Recovery(formula.gamma, formula.temperature)
    if isinstance(formula, VectorScaling):
        return Affine(formula.scale, formula.bias)
    return Curves(formula)


@final
class CalibratedModel(nn.Module):
    """A model with its calibrator behind it: ``calibrator(model(...))``.

    Args:
        model: returns logits ``[..., K]``, one tensor.
        calibrator: a calibrator, or what its ``to_torch()`` returned.

    Example:
        >>> from focalibrate.calibrate import TemperatureScaling
        >>> model = CalibratedModel(nn.Identity(), TemperatureScaling(temperature=2.0))
        >>> model(torch.tensor([[2.0, 0.0]]))
        tensor([[0.7311, 0.2689]])
    """

    def __init__(self, model: nn.Module, calibrator: Calibrator | CalibratorModule) -> None:
        super().__init__()
        self.model = model
        if not isinstance(calibrator, CalibratorModule):
            calibrator = CalibratorModule(calibrator)
        self.calibrator = calibrator

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return calibrated probabilities; the arguments are those of the model."""
        logits = self.model(*args, **kwargs)
        if not isinstance(logits, Tensor):
            raise TypeError(
                f"`model` must return one tensor of logits, got {type(logits).__name__}. Wrap it "
                "in a module that returns its logits."
            )
        probs: Tensor = self.calibrator(logits)
        return probs
