"""Maximum mean calibration error of a batch."""

from focalibrate._array import Array, namespace
from focalibrate._check import check_positive
from focalibrate._stable import log_simplex
from focalibrate.losses.softmax import LossInput, examples


def mmce(
    logits: Array, labels: Array, *, kernel_width: float = 0.4, binary: bool = False
) -> Array:
    r"""Kernel calibration error of a batch.

    .. math:: \mathrm{MMCE}^2 = \frac1{N^2}\sum_{ij} (c_i-r_i)(c_j-r_j)\,
              e^{-|r_i-r_j|/0.4}

    with confidence :math:`r_i=\max v` and correctness :math:`c_i`. To train, add a multiple to
    cross-entropy (2 for images, 8 for text; `focalibrate.nn.MMCELoss`).

    Args:
        logits: real array, ``[N, K]``.
        labels: class indices ``[N]``.
        kernel_width: scale of the Laplacian kernel.
        binary: take `logits` as ``[N]`` log-odds of class 1.

    Returns:
        One number per batch (0-d array), dtype of `logits`: the root of :math:`\mathrm{MMCE}^2`.

    Numerics:
        The root has no derivative at 0: below ``sqrt(tiny)`` of the dtype (1e-19 in float32),
        where the sum is rounding noise, value and derivatives are 0.

    Example:
        >>> import numpy as np
        >>> logits = np.log([[0.8, 0.2], [0.8, 0.2]])
        >>> round(float(mmce(logits, np.array([0, 1]))), 4)
        0.3

    References:
        Kumar et al. (2018), Eq. 4 and 6.
    """
    given, r, gap = _confidence_gap(logits, labels, kernel_width, binary)
    xp = namespace(r)
    squared = xp.mean(gap[:, None] * gap[None, :] * _kernel(r, kernel_width))
    return xp.astype(_safe_root(squared), given.dtype)


def weighted_mmce(
    logits: Array, labels: Array, *, kernel_width: float = 0.4, binary: bool = False
) -> Array:
    r"""Kernel calibration error of a batch, with equal weight for right and wrong examples.

    .. math:: \mathrm{MMCE}_w^2 = \overline{(1-r)(1-r')k}\Big|_{cc}
              + \overline{r\,r'k}\Big|_{ii} - 2\,\overline{(1-r)r'k}\Big|_{ci}

    Each mean is over its own pairs of correct (c) and incorrect (i) examples; 0 where a group
    is empty. Arguments, result and numerics as for `mmce`.

    Example:
        >>> import numpy as np
        >>> logits = np.log([[0.8, 0.2], [0.8, 0.2]])
        >>> round(float(weighted_mmce(logits, np.array([0, 1]))), 4)
        0.6

    References:
        Kumar et al. (2018), Sec. 3.2.
    """
    given, r, gap = _confidence_gap(logits, labels, kernel_width, binary)
    xp = namespace(r)
    is_right = xp.astype(gap >= 0, r.dtype)  # the gap is 1 - r or -r, and r > 0
    pairs = gap[:, None] * gap[None, :] * _kernel(r, kernel_width)
    n_right, n_wrong = xp.sum(is_right), xp.sum(1.0 - is_right)
    one = xp.ones_like(n_right)
    per_right = is_right / xp.where(n_right > 0, n_right, one)
    per_wrong = (1.0 - is_right) / xp.where(n_wrong > 0, n_wrong, one)
    share = per_right + per_wrong  # the gap carries the minus sign of mixed pairs
    squared = xp.sum(share[:, None] * share[None, :] * pairs)
    return xp.astype(_safe_root(squared), given.dtype)


def _confidence_gap(
    logits: Array, labels: Array, kernel_width: float, binary: bool
) -> tuple[LossInput, Array, Array]:
    """Return the checked input, the confidence r and c - r of each example."""
    check_positive(kernel_width, name="kernel_width")
    given = examples(logits, labels, binary=binary)
    if 0 in given.logits.shape:
        raise ValueError(
            f"`logits` must not be empty, got shape {tuple(logits.shape)}: a kernel error is of a "
            "batch. `focalibrate.nn.MMCELoss` gives nan, as torch's losses do."
        )
    if given.targets is not None or given.logits.ndim != 2:
        raise ValueError(
            f"`logits` must be [N, K] with class indices [N], got {tuple(logits.shape)} and "
            f"{tuple(labels.shape)}."
        )
    x, xp = given.logits, namespace(given.logits)
    simplex = log_simplex(x)
    predicted = xp.argmax(x, axis=-1)
    at = xp.expand_dims(predicted, axis=-1)
    r = xp.exp(xp.take_along_axis(simplex.log_v, at, axis=-1)[:, 0])
    rest = xp.exp(xp.take_along_axis(simplex.log_rest, at, axis=-1)[:, 0])
    return given, r, xp.where(predicted == given.labels, rest, -r)


def _kernel(r: Array, width: float) -> Array:
    xp = namespace(r)
    return xp.exp(-xp.abs(r[:, None] - r[None, :]) / width)


def _safe_root(squared: Array) -> Array:
    xp = namespace(squared)
    is_some = squared > xp.finfo(squared.dtype).smallest_normal ** 0.5
    root = xp.sqrt(xp.where(is_some, squared, xp.ones_like(squared)))
    return xp.where(is_some, root, xp.zeros_like(squared))
