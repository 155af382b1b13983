"""Sweeps that are interrupted, whose runs fail, and whose files are damaged."""

import json
import os
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from focalibrate.engines import EngineError, LocalProcesses
from focalibrate_papers.engine import Folders, Task
from focalibrate_papers.sweep import (
    read_result,
    result_path,
    run_sweep,
    run_task,
)


def sweep(tasks, folder, backend, progress=None):
    return run_sweep(
        tasks,
        folder=folder / "runs",
        folders=Folders(None, folder),
        backend=backend,
        progress=progress,
    )


def files(folder):
    return sorted(path.name for path in (folder / "runs").iterdir())


def test_a_key_is_of_the_settings_and_stays_what_it_is():
    task = Task.of("linear", seed=1, gamma=0.5, hidden=[3, (4, 5)], name="γ", none=None)
    assert task.key == "5fe2e2aa8fe9"
    assert task == Task.of("linear", none=None, name="γ", gamma=0.5, hidden=(3, [4, 5]), seed=1)
    others = (Task.of("linear", seed=2), Task.of("linear", seed="1"), Task.of("other", seed=1))
    assert len({task.key for task in (Task.of("linear", seed=1), *others)}) == 4


def test_a_result_reads_back_as_it_was(registered, serial, tmp_path):
    tasks = registered.tasks_of("", "")
    results = sweep(tasks, tmp_path, serial)
    assert [result.task for result in results] == tasks
    assert [row.value for row in results[1].rows if row.metric == "square"] == [1.0]
    assert {row.task for row in results[0].rows} == {results[0].task}
    assert set(results[0].versions) >= {"python", "focalibrate", "numpy"}
    assert files(tmp_path) == sorted(f"{task.key}.json" for task in tasks)


def test_equal_tasks_are_one_run(registered, serial, tmp_path):
    (task,) = registered.tasks_of("")
    assert len(sweep([task, task], tmp_path, serial)) == 1
    assert registered.logged(tmp_path, "end")[0] == Counter([0])


def test_progress_begins_with_what_is_there(registered, serial, tmp_path):
    tasks, seen = registered.tasks_of("", "", ""), []
    sweep(tasks[:1], tmp_path, serial)
    sweep(tasks, tmp_path, serial, lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert registered.logged(tmp_path, "begin")[0] == Counter([0, 1, 2])


def test_a_run_that_fails_is_reported_and_the_others_are_kept(registered, serial, tmp_path):
    tasks = registered.tasks_of("", "raises", "")
    message = r"1 of 3 runs failed; the first: {'kind': 'raises', 'number': 1}: it was asked to\. "
    with pytest.raises(EngineError, match=message + r"The others are in .*runs: run the same"):
        sweep(tasks, tmp_path, serial)
    assert files(tmp_path) == sorted(f"{tasks[i].key}.json" for i in (0, 2))
    with pytest.raises(EngineError):
        sweep(tasks, tmp_path, serial)
    assert registered.logged(tmp_path, "begin")[0] == Counter([0, 1, 1, 2])


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", "\xff", '{"experiment": "x", "settings": {}, "numbers": [[1]]}']
)
def test_a_damaged_result_is_named(registered, serial, tmp_path, text):
    (task,) = registered.tasks_of("")
    path = result_path(tmp_path / "runs", task)
    path.parent.mkdir()
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=rf"{path.name}: is not the result .*Delete it to repeat"):
        sweep([task], tmp_path, serial)
    path.unlink()
    assert sweep([task], tmp_path, serial)


def test_a_result_under_the_name_of_another_is_refused(registered, serial, tmp_path):
    one, other = registered.tasks_of("", "")
    sweep([one], tmp_path, serial)
    path = result_path(tmp_path / "runs", other)
    result_path(tmp_path / "runs", one).rename(path)
    with pytest.raises(ValueError, match=rf"its settings are those of {one.key}"):
        read_result(path)


def test_a_number_that_is_none_is_refused(registered, serial, tmp_path):
    (task,) = registered.tasks_of("")
    sweep([task], tmp_path, serial)
    path = result_path(tmp_path / "runs", task)
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"numbers": [[0, "square", None]]}))
    with pytest.raises(ValueError, match="is not the result of a run"):
        read_result(path)


