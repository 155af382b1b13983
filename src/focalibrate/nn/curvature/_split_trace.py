"""Trace of a loss's Hessian in two parts: the loss by example, the model by layer."""

from typing import Any, final

import torch
from torch import Tensor, nn

from focalibrate.curvature import TraceEstimate
from focalibrate.nn.curvature._by_example import (
    check_rows,
    factor,
    first_rows,
    logit_curvature,
    squared_gradients,
)
from focalibrate.nn.curvature._by_layer import (
    LayerParameters,
    curved_layers,
    layer_terms,
    layers_of,
    share_out,
)
from focalibrate.nn.curvature._network import Loss, Parameters, call_model

PILOT = 64
"""Number of examples on which layers are tested for curvature."""


@final
class SplitTrace:
    r"""Sums over batches, from which the trace and its standard error follow.

    .. math:: \operatorname{Tr} H = \sum_n \sum_q w_{nq}\|J_n^\top c_{nq}\|^2
              + \sum_l \operatorname{Tr}\nabla^2_{\theta_l} \sum_n \langle g_n, z_n\rangle

    with :math:`\sum_q w_q cc^\top` the Hessian and :math:`g` the gradient of the loss in the
    logits. The Hessian's blocks between layers cause most of the variance of Hutchinson's estimate
    but do not contribute to the trace: each layer gets its own random vectors.

    Args:
        model: in eval mode.
        loss: as for `HessianOperator`.
        parameters: by name.
        n_vectors: M, passes for examples and layers together.
        rng: generator of the random signs.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        parameters: Parameters,
        *,
        n_vectors: int,
        rng: torch.Generator,
    ) -> None:
        self._model, self._loss, self._parameters = model, loss, parameters
        self._n_vectors, self._rng = n_vectors, rng
        self._curved: list[LayerParameters] | None = None
        self._value = self._variance = 0.0
        self._n_passes = {"examples": 0, "layers": 0}

    def add(self, inputs: Any, labels: Tensor, *, with_model: bool) -> None:
        """Add a batch, with or without the model's own second derivatives."""
        check_rows(inputs, labels)
        with torch.set_grad_enabled(with_model and self._curved != []):
            logits = call_model(self._model, {}, inputs)
        slope, hessian = logit_curvature(self._loss, logits, labels, self._rng)
        if self._curved is None:
            self._curved = self._find_curved(inputs) if with_model else []
        n_examples = max(2, self._n_vectors // 3) if self._curved else self._n_vectors
        self._add_examples(inputs, logits.detach(), hessian, n_vectors=n_examples)
        if self._curved:
            n_layers = max(2, self._n_vectors - n_examples)
            with torch.enable_grad():
                self._add_layers((logits * slope).sum(), n_vectors=n_layers)

    def estimate(self, count: float) -> TraceEstimate:
        """Return the trace of the mean over `count` examples."""
        return TraceEstimate(
            self._value / count,
            self._variance**0.5 / count,
            sum(self._n_passes.values()),
            method="by example and layer",
        )

    def _find_curved(self, inputs: Any) -> list[LayerParameters]:
        layers = layers_of(self._parameters)
        return curved_layers(self._model, layers, first_rows(inputs, PILOT), self._rng)

    def _add_examples(
        self, inputs: Any, logits: Tensor, hessian: Tensor, *, n_vectors: int
    ) -> None:
        factors = factor(hessian, n_vectors, self._rng)
        own = {name: p.detach() for name, p in self._parameters.items()}
        squares = squared_gradients(self._model, own, inputs, logits, factors.vectors)
        terms = squares * factors.weights
        self._count("examples", terms.shape[1])
        if factors.n_samples:
            self._add_mean(terms.view(len(terms), -1, factors.n_samples).sum(dim=1))
        else:
            self._value += float(terms.sum())

    def _add_layers(self, total: Tensor, *, n_vectors: int) -> None:
        groups, n_each = share_out(self._curved or [], n_vectors)
        self._count("layers", len(groups) * n_each)
        self._add_mean(layer_terms(total, groups, n_each, self._rng))

    def _add_mean(self, terms: Tensor) -> None:
        """Add the sum over rows of the means of ``[R, M]`` independent terms, M >= 2."""
        self._value += float(terms.mean(dim=1).sum())
        self._variance += float(terms.var(dim=1).sum()) / terms.shape[1]

    def _count(self, part: str, n_passes: int) -> None:
        self._n_passes[part] = max(self._n_passes[part], n_passes)
