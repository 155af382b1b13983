"""Pages of simulated models, for the browser tests and for work on the page.

``python -m tests.browser.examples FOLDER [NAME ...]`` writes them.
"""

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate import calibrate_predictions
from focalibrate.metrics import Cells, adaptive_ece, confident_fraction, ece, nll
from focalibrate.pipeline import CalibrationResult
from focalibrate.report import (
    CriterionGrid,
    Provenance,
    SourceFile,
    criterion_grid,
    deployment_snippets,
    write_report,
)
from focalibrate.theory import recover_log_posterior

HOSTILE = "<script>document.title='hacked'</script>"
"""A class name that must be shown, not run."""
POINTS = ((0.0, 1.0), (2.0, 1.0), (1.25, 2.5), (-0.4, 0.6), (4.5, 3.3))
"""Gammas and temperatures to try."""


COSTS: tuple[dict[str, Any], ...] = (
    {"klass": 1, "falsePositive": 1, "falseNegative": 1},
    {"klass": 0, "falsePositive": 1, "falseNegative": 9},
    {"klass": 1, "falsePositive": 2.5, "falseNegative": 0.5},
)


@dataclass(frozen=True, kw_only=True)
class Model:
    """A classifier whose logits are `scale` times too large."""

    n: int
    n_classes: int
    sharpness: float
    scale: float
    cross_fit: bool = False
    methods: tuple[str, ...] | None = None
    class_names: tuple[str, ...] | None = None
    has_groups: bool = False
    is_focal: bool = True
    """trained with focal loss: gammas and temperatures can be tried on the page"""


CIFAR = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
MODELS = {
    "k2": Model(
        n=1200,
        n_classes=2,
        sharpness=2.0,
        scale=2.0,
        cross_fit=True,
        class_names=("benign", "malignant"),
        is_focal=False,
        has_groups=True,
    ),
    "k3": Model(
        n=1500,
        n_classes=3,
        sharpness=2.5,
        scale=2.0,
        cross_fit=True,
        methods=("temperature", "vector", "isotonic", "focal_temperature", "posterior_recovery"),
        class_names=(
            "setosa",
            HOSTILE,
            "a name so long that it has to be cut & wrapped somewhere",
        ),
    ),
    "k10": Model(n=5000, n_classes=10, sharpness=6.0, scale=1.8, class_names=CIFAR),
    "k1000": Model(
        n=600,
        n_classes=1000,
        sharpness=11.0,
        scale=1.5,
        methods=("temperature", "posterior_recovery"),
    ),
    "large": Model(
        n=10_000,
        n_classes=1000,
        sharpness=11.0,
        scale=1.5,
        methods=("temperature", "posterior_recovery"),
    ),
}


