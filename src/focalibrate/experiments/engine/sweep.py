"""Runs of an experiment side by side, one result file each, whatever interrupts them."""

import json
import os
import signal
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any, Protocol, TypeAlias

from focalibrate._atomic import atomic_path
from focalibrate.experiments.engine.experiment import Experiment, Folders, Row, Task
from focalibrate.experiments.engine.provenance import commit, versions
from focalibrate.experiments.engine.registry import find_experiment


@dataclass(frozen=True)
class Result:
    """What one run gave; its file holds the same."""

    task: Task
    rows: tuple[Row, ...]
    seconds: float
    versions: dict[str, str]
    commit: str = ""
    """of the code that made the run; empty where that was not recorded"""
    network: dict[str, Any] = field(default_factory=dict)
    """key of the recipe of its trained network, and the seconds that took to train"""


class SweepError(RuntimeError):
    """Some runs failed; the others are kept."""


Outcomes: TypeAlias = Generator[tuple[int, Any], None, None]


class Backend(Protocol):
    """Somewhere runs are made: calls a function for every argument, in any order."""

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Outcomes:
        """Yield the place of each call and what it returned, or the exception it raised.

        Closed before its end, it drops the calls not begun.
        """
        ...


@dataclass(frozen=True)
class LocalProcesses:
    """Worker processes on this machine, one thread each."""

    workers: int

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Outcomes:
        """Yield results as they come; a killed worker ends the sweep, and says so."""
        with _one_thread_each(), _pool(self.workers) as pool:
            futures = {pool.submit(function, *args): i for i, args in enumerate(arguments)}
            for future in as_completed(futures):
                yield futures[future], _outcome(future)


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
        folder: of the result files, ``<key>.json``; each appears whole, when its run is done.
        folders: folders the runs use.
        backend: where they are made.
        progress: called with the numbers of runs done and of all.

    Raises:
        SweepError: runs failed; all others were finished and kept first.
    """
    tasks = list({task.key: task for task in tasks}.values())
    folder = folder.absolute()  # as workers elsewhere need it
    folder.mkdir(parents=True, exist_ok=True)
    missing = [task for task in tasks if not result_path(folder, task).exists()]
    done = len(tasks) - len(missing)
    failed: list[str] = []
    _report(progress, done, len(tasks))
    calls = [(task, folder, folders) for task in missing]
    with closing(backend.map(run_task, calls)) as outcomes:
        for place, outcome in outcomes:
            if isinstance(outcome, BaseException):
                failed.append(f"{dict(missing[place].settings)}: {_reason(outcome)}")
                continue
            path = result_path(folder, missing[place])
            if not path.exists():  # a worker without this folder on its disk sent the text only
                _write(path, outcome)
            done += 1
            _report(progress, done, len(tasks))
    if failed:
        raise SweepError(
            f"{len(failed)} of {len(tasks)} runs failed; the first: {failed[0].rstrip('.')}. The "
            f"others are in {folder}: run the same command again to repeat only those that failed."
        )
    return [read_result(result_path(folder, task)) for task in tasks]


def run_task(task: Task, folder: Path, folders: Folders) -> str:
    """Run one task, write its file, and return the file's text; one that is there is kept.

    Where the folder cannot be written to, as on another machine, the text alone is the result.
    """
    path = result_path(folder, task)
    if path.exists():
        return path.read_text(encoding="utf-8")
    experiment = find_experiment(task.experiment)
    started = time.perf_counter()
    numbers = [
        [float("nan") if len(n) == 2 else float(n[2]), n[0], float(n[1])]
        for n in experiment.run(task, folders)
    ]
    recipe, seed = experiment.describe(task)
    record = {
        "experiment": task.experiment,
        "settings": dict(task.settings),
        "recipe": recipe,
        "seed": seed,
        "seconds": round(time.perf_counter() - started, 3),
        "versions": versions(experiment.packages),
        "commit": commit(),
        "network": _network(experiment, task, folders),
        "numbers": numbers,
    }
    text = json.dumps(record, ensure_ascii=False) + "\n"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        _write(path, text)
    return text


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
            Row(task.key, record["recipe"], int(record["seed"]), metric, float(value), float(at))
            for at, metric, value in record["numbers"]
        )
        made = dict(record["versions"]), record.get("commit", ""), record.get("network", {})
        return Result(task, rows, float(record["seconds"]), *made)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: is no result of a run ({error}). Delete it to have the run repeated."
        ) from error


def _network(experiment: Experiment, task: Task, folders: Folders) -> dict[str, Any]:
    """Return the recipe's key of the task's network, how long it took to train, and by which code.

    The commit is known where the folder of the network has it.
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
    """Return whether a task is done, or needs no network, or has its network trained."""
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


def _reason(error: BaseException) -> str:
    """Return what went wrong; with the kind of error where its message was not made for users."""
    is_for_users = isinstance(error, (ValueError, OSError, ImportError, SweepError))
    return str(error) if is_for_users and str(error) else repr(error)


def _outcome(future: "Future[Any]") -> Any:
    error = future.exception()
    if isinstance(error, BrokenProcessPool):
        raise SweepError(
            "a worker process was killed, perhaps for want of memory. Finished runs are kept: "
            "run the same command again, with fewer --workers if memory is short."
        ) from error
    return future.result() if error is None else error


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Give worker processes; interrupted, drop the runs not begun and stop those that are."""
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_begin_worker)
    try:
        yield pool
    except BaseException:
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        raise
    pool.shutdown()


def _begin_worker() -> None:
    """Tie a worker to the process that started it, in its end and in nothing else.

    Ctrl-C reaches every process of a terminal, and is for the one that waits to handle. A worker
    whose parent is killed would wait for its next run forever.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let processes started meanwhile use one thread: side by side, more would only disturb."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
