"""Tricky files, through the public door: columns kept by `apply`, folders, rows of text.

All kinds of kept columns at once, for every format in and out, for one file, for parts written as
one file, and for parts written as parts.
"""

import csv
import gzip
import json
import re
from datetime import date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from numpy.testing import assert_array_equal

from focalibrate.calibrate import TemperatureScaling
from focalibrate.cli import main
from focalibrate.io import (
    PredictionFileError,
    SketchFile,
    merge_sketches,
    read_predictions,
    read_sketch,
    write_sketch,
)
from focalibrate.metrics import Sketch

openpyxl = pytest.importorskip("openpyxl")

# 1. Columns that `apply` keeps

TEXT = {
    "digits17": ["12345678901234567", "12345678901234568"],
    "digits25": ["1234567890123456789012345", "1"],
    "exponent": ["1e1", "2E1"],
    "version": ["1.5", "1.10"],
    "phone": ["+4930", "+4931"],
    "zeros": ["8", "007"],
    "formula": ["=1+1", "=A1"],
    "error": ["#N/A", "#REF!"],
    "booleans": ["true", "True"],
    "object": ['{"a": 1}', '{"a": 2}'],
    "dates": ["2026-01-02", "2026-01-03"],
    "fractions": ["0.1", "1e-05"],
    "huge": ["1e400", "x"],
    "unbroken": ["\u00a0a", "b"],
    "half": ["5", ""],
    "spaces": ["  5", "6 "],
    "lines": ["a\nb", "c"],
    "quote": ['"', "'"],
    "nothing": ["NA", "None"],
    "null": ["null", "nan"],
    "int64": ["9223372036854775807", "9223372036854775808"],
    "at": ["@cmd", "-1+1"],
    "slashes": ["01/02/03", "2/1"],
    "underscore": ["1_000", "2_000"],
    "hex": ["0x10", "0b1"],
    "infinity": ["inf", "-inf"],
    "minus": ["-0", "1"],
    "dot": [".5", "5."],
    "unicode": ["\u0663", "\u00dcn\u00efcode"],
    "list": ["[1, 2]", "a,b"],
}
SOURCES = [".csv", ".tsv", ".jsonl", ".parquet", ".feather", ".xlsx"]
TARGETS = [".csv", ".jsonl", ".parquet", ".feather", ".xlsx"]


def write(path, columns):
    """Write columns in the format of the suffix."""
    rows = list(zip(*columns.values(), strict=True))
    if path.suffix in (".csv", ".tsv"):
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writerows([list(columns), *rows])
    elif path.suffix == ".jsonl":
        lines = [json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows]
        path.write_text("".join(lines))
    elif path.suffix == ".xlsx":
        book = openpyxl.Workbook()
        for row in [list(columns), *rows]:
            book.active.append(list(row))
        for row in book.active.iter_rows():
            for cell in row:
                if isinstance(cell.value, str):
                    cell.data_type = "s"
        book.save(path)
    elif path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    else:
        feather.write_feather(pa.table(columns), path)
    return path


def read_back(path):
    """Return the columns of an output."""
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pydict()
    if path.suffix == ".feather":
        return feather.read_table(path).to_pydict()
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return {name: [row[name] for row in rows] for name in rows[0]}
    if path.suffix == ".xlsx":
        cells = list(openpyxl.load_workbook(path).active.iter_rows())
        assert all(cell.data_type not in "fe" for row in cells for cell in row)
        return {h.value: [row[i].value for row in cells[1:]] for i, h in enumerate(cells[0])}
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ","))
    return {name: [row[i] for row in rows[1:]] for i, name in enumerate(rows[0])}


def scores(i=0):
    """Return scores and labels of two rows that differ between parts."""
    return {"cat": [0.25 + i / 100, 0.5], "dog": [0.75 - i / 100, 0.5], "label": ["dog", "cat"]}


def apply(tmp_path, source, target):
    """Run `focalibrate apply` and return what it wrote."""
    TemperatureScaling(temperature=1.5).save(tmp_path / "calibrator.json")
    words = ["apply", tmp_path / "calibrator.json", source, "-o", target]
    done = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return target


