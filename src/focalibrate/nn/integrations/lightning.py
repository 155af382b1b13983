"""Calibration in a Lightning `Trainer`: metrics logged, exponents scheduled and adapted."""

from collections.abc import Mapping
from typing import Any

from focalibrate.nn.focal import FocalLoss
from focalibrate.nn.monitor import CalibrationMonitor

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "`focalibrate.nn.integrations.lightning` needs Lightning 2. Install it: "
        "`pip install lightning`.",
        name=error.name,
    ) from error


class CalibrationCallback(Callback):  # type: ignore[misc]  # of type Any where it is not installed
    """Logs calibration metrics of every validation, and runs the policies of focal losses.

    ``validation_step`` must return a mapping with the logits and the labels::

        def validation_step(self, batch, batch_idx):
            x, y = batch
            return {"logits": self(x), "labels": y}

        Trainer(callbacks=[CalibrationCallback()])

    Every `FocalLoss` among the submodules of the model gets the epoch (``"fls-532"``) and,
    after each validation while fitting, what it showed (``"adafocal"``); its state is saved with
    the model's. Validate once per epoch, as is the default, for AdaFocal as published. All ranks
    are merged. The sanity check before training is ignored.

    Args:
        monitor: collects the outputs. Default: a `CalibrationMonitor` with 15 bins.
        prefix: prefix of the names logged: ``val_ece``, ``val_nll`` ...
        logits: key of the logits in what ``validation_step`` returns.
        labels: key of the class indices.
        dataloader: which validation loader to watch, where there are several.

    Attributes:
        latest: the monitor of the last validation, all ranks together; None before. Its `fit`
            gives a calibrator.
    """

    def __init__(
        self,
        monitor: CalibrationMonitor | None = None,
        *,
        prefix: str = "val_",
        logits: str = "logits",
        labels: str = "labels",
        dataloader: int = 0,
    ) -> None:
        self.monitor = CalibrationMonitor() if monitor is None else monitor
        self.prefix = prefix
        self.keys = (logits, labels)
        self.dataloader = dataloader
        self.latest: CalibrationMonitor | None = None

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Tell schedules the epoch."""
        for loss in _focal_losses(pl_module):
            loss.set_epoch(trainer.current_epoch, trainer.max_epochs)

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Forget the last validation."""
        self.monitor.reset()

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Collect a batch."""
        if trainer.sanity_checking or dataloader_idx != self.dataloader:
            return
        if not isinstance(outputs, Mapping) or not set(self.keys) <= set(outputs):
            found = sorted(outputs) if isinstance(outputs, Mapping) else type(outputs).__name__
            raise ValueError(
                f"`validation_step` must return a mapping with {self.keys[0]!r} and "
                f"{self.keys[1]!r}, got {found}. Return them, or name yours in "
                "`CalibrationCallback(logits=..., labels=...)`."
            )
        self.monitor.update(*(outputs[key] for key in self.keys))

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the metrics, and adapt the exponents while fitting."""
        if trainer.sanity_checking:
            return
        self.latest = self.monitor.synchronize()
        pl_module.log_dict(self.latest.metrics().as_dict(self.prefix))
        if trainer.state.fn == "fit":
            for loss in _focal_losses(pl_module):
                loss.update_from(self.latest.cells)


def _focal_losses(module: LightningModule) -> list[FocalLoss]:
    return [part for part in module.modules() if isinstance(part, FocalLoss)]
