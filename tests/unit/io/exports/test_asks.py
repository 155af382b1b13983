"""Exports that end in an error: its options work, or it says what to change."""

import zipfile

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.unit.io.exports.tables import (
    AGE,
    NAMES3,
    P2,
    P3,
    S2,
    TEXT2,
    TEXT3,
    Y2,
    Y3,
    Z3,
    Export,
    N,
    csv,
    frame3,
    npz,
    pd,
    rows,
    savetxt,
)

from focalibrate.io import PredictionFileError, read_predictions

ENTITIES = ["date", "time", "money"]
ASKS = {
    "logits without a prefix": Export(
        "a.csv", csv(pd.DataFrame(Z3, columns=NAMES3).assign(y=TEXT3), index=False), Z3, Y3, NAMES3
    ),
    "logits with an index": Export(
        "a.csv", csv(pd.DataFrame(Z3, columns=NAMES3).assign(y=TEXT3)), Z3, Y3, NAMES3
    ),
    "decision function": Export(
        "a.csv",
        csv(pd.DataFrame({"y_true": Y2, "y_score": S2}), index=False),
        np.stack([0 * S2, S2], 1),
        Y2,
    ),
    "xgboost margins": Export(
        "a.csv",
        csv(pd.DataFrame({"y": Y2, "output": S2}), index=False),
        np.stack([0 * S2, S2], 1),
        Y2,
    ),
    "percent": Export(
        "a.csv",
        csv(pd.DataFrame(100 * P3, columns=NAMES3).assign(y=TEXT3), index=False),
        P3,
        Y3,
        NAMES3,
    ),
    "one percent column": Export(
        "a.csv", csv(pd.DataFrame({"y": Y2, "probability": 100 * P2[:, 1]}), index=False), P2, Y2
    ),
    "text labels, one column": Export(
        "a.csv",
        csv(pd.DataFrame({"y": TEXT2, "prob": 1 - P2[:, 1]}), index=False),
        P2[:, ::-1],
        1 - Y2,
        ("malignant", "benign"),
    ),
    "a maximum under another name": Export(
        "a.csv",
        csv(
            pd.DataFrame(P3, columns=[f"prob_{n}" for n in NAMES3]).assign(
                prob_best=P3.max(1), y=TEXT3
            ),
            index=False,
        ),
        P3,
        Y3,
        NAMES3,
    ),
    "text labels of an npz": Export("a.npz", npz(probs=P3, labels=TEXT3), P3, Y3, NAMES3),
    "missing scores": Export(
        "a.csv",
        csv(
            pd.DataFrame(np.where(np.arange(N)[:, None] == 4, np.nan, P3), columns=NAMES3).assign(
                y=TEXT3
            ),
            index=False,
        ),
        np.delete(P3, 4, 0),
        np.delete(Y3, 4),
        NAMES3,
    ),
    "two models": Export(
        "a.csv",
        csv(
            pd.concat(
                [
                    pd.DataFrame(P2, columns=["a no", "a yes"]),
                    pd.DataFrame(P2[:, ::-1], columns=["b no", "b yes"]),
                ],
                axis=1,
            ).assign(y=Y2),
            index=False,
        ),
        P2,
        None,
        ("a no", "a yes"),
    ),
    "two splits": Export(
        "a.npz", npz(val_logits=Z3, val_labels=Y3, test_logits=Z3 + 1, test_labels=Y3), Z3, Y3
    ),
    "an unknown encoding": Export(
        "a.csv",
        lambda path: path.write_bytes(
            rows(
                "y,prob_café,prob_thé,prob_eau",
                [(["café", "thé", "eau"][Y3[i]], *P3[i]) for i in range(N)],
            ).encode("cp1252")
        ),
        P3,
        Y3,
        ("café", "thé", "eau"),
    ),
    "models side by side": Export(
        "a.csv", csv(pd.DataFrame({"y": Y2, "rf": P2[:, 1], "xgb": P2[:, 1] ** 2})), P2, Y2
    ),
    "models side by side, called prob_": Export(
        "a.csv",
        csv(pd.DataFrame({"y": Y2, "prob_1": P2[:, 1], "prob_xgb": P2[:, 1] ** 2})),
        P2,
        Y2,
    ),
    "several classes may be true": Export(
        "a.csv",
        csv(pd.DataFrame({"prob_a": P2[:, 1], "prob_b": P3[:, 1], "a": Y2, "b": Y2[::-1]})),
        P2,
        Y2,
    ),
    "labels missing as SQL writes it": Export(
        "a.tsv",
        csv(pd.DataFrame({"label": ["\\N", *Y2[1:]], "score": P2[:, 1]}), sep="\t", index=False),
        P2[1:],
        Y2[1:],
    ),
    "labels missing as R writes it": Export(
        "a.csv", csv(frame3(obs=["NA", *TEXT3[1:]]), index=False), P3[1:], Y3[1:], NAMES3
    ),
    "labels that PyTorch ignores": Export(
        "a.npz", npz(logits=Z3, labels=[-100, *Y3[1:]]), Z3[1:], Y3[1:]
    ),
    "UTF-16 without a mark": Export(
        "a.csv",
        lambda path: path.write_bytes(frame3(y=TEXT3).to_csv(index=False).encode("utf-16-le")),
        P3,
        Y3,
        NAMES3,
    ),
    "logits of classes called as other columns are": Export(
        "a.csv",
        csv(pd.DataFrame(Z3, columns=ENTITIES).assign(label=np.array(ENTITIES)[Y3]), index=False),
        Z3,
        Y3,
        ENTITIES,
    ),
    "an array of no known name": Export("a.npz", npz(foo=Z3, labels=Y3), Z3, Y3),
    "labels of no known name": Export(
        "a.csv", csv(frame3(diagnosis=Y3), index=False), P3, Y3, NAMES3
    ),
    "labels without a header": Export("a.csv", savetxt(np.c_[P3, Y3], delimiter=","), P3, Y3),
    "whole-number features and logits": Export(
        "a.csv",
        csv(
            pd.DataFrame(Z3, columns=NAMES3).assign(age=AGE, y=TEXT3),
            index=False,
        ),
        Z3,
        Y3,
        NAMES3,
    ),
}


