"""Sweeps on a real scheduler and real worker processes, which the tests kill."""

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager

import pytest

from focalibrate.experiments.cluster import Cluster, _outcome
from focalibrate.experiments.experiment import Places, Task
from focalibrate.experiments.sweep import SweepError, run_sweep

distributed = pytest.importorskip("distributed")

PRELOAD = '''
"""Registers an experiment whose runs log their beginning and end, for workers to load."""
import os, signal, sys, time, types
from focalibrate.experiments import registry
from focalibrate.experiments.experiment import Experiment

def log(folder, what, number):
    with open(folder / "log", "ab", buffering=0) as file:
        file.write(f"{what} {number} {os.getpid()}\\n".encode())

def run(task, places):
    number, folder = task["number"], places.trained
    log(folder, "begin", number)
    if task["kind"] == "hangs once":
        try:
            (folder / "hanging").touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            time.sleep(600)
    elif task["kind"] == "raises":
        raise ValueError("it was asked to")
    elif task["kind"] == "kills":
        os.kill(os.getpid(), signal.SIGKILL)
    elif task["kind"] == "waits":
        while not (folder / "go").exists():
            time.sleep(0.02)
    time.sleep(0.05)
    log(folder, "end", number)
    return [("square", number**2)]

module = types.ModuleType("focalibrate.experiments.of_a_test")
module.EXPERIMENT = Experiment(
    name="of-a-test", spec="", source="", title="", protocol="", smaller={}, tasks=None, run=run,
    describe=lambda task: ("squares", task["number"]), conclude=None,
)
sys.modules[module.__name__] = module
registry.EXPERIMENTS += ("of-a-test",)
'''


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    """A function that returns a scheduler's address and the processes of `n` or more workers."""
    folder = tmp_path_factory.mktemp("dask")
    (folder / "preload.py").write_text(PRELOAD)
    options = ("--no-nanny", "--nthreads", "1", "--preload", folder / "preload.py")
    with ExitStack() as stack:
        words = ("scheduler", "--port", "0", "--scheduler-file", folder / "scheduler")
        stack.enter_context(started(folder, *words))
        address, processes = address_in(folder / "scheduler"), []

        def at_least(n):
            processes[:] = [process for process in processes if process.poll() is None]
            while len(processes) < n:
                command = ("worker", address, *options)
                processes.append(stack.enter_context(started(folder, *command)))
            with distributed.Client(address) as client:
                client.wait_for_workers(n, timeout=60)
            return address, processes

        yield at_least


