"""Worker processes: results, errors, deaths and their bounds."""

import os
import subprocess
import sys
import time
from contextlib import closing
from multiprocessing import active_children
from pathlib import Path

import pytest

from focalibrate.engines import EngineError, LocalProcesses

pytestmark = pytest.mark.slow


@pytest.fixture
def calls(monkeypatch):
    """The module `local_calls`, which processes started meanwhile can import as well."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    import local_calls

    yield local_calls
    del sys.modules["local_calls"]


def test_every_call_has_its_outcome_and_the_environment_is_put_back(calls, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    outcomes = dict(LocalProcesses(2).map(calls.square, [(i,) for i in (3, -1, 5, 7, 2)]))
    assert isinstance(outcomes[1], ValueError)
    assert "it was asked to" in str(outcomes[1])
    assert "square" in outcomes[1].__notes__[0]  # where it was raised
    assert {i: x for i, x in outcomes.items() if i != 1} == {0: 9, 2: 25, 3: 49, 4: 4}
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert dict(LocalProcesses(2).map(calls.square, [])) == {}


def test_a_call_whose_worker_dies_is_made_again_and_at_last_given_up(calls, tmp_path):
    deaths = (0, 2, 3, 0, 1)
    arguments = [(tmp_path, i, n) for i, n in enumerate(deaths)]
    outcomes = list(LocalProcesses(2).map(calls.die_at_first, arguments))
    assert sorted(i for i, _ in outcomes) == [0, 1, 2, 3, 4]  # none twice
    found = dict(outcomes)
    assert [found[i] for i in (0, 1, 3, 4)] == [0, 1, 3, 4]
    assert isinstance(found[2], EngineError)
    assert "killed, 3 times one after another" in str(found[2])
    assert len(list(tmp_path.iterdir())) == sum(deaths)


def test_a_worker_that_is_killed_between_two_calls_is_replaced(calls):
    before = set(active_children())
    with closing(LocalProcesses(1).map(calls.square, [(2,), (3,), (4,)])) as outcomes:
        assert next(outcomes) == (0, 4)
        (worker,) = set(active_children()) - before
        worker.kill()
        worker.join()
        assert list(outcomes) == [(1, 9), (2, 16)]


def test_a_call_that_ends_its_process_politely_is_an_error(calls):
    ((_, error),) = LocalProcesses(1).map(calls.leave, [()])
    assert isinstance(error, SystemExit)


def test_an_error_that_cannot_be_sent_is_told(calls):
    ((_, error),) = LocalProcesses(1).map(calls.stubborn, [()])
    assert isinstance(error, EngineError)
    assert "not sent" in str(error)


def test_closed_early_it_ends_its_workers(calls):
    before = set(active_children())  # other tests' libraries keep theirs
    with closing(LocalProcesses(2).map(calls.square, [(i,) for i in range(50)])) as outcomes:
        next(outcomes)
        started = set(active_children()) - before
    assert started
    assert not started & set(active_children())


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_a_worker_that_still_imports_ends_with_its_parent(tmp_path):
    (tmp_path / "slow_import.py").write_text(
        "import os, time\nfrom pathlib import Path\n"
        "if os.environ.get('OMP_NUM_THREADS') == '1':  # in a worker\n"
        f"    Path({str(tmp_path)!r}, str(os.getpid())).touch()\n    time.sleep(60)\n"
        "def call():\n    return 1\n"
    )
    code = (
        "from focalibrate.engines import LocalProcesses\n"
        "if __name__ == '__main__':\n    import slow_import\n"
        "    list(LocalProcesses(2).map(slow_import.call, [(), ()]))\n"
    )
    (tmp_path / "run.py").write_text(code)
    env = {**os.environ, "OMP_NUM_THREADS": "2"}
    parent = subprocess.Popen([sys.executable, str(tmp_path / "run.py")], env=env)
    workers = []
    while len(workers) < 2:
        workers = [int(p.name) for p in tmp_path.iterdir() if p.name.isdigit()]
        assert parent.poll() is None
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < deadline, "workers live on"
        time.sleep(0.05)
