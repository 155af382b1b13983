"""A data set of parts in, a data set of parts out."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.io import (
    PartsOutput,
    PredictionFileError,
    parts_written,
    read_predictions,
    scan_predictions,
    write_part,
)
from focalibrate.io.write import part_names

NAMES = ("cat", "dog", "eel")


def write_parts(scan, out, calibrated, *, key, force=False, progress=None):
    """Write all parts, one after another."""
    output = PartsOutput(scan, out, key=key, force=force)
    outcomes = []
    try:
        for index, name in enumerate(output.names):
            done = write_part(scan, index, out, name, calibrated, before=output.before(index))
            output.add(index, done)
            outcomes.append(done)
            if progress is not None:
                progress(len(outcomes), len(output.names))
    finally:
        output.save()
    return parts_written(outcomes)


def _halved(batch):
    """Used as a calibrator: moves probabilities half-way to the uniform distribution."""
    scores = np.exp(batch.scores.astype(float))
    probs = scores / scores.sum(axis=1, keepdims=True)
    return batch, (0.5 * probs + 0.5 / batch.n_classes).astype(batch.scores.dtype)


def _csv(folder: Path, n_parts: int = 3) -> np.ndarray:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n_parts * 20, 3)).round(3)
    for i in range(n_parts):
        lines = ["id,price,logit_cat,logit_dog,logit_eel,label"]
        for k in range(20 * i, 20 * i + 20):
            cells = [f"{k:05d}", "1.50", *map(str, z[k]), NAMES[k % 3]]
            lines.append(",".join(cells))
        (folder / f"part-{i}.csv").write_text("\n".join(lines) + "\n")
    return z


def test_csv_parts_keep_their_names_and_the_text_of_other_columns(tmp_path):
    z = _csv(tmp_path)
    out = tmp_path / "out"
    scan = scan_predictions(tmp_path / "part-*.csv", batch_rows=7)
    done = write_parts(scan, out, _halved, key="a")
    assert (done.n_rows, done.n_written, done.n_kept) == (60, 3, 0)
    assert part_names(scan) == ["part-0.csv", "part-1.csv", "part-2.csv"]
    lines = (out / "part-1.csv").read_text().splitlines()
    assert lines[0] == "id,price,prob_cat,prob_dog,prob_eel,label"
    assert lines[1].startswith("00020,1.50,")
    found = read_predictions(out)
    assert found.n_rows == 60
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    assert_allclose(found.scores, 0.5 * p + 1 / 6, rtol=1e-12)


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".jsonl", ".npz", ".npy"])
def test_other_formats(tmp_path, suffix):
    pa = pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(40, 3)).astype(np.float32), rng.integers(3, size=40)
    for i in range(2):
        rows, path = slice(20 * i, 20 * i + 20), tmp_path / f"part-{i}{suffix}"
        columns = {f"logit_{n}": z[rows, k] for k, n in enumerate(NAMES)}
        table = pa.table({"id": [f"r{k}" for k in range(20)], **columns, "label": y[rows]})
        if suffix == ".parquet":
            pytest.importorskip("pyarrow.parquet").write_table(table, path, row_group_size=6)
        elif suffix == ".feather":
            pytest.importorskip("pyarrow.feather").write_feather(table, str(path))
        elif suffix == ".jsonl":
            table.to_pandas().to_json(path, orient="records", lines=True)
        elif suffix == ".npz":
            np.savez(path, logits=z[rows], labels=y[rows])
        else:
            np.save(path, z[rows])
    options = {"input": "logits"} if suffix == ".npy" else {}
    scan = scan_predictions(tmp_path, batch_rows=8, **options)
    done = write_parts(scan, tmp_path / "out", _halved, key="a")
    assert (done.n_rows, done.n_written) == (40, 2)
    found = [read_predictions(tmp_path / "out" / name) for name in part_names(scan)]
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    assert_allclose(np.concatenate([f.scores for f in found]), 0.5 * p + 1 / 6, atol=1e-5)
    if suffix != ".npy":
        assert np.concatenate([f.labels for f in found]).tolist() == y.tolist()
    if suffix in (".parquet", ".feather", ".jsonl"):
        assert "id" in found[0].layout.names


def test_finished_parts_are_kept_unless_the_input_or_the_key_changes(tmp_path):
    _csv(tmp_path)
    out = tmp_path / "out"
    pattern = str(tmp_path / "part-*.csv")
    write_parts(scan_predictions(pattern), out, _halved, key="a")
    again = write_parts(scan_predictions(pattern), out, _halved, key="a")
    assert (again.n_written, again.n_kept) == (0, 3)
    text = (tmp_path / "part-1.csv").read_text()
    (tmp_path / "part-1.csv").write_text(text.replace("1.50", "1.75"))
    changed = write_parts(scan_predictions(pattern), out, _halved, key="a")
    assert (changed.n_written, changed.n_kept) == (1, 2)
    assert "1.75" in (out / "part-1.csv").read_text()
    with pytest.raises(FileExistsError, match="made by another calibrator, with other opt"):
        write_parts(scan_predictions(pattern), out, _halved, key="b")
    forced = write_parts(scan_predictions(pattern), out, _halved, key="b", force=True)
    assert forced.n_written == 3
    (out / "_focalibrate-apply.json").write_text("{")
    with pytest.raises(PredictionFileError, match=r"is damaged. Remove it"):
        write_parts(scan_predictions(pattern), out, _halved, key="b")


def test_files_of_others_are_not_overwritten(tmp_path):
    _csv(tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    (out / "part-2.csv").write_text("mine")
    with pytest.raises(FileExistsError, match=r"already holds part-2\.csv"):
        write_parts(scan_predictions(tmp_path / "part-*.csv"), out, _halved, key="a")
    assert (out / "part-2.csv").read_text() == "mine"
    assert not (out / "part-0.csv").exists()


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, str(Path({tests!r})))
from test_write_parts import _halved, write_parts
from focalibrate.io import scan_predictions
n = 0
def killed(batch):
    global n
    n += 1
    if n == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return _halved(batch)
write_parts(scan_predictions({source!r}), {out!r}, killed, key="a")
"""


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_stopped(tmp_path):
    _csv(tmp_path)
    out, source = tmp_path / "out", str(tmp_path / "part-*.csv")
    script = KILLED.format(tests=str(Path(__file__).parent), source=source, out=str(out))
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True)
    assert done.returncode == -9, done.stderr
    assert (out / "part-1.csv").exists()
    assert not (out / "part-2.csv").exists()
    before = {name: (out / name).stat().st_mtime_ns for name in ("part-0.csv", "part-1.csv")}
    again = write_parts(scan_predictions(source), out, _halved, key="a")
    assert (again.n_written, again.n_kept, again.n_rows) == (1, 2, 20)
    assert {name: (out / name).stat().st_mtime_ns for name in before} == before
    whole = tmp_path / "whole"
    write_parts(scan_predictions(source), whole, _halved, key="a")
    for name in part_names(scan_predictions(source)):
        assert (out / name).read_bytes() == (whole / name).read_bytes()


