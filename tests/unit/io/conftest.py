from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from focalibrate.io import Predictions, read_predictions


@pytest.fixture
def logits() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)


@pytest.fixture
def probs(logits: np.ndarray) -> np.ndarray:
    p = np.exp(logits.astype(np.float64))
    return (p / p.sum(axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def labels() -> np.ndarray:
    return np.random.default_rng(1).integers(3, size=30)


@pytest.fixture
def npz(tmp_path: Path, logits: np.ndarray, labels: np.ndarray) -> Callable[..., Path]:
    """Write an .npz with good logits and labels, some arrays replaced, None to leave out."""

    def write(**arrays: object) -> Path:
        path = tmp_path / "val.npz"
        both = {"logits": logits, "labels": labels, **arrays}
        np.savez(path, **{k: v for k, v in both.items() if v is not None})
        return path

    return write


@pytest.fixture
def val(npz: Callable[..., Path]) -> Predictions:
    return read_predictions(npz(class_names=np.array(["cat", "a,b", 'say "x"'])))
