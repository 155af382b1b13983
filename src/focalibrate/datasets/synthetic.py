"""Generated examples whose class posterior is known."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.datasets._source import DatasetSource
from focalibrate.datasets.dataset import Dataset, Split

MEANS = np.array([-1.5, 0.0, 1.8])
SCALES = np.array([1.0, 0.6, 1.2])
RANGE = (-6.0, 7.0)
N_1D = 5_000

CORNERS = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
SPREAD = 0.4
FLIPPED = 0.1
N_2D = 2_000


@dataclass(frozen=True)
class KnownPosterior:
    """Examples whose class posterior is known."""

    x: Floats
    """shape ``[N]``"""
    labels: NDArray[np.int64]
    """shape ``[N]``"""
    posterior: Floats
    """shape ``[N, 3]``"""


def posterior_at(x: Floats) -> Floats:
    r"""Return :math:`P(y \mid x)` of three equally likely, overlapping Gaussian classes."""
    log_density = -0.5 * ((x[:, None] - MEANS) / SCALES) ** 2 - np.log(SCALES)
    density = np.exp(log_density - log_density.max(axis=-1, keepdims=True))
    result: Floats = density / density.sum(axis=-1, keepdims=True)
    return result


def sample(n: int, *, seed: int | list[int]) -> KnownPosterior:
    """Return `n` examples drawn from the three classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=n)
    x = np.clip(rng.normal(MEANS[labels], SCALES[labels]), *RANGE)
    return KnownPosterior(x, labels, posterior_at(x))


def square(n: int, *, seed: int | list[int], flipped: float = FLIPPED) -> Split:
    """Return `n` points around the corners of a square; the left two are class 0.

    Exactly ``round(flipped * n)`` labels are those of the other class: flipped, not drawn again,
    which would leave half of them as they were.
    """
    rng = np.random.default_rng(seed)
    corner = rng.permutation(np.arange(n) % len(CORNERS))
    points = rng.normal(CORNERS[corner], SPREAD)
    labels = (corner >= 2).astype(np.int64)
    wrong = rng.permutation(n)[: round(flipped * n)]
    labels[wrong] = 1 - labels[wrong]
    return Split(points.astype(np.float32), labels)


def _overlap(root: Path | None, seed: int) -> Dataset:
    problems = [sample(N_1D, seed=[seed, part]) for part in range(3)]
    splits = [Split(p.x[:, None].astype(np.float32), p.labels) for p in problems]
    return Dataset("overlap_1d", splits[0], splits[1], splits[2], 3, ("a", "b", "c"), "tabular")


def _square(root: Path | None, seed: int) -> Dataset:
    splits = [square(N_2D, seed=[seed, part]) for part in range(3)]
    names = ("left", "right")
    return Dataset("square_2d", splits[0], splits[1], splits[2], 2, names, "tabular")


SYNTHETIC: dict[str, DatasetSource] = {
    "overlap_1d": DatasetSource("tabular", _overlap),
    "square_2d": DatasetSource("tabular", _square),
}
