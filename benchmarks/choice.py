"""What the automatic choice takes where the truth is known: ``python -m benchmarks.choice``.

Models whose true probabilities are known: calibrated ones, and the same made wrong by a
temperature, a shift of the classes, a kink in the logits, or a temperature that differs between
two unknown groups. Each draw calibrates on n rows; the excess is the log loss of what was chosen
− that of the model, on 4,000 other rows. An interrupted run resumes: draws in ``draws.csv`` are
not made again. Writes ``draws.csv``, ``table.md`` and ``made.json`` into ``--out``.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from focalibrate.calibrate import METHODS, Identity, fit  # noqa: E402

Floats = NDArray[np.float64]

FOLDER = Path(__file__).parents[1] / "results" / "choice"
CLASSES, ROWS = (2, 5, 10, 20, 100), (300, 1000, 3000, 20_000)
TRUTHS = ("calibrated", "temperature", "shift", "kink", "group")
TEST_ROWS = 4000
COLUMNS = ("truth", "K", "n", "draw", "chosen", "excess")
ABOUT = {
    "calibrated": "The model is calibrated: it should be kept.",
    "temperature": "Logits 1.6 times too large: a temperature is right.",
    "shift": "Class log-odds shifted by up to ±1: Platt or structured vector scaling is right.",
    "kink": "Positive logits doubled: none of the single methods is right.",
    "group": "Logits twice too large in half of the rows, which nobody can tell apart.",
}


def model(truth: str, logits: Floats, rng: np.random.Generator) -> Floats:
    """Return the model's logits, given the true ones."""
    if truth == "temperature":
        return 1.6 * logits
    if truth == "shift":
        return logits + np.linspace(-1.0, 1.0, logits.shape[1])
    if truth == "kink":
        return np.where(logits > 0, 2.0, 1.0) * logits
    if truth == "group":
        return np.where(rng.random((len(logits), 1)) < 0.5, 2.0, 1.0) * logits
    return logits


def draw(truth: str, n_classes: int, n: int, seed: int) -> list[object]:
    """Return one row of the results."""
    rng = np.random.default_rng([TRUTHS.index(truth), n_classes, n, seed])
    true = 2.0 * rng.standard_normal((n + TEST_ROWS, n_classes))
    labels = (true + rng.gumbel(size=true.shape)).argmax(axis=1)
    logits = model(truth, true, rng)
    found = fit(logits[:n], labels[:n])
    test = np.arange(TEST_ROWS), labels[n:]
    own, chosen = (np.asarray(c.log_probs(logits[n:]))[test] for c in (Identity(), found))
    return [truth, n_classes, n, seed, found.kind, f"{np.mean(own - chosen):.6f}"]


def table(rows: list[dict[str, str]]) -> str:
    """Return what was chosen, for each truth by number of classes and rows."""
    lines = []
    for truth in TRUTHS:
        lines += [f"**{truth}.** {ABOUT[truth]}", ""]
        lines.append(f"| classes | {' | '.join(f'n = {n:,}' for n in ROWS)} |")
        lines.append("| --- |" + " --- |" * len(ROWS))
        for k in CLASSES:
            cells: list[str] = []
            for n in ROWS:
                key = (truth, str(k), str(n))
                some = [r for r in rows if (r["truth"], r["K"], r["n"]) == key]
                cells.append(_cell(some) if some else "")
            lines.append(f"| {k} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def _cell(rows: list[dict[str, str]]) -> str:
    counts = Counter(row["chosen"] for row in rows).most_common()
    names = {"identity": "kept"}
    shares = [f"{names.get(m, METHODS[m].label)} {c}/{len(rows)}" for m, c in counts]
    excess = 1000 * np.mean([float(row["excess"]) for row in rows])
    return f"{', '.join(shares)} ({excess:+.1f})".replace("-", "−").replace("+0.0", "0.0")


def main(arguments: list[str] | None = None) -> None:
    """Make the draws that are missing, and the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--truths", nargs="*", default=list(TRUTHS))
    parser.add_argument("--most-rows", type=int, default=max(ROWS))
    args = parser.parse_args(arguments)
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "draws.csv"
    known = set()
    if path.exists():
        with path.open(newline="") as file:
            known = {tuple(row[:4]) for row in csv.reader(file)}
    warnings.simplefilter("ignore")
    with path.open("a", newline="") as file:
        writer = csv.writer(file)
        if not known:
            writer.writerow(COLUMNS)
        for seed in range(args.draws):
            for n in (n for n in ROWS if n <= args.most_rows):
                for truth in args.truths:
                    for k in CLASSES:
                        if (truth, str(k), str(n), str(seed)) not in known:
                            writer.writerow(draw(truth, k, n, seed))
                            file.flush()
    with path.open(newline="") as file:
        text = table(list(csv.DictReader(file)))
    (args.out / "table.md").write_text(text, encoding="utf-8")
    (args.out / "made.json").write_text(json.dumps(_made(), indent=1) + "\n", encoding="utf-8")
    print(text)


def _made() -> dict[str, str]:
    command = " ".join(["python -m benchmarks.choice", *sys.argv[1:]])
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    return {"command": command, "seed": "the number of the draw", "commit": commit}


if __name__ == "__main__":
    main()