def test_a_result_appears_whole_or_not_at_all(registered, tmp_path, monkeypatch):
    (task,) = registered.tasks_of("")

    def interrupted(path, text, **_):
        path.write_bytes(text[:10].encode())
        raise KeyboardInterrupt

    monkeypatch.setattr("pathlib.Path.write_text", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_task(task, tmp_path / "runs", Folders(None, tmp_path))
    assert files(tmp_path) == []


class Elsewhere:
    """Makes the runs where the folder of results cannot be made."""

    def __init__(self, file):
        self.file = file

    def map(self, function, arguments):
        for place, (task, _, folders) in enumerate(arguments):
            yield place, function(task, self.file / "runs", folders)


def test_a_worker_without_the_folder_sends_the_text(registered, tmp_path):
    (tmp_path / "file").touch()
    (task,) = registered.tasks_of("")
    assert len(sweep([task], tmp_path, Elsewhere(tmp_path / "file"))) == 1
    assert files(tmp_path) == [f"{task.key}.json"]


def test_a_lost_backend_is_named_and_what_is_finished_is_kept(registered, tmp_path):
    class Lost:
        def map(self, function, arguments):
            yield 0, function(*arguments[0])
            raise EngineError("lost the scheduler. Start it again.")

    again = r"lost the scheduler\. Start it again\. Finished runs are kept: run the same"
    with pytest.raises(EngineError, match=again):
        sweep(registered.tasks_of("", ""), tmp_path, Lost())
    assert len(files(tmp_path)) == 1


def test_interrupted_it_closes_the_backend_at_once(registered, tmp_path):
    closed = []

    class Closing:
        def map(self, function, arguments):
            try:
                for place, given in enumerate(arguments):
                    yield place, function(*given)
            finally:
                closed.append(True)

    def interrupt(done, _):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        sweep(registered.tasks_of("", ""), tmp_path, Closing(), interrupt)
    assert closed  # while the traceback still holds the generator
    assert caught.tb is not None
    assert len(files(tmp_path)) == 1


@pytest.mark.slow
def test_processes_have_one_thread_each_and_the_setting_is_put_back(
    registered, environment, tmp_path, monkeypatch
):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    results = sweep(registered.tasks_of("", "raises")[:1], tmp_path, LocalProcesses(1))
    assert [row.value for row in results[0].rows if row.metric == "threads"] == [1.0]
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert os.getpid() not in registered.logged(tmp_path, "begin")[1].values()


DRIVER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    import logged_runs
    from focalibrate_papers.engine import Folders
    from focalibrate.engines import LocalProcesses
    from focalibrate_papers.sweep import run_sweep

    if __name__ == "__main__":
        folder = Path(sys.argv[1])
        tasks = logged_runs.tasks_of(*["", "waits"] * 5)
        where = {"folder": folder / "runs", "folders": Folders(None, folder)}
        run_sweep(tasks, backend=LocalProcesses(2), **where)
    """
)


@pytest.mark.slow
def test_a_killed_sweep_is_resumed_without_repeating_what_finished(
    registered, environment, serial, tmp_path
):
    (tmp_path / "driver.py").write_text(DRIVER)
    command = [sys.executable, str(tmp_path / "driver.py"), str(tmp_path)]
    with subprocess.Popen(command, env=environment) as driver:
        # Both workers are in the midst of a run that waits, with others finished before.
        registered.until(lambda: len(registered.logged(tmp_path, "begin")[1].keys() - {0, 2}) == 2)
        registered.until(lambda: len(files(tmp_path)) == 2)
        driver.kill()
    workers = set(registered.logged(tmp_path, "begin")[1].values())
    registered.until(lambda: not any(map(is_alive, workers)))
    kept = files(tmp_path)

    (tmp_path / "go").touch()
    tasks = registered.tasks_of(*["", "waits"] * 5)
    results = sweep(tasks, tmp_path, serial)
    assert [result.rows[0].value for result in results] == [i**2 for i in range(10)]
    again = {task["number"] for task in tasks if f"{task.key}.json" not in kept}
    counts = registered.logged(tmp_path, "begin")[0]
    assert again == set(range(10)) - {0, 2}
    assert {number for number, n in counts.items() if n > 1} == {1, 3}


def is_alive(pid):
    """Whether the process runs; one that has ended may still wait for whoever adopted it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
