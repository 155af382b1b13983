"""Predictions, and writers of them as tools export them."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from focalibrate.io import Predictions, read_predictions, scan_predictions

pd = pytest.importorskip("pandas")

N = 40
CLASSES3 = ["class_0", "class_1", "class_2"]
NAMES3 = ["alt.atheism", "comp.graphics", "sci.space"]


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


RNG = np.random.default_rng(0)
Z3 = RNG.normal(size=(N, 3)) * 2
P3 = softmax(Z3)
Y3 = (Z3 + RNG.gumbel(size=Z3.shape)).argmax(axis=1)
S2 = RNG.normal(size=N) * 2
P2 = np.stack([1 - 1 / (1 + np.exp(-S2)), 1 / (1 + np.exp(-S2))], axis=1)
Y2 = (RNG.random(N) < P2[:, 1]).astype(int)
TEXT2 = np.array(["benign", "malignant"])[Y2]
TEXT3 = np.array(NAMES3)[Y3]
P12 = softmax(RNG.normal(size=(N, 12)))
AGE = RNG.integers(20, 80, N)


def frame3(**more):
    return pd.DataFrame(P3, columns=NAMES3).assign(**more)


def csv(frame, **options):
    return lambda path: frame.to_csv(path, **options)


def parquet(frame, **options):
    return lambda path: frame.to_parquet(path, **options)


def text(content):
    return lambda path: path.write_text(content, encoding="utf-8")


def rows(header, cells, sep=",", end="\n"):
    return end.join([header, *(sep.join(map(str, row)) for row in cells)]) + end


def npz(**arrays):
    return lambda path: np.savez(path, **arrays)


def many(*frames_and_names):
    def write(path):
        path.mkdir()
        for name, write_one in frames_and_names:
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            write_one(path / name)

    return write


def lines(records):
    content = "".join(json.dumps(record) + "\n" for record in records)
    return lambda path: path.write_text(content, encoding="utf-8")


def sorted_after_the_first(probs):
    """Each row's classes by descending probability, as services return them; the first row
    unsorted."""
    return [np.arange(probs.shape[1]), *np.argsort(-probs[1:], axis=1)]


def savetxt(array, **options):
    return lambda path: np.savetxt(path, array, **options)


numbered = pd.DataFrame(P3)
binary = pd.DataFrame({"y_true": Y2, "prob": P2[:, 1]})


def torch():
    return pytest.importorskip("torch")


def _joined(batches: list[Predictions]) -> Predictions:
    labels = [b.labels for b in batches if b.labels is not None]
    return replace(
        batches[0],
        scores=np.concatenate([b.scores for b in batches]),
        labels=np.concatenate(labels) if labels else None,
    )


@dataclass(frozen=True)
class Export:
    """A file as a tool writes it, and what is to be read from it; None is not compared."""

    name: str
    writer: Callable[[Path], object]
    scores: NDArray[Any] | None = None
    labels: NDArray[Any] | None = None
    class_names: list[str] | tuple[str, ...] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        path = folder / self.name
        self.writer(path)
        return path

    def check(self, folder: Path) -> None:
        """Write it, read it whole and in batches, compare."""
        path = self.write(folder)
        self.compare(read_predictions(path, **self.options))
        for batch_rows in (1, 7, 65_536):
            scan = scan_predictions(path, batch_rows=batch_rows, **self.options)
            self.compare(_joined(list(scan.batches())))

    def compare(self, found: Predictions) -> None:
        if self.scores is not None:
            assert_allclose(found.scores, self.scores, rtol=0, atol=1e-9)
            names = None if self.class_names is None else tuple(self.class_names)
            assert found.class_names == names
        if self.labels is not None:
            assert_array_equal(found.labels, self.labels)
