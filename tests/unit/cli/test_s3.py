"""Predictions in a bucket, read and written through a local server that speaks S3.

The server is moto's, in an environment of its own inside this one, which the first test makes:
moto asks for an older python-dateutil than this one's. focalibrate itself reaches the bucket by
pyarrow.
"""

import fcntl
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from focalibrate.io import PredictionFileError, read_predictions, scan_predictions

pytestmark = pytest.mark.slow
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
fs = pytest.importorskip("pyarrow.fs")

PACKAGES = ("moto==5.2.5", "flask", "flask-cors")
CLASSES = ("cat", "dog", "ox")


def installed(folder):
    """Return a Python with moto, installed by the first process that asks for it."""
    folder.mkdir(exist_ok=True)
    python = folder / "bin/python"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done_before = folder / "done"
        if done_before.exists() and done_before.read_text() == str(PACKAGES):
            return python
        venv.create(folder, with_pip=False, symlinks=True)
        words = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
        words += ["install", "--quiet", "--no-compile", "--retries", "1", *PACKAGES]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"moto could not be installed: {done.stderr.strip().splitlines()[-1:]}")
        done_before.write_text(str(PACKAGES))
    return python


@pytest.fixture(scope="module")
def server():
    """The port of a server of S3 on this machine, with an empty bucket `preds`."""
    place = sys.prefix if os.access(sys.prefix, os.W_OK) else tempfile.gettempdir()
    python = installed(Path(place) / "focalibrate-moto")
    script = Path(__file__).with_name("s3_server.py")
    with subprocess.Popen(
        [python, "-W", "ignore", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        yield int(process.stdout.readline())
        process.stdin.close()


@pytest.fixture
def bucket(server, monkeypatch):
    """The file system of the bucket, which the usual variables of AWS lead to."""
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    system, _ = fs.FileSystem.from_uri("s3://preds")
    system.delete_dir_contents("preds")
    return system


def write_days(system, n=300):
    """Write two days of overconfident predictions, two parts each; return logits and labels."""
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(4 * n, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    for i in range(4):
        rows = slice(n * i, n * (i + 1))
        columns = {f"logit_{name}": 3 * z[rows, k] for k, name in enumerate(CLASSES)}
        table = pa.table({"id": np.arange(n * i, n * (i + 1)), **columns, "label": y[rows]})
        path = f"preds/raw/day={i // 2 + 1}/part-{i % 2}.parquet"
        with system.open_output_stream(path) as file:
            pq.write_table(table, file)
    with system.open_output_stream("preds/raw/_SUCCESS"):
        pass
    return 3 * z, y


def test_the_commands_read_a_bucket_and_write_to_it(bucket, cli, tmp_path):
    z, y = write_days(bucket)
    found = cli("evaluate", "s3://preds/raw", "--by", "day")
    assert "raw: 1,200 rows × 3 classes (cat, dog, ox), logits" in found.stdout
    assert "day = 2 (600 rows): miscalibrated" in found.stdout
    sketch = ("sketch", "s3://preds/raw/day=1/*.parquet", "-o", "day1.sketch", "--workers", "2")
    assert "600 rows × 3 classes" in cli(*sketch).stdout
    words = ("--fit-rows", "400", "--methods", "temperature", "--resamples", "10", "-o", "report")
    done = cli("calibrate", "s3://preds/raw", *words)
    assert "Fitted on 400 of 1,200 rows" in " ".join(done.stdout.split())
    apply = ("apply", "report/calibrator.json", "s3://preds/raw", "-o", "s3://preds/cured")
    assert "Calibrated 1,200 rows of 4 parts" in cli(*apply, "--workers", "2").stdout
    assert "0 parts, 4 were done before" in cli(*apply).stdout
    assert not list(tmp_path.glob("s3*"))
    with bucket.open_input_file("preds/cured/day=2/part-1.parquet") as file:
        last = pq.read_table(file)
    assert last.column_names == ["id", *(f"prob_{name}" for name in CLASSES), "label"]
    assert last["id"].to_pylist() == list(range(900, 1200))
    cured = read_predictions("s3://preds/cured")
    assert_array_equal(cured.labels, y)
    assert_array_equal(cured.scores.argmax(axis=1), z.argmax(axis=1))
    assert cured.scores.max(axis=1).mean() < 0.8  # uncalibrated: above 0.9


def test_files_folders_and_patterns_of_a_bucket(bucket, server):
    z, _ = write_days(bucket, n=10)
    with bucket.open_output_stream("preds/z.npy") as file:
        np.save(file, z)
    options = f"?endpoint_override=127.0.0.1:{server}&scheme=http&region=us-east-1"
    for path in ("raw", "raw/day=*/part-*.parquet", "raw/**/part-?.parquet"):
        scan = scan_predictions(f"s3://key:secret@preds/{path}{options}", batch_rows=4)
        assert_allclose(np.concatenate([b.scores for b in scan.batches()]), z)
        assert len(scan.parts) == 4
        assert all(part.changed for part in scan.parts)  # or changed parts would be taken as done
        assert "secret" not in scan.describe() + "".join(part.name for part in scan.parts)
    one = scan_predictions("s3://preds/z.npy", input="logits", batch_rows=7)
    assert_array_equal(np.concatenate([b.scores for b in one.batches()]), z)
    for path in ("preds/none", "nobucket/x.csv"):
        with pytest.raises(PredictionFileError, match="does not exist") as found:
            scan_predictions(f"s3://key:secret@{path}{options}")
        assert "secret" not in str(found.value)
