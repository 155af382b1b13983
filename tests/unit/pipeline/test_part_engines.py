"""Parts sketched and written by worker processes and a real Dask cluster, which tests kill."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from focalibrate.calibrate import TemperatureScaling
from focalibrate.engines import DaskCluster, EngineError, LocalProcesses
from focalibrate.io import scan_predictions, sketch_bytes
from focalibrate.pipeline import (
    apply_to_parts,
    calibrate_predictions,
    sketch_predictions,
    work,
)

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def logged():
    """The module `logged_parts`, under the name by which workers import it."""
    spec = importlib.util.spec_from_file_location("logged_parts", HERE / "logged_parts.py")
    sys.modules["logged_parts"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["logged_parts"]


@pytest.fixture
def environment(monkeypatch):
    """Processes started meanwhile can import `logged_parts`."""
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    found = [str(HERE), *map(os.path.abspath, given)]  # clusters run in a folder of their own
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(found))
    monkeypatch.syspath_prepend(HERE)  # which spawned processes take over


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "preds").mkdir()
    for i in range(4):
        logits = rng.normal(size=(50, 3))
        labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
        np.savez(tmp_path / "preds" / f"part-{i}.npz", logits=logits, labels=labels)
    return tmp_path


def check_same(found, folder):
    whole = sketch_predictions(folder / "preds")
    assert found.sketch.n == 200
    assert sketch_bytes(found) == sketch_bytes(whole)


def until(folder, logged, parts):
    logged.wait_until(lambda: (folder / "log").exists())
    logged.wait_until(lambda: parts <= logged.begun(folder)[0].keys())


def kept(folder):
    return len(list((folder / "kept").glob("*.sketch"))) if (folder / "kept").exists() else 0


def test_a_killed_command_continues_and_counts_nothing_twice(environment, folder, logged):
    command = [sys.executable, str(HERE / "logged_parts.py"), str(folder)]
    with subprocess.Popen(command) as driver:
        until(folder, logged, {0, 1, 2, 3})
        logged.wait_until(lambda: kept(folder) == 2)
        driver.kill()
    (folder / "log" / "go").touch()
    where = logged.Logged(LocalProcesses(2))
    found = sketch_predictions(folder / "preds", folder=folder / "kept", backend=where)
    check_same(found, folder)
    assert logged.begun(folder)[0] == {0: 1, 1: 1, 2: 2, 3: 2}


def test_a_killed_worker_process_loses_nothing(environment, folder, logged):
    def kill():
        until(folder, logged, {2, 3})
        os.kill(logged.begun(folder)[1][2], 9)
        logged.wait_until(lambda: logged.begun(folder)[0][2] == 2)
        (folder / "log" / "go").touch()

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    found = sketch_predictions(folder / "preds", backend=logged.Logged(LocalProcesses(2)))
    killer.join()
    check_same(found, folder)
    assert logged.begun(folder)[0] == {0: 1, 1: 1, 2: 2, 3: 1}


def test_a_part_that_kills_its_workers_is_named(environment, folder, logged):
    (folder / "log").mkdir()
    (folder / "log" / "go").touch()
    (folder / "log" / "kill-2").touch()
    with pytest.raises(EngineError, match=r"1 of 4 parts failed.*part-2.npz: its worker .*killed"):
        sketch_predictions(folder / "preds", backend=logged.Logged(LocalProcesses(2)))
    assert logged.begun(folder)[0] == {0: 1, 1: 1, 2: 3, 3: 1}


@contextmanager
def started(folder, *command, env=None):
    words = [sys.executable, "-m", "dask", *map(str, command), "--host", "127.0.0.1"]
    with (folder / "output").open("ab") as output:
        process = subprocess.Popen(
            [*words, "--no-dashboard"], cwd=folder, stdout=output, stderr=output, env=env
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def cluster(folder, name, n, logged):
    """Give a scheduler's address, its process and those of its workers."""
    distributed = pytest.importorskip("distributed")
    file = folder / name
    with started(folder, "scheduler", "--port", "0", "--scheduler-file", file) as scheduler:
        logged.wait_until(lambda: file.exists() and file.read_text().endswith("}"))
        address = json.loads(file.read_text())["address"]
        words = ("worker", address, "--no-nanny", "--nthreads", "1")
        with ExitStack() as stack:
            processes = [stack.enter_context(started(folder, *words)) for _ in range(n)]
            with distributed.Client(address) as client:
                client.wait_for_workers(n, timeout=120)
            yield address, scheduler, processes


def test_a_killed_worker_and_scheduler_lose_nothing(environment, folder, logged):
    options = {"folder": folder / "kept"}
    with cluster(folder, "first", 2, logged) as (address, scheduler, workers):

        def kill():
            until(folder, logged, {2, 3})
            logged.wait_until(lambda: kept(folder) == 2)
            pid = logged.begun(folder)[1][2]
            next(process for process in workers if process.pid == pid).kill()
            scheduler.kill()

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        where = logged.Logged(DaskCluster(address, connect_seconds=15))
        with pytest.raises(EngineError, match="lost the Dask scheduler"):
            sketch_predictions(folder / "preds", backend=where, **options)
        killer.join()
    (folder / "log" / "go").touch()
    with cluster(folder, "second", 1, logged) as (address, _, _):
        where = logged.Logged(DaskCluster(address))
        found = sketch_predictions(folder / "preds", backend=where, **options)
    check_same(found, folder)
    counts = logged.begun(folder)[0]
    assert (counts[0], counts[1]) == (1, 1)


