"""What the automatic choice takes where the truth is known: ``python -m benchmarks.choice``.

Models whose true probabilities are known: calibrated ones, and the same made wrong by a
temperature, a shift of the classes, a kink in the logits, or a temperature that differs between
two unknown groups. Each draw calibrates on n rows; the excess is the log loss of what was chosen
− that of the model, on 4,000 other rows. An interrupted run resumes: draws in ``draws.csv`` are
not made again. Writes ``draws.csv``, ``table.md`` and ``made.json`` into the folder ``-o``.
"""

import os
import warnings
from collections import Counter
from itertools import product
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import click  # noqa: E402
import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from benchmarks._study import Record, markdown, run_missing, write_made  # noqa: E402
from focalibrate.calibrate import METHODS, Identity, fit  # noqa: E402

Floats = NDArray[np.float64]

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


def draw(truth: str, n_classes: int, n: int, seed: int) -> tuple[str, str]:
    """Return what was chosen, and its excess."""
    rng = np.random.default_rng([TRUTHS.index(truth), n_classes, n, seed])
    true = 2.0 * rng.standard_normal((n + TEST_ROWS, n_classes))
    labels = (true + rng.gumbel(size=true.shape)).argmax(axis=1)
    logits = model(truth, true, rng)
    found = fit(logits[:n], labels[:n])
    test = np.arange(TEST_ROWS), labels[n:]
    own, chosen = (np.asarray(c.log_probs(logits[n:]))[test] for c in (Identity(), found))
    return found.kind, f"{np.mean(own - chosen):.6f}"


def table(rows: list[Record]) -> str:
    """Return what was chosen, for each truth by number of classes and rows."""
    parts = []
    for truth in TRUTHS:
        body = []
        for k in CLASSES:
            keys = [(truth, str(k), str(n)) for n in ROWS]
            drawn = [[r for r in rows if (r["truth"], r["K"], r["n"]) == key] for key in keys]
            body.append((k, *(_cell(some) if some else "" for some in drawn)))
        head = ("classes", *(f"n = {n:,}" for n in ROWS))
        parts.append(f"**{truth}.** {ABOUT[truth]}\n\n{markdown(head, body)}")
    return "\n".join(parts)


def _cell(rows: list[Record]) -> str:
    counts = Counter(row["chosen"] for row in rows).most_common()
    names = {"identity": "kept"}
    shares = [f"{names.get(m, METHODS[m].label)} {c}/{len(rows)}" for m, c in counts]
    excess = 1000 * np.mean([float(row["excess"]) for row in rows])
    return f"{', '.join(shares)} ({excess:+.1f})".replace("-", "−").replace("+0.0", "0.0")


@click.command()
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True)
@click.option("--draws", default=20, show_default=True)
@click.option("--truth", "truths", multiple=True, default=TRUTHS, type=click.Choice(TRUTHS))
@click.option("--most-rows", default=max(ROWS), show_default=True)
def evidence(out: Path, draws: int, truths: tuple[str, ...], most_rows: int) -> None:
    """Make the draws that are missing, and the table."""
    warnings.simplefilter("ignore")
    sizes = [n for n in ROWS if n <= most_rows]
    plan = [(t, k, n, i) for i, n, t, k in product(range(draws), sizes, truths, CLASSES)]
    rows = run_missing(out / "draws.csv", COLUMNS, plan, draw)
    (out / "table.md").write_text(table(rows), encoding="utf-8")
    write_made(out / "made.json", ("scipy",), seed="the number of the draw")
    click.echo(table(rows))


if __name__ == "__main__":
    evidence()
