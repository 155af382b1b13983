import hashlib
import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from focalibrate.io import (
    PredictionFileError,
    SketchFile,
    check_time,
    merge_sketches,
    read_sketch,
    write_sketch,
)
from focalibrate.metrics import Sketch

VERSIONS = {"focalibrate": ("1.0",), "numpy": ("2.0",)}


def file_of(k=2, n=200, *, weights=False, by="group", seed=0, **options):
    rng = np.random.default_rng(seed)
    logits, labels = rng.normal(size=(n, k)), rng.integers(k, size=n)
    sketch = Sketch.of(
        logits=logits,
        labels=labels,
        groups={"g": rng.choice(["a", "b", "ä, \n"], size=n)} if by == "group" else None,
        cluster=rng.integers(30, size=n) if by == "cluster" else None,
        sample_weight=rng.uniform(0.1, 2, size=n) if weights else None,
    )
    return SketchFile(sketch=sketch, versions=VERSIONS, **options)


@pytest.mark.parametrize("by", ["group", "cluster"])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("k", [2, 5])
def test_a_sketch_reads_back_bit_by_bit(tmp_path, k, weights, by):
    names = tuple(f"class {i}" for i in range(k))
    given = file_of(
        k,
        weights=weights,
        by=by,
        class_names=names,
        sources=("a.csv",),
        start="2026-01-01",
        end=None,
    )
    write_sketch(given, tmp_path / "a.sketch")
    found = read_sketch(tmp_path / "a.sketch")
    for name in ("top", "positive", "classes"):
        mine, theirs = getattr(found.sketch, name), getattr(given.sketch, name)
        assert (mine is None) == (theirs is None)
        if mine is not None:
            assert_array_equal(mine.sums, theirs.sums)
            assert_array_equal(mine.edges, theirs.edges)
            assert mine.is_counted == theirs.is_counted
    for name, moments in given.sketch.scores.items():
        assert_array_equal(found.sketch.scores[name].powers, moments.powers)
        assert found.sketch.scores[name].rows == moments.rows
    assert_array_equal(found.sketch.confident, given.sketch.confident)
    mine, theirs = (
        f.sketch.groups["g"] if by == "group" else f.sketch.clusters for f in (found, given)
    )
    assert mine.names == theirs.names
    assert_array_equal(mine.sums, theirs.sums)
    for name in ("class_names", "sources", "versions", "start", "end", "kind"):
        assert getattr(found, name) == getattr(given, name)
    with pytest.raises(FileExistsError, match="already exists"):
        write_sketch(given, tmp_path / "a.sketch")


def rewritten(path, change):
    """Change the second line of a sketch and correct its checksum."""
    header, body = path.read_text().splitlines()
    record = json.loads(body)
    change(record)
    body = json.dumps(record)
    header = json.loads(header) | {"sha256": hashlib.sha256(body.encode()).hexdigest()}
    path.write_text(f"{json.dumps(header)}\n{body}\n")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.pop("sums"), r"is not a whole sketch \('sums'\)"),
        (lambda r: r["sums"].update(n_classes=3), "cells of class 1 are for two classes"),
        (lambda r: r["sums"].update(n_classes=1e300), "n_classes must be a whole number"),
        (lambda r: r["sums"].update(n_bins=10**9), "bins and 4096 cells"),
        (lambda r: r["sums"]["top"].update(at=[0]), "numbers of cells"),
        (lambda r: r["sums"]["top"]["outcome"].__setitem__(0, 1e9), "more hits or confidence"),
        (lambda r: r["sums"]["top"]["weight"].__setitem__(0, 1e9), "do not add up"),
        (lambda r: r["sums"]["top"]["weight"].__setitem__(0, float("nan")), "not finite"),
        (lambda r: r["sums"]["scores"]["nll"].update(rows=-1), "no rows"),
        (lambda r: r["sums"]["scores"]["nll"].update(powers=[[-1.0] * 4] * 3), "negative"),
        (lambda r: r["sums"]["classes"].update(weight=[[1]]), "not a whole sketch"),
        (lambda r: r["sums"]["classes"]["outcome"].__setitem__(0, 1e9), "more hits or confidence"),
        (lambda r: r["sums"]["classes"].update(at=[0]), "numbers of cells"),
        (lambda r: r["sums"]["groups"]["g"].update(names=["a"]), "numbers of cells"),
        (lambda r: r["sums"]["groups"]["g"].update(names=["b", "a", "c"]), "not in order"),
        (lambda r: r.update(class_names=["a"]), "it names 1 classes but has 2"),
        (lambda r: r.update({"from": "yesterday"}), "must be a date or time"),
        (lambda r: r.update(sums=[]), "not a whole sketch"),
    ],
)
def test_what_cannot_be_a_sketch_is_refused(tmp_path, change, message):
    path = tmp_path / "a.sketch"
    write_sketch(file_of(), path)
    rewritten(path, change)
    with pytest.raises(PredictionFileError, match=rf"(?s)a\.sketch: .*{message}"):
        read_sketch(path)


def test_damage_another_version_and_another_format_are_named(tmp_path):
    path = tmp_path / "a.sketch"
    write_sketch(file_of(), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    with pytest.raises(PredictionFileError, match="is damaged: its checksum does not match"):
        read_sketch(path)
    for version in ("1", "2.0", "true"):
        path.write_bytes(whole.replace(b'"version": 4', f'"version": {version}'.encode(), 1))
        with pytest.raises(PredictionFileError, match=r"of version .*, but this program reads"):
            read_sketch(path)
    for content in (b"", b"a,b\n1,2\n", b"[]\n", b"\xff\x00" * 100, b"[" * 100_000):
        path.write_bytes(content)
        with pytest.raises(PredictionFileError, match=r"is not a sketch.*focalibrate sketch"):
            read_sketch(path)
    with pytest.raises(PredictionFileError, match="could not be read"):
        read_sketch(tmp_path / "absent.sketch")


def test_files_are_merged_with_what_they_say():
    one = file_of(sources=("monday",), start="2026-01-05", end="2026-01-06")
    two = file_of(seed=1, sources=("tuesday",), start="2026-01-06", end="2026-01-07T12:00")
    merged = merge_sketches([two, one])
    assert merged.sketch.n == 400
    assert (merged.start, merged.end) == ("2026-01-05", "2026-01-07T12:00")
    assert merged.sources == ("tuesday", "monday")
    assert merged.versions == VERSIONS
    assert merged.describe() == "400 rows × 2 classes, 2026-01-05 to 2026-01-07T12:00, by g"
    assert merge_sketches([one, file_of()]).start is None


def test_what_differs_is_not_merged():
    one = file_of(class_names=("a", "b"))
    with pytest.raises(PredictionFileError, match=r"y: its classes must be those of x.*b, a"):
        merge_sketches([one, file_of(class_names=("b", "a"))], ["x", "y"])
    other = SketchFile(sketch=one.sketch, class_names=("a", "b"), versions={"focalibrate": ("2",)})
    with pytest.raises(PredictionFileError, match=r"was made by focalibrate 2, but .* 1"):
        merge_sketches([one, other])
    with pytest.raises(PredictionFileError, match=r"must have the same classes"):
        merge_sketches([file_of(), file_of(3)])
    with pytest.raises(ValueError, match="at least one sketch"):
        merge_sketches([])


def test_a_time_is_checked():
    assert check_time("2026-01-31T08:00+00:00", name="from") == "2026-01-31T08:00+00:00"
    with pytest.raises(ValueError, match=r"`from` must be a date or time.*'soon'"):
        check_time("soon", name="from")
