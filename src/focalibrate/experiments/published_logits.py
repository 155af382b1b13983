"""Temperature and focal temperature scaling on the published outputs of real models.

Run it with the folder of outputs (see `read_sets` for what it must hold)::

    python -m focalibrate.experiments.published_logits --data LOGITS -o results/published-logits
"""

import argparse
import csv
import io
import json
import platform
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import Compared, Comparison, compare
from focalibrate.data import as_logits, atomic_path, read_predictions
from focalibrate.metrics import BootstrapInterval, MetricName

METHODS = {
    "identity": "raw",
    "posterior": "Ψ",
    "temperature": "TS_NLL",
    "temperature_ece": "TS_ECE",
    "focal_temperature_nll": "FTS_NLL",
    "focal_temperature": "FTS",
}
"""Methods compared, by the names the literature gives them; both ECE fits take AdaECE."""
TRAINED_GAMMA = {"cifar10_resnet50_focalrepo_aigen": 3.0}
"""Exponents of the training loss, where there is one.

That set's figures are those of paper 002's sample-wise exponent: 3 where the true class has a
probability of at least 0.2, which is nearly everywhere, and 5 below.
"""
COLUMNS: tuple[MetricName, ...] = ("ece", "adaptive_ece", "nll", "error")
COUNTED: tuple[MetricName, ...] = ("adaptive_ece", "nll")
SEED = 0


@dataclass(frozen=True, eq=False)
class PublishedSet:
    """Outputs of one model: rows to fit on and rows to judge on."""

    name: str
    split: str
    """where the two parts come from"""
    fit_logits: NDArray[Any]
    fit_labels: NDArray[np.int64]
    test_logits: NDArray[Any]
    test_labels: NDArray[np.int64]
    checksum: str
    """SHA-256 of the file"""


@dataclass(frozen=True, eq=False)
class Judged:
    """One set with its methods side by side."""

    name: str
    split: str
    checksum: str
    comparison: Comparison


def read_sets(folder: str | Path) -> Iterator[PublishedSet]:
    """Yield the outputs in each ``.npz`` of `folder` that a calibrator can be fitted on.

    A file holds ``<part>_logits`` or ``<part>_probs`` with ``<part>_labels``. Where it has the
    parts ``val`` and ``test``, these are used; else ``all`` or ``test`` is cut into two halves
    at random by `SEED`. Rows a model was trained on (``train``) are left alone, and so are files
    with top labels only.
    """
    for path in sorted(Path(folder).glob("*.npz")):
        with np.load(path) as data:
            keys = set(data.files)
        parts = {key.rsplit("_", 1)[0] for key in keys if key.endswith(("_logits", "_probs"))}
        parts = {part for part in parts if f"{part}_labels" in keys}
        if {"val", "test"} <= parts:
            fit, test = _part(path, "val", keys), _part(path, "test", keys)
            yield PublishedSet(path.stem, "val and test", *fit[:2], *test[:2], test[2])
        elif parts & {"all", "test"}:
            part = "all" if "all" in parts else "test"
            logits, labels, checksum = _part(path, part, keys)
            first, second = halves(len(labels))
            yield PublishedSet(
                path.stem,
                f"halves of {part}",
                logits[first],
                labels[first],
                logits[second],
                labels[second],
                checksum,
            )