def applied(tmp_path, columns, source, target, form):
    """Write one file or two parts, apply a calibrator, and return the columns of the output."""
    if form == "file":
        given = write(tmp_path / f"in{source}", {**columns, **scores()})
        return read_back(apply(tmp_path, given, tmp_path / f"out{target}"))
    (tmp_path / "in").mkdir()
    for i in range(2):
        write(tmp_path / "in" / f"p{i}{source}", {**columns, **scores(i)})
    if form == "parts":
        return read_back(apply(tmp_path, tmp_path / "in", tmp_path / "out") / f"p1{source}")
    return read_back(apply(tmp_path, tmp_path / "in", tmp_path / f"out{target}"))


def as_text(values):
    return ["" if value is None else str(value) for value in values]


@pytest.mark.parametrize("form", ["file", "folder"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", SOURCES)
def test_text_is_kept_as_the_same_text(tmp_path, source, target, form):
    found = applied(tmp_path, TEXT, source, target, form)
    n = 1 if form == "file" else 2
    assert {name: as_text(found[name]) for name in TEXT} == {k: v * n for k, v in TEXT.items()}


@pytest.mark.parametrize("source", SOURCES)
def test_text_of_parts_is_kept_as_the_same_text(tmp_path, source):
    found = applied(tmp_path, TEXT, source, source, "parts")
    assert {name: as_text(found[name]) for name in TEXT} == TEXT


TYPED = {
    "integers": pa.array([1, None]),
    "long": pa.array([2**60 + 1, None]),
    "unsigned": pa.array([2**63 + 1, 1], pa.uint64()),
    "booleans": pa.array([True, None]),
    "times": pa.array([1_700_000_000_123_456, None], pa.timestamp("us")),
    "nanoseconds": pa.array([1_700_000_000_123_456_789, None], pa.timestamp("ns")),
    "zoned": pa.array([1_700_000_000_123_000, None], pa.timestamp("us", tz="UTC")),
    "days": pa.array([20_000, None], pa.date32()),
    "decimals": pa.array([Decimal("1.10"), None]),
    "lists": pa.array([["a"], []]),
    "objects": pa.array([{"a": 1}, None]),
    "categories": pa.array(["x", None]).dictionary_encode(),
    "bytes": pa.array([b"\xff", None]),
    "float32": pa.array([0.1, None], pa.float32()),
    "infinite": pa.array([float("inf"), 1.0]),
    "words": pa.array(["", None]),
    "half": pa.array(np.array([0.5, 1.5], np.float16)),
    "nulls": pa.nulls(2),
}


@pytest.mark.parametrize("form", ["file", "folder", "parts"])
@pytest.mark.parametrize("target", [".parquet", ".feather"])
@pytest.mark.parametrize("source", [".parquet", ".feather"])
def test_types_and_nulls_are_kept(tmp_path, source, target, form):
    found = applied(tmp_path, TYPED, source, target, form)
    n = 2 if form == "folder" else 1
    out = tmp_path / "out" / f"p1{source}" if form == "parts" else tmp_path / f"out{target}"
    table = (pq.read_table if out.suffix == ".parquet" else feather.read_table)(out)
    for name, column in TYPED.items():
        assert found[name] == column.to_pylist() * n, name
        assert pa.types.is_dictionary(column.type) or table[name].type == column.type


def test_types_and_nulls_are_kept_as_text(tmp_path):
    found = applied(tmp_path, TYPED, ".parquet", ".csv", "file")
    assert [found[name][0] for name in list(TYPED)[:11]] == [
        *("1", str(2**60 + 1), str(2**63 + 1), "True", "2023-11-14 22:13:20.123456"),
        *("2023-11-14 22:13:20.123456789", "2023-11-14 22:13:20.123000+00:00", "2024-10-04"),
        *("1.10", '["a"]', '{"a": 1}'),
    ]
    assert {cells[1] for name, cells in found.items() if TYPED.get(name, [1, 1])[1] is None} <= {
        ""
    }


def test_excel_cuts_no_number_and_no_time(tmp_path):
    found = applied(tmp_path, TYPED, ".parquet", ".xlsx", "file")
    assert found["long"][0] == str(2**60 + 1)
    assert found["unsigned"][0] == str(2**63 + 1)
    assert found["times"][0] == "2023-11-14T22:13:20.123456"
    assert found["nanoseconds"][0] == "2023-11-14 22:13:20.123456789"
    assert found["days"][0] == datetime(2024, 10, 4)
    assert date(2024, 10, 4) == TYPED["days"][0].as_py()


def test_a_return_alone_ends_no_line(tmp_path):
    """`csv` of Python before 3.13 does not quote it, and every reader ends the row there."""
    given = {"note": ["a\rb", "c"], "lines": ["\r", "d\r\ne"]}
    for source in (".csv", ".parquet", ".jsonl"):
        for target in (".csv", ".tsv"):
            (tmp_path / (source + target)).mkdir()
            found = applied(tmp_path / (source + target), given, source, target, "file")
            assert {name: found[name] for name in given} == given, (source, target)


def test_excel_gets_days_that_it_does_not_know_as_text(tmp_path):
    moment, span = datetime(1899, 12, 31, 12), timedelta(days=-1, microseconds=1)
    given = {"day": [date(1850, 1, 1), date(1900, 2, 28)], "time": [moment, moment]}
    given["span"] = [span, timedelta(0)]
    found = applied(tmp_path, given, ".parquet", ".xlsx", "file")
    assert found["day"] == ["1850-01-01", "1900-02-28"]
    assert found["time"] == ["1899-12-31T12:00:00"] * 2
    assert found["span"][0] == str(span)


def test_long_numbers_beside_nothing_are_kept_in_arrays(tmp_path):
    """They became floats, which hold NaN but not these numbers."""
    long, short = [2**63 + 1, None], [7, None]
    given = {"long": pa.array(long, pa.uint64()), "short": pa.array(short)}
    write(tmp_path / "in.parquet", {**given, **scores()})
    with np.load(apply(tmp_path, tmp_path / "in.parquet", tmp_path / "out.npz")) as found:
        assert found["long"].tolist() == [str(2**63 + 1), ""]
        assert_array_equal(found["short"], [7, np.nan])


@pytest.mark.parametrize("text", ["x" * 40_000, "a\x0bb"])
def test_what_excel_cannot_hold_is_refused(tmp_path, text):
    write(tmp_path / "in.csv", {"note": [text, ""], **scores()})
    TemperatureScaling(temperature=1.5).save(tmp_path / "c.json")
    words = ["apply", tmp_path / "c.json", tmp_path / "in.csv", "-o", tmp_path / "out.xlsx"]
    done = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 1
    assert "a cell of .xlsx holds at most 32,767 characters" in done.output
    assert not (tmp_path / "out.xlsx").exists()


OBJECTS = {
    "objects": [{"a": 1}, {"a": 2}],
    "object or nothing": [{"a": 1}, None],
    "nested": [{"a": {"b": [1]}}, {"a": {"b": []}}],
    "long": [2**60 + 1, None],
    "lists": [["a"], []],
    "booleans": [True, None],
    "integers": [1, None],
}


@pytest.mark.parametrize("form", ["file", "folder", "parts"])
@pytest.mark.parametrize("target", [".jsonl", ".parquet", ".feather"])
def test_objects_of_json_are_kept_whole(tmp_path, target, form):
    found = applied(tmp_path, OBJECTS, ".jsonl", target, form)
    n = 2 if form == "folder" else 1
    for name, column in OBJECTS.items():
        assert found[name] == column * n, name


UNLIKE = {
    "other fields": [{"a": 1}, {"b": 2}],
    "fields missing inside": [{"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}],
    "empty object": [{}, {"a": 1}],
    "lists of objects": [[{"a": 1}, {"b": 2}], []],
    "lists of several types": [[1, "a"], [None]],
    "a.b": [1, 2],
    "a": [{"c": 1}, {"c": 2}],
}


@pytest.mark.parametrize("target", [".jsonl", ".parquet", ".csv"])
def test_objects_without_a_common_structure_are_kept(tmp_path, target):
    """They gained empty fields, and an empty one made all of them text."""
    found = applied(tmp_path, UNLIKE, ".jsonl", target, "file")
    if target != ".jsonl":
        cells = {name: [x and json.loads(x) for x in found[name]] for name in list(UNLIKE)[:5]}
        assert cells == {name: UNLIKE[name] for name in cells}
    else:
        assert {name: found[name] for name in UNLIKE} == UNLIKE


def test_half_of_a_character_changes_no_other_cell(tmp_path):
    found = applied(tmp_path, {"note": ["\ud83d", "\u00e9"]}, ".jsonl", ".jsonl", "file")
    assert found["note"] == ["\\ud83d", "\u00e9"]


@pytest.mark.parametrize("target", TARGETS)
def test_columns_of_one_name_are_all_kept(tmp_path, target):
    path = tmp_path / "in.csv"
    path.write_text("note,note,prob_cat,prob_dog\na,b,0.25,0.75\nc,d,0.5,0.5\n")
    out = apply(tmp_path, path, tmp_path / f"out{target}")
    if target == ".csv":
        assert out.read_text().startswith("note,note,prob_cat,prob_dog\na,b,")
    else:
        found = read_back(out)
        assert (found["note"], found["note.1"]) == (["a", "c"], ["b", "d"])


def test_arrays_that_cannot_be_kept_are_named(tmp_path):
    when = np.array(["2026-01-01", "2026-01-02"], "datetime64[D]")
    pair = np.array([(1, 2.0), (3, 4.0)], dtype=[("a", "i4"), ("b", "f8")])
    odd = {"when": when, "pair": pair, "objects": np.array([{}, None], dtype=object)}
    np.savez(tmp_path / "in.npz", probs=np.array([[0.25, 0.75], [0.5, 0.5]]), **odd)
    notes = read_predictions(tmp_path / "in.npz").notes
    assert "left out, as neither plain numbers nor text: `when`, `pair`, `objects`" in notes


MIXED = {
    "objects and text": ([{"a": 1}, "x"], ['{"a": 1}', "x"]),
    "long and fractions": ([2**60 + 1, 1.5], [str(2**60 + 1), "1.5"]),
    "beyond int64": ([2**70, 1], [str(2**70), "1"]),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", MIXED)
def test_values_of_several_types_become_text_and_lose_nothing(tmp_path, kind, target):
    given, expected = MIXED[kind]
    assert applied(tmp_path, {"kept": given}, ".jsonl", target, "file")["kept"] == expected


PARTS = {
    "a number is missing": ([1, 2], [None, 3.0], [1, 2, None, 3]),
    "whole and not": ([1, 2], [1.5, 2.5], [1.0, 2.0, 1.5, 2.5]),
    "long": ([2**60 + 1, 1], [1.5, 2.5], [str(2**60 + 1), "1", "1.5", "2.5"]),
    "text": ([1, 2], ["007", "x"], ["1", "2", "007", "x"]),
    "booleans": ([True, None], [1, 0], ["true", None, "1", "0"]),
    "decimals": ([Decimal("1.10"), None], [0.5, 1.0], ["1.10", None, "0.5", "1"]),
    "lists": ([["a"], []], ["x", "y"], ['["a"]', "[]", "x", "y"]),
    "nothing": ([None, None], [1, 2], [None, None, 1, 2]),
}


@pytest.mark.parametrize("kind", PARTS)
def test_parts_whose_types_differ_lose_nothing(tmp_path, kind):
    (tmp_path / "in").mkdir()
    *columns, expected = PARTS[kind]
    for i, kept in enumerate(columns):
        write(tmp_path / "in" / f"p{i}.parquet", {"kept": kept, **scores(i)})
    out = apply(tmp_path, tmp_path / "in", tmp_path / "out.parquet")
    assert read_back(out)["kept"] == expected


def test_the_type_of_a_column_is_decided_by_all_blocks(tmp_path):
    n, k = 600, 1000  # two blocks of probabilities
    probs = np.random.default_rng(0).dirichlet(np.ones(k), n)
    lasts = ("007", "x", "1.5", "99999999999999999999")
    ids = {f"id{i}": [*map(str, range(n - 1)), last] for i, last in enumerate(lasts)}
    columns = ids | {f"prob_c{i}": probs[:, i].tolist() for i in range(k)}
    out = apply(tmp_path, write(tmp_path / "in.csv", columns), tmp_path / "out.parquet")
    kept = pq.read_table(out, columns=list(ids)).to_pydict()
    assert {name: as_text(values) for name, values in kept.items()} == ids


# 3. Folders

HEAD = "id,prob_cat,prob_dog,label\n"
ROWS = "a,0.25,0.75,cat\nb,0.5,0.5,dog\nc,0.75,0.25,dog\n"
OTHER = "d,0.125,0.875,cat\n"
P = [[0.25, 0.75], [0.5, 0.5], [0.75, 0.25]]


def folder(tmp_path, files):
    """Write a folder of files."""
    place = tmp_path / "parts"
    place.mkdir()
    for name, content in files.items():
        (place / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return place


@pytest.mark.parametrize(
    "files",
    [
        {
            "a.csv.gz": gzip.compress((HEAD + ROWS).encode(), mtime=1),
            "b.csv.gz": gzip.compress((HEAD + ROWS).encode(), 1, mtime=2),
        },
        {"a.csv": HEAD + ROWS, "b.csv.gz": gzip.compress((HEAD + ROWS).encode())},
        {"a.csv.gz": gzip.compress((HEAD + ROWS).encode()), "b.csv": HEAD + ROWS},
        {"x.csv": HEAD + OTHER, "a.csv": HEAD + ROWS, "a (1).csv": HEAD + ROWS},
        {"a.csv": HEAD + ROWS, "empty.csv": HEAD, "z.csv": HEAD + ROWS},
    ],
)
def test_the_same_content_is_never_counted_twice(tmp_path, files):
    with pytest.raises(PredictionFileError, match="are the same table, whose rows would count"):
        read_predictions(folder(tmp_path, files))


def test_the_same_table_in_two_folders_is_named_with_them(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "p.csv").write_text(HEAD + ROWS)
    with pytest.raises(PredictionFileError, match=r"a/p\.csv and .*b/p\.csv are the same table"):
        read_predictions([tmp_path / "a", tmp_path / "b"])


@pytest.mark.parametrize("empty", ["", HEAD])
@pytest.mark.parametrize("at", [["0"], ["2"], ["0", "2"], ["0", "1", "3"]])
def test_parts_without_rows_are_left_out_and_named(tmp_path, empty, at):
    files = {f"p{i}.csv": empty for i in at} | {"p9.csv": HEAD + ROWS}
    found = read_predictions(folder(tmp_path, files))
    assert_array_equal(found.scores, P)
    gone = ", ".join(f"p{i}.csv" for i in at)
    assert f"parts without rows are left out: {gone}" in found.notes


def test_the_mark_of_an_open_workbook_is_no_part(tmp_path):
    write(tmp_path / "val.xlsx", scores())
    files = {"val.xlsx": (tmp_path / "val.xlsx").read_bytes(), "~$val.xlsx": b"user" + bytes(161)}
    found = read_predictions(folder(tmp_path, files))
    assert_array_equal(found.scores, P[:2])
    assert not any("left out" in note for note in found.notes)


@pytest.mark.slow
def test_parts_without_rows_are_left_out_by_workers_too(tmp_path):
    files = {"p0.csv": "", "p1.csv": HEAD + ROWS, "p2.csv": HEAD + OTHER, "p3.csv": HEAD}
    place = folder(tmp_path, files)
    made = []
    for workers in ("1", "2"):
        out = tmp_path / f"{workers}.sketch"
        words = ["sketch", str(place), "-o", str(out), "--workers", workers]
        assert CliRunner().invoke(main, words, catch_exceptions=False).exit_code == 0
        made.append(out.read_bytes())
    assert made[0] == made[1]
    assert read_sketch(tmp_path / "2.sketch").sketch.n == 4


def test_labels_by_order_name_the_order_of_the_parts(tmp_path):
    rows = [line.rsplit(",", 1)[0] for line in ROWS.splitlines()]
    files = {f"p{i}.csv": f"id,prob_cat,prob_dog\n{rows[at]}\n" for at, i in enumerate([1, 2, 10])}
    (tmp_path / "y.csv").write_text("label\ncat\ndog\ndog\n")
    found = read_predictions(folder(tmp_path, files), labels_path=tmp_path / "y.csv")
    assert_array_equal(found.scores, P)
    assert_array_equal(found.labels, [0, 1, 1])
    assert "order of the parts: p1.csv, p2.csv, p10.csv" in found.notes


@pytest.mark.parametrize("name", ["logit", "score"])
def test_a_column_of_log_odds_in_one_part_and_probabilities_in_another(tmp_path, name):
    rng = np.random.default_rng(0)
    odds, probs = rng.normal(size=50) * 3, np.r_[0.01, rng.random(48), 0.99]
    files = {
        f"p{i}.csv": f"{name},label\n" + "".join(f"{v},{int(v > 0.5)}\n" for v in values)
        for i, values in enumerate([odds, probs])
    }
    with pytest.raises(PredictionFileError, match=r"p1\.csv: .* as probabilities are"):
        read_predictions(folder(tmp_path, files), input="logits")


def _sketch(path, seed):
    rng = np.random.default_rng(seed)
    sketch = Sketch.of(logits=rng.normal(size=(9, 2)), labels=rng.integers(2, size=9), n_bins=3)
    write_sketch(SketchFile(sketch=sketch), path)
    return path


@pytest.mark.parametrize("name", ["day1.sketch", "day1 (copy).sketch"])
def test_the_same_sketch_is_never_counted_twice(tmp_path, name):
    day = _sketch(tmp_path / "day1.sketch", 1)
    again, other = tmp_path / name, _sketch(tmp_path / "day2.sketch", 2)
    again.write_bytes(day.read_bytes())
    words = ["evaluate", str(day), str(other), str(again)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 1
    assert re.search(r"is the same sketch as .*day1\.sketch", done.output)
    assert merge_sketches([read_sketch(day), read_sketch(other)]).sketch.n == 18


# 4. Rows of text

RIGHT = {
    "byte order mark": "\ufeff" + HEAD + ROWS,
    "windows": (HEAD + ROWS).replace("\n", "\r\n"),
    "old mac": (HEAD + ROWS).replace("\n", "\r"),
    "mixed ends": HEAD + ROWS.replace("\n", "\r\n", 1),
    "no end": (HEAD + ROWS).rstrip(),
    "blank lines": HEAD + ROWS.replace("b,", "\n\nb,") + "\n\n",
    "blank lines above": "\n\n" + HEAD + ROWS,
    "spaces": (HEAD + ROWS).replace(",", ", "),
    "lines of spaces": HEAD + ROWS.replace("b,", "   \nb,"),
    "tabs": (HEAD + ROWS).replace(",", "\t"),
    "separators at the ends": (HEAD + ROWS).replace("\n", ",\n"),
    "separators at the ends of rows": HEAD + ROWS.replace("\n", ",\n"),
    "hash in the first cell": HEAD + ROWS.replace("b,", "#b,"),
    "hash below a comment": "# made by x\n" + HEAD + ROWS.replace("b,", "#b,"),
    "hash below comments": "# made by x\n\n# at noon\n" + HEAD + ROWS.replace("\nb", "\n#b"),
    "hash in every row": "# made by x\n" + HEAD + "#" + ROWS.strip().replace("\n", "\n#"),
    "comment between": "# made by x\n" + HEAD + ROWS.replace("b,", "# second run\nb,"),
    "comment at the end": "# made by x\n" + HEAD + ROWS + "# done\n",
    "names in a comment": "# " + HEAD + ROWS.replace("b,", "#b,"),
    "hint of excel": "sep=,\n" + HEAD + ROWS.replace("b,", "sep=b,"),
    "hint of excel, a tab": "sep=\t\n" + (HEAD + ROWS).replace(",", "\t"),
    "hint of excel, saved again": "sep=,,,\n" + HEAD + ROWS,
    "hint of excel in quotes": '"sep=,"\n' + HEAD + ROWS,
    "line in a cell": HEAD + ROWS.replace("b,", '"b\nb",'),
    "blank line in a cell": HEAD + ROWS.replace("b,", '"b\n\nb",'),
    "line in a name": HEAD.replace("id", '"i\nd"') + ROWS,
    "line in a cell, tabs": (HEAD + ROWS).replace(",", "\t").replace("b\t", '"b\nb"\t'),
    "space that does not break": HEAD + ROWS.replace("0.25", "\u00a00.25"),
    "decimal comma": (HEAD + ROWS).replace(",", ";").replace("0.", "0,"),
}


@pytest.mark.parametrize("kind", RIGHT)
@pytest.mark.parametrize("suffix", [".csv", ".txt"])
def test_every_row_is_read(tmp_path, kind, suffix):
    path = tmp_path / f"val{suffix}"
    path.write_bytes(RIGHT[kind].encode())
    found = read_predictions(path)
    assert_array_equal(found.scores, P)
    assert_array_equal(found.labels, [0, 1, 1])


LOGITS = "logit_a;logit_b;label\n"
REFUSED = {
    "header twice": (HEAD + HEAD + ROWS, "must hold numbers"),
    "header again": (HEAD + ROWS + HEAD + ROWS, "row 3 .*has 'prob_cat'"),
    "units": ("id,cat,dog,label\n,prob,prob,\n" + ROWS, "no columns that can be recognised"),
    "short row": (HEAD + ROWS + "d,0.5", "line 5 has 2 cells"),
    "long row": (HEAD + ROWS + "d,0.5,0.5,cat,\n", "line 5 has 5 cells"),
    "cut": (HEAD + ROWS + "d,0.5,0.5,ca", "found 'ca'"),
    "open quote": (HEAD + '"' + ROWS, "unclosed or misplaced quote"),
    "end of dos": (HEAD + ROWS + "\x1a", "line 5 has 1 cell"),
    "zero bytes": (HEAD + ROWS + "\0\0", "zero bytes"),
    "row of separators": (HEAD + ROWS.replace("b,", ",,,\nb,"), "must not be missing.*row 1 "),
    "minus of a printer": (LOGITS + "\u22121.5;0.5;a\n2;1;b\n", "row 0 .*has '\u22121.5'"),
    "thousands": (LOGITS + "1,234.5;2,345.5;a\n1,000.5;3.5;b\n", "row 0 .*has '1,234.5'"),
    "thousands alone": (LOGITS + "1,234;2,345;a\n12,345;-3,500;b\n", "may be a decimal comma or"),
    "thousands and ones": (LOGITS + "1,234;2;a\n-1;3,500;b\n", "may be a decimal comma or"),
    "thousands of dots": (LOGITS + "1.234,5;2,5;a\n1,0;3.500,25;b\n", "row 0 .*has '1.234,5'"),
    "dots and commas": (LOGITS + "1.234;2,5;a\n1,0;3.500;b\n", "must hold numbers"),
    "dots far below": (LOGITS + "1,5;2,5;a\n2,5;1,5;b\n" * 300 + "1.234;2,5;a\n", "row 600 "),
    "commas far below": (LOGITS + "1.5;2.5;a\n2.5;1.5;b\n" * 300 + "1,234;2.5;a\n", "row 600 "),
    "spaces": (LOGITS + "1 234,5;2,5;a\n1,0;3,25;b\n", "row 0 .*has '1 234,5'"),
    "apostrophes": (LOGITS + "1'234.5;2.5;a\n1.0;3.25;b\n", 'row 0 .*has "1\'234.5"'),
    "underscores": (LOGITS + "1_234.5;2.5;a\n1.0;3.25;b\n", "row 0 .*has '1_234.5'"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_row_that_is_no_example_is_refused(tmp_path, kind):
    text, words = REFUSED[kind]
    path = tmp_path / "val.csv"
    path.write_bytes(text.encode())
    with pytest.raises(PredictionFileError, match=words):
        read_predictions(path)


def test_rows_that_an_open_quote_hides_are_doubted(tmp_path):
    path = tmp_path / "val.csv"
    more = "".join(f"{i},0.25,0.75,cat\n" for i in range(9))
    path.write_text(HEAD + more + '"5,0.5,0.5,cat\n6,0.25,0.75,dog\n7",0.5,0.5,dog\n')
    found = read_predictions(path)
    assert found.n_rows == 10
    (doubt,) = [note for note in found.notes if "WARNING" in note]
    assert 'cells of "id" hold lines that look like rows of the table (2 in the first' in doubt
    path.write_text(HEAD + more + '"a, b, 3\nand c, d,\ne","0.5",0.5,dog\n"a\nb",0.5,0.5,dog\n')
    assert not any("WARNING" in note for note in read_predictions(path).notes)


def test_dots_that_may_separate_thousands_are_doubted(tmp_path):
    path = tmp_path / "val.csv"
    path.write_text(LOGITS + "1.234;2.345;a\n12.345;-3.500;b\n")
    assert any("if it is to mean 1234, write it so" in n for n in read_predictions(path).notes)
    path.write_text(LOGITS + "1.234;0.345;a\n12.345;-3.500;b\n")
    assert not any("write it so" in note for note in read_predictions(path).notes)


LABELS = {
    "blank in the middle": "label\ncat\n\ndog\n",
    "blank, and one more": "label\ncat\n\ndog\ndog\n",
    "blank, and no name": "cat\n\ndog\ncat\n",
    "blank, as on windows": "label\r\ncat\r\n\r\ndog\r\n",
    "spaces": "label\ncat\n  \ndog\n",
    "empty quotes": 'label\ncat\n""\ndog\n',
    "below a comment": "# made by x\nlabel\ncat\n\ndog\n",
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("suffix", [".csv", ".txt"])
def test_a_blank_line_of_labels_is_a_missing_label(tmp_path, kind, suffix):
    (tmp_path / "p.csv").write_text("prob_cat,prob_dog\n0.25,0.75\n0.5,0.5\n0.75,0.25\n")
    labels = tmp_path / f"y{suffix}"
    labels.write_bytes(LABELS[kind].encode())
    with pytest.raises(PredictionFileError, match=r"labels must not be missing.*row 1 "):
        read_predictions(tmp_path / "p.csv", labels_path=labels)


@pytest.mark.parametrize(
    "text", ["label\ncat\ndog\ncat\n\n\n", "\n\ncat\ndog\ncat", "cat\ndog\ncat\n"]
)
def test_blank_lines_around_labels_count_for_nothing(tmp_path, text):
    (tmp_path / "p.csv").write_text("prob_cat,prob_dog\n0.25,0.75\n0.5,0.5\n0.75,0.25\n")
    (tmp_path / "y.txt").write_text(text)
    found = read_predictions(tmp_path / "p.csv", labels_path=tmp_path / "y.txt")
    assert_array_equal(found.labels, [0, 1, 0])


# How often a file is opened


@pytest.mark.parametrize("command", ["evaluate", "apply", "calibrate", "sketch", "threshold"])
def test_a_text_table_is_opened_twice_and_read_once(tmp_path, monkeypatch, command):
    rng = np.random.default_rng(0)
    p = rng.random(2000).round(4)
    rows = zip(p, rng.random(2000) < p, strict=True)
    path = tmp_path / "val.csv"
    path.write_text(
        "prob_a,prob_b,label\n" + "".join(f"{1 - a},{a},{'ab'[int(y)]}\n" for a, y in rows)
    )
    opened, taken = [], []
    plain_open = type(path).open

    def counted(self, *words, **options):
        file = plain_open(self, *words, **options)
        if self.name == path.name:
            opened.append(self)
            read = file.read

            class Counted:
                def __getattr__(self, name):
                    return getattr(file, name)

                def __enter__(self):
                    return self

                def __exit__(self, *_):
                    file.close()

                def read(self, *size):
                    piece = read(*size)
                    taken.append(len(piece))
                    return piece

            return Counted()
        return file

    monkeypatch.setattr(type(path), "open", counted)
    more = {
        "apply": ["--focal", "2", "-o", tmp_path / "out.csv"],
        "calibrate": ["-o", tmp_path / "out", "--methods", "temperature"],
        "sketch": ["-o", tmp_path / "out.sketch"],
        "threshold": ["--precision", ".6"],
    }
    words = [command, path, *more.get(command, [])]
    done = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert len(opened) == 2
    assert path.stat().st_size <= sum(taken) < 1.9 * path.stat().st_size


def test_rows_are_left_out_of_a_file_without_other_columns(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("prob_a,prob_b\n0.25,0.75\n,0.5\n0.5,0.5\n")
    TemperatureScaling(temperature=1.5).save(tmp_path / "c.json")
    words = ["apply", tmp_path / "c.json", path, "-o", tmp_path / "out.csv", "--drop-missing"]
    done = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 3