@pytest.mark.parametrize("name", ASKS)
def test_ends_in_a_message_whose_options_work(tmp_path, name):
    export = ASKS[name]
    path = export.write(tmp_path)
    options = {"need_labels": True}
    with pytest.raises(PredictionFileError) as caught:
        read_predictions(path, **options)
    assert caught.value.fixes, caught.value
    assert "\n" not in str(caught.value)
    options |= caught.value.fixes[0]
    export.compare(read_predictions(path, **options))


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            pd.DataFrame(P3, columns=pd.MultiIndex.from_product([["prob"], NAMES3])),
            r"two rows of names .* `df\.columns = ",
        ),
        (
            pd.DataFrame(
                {
                    "id": np.repeat(np.arange(N), 3),
                    "class": np.tile(NAMES3, N),
                    "prob": P3.ravel(),
                    "y_true": np.repeat(TEXT3, 3),
                }
            ),
            r"one row per example and class \(3 rows for each \"id\"\).*df\.pivot\(index='id'",
        ),
        (
            pd.DataFrame(
                {
                    "true_label": TEXT3,
                    "predicted_label": np.array(NAMES3)[P3.argmax(1)],
                    "confidence": P3.max(1),
                }
            ),
            r"only the probability of the predicted class \(\"confidence\"\), but those of all",
        ),
        (
            pd.DataFrame(-np.sort(-P3), columns=["top1_prob", "top2_prob", "top3_prob"]).assign(
                label=TEXT3, top1_class=np.array(NAMES3)[P3.argmax(1)]
            ),
            r"by rank \(\"top1_prob\", \.\.\.\), each row in an order of its own",
        ),
        (
            pd.DataFrame(
                np.c_[P3, np.eye(3)[Y3].astype(int)], columns=[*"abc", "ta", "tb", "tc"]
            ).astype(dict.fromkeys(("ta", "tb", "tc"), int)),
            r"labels in 3 columns of 0 and 1, ta, tb, tc; .*\.to_numpy\(\)\.argmax\(axis=1\)",
        ),
    ],
    ids=[
        "two levels of columns",
        "one row per example and class",
        "the top class alone",
        "by rank",
        "one-hot labels",
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, frame, message):
    frame.to_csv(tmp_path / "a.csv")
    with pytest.raises(PredictionFileError, match=message):
        read_predictions(tmp_path / "a.csv", need_labels=True)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.txt",
            "+---+------+\n| y | prob |\n+---+------+\n| 1 | 0.25 |\n",
            "drawn to be looked at",
        ),
        ("a.md", "| y | prob |\n|---|---|\n| 1 | 0.25 |\n", "drawn to be looked at"),
        (
            "a.csv",
            "y|prob\n1|0.25\n0|0.5\n(2 rows)\n",
            r"last line, '\(2 rows\)', is not an example",
        ),
        ("a.csv", "Report\n\ny,prob\n1,0.25\n0,0.5\n", r"first line, 'Report', does not name"),
        ("a.csv", "Report,,\n,,\ny,p_a,p_b\n1,0.2,0.8\n", r"first line, 'Report', does not name"),
        ("a.csv", "<!DOCTYPE html><html>Log in</html>", r"web page, .*log in"),
        ("a.xls", "<table><tr><td>1</td></tr></table>", r"pd\.read_html\('.*a\.xls'\)\[0\]"),
        ("a.csv", "version https://git-lfs.github.com/spec/v1\noid sha256:4d\n", "git lfs pull"),
        ("a.csv", 'y,probs\n1,"[0.1 0.2 ... 0.1]"\n', r"cut short .*`pd\.DataFrame\(np\.stack\("),
        (
            "a.jsonl",
            '{"y": 1, "p": {"a": 0.7, "b": 0.3}}\n{"y": 0, "p": {"a": 1}}\n',
            "top_k=None",
        ),
        ("a.csv", "y,probs\n1,\"{'a': 0.4, 'b': 0.6}\"\n", r"holds dictionaries\. .*literal_eval"),
        ("a.html", "<table><tr><td>1</td></tr></table>", r"pd\.read_html\('.*a\.html'\)\[0\]"),
        ("a.rds", "\0", r"In R: `write\.csv\(readRDS\('.*a\.rds'\), 'val\.csv'\)`"),
        ("a.tar", "\0", r"`tar xf .*a\.tar`"),
    ],
)
def test_advice_that_is_not_an_option(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(PredictionFileError, match=message):
        read_predictions(path, need_labels=True)


def test_text_called_as_an_old_workbook_is_read(tmp_path):
    frame3(label=TEXT3).to_csv(tmp_path / "a.xls", sep="\t", index=False)
    assert_allclose(read_predictions(tmp_path / "a.xls").scores, P3)


def test_an_archive_of_several_files_is_to_be_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in "ab":
            archive.writestr(f"{name}.csv", frame3(label=TEXT3).to_csv(index=False))
    with pytest.raises(PredictionFileError, match="archive of several files"):
        read_predictions(tmp_path / "a.zip")


def test_the_advice_for_a_structured_array_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kind = [("prob_a", "f8"), ("prob_b", "f8"), ("label", "U1")]
    np.save("a.npy", np.array([(0.25, 0.75, "b"), (0.5, 0.5, "a")], dtype=kind))
    with pytest.raises(PredictionFileError, match=r"np\.load\('a\.npy'\)\)\.to_csv"):
        read_predictions("a.npy")
    pd.DataFrame(np.load("a.npy")).to_csv("val.csv", index=False)
    assert read_predictions("val.csv").labels.tolist() == [1, 0]


def test_a_transposed_array_is_named(tmp_path):
    np.savez(tmp_path / "a.npz", probs=P3.T, labels=Y3)
    with pytest.raises(PredictionFileError, match=r"Its columns do: save `probs\.T`"):
        read_predictions(tmp_path / "a.npz")


def test_flat_scores_are_named(tmp_path):
    np.savez(tmp_path / "a.npz", probs=P3.ravel(), labels=Y3)
    with pytest.raises(PredictionFileError, match=rf"one row: `\.reshape\({N}, -1\)`"):
        read_predictions(tmp_path / "a.npz")


def test_rows_above_a_table_in_a_workbook_are_named(tmp_path):
    pytest.importorskip("openpyxl")
    path = tmp_path / "a.xlsx"
    frame3(label=TEXT3).to_excel(path, startrow=2, index=False)
    book = pytest.importorskip("openpyxl").load_workbook(path)
    book.active["A1"] = "Report"
    book.save(path)
    with pytest.raises(PredictionFileError, match=r"one cell, 'Report', .*Remove the rows above"):
        read_predictions(path)


def test_the_advice_for_stata_works(tmp_path, monkeypatch):
    """The line that the message shows makes a file that is read."""
    monkeypatch.chdir(tmp_path)
    names = ["cat", "dog", "owl"]
    frame = pd.DataFrame(P3, columns=names).assign(label=np.array(names)[Y3])
    frame.to_stata("a.dta", write_index=False)
    with pytest.raises(PredictionFileError, match=r"`pd\.read_stata\('a\.dta'\)\.to_csv\("):
        read_predictions("a.dta")
    pd.read_stata("a.dta").to_csv("val.csv", index=False)
    Export("val.csv", lambda path: None, P3, Y3, names).compare(read_predictions("val.csv"))


def test_only_scores_are_not_to_be_left_out(tmp_path):
    """To ignore the only column of scores leads to the same message again."""
    (tmp_path / "a.csv").write_text("y,prob\n1,high\n0,low\n")
    with pytest.raises(PredictionFileError, match=r"row 0 \(0-based\) has 'high'\.") as caught:
        read_predictions(tmp_path / "a.csv")
    assert not caught.value.fixes


@pytest.mark.parametrize(
    ("pred", "truth", "values"),
    [
        ("pred", "true", ["NEG", "POS"]),
        ("y_pred", "y_true", [0, 1]),
        ("label", "gold", ["no", "yes"]),
    ],
)
def test_the_probability_of_the_predicted_class_is_never_that_of_one_class(
    tmp_path, pred, truth, values
):
    """A pipeline's label and score: the advice of the message makes a file that is read."""
    top = P2.argmax(axis=1)
    frame = pd.DataFrame({pred: np.array(values)[top], "score": P2.max(axis=1)})
    frame[truth] = np.array(values)[Y2]
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(PredictionFileError, match=r"probability of the predicted class") as caught:
        read_predictions(tmp_path / "a.csv", label_column=truth)
    positive = values[1]
    line = f"df['score'].where(df['{pred}'] == {positive!r}, 1 - df['score'])"
    assert f"`df['prob_{positive}'] = {line}`" in str(caught.value)
    frame[f"prob_{positive}"] = frame["score"].where(frame[pred] == positive, 1 - frame["score"])
    frame.to_csv(tmp_path / "b.csv", index=False)
    found = read_predictions(tmp_path / "b.csv", label_column=truth)
    assert_allclose(found.scores, P2, rtol=1e-12)
    assert_array_equal(found.labels, Y2)


def test_a_threshold_explains_predictions_of_probabilities_above_a_half(tmp_path):
    p = 0.5 + 0.5 * np.random.default_rng(0).random(200)
    y = (np.random.default_rng(1).random(200) < p).astype(int)
    frame = pd.DataFrame({"prob": p, "pred": (p > 0.9).astype(int), "y": y})
    frame.to_csv(tmp_path / "a.csv", index=False)
    found = read_predictions(tmp_path / "a.csv")
    assert_allclose(found.scores[:, 1], p)
    frame[["prob", "y"]].to_csv(tmp_path / "b.csv", index=False)
    notes = read_predictions(tmp_path / "b.csv").notes
    assert any("at least 0.5 in every row" in note for note in notes) == ((y == 0).mean() >= 0.2)
