"""Pages of simulated models, for the browser tests and for work on the page.

``python -m tests.browser.examples FOLDER`` writes all of them.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import Comparison, choose, compare
from focalibrate.report import (
    PageData,
    Provenance,
    SourceFile,
    criterion_grid,
    page_data,
    write_report,
)

HOSTILE = "<script>document.title='hacked'</script>"
"""A class name that must be shown, not run."""


@dataclass(frozen=True, eq=False)
class Example:
    """A simulated model, judged, and its page."""

    logits: NDArray[np.float64]
    labels: NDArray[np.int64]
    comparison: Comparison
    data: PageData


def simulate(
    n: int, n_classes: int, *, sharpness: float, scale: float, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return logits `scale` times too large, and labels drawn from the true posterior."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n, n_classes))
    truth[np.arange(n), rng.integers(n_classes, size=n)] += sharpness * rng.gamma(4.0, 0.25, n)
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    return scale * truth, labels


def example(
    n: int, n_classes: int, *, sharpness: float, scale: float, seed: int = 0, cross_fit: bool = False
) -> Example:
    """Return a page's data with `n` validation and as many test rows."""
    val = simulate(n, n_classes, sharpness=sharpness, scale=scale, seed=seed)
    test = val if cross_fit else simulate(n, n_classes, sharpness=sharpness, scale=scale, seed=seed + 1)
    methods = None if n_classes <= 100 else ["temperature", "temperature_ece", "focal_temperature"]
    comparison = compare(
        *val,
        *(() if cross_fit else test),
        methods=methods,
        trained_gamma=2.0 if methods is None else None,
        n_resamples=200,
    )
    data = page_data(
        comparison,
        choose(comparison),
        *test,
        provenance=Provenance(
            command="focalibrate calibrate val.npz --test test.npz --trained-gamma 2 -o report",
            version="0.1.0",
            seed=0,
            made_at="2026-11-15",
            files=(
                SourceFile(name="val.npz", sha256="0f" * 32, role="fitted on"),
                SourceFile(name="test.npz", sha256="a1" * 32, role="judged on"),
            ),
        ),
        class_names=_names(n_classes),
        criterion=criterion_grid(*val),
    )
    return Example(*test, comparison, data)


def _names(n_classes: int) -> list[str] | None:
    if n_classes == 3:
        return ["setosa", HOSTILE, "a name so long that it has to be cut somewhere & wrapped"]
    if n_classes == 10:
        return "airplane automobile bird cat deer dog frog horse ship truck".split()
    return None


EXAMPLES = {
    "k3": {"n": 2000, "n_classes": 3, "sharpness": 2.5, "scale": 2.0, "cross_fit": True},
    "k10": {"n": 5000, "n_classes": 10, "sharpness": 6.0, "scale": 1.8},
    "k1000": {"n": 10_000, "n_classes": 1000, "sharpness": 11.0, "scale": 1.5},
}


def main() -> None:
    """Write every example into the folder named on the command line."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or EXAMPLES:
        write_report(folder / f"{name}.html", example(**EXAMPLES[name]).data)  # type: ignore[arg-type]
        print(name, (folder / f"{name}.html").stat().st_size)


if __name__ == "__main__":
    main()
