"""Does the automatic choice harm a calibrated model? ``python -m benchmarks.no_harm``.

Models whose true probabilities are known: calibrated ones, and the same made overconfident by a
temperature. Each draw calibrates on n rows and is scored on 2,000 other rows. The excess is the
log loss of the chosen method − that of the uncalibrated model. Writes ``results/no-harm``.
"""

import argparse
import csv
import os
import warnings
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from focalibrate.calibrate import Calibrator, explain_auto, fit_temperature  # noqa: E402

Floats = NDArray[np.float64]

FOLDER = Path(__file__).parents[1] / "results" / "no-harm"
CLASSES, ROWS, TEMPERATURES, DRAWS, TEST_ROWS = (2, 3, 10), (200, 1000), (1.0, 1.5), 40, 2000
COLUMNS = ("K", "n", "temperature", "draw", "chosen", "excess", "excess_temperature")


def draw(n_classes: int, n: int, temperature: float, seed: int) -> list[object]:
    """Return one row of the results."""
    rng = np.random.default_rng([n_classes, n, round(100 * temperature), seed])
    truth = 2.0 * rng.standard_normal((n + TEST_ROWS, n_classes))
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    logits = temperature * truth
    found = explain_auto(labels=labels[:n], logits=logits[:n])
    before = _log_loss(logits[n:], labels[n:])
    excess = [
        _log_loss(np.asarray(c.log_probs(logits[n:])), labels[n:]) - before
        for c in (found.calibrator, _temperature(logits[:n], labels[:n]))
    ]
    return [n_classes, n, temperature, seed, found.method, *(f"{x:.8f}" for x in excess)]


def _temperature(logits: Floats, labels: NDArray[np.intp]) -> Calibrator:
    found: Calibrator = fit_temperature(logits, labels)
    return found


def _log_loss(logits: Floats, labels: NDArray[np.intp]) -> float:
    top = logits.max(axis=1, keepdims=True)
    total = np.log(np.exp(logits - top).sum(axis=1)) + top[:, 0]
    return float(np.mean(total - logits[np.arange(len(labels)), labels]))


def table(rows: list[list[str]]) -> str:
    """Return the table: means over draws with 95 % intervals, in thousandths."""
    lines = [
        "| model | classes | rows | draws | model kept | excess log loss ×1000 | of temperature, "
        "always |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for t in TEMPERATURES:
        for k in CLASSES:
            for n in ROWS:
                some = [r for r in rows if (int(r[0]), int(r[1]), float(r[2])) == (k, n, t)]
                if not some:
                    continue
                kept = np.mean([r[4] == "identity" for r in some])
                name = "calibrated" if t == 1.0 else f"overconfident, T = {t:g}"
                cells = [name, str(k), f"{n:,}", str(len(some)), f"{100 * kept:.0f} %"]
                for column in (5, 6):
                    x = 1000 * np.array([float(r[column]) for r in some])
                    half = 1.96 * x.std(ddof=1) / np.sqrt(len(x))
                    cells.append(f"{x.mean():.1f} [{x.mean() - half:.1f}, {x.mean() + half:.1f}]")
                lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is missing and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--draws", type=int, default=DRAWS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "draws.csv"
    rows = list(csv.reader(path.open()))[1:] if path.exists() else []
    known = {(int(r[0]), int(r[1]), float(r[2]), int(r[3])) for r in rows}
    with path.open("a", newline="") as file:
        writer = csv.writer(file)
        if not known:
            writer.writerow(COLUMNS)
        for seed in range(args.draws):
            for task in ((k, n, t, seed) for k in CLASSES for n in ROWS for t in TEMPERATURES):
                if task not in known:
                    rows.append([str(x) for x in draw(*task)])
                    writer.writerow(rows[-1])
                    file.flush()
    text = table(rows)
    (args.out / "table.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