def check_written(folder):
    """Every part is there, and holds what one process writes."""
    apply_to_parts(folder / "preds", folder / "alone", TemperatureScaling(2.0))
    names = sorted(path.name for path in (folder / "alone").glob("*.npz"))
    assert names == sorted(path.name for path in (folder / "out").glob("*.npz"))
    assert len(names) == 4
    for name in names:
        with np.load(folder / "alone" / name) as one, np.load(folder / "out" / name) as other:
            assert_array_equal(one["probs"], other["probs"])
            assert_array_equal(one["labels"], other["labels"])


def n_written(folder):
    manifest = folder / "out" / "_focalibrate-apply.json"
    return len(json.loads(manifest.read_text())["parts"]) if manifest.exists() else 0


def test_a_killed_worker_process_writes_its_part_again(environment, folder, logged):
    def kill():
        until(folder, logged, {2, 3})
        os.kill(logged.begun(folder)[1][2], 9)
        logged.wait_until(lambda: logged.begun(folder)[0][2] == 2)
        (folder / "log" / "go").touch()

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    where = logged.Logged(LocalProcesses(2))
    done, special = apply_to_parts(
        folder / "preds", folder / "out", TemperatureScaling(2.0), backend=where
    )
    killer.join()
    assert (done.n_rows, done.n_written, done.n_kept, special.n_rows) == (200, 4, 0, 200)
    assert logged.begun(folder)[0] == {0: 1, 1: 1, 2: 2, 3: 1}
    check_written(folder)


def test_parts_written_before_a_worker_and_the_scheduler_are_killed_are_kept(
    environment, folder, logged
):
    def apply(backend):
        return apply_to_parts(
            folder / "preds", folder / "out", TemperatureScaling(2.0), backend=backend
        )

    with cluster(folder, "first", 2, logged) as (address, scheduler, workers):

        def kill():
            until(folder, logged, {2, 3})
            logged.wait_until(lambda: n_written(folder) == 2)
            pid = logged.begun(folder)[1][2]
            next(process for process in workers if process.pid == pid).kill()
            scheduler.kill()

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        with pytest.raises(EngineError, match="lost the Dask scheduler"):
            apply(logged.Logged(DaskCluster(address, connect_seconds=15)))
        killer.join()
    finished = {p: p.stat().st_mtime_ns for p in (folder / "out").glob("part-[01].npz")}
    assert len(finished) == 2
    (folder / "log" / "go").touch()
    with cluster(folder, "second", 1, logged) as (address, _, _):
        done, _ = apply(logged.Logged(DaskCluster(address)))
    assert (done.n_written, done.n_kept) == (2, 2)
    assert {p: p.stat().st_mtime_ns for p in finished} == finished
    check_written(folder)


def calibrated(folder, monkeypatch, **options):
    """Return the record of a calibration with one chunk per part."""
    monkeypatch.setattr(work, "CHUNK_BYTES", 1)
    found = calibrate_predictions(
        scan_predictions(folder / "preds"),
        fit_rows=80,
        methods=["temperature"],
        n_resamples=20,
        **options,
    )
    assert (found.sizes.n_fitted, found.sizes.n_judged) == (80, 120)
    record = found.to_dict()
    del record["made_with"]
    return record


@pytest.mark.parametrize("engine", ["local", "dask"])
def test_a_worker_killed_while_rows_are_drawn_loses_and_repeats_nothing(
    environment, folder, logged, monkeypatch, engine
):
    def kill():
        until(folder, logged, {2, 3})
        os.kill(logged.begun(folder)[1][2], 9)
        if engine == "local":  # which replaces it, where Dask gives its work to the other one
            logged.wait_until(lambda: logged.begun(folder)[0][2] == 2)
        (folder / "log" / "go").touch()

    with ExitStack() as stack:
        where = LocalProcesses(2)
        if engine == "dask":
            address, *_ = stack.enter_context(cluster(folder, "first", 2, logged))
            where = DaskCluster(address)
        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        found = calibrated(folder, monkeypatch, backend=logged.Logged(where))
        killer.join()
    assert found == calibrated(folder, monkeypatch)
    assert logged.begun(folder)[0][2] == 3  # drawn from, drawn from again, evaluated on


@pytest.fixture
def certificate(tmp_path):
    """A key and a certificate signed by itself, as settings of Dask."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    key, file = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
            "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
            "-keyout", str(key), "-out", str(file),
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    files = {"ca-file": file}
    for role in ("client", "scheduler", "worker"):
        files |= {f"{role}.key": key, f"{role}.cert": file}
    return {f"distributed.comm.tls.{name}": str(path) for name, path in files.items()}


def test_a_scheduler_with_tls_needs_only_the_configuration_of_dask(
    environment, folder, certificate, logged
):
    dask = pytest.importorskip("dask")
    pytest.importorskip("distributed")
    names = {
        "DASK_" + key.upper().replace(".", "__").replace("-", "_"): key for key in certificate
    }
    env = os.environ | {name: certificate[key] for name, key in names.items()}
    file = folder / "tls"
    words = ("scheduler", "--protocol", "tls", "--port", "0", "--scheduler-file", file)
    with started(folder, *words, env=env):
        logged.wait_until(lambda: file.exists() and file.read_text().endswith("}"))
        address = json.loads(file.read_text())["address"]
        assert address.startswith("tls://127.0.0.1:")
        with started(folder, "worker", address, "--no-nanny", "--nthreads", "1", env=env):
            with dask.config.set(certificate):
                found = sketch_predictions(folder / "preds", backend=DaskCluster(address))
            check_same(found, folder)
            with pytest.raises(ValueError, match=r"tls:// needs a key .*ca-file"):
                sketch_predictions(folder / "preds", backend=DaskCluster(address))
