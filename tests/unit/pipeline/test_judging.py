"""Rows drawn and methods evaluated by workers: the same results, to the last bit."""

import pathlib
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from tests.unit.pipeline.backwards import Backwards

from focalibrate.engines import EngineError
from focalibrate.io import scan_predictions
from focalibrate.pipeline import calibrate_predictions, work
from focalibrate.pipeline.sample import draw

FEW = {"methods": ["temperature", "vector"], "n_resamples": 20}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """One chunk per part."""
    monkeypatch.setattr(work, "CHUNK_BYTES", 1)


def write(folder, suffix, n=400, n_parts=5, seed=0):
    """Write parts with weights, of which many are 0, groups, and labels of which some miss."""
    rng = np.random.default_rng(seed)
    folder.mkdir()
    for i in range(n_parts):
        truth = rng.normal(size=(n, 3))
        labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1).tolist()
        columns = {f"logit_{name}": 2 * truth[:, k] for k, name in enumerate("abc")}
        columns["w"] = np.where(rng.random(n) < 0.9, 0, rng.integers(1, 4, size=n))
        columns["region"] = rng.choice(["north", "south"], size=n).tolist()
        columns["label"] = ["abc"[y] if y_at % 50 else None for y_at, y in enumerate(labels)]
        path = folder / f"part-{i}{suffix}"
        if suffix == ".csv":
            lines = [",".join(columns)]
            lines += [
                ",".join("" if v is None else str(v) for v in row)
                for row in zip(*columns.values(), strict=True)
            ]
            path.write_text("\n".join(lines) + "\n")
        else:
            pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
            pq.write_table(pa.table(columns), path)
    return folder


def without_times(result):
    record = result.to_dict()
    del record["made_with"]
    return record


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("weighted", [False, True])
def test_workers_draw_the_same_rows(tmp_path, suffix, weighted):
    options = {"drop_missing": True, "by": "region", "batch_rows": 70}
    if weighted:
        options["weight_column"] = "w"
    scan = scan_predictions(write(tmp_path / "preds", suffix), **options)
    for n_keep in (150, 10_000):
        where = Backwards()
        here, there = draw(scan, n_keep, None), draw(scan, n_keep, None, backend=where)
        assert (here.n_rows, here.zeros) == (there.n_rows, there.zeros)
        mine, theirs = here.take(0, None), there.take(0, None)
        assert_array_equal(np.sort(here.hashes), np.sort(there.hashes)[:n_keep])
        for name in ("scores", "labels", "weights"):
            assert_array_equal(getattr(mine, name), getattr(theirs, name))
        assert_array_equal(mine.groups["region"], theirs.groups["region"])
        # With most weights 0, the sample has larger hashes than the number of rows suggests.
        rounds = 2 if weighted and n_keep == 150 else 1
        assert where.called.count("draw_chunk") == 5 * rounds
        assert where.called.count("count_rows") == 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sample", "test set"])
def test_workers_give_the_result_of_one_process(tmp_path, kind):
    options = {"by": "region", "weight_column": "w", "drop_missing": True}
    source = scan_predictions(write(tmp_path / "preds", ".csv"), **options)
    more = dict(FEW, fit_rows=60)
    if kind == "test set":
        more["test"] = scan_predictions(write(tmp_path / "test", ".csv", seed=1), **options)
    where = Backwards()
    here, there = (
        calibrate_predictions(source, **more),
        calibrate_predictions(source, backend=where, **more),
    )
    assert without_times(here) == without_times(there)
    assert where.called.count("judge_chunk") == 5


@pytest.fixture
def complete(tmp_path):
    """Parquet parts of which no row is left out."""
    folder = write(tmp_path / "preds", ".parquet")
    pq = pytest.importorskip("pyarrow.parquet")
    for path in folder.iterdir():
        table = pq.read_table(path)
        pq.write_table(table.filter(table["label"].is_valid()), path)
    return scan_predictions(folder)


def test_rows_of_parquet_are_not_counted_by_reading(complete):
    where = Backwards()
    found = draw(complete, 100, None, backend=where)
    assert (found.n_rows, set(where.called)) == (1960, {"draw_chunk"})


def test_workers_of_another_version_are_refused(complete):
    with pytest.raises(EngineError, match=r"5 of 5 parts failed.*but the command 0\.0\.1"):
        draw(complete, 100, None, backend=Backwards(version="0.0.1"))


def test_small_parts_are_put_together(tmp_path, monkeypatch):
    scan = scan_predictions(write(tmp_path / "preds", ".csv"), drop_missing=True)
    size = scan.parts[0].n_bytes
    for least, most, expected in ((1, 256, [1] * 5), (1.5 * size, 256, [2, 2, 1]), (1, 2, [3, 2])):
        monkeypatch.setattr(work, "CHUNK_BYTES", least)
        monkeypatch.setattr(work, "MAX_CHUNKS", most)
        found = work.chunks_of(scan, [400] * 5)
        assert [len(chunk.pieces) for chunk in found] == expected
        assert [piece.part for chunk in found for piece in chunk.pieces] == list(range(5))


def test_a_worker_opens_its_own_part_only(complete):
    chunk = pickle.loads(pickle.dumps(work.chunks_of(complete, [392] * 5)[2]))
    opened, real = [], pathlib.Path.open
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builtins.open", _logged(opened, open))
        patch.setattr(pathlib.Path, "open", _logged(opened, real))
        rows = sum(batch.n_rows for batch in chunk.batches())
    assert rows > 0
    names = {pathlib.Path(str(name)).name for name in opened}
    assert {name for name in names if name.startswith("part-")} <= {"part-2.parquet"}


def _logged(names, function):
    def call(path, *rest, **more):
        names.append(path)
        return function(path, *rest, **more)

    return call
