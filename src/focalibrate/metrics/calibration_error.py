"""Calibration errors of the top label on equally wide bins: ECE and MCE."""

from focalibrate._array import Array
from focalibrate.metrics.reliability_table import Norm, ReliabilityTable


def ece(
    probs: Array,
    labels: Array,
    *,
    n_bins: int = 15,
    norm: Norm = "l1",
    sample_weight: Array | None = None,
    binary: bool = False,
) -> float:
    r"""Expected calibration error of the top label.

    .. math:: \mathrm{ECE} = \sum_{b=1}^{B} \frac{n_b}{N}
              \left|\mathrm{acc}_b - \mathrm{conf}_b\right|

    over bins ``((b-1)/B, b/B]`` of the confidence (the largest probability of a row); a
    confidence of 0 falls in the first bin and 1.0 in the last. Norm ``"l2"`` is
    :math:`\sqrt{\sum_b \frac{n_b}{N}(\mathrm{acc}_b - \mathrm{conf}_b)^2}`, norm ``"max"``
    is `mce`. For data in pieces use `ReliabilityTable`: ``(first + second).ece()``.

    Args:
        probs: probabilities ``[..., K]``, any array library; ``[N]`` with `binary`.
        labels: class indices ``[...]``.
        n_bins: number of bins ``B``.
        norm: ``"l1"``, ``"l2"`` or ``"max"``.
        sample_weight: weights ``[...]``; whole numbers count repeated rows.
        binary: `probs` are probabilities of class 1, the same as ``[1 - p, p]``.

    Returns:
        A float in ``[0, 1]``.

    Numerics:
        Float64 sums; each confidence is compared with the float64 edges at its exact value.

    Example:
        >>> import numpy as np
        >>> round(ece(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0])), 4)
        0.45

    References:
        Naeini, Cooper, Hauskrecht (2015), *Obtaining Well Calibrated Probabilities Using
        Bayesian Binning*; Guo et al. (2017), *On Calibration of Modern Neural Networks*.
    """
    table = ReliabilityTable.of(
        probs, labels, n_bins=n_bins, sample_weight=sample_weight, binary=binary
    )
    return table.ece(norm=norm)


def mce(
    probs: Array,
    labels: Array,
    *,
    n_bins: int = 15,
    sample_weight: Array | None = None,
    binary: bool = False,
) -> float:
    r"""Maximum calibration error of the top label.

    .. math:: \mathrm{MCE} = \max_{b : n_b > 0} \left|\mathrm{acc}_b - \mathrm{conf}_b\right|

    Bins, arguments and numerics are those of `ece`; empty bins do not count.

    Args:
        probs: probabilities ``[..., K]``, any array library; ``[N]`` with `binary`.
        labels: class indices ``[...]``.
        n_bins: number of bins ``B``.
        sample_weight: weights ``[...]``; whole numbers count repeated rows.
        binary: `probs` are probabilities of class 1, the same as ``[1 - p, p]``.

    Returns:
        A float in ``[0, 1]``.

    Example:
        >>> import numpy as np
        >>> round(mce(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0])), 4)
        0.8

    References:
        Guo et al. (2017), *On Calibration of Modern Neural Networks*.
    """
    table = ReliabilityTable.of(
        probs, labels, n_bins=n_bins, sample_weight=sample_weight, binary=binary
    )
    return table.mce()
