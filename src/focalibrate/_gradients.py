"""Gradients of a loss that somebody else wrote, whatever library it is written for."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import is_jax_array
from numpy.typing import NDArray

from focalibrate._array import Array, Floats, is_torch_array, to_numpy

RowLoss: TypeAlias = Callable[[Array, Array], Array]
"""(scores ``[N, K]`` or ``[N]``, class indices ``[N]``) to one loss per row ``[N]``."""
GradientField: TypeAlias = Callable[[Floats, int], Floats]
"""(scores, label that every row has) to the gradient of each row's loss, shape of the scores."""
ValueField: TypeAlias = Callable[[Floats, int], Floats]
"""(scores, label that every row has) to the loss of each row ``[N]``."""

COMPLEX_STEP = 1e-150
BLOCK = 1 << 14
"""Scores that a loss written for NumPy gets at once: what fits a cache takes half the time."""
AGREEMENT = 1e-5
"""Relative difference to central differences from which a complex step is not believed."""
STEP = 1e-3


def gradient_field(loss: RowLoss, like: Array) -> GradientField:
    """Return the gradient of `loss` in the scores, by the means of the library of `like`.

    torch and JAX arrays are differentiated by autograd. For NumPy, the complex step is exact to
    rounding if the loss is analytic, as sums, products, ``exp`` and ``log`` are. Where a loss
    refuses complex numbers or takes absolute values, five-point differences replace it; they are
    good to about ten digits.
    """
    if is_torch_array(like):
        return _torch_field(loss, like)
    if is_jax_array(like):
        return _jax_field(loss)
    return _numpy_field(loss)


def value_field(loss: RowLoss, like: Array) -> ValueField | None:
    """Return `loss` by label where its values are cheaper than its gradient: for NumPy only."""
    if is_torch_array(like) or is_jax_array(like):
        return None
    return lambda z, label: np.asarray(_by_row(loss(z, _labels(z, label)), len(z)))


def row_blocks(n_rows: int, n_classes: int) -> Iterator[slice]:
    """Yield slices of rows whose scores fit a cache."""
    step = max(1, BLOCK // n_classes)
    for start in range(0, n_rows, step):
        yield slice(start, start + step)


def _labels(z: Floats, label: int) -> NDArray[np.int64]:
    return np.full(z.shape[0], label, dtype=np.int64)


def _by_row(losses: Any, n_rows: int) -> Any:
    """Return `losses`; a mean would mix the rows, and its class weights would cancel."""
    shape = tuple(np.shape(losses))
    if shape != (n_rows,):
        raise ValueError(
            f"`loss` must return one loss per row, shape ({n_rows},), got {shape}. Take off the "
            "mean or sum: `reduction='none'` in torch."
        )
    return losses


def _torch_field(loss: RowLoss, like: Array) -> GradientField:
    import torch

    own = deepcopy(loss).double() if isinstance(loss, torch.nn.Module) else loss

    def field(z: Floats, label: int) -> Floats:
        scores = torch.tensor(z, dtype=torch.float64, device=like.device, requires_grad=True)
        labels = torch.full(z.shape[:1], label, device=like.device)
        with torch.enable_grad():
            total = _by_row(own(scores, labels), len(z)).sum()
            (found,) = torch.autograd.grad(total, scores)
        return to_numpy(found)

    return field


def _jax_field(loss: RowLoss) -> GradientField:
    import jax
    import jax.experimental

    home: Any = jax if hasattr(jax, "enable_x64") else jax.experimental  # before version 0.8

    def field(z: Floats, label: int) -> Floats:
        # float32, the default, has too few digits to tell a minimum from a saddle.
        with home.enable_x64(True):
            labels = jax.numpy.asarray(_labels(z, label))
            slope = jax.grad(lambda scores: _by_row(loss(scores, labels), len(z)).sum())
            return np.asarray(slope(jax.numpy.asarray(z)), dtype=np.float64)

    return field


def _numpy_field(loss: RowLoss) -> GradientField:
    def losses(x: Any, label: int) -> Any:
        return _by_row(loss(x, _labels(x, label)), len(x))

    def by_complex_step(z: Floats, label: int) -> Floats:
        return _along(z, lambda x: losses(x, label).imag / COMPLEX_STEP, 1j * COMPLEX_STEP)

    def by_differences(z: Floats, label: int) -> Floats:
        def central(width: float) -> Floats:
            up, down = (_along(z, lambda x: losses(x, label), h) for h in (width, -width))
            return (up - down) / (2.0 * width)

        return (4.0 * central(STEP) - central(2.0 * STEP)) / 3.0

    def field(z: Floats, label: int) -> Floats:
        few = z[:2]
        near = by_differences(few, label)
        try:
            is_analytic = np.allclose(
                by_complex_step(few, label), near, rtol=AGREEMENT, atol=AGREEMENT
            )
        except (TypeError, ValueError, AttributeError):
            is_analytic = False
        slope = by_complex_step if is_analytic else by_differences
        found = np.empty_like(z)
        for part in row_blocks(len(z), max(1, z[:1].size)):
            found[part] = slope(z[part], label)
        return found

    return field


def _along(z: Floats, of: Callable[[Any], Any], step: complex) -> Floats:
    """Return `of` the scores with `step` added to one column after the other, ``[N, K]``."""
    found = np.empty_like(z)
    if z.ndim == 1:
        return np.asarray(of(z + step), dtype=np.float64)
    for k in range(z.shape[1]):
        moved = z.astype(type(step) if isinstance(step, complex) else np.float64)
        moved[:, k] += step
        found[:, k] = of(moved)
    return found
