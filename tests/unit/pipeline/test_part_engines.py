"""Parts sketched, written and drawn from by workers, and a real Dask cluster, that tests kill."""

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


def sketched(folder, backend=None):
    found = sketch_predictions(folder / "preds", folder=folder / "kept", backend=backend)
    assert found.sketch.n == 200
    return sketch_bytes(found)


def applied(folder, backend=None):
    """Return the content of every part that was written, or kept from an earlier run."""
    out = folder / "out"
    done, _ = apply_to_parts(folder / "preds", out, TemperatureScaling(2.0), backend=backend)
    assert done.n_written + done.n_kept == 4
    return {path.name: path.read_bytes() for path in out.glob("*.npz")}


def calibrated(folder, backend=None):
    """Return the record of a calibration with one chunk per part."""
    found = calibrate_predictions(
        scan_predictions(folder / "preds"),
        fit_rows=80,
        methods=["temperature"],
        n_resamples=20,
        backend=backend,
    )
    assert (found.sizes.n_fitted, found.sizes.n_judged) == (80, 120)
    record = found.to_dict()
    del record["made_with"]
    return record


def alone(job, folder):
    """Return what one process makes of the same parts elsewhere."""
    shutil.copytree(folder / "preds", folder / "alone/preds")
    return job(folder / "alone")


def finished(folder):
    """Return how many parts are sketched or written."""
    manifest = folder / "out" / "_focalibrate-apply.json"
    if manifest.exists():
        return len(json.loads(manifest.read_text())["parts"])
    return len(list((folder / "kept").glob("*.sketch"))) if (folder / "kept").exists() else 0


def until(folder, logged, parts):
    logged.wait_until(lambda: (folder / "log").exists())
    logged.wait_until(lambda: parts <= logged.begun(folder)[0].keys())


@contextmanager
def meanwhile(action):
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    yield
    thread.join()


def test_a_killed_command_continues_and_counts_nothing_twice(environment, folder, logged):
    command = [sys.executable, str(HERE / "logged_parts.py"), str(folder)]
    with subprocess.Popen(command) as driver:
        until(folder, logged, {0, 1, 2, 3})
        logged.wait_until(lambda: finished(folder) == 2)
        driver.kill()
    (folder / "log" / "go").touch()
    assert sketched(folder, logged.Logged(LocalProcesses(2))) == alone(sketched, folder)
    assert logged.begun(folder)[0] == {0: 1, 1: 1, 2: 2, 3: 2}


@pytest.mark.parametrize(
    ("job", "engine"),
    [(applied, "local"), (calibrated, "dask")],
)
def test_a_killed_worker_loses_and_repeats_nothing(
    environment, folder, logged, monkeypatch, job, engine
):
    monkeypatch.setattr(work, "CHUNK_BYTES", 1)

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
        stack.enter_context(meanwhile(kill))
        found = job(folder, logged.Logged(where))
    assert found == alone(job, folder)
    counts = logged.begun(folder)[0]
    if job is calibrated:
        assert counts[2] == 3  # drawn from, drawn from again, evaluated on
    else:
        assert counts == {0: 1, 1: 1, 2: 2, 3: 1}


def test_a_part_that_kills_its_workers_is_named(environment, folder, logged):
    (folder / "log").mkdir()
    (folder / "log" / "go").touch()
    (folder / "log" / "kill-2").touch()
    with pytest.raises(EngineError, match=r"1 of 4 parts failed.*part-2.npz: its worker .*killed"):
        sketched(folder, logged.Logged(LocalProcesses(2)))
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


def test_parts_finished_before_a_worker_and_the_scheduler_are_killed_are_kept(
    environment, folder, logged
):
    with cluster(folder, "first", 2, logged) as (address, scheduler, workers):

        def kill():
            until(folder, logged, {2, 3})
            logged.wait_until(lambda: finished(folder) == 2)
            pid = logged.begun(folder)[1][2]
            next(process for process in workers if process.pid == pid).kill()
            scheduler.kill()

        where = logged.Logged(DaskCluster(address, connect_seconds=5))
        lost = f"lost the Dask scheduler at {address}.*Start it again"
        with meanwhile(kill), pytest.raises(EngineError, match=lost):
            applied(folder, where)
    times = {p: p.stat().st_mtime_ns for p in folder.glob("out/*") if p.suffix != ".json"}
    assert len(times) == 2
    (folder / "log" / "go").touch()
    found = applied(folder)  # whatever makes the others
    assert {p: p.stat().st_mtime_ns for p in times} == times
    assert found == alone(applied, folder)


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
                found = sketched(folder, DaskCluster(address))
            assert found == alone(sketched, folder)
            with pytest.raises(ValueError, match=r"tls:// needs a key .*ca-file"):
                sketched(folder, DaskCluster(address))
