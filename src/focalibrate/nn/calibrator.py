"""Calibrators as torch modules."""

import json
from dataclasses import replace
from typing import Any, final

import torch
from torch import Tensor, nn

from focalibrate.calibrate import Calibrator
from focalibrate.calibrate.rows import ScoreKind


@final
class CalibratorModule(nn.Module):
    """A fitted calibrator as a module from scores to probabilities; see its class for the maths.

    It has no parameters to train. Its ``state_dict`` holds the calibrator as the text of its JSON
    file (bytes, dtype uint8), so that loading one into another module carries the calibrator over
    exactly. The result has the dtype and device of the scores; half-precision scores are computed
    in float32.

    Runs under ``torch.compile`` and ``torch.export``, with the batch free and, for calibrators
    that were not fitted to a number of classes, the classes too.

    Args:
        calibrator: any calibrator of `focalibrate.calibrate`.
        scores: what the module takes, ``"logits"`` or ``"probs"``. Default: what the calibrator
            was fitted on, logits if that is not known.

    Shape:
        Scores and probabilities ``[..., K]``; -inf marks an impossible class. nan and +inf are
        refused, except under a compiler, which cannot read values.

    Example:
        >>> from focalibrate.calibrate import TemperatureScaling
        >>> module = TemperatureScaling(temperature=2.0).to_torch()
        >>> module(torch.tensor([[2.0, 0.0]]))
        tensor([[0.7311, 0.2689]])
    """

    def __init__(self, calibrator: Calibrator, *, scores: ScoreKind | None = None) -> None:
        super().__init__()
        if not isinstance(calibrator, Calibrator):
            raise TypeError(
                "`calibrator` must be a calibrator of focalibrate.calibrate, got "
                f"{type(calibrator).__name__}. Fit one: `fit_temperature(logits, labels)`."
            )
        kind = scores or calibrator.fitted_on or "logits"
        self.calibrator = _prepared(replace(calibrator, fitted_on=kind))

    def log_probs(self, scores: Tensor) -> Tensor:
        """Return calibrated log-probabilities, of the shape and dtype of `scores`."""
        log_probs: Tensor = self.calibrator.log_probs(**self._argument(scores))
        return log_probs

    def forward(self, scores: Tensor) -> Tensor:
        """Return calibrated probabilities, of the shape and dtype of `scores`."""
        probs: Tensor = self.calibrator.probs(**self._argument(scores))
        return probs

    def _argument(self, scores: Tensor) -> dict[str, Tensor]:
        return {self.calibrator.fitted_on or "logits": scores}

    def get_extra_state(self) -> Tensor:
        """Return the calibrator as JSON, in bytes: a tensor, which every format can store."""
        text = json.dumps(self.calibrator.to_dict(), allow_nan=False)
        return torch.tensor(list(text.encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the calibrator that `get_extra_state` returned."""
        document = json.loads(bytes(state.cpu().tolist()).decode())
        self.calibrator = _prepared(Calibrator.from_dict(document))

    def extra_repr(self) -> str:
        """Return the calibrator in words."""
        return self.calibrator.describe()


def _prepared(calibrator: Calibrator) -> Calibrator:
    """Return the calibrator with everything computed that it computes once.

    Compilers cannot trace that: `functools.cached_property` holds a lock before Python 3.12.
    """
    calibrator.probs(torch.zeros(1, calibrator.n_classes or 2, device="cpu"))
    return calibrator


@final
class CalibratedModel(nn.Module):
    """A model followed by its calibrator: ``calibrator(model(...))``.

    Args:
        model: returns one tensor ``[..., K]``: logits, or probabilities if the calibrator was
            fitted on them.
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
        scores = self.model(*args, **kwargs)
        if not isinstance(scores, Tensor):
            raise TypeError(
                f"`model` must return one tensor of scores, got {type(scores).__name__}. Wrap it "
                "in a module that returns its scores."
            )
        probs: Tensor = self.calibrator(scores)
        return probs
