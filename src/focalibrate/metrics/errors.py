"""Calibration errors, and the table of all metrics.

Each error is a view of `focalibrate.metrics.cells.Cells`, which also merges data in pieces.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Unpack

import numpy as np

from focalibrate._array import Array, Floats
from focalibrate._check import check_choice, check_n_bins
from focalibrate.metrics.binning import Closed
from focalibrate.metrics.cells import Cells, Norm
from focalibrate.metrics.rows import Event, RowOptions, read_rows_of_event
from focalibrate.metrics.scores import ROWS, brier_score, error_rate, nll
from focalibrate.metrics.smooth import smooth_ece_of_rows

Bins = Literal["equal-mass", "equal-width"]
Average = Literal["macro", "micro"]
ClasswiseNorm = Literal["l1", "l2", "debiased"]


def ece(
    probs: Array,
    labels: Array,
    *,
    n_bins: int = 15,
    norm: Norm = "l1",
    event: Event = "top label",
    sample_weight: Array | None = None,
    binary: bool = False,
    closed: Closed = "right",
) -> float:
    r"""Expected calibration error of the top label.

    .. math:: \mathrm{ECE} = \sum_{b=1}^{B} \frac{n_b}{N}
              \left|\mathrm{acc}_b - \mathrm{conf}_b\right|

    over bins ``((b-1)/B, b/B]`` of the confidence (the largest probability of a row); a
    confidence of 0 falls in the first bin and 1.0 in the last. Norm ``"l2"`` is
    :math:`\sqrt{\sum_b \frac{n_b}{N}(\mathrm{acc}_b - \mathrm{conf}_b)^2}`, norm ``"max"``
    is `mce`. For data in pieces use `Cells`: ``(first + second).ece()``.

    Args:
        probs: probabilities ``[..., K]``, any array library; ``[N]`` with `binary`.
        labels: class indices ``[...]``.
        n_bins: number of bins ``B``.
        norm: ``"l1"``, ``"l2"`` or ``"max"``.
        event: ``"top label"``, or a class: the error of its probability. ``event=1`` of two
            classes is what many packages call binary ECE.
        sample_weight: weights ``[...]``; whole numbers count repeated rows.
        binary: `probs` are probabilities of class 1, the same as ``[1 - p, p]``.
        closed: ``"right"`` for bins ``(a, b]``, ``"left"`` for ``[a, b)``.

    Returns:
        A float in ``[0, 1]``.

    Numerics:
        Float64 sums; each confidence is compared with the float64 edges at its exact value.

    Example:
        >>> import numpy as np
        >>> round(ece(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0])), 4)
        0.45
        >>> round(ece(np.array([0.1, 0.8]), np.array([0, 0]), binary=True, event=1), 4)
        0.45

    References:
        Naeini, Cooper, Hauskrecht (2015), *Obtaining Well Calibrated Probabilities Using
        Bayesian Binning*; Guo et al. (2017), *On Calibration of Modern Neural Networks*.
    """
    cells = Cells.of_top_label(
        probs, labels, bins=n_bins, event=event, sample_weight=sample_weight, binary=binary,
        closed=closed,
    )  # fmt: skip
    return float(cells.ece(norm))


def mce(
    probs: Array,
    labels: Array,
    *,
    n_bins: int = 15,
    closed: Closed = "right",
    **rows: Unpack[RowOptions],
) -> float:
    r"""Maximum calibration error of the top label: `ece` with ``norm="max"``.

    .. math:: \mathrm{MCE} = \max_{b : n_b > 0} \left|\mathrm{acc}_b - \mathrm{conf}_b\right|

    Example:
        >>> import numpy as np
        >>> round(mce(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0])), 4)
        0.8
    """
    return ece(probs, labels, n_bins=n_bins, norm="max", closed=closed, **rows)


def adaptive_ece(
    probs: Array, labels: Array, *, n_bins: int = 15, norm: Norm = "l1", **rows: Unpack[RowOptions]
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
    hold equal shares of the total weight. For data in pieces see `Cells.equal_mass`.
    Arguments are those of `ece`.

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
    return float(_equal_mass(probs, labels, n_bins, rows).ece(norm))


def _equal_mass(probs: Array, labels: Array, n_bins: int, rows: RowOptions) -> Cells:
    check_n_bins(n_bins)
    c, y, weights = read_rows_of_event(probs, labels, **rows)
    return Cells.of_equal_mass(c, y, n_bins, weights)


def debiased_ece(
    probs: Array,
    labels: Array,
    *,
    n_bins: int = 15,
    bins: Bins = "equal-mass",
    **rows: Unpack[RowOptions],
) -> float:
    r"""Debiased l2 calibration error of the top label.

    .. math:: \sqrt{\max\Bigl(0, \sum_{b : n_b \ge 2} \frac{n_b}{N} \Bigl[
              (\mathrm{conf}_b - \mathrm{acc}_b)^2
              - \frac{\mathrm{acc}_b(1-\mathrm{acc}_b)}{n_b - 1}\Bigr]\Bigr)}

    The plug-in square of a bin's gap overstates the true one by the variance of the bin's
    accuracy; the subtracted term estimates that variance without bias. A bin with a single
    row allows no such estimate and adds nothing. The square root and the clip at 0 bring
    back a little bias: the sum itself is unbiased for the binned squared error.

    The result is 0 if the gaps are no larger than expected by chance. `bins` are
    ``"equal-mass"`` as in the paper (those of `adaptive_ece`), or ``"equal-width"`` (those of
    `ece`); the other arguments are those of `ece`.

    Example:
        >>> import numpy as np
        >>> probs, labels = np.full((10, 2), 0.5), np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 1])
        >>> debiased_ece(probs, labels)  # a gap of 0.1 with a variance of 0.027
        0.0

    References:
        Kumar, Liang, Ma (2019), *Verified Uncertainty Calibration* (the debiased estimator).
    """
    check_choice(bins, ("equal-mass", "equal-width"), name="bins")
    if bins == "equal-mass":
        return float(_equal_mass(probs, labels, n_bins, rows).debiased_ece())
    return float(Cells.of_top_label(probs, labels, bins=n_bins, **rows).debiased_ece())


def classwise_ece(
    probs: Array,
    labels: Array,
    *,
    n_bins: int = 15,
    norm: ClasswiseNorm = "l1",
    sample_weight: Array | None = None,
    binary: bool = False,
) -> float:
    r"""Classwise expected calibration error.

    .. math:: \frac1K \sum_{k=1}^{K} \sum_{b=1}^{B} \frac{n_{bk}}{N}
              \left|\overline{v_k}_{,b} - \mathrm{freq}_{bk}\right|

    For each class ``k`` all rows are binned by :math:`v_k` (bins of `ece`) and the mean of
    :math:`v_k` is compared with the frequency of label ``k``. ``K`` is the number of
    columns, whether or not every class occurs among the labels. Norm ``"l2"`` is the root of the
    mean over classes of the squared l2 errors; ``"debiased"`` subtracts the noise of the bins
    first, as `debiased_ece` does. With norm ``"l1"`` the result is at most ``2 / K``. Arguments
    are those of `ece`.

    Example:
        >>> import numpy as np
        >>> round(classwise_ece(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0])), 4)
        0.45

    References:
        Kull et al. (2019), *Beyond temperature scaling: Obtaining well-calibrated
        multiclass probabilities with Dirichlet calibration*; Kumar, Liang, Ma (2019), the
        debiased marginal error.
    """
    check_choice(norm, ("l1", "l2", "debiased"), name="norm")
    cells = Cells.of_classes(
        probs, labels, bins=n_bins, sample_weight=sample_weight, binary=binary
    )
    if norm == "l1":
        return float(cells.ece().mean())
    squares = cells.ece("l2") ** 2 if norm == "l2" else cells.debiased_square()
    return float(np.sqrt(max(0.0, squares.mean())))


def smooth_ece(probs: Array, labels: Array, **rows: Unpack[RowOptions]) -> float:
    r"""Smooth expected calibration error of the top label, free of bins.

    With confidence :math:`f_i`, correctness :math:`y_i` and the Gaussian kernel
    :math:`K_\sigma` reflected at 0 and 1,

    .. math:: \mathrm{smECE}_\sigma = \int_0^1 \Bigl|\frac1N \sum_i
              K_\sigma(t, f_i)\,(f_i - y_i)\Bigr|\,dt, \qquad
              \mathrm{smECE} = \mathrm{smECE}_{\sigma^*}\ \text{with}\
              \mathrm{smECE}_{\sigma^*} = \sigma^*

    The bandwidth is a fixed point, so there is nothing to choose; the value is continuous
    in the probabilities and within a constant factor of the distance to calibration. Arguments
    are those of `ece`.

    Numerics:
        Residuals are shared out between the neighbours on a grid of step
        :math:`h = 2^{-15}`; the reflected kernel, all its images included, is diagonal in
        the cosine basis, so each bandwidth costs one transform. Sharing out widens the
        kernel to at most :math:`\sqrt{\sigma^2 + h^2/4}`: a relative error below
        :math:`(h/\sigma)^2/4`, 2e-6 at :math:`\sigma = 0.01`. Bandwidths below
        :math:`4h \approx 1.2\times10^{-4}` are not resolved: where the fixed point lies
        lower, the value at :math:`4h`, itself at most :math:`4h`, is returned.

    Example:
        >>> import numpy as np
        >>> round(smooth_ece(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0])), 3)
        0.35

    References:
        Błasiok & Nakkiran (2023), *Smooth ECE: Principled Reliability Diagrams via Kernel
        Smoothing*.
    """
    return smooth_ece_of_rows(*read_rows_of_event(probs, labels, **rows))


def multilabel_ece(
    probs: Array,
    labels: Array,
    *,
    n_bins: int = 15,
    average: Average = "macro",
    sample_weight: Array | None = None,
) -> float:
    r"""Expected calibration error of labels that do not exclude each other.

    .. math:: \mathrm{ECE}_c = \sum_b \frac{n_{bc}}{N}\left|\bar p_{bc} - \bar y_{bc}\right|

    ``"macro"`` is the mean over labels; ``"micro"`` pools all pairs of an example and a label,
    so that errors of opposite sign in one bin cancel and frequent labels dominate. The errors of
    each label are ``Cells.of_labels(probs, labels).ece()``.

    Args:
        probs: one probability per label, ``[N, C]``, any array library or data frame.
        labels: 0 or 1, ``[N, C]``.
        n_bins: number of equally wide bins ``B``.
        average: over labels.
        sample_weight: ``[N]``, or ``[N, C]`` with 0 for a label that is unknown.

    Example:
        >>> round(multilabel_ece([[0.9, 0.2], [0.7, 0.4]], [[1, 0], [0, 1]], n_bins=1), 4)
        0.25
    """
    check_choice(average, ("macro", "micro"), name="average")
    cells = Cells.of_labels(probs, labels, bins=n_bins, sample_weight=sample_weight)
    return float(np.nanmean(cells.ece()) if average == "macro" else cells.pooled().ece())


MetricName = Literal[
    "ece", "adaptive_ece", "classwise_ece", "smooth_ece", "mce", "nll", "brier", "error"
]


@dataclass(frozen=True, eq=False)
class Metric:
    """One metric: its name, its heading and its function."""

    name: MetricName
    heading: str
    """of a table column, with its unit"""
    unit: Literal["%", ""]
    """"%": a fraction that is shown in percent"""
    function: Callable[..., float]
    """``function(probs, labels, *, sample_weight=None, binary=False, ...)``"""

    @property
    def rows(self) -> Callable[..., Floats] | None:
        """The function of the term of each row, where the metric is a mean of them."""
        return ROWS.get(self.function)

    @property
    def has_interval(self) -> bool:
        """Whether a bootstrap interval is valid: only for means over rows."""
        return self.rows is not None

    def text(self, value: float) -> str:
        """Return a value as a table shows it."""
        if math.isnan(value):
            return "–"
        if math.isinf(value):
            return "∞" if value > 0 else "-∞"
        return f"{100 * value:.2f}" if self.unit == "%" else f"{value:.4f}"


_ALL = (
    Metric("ece", "ECE %", "%", ece),
    Metric("adaptive_ece", "adaptive ECE %", "%", adaptive_ece),
    Metric("classwise_ece", "classwise ECE %", "%", classwise_ece),
    Metric("smooth_ece", "smooth ECE %", "%", smooth_ece),
    Metric("mce", "MCE %", "%", mce),
    Metric("nll", "log loss", "", nll),
    Metric("brier", "Brier score", "", brier_score),
    Metric("error", "error %", "%", error_rate),
)

METRICS: Mapping[MetricName, Metric] = MappingProxyType({metric.name: metric for metric in _ALL})
"""Every metric by its name; intervals, tables and headings follow from it."""
