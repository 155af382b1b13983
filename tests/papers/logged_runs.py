"""An experiment whose runs log their beginning and end, known to workers that load this file.

`register` makes it known in this process; ``dask worker --preload`` calls it by itself.
"""

import os
import signal
import sys
import time
import types
from collections import Counter
from dataclasses import replace
from pathlib import Path

from focalibrate_papers import engine as registry
from focalibrate_papers.engine import (
    Experiment,
    Table,
    Task,
    mean_interval,
    number_result,
)

NAME = "logged-runs"
KINDS = "LOGGED_RUNS"
"""Environment variable of the kinds of the runs that `tasks` gives, between commas."""


def tasks_of(*kinds):
    return [Task.of(NAME, number=i, kind=kind) for i, kind in enumerate(kinds)]


def tasks(scale):
    return tasks_of(*os.environ[KINDS].split(","))


def run(task, folders):
    number, kind, folder = task["number"], task["kind"], folders.trained
    folder.mkdir(exist_ok=True)
    log(folder, "begin", number)
    if kind == "raises":
        raise ValueError("it was asked to")
    if kind == "kills":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "hangs once":
        try:
            (folder / "hanging").touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            time.sleep(3600)
    while kind == "waits" and not (folder / "go").exists():
        time.sleep(0.02)
    log(folder, "end", number)
    return [("square", number**2), ("threads", int(os.environ.get("OMP_NUM_THREADS", 0)))]


def claims(rows):
    ours = mean_interval([row.value for row in rows if row.metric == "square"])
    words = {"claim": "<b>claim</b>", "what": "rule", "paper_value": "1 & no more"}
    result = number_result(ours, 1.0, tolerance=0.5, unit="units", **words)
    return [replace(result, verdict="not run at full size")]


EXPERIMENT = Experiment(
    name=NAME,
    code="T",
    source="this file",
    ground="theory",
    title="Logged <runs>",
    protocol="Runs that log.",
    smaller={"smallest": "all of it"},
    tasks=tasks,
    run=run,
    claims=claims,
    tables=(lambda _: Table("title", ("a|b", "c"), (("<i>", "2"),), "a note"),),
    finding=lambda _: "",
)


def log(folder, what, number):
    with (folder / "log").open("ab", buffering=0) as file:
        file.write(f"{what} {number} {os.getpid()}\n".encode())


def logged(folder, what):
    """How often each run did `what`, and in which processes."""
    path = Path(folder, "log")
    lines = path.read_text().splitlines() if path.exists() else []
    found = [line.split() for line in lines]
    counts = Counter(int(number) for word, number, _ in found if word == what)
    return counts, {int(number): int(pid) for word, number, pid in found if word == what}


def until(is_so, seconds=600):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def register():
    module = types.ModuleType("focalibrate_papers.logged_runs")
    module.EXPERIMENT = EXPERIMENT
    sys.modules[module.__name__] = module
    registry.EXPERIMENTS = registry.EXPERIMENTS | {NAME: "logged_runs"}


def dask_setup(_):
    register()