def halves(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the row numbers of two random halves of `n` rows, each in rising order."""
    order = np.random.default_rng(SEED).permutation(n)
    return np.sort(order[: n // 2]), np.sort(order[n // 2 :])


def _part(path: Path, part: str, keys: set[str]) -> tuple[NDArray[Any], NDArray[np.int64], str]:
    kind = "logits" if f"{part}_logits" in keys else "probs"
    named = {f"{kind}_key": f"{part}_{kind}", "labels_key": f"{part}_labels"}
    found = read_predictions(path, need_labels=True, **named)  # type: ignore[arg-type]
    if found.labels is None:
        raise ValueError(f"{path}: `{part}_labels` must be given.")
    return as_logits(found), found.labels, found.checksum


def judge(published: PublishedSet, *, n_resamples: int = 1000) -> Judged:
    """Fit every method on one part of a set and judge it on the other."""
    gamma = TRAINED_GAMMA.get(published.name)
    comparison = compare(
        published.fit_logits,
        published.fit_labels,
        published.test_logits,
        published.test_labels,
        methods=[m for m in METHODS if m != "posterior" or gamma is not None],
        trained_gamma=gamma,
        n_resamples=n_resamples,
        seed=SEED,
    )
    return Judged(published.name, published.split, published.checksum, comparison)


def table_csv(judged: Iterable[Judged]) -> str:
    """Return one line a set and method, fractions to six digits."""
    head = ["set", "split", "n_fit", "n_judged", "n_classes", "method", "calibrator"]
    for name in COLUMNS:
        head += [name, f"{name}_low", f"{name}_high"]
    for name in COUNTED:
        head += [f"{name}_less_ts_nll", f"{name}_less_ts_nll_low", f"{name}_less_ts_nll_high"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    for one in judged:
        found = one.comparison
        sizes = [found.n_fitted, found.n_judged, found.n_classes]
        for row in found.rows:
            numbers = [row.scores[name] for name in COLUMNS]
            numbers += [_less_ts(row)[name] for name in COUNTED]
            writer.writerow(
                [one.name, one.split, *sizes, METHODS[row.method], row.calibrator.describe()]
                + [f"{x:.6f}" for i in numbers for x in (i.estimate, i.low, i.high)]
            )
    return out.getvalue()


def table_markdown(judged: Sequence[Judged]) -> str:
    """Return the counts, then one line a set and method, as Markdown tables."""
    lines = ["| method | against | metric | lower | not told apart | higher |", "|-" * 6 + "|"]
    for method, against, metric, verdicts in _counts(judged):
        lower, higher = verdicts.count(-1), verdicts.count(1)
        open_ = len(verdicts) - lower - higher
        names = (METHODS[method], METHODS[against], _SHOWN[metric])
        lines.append(_line(*names, *map(str, (lower, open_, higher))))
    lines += ["", "| set | method | ECE % | AdaECE % | NLL | error % |", "|-" * 6 + "|"]
    for one in judged:
        for i, row in enumerate(one.comparison.rows):
            cells = [f"`{one.name}`" if i == 0 else "", f"{METHODS[row.method]}{_fitted(row)}"]
            cells += [_percent(row.scores["ece"]), _percent(row.scores["adaptive_ece"])]
            nll = row.scores["nll"]
            cells.append(f"{nll.estimate:.4f} [{nll.low:.4f}, {nll.high:.4f}]")
            cells.append(f"{100 * row.scores['error'].estimate:.2f}")
            lines.append(_line(*cells))
    return "\n".join(lines) + "\n"


_SHOWN: dict[MetricName, str] = {"adaptive_ece": "AdaECE", "nll": "NLL"}


def _counts(
    judged: Sequence[Judged],
) -> Iterator[tuple[str, str, MetricName, list[int]]]:
    """Yield, for each pair of methods, -1, 0 or 1 a set: lower, not told apart, higher."""
    pairs = [("temperature", "identity"), ("focal_temperature", "identity")]
    pairs += [(m, "temperature") for m in METHODS if m not in ("identity", "temperature")]
    pairs.append(("focal_temperature", "temperature_ece"))
    for method, against in pairs:
        for metric in COUNTED:
            verdicts = []
            for one in judged:
                rows = {row.method: row for row in one.comparison.rows}
                if method in rows:
                    gap = rows[method].card.difference(rows[against].card, metric)
                    verdicts.append(int(gap.low > 0) - int(gap.high < 0))
            yield method, against, metric, verdicts


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _less_ts(row: Compared) -> dict[MetricName, BootstrapInterval]:
    if row.to_temperature is None:
        raise ValueError("`row` must come from a comparison that holds 'temperature'.")
    return row.to_temperature


def _percent(interval: BootstrapInterval) -> str:
    numbers = (100 * x for x in (interval.estimate, interval.low, interval.high))
    return "{:.2f} [{:.2f}, {:.2f}]".format(*numbers)


def _fitted(row: Compared) -> str:
    """Return the parameters of a row's calibrator, as short as they can be read."""
    values = {"gamma": "γ", "temperature": "T"}
    found = [
        f"{letter}={getattr(row.calibrator, name):.4g}"
        for name, letter in values.items()
        if hasattr(row.calibrator, name)
    ]
    return f" ({', '.join(found)})" if found else ""


def _conditions(judged: Sequence[Judged]) -> dict[str, Any]:
    """Return what decides the numbers: seed, bins, intervals, versions, files."""
    packages = ("focalibrate", "numpy", "scipy")
    return {
        "seed": SEED,
        "resamples": judged[0].comparison.n_resamples,
        "bins": judged[0].comparison.n_bins,
        "interval": "95 % basic bootstrap over the rows judged; differences are paired",
        "versions": {"python": platform.python_version()} | {p: version(p) for p in packages},
        "sets": {one.name: {"split": one.split, "sha256": one.checksum} for one in judged},
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Judge every set of a folder and write ``table.csv``, ``table.md`` and ``meta.json``."""
    parser = argparse.ArgumentParser(prog="python -m focalibrate.experiments.published_logits")
    parser.add_argument("--data", type=Path, required=True, help="folder of .npz files")
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--resamples", type=int, default=1000, help="of the bootstrap")
    options = parser.parse_args(arguments)
    started = time.perf_counter()
    judged = []
    for published in read_sets(options.data):
        sys.stderr.write(f"{published.name}\n")
        judged.append(judge(published, n_resamples=options.resamples))
    if not judged:
        parser.error(f"--data must be a folder of .npz files with logits, got {options.data}")
    given = sys.argv[1:] if arguments is None else arguments
    meta = {
        "command": " ".join([parser.prog, *given]),
        "seconds": round(time.perf_counter() - started, 1),
        **_conditions(judged),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("table.csv", table_csv(judged)),
        ("table.md", table_markdown(judged)),
        ("meta.json", json.dumps(meta, indent=1, ensure_ascii=False) + "\n"),
    ):
        with atomic_path(options.out / name, force=True) as beside:
            beside.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
