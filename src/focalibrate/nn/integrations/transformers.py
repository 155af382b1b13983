"""Calibration in the `Trainer` of Hugging Face: the loss, its policies, and metrics."""

from collections.abc import Mapping
from copy import copy
from typing import Any

import torch
from torch import Tensor

from focalibrate.nn.focal import FocalLoss
from focalibrate.nn.monitor import CalibrationMonitor

try:
    from transformers import EvalPrediction, TrainerCallback, TrainerState
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "`focalibrate.nn.integrations.transformers` needs transformers. Install it: "
        "`pip install transformers accelerate`.",
        name=error.name,
    ) from error

STATE_KEY = "focalibrate.FocalLoss"
"""Where in ``trainer_state.json`` the state of the loss is kept."""


class CalibrationCallback(TrainerCallback):  # type: ignore[misc]  # Any where not installed
    """Trains with a focal loss, runs its policy, and reports calibration at every evaluation.

    One object is passed three times::

        calibration = CalibrationCallback(FocalLoss("adafocal"))
        args = TrainingArguments(..., eval_strategy="epoch", batch_eval_metrics=True)
        Trainer(
            model, args, ...,
            callbacks=[calibration],
            compute_loss_func=calibration.compute_loss,
            compute_metrics=calibration.compute_metrics,
        )

    Schedules (``"fls-532"``) get the epoch; AdaFocal gets what each evaluation during
    training showed, so evaluate once per epoch. The state of the loss goes into the checkpoints'
    ``trainer_state.json`` and comes back with ``resume_from_checkpoint``. With
    ``batch_eval_metrics=True`` logits are seen batch by batch and never held together.

    Args:
        criterion: the loss; its `reduction` must be ``"mean"``.
        monitor: collects the outputs. Default: a `CalibrationMonitor` with 15 bins.

    Attributes:
        latest: the monitor of the last evaluation; None before. Its `fit` gives a calibrator.
    """

    def __init__(self, criterion: FocalLoss, *, monitor: CalibrationMonitor | None = None) -> None:
        if criterion.reduction != "mean":
            raise ValueError(
                f"`criterion` must have reduction='mean', got {criterion.reduction!r}. The "
                "trainer averages over accumulated batches itself."
            )
        self.criterion = criterion
        self.monitor = CalibrationMonitor() if monitor is None else monitor
        self.latest: CalibrationMonitor | None = None
        self.is_training = False

    def compute_loss(
        self, outputs: Any, labels: Tensor | None, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        """Return the mean loss; of `num_items_in_batch` labels where batches are accumulated."""
        if labels is None:
            raise ValueError(
                "the batch must have `labels` for the loss, got none. Name the column of class "
                "indices 'labels'."
            )
        logits = outputs["logits"] if isinstance(outputs, Mapping) else outputs[0]
        criterion = self.criterion.to(logits.device)
        if num_items_in_batch is None:
            found: Tensor = criterion(_class_second(logits), labels)
            return found
        # The trainer adds the losses of accumulated batches up: each is to be its share. A batch
        # without labels that count has the share 0 of any loss that is not 0 / 0.
        counted = labels != self.criterion.ignore_index
        loss: Tensor = criterion(_class_second(logits), labels.where(counted.any(), 0))
        return loss * (counted.sum() / num_items_in_batch)

    def compute_metrics(
        self, prediction: EvalPrediction, compute_result: bool = True
    ) -> dict[str, float]:
        """Add logits and labels, of all examples or of a batch; return metrics after the last."""
        logits, labels = (
            torch.as_tensor(x[0] if isinstance(x, tuple) else x)
            for x in (prediction.predictions, prediction.label_ids)
        )
        self.monitor.update(_class_second(logits), labels)
        if not compute_result:
            return {}
        # The trainer has gathered the ranks already: only a copy is needed.
        self.latest = copy(self.monitor)
        self.monitor.reset()
        return self.latest.metrics().as_dict()

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Restore the loss of a resumed run."""
        self.is_training = True
        self.monitor.reset()
        saved = state.stateful_callbacks.get(STATE_KEY)
        if saved is not None:
            # float64 holds a schedule's whole numbers too; each buffer keeps its own dtype.
            tensors = {k: torch.tensor(v, dtype=torch.float64) for k, v in saved.items()}
            self.criterion.load_state_dict(tensors)
        self._record(state)

    def on_epoch_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Tell a schedule the epoch."""
        # A resumed epoch may begin in its middle; a sum of fractions may end just below a whole.
        epoch = min(int((state.epoch or 0.0) + 1e-6), max(0, state.num_train_epochs - 1))
        self.criterion.set_epoch(epoch, state.num_train_epochs)
        self._record(state)

    def on_evaluate(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Adapt the exponents to an evaluation during training."""
        if self.is_training and self.latest is not None:
            self.criterion.update_from(self.latest.cells)
            self._record(state)

    def on_train_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Stop adapting the exponents."""
        self.is_training = False

    def _record(self, state: TrainerState) -> None:
        """Put the loss where the trainer saves it with every checkpoint."""
        tensors = self.criterion.state_dict().items()
        state.stateful_callbacks[STATE_KEY] = {name: x.tolist() for name, x in tensors}


def _class_second(logits: Tensor) -> Tensor:
    """Return logits with classes on axis 1, where models for tokens have them last."""
    return logits.movedim(-1, 1) if logits.ndim > 2 else logits
