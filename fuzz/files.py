"""Read mutated files of every format and count what happens: ``python -m fuzz.files --n 1000``.

A file must either be read, with the same result whole and in batches, or be refused with our own
error. Anything else is a bug: another exception, a crash of the process, more than 20 processor
seconds, a message of more than 5,000 characters. Exit status 1 if there was a bug. Every file is
determined by its number and the seed; ``--keep FOLDER`` keeps the files that caused bugs.
"""

import argparse
import hashlib
import json
import multiprocessing
import random
import re
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from focalibrate.calibrate import Calibrator
from focalibrate.io import (
    PredictionFileError,
    as_logits,
    merge_sketches,
    read_predictions,
    read_sketch,
    scan_predictions,
)
from focalibrate.pipeline import check_predictions
from focalibrate_papers.recipe import read_recipe
from fuzz.mutate import mutated
from fuzz.seeds import LABELS, PROBS, SEEDS, boxes, scores_csv, truth

SLOW_SECONDS = 20.0
MAX_MESSAGE = 5000
CHUNK = 400
REPORTED = 5000
MEMORY = "300MB"
"""The memory limit that files are read with: a file that declares more must be refused."""

OTHERS = (".calibrator", ".toml", ".json")
"""Files that are no predictions: whoever reads them raises `ValueError` with their name."""

OPTIONS: list[dict[str, Any]] = [
    {},
    {},
    {},
    {},
    {"need_labels": True},
    {"input": "logits"},
    {"input": "probs"},
    {"input": "percent"},
    {"label_column": "label"},
    {"label_column": -1},
    {"label_column": "none"},
    {"drop_missing": True},
    {"header": True},
    {"header": False},
    {"positive": "cat"},
    {"score_columns": "prob_*"},
    {"ignore": "id"},
    {"by": "id"},
    {"weight_column": "prob_cat"},
    {"class_names": "cat,dog,ox"},
    {"encoding": "cp1252"},
    {"probs_atol": 0.05},
]


@dataclass(frozen=True)
class Outcome:
    """What happened to one file."""

    kind: str
    """"read", "refused", or "bug: ..." with the place."""
    number: int
    detail: str = ""


def outcome(path: Path, number: int, options: dict[str, Any]) -> Outcome:
    """Read one file and return what happened."""
    start = time.process_time()  # not wall time: a busy machine is not a bug
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _use(path, options)
        kind, detail = "read", ""
    except PredictionFileError as error:
        kind, detail = "refused", str(error)
    except ValueError as error:
        is_ours = path.suffix in OTHERS and str(error).startswith(f"{path}: ")
        kind, detail = ("refused", str(error)) if is_ours else _bug(error)
    except Exception as error:
        kind, detail = _bug(error)
    if time.process_time() - start > SLOW_SECONDS:
        kind = "bug: slow"
    if kind == "refused" and len(detail) > MAX_MESSAGE:
        kind = "bug: a message too long"
    return Outcome(kind, number, detail if kind.startswith("bug") else "")


def _use(path: Path, options: dict[str, Any]) -> None:
    if path.suffix == ".calibrator":
        calibrator = Calibrator.load(path)
        calibrator.describe()
        return
    if path.suffix == ".sketch":
        _use_sketch(path)
        return
    if path.suffix == ".toml":
        read_recipe(path)
        return
    if path.name.endswith(".labels.csv"):
        scores = path.with_name("scores.csv")
        scores.write_bytes(scores_csv())
        read_predictions(scores, labels_path=path, max_memory=MEMORY).describe()
        return
    if path.name.endswith(".baseline.json"):
        check_predictions(probs=PROBS, labels=LABELS, baseline=path, max_nll_increase=0.1)
        return
    if path.name.endswith((".boxes.json", ".truth.json")):
        other = path.with_name("other.json")
        is_truth = path.name.endswith(".truth.json")
        other.write_bytes(boxes() if is_truth else truth())
        found, objects = (other, path) if is_truth else (path, other)
        read_predictions(found, truth=objects, max_memory=MEMORY).describe()
        return
    try:
        found = read_predictions(path, max_memory=MEMORY, **options)
    except PredictionFileError as error:
        with suppress(PredictionFileError):
            _scanned(path, options)
        if not error.fixes or "max_memory" in error.fixes[0]:
            raise
        options = {**options, **error.fixes[0]}
        found = read_predictions(path, max_memory=MEMORY, **options)
    with suppress(PredictionFileError):
        scores, labels = _scanned(path, options)
        assert np.array_equal(scores, found.scores, equal_nan=True)
        assert found.labels is None or np.array_equal(labels, found.labels)
    found.describe()
    assert found.scores.ndim == 2
    if found.labels is not None:
        assert found.labels.shape == (found.n_rows,)
        assert 0 <= found.labels.min() <= found.labels.max() < found.n_classes
    if found.kind == "probs":
        assert np.allclose(found.scores.sum(axis=1), 1, atol=1e-4)
    as_logits(found)
    found.layout.rest()


