"""How often the gate decides wrongly: `python -m benchmarks.gate -o results/gate`.

Outcomes are drawn from a known posterior, so that the true calibration error is known. For each
setting the limit is exactly the true error (the hardest case of a model within its limit), or the
model is calibrated and the limit is 0.02. Counted: how often the gate fails a model within its
limit (must be at most alpha), and how often it passes one whose error is a quarter above the
limit.
"""

import math
from pathlib import Path
from typing import Any

import click
import numpy as np
from scipy.special import log_softmax, softmax

from benchmarks._study import Record, markdown, run_missing, write_made
from focalibrate.metrics import calibration_bounds
from focalibrate.metrics.interval import Moments
from focalibrate.pipeline import LossMean, check_predictions

ALPHA = 0.05
SHAPES = ("calibrated", "overconfident", "underconfident", "wave", "spot")
SETTINGS = tuple(
    (n, k, sharp) for n in (200, 2000) for k, sharp in ((2, 1.0), (2, 4.0), (10, 1.0), (10, 4.0))
)
COLUMNS = ("limit_on", "n", "k", "sharpness", "shape", "runs", "limit", "false_fail", "false_pass")
GROUP_COLUMNS = ("groups", "n", "k", "sharpness", "shape", "runs", "limit", "false_fail")


def accuracy(confidence: Any, size: float, shape: str) -> Any:
    """Return the true accuracy given the confidence, off by `size` in one of several ways."""
    rank = np.argsort(np.argsort(confidence)) / len(confidence)
    change = {
        "calibrated": 0.0,
        "overconfident": -size,
        "underconfident": size,
        "wave": size * np.sign(np.sin(8 * math.pi * rank)),
        "spot": np.where(rank < 0.2, -5 * size, 0.0),
    }[shape]
    return np.clip(confidence + change, 0.0, 1.0)


def draw(rng: np.random.Generator, n: int, k: int, sharp: float, size: float, shape: str) -> Any:
    """Return probabilities, labels and the true errors (ECE, RMS) over 15 bins of equal mass."""
    probs = softmax(sharp * rng.normal(size=(n, k)), axis=1)
    confidence, top = probs.max(axis=1), probs.argmax(axis=1)
    truth = accuracy(confidence, size, shape)
    hit = rng.uniform(size=n) < truth
    other = (top + rng.integers(1, k, size=n)) % k
    gap = confidence - truth
    return probs, np.where(hit, top, other), gap


def true_errors(probs: Any, gap: Any) -> dict[str, tuple[float, float]]:
    """Return each error without bins (its largest value) and in 15 bins of equal mass."""
    binned = [float(part.mean()) for part in np.array_split(gap[probs.max(axis=1).argsort()], 15)]
    return {
        "ece": (float(np.abs(gap).mean()), float(np.abs(binned).mean())),
        "rms": (math.sqrt(float((gap**2).mean())), math.sqrt(float(np.square(binned).mean()))),
    }


def error_rates(
    error: str, n: int, k: int, sharp: float, shape: str, runs: int, *, seed: int = 0
) -> tuple[float, float, float]:
    """Return how often a model at its limit fails, and one a quarter above its limit passes."""
    rng = np.random.default_rng([seed, n, k, int(sharp), SHAPES.index(shape)])
    failed = passed = 0
    limits = []
    for _ in range(runs):
        probs, labels, gap = draw(rng, n, k, sharp, 0.02, shape)
        whole, binned = true_errors(probs, gap)[error]
        at = 0.02 if shape == "calibrated" else whole
        below = binned / 1.25
        bounds = calibration_bounds(
            probs, labels, error=error, alpha=ALPHA, limit=below, seed=rng
        )  # only the upper bound depends on the limit
        failed += bounds.low > at
        passed += bounds.high < below
        limits.append(at)
    return failed / runs, passed / runs, float(np.mean(limits))


def loss_rates(n: int, k: int, sharp: float, shape: str, runs: int, *, seed: int = 0) -> Any:
    """Return the same for the increase of the log loss, row by row, over a calibrated baseline.

    `shape` is the new model: ``"sharper"`` (logits doubled) or ``"flatter"`` (halved). The limit
    is the true increase, from a million draws.
    """
    factor = {"sharper": 2.0, "flatter": 0.5}[shape]
    rng = np.random.default_rng([seed, n, k, int(sharp)])

    def losses(n_rows: int) -> Any:
        z = sharp * rng.normal(size=(n_rows, k))
        y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
        return z, y

    z, _ = losses(400_000)
    eta = softmax(z, axis=1)
    new, old = (log_softmax(f * z, axis=1) for f in (factor, 1.0))
    true = float((eta * (old - new)).sum(axis=1).mean())
    failed = passed = 0
    for _ in range(runs):
        z, y = losses(n)
        change = LossMean.of(Moments.of(_nll(factor * z, y) - _nll(z, y)))
        failed += change.lower(ALPHA) > true
        passed += change.upper(ALPHA) < true / 1.25
    return failed / runs, passed / runs, true


