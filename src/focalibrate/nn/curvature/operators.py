"""Hessian and Gauss-Newton matrix of a model's loss, by their products with vectors."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import grad, jvp, vjp, vmap

from focalibrate._check import check_count
from focalibrate.curvature import TraceEstimate, hutchinson_trace
from focalibrate.nn._inputs import evaluating, to_device
from focalibrate.nn.curvature._network import (
    Batches,
    Loss,
    NotByExampleError,
    Parameters,
    SplitTrace,
    batch_count,
    batch_total,
    call_model,
    check_batches,
    load_forward_mode,
    second_products,
    select_parameters,
)


class LossMatrix(ABC):
    r"""A symmetric matrix over the parameters of a model: the mean over a loader.

    .. math:: A = \frac1N\sum_{i=1}^N A_i

    See `HessianOperator` for the arguments.
    """

    _has_model_curvature: ClassVar[bool]
    """whether the matrix includes second derivatives of the logits in the parameters"""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        batches: Batches,
        *,
        parameters: Sequence[str] | None = None,
    ) -> None:
        check_batches(batches)
        load_forward_mode()
        self.model = model
        self.loss = loss
        self.batches = batches
        self._parameters = select_parameters(model, parameters)

    @property
    def parameter_names(self) -> list[str]:
        """Names of the parameters, in the order of the rows."""
        return list(self._parameters)

    @property
    def size(self) -> int:
        """D, the number of parameters."""
        return sum(parameter.numel() for parameter in self._parameters.values())

    def matvec(self, vector: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the product with a vector ``[D]``, in one pass over the batches."""
        return self.block_matvec(np.asarray(vector)[:, None])[:, 0]

    def block_matvec(self, vectors: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the products with the columns of ``[D, B]``, in one pass over the batches."""
        V = np.asarray(vectors)
        if V.ndim != 2 or V.shape[0] != self.size:
            raise ValueError(
                f"`vectors` must have {self.size} rows, one per parameter, got shape "
                f"{list(V.shape)}."
            )
        tangents = self._as_parameters(V)
        return self._mean_over_batches(lambda p, x, y: self._product(p, x, y, tangents)).T

    def loss_value(self) -> float:
        """Return the mean loss over the batches."""
        with torch.no_grad():
            mean = self._mean_over_batches(lambda p, x, y: {"": self._total(p, x, y)}, 0)
        return float(mean[0])

    def gradient(self) -> NDArray[np.float64]:
        """Return the gradient ``[D]`` of the mean loss over the batches."""
        return self._mean_over_batches(lambda p, x, y: grad(self._total)(p, x, y), 0)

    def trace(self, *, n_vectors: int = 20, seed: int = 0) -> TraceEstimate:
        r"""Return the trace, using the structure of a model's curvature.

        .. math:: \operatorname{Tr} H = \frac1N\sum_n\operatorname{Tr}
                  J_n^\top \nabla^2_z\ell_n\, J_n + \frac1N\sum_l
                  \operatorname{Tr}\nabla^2_{\theta_l}\sum_n \langle g_n, z_n\rangle,
                  \qquad g_n = \nabla_z\ell_n \text{ held fixed}

        The first sum, of the Gauss-Newton matrix, is computed per example: over the eigenvectors
        of :math:`\nabla^2_z\ell_n` if `n_vectors` is enough for them (K - 1 for a softmax loss),
        and is then exact, else over random mixtures of them. The second, for the Hessian only, is
        Hutchinson's estimate with separate vectors for each layer :math:`l`; layers in which the
        logits are piecewise linear, as all are in a ReLU network that uses each parameter once, do
        not contribute. Both are unbiased. `focalibrate.curvature.hutchinson_trace` needs more
        passes, because its vectors mix all layers and all examples.

        Args:
            n_vectors: passes over the batches, ``>= 2``. A third is for the examples, the rest for
                the layers, at least 2 each; all are for the examples if no layer is curved.
            seed: seed of the random vectors.

        Returns:
            Trace; standard error, from the spread of independent terms (0 if there are none: exact
            to rounding); passes used. If batches cannot be split into examples, the result is that
            of `hutchinson_trace`, and ``method`` gives the reason: a loss of the batch as a whole,
            inputs that are not tensors of one row per example, logits that are not ``[N, K]`` with
            K <= 256, a model that `torch.func.vmap` cannot run.

        Numerics:
            Which layers are curved is tested on the first 64 examples: for the others, the second
            derivative along a random direction is exactly 0. Parts in the dtype of the parameters,
            sums in float64. Memory: gradients of 4 million numbers at a time, or of one example.
        """
        check_count(n_vectors, name="n_vectors", minimum=2)
        try:
            return self._split_trace(n_vectors, seed)
        except NotByExampleError as reason:
            estimate = hutchinson_trace(
                self.matvec,
                self.size,
                n_vectors=n_vectors,
                seed=seed,
                block_matvec=self.block_matvec,
            )
            return replace(estimate, method=f"Hutchinson, as {reason}")

    def _split_trace(self, n_vectors: int, seed: int) -> TraceEstimate:
        split = SplitTrace(
            self.model,
            self.loss,
            self._parameters,
            n_vectors=n_vectors,
            rng=torch.Generator().manual_seed(seed),
            with_model=self._has_model_curvature,
        )
        count = 0.0
        with evaluating(self.model):
            for inputs, labels, weight in self._batches_that_count():
                count += weight
                split.add(inputs, labels)
        return split.estimate(count)

    def _batches_that_count(self) -> Iterator[tuple[Any, Tensor, float]]:
        """Yield inputs, labels and the divisor of a mean over each batch."""
        device = next(iter(self._parameters.values())).device
        is_empty = True
        for given, targets in self.batches:
            inputs, labels = to_device(given, device), targets.to(device)
            weight = batch_count(self.loss, labels)
            if weight > 0.0:  # else all are ignored: a mean over no examples is nan
                is_empty = False
                yield inputs, labels, weight
        if is_empty:
            raise ValueError("`batches` must hold an example that counts, found none.")

    @abstractmethod
    def _product(
        self, parameters: Parameters, inputs: Any, labels: Tensor, tangents: Parameters
    ) -> Parameters:
        """Return the products of a batch, summed over its examples, with ``[B, ...]`` tangents."""

    def _total(self, parameters: Parameters, inputs: Any, labels: Tensor) -> Tensor:
        """Return the sum of the losses of a batch."""
        return batch_total(self.loss, call_model(self.model, parameters, inputs), labels)

    def _as_parameters(self, vectors: NDArray[np.floating]) -> Parameters:
        rows = torch.from_numpy(np.ascontiguousarray(vectors.T))
        parts = torch.split(rows, [p.numel() for p in self._parameters.values()], dim=1)
        return {
            name: part.reshape(-1, *p.shape).to(p)
            for (name, p), part in zip(self._parameters.items(), parts, strict=True)
        }

    def _mean_over_batches(self, function: Any, n_block: int = 1) -> NDArray[np.float64]:
        """Return the sum of `function` over batches / the count, ``[..., D]`` in float64."""
        parameters = {name: p.detach() for name, p in self._parameters.items()}
        total: Tensor | float = 0.0
        count = 0.0
        with evaluating(self.model):
            for inputs, labels, weight in self._batches_that_count():
                count += weight
                parts = function(parameters, inputs, labels).values()
                flat = torch.cat([part.flatten(start_dim=n_block) for part in parts], dim=-1)
                total = total + flat.detach().double()
        mean: NDArray[np.float64] = (torch.as_tensor(total) / count).cpu().numpy()
        return mean


@final
class HessianOperator(LossMatrix):
    r"""Hessian of the mean loss of a model over a whole loader.

    .. math:: H = \nabla^2_\theta\, \frac1N\sum_{i=1}^N \ell(f_\theta(x_i), y_i)

    The functions of `focalibrate.curvature` take its `matvec`, `block_matvec` and `size`. A
    product is one pass over the loader; a block of vectors shares the pass and all computation
    that does not depend on the vectors.

    Args:
        model: module that maps the inputs of a batch to logits; a tuple or dict of inputs is
            spread over its arguments. Its parameters are read at each product.
        loss: ``(logits, labels) -> loss``, twice differentiable: a module of `focalibrate.nn`,
            `torch.nn.functional.cross_entropy`, any function. A single number is taken as the mean
            over the batch, unless ``loss.reduction`` is ``"sum"``; batches of unequal size are
            weighted as in the loss's own mean over all examples, including class weights and
            ignored labels. A loss of the batch as a whole, such as `MMCELoss`, is averaged by
            batch size.
        batches: pairs of inputs and labels, the same at each reading: a list or a `DataLoader`.
        parameters: names of layers or parameters. Default: all that require a gradient.

    Numerics:
        The gradient is differentiated by a second backward pass, one for all vectors of a block
        (`vmap`). Forward-over-reverse gives the same numbers but takes longer on a CPU (`make
        bench`). Products in the dtype of the parameters, float32 or float64; sums over batches in
        float64. The model is put into eval mode: batch-norm uses its running statistics and
        dropout is off. Otherwise the Hessian of an example would depend on the other examples of
        its batch, or on chance.

    Example:
        >>> from torch import nn
        >>> from focalibrate.curvature import lambda_max
        >>> from focalibrate.nn import FocalLoss
        >>> model = nn.Linear(2, 3)
        >>> batches = [(torch.ones(4, 2), torch.tensor([0, 1, 2, 0]))]
        >>> hessian = HessianOperator(model, FocalLoss(1.0), batches, parameters=["weight"])
        >>> hessian.size, lambda_max(hessian.matvec, hessian.size).converged
        (6, True)
        >>> hessian.trace().standard_error
        0.0

    References:
        Pearlmutter (1994), *Fast exact multiplication by the Hessian*.
    """

    _has_model_curvature = True

    def _product(
        self, parameters: Parameters, inputs: Any, labels: Tensor, tangents: Parameters
    ) -> Parameters:
        n_vectors = len(next(iter(tangents.values())))
        is_block = n_vectors > 1  # `vmap` over one vector only costs time
        with torch.enable_grad():
            # The model's own, not `parameters`: swapping them takes longer than the pass.
            leaves = list(self._parameters.values())
            total = self._total({}, inputs, labels)
            slopes = torch.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
            vectors = [v if is_block else v[0] for v in tangents.values()]
            products = second_products(slopes, leaves, vectors, is_block=is_block)
        return {
            name: torch.zeros_like(v) if x is None else x.reshape(v.shape)
            for (name, v), x in zip(tangents.items(), products, strict=True)
        }


@final
class GGNOperator(LossMatrix):
    r"""Generalised Gauss-Newton matrix of the mean loss of a model over a whole loader.

    .. math:: G = \frac1N\sum_{i=1}^N J_i^\top \,\nabla^2_z\ell(z_i, y_i)\, J_i,
              \qquad z_i = f_\theta(x_i),\quad J_i = \partial z_i/\partial\theta

    The Hessian without the curvature of the model: the two are equal if the logits are linear in
    the parameters. Positive semi-definite if the loss is convex in the logits, which the focal
    loss is not. Arguments and numerics as for `HessianOperator`; the model must return one tensor.
    Losses of regression, `torch.nn.MSELoss` and `HuberLoss`, are taken too.

    Example:
        >>> from torch import nn
        >>> from torch.nn.functional import cross_entropy
        >>> batches = [(torch.ones(4, 2), torch.tensor([0, 1, 2, 0]))]
        >>> GGNOperator(nn.Linear(2, 3), cross_entropy, batches).size
        9

    References:
        Schraudolph (2002), *Fast curvature matrix-vector products*.
    """

    _has_model_curvature = False

    def _product(
        self, parameters: Parameters, inputs: Any, labels: Tensor, tangents: Parameters
    ) -> Parameters:
        def logits_of(p: Parameters) -> Tensor:
            logits: Tensor = call_model(self.model, p, inputs)
            return logits

        logits, pull_back = vjp(logits_of, parameters)[:2]
        # The Hessian in the logits is symmetric. Its product by a second backward pass: torch has
        # no forward mode for the gradients of the squared and of Huber's loss.
        slope = grad(lambda z: batch_total(self.loss, z, labels))
        curve = vjp(slope, logits)[1]

        def product(v: Parameters) -> Parameters:
            push = jvp(logits_of, (parameters,), (v,))[1]
            (pulled,) = pull_back(*curve(push))
            return pulled  # type: ignore[no-any-return]

        products: Parameters = vmap(product)(tangents)
        return products
