"""Pages of unusual data: they must draw too."""

import json
import warnings

import numpy as np
import pytest

from focalibrate.comparison import choose, compare
from focalibrate.report import Provenance, criterion_grid, page_data, write_report


def two_classes(rng):
    logits = np.array([0.0, 1.0]) * 3 * rng.normal(size=(40, 1))
    return logits, (logits[:, 1] + rng.logistic(size=40) > 0).astype(int)


def every_row_right(rng):
    logits = 4 * rng.normal(size=(60, 3))
    return logits, logits.argmax(axis=1)


def a_class_never_seen(rng):
    logits = 2 * rng.normal(size=(80, 5))
    logits[:, 4] -= 30
    labels = (logits[:, :4] + rng.gumbel(size=(80, 4))).argmax(axis=1)
    return logits, labels


def impossible_classes(rng):
    logits = 2 * rng.normal(size=(80, 6))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    mask = (rng.random(logits.shape) < 0.3) & (np.arange(6) != labels[:, None])
    logits[mask] = -np.inf
    return logits, labels


def constant_logits(rng):
    return np.zeros((50, 4)), rng.integers(4, size=50)


def huge_logits(rng):
    logits = 1e4 * rng.normal(size=(50, 3))
    return logits, rng.integers(3, size=50)


CASES = [
    two_classes,
    every_row_right,
    a_class_never_seen,
    impossible_classes,
    constant_logits,
    huge_logits,
]


@pytest.fixture(scope="module")
def pages(node, tmp_path_factory):
    folder = tmp_path_factory.mktemp("edges")
    for case in CASES:
        logits, labels = case(np.random.default_rng(0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            comparison = compare(
                logits, labels, methods=["temperature", "histogram"], n_resamples=5
            )
            grid = None if case is two_classes else criterion_grid(logits, labels)
        data = page_data(
            comparison,
            choose(comparison),
            logits,
            labels,
            provenance=Provenance(command="", version="", seed=0),
            criterion=grid,
        )
        write_report(folder / f"{case.__name__}.html", data)
    paths = [str(folder / f"{case.__name__}.html") for case in CASES]
    seen = json.loads(node("browser/open.mjs", *paths))
    return {case: seen[path] for case, path in zip(CASES, paths, strict=True)}


@pytest.mark.parametrize("case", CASES)
def test_it_draws(pages, case):
    seen = pages[case]
    assert seen["complaints"] == []
    for bad in ("NaN", "undefined", "null", "Infinity"):
        assert bad not in seen["text"]


def test_a_model_without_mistakes_is_told_so(pages):
    assert "makes no mistake" in pages[every_row_right]["text"]
