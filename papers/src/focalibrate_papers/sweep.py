"""Runs of an experiment in parallel, one result file each, so that they can be interrupted."""

import json
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from focalibrate._atomic import atomic_path
from focalibrate.engines import Backend, EngineError, commit, reason_of, versions
from focalibrate_papers.engine import Experiment, Folders, Row, Task, find_experiment


@dataclass(frozen=True)
class Result:
    """The result of one run; its file contains the same."""

    task: Task
    rows: tuple[Row, ...]
    seconds: float
    versions: dict[str, str]
    commit: str = ""
    """of the code that made the run; empty if that was not recorded"""
    network: dict[str, Any] = field(default_factory=dict)
    """key of the recipe of its trained network, and how many seconds the training took"""


def run_sweep(
    tasks: Iterable[Task],
    *,
    folder: Path,
    folders: Folders,
    backend: Backend,
    progress: Callable[[int, int], None] | None = None,
) -> list[Result]:
    """Run the tasks whose result file is not there yet, and return the results of all.

    Args:
        tasks: what to run.
        folder: folder of the result files, ``<key>.json``, each written when its run is done.
        folders: folders the runs use.
        backend: where they are made.
        progress: called with the number of finished runs and the total.

    Raises:
        EngineError: runs failed; all others were finished first and are kept.
    """
    tasks = list({task.key: task for task in tasks}.values())
    folder = folder.absolute()  # as workers on other machines need it
    folder.mkdir(parents=True, exist_ok=True)
    missing = [task for task in tasks if not result_path(folder, task).exists()]
    done = len(tasks) - len(missing)
    failed: list[str] = []
    _report(progress, done, len(tasks))
    calls = [(task, folder, folders) for task in missing]
    try:
        with closing(backend.map(run_task, calls)) as outcomes:
            for place, outcome in outcomes:
                if isinstance(outcome, BaseException):
                    failed.append(f"{dict(missing[place].settings)}: {reason_of(outcome)}")
                    continue
                path = result_path(folder, missing[place])
                if not path.exists():  # a worker without access to this folder sent only the text
                    _write(path, outcome)
                done += 1
                _report(progress, done, len(tasks))
    except EngineError as error:
        raise EngineError(
            f"{error} Finished runs are kept: run the same command again."
        ) from error
    if failed:
        raise EngineError(
            f"{len(failed)} of {len(tasks)} runs failed; the first: {failed[0].rstrip('.')}. The "
            f"others are in {folder}: run the same command again to repeat only those that failed."
        )
    return [read_result(result_path(folder, task)) for task in tasks]


def run_task(task: Task, folder: Path, folders: Folders) -> str:
    """Run one task, write its file, and return the file's text; an existing file is kept.

    If the folder cannot be written to, as on another machine, only the text is returned.
    """
    path = result_path(folder, task)
    if path.exists():
        return path.read_text(encoding="utf-8")
    experiment = find_experiment(task.experiment)
    started = time.perf_counter()
    rows = experiment.rows(task, folders)
    result = Result(
        task,
        rows,
        round(time.perf_counter() - started, 3),
        versions(experiment.packages),
        commit(),
        _network(experiment, task, folders),
    )
    with suppress(OSError):
        write_result(folder, result)
    return _text(result)


def write_result(folder: Path, result: Result) -> None:
    """Write the file of a finished run, which `read_result` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(result_path(folder, result.task), _text(result))


def _text(result: Result) -> str:
    record = {
        "experiment": result.task.experiment,
        "settings": dict(result.task.settings),
        "seconds": result.seconds,
        "versions": result.versions,
        "commit": result.commit,
        "network": result.network,
        "numbers": [[row.at, row.metric, row.value] for row in result.rows],
    }
    return json.dumps(record, ensure_ascii=False) + "\n"


def result_path(folder: Path, task: Task) -> Path:
    """Return where the result of a task is kept."""
    return folder / f"{task.key}.json"


def read_result(path: Path) -> Result:
    """Read what `run_task` wrote.

    Raises:
        ValueError: the file is not such a result, with its path.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        task = Task.of(record["experiment"], **record["settings"])
        if task.key != path.stem:
            raise ValueError(f"its settings are those of {task.key}")
        rows = tuple(
            Row(task, metric, float(value), float(at)) for at, metric, value in record["numbers"]
        )
        made = dict(record["versions"]), record.get("commit", ""), record.get("network", {})
        return Result(task, rows, float(record["seconds"]), *made)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: is not the result of a run ({error}). Delete it to repeat the run."
        ) from error


def _network(experiment: Experiment, task: Task, folders: Folders) -> dict[str, Any]:
    """Return the recipe's key of the task's network, how long it took to train, and by which code.

    The commit is known only if the network's folder records it.
    """
    recipe = experiment.network(task) if experiment.network is not None else None
    if recipe is None:
        return {}
    clock, made = (folders.trained / recipe.key / name for name in ("time.json", "commit"))
    seconds = json.loads(clock.read_text())["seconds"] if clock.exists() else None
    found = {"recipe": recipe.key, "seconds_of_training": seconds}
    if made.exists():
        found["trained_by"] = made.read_text(encoding="utf-8").strip()
    return found


def is_at_hand(experiment: Experiment, task: Task, folder: Path, folders: Folders) -> bool:
    """Return whether a task is finished, needs no network, or has its network trained."""
    if result_path(folder, task).exists() or experiment.network is None:
        return True
    recipe = experiment.network(task)
    return recipe is None or (folders.trained / recipe.key / "time.json").exists()


def _write(path: Path, text: str) -> None:
    with atomic_path(path, force=True) as beside:
        beside.write_text(text, encoding="utf-8")


def _report(progress: Callable[[int, int], None] | None, done: int, total: int) -> None:
    if progress is not None:
        progress(done, total)