def _use_sketch(path: Path) -> None:
    """Read a sketch; if only its checksum is wrong, correct it, so that the rest is tested."""
    header, _, body = path.read_bytes().partition(b"\n")
    digest = hashlib.sha256(body.removesuffix(b"\n")).hexdigest()
    mended = re.sub(rb'"sha256": "[0-9a-f]{64}"', f'"sha256": "{digest}"'.encode(), header)
    path.write_bytes(mended + b"\n" + body)
    found = read_sketch(path)
    found.describe()
    found.sketch.evaluate(n_draws=19)
    merge_sketches([found, replace(found, checksum="")])


def _scanned(path: Path, options: dict[str, Any]) -> tuple[Any, Any]:
    """Return scores and labels, read in batches."""
    scan = scan_predictions(path, batch_rows=7, max_memory=MEMORY, **options)
    scan.describe()
    found = list(scan.batches())
    labels = [batch.labels for batch in found if batch.labels is not None]
    return np.concatenate([b.scores for b in found]), np.concatenate(labels) if labels else None


def _bug(error: BaseException) -> tuple[str, str]:
    last = traceback.extract_tb(error.__traceback__)[-1]
    ours = [f for f in traceback.extract_tb(error.__traceback__) if "/focalibrate/" in f.filename]
    place = ours[-1] if ours else last
    name = f"{Path(place.filename).name}:{place.lineno}"
    return f"bug: {type(error).__name__} at {name}", str(error)[:200]


@lru_cache
def _seed(name: str) -> bytes:
    return SEEDS[name][1]()


def one_file(name: str, number: int, *, seed: int, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Write the file with this number and return it with the options to read it with."""
    rng = random.Random(f"{seed}/{name}/{number}")
    suffix, _ = SEEDS[name]
    path = folder / f"file{suffix}"
    path.write_bytes(mutated(name, _seed(name), rng))
    return path, rng.choice(OPTIONS)


def _chunk(names: Sequence[str], numbers: range, seed: int, keep: str | None, pipe: Any) -> None:
    """Read some files in a separate process, which may crash, and send what happened."""
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            name = names[number % len(names)]
            path, options = one_file(name, number, seed=seed, folder=Path(folder))
            pipe.send(("starts", name, number))
            found = outcome(path, number, options)
            if found.kind.startswith("bug") and keep is not None:
                Path(keep, f"{number}-{path.name}").write_bytes(path.read_bytes())
                Path(keep, f"{number}.json").write_text(json.dumps(options))
            pipe.send(("ends", name, found))


def run(
    *, n: int, seed: int, formats: Sequence[str] | None, keep: str | None
) -> dict[str, Counter[str]]:
    """Read `n` files and return how often each outcome occurred, by format."""
    names = [f for f in SEEDS if formats is None or f in formats]
    for name in names:
        _seed(name)  # made once, before the processes are forked
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    start = 0
    while start < n:
        numbers = range(start, min(n, start + CHUNK))
        reached = start
        receive, send = multiprocessing.Pipe(duplex=False)
        worker = multiprocessing.get_context("fork").Process(
            target=_chunk, args=(names, numbers, seed, keep, send)
        )
        worker.start()
        send.close()
        last = ""
        try:
            while True:
                word, name, found = receive.recv()
                if word == "starts":
                    last, reached = name, found
                else:
                    counts[name][found.kind] += 1
                    if found.kind.startswith("bug"):
                        print(
                            f"{name} file {found.number}: {found.kind}: {found.detail}", flush=True
                        )
                    last, reached = "", found.number + 1
        except EOFError:
            pass
        worker.join()
        if worker.exitcode != 0 and last:
            counts[last][f"bug: crash, exit {worker.exitcode}"] += 1
            print(f"{last} file {reached}: the process ended with {worker.exitcode}", flush=True)
            reached += 1
        elif worker.exitcode != 0:
            raise RuntimeError(f"the fuzzer itself failed with {worker.exitcode}")
        if reached // REPORTED > start // REPORTED:
            bugs = sum(v for c in counts.values() for k, v in c.items() if k.startswith("bug"))
            print(f"{reached} files, {bugs} bugs", file=sys.stderr, flush=True)
        start = reached
    return counts


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the fuzzer and print counts by outcome; return 1 if there was a bug."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1000, help="files to read")
    parser.add_argument("--seed", type=int, default=0, help="random seed")
    parser.add_argument("--format", action="append", choices=list(SEEDS), help="only this format")
    parser.add_argument("--keep", help="folder for the files that cause bugs")
    given = parser.parse_args(arguments)
    if given.keep is not None:
        Path(given.keep).mkdir(parents=True, exist_ok=True)
    counts = run(n=given.n, seed=given.seed, formats=given.format, keep=given.keep)
    total: Counter[str] = Counter()
    for name, found in counts.items():
        total += found
        print(f"{name:20} " + ", ".join(f"{k}: {v}" for k, v in found.most_common()))
    print(f"{'total':20} " + ", ".join(f"{k}: {v}" for k, v in total.most_common()))
    return int(any(kind.startswith("bug") for kind in total))


if __name__ == "__main__":
    sys.exit(main())
