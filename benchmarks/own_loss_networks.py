"""Recovery behind losses of one's own, with small networks on handwritten digits.

`python -m benchmarks.own_loss_networks -o results/own-loss` trains a small network for each named
loss on scikit-learn's digits, the epoch chosen on a validation part by the loss itself, and writes
networks.csv and networks.md: test log loss of the softmax, after recovery, and of training with
cross-entropy; and the gap between test and training loss, which decides where recovery can help.
"""

from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks._study import Record, markdown, run_missing
from benchmarks.own_loss import with_error
from focalibrate.nn import NamedLoss

COUNTS = tuple(float(n) for n in np.bincount(load_digits().target))
LOSSES: dict[str, dict[str, Any]] = {
    "cross-entropy": {"loss": "focal", "gamma": 0.0},
    "focal": {"loss": "focal", "gamma": 2.0},
    "PolyFocal": {"loss": "poly_focal", "gamma": 2.0, "epsilon": 1.0},
    "BSCE": {"loss": "bsce", "beta": 2.0},
    "BSCE-GRA": {"loss": "bsce_gra", "beta": 2.0},
    "focal calibration": {"loss": "focal_calibration", "gamma": 2.0, "weight": 0.5},
    "class-balanced": {"loss": "class_balanced", "counts": COUNTS, "beta": 0.999, "gamma": 1.0},
    "logit-adjusted": {
        "loss": "logit_adjusted",
        "frequencies": tuple(n / sum(COUNTS) for n in COUNTS),
        "tau": 1.0,
    },
}
SEEDS = range(5)
EPOCHS, BATCH, NOISE = 60, 64, 0.4
COLUMNS = ("loss", "seed", "epoch", "raw", "recovered", "train", "test")


def noise(x: Tensor) -> Tensor:
    """Return random numbers to add to pixels."""
    return NOISE * torch.randn(x.shape)


def run(x: Any, y: Any, name: str, seed: int) -> tuple[float, ...]:
    """Return epoch, log losses and losses of one training."""
    torch.manual_seed(seed)
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.4, random_state=seed, stratify=y)
    x, x_val, y, y_val = train_test_split(x, y, test_size=0.25, random_state=seed, stratify=y)
    pairs = ((x, y), (x_val, y_val), (x_test, y_test))
    train, val, test = (
        (torch.tensor(a / 16, dtype=torch.float32), torch.tensor(b)) for a, b in pairs
    )
    # Noise makes the digits hard; in training it is drawn anew for each batch, so that training
    # and test loss can agree.
    val, test, seen = ((a + noise(a), b) for a, b in (val, test, train))
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    criterion = NamedLoss(**LOSSES[name])
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    best, kept = float("inf"), (0, {})
    for epoch in range(EPOCHS):
        for rows in torch.randperm(len(train[1])).split(BATCH):
            optimiser.zero_grad()
            batch = train[0][rows]
            criterion(model(batch + noise(batch)), train[1][rows]).backward()
            optimiser.step()
        with torch.no_grad():
            now = float(criterion(model(val[0]), val[1]))
        if now < best:
            best, kept = now, (epoch, {k: v.clone() for k, v in model.state_dict().items()})
    model.load_state_dict(kept[1])
    with torch.no_grad():
        on_train, on_test = (criterion(model(x), y).item() for x, y in (seen, test))
        z = model(test[0]).double()

    def nll(scores: Tensor) -> float:
        return float(cross_entropy(scores, test[1]))

    recovered = nll(criterion.recover(z).log())
    return kept[0], nll(z), recovered, on_train, on_test


def summary(rows: list[Record]) -> str:
    """Return the page."""

    def of(loss: str, column: str) -> Any:
        return np.array([float(row[column]) for row in rows if row["loss"] == loss])

    plain, body = of("cross-entropy", "recovered"), []
    for loss in LOSSES:
        raw, back = of(loss, "raw"), of(loss, "recovered")
        ratio = (of(loss, "test") / of(loss, "train")).mean()
        cells = (f"{raw.mean():.4f}", f"{back.mean():.4f}", with_error(back - plain))
        body.append((loss, *cells, f"{ratio:.2f}"))
    head = ("loss", "softmax", "recovered", "difference", "test / training loss")
    return PAGE.format(table=markdown(head, body), n_seeds=len(SEEDS))


PAGE = """\
# Small networks on noisy digits

Test log loss over {n_seeds} seeds; the difference is recovered minus cross-entropy, \
with two standard errors. The last column is the test loss divided by the training \
loss, each by the loss trained with: recovery undoes the loss, not an overfit.

{table}
Command: `python -m benchmarks.own_loss_networks`.
"""


@click.command()
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path("results/own-loss"))
def main(out: Path) -> None:
    """Train, recover and write networks.csv and networks.md."""
    torch.set_num_threads(1)
    x, y = load_digits(return_X_y=True)
    rows = run_missing(
        out / "networks.csv",
        COLUMNS,
        product(LOSSES, SEEDS),
        lambda name, seed: run(x, y, name, seed),
    )
    (out / "networks.md").write_text(summary(rows))


if __name__ == "__main__":
    main()