def _nll(z: Any, labels: Any) -> Any:
    return -log_softmax(z, axis=1)[np.arange(len(labels)), labels]


def group_rates(
    n_groups: int, n: int, k: int, sharp: float, shape: str, runs: int, *, seed: int = 0
) -> tuple[float, float]:
    """Return how often a model fails for any group or for all rows, and the mean limit.

    Every group has `n` rows, and the limit is the largest true error of any group, so the model is
    at its limit in every group. Calibrated models have a limit of 0.005.
    """
    rng = np.random.default_rng([seed, n_groups, n, k, int(sharp), SHAPES.index(shape)])
    groups = np.repeat(np.arange(n_groups), n)
    failed, limits = 0, []
    for _ in range(runs):
        parts = [draw(rng, n, k, sharp, 0.02, shape) for _ in range(n_groups)]
        errors = [true_errors(probs, gap)["ece"][0] for probs, _, gap in parts]
        limit = 0.005 if shape == "calibrated" else max(errors)
        found = check_predictions(
            probs=np.concatenate([p[0] for p in parts]),
            labels=np.concatenate([p[1] for p in parts]),
            groups={"group": groups},
            max_ece=limit,
            alpha=ALPHA,
            seed=int(rng.integers(1 << 30)),
        )
        failed += found.status == "fail"
        limits.append(limit)
    return failed / runs, float(np.mean(limits))


def group_evidence(out: Path, runs: int) -> None:
    """Simulate checks by group; resume where groups.csv ends."""
    plan = [
        (groups, n, k, sharp, shape)
        for k, sharp in ((10, 4.0), (10, 1.0), (2, 4.0))
        for groups, n in ((20, 50), (20, 500), (100, 50))
        for shape in ("calibrated", "overconfident", "wave")
    ]

    def run(*setting: Any) -> tuple[float, ...]:
        n_runs = runs if setting[0] < 100 else runs // 2
        fail, limit = group_rates(*setting, n_runs)
        return n_runs, round(limit, 5), round(fail, 5)

    rows = run_missing(out / "groups.csv", GROUP_COLUMNS, plan, run)
    body = []
    for key in dict.fromkeys((r["groups"], r["n"], r["shape"]) for r in rows):
        rates = [float(r["false_fail"]) for r in rows if (r["groups"], r["n"], r["shape"]) == key]
        body.append((*key, f"{np.mean(rates):.3f}", f"{max(rates):.3f}"))
    head = ("groups", "rows each", "model", "false fails, mean", "worst")
    (out / "groups.md").write_text(markdown(head, body))


@click.command()
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True)
@click.option("--runs", default=300, show_default=True)
@click.option("--groups", is_flag=True, help="Simulate checks by group instead.")
def evidence(out: Path, runs: int, groups: bool) -> None:
    """Simulate every setting; resume where rows.csv ends."""
    if groups:
        group_evidence(out, runs)
        return
    plan = [(e, *s, shape) for e in ("ece", "rms") for s in SETTINGS for shape in SHAPES]
    plan += [("nll_increase", *s, shape) for s in SETTINGS for shape in ("sharper", "flatter")]
    # Models of ten classes at their limit come first: they matter most if the run is cut short.
    first = ("overconfident", "wave", "sharper", "flatter")
    plan.sort(key=lambda job: (job[4] not in first, job[2] != 10))

    def run(kind: str, *setting: Any) -> tuple[float, ...]:
        is_loss = kind == "nll_increase"
        rates = loss_rates(*setting, runs) if is_loss else error_rates(kind, *setting, runs)
        fail, ok, limit = (round(x, 5) for x in rates)
        return runs, limit, fail, ok

    rows = run_missing(out / "rows.csv", COLUMNS, plan, run)
    (out / "tables.md").write_text(rates_table(rows))
    worst = {
        kind: max(float(r["false_fail"]) for r in rows if r["limit_on"] == kind)
        for kind in sorted({r["limit_on"] for r in rows})
    }
    facts = {"alpha": ALPHA, "settings": f"{len(rows)} of {len(plan)}", "worst_false_fail": worst}
    write_made(out / "summary.json", ("scipy",), **facts)
    click.echo(rates_table(rows))


def rates_table(rows: list[Record]) -> str:
    """Return the worst and the mean rate per limit, model and number of rows."""
    body = []
    for kind, shape, n in dict.fromkeys((r["limit_on"], r["shape"], r["n"]) for r in rows):
        same = [r for r in rows if (r["limit_on"], r["shape"], r["n"]) == (kind, shape, n)]
        fail, ok = ([float(r[c]) for r in same] for c in ("false_fail", "false_pass"))
        rates = (np.mean(fail), max(fail), max(ok))
        body.append((kind, shape, f"{int(n):,}", *(f"{rate:.3f}" for rate in rates)))
    head = ("limit on", "model", "rows", "false fails, mean", "worst", "false passes, worst")
    return markdown(head, body)


if __name__ == "__main__":
    evidence()
