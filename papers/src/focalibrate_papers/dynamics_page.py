"""The page of a training run: metrics per epoch."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._stable import log_softmax
from focalibrate.metrics import adaptive_ece, ece, nll
from focalibrate.report import SCHEMA_VERSION, PageData, Provenance, write_report
from focalibrate.report.records import short, shorts

DYNAMICS_PAGE = "dynamics.html"
N_POINTS = 600
"""Most epochs that a curve is drawn through."""
N_PICTURES = 80
"""Most epochs that have a reliability diagram and a histogram."""
SPLITS = ("train", "validation", "test")
FILES = ("recipe.toml", "versions.json", "dynamics.npz", "val.npz", "test.npz")

_Arrays = Mapping[str, NDArray[Any]]


def write_dynamics(folder: str | Path, *, provenance: Provenance) -> Path:
    """Write dynamics.html into the folder of a finished run, and return its path.

    Args:
        folder: what `focalibrate train` filled. Nothing of it needs torch to be read.
        provenance: how the page was made.

    Raises:
        ValueError: the folder holds no finished run.
    """
    path = Path(folder) / DYNAMICS_PAGE
    write_report(path, dynamics_data(folder, provenance=provenance))
    return path


def dynamics_data(folder: str | Path, *, provenance: Provenance) -> PageData:
    """Gather what the page of a run shows; see `write_dynamics`."""
    import tomllib

    folder, static = Path(folder), files("focalibrate_papers") / "static"
    absent = [name for name in FILES if not (folder / name).is_file()]
    if absent:
        raise ValueError(
            f"{folder}: has no {absent[0]}, so it is not the folder of a finished run. Finish it "
            "by the `focalibrate train` command that began it."
        )
    recipe = tomllib.loads((folder / "recipe.toml").read_text(encoding="utf-8"))
    with np.load(folder / "dynamics.npz") as found:
        arrays = {name: found[name] for name in found.files}
    epochs = len(arrays["loss"])
    best = recipe.get("keep") == "best"
    kept_epoch = int(np.argmin(arrays["validation_error"])) + 1 if best else epochs
    kept = {
        split: _judged(folder / file)
        for split, file in (("validation", "val.npz"), ("test", "test.npz"))
    }
    return PageData(
        {
            "schema": SCHEMA_VERSION,
            "kind": "dynamics",
            "title": f"{recipe['model']} on {recipe['dataset']}",
            "verdict": _headline(kept["test"], kept_epoch),
            "epochs": epochs,
            "kept_epoch": kept_epoch,
            "kept_best": best,
            "kept": kept,
            "curves": _curves(arrays, epochs),
            "pictures": {split: _pictures(arrays, split) for split in SPLITS},
            "gradient_edges": shorts(np.log10(arrays["gradient_edges"][1:-1])),
            "recipe": {name: _text(value) for name, value in recipe.items()},
            "scale": float(recipe.get("scale", 1.0)),
            "versions": json.loads((folder / "versions.json").read_text(encoding="utf-8")),
            "seconds": _seconds(folder),
            "next": [next_command(folder, recipe)],
            "provenance": asdict(provenance) | {"files": [asdict(f) for f in provenance.files]},
        },
        script=(static / "dynamics.js").read_text(encoding="utf-8"),
    )


def next_command(folder: str | Path, recipe: Mapping[str, Any]) -> str:
    """Return what to do with a finished run: calibrate it, with the exponent it was trained with.

    Example:
        >>> next_command("run", {"loss": "focal", "gamma": 2.0})
        'focalibrate calibrate run/val.npz --test run/test.npz --trained-gamma 2'
    """
    run = Path(folder)
    val, test = (shlex.quote(str(run / name)) for name in ("val.npz", "test.npz"))
    gamma = recipe.get("gamma", 0.0)
    is_focal = recipe.get("loss", "focal") == "focal" and not isinstance(gamma, str) and gamma > 0
    trained = f" --trained-gamma {gamma:g}" if is_focal else ""
    return f"focalibrate calibrate {val} --test {test}{trained}"


def _judged(path: Path) -> dict[str, Any]:
    """Return the metrics of the network that was kept, from its outputs."""
    with np.load(path) as found:
        logits, labels = found["logits"].astype(np.float64), found["labels"]
    log_probs = log_softmax(logits)
    probs = np.exp(log_probs)
    correct = probs.argmax(axis=-1) == labels
    return {
        "n": len(labels),
        "error": short(1.0 - correct.mean()),
        "ece": short(ece(probs, labels)),
        "adaptive_ece": short(adaptive_ece(probs, labels)),
        "nll": short(nll(labels=labels, log_probs=log_probs)),
        "gap": short(probs.max(axis=-1).mean() - correct.mean()),
    }


def _headline(test: Mapping[str, Any], epoch: int) -> str:
    return (
        f"Test error {test['error']:.2%}, calibration error {test['ece']:.2%} after epoch {epoch}"
    )


def _curves(arrays: _Arrays, epochs: int) -> dict[str, Any]:
    """Return every metric with one number per epoch, if it was recorded."""
    found = {}
    for name, values in arrays.items():
        if values.ndim == 1 and len(values) == epochs and name != "gradient_edges":
            rows = thinned(np.flatnonzero(np.isfinite(values)), N_POINTS)
            found[name] = {"epoch": (rows + 1).tolist(), "value": shorts(values[rows], 5)}
    return found


def _pictures(arrays: _Arrays, split: str) -> list[dict[str, Any]]:
    """Return reliability tables and gradient histograms of the epochs looked at."""
    tables, norms = arrays[f"{split}_reliability"], arrays[f"{split}_gradient_histogram"]
    seen = thinned(np.flatnonzero(np.isfinite(tables[:, 0, 0])), N_PICTURES)
    return [
        {"epoch": int(row) + 1, "table": _table(tables[row]), "gradients": norms[row].tolist()}
        for row in seen
    ]


def _table(sums: NDArray[np.float64]) -> dict[str, Any]:
    """Return the bins that hold examples, from count, sum of confidence and number correct."""
    count, confidence, correct = sums[:, sums[0] > 0]
    return {
        "count": count.astype(int).tolist(),
        "confidence": shorts(confidence / count),
        "accuracy": shorts(correct / count),
        "ece": short(float(np.abs(confidence - correct).sum() / count.sum())),
    }


def thinned(rows: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """Return at most `most` of the rows, evenly spaced, with the first and the last."""
    if len(rows) <= most:
        return rows
    chosen: NDArray[np.intp] = rows[
        np.unique(np.linspace(0, len(rows) - 1, most).round().astype(int))
    ]
    return chosen


def _seconds(folder: Path) -> float | None:
    path = folder / "time.json"
    if not path.exists():
        return None
    seconds = json.loads(path.read_text(encoding="utf-8"))["seconds"]
    return None if seconds is None else float(seconds)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
