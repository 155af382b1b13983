from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.unit.pipeline.backwards import Backwards

from focalibrate.calibrate import Identity, TemperatureScaling
from focalibrate.engines import EngineError, LocalProcesses
from focalibrate.io import (
    PredictionFileError,
    read_predictions,
    scan_predictions,
    sketch_bytes,
)
from focalibrate.metrics import METRICS
from focalibrate.pipeline import evaluate_predictions, sketch_predictions
from focalibrate.pipeline.work import part_tasks


def write_parts(folder, n_parts=4, *, seed=0, columns=("w", "region")):
    folder.mkdir()
    rng = np.random.default_rng(seed)
    for i in range(n_parts):
        n = 30 + 10 * i
        logits = 2 * rng.normal(size=(n, 3))
        labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
        names = ["logit_a", "logit_b", "logit_c", "label", *columns]
        lines = [",".join(names)]
        for row, y in zip(logits.tolist(), labels, strict=True):
            extra = [str(rng.integers(0, 3)), rng.choice(["n", "s"])][: len(columns)]
            lines.append(",".join([*map(repr, row), "abc"[y], *extra]))
        (folder / f"part-{i}.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def parts(tmp_path):
    return write_parts(tmp_path / "preds")


def same(first, second):
    for name in ("top", "classes"):
        mine, theirs = getattr(first.sketch, name), getattr(second.sketch, name)
        assert_array_equal(mine.sums, theirs.sums)
    for name, moments in first.sketch.scores.items():
        assert_array_equal(moments.powers, second.sketch.scores[name].powers)
        assert moments.rows == second.sketch.scores[name].rows


def test_the_sketch_of_parts_is_that_of_their_rows(parts):
    options = {"weight_column": "w", "by": "region"}
    found = sketch_predictions(parts, **options)
    rows = read_predictions(parts, **options)
    probs = Identity().probs(logits=rows.scores)
    evaluated = evaluate_predictions(found, name="x")
    for name, metric in METRICS.items():
        want = metric.function(probs, rows.labels, sample_weight=rows.weights)
        off = abs(evaluated.scores[name].estimate - want)
        assert off <= evaluated.error_bound.get(name, 0.0) + 1e-9, name
    assert found.class_names == ("a", "b", "c")
    n_rows = np.count_nonzero(rows.weights)
    assert sum(group.n for group in evaluated.groups) == evaluated.n_rows == n_rows
    assert "within" in evaluated.notes[0]
    assert evaluated.to_dict()["sketch"]["versions"]["focalibrate"]


def test_elsewhere_and_here_give_the_same_bits(parts, serial, tmp_path):
    here = sketch_predictions(parts)
    same(here, sketch_predictions(parts, backend=serial))
    same(here, sketch_predictions(parts, backend=serial, folder=tmp_path / "kept"))
    one = sketch_predictions(parts, batch_rows=7)
    assert_array_equal(one.sketch.top.sums[[0, 5]], here.sketch.top.sums[[0, 5]])
    for name, score in here.sketch.scores.items():
        assert_allclose(one.sketch.scores[name].mean, score.mean, rtol=1e-12)
    backwards = sketch_predictions(sorted(parts.iterdir(), reverse=True))
    assert_array_equal(backwards.sketch.top.sums[[0, 5]], here.sketch.top.sums[[0, 5]])


def test_a_calibrator_is_applied_first(parts):
    cured = sketch_predictions(parts, calibrator=TemperatureScaling(2.0))
    assert cured.calibrator == "temperature scaling: T=2"
    raw = sketch_predictions(parts)
    assert cured.sketch.scores["nll"].mean < raw.sketch.scores["nll"].mean
    assert "ece" in evaluate_predictions(cured).scores


def test_an_interrupted_sketch_goes_on_where_it_was(parts, serial, tmp_path, monkeypatch):
    kept = tmp_path / "kept"

    class Broken:
        def map(self, function, arguments):
            yield 2, function(*arguments[2])
            yield 0, function(*arguments[0])
            raise EngineError("lost")

    with pytest.raises(EngineError, match="lost"):
        sketch_predictions(parts, backend=Broken(), folder=kept)
    assert len(list(kept.iterdir())) == 2
    asked = []

    class Counting:
        def map(self, function, arguments):
            asked.extend(Path(task.at.name).name for (task,) in arguments)
            return serial.map(function, arguments)

    same(sketch_predictions(parts, backend=Counting(), folder=kept), sketch_predictions(parts))
    assert asked == ["part-1.csv", "part-3.csv"]
    damaged = sorted(kept.iterdir())[0]
    damaged.write_bytes(damaged.read_bytes()[:-5])
    same(sketch_predictions(parts, folder=kept), sketch_predictions(parts))
    asked.clear()
    sketch_predictions(parts, backend=Counting(), folder=kept, n_bins=10)
    assert len(asked) == 4  # other options, other sketches


def test_a_worker_without_the_folder_sends_the_sketch(parts, tmp_path):
    (tmp_path / "file").touch()

    class Elsewhere:
        def map(self, function, arguments):
            for place, (task,) in enumerate(arguments):
                yield place, function(replace(task, folder=tmp_path / "file" / "kept"))

    kept = tmp_path / "kept"
    same(sketch_predictions(parts, backend=Elsewhere(), folder=kept), sketch_predictions(parts))
    assert len(list(kept.iterdir())) == 4


def test_parts_that_fail_are_counted_and_the_first_is_named(parts, serial):
    path = parts / "part-2.csv"
    path.write_text(path.read_text().replace(",a,", ",zebra,"))
    with pytest.raises(EngineError, match=r"1 of 4 parts failed; the first: .*part-2\.csv.*zebra"):
        sketch_predictions(parts, backend=serial)
    with pytest.raises(PredictionFileError, match=r"part-2\.csv"):
        sketch_predictions(parts)


def test_a_part_that_changed_on_the_way_is_refused(parts, serial):
    class Changing:
        def map(self, function, arguments):
            (parts / "part-1.csv").write_text((parts / "part-0.csv").read_text() + "\n")
            return serial.map(function, arguments)

    with pytest.raises(EngineError, match=r"part-1\.csv: is not the same file here"):
        sketch_predictions(parts, backend=Changing())


def test_workers_of_another_version_are_refused(parts, serial):
    class Mixed:
        def map(self, function, arguments):
            for place, found in serial.map(function, arguments):
                version = "0.0.1" if place == 3 else found.versions["focalibrate"][0]
                yield place, replace(found, versions={"focalibrate": (version,)})

    with pytest.raises(PredictionFileError, match=r"part-3\.csv: was made by focalibrate 0\.0\.1"):
        sketch_predictions(parts, backend=Mixed())

    with pytest.raises(EngineError, match=r"a worker has focalibrate .*, but the command 0\.0\.1"):
        sketch_predictions(parts, backend=Backwards(version="0.0.1"))


def test_rows_of_weight_zero_and_parts_of_them_count_for_nothing(tmp_path):
    folder = write_parts(tmp_path / "preds", 2, columns=("w",))
    path = folder / "part-0.csv"
    lines = path.read_text().splitlines()
    path.write_text(
        "\n".join([lines[0], *(line[: line.rindex(",")] + ",0" for line in lines[1:])])
    )
    found = sketch_predictions(folder, weight_column="w")
    alone = sketch_predictions(folder / "part-1.csv", weight_column="w")
    same(found, alone)
    (folder / "part-1.csv").unlink()
    with pytest.raises(PredictionFileError, match=r"no rows that count|weight"):
        sketch_predictions(folder, weight_column="w")


def test_labels_are_needed(tmp_path):
    np.savez(tmp_path / "z.npz", logits=np.zeros((5, 3)))
    with pytest.raises(PredictionFileError, match=r"no labels found.*--labels FILE"):
        sketch_predictions(tmp_path / "z.npz")


def test_tasks_know_everything_that_decides_the_sketch(parts):
    keys = set()

    class Asked:
        def map(self, function, arguments):
            keys.update(task.key for (task,) in arguments)
            raise EngineError("asked")
            yield

    for options, bins, calibrator in (
        ({}, 15, None),
        ({"by": "region"}, 15, None),
        ({}, 10, None),
        ({}, 15, TemperatureScaling(2.0)),
    ):
        with pytest.raises(EngineError, match="asked"):
            sketch_predictions(
                parts, backend=Asked(), calibrator=calibrator, n_bins=bins, **options
            )
    assert len(keys) == 16


def _row_groups(path, n, size, seed=0):
    """Write a parquet file of several row groups."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(seed)
    columns = {f"logit_{c}": rng.normal(size=n) for c in "abc"}
    columns["label"] = rng.choice(list("abc"), size=n)
    parquet.write_table(pa.table(columns), path, row_group_size=size)


def test_a_large_parquet_file_is_cut_between_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr("focalibrate.io.formats.arrow.PIECE_BYTES", 5000)
    _row_groups(tmp_path / "one.parquet", 1000, 90)
    _row_groups(tmp_path / "two.parquet", 50, 90, seed=1)
    scan = scan_predictions(tmp_path)
    numbers = [(piece.part, piece.number) for piece in scan.pieces]
    assert numbers == [*((0, i) for i in range(6)), (1, None)]
    for part in (0, 1):
        whole = np.concatenate([b.scores for b in scan.batches(part)])
        pieces = [piece for piece in scan.pieces if piece.part == part]
        cut = [b.scores for p in pieces for b in scan.batches(part, piece=p.number)]
        assert_array_equal(np.concatenate(cut), whole)
    here = sketch_predictions(tmp_path)
    there = sketch_predictions(tmp_path, backend=Backwards())
    assert here.sketch.n == 1050
    assert sketch_bytes(here) == sketch_bytes(there)


def test_pieces_find_their_labels_in_another_file(tmp_path, monkeypatch):
    monkeypatch.setattr("focalibrate.io.formats.arrow.PIECE_BYTES", 5000)
    _row_groups(tmp_path / "one.parquet", 500, 90)
    labels = np.random.default_rng(3).choice(list("abc"), size=500)
    (tmp_path / "y.csv").write_text("label\n" + "\n".join(labels) + "\n")
    options = {"labels_path": tmp_path / "y.csv", "ignore": ["label"]}
    scan = scan_predictions(tmp_path / "one.parquet", **options)
    whole = np.concatenate([b.labels for b in scan.batches()])
    cut = [b.labels for p in scan.pieces for b in scan.batches(0, piece=p.number)]
    assert len(scan.pieces) > 1
    assert_array_equal(np.concatenate(cut), whole)
    (tmp_path / "y.csv").write_text("label\n" + "\n".join([*labels, "a"]) + "\n")
    longer = scan_predictions(tmp_path / "one.parquet", **options)
    with pytest.raises(PredictionFileError, match="more labels than rows"):
        list(longer.batches(0, piece=longer.pieces[-1].number))


@pytest.mark.slow
def test_one_large_file_is_shared_by_two_workers_to_the_last_bit(tmp_path):
    _row_groups(tmp_path / "large.parquet", 3_200_000, 400_000)
    assert len(scan_predictions(tmp_path / "large.parquet").pieces) > 1
    one = sketch_predictions(tmp_path / "large.parquet")
    two = sketch_predictions(tmp_path / "large.parquet", backend=LocalProcesses(2))
    assert sketch_bytes(one) == sketch_bytes(two)


def test_a_part_behind_a_url_that_was_written_again_is_another_part(parts):
    scan = scan_predictions(parts)
    before = [task.stamp for task in part_tasks(scan)]
    scan.parts = (replace(scan.parts[0], changed=1), *scan.parts[1:])
    after = [task.stamp for task in part_tasks(scan)]
    assert [a == b for a, b in zip(before, after, strict=True)] == [False, True, True, True]
