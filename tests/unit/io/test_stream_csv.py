"""Text tables in batches: what pyarrow parses is what our own reader reads."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from focalibrate.io import PredictionFileError, _stream_csv, _stream_text, scan_predictions

pytest.importorskip("pyarrow")

HEAD = "cat,dog,y_true\n"
ROWS = ["0.25,0.75,dog", "0.5,0.5,cat", "1,0,cat", "0.125,0.875,dog"]
PLAIN = HEAD + "\n".join(ROWS) + "\n"
TABLES = {
    "plain": PLAIN,
    "no last line break": PLAIN[:-1],
    "windows": PLAIN.replace("\n", "\r\n"),
    "old mac": PLAIN.replace("\n", "\r"),
    "byte order mark": "\ufeff" + PLAIN,
    "blank lines": "\n\n" + PLAIN.replace("\n", "\n\n") + " \n",
    "white space": PLAIN.replace(",", " , "),
    "tabs": PLAIN.replace(",", "\t"),
    "semicolons": PLAIN.replace(",", ";"),
    "bars": PLAIN.replace(",", "|"),
    "decimal comma": PLAIN.replace(",", ";").replace(".", ","),
    "comment": "# " + PLAIN,
    "comment below": PLAIN + "# the end\n",
    "quoted names": '"cat","dog","y_true"\n' + "\n".join(ROWS),
    "quoted cell late": PLAIN + '0.5,0.5,"cat"\n',
    "line break in a quote": PLAIN + '0.5,0.5,"cat\n"\n',
    "misplaced quote": PLAIN + '0.5,0.5,"cat"x\n',
    "unnamed column": ",cat,dog,y_true\n" + "\n".join(f"{i},{r}" for i, r in enumerate(ROWS)),
    "missing late": PLAIN + ",0.5,cat\n",
    "missing label": PLAIN + "0.5,0.5,\n",
    "nan late": PLAIN + "nan,0.5,cat\n",
    "na late": PLAIN + "NA,0.5,cat\n",
    "text late": PLAIN + "many,0.5,cat\n",
    "plus": PLAIN + "+0.5,0.5,cat\n",
    "underscore": PLAIN + "0.5,1_0,cat\n",
    "percent late": PLAIN + "50%,50%,cat\n",
    "digits of another script": PLAIN + "٠.5,0.5,cat\n",
    "no digits before the point": PLAIN + ".5,.5,cat\n" + "1.,0.,cat\n",
    "more cells": PLAIN + "0.5,0.5,cat,1\n",
    "fewer cells": PLAIN + "0.5,0.5\n",
    "zero byte": PLAIN + "0.5,0.5,c\0t\n",
    "other class late": PLAIN + "0.5,0.5,cow\n",
}
LOGITS = {
    "digits": "".join(f"{x!r},{y!r},{i % 2}\n" for i, (x, y) in enumerate(
        np.random.default_rng(0).normal(size=(60, 2)).tolist())),
    "thousands of digits": f"0.{'123456789' * 500},1.5,0\n2,{'9' * 300},1\n",
    "extremes": "1e308,-1e308,0\n5e-324,2.2250738585072014e-308,1\n1e-400,0.1,0\n",
    "too large": "1e400,0,1\n0,0,0\n",
    "infinite": "-inf,0,1\n0,-Infinity,0\n",
    "plus infinity": "0,1,1\ninf,0,1\n",
    "halves": "9007199254740993,0.1,0\n0.30000000000000004,1.7976931348623157e308,1\n",
}  # fmt: skip


def outcome(path, **options):
    try:
        scan = scan_predictions(path, batch_rows=3, **options)
        found = list(scan.batches())
    except PredictionFileError as error:
        return str(error)
    return (
        scan.class_names,
        np.concatenate([b.scores for b in found]),
        np.concatenate([b.labels for b in found]),
    )


def check(path, monkeypatch, **options):
    found = outcome(path, **options)
    with monkeypatch.context() as patch:
        patch.setattr(_stream_text, "can_be_plain", lambda *_: False)
        want = outcome(path, **options)
    if isinstance(want, str):
        assert found == want
        return
    assert found[0] == want[0]
    assert_array_equal(found[1], want[1])
    assert_array_equal(found[2], want[2])


@pytest.mark.slow
@pytest.mark.parametrize("block", [16, 1 << 22])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_read_as_by_our_own_reader(tmp_path, monkeypatch, name, block):
    monkeypatch.setattr(_stream_csv, "BLOCK", block)
    path = tmp_path / "preds.csv"
    path.write_bytes(TABLES[name].encode())
    check(path, monkeypatch)
    check(path, monkeypatch, drop_missing=True)


@pytest.mark.parametrize("name", LOGITS)
def test_numbers_have_the_same_bits(tmp_path, monkeypatch, name):
    path = tmp_path / "preds.csv"
    path.write_text("logit_a,logit_b,label\n" + LOGITS[name])
    check(path, monkeypatch)


def test_most_of_a_plain_table_is_parsed_by_pyarrow(tmp_path, monkeypatch):
    (tmp_path / "preds.csv").write_text(PLAIN)
    scan = scan_predictions(tmp_path / "preds.csv")
    monkeypatch.setattr(_stream_text, "chunks_of", None)  # it would be called
    (batch,) = scan.batches()
    assert_array_equal(batch.scores[:, 0], [0.25, 0.5, 1.0, 0.125])
