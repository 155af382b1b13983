"""Numbers from focalibrate for the page's maths to be held against.

``python frontend/test/make_fixture.py`` writes ``fixture.json`` beside this file; a test of the
Python side fails where that is out of date.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from focalibrate.metrics import (
    Cells,
    adaptive_ece,
    confident_fraction,
    corp,
    ece,
    nll,
)
from focalibrate.report.rows import PILOT, Entries, pack_rows, plan_entries
from focalibrate.theory import recover_log_posterior, recover_posterior, tau_over, tau_under

BIN_COUNTS = (10, 15, 25)


def case(
    n: int, n_classes: int, *, spread: float, seed: int, ties: bool = False
) -> dict[str, Any]:
    """Return rows as the page gets them, and what full float64 logits give."""
    rng = np.random.default_rng(seed)
    logits = spread * rng.normal(size=(n, n_classes))
    logits[np.arange(n), rng.integers(n_classes, size=n)] += rng.gamma(2.0, spread, n)
    logits = logits.astype(np.float32).astype(np.float64)
    if ties:
        logits = np.round(logits)
        logits[0] = 0.0
        logits[1, 1:] = -np.inf
    labels = (logits / spread + rng.gumbel(size=logits.shape)).argmax(axis=1)
    points = [(0.0, 1.0), (2.0, 1.0), (-0.5, 0.7), (-0.95, 1.5), (5.0, 3.0), (0.37, 0.05)]
    points += [(float(g), float(t)) for g, t in rng.uniform((-0.5, 0.1), (5.0, 5.0), size=(6, 2))]
    found = []
    # Where confidences tie or lie on an edge of a bin, the machine's last digit decides.
    bin_counts = () if ties else BIN_COUNTS
    for gamma, temperature in points:
        probs = np.exp(recover_log_posterior(logits / temperature, gamma=gamma))
        found.append(
            {
                "gamma": gamma,
                "temperature": temperature,
                "confidence": probs.max(axis=1)[:20].tolist(),
                "nll": nll(probs, labels),
                "ece": [ece(probs, labels, n_bins=b) for b in bin_counts],
                "adaptive_ece": [adaptive_ece(probs, labels, n_bins=b) for b in bin_counts],
                "s99": confident_fraction(probs, labels).fraction,
            }
        )
    before = np.exp(recover_log_posterior(logits, gamma=0.0))
    after = np.exp(recover_log_posterior(logits / 1.7, gamma=0.4))
    return {
        "n_classes": n_classes,
        "has_ties": ties,
        "rows": pack_rows(logits, labels) | {"seed": 0},
        "points": found,
        "entries": _entries(before, after, labels),
        "classes": [_one_class(k, before, after, labels) for k in (0, n_classes - 1)],
    }


def _entries(before: NDArray[Any], after: NDArray[Any], labels: NDArray[Any]) -> dict[str, Any]:
    n, floor = plan_entries(before[:PILOT], after[:PILOT], n=len(labels))
    entries = Entries(np.arange(n), before.shape[1], floor)
    entries.add(0, before, after, labels)
    return entries.record()


def _one_class(
    k: int, before: NDArray[Any], after: NDArray[Any], labels: NDArray[Any]
) -> dict[str, Any]:
    is_class = labels == k
    return {
        "klass": k,
        "equal_width": [
            [float(Cells.of(p[:, k], is_class, bins=b).ece()) for p in (before, after)]
            for b in BIN_COUNTS
        ],
        "equal_mass": [
            [float(Cells.of_equal_mass(p[:, k], is_class, b).ece()) for p in (before, after)]
            for b in BIN_COUNTS
        ],
    }


def _curve(n: int, *, seed: int, ties: bool) -> dict[str, Any]:
    """Return probabilities with outcomes, and their reliability curve."""
    rng = np.random.default_rng(seed)
    p = rng.random(n).round(1 if ties else 6)
    y = (rng.random(n) < p**1.5).astype(int)
    found = corp(p, y, event=1, n_draws=0).curve
    return {
        "values": p.tolist(),
        "outcomes": y.tolist(),
        "probability": found.probability.tolist(),
        "frequency": found.frequency.tolist(),
    }


def _costs(*, seed: int) -> dict[str, Any]:
    """Return whole rows, costs of every confusion, and the cost of the cheapest decisions."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(3), size=200)
    labels = rng.integers(3, size=200)
    matrix = rng.integers(0, 9, size=(3, 3)).astype(float)
    np.fill_diagonal(matrix, 0.0)
    expected = probs @ matrix
    return {
        "probs": probs.ravel().tolist(),
        "labels": labels.tolist(),
        "matrix": matrix.tolist(),
        "cost": float(matrix[labels, expected.argmin(axis=1)].mean()),
        "stated": float(expected.min(axis=1).mean()),
        "topLabel": float(matrix[labels, probs.argmax(axis=1)].mean()),
    }


def fixture() -> dict[str, Any]:
    """Return all cases."""
    bands = [(n, p) for n in (1, 7, 40, 333, 5000) for p in (0.02, 0.3, 0.5, 0.97)]
    return {
        "cases": [
            case(300, 2, spread=1.5, seed=1),
            case(300, 3, spread=2.0, seed=2),
            case(300, 4, spread=2.0, seed=5, ties=True),
            case(400, 10, spread=2.0, seed=3),
            case(120, 1000, spread=2.0, seed=4),
        ],
        "bands": [
            [n, p, *(float(binom.ppf(q, n, p)) / n for q in (0.025, 0.975))] for n, p in bands
        ],
        "curves": [_curve(400, seed=6, ties=False), _curve(300, seed=7, ties=True)],
        "costs": _costs(seed=8),
        "thresholds": [[g, tau_over(g), tau_under(g)] for g in (0.05, 0.5, 1.0, 2.0, 3.0, 5.0)],
        "posteriors": [
            [v, g, recover_posterior(np.array(v), gamma=g).tolist()]
            for v in ([0.7, 0.2, 0.1], [0.34, 0.33, 0.33], [0.98, 0.015, 0.005])
            for g in (-0.5, 0.0, 1.0, 4.0)
        ],
    }


def rounded(value: Any) -> Any:
    """Return the fixture with ten digits, which last digits of other machines do not change."""
    if isinstance(value, float):
        return float(f"{value:.10g}")
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, (list, tuple)) else value


def main() -> None:
    """Write the file."""
    path = Path(__file__).with_name("fixture.json")
    path.write_text(json.dumps(rounded(fixture()), separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
