"""The pages for the browser tests, made once: each is a job for browser/run.mjs."""

import json
import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.browser import examples

from focalibrate import calibrate_predictions
from focalibrate.pipeline import (
    Examples,
    compare_models,
    evaluate_predictions,
    evaluation_page,
    models_page,
)
from focalibrate.report import (
    Provenance,
    write_report,
)
from focalibrate_papers.datasets import Split, load
from focalibrate_papers.dynamics_page import write_dynamics
from focalibrate_papers.train import Recipe, train

REPORTS = ("k2", "k3", "k1000")
HOSTILE = examples.HOSTILE
RECIPE = Recipe(
    dataset="overlap_1d",
    model="mlp",
    size={"hidden": [8]},
    epochs=6,
    batch=100,
    lr=0.05,
    fraction=0.1,
    milestones=(0.5,),
)
RUNS = {
    "whole": (RECIPE, 1),
    "seldom": (replace(RECIPE, keep="best", gamma=2.0), 4),
    "one_epoch": (replace(RECIPE, epochs=1, milestones=()), 1),
}
COPIES = ("hostile", "no_last_layer")
"""The run "whole", changed after it was trained."""
RESIZED = ("whole", "hostile")
"""Runs also looked at on small windows and on paper."""
THOROUGH = ("k3", "whole")
"""Pages also looked at by axe in the dark and on a phone: it takes seconds each time."""
MADE = Provenance(command="focalibrate train", version="0.1.0", seed=0, made_at="2026-11-15")

_Rows = tuple[NDArray[np.float64], NDArray[np.int64]]


def two_classes(rng: np.random.Generator) -> _Rows:
    """Forty rows."""
    logits = np.array([0.0, 1.0]) * 3 * rng.normal(size=(40, 1))
    return logits, (logits[:, 1] + rng.logistic(size=40) > 0).astype(int)


def every_row_right(rng: np.random.Generator) -> _Rows:
    """A model that makes no mistake."""
    logits = 4 * rng.normal(size=(60, 3))
    return logits, logits.argmax(axis=1)


def a_class_never_seen(rng: np.random.Generator) -> _Rows:
    """The last class is never a label."""
    logits = 2 * rng.normal(size=(80, 5))
    logits[:, 4] -= 30
    labels = (logits[:, :4] + rng.gumbel(size=(80, 4))).argmax(axis=1)
    return logits, labels


def impossible_classes(rng: np.random.Generator) -> _Rows:
    """Logits of -inf."""
    logits = 2 * rng.normal(size=(80, 6))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    mask = (rng.random(logits.shape) < 0.3) & (np.arange(6) != labels[:, None])
    logits[mask] = -np.inf
    return logits, labels


def constant_logits(rng: np.random.Generator) -> _Rows:
    """A model whose scores carry no information."""
    return np.zeros((50, 4)), rng.integers(4, size=50)


def huge_logits(rng: np.random.Generator) -> _Rows:
    """Confidences of exactly 1."""
    return 1e4 * rng.normal(size=(50, 3)), rng.integers(3, size=50)


EDGES: tuple[Callable[[np.random.Generator], _Rows], ...] = (
    two_classes,
    every_row_right,
    a_class_never_seen,
    impossible_classes,
    constant_logits,
    huge_logits,
)


def make_jobs(folder: Path) -> dict[str, dict[str, Any]]:
    """Write all pages into `folder`, and return what is to be done with them."""
    jobs = {}
    for name in REPORTS:
        examples.make(name, folder)
        script = json.loads((folder / f"{name}.json").read_text())["script"]
        jobs[name] = _job("observe", folder / f"{name}.html", _thorough(script, name))
    for case in EDGES:
        page, script = _edge(folder, case)
        jobs[case.__name__] = _job("read", page, script)
    for path in _models(folder):
        jobs[path.stem] = _job("glance", path, {})
    for name in (*RUNS, *COPIES):
        page = _run(folder, name)
        jobs[name] = _job("dynamics", page, _thorough({"isResized": name in RESIZED}, name))
    return jobs


def _thorough(script: dict[str, Any], name: str) -> dict[str, Any]:
    return script | {"isThorough": name in THOROUGH}


def _job(kind: str, path: Path, script: dict[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "path": str(path), "script": script}


def _edge(
    folder: Path, case: Callable[[np.random.Generator], _Rows]
) -> tuple[Path, dict[str, Any]]:
    logits, labels = case(np.random.default_rng(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = calibrate_predictions(
            logits=logits,
            labels=labels,
            methods=["temperature", "histogram"],
            trained_gamma=None if case is two_classes else 0.0,
            n_resamples=5,
        )
        data = found.page_data()
    path = folder / f"{case.__name__}.html"
    write_report(path, data)
    return path, {} if case is two_classes else {"gamma": 1.5}


def _models(folder: Path) -> tuple[Path, Path]:
    """Three models side by side, and the first by itself."""
    logits, labels = examples.simulate(replace(examples.MODELS["k3"], n=600), seed=0)
    evaluated = [
        evaluate_predictions(
            Examples.of_arrays(logits=scale * logits, labels=labels), name=name, n_resamples=20
        )
        for scale, name in ((1.0, HOSTILE), (0.5, "b"), (0.4, "a name without end " * 8))
    ]
    side_by_side, alone = folder / "models.html", folder / "evaluation.html"
    page = models_page(compare_models(evaluated, n_resamples=20))
    side_by_side.write_text(page, encoding="utf-8")
    alone.write_text(evaluation_page(evaluated[0]), encoding="utf-8")
    scores = {str(name): score.estimate for name, score in evaluated[0].scores.items()}
    alone.with_suffix(".json").write_text(json.dumps(scores))
    return side_by_side, alone


def _run(folder: Path, name: str) -> Path:
    """Train, or change a copy of the first run, and write what the page should show."""
    out = folder / name
    if name in COPIES:
        shutil.copytree(folder / "whole", out)
        shutil.copy(folder / "whole.json", folder / f"{name}.json")
        change = {"hostile": _hostile, "no_last_layer": _without_last_layer}[name]
        change(out)
    else:
        recipe, look_every = RUNS[name]
        data = load("overlap_1d", fraction=0.1)
        data = replace(data, test=Split(data.test.inputs[:500], data.test.labels[:500]))
        arrays = train(recipe, out=out, dataset=data, look_every=look_every).dynamics.arrays
        errors = {key: x.tolist() for key, x in arrays.items() if key.endswith("_ece")}
        (folder / f"{name}.json").write_text(json.dumps(errors))
    return write_dynamics(out, provenance=MADE)


def _hostile(out: Path) -> None:
    recipe = out / "recipe.toml"
    text = recipe.read_text().replace('"overlap_1d"', json.dumps(HOSTILE))
    assert "hacked" in text
    recipe.write_text(text)


def _without_last_layer(out: Path) -> None:
    """Change the run into one of a network without recorded gradients."""
    with np.load(out / "dynamics.npz") as found:
        arrays = {name: found[name] for name in found.files}
    arrays["weight_norm"][:] = np.nan
    for split in ("train", "validation", "test"):
        arrays[f"{split}_gradient_histogram"][:] = 0
    np.savez(out / "dynamics.npz", **arrays)
