"""The loss of a recipe, as a loop uses it."""

from typing import Any, final

import torch
from torch import Tensor, nn

from focalibrate.nn import BrierLoss, FocalLoss, MMCELoss
from focalibrate_papers.recipe import Recipe


@final
class Objective:
    """The loss a recipe names; its exponent may change from epoch to epoch."""

    def __init__(self, recipe: Recipe) -> None:
        self.module = _module(recipe)
        self._n_epochs = recipe.epochs

    def total(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the sum of the losses; of a penalised batch, its loss times its size."""
        loss: Tensor = self.module(logits, labels)
        return loss * len(labels) if isinstance(self.module, MMCELoss) else loss

    def start_epoch(self, epoch: int) -> None:
        """Move a scheduled exponent to `epoch`, counted from 0."""
        if isinstance(self.module, FocalLoss):
            self.module.set_epoch(epoch, self._n_epochs)

    def end_epoch(self, logits: Tensor, labels: Tensor) -> None:
        """Adapt AdaFocal's exponents to the logits of the validation examples."""
        if isinstance(self.module, FocalLoss):
            self.module.update(logits, labels)

    def state_dict(self) -> dict[str, Any]:
        """Return the state to save: AdaFocal's exponents."""
        return self.module.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what was saved."""
        self.module.load_state_dict(state)


def _module(recipe: Recipe) -> nn.Module:
    if recipe.loss == "focal":
        return FocalLoss(recipe.gamma, label_smoothing=recipe.label_smoothing, reduction="sum")
    if recipe.loss == "brier":
        return BrierLoss(label_smoothing=recipe.label_smoothing, reduction="sum")
    return MMCELoss(recipe.mmce_weight)


def logit_gradients(objective: Objective, logits: Tensor, labels: Tensor) -> Tensor:
    r"""Return the gradient of each example's loss with respect to its logits, ``[N, K]``.

    For focal loss this is :math:`\varphi_\gamma(p)\,(v - e_y)`.
    """
    with torch.enable_grad():
        given = logits.detach().float().requires_grad_()
        return torch.autograd.grad(objective.total(given, labels), given)[0]
