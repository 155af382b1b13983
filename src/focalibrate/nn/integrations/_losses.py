"""What a training loop tells a focal loss: the epoch before it, validation results after it."""

from collections.abc import Iterable, Iterator

from torch import nn

from focalibrate.losses import ByEpoch
from focalibrate.metrics import Cells
from focalibrate.nn.focal import FocalLoss


def focal_losses(module: nn.Module) -> Iterator[FocalLoss]:
    """Yield the focal losses among the submodules of `module`."""
    for part in module.modules():
        if isinstance(part, FocalLoss):
            yield part


def begin_epoch(losses: Iterable[FocalLoss], epoch: int, n_epochs: int | None) -> None:
    """Move scheduled exponents to `epoch`, counted from 0; raise if the run has no known end."""
    for loss in losses:
        if isinstance(loss.gamma, ByEpoch) and (n_epochs is None or n_epochs <= 0):
            raise ValueError(
                f"a schedule of `gamma` needs the number of epochs, got {n_epochs}. Set it in the "
                "trainer (`max_epochs`, `num_train_epochs`) instead of a number of steps."
            )
        loss.set_epoch(epoch, n_epochs or 0)


def end_epoch(losses: Iterable[FocalLoss], cells: Cells) -> None:
    """Adapt exponents that follow validation to its `cells`."""
    for loss in losses:
        loss.update_from(cells)