def test_a_finished_part_that_was_not_yet_recorded_is_known_as_ours(tmp_path):
    """A worker elsewhere finishes its part even if the command that started it is killed."""
    _csv(tmp_path)
    out, pattern = tmp_path / "out", str(tmp_path / "part-*.csv")
    scan = scan_predictions(pattern)
    output = PartsOutput(scan, out, key="a")
    write_part(scan, 1, out, output.names[1], _halved)  # and nobody records it
    again = write_parts(scan_predictions(pattern), out, _halved, key="a")
    assert (again.n_written, again.n_kept) == (3, 0)


@pytest.mark.parametrize("pattern", ["preds", "preds/day=*/*.parquet", "preds/day=1/*.parquet"])
def test_columns_in_the_names_of_folders_stay_there(tmp_path, pattern):
    """Written into the files as well, they would be text where the folders have numbers."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    for day in (1, 2):
        folder = tmp_path / f"preds/day={day}"
        folder.mkdir(parents=True)
        z = rng.normal(size=(20, 3))
        columns = {f"logit_{name}": z[:, k] for k, name in enumerate(NAMES)}
        table = pa.table({"id": np.arange(20), **columns, "label": rng.integers(3, size=20)})
        pq.write_table(table, folder / "part-0.parquet")
    scan = scan_predictions(str(tmp_path / pattern), by=["day"])
    days = {str(day) for batch in scan.batches() for day in batch.groups["day"]}
    out = tmp_path / "out"
    write_parts(scan, out, _halved, key="a")
    assert days == {path.name.removeprefix("day=") for path in out.glob("day=*")}
    for path in out.rglob("*.parquet"):
        probs = [f"prob_{name}" for name in NAMES]
        assert pq.read_schema(path).names == ["id", *probs, "label"]
    found = pq.read_table(out)
    assert (found.num_rows, found.column_names[-1]) == (20 * len(days), "day")


def test_labels_in_the_names_of_folders_stay_there(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for name in NAMES:
        (tmp_path / f"preds/label={name}").mkdir(parents=True)
        table = pa.table({f"logit_{other}": [0.5, float(name == other)] for other in NAMES})
        pq.write_table(table, tmp_path / f"preds/label={name}/part-0.parquet")
    scan = scan_predictions(tmp_path / "preds")
    write_parts(scan, tmp_path / "out", _halved, key="a")
    (first, *_) = sorted((tmp_path / "out").rglob("*.parquet"))
    assert pq.read_schema(first).names == [f"prob_{name}" for name in NAMES]
    again = read_predictions(tmp_path / "out")
    assert again.labels.tolist() == [0, 0, 1, 1, 2, 2]


def test_a_folder_behind_a_url(tmp_path):
    pytest.importorskip("fsspec")
    _csv(tmp_path)
    pattern, out = str(tmp_path / "part-*.csv"), "memory://bucket/out"
    write_parts(scan_predictions(pattern), tmp_path / "here", _halved, key="a")
    done = write_parts(scan_predictions(pattern), out, _halved, key="a")
    assert (done.n_written, done.n_rows) == (3, 60)
    again = write_parts(scan_predictions(pattern), out, _halved, key="a")
    assert (again.n_written, again.n_kept) == (0, 3)
    with pytest.raises(FileExistsError, match="made by another calibrator"):
        write_parts(scan_predictions(pattern), out, _halved, key="b")
    here, there = scan_predictions(tmp_path / "here"), scan_predictions(out)
    assert [Path(part.name).name for part in there.parts] == part_names(here)
    for one, other in zip(here.batches(), there.batches(), strict=True):
        assert one.scores.tolist() == other.scores.tolist()
    write_parts(scan_predictions(pattern), f"file://{tmp_path}/local", _halved, key="a")
    assert (tmp_path / "local/part-0.csv").is_file()


def test_a_format_that_is_only_read_is_refused_with_advice(tmp_path):
    for i in range(2):
        (tmp_path / f"part-0000{i}").write_text(f"logit_cat,logit_dog,label\n0.5,{i},cat\n")
    with pytest.raises(PredictionFileError, match=r"part-00000: cannot be written in the format"):
        write_parts(scan_predictions(tmp_path), tmp_path / "out", _halved, key="a")
    assert not (tmp_path / "out").exists()


def test_labels_in_files_of_their_own_are_refused_before_anything_is_written(tmp_path):
    for i in range(2):
        np.save(tmp_path / f"logits-{i}.npy", np.full((4, 3), i))
        np.save(tmp_path / f"labels-{i}.npy", np.zeros(4, int))
    with pytest.raises(PredictionFileError, match=r"part by part with its labels in other files"):
        write_parts(scan_predictions(tmp_path), tmp_path / "out", _halved, key="a")
    assert not (tmp_path / "out").exists()


def test_the_list_of_very_many_parts_is_not_written_for_every_one(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["focalibrate.io.write"], "MANY", 4)
    _csv(tmp_path, n_parts=8)
    pattern, out = str(tmp_path / "part-*.csv"), tmp_path / "out"
    scan = scan_predictions(pattern)
    output = PartsOutput(scan, out, key="a")
    for index, name in enumerate(output.names):
        output.add(index, write_part(scan, index, out, name, _halved))
    again = [PartsOutput(scan, out, key="a").before(i) is not None for i in range(8)]
    assert again == [True] * 6 + [False] * 2
    output.save()
    done = write_parts(scan_predictions(pattern), out, _halved, key="a")
    assert (done.n_written, done.n_kept) == (0, 8)


def test_the_list_of_parts_is_the_same_whichever_was_done_first(tmp_path):
    _csv(tmp_path)
    scan, made = scan_predictions(str(tmp_path / "part-*.csv")), []
    for name, order in (("a", [0, 1, 2]), ("b", [2, 0, 1])):
        output = PartsOutput(scan, tmp_path / name, key="a")
        for i in order:
            output.add(i, write_part(scan, i, tmp_path / name, output.names[i], _halved))
        output.save()
        made.append((tmp_path / name / "_focalibrate-apply.json").read_bytes())
    assert made[0] == made[1]
