"""Generated examples whose class posterior is known."""

from pathlib import Path

import numpy as np

from focalibrate.simulated import sample
from focalibrate_papers.datasets.dataset import Dataset, DatasetSource, Split

N_1D = 5_000

CORNERS = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
SPREAD = 0.4
FLIPPED = 0.1
N_2D = 2_000


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