@contextmanager
def started(folder, *command):
    words = [sys.executable, "-m", "dask", *map(str, command), "--host", "127.0.0.1"]
    with (folder / "output").open("ab") as output:
        process = subprocess.Popen(
            [*words, "--no-dashboard"], cwd=folder, stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def address_in(path):
    until(lambda: path.exists() and path.read_text().endswith("}"), 60)
    return json.loads(path.read_text())["address"]


def until(is_so, seconds):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def tasks_of(*kinds):
    return [Task.of("of-a-test", number=i, kind=kind) for i, kind in enumerate(kinds)]


def logged(folder, what):
    """How often each run did `what`."""
    if not (folder / "log").exists():
        return Counter()
    lines = (line.split() for line in (folder / "log").read_text().splitlines())
    return Counter(int(number) for word, number, _ in lines if word == what)


def sweep(tasks, folder, backend, progress=None):
    places = Places(None, folder)
    return run_sweep(
        tasks, folder=folder / "runs", places=places, backend=backend, progress=progress
    )


def result_files(folder):
    return sorted(path.name for path in (folder / "runs").iterdir())


def test_of_two_workers_one_is_killed_and_nothing_is_lost_or_made_twice(workers, tmp_path):
    address, processes = workers(2)
    tasks = tasks_of("", "", "hangs once", *[""] * 7)

    def kill_half_way():
        until((tmp_path / "hanging").exists, 60)
        until(lambda: logged(tmp_path, "end").total() > 3, 60)
        lines = (line.split() for line in (tmp_path / "log").read_text().splitlines())
        (pid,) = {int(pid) for word, number, pid in lines if (word, number) == ("begin", "2")}
        next(process for process in processes if process.pid == pid).kill()

    killer = threading.Thread(target=kill_half_way)
    killer.start()
    results = sweep(tasks, tmp_path, Cluster(address))
    killer.join()
    assert [result.rows[0].value for result in results] == [i**2 for i in range(10)]
    assert logged(tmp_path, "end") == Counter(range(10))
    assert logged(tmp_path, "begin") == Counter([*range(10), 2])
    assert result_files(tmp_path) == sorted(f"{task.key}.json" for task in tasks)


def test_a_run_that_raises_is_reported_and_the_others_are_kept(workers, tmp_path):
    address, _ = workers(1)
    tasks = tasks_of("", "raises", "")
    with pytest.raises(SweepError, match=r"1 of 3 runs failed.*'number': 1.*asked to"):
        sweep(tasks, tmp_path, Cluster(address))
    assert len(result_files(tmp_path)) == 2


def test_interrupted_it_takes_back_the_runs_not_begun(workers, tmp_path):
    address, processes = workers(1)

    def interrupt(done, _):
        if done:
            raise KeyboardInterrupt

    tasks = tasks_of("", *["waits"] * 19)
    with pytest.raises(KeyboardInterrupt):
        sweep(tasks, tmp_path, Cluster(address), interrupt)
    (tmp_path / "go").touch()
    few = 1 + len(processes)
    assert len(sweep(tasks[:few], tmp_path, Cluster(address))) == few
    assert len(logged(tmp_path, "begin")) < 10


def test_a_run_that_kills_its_workers_ends_in_an_error(workers, tmp_path):
    address, processes = workers(1)
    tasks = tasks_of("kills")
    with pytest.raises(SweepError, match=r"no worker for 1 s. Start workers with"):
        sweep(tasks, tmp_path, Cluster(address, patience_seconds=1))
    assert logged(tmp_path, "begin")[0] == len(processes)
    assert result_files(tmp_path) == []


def test_a_lost_scheduler_is_named(tmp_path):
    words = ("scheduler", "--port", "0", "--scheduler-file", tmp_path / "scheduler")
    with started(tmp_path, *words) as process:

        class Losing(Cluster):
            def _count_workers(self, client):
                process.kill()
                process.wait()
                return super()._count_workers(client)

        address = address_in(tmp_path / "scheduler")
        with pytest.raises(SweepError, match=rf"lost the Dask scheduler at {address}.*are kept"):
            sweep(tasks_of(""), tmp_path, Losing(address, connect_seconds=2))


def test_where_nobody_answers_the_option_and_the_next_step_are_named():
    backend = Cluster("tcp://127.0.0.1:9", connect_seconds=0.3)
    with pytest.raises(
        ConnectionError,
        match=r"--scheduler: no Dask scheduler answers at tcp://127.0.0.1:9 .* `dask scheduler`",
    ):
        list(backend.map(abs, [(1,)]))


@pytest.mark.parametrize("address", ["host", "http://127.0.0.1:8786"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ValueError, match=rf"--scheduler must be .* got '{address}'"):
        list(Cluster(address).map(abs, [(1,)]))


class Workers:
    def nthreads(self):
        return {"tcp://one:1": 1, "tcp://other:2": 4}


def test_workers_of_many_threads_are_refused():
    with pytest.raises(SweepError, match=r"tcp://other:2 has 4 threads.*--nthreads 1"):
        Cluster("tcp://host:8786")._count_workers(Workers())


class Future:
    def exception(self, timeout):
        return distributed.KilledWorker("run", None, 3)


def test_a_run_whose_workers_die_again_and_again_is_explained():
    assert str(_outcome(Future())).startswith("4 workers died while they made this run")
