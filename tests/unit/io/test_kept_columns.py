"""Columns kept by `apply` are as they were, types and nulls included."""

import json

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from focalibrate.io import read_predictions, write_probs

CELLS = {
    "id": ["12345678901234567", "12345678901234568"],
    "size": ["1e1", "2e1"],
    "version": ["1.10", "1.20"],
    "phone": ["+4930123", "+4930124"],
    "code": ["007", "010"],
    "formula": ["=1+1", "=2+2"],
}


def _csv(folder):
    rows = zip(*CELLS.values(), strict=True)
    lines = [",".join([*row, "0.25", "0.75", "dog"]) for row in rows]
    path = folder / "val.csv"
    path.write_text(",".join([*CELLS, "cat", "dog", "label"]) + "\n" + "\n".join(lines) + "\n")
    return path


def _read_back(path):
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pydict()
    if path.suffix == ".feather":
        return feather.read_table(path).to_pydict()
    if path.suffix == ".jsonl":
        records = [json.loads(line) for line in path.read_text().splitlines()]
        return {name: [r[name] for r in records] for name in records[0]}
    if path.suffix == ".xlsx":
        openpyxl = pytest.importorskip("openpyxl")
        rows = list(openpyxl.load_workbook(path).active.iter_rows())
        assert all(cell.data_type != "f" for row in rows for cell in row)
        return {h.value: [row[i].value for row in rows[1:]] for i, h in enumerate(rows[0])}
    lines = [line.split(",") for line in path.read_text().splitlines()]
    return {name: [line[i] for line in lines[1:]] for i, name in enumerate(lines[0])}


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather", ".jsonl", ".xlsx"])
def test_text_in_is_the_same_text_out(tmp_path, suffix):
    found = read_predictions(_csv(tmp_path))
    out = tmp_path / f"out{suffix}"
    write_probs(out, [found.scores], like=found)
    table = _read_back(out)
    for name, cells in CELLS.items():
        assert [str(value) for value in table[name]] == cells


@pytest.mark.parametrize("n_parts", [1, 3])
@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_types_and_nulls_stay(tmp_path, n_parts, suffix):
    more = {
        "when": pa.array([0, None], pa.timestamp("us", tz="UTC")),
        "n": pa.array([1, None], pa.int64()),
        "big": pa.array([2**60, None], pa.int64()),
        "text": pa.array(["", None]),
        "flag": pa.array([True, None]),
    }
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(n_parts):
        columns = {"cat": [0.25, 0.5], "dog": [0.75, 0.5], "label": ["dog", "cat"], **more}
        pq.write_table(pa.table({**columns, "part": [i, i]}), folder / f"part-{i}.parquet")
    found = read_predictions(folder)
    out = tmp_path / f"out{suffix}"
    write_probs(out, [found.scores], like=found)
    table = pq.read_table(out) if suffix == ".parquet" else feather.read_table(out)
    for name, column in more.items():
        assert table[name].type == column.type
        assert table[name].to_pylist() == column.to_pylist() * n_parts
