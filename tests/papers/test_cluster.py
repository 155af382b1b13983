"""Sweeps on a real scheduler and real worker processes, which the tests kill."""

import json
import subprocess
import sys
import threading
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from focalibrate.engines import DaskCluster, EngineError
from focalibrate.engines.cluster import _outcome
from focalibrate_papers.engine import Folders
from focalibrate_papers.sweep import run_sweep

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def distributed():
    """Dask, imported only where slow tests are run."""
    return pytest.importorskip("distributed")


PRELOAD = Path(__file__).parent / "logged_runs.py"


@pytest.fixture(scope="module")
def workers(tmp_path_factory, logged_runs, distributed):
    """A function that returns a scheduler's address and the processes of `n` or more workers."""
    folder = tmp_path_factory.mktemp("dask")
    options = ("--no-nanny", "--nthreads", "1", "--preload", PRELOAD)
    with ExitStack() as stack:
        words = ("scheduler", "--port", "0", "--scheduler-file", folder / "scheduler")
        stack.enter_context(started(folder, *words))
        address, processes = address_in(folder / "scheduler", logged_runs), []

        def at_least(n):
            processes[:] = [process for process in processes if process.poll() is None]
            while len(processes) < n:
                command = ("worker", address, *options)
                processes.append(stack.enter_context(started(folder, *command)))
            with distributed.Client(address) as client:
                client.wait_for_workers(n, timeout=600)
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


def address_in(path, logged_runs):
    logged_runs.until(lambda: path.exists() and path.read_text().endswith("}"))
    return json.loads(path.read_text())["address"]


def sweep(tasks, folder, backend, progress=None):
    folders = Folders(None, folder)
    return run_sweep(
        tasks, folder=folder / "runs", folders=folders, backend=backend, progress=progress
    )


def result_files(folder):
    return sorted(path.name for path in (folder / "runs").iterdir())


def test_of_two_workers_one_is_killed_and_nothing_is_lost_or_made_twice(
    workers, logged_runs, tmp_path
):
    address, processes = workers(2)
    tasks = logged_runs.tasks_of("", "", "hangs once", *[""] * 7)

    def kill_half_way():
        logged_runs.until((tmp_path / "hanging").exists)
        logged_runs.until(lambda: logged_runs.logged(tmp_path, "end")[0].total() > 3)
        pid = logged_runs.logged(tmp_path, "begin")[1][2]
        next(process for process in processes if process.pid == pid).kill()

    killer = threading.Thread(target=kill_half_way)
    killer.start()
    results = sweep(tasks, tmp_path, DaskCluster(address))
    killer.join()
    assert [result.rows[0].value for result in results] == [i**2 for i in range(10)]
    assert logged_runs.logged(tmp_path, "end")[0] == Counter(range(10))
    assert logged_runs.logged(tmp_path, "begin")[0] == Counter([*range(10), 2])
    assert result_files(tmp_path) == sorted(f"{task.key}.json" for task in tasks)


def test_a_run_that_raises_is_reported_and_the_others_are_kept(workers, logged_runs, tmp_path):
    address, _ = workers(1)
    tasks = logged_runs.tasks_of("", "raises", "")
    with pytest.raises(EngineError, match=r"1 of 3 runs failed.*'number': 1.*asked to"):
        sweep(tasks, tmp_path, DaskCluster(address))
    assert len(result_files(tmp_path)) == 2


def test_interrupted_it_takes_back_the_runs_not_begun(workers, logged_runs, tmp_path):
    address, processes = workers(1)

    def interrupt(done, _):
        if done:
            raise KeyboardInterrupt

    tasks = logged_runs.tasks_of("", *["waits"] * 19)
    with pytest.raises(KeyboardInterrupt):
        sweep(tasks, tmp_path, DaskCluster(address), interrupt)
    (tmp_path / "go").touch()
    few = 1 + len(processes)
    assert len(sweep(tasks[:few], tmp_path, DaskCluster(address))) == few
    assert len(logged_runs.logged(tmp_path, "begin")[0]) < 10


def test_a_run_that_kills_its_workers_ends_in_an_error(workers, logged_runs, tmp_path):
    address, processes = workers(1)
    tasks = logged_runs.tasks_of("kills")
    with pytest.raises(EngineError, match=r"no worker for 1 s. Start workers with"):
        sweep(tasks, tmp_path, DaskCluster(address, patience_seconds=1))
    assert logged_runs.logged(tmp_path, "begin")[0][0] == len(processes)
    assert result_files(tmp_path) == []


def test_where_nobody_answers_the_option_and_the_next_step_are_named():
    backend = DaskCluster("tcp://127.0.0.1:9", connect_seconds=0.3)
    with pytest.raises(
        ConnectionError,
        match=r"--scheduler: no Dask scheduler answers at tcp://127.0.0.1:9 .* `dask scheduler`",
    ):
        list(backend.map(abs, [(1,)]))


@pytest.mark.parametrize("address", ["host", "http://127.0.0.1:8786"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ValueError, match=rf"--scheduler must be .* got '{address}'"):
        list(DaskCluster(address).map(abs, [(1,)]))


class Workers:
    def nthreads(self):
        return {"tcp://one:1": 1, "tcp://other:2": 4}


def test_workers_of_many_threads_are_refused():
    with pytest.raises(EngineError, match=r"tcp://other:2 has 4 threads.*--nthreads 1"):
        DaskCluster("tcp://host:8786")._count_workers(Workers())


class Future:
    def exception(self, timeout):
        from distributed import KilledWorker

        return KilledWorker("run", None, 3)


def test_a_run_whose_workers_die_again_and_again_is_explained():
    assert str(_outcome(Future())).startswith("4 workers died while they made this run")