def simulate(model: Model, *, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return logits, and labels drawn from the true posterior."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(model.n, model.n_classes))
    hinted = rng.integers(model.n_classes, size=model.n)
    truth[np.arange(model.n), hinted] += model.sharpness * rng.gamma(4.0, 0.25, model.n)
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    return model.scale * truth, labels


def judge(model: Model) -> CalibrationResult:
    """Fit and compare on as many validation rows as there are test rows."""
    logits, labels = simulate(model, seed=0)
    groups = _groups(model.n) if model.has_groups else None
    found = calibrate_predictions(
        logits=logits,
        labels=labels,
        test=None if model.cross_fit else simulate(model, seed=1),
        groups=groups,
        test_groups=groups,
        class_names=model.class_names,
        methods=model.methods,
        trained_gamma=2.0 if model.is_focal else None,
        n_resamples=40,
    )
    provenance = Provenance(
        command="focalibrate calibrate val.npz --test test.npz --trained-gamma 2 -o report",
        version="0.1.0",
        seed=0,
        made_at="2026-11-15",
        files=(
            SourceFile(name="val.npz", sha256="0f" * 32, role="fitted on"),
            SourceFile(name="test.npz", sha256="a1" * 32, role="judged on"),
        ),
    )
    return replace(found, provenance=provenance)


def _groups(n: int) -> dict[str, NDArray[Any]]:
    names = np.array([HOSTILE, "x" * 80, "c"])
    group = names[np.random.default_rng(0).integers(3, size=n)]
    group[:3] = "too small"
    return {"site": group}


def expected(example: CalibrationResult, grid: CriterionGrid | None) -> dict[str, Any]:
    """Return what the page should show, from the full logits in float64."""
    logits, labels = example.judged.logits, example.judged.labels
    live = []
    for gamma, temperature in POINTS if grid is not None else ():
        probs = np.exp(recover_log_posterior(logits / temperature, gamma=gamma))
        live.append(
            {
                "ece": ece(probs, labels),
                "adaptive_ece": adaptive_ece(probs, labels),
                "nll": nll(probs, labels),
                "s99": confident_fraction(probs, labels).fraction,
            }
        )
    before = np.exp(recover_log_posterior(logits, gamma=0.0))
    after = example.comparison.held_out_probs(example.choice.row.method, logits)
    views, diagrams = [], []
    for bins, binning, klass in (
        (10, "equal-width", None),
        (25, "equal-mass", None),
        (15, "equal-width", 0),
        (25, "equal-width", 1),
    ):
        views.append({"bins": bins, "binning": binning, "klass": klass})
        diagrams.append({"before": _ece(before, labels, **views[-1])})
        diagrams[-1]["after"] = _ece(after, labels, **views[-1])
    script: dict[str, Any] = {"views": views, "costs": COSTS}
    want = {
        "live": live,
        "diagrams": diagrams,
        "costs": [
            {"before": _cost(before, labels, **costs), "after": _cost(after, labels, **costs)}
            for costs in COSTS
        ],
        "snippets": {
            snippet.title: snippet.code
            for snippet in deployment_snippets(
                example.choice.row.calibrator, method=example.choice.row.method
            )
        },
        "labels": [row.label for row in example.comparison.rows],
        "by_nll": [
            row.label
            for row in sorted(example.comparison.rows, key=lambda r: r.scores["nll"].estimate)
        ],
    }
    if grid is not None:
        script |= {"points": POINTS, "presets": ["temperature", "posterior_recovery"]}
        g, t = np.unravel_index(np.argmin(grid.values), grid.values.shape)
        want |= {
            "temperature": example.comparison.row("temperature").calibrator.temperature,
            "optimum": [grid.gammas[g], grid.temperatures[t]],
            "grid": [grid.gammas[:2], grid.temperatures[:2]],
        }
    return want | {"script": script}


def _cost(
    probs: NDArray[Any],
    labels: NDArray[Any],
    *,
    klass: int,
    falsePositive: float,
    falseNegative: float,
) -> float:
    threshold = falsePositive / (falsePositive + falseNegative)
    is_decided, is_class = probs[:, klass] >= threshold, labels == klass
    wrong = falsePositive * (is_decided & ~is_class) + falseNegative * (~is_decided & is_class)
    return float(wrong.mean())


def _ece(
    probs: NDArray[Any], labels: NDArray[Any], *, bins: int, binning: str, klass: int | None
) -> float:
    confidence = probs.max(axis=1) if klass is None else probs[:, klass]
    correct = (probs.argmax(axis=1) if klass is None else klass) == labels
    if binning == "equal-width":
        return Cells.of(confidence, correct, bins=bins).ece()
    return Cells.of_distinct(confidence.astype(np.float64), correct).equal_mass(bins).ece()


def make(name: str, folder: Path) -> None:
    """Write a page, and a file with what the page should show."""
    example = judge(MODELS[name])
    fitted = example.fitted
    grid = criterion_grid(fitted.logits, fitted.labels) if MODELS[name].is_focal else None
    write_report(folder / f"{name}.html", example.page_data())
    (folder / f"{name}.json").write_text(json.dumps(expected(example, grid)), encoding="utf-8")


def main() -> None:
    """Write the examples named on the command line, or all."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or MODELS:
        make(name, folder)
        print(f"{folder / name}.html: {(folder / f'{name}.html').stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
