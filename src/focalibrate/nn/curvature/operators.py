"""Hessian and Gauss-Newton matrix of a model's loss, by their products with vectors."""

from typing import Any, final

import torch
from torch import Tensor
from torch.func import grad, jvp, vjp, vmap

from focalibrate.nn.curvature._network import Parameters, batch_total, call_model
from focalibrate.nn.curvature._trace import second_products
from focalibrate.nn.curvature.matrix import LossMatrix


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
        damping: :math:`\delta`, added to the diagonal.

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
