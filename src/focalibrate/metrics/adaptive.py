"""Calibration errors of the top label on bins of equal mass: AdaECE and its debiased form."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array
from focalibrate._check import check_choice, check_n_bins, is_whole
from focalibrate.metrics._rows import read, read_weights, top_label
from focalibrate.metrics.reliability_table import Norm, ReliabilityTable

Bins = Literal["equal-mass", "equal-width"]


def distinct_table(
    confidence: NDArray[np.float64],
    correct: NDArray[np.bool_],
    weights: NDArray[np.float64] | None = None,
) -> ReliabilityTable:
    """Return the table with one cell for each distinct confidence, in ascending order."""
    order = np.argsort(confidence)
    value = confidence[order]
    first = np.flatnonzero(np.diff(value, prepend=-1.0))
    hits = correct[order].astype(np.float64)
    spread = None
    if weights is None:
        count = np.diff(first, append=len(value)).astype(np.float64)
        hits = np.add.reduceat(hits, first)
    else:
        w = weights[order]
        count, hits = np.add.reduceat(w, first), np.add.reduceat(w * hits, first)
        spread = None if is_whole(weights) else np.add.reduceat(w**2, first)
    value = value[first]
    edges = np.concatenate([[0.0], value[:-1], [1.0]])
    return ReliabilityTable(count, count * value, hits, edges, spread)


def adaptive_ece(
    probs: Array,
    labels: Array,
    *,
    n_bins: int = 15,
    norm: Norm = "l1",
    sample_weight: Array | None = None,
    binary: bool = False,
) -> float:
    r"""Adaptive expected calibration error: `ece` over bins of equal mass.

    .. math:: \mathrm{AdaECE} = \sum_{b=1}^{B} \frac{n_b}{N}
              \left|\mathrm{acc}_b - \mathrm{conf}_b\right|,
              \qquad n_b \in \{\lfloor N/B \rfloor, \lceil N/B \rceil\}

    The rows are sorted by confidence and cut into ``B`` bins whose sizes differ by at most
    one, larger ones first; no row is dropped, and bins beyond the number of rows stay
    empty. Rows of equal confidence are interchangeable: each counts with the mean
    correctness of its tie group, so the order of the rows never matters and a model of
    constant confidence scores ``|conf - acc|``. With weights that are not whole the bins
    hold equal shares of the total weight.

    For data in pieces keep a table of fine cells, which can be added, and cut it at the
    end: ``ReliabilityTable.of(..., edges=log_odds_edges()).equal_mass(15).ece()``; see
    `ReliabilityTable.equal_mass` for the error that makes.

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
        Exact to float64 rounding; one sort of the confidences.

    Example:
        >>> import numpy as np
        >>> probs = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
        >>> round(adaptive_ece(probs, np.array([0, 0, 0]), n_bins=2), 4)
        0.1667

    References:
        Nguyen & O'Connor (2015), *Posterior calibration and exploratory analysis for
        natural language processing models*; Mukhoti et al. (2020), *Calibrating Deep
        Neural Networks using Focal Loss*. Edges interpolated from quantiles, as in
        widely used code, drop rows and score a constant confidence 0.
    """
    check_n_bins(n_bins)
    confidence, correct = top_label(*read(probs, labels, binary=binary))
    weights = read_weights(sample_weight, len(confidence))
    return distinct_table(confidence, correct, weights).equal_mass(n_bins).ece(norm=norm)


def debiased_ece(
    probs: Array,
    labels: Array,
    *,
    n_bins: int = 15,
    bins: Bins = "equal-mass",
    sample_weight: Array | None = None,
    binary: bool = False,
) -> float:
    r"""Debiased l2 calibration error of the top label.

    .. math:: \sqrt{\max\Bigl(0, \sum_{b : n_b \ge 2} \frac{n_b}{N} \Bigl[
              (\mathrm{conf}_b - \mathrm{acc}_b)^2
              - \frac{\mathrm{acc}_b(1-\mathrm{acc}_b)}{n_b - 1}\Bigr]\Bigr)}

    The plug-in square of a bin's gap overstates the true one by the variance of the bin's
    accuracy; the subtracted term estimates that variance without bias. A bin with a single
    row allows no such estimate and adds nothing. The square root and the clip at 0 bring
    back a little bias: the sum itself is unbiased for the binned squared error.

    Args:
        probs: probabilities ``[..., K]``, any array library; ``[N]`` with `binary`.
        labels: class indices ``[...]``.
        n_bins: number of bins ``B``.
        bins: ``"equal-mass"`` as in the paper (bins of `adaptive_ece`), or
            ``"equal-width"`` (bins of `ece`).
        sample_weight: weights ``[...]``; whole numbers count repeated rows.
        binary: `probs` are probabilities of class 1, the same as ``[1 - p, p]``.

    Returns:
        A float in ``[0, 1]``; 0 if the gaps are no larger than expected by chance.

    Numerics:
        Float64 sums; one sort of the confidences for equal mass.

    Example:
        >>> import numpy as np
        >>> probs, labels = np.full((10, 2), 0.5), np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 1])
        >>> debiased_ece(probs, labels)  # a gap of 0.1 with a variance of 0.027
        0.0

    References:
        Kumar, Liang, Ma (2019), *Verified Uncertainty Calibration* (the debiased estimator).
    """
    check_choice(bins, ("equal-mass", "equal-width"), name="bins")
    check_n_bins(n_bins)
    if bins == "equal-width":
        table = ReliabilityTable.of(
            probs, labels, n_bins=n_bins, sample_weight=sample_weight, binary=binary
        )
        return table.debiased_ece()
    confidence, correct = top_label(*read(probs, labels, binary=binary))
    weights = read_weights(sample_weight, len(confidence))
    return distinct_table(confidence, correct, weights).equal_mass(n_bins).debiased_ece()
