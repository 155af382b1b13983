"""Recovery behind losses of one's own, on real tables with boosted trees.

`python -m benchmarks.own_loss TABLES -o results/own-loss` trains XGBoost and LightGBM with
cross-entropy, an asymmetric loss and PolyFocal on two-class tables (`X`, `y` in .npz files), the
number of rounds chosen on a validation part by each loss itself, and writes rows.csv, meta.json
and README.md: test log loss of the raw scores, after recovery, and of training with cross-entropy.
"""

from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np
from scipy.special import expit
from sklearn.model_selection import train_test_split

from benchmarks._study import Record, markdown, run_missing, write_made
from focalibrate.boosting import FocalObjective
from focalibrate.theory import loss_form

TABLES = ("phoneme", "spambase", "keel_magic", "diabetes", "credit_g")
LOSSES = {
    "cross-entropy": loss_form("focal", gamma=0.0),
    "asymmetric": loss_form("asymmetric", gamma_pos=1.0, gamma_neg=3.0, margin=0.0),
    "PolyFocal": loss_form("poly_focal", gamma=2.0, epsilon=1.0),
}
LIBRARIES = ("xgboost", "lightgbm")
SEEDS = (0, 1, 2)
ROUNDS = range(5, 151, 5)
COLUMNS = ("table", "library", "loss", "seed", "rounds", "raw", "recovered", "error of raw")


def log_losses(p: Any, y: Any) -> Any:
    """Return the log loss of each row."""
    return -np.log(np.clip(np.where(y == 1, p, 1.0 - p), 1e-12, None))


def margins_of(library: str, objective: FocalObjective, train: Any, *others: Any) -> Any:
    """Return, for each set of rows, margins ``[rounds, N]`` after every number of rounds."""
    x, y = train
    last = ROUNDS[-1]
    if library == "xgboost":
        import xgboost

        data = xgboost.DMatrix(x, label=y)
        settings = {"max_depth": 4, "eta": 0.1, "base_score": 0.0, "nthread": 1, "verbosity": 0}
        model = xgboost.train(settings, data, last, obj=objective)
        return [
            [
                model.predict(xgboost.DMatrix(z), output_margin=True, iteration_range=(0, r))
                for r in ROUNDS
            ]
            for z in others
        ]
    import lightgbm

    settings = {
        "objective": objective,
        "num_leaves": 15,
        "learning_rate": 0.1,
        "verbosity": -1,
        "num_threads": 1,
    }
    model = lightgbm.train(settings, lightgbm.Dataset(x, label=y), last)
    return [[model.predict(z, num_iteration=r, raw_score=True) for r in ROUNDS] for z in others]


def run(x: Any, y: Any, library: str, loss: str, seed: int) -> dict[str, Any]:
    """Return the row of one training."""
    objective = FocalObjective(loss=LOSSES[loss])
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.3, random_state=seed, stratify=y)
    x, x_val, y, y_val = train_test_split(x, y, test_size=0.25, random_state=seed, stratify=y)
    on_val, on_test = margins_of(library, objective, (x, y), x_val, x_test)
    rows = np.arange(len(y_val))

    def own_loss(z: Any) -> float:
        both = z if LOSSES[loss].head == "sigmoid" else np.stack([0.0 * z, z], axis=1)
        return float(
            np.asarray(LOSSES[loss].by_label(np.asarray(both, float)))[rows, y_val].mean()
        )

    best = int(np.argmin([own_loss(np.asarray(z)) for z in on_val]))
    z = np.asarray(on_test[best], dtype=float)
    raw, recovered = expit(z), objective.probs(z)[:, 1]
    return {
        "rounds": ROUNDS[best],
        "raw": float(log_losses(raw, y_test).mean()),
        "recovered": float(log_losses(recovered, y_test).mean()),
        "error of raw": float(((raw > 0.5) != y_test).mean()),
    }


PAGE = """\
# True probabilities behind an asymmetric loss and PolyFocal

Test log loss of boosted trees: the sigmoid of their scores, the same scores after \
recovery by the closed form of the loss, and trees trained with cross-entropy. The \
difference is recovered minus cross-entropy, with two standard errors over the seeds.

{table}
{others}

Command: `python -m benchmarks.own_loss TABLES -o DIR`.
"""


def summary(rows: list[Record]) -> str:
    """Return the page of the folder."""

    def of(table: str, library: str, loss: str, column: str) -> Any:
        found = [
            r[column]
            for r in rows
            if (r["table"], r["library"], r["loss"]) == (table, library, loss)
        ]
        return np.asarray(found, dtype=float)

    body = []
    for table, library in product(TABLES, LIBRARIES):
        plain = of(table, library, "cross-entropy", "recovered")
        for loss in ("asymmetric", "PolyFocal"):
            raw, back = (of(table, library, loss, name) for name in ("raw", "recovered"))
            if len(back) and len(back) == len(plain):
                means = [f"{x.mean():.4f}" for x in (raw, back, plain)]
                body.append((table, library, loss, *means, with_error(back - plain)))
    head = ("table", "library", "loss", "raw scores", "recovered", "cross-entropy", "difference")
    others = (
        "networks.md: small networks, one per loss. minima.csv: random posteriors, the minimum of "
        "their risk, and how many are recovered from it."
    )
    return PAGE.format(table=markdown(head, body), others=others)


def with_error(gap: Any) -> str:
    """Return a mean difference with two standard errors over the seeds."""
    return f"{gap.mean():+.4f} ± {2.0 * gap.std(ddof=1) / np.sqrt(len(gap)):.4f}"


@click.command()
@click.argument("tables", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path("results/own-loss"))
def main(tables: Path, out: Path) -> None:
    """Train on TABLES and write the comparison; a second call goes on where the first stopped."""

    def run_one(table: str, library: str, loss: str, seed: int) -> list[Any]:
        with np.load(tables / f"{table}.npz", allow_pickle=False) as data:
            x, y = data["X"], (data["y"] == data["y"].max()).astype(int)
        return [*run(x, y, library, loss, seed).values()]

    rows = run_missing(
        out / "rows.csv", COLUMNS, product(TABLES, LIBRARIES, LOSSES, SEEDS), run_one
    )
    write_made(out / "meta.json", ("xgboost-cpu", "lightgbm"), seeds=SEEDS)
    (out / "README.md").write_text(summary(rows))


if __name__ == "__main__":
    main()
