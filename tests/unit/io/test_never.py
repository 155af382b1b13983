"""What must never happen with a file of predictions; each case has happened once."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.io import PredictionFileError, align, read_predictions

RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(3), size=60)
Y = np.array([RNG.choice(3, p=p) for p in P])
NAMES = ("cat", "dog", "ox")


def write(path, columns):
    names = list(columns)
    rows = zip(*columns.values(), strict=True)
    text = "\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)])
    path.write_text(text + "\n")
    return path


def classes(p=P):
    return {name: p[:, i].tolist() for i, name in enumerate(NAMES)}


@pytest.mark.parametrize(
    "more",
    [
        {"": range(60)},
        {"Unnamed: 0": range(60)},
        {"index": range(60)},
        {"level_0": range(60)},
        {"id": RNG.integers(0, 9999, 60)},
        {"customer_id": RNG.integers(0, 9999, 60)},
        {"row": RNG.random(60) * 60},
        {"pred": P.argmax(axis=1)},
        {"y_pred": np.array(NAMES)[P.argmax(axis=1)]},
        {"nobody_knows": RNG.integers(0, 2, 60)},
        {"age": RNG.integers(18, 80, 60)},
        {"confidence": P.max(axis=1)},
        {"max_prob": P.max(axis=1)},
    ],
    ids=lambda more: next(iter(more)) or "unnamed",
)
@pytest.mark.parametrize("first", [True, False])
def test_an_index_id_or_prediction_is_never_a_class(tmp_path, more, first):
    label = {"y_true": np.array(NAMES)[Y]}
    columns = {**more, **classes(), **label} if first else {**classes(), **more, **label}
    found = read_predictions(write(tmp_path / "a.csv", columns))
    assert found.class_names == NAMES
    assert_allclose(found.scores, P)
    assert found.labels.tolist() == Y.tolist()
    expected = 'a.csv: 60 rows × 3 classes (cat, dog, ox), probabilities, labels in "y_true"'
    assert found.describe() == expected


def test_predictions_that_disagree_are_reported(tmp_path):
    wrong = np.array(NAMES)[(P.argmax(axis=1) + (np.arange(60) < 15)) % 3]
    columns = {**classes(), "y_pred": wrong, "y": np.array(NAMES)[Y]}
    notes = read_predictions(write(tmp_path / "a.csv", columns)).notes
    assert any(
        '"y_pred" differs from the class with the highest score in 25.0%' in n for n in notes
    )


def test_class_order_is_never_ignored(tmp_path):
    columns = {**{n: classes()[n] for n in ("ox", "cat", "dog")}, "y": np.array(NAMES)[Y]}
    found = align(read_predictions(write(tmp_path / "a.csv", columns)), NAMES)
    assert_allclose(found.scores, P)
    assert found.labels.tolist() == Y.tolist()
    with pytest.raises(PredictionFileError, match="ox is not among them"):
        align(found, ("cat", "dog", "cow"))
    with pytest.raises(PredictionFileError, match="has 3 classes, but 2 are expected"):
        align(found, ("cat", "dog"))


def test_a_class_is_never_dropped_because_its_column_is_a_list(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    columns = {"prob_cat": P[:, 0], "prob_dog": [[v] for v in P[:, 1]], "prob_ox": P[:, 2]}
    pq.write_table(pa.table({**columns, "y": Y}), tmp_path / "a.parquet")
    with pytest.raises(PredictionFileError, match="`prob_dog` must hold numbers, but holds lists"):
        read_predictions(tmp_path / "a.parquet")


def test_a_class_is_never_dropped_because_its_name_is_empty(tmp_path):
    columns = {"prob_cat": P[:, 0], "prob_": P[:, 1], "prob_ox": P[:, 2], "y": Y}
    found = read_predictions(write(tmp_path / "a.csv", columns))
    assert found.class_names == ("cat", "", "ox")
    assert found.labels.tolist() == Y.tolist()


def test_duplicate_parquet_columns_are_an_error_of_ours(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    arrays = [pa.array(P[:, i % 3]) for i in range(4)]
    names = ["prob_cat", "prob_dog", "prob_ox", "prob_ox"]
    pq.write_table(pa.table(arrays, names=names), tmp_path / "a.parquet")
    with pytest.raises(PredictionFileError, match="'prob_ox' occurs 2 times"):
        read_predictions(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("scores", "fixes", "text"),
    [
        (P * 100, [{"input": "percent"}], "percentages"),
        (np.log(P) * 3, [{"input": "logits"}], "below 0"),
        (np.exp(P * 5), [{"input": "logits"}], "above 1"),
        (P.round(2) + 0.004, [{"probs_atol": 0.05}], "rounded"),
        (
            np.c_[P[:, :2], 1 - P[:, 2]],
            [{"score_columns": [f"prob_{name}"], "input": "probs"} for name in NAMES[:2]],
            "Is a class missing",
        ),
    ],
)
def test_a_tolerance_is_only_offered_for_rounding(tmp_path, scores, fixes, text):
    columns = {f"prob_{n}": scores[:, i] for i, n in enumerate(NAMES)}
    with pytest.raises(PredictionFileError, match=text) as caught:
        read_predictions(write(tmp_path / "a.csv", {**columns, "y": Y}))
    assert list(caught.value.fixes) == fixes


@pytest.mark.parametrize(
    ("low", "high", "fix", "text"),
    [
        (0.0, 99.0, "percent", "goes up to 99, as percentages do"),
        (0.0, 40.0, "logits", "found 0 to 40. If these are log-odds"),
        (0.0, 300.0, "logits", "found 0 to 300"),
        (-60.0, 60.0, "logits", "found -60 to 60"),
    ],
)
def test_one_column_outside_0_and_1_is_never_guessed(tmp_path, low, high, fix, text):
    columns = {"prob": np.linspace(low, high, 60), "y": Y % 2}
    with pytest.raises(PredictionFileError, match=text) as caught:
        read_predictions(write(tmp_path / "a.csv", columns))
    assert [given["input"] for given in caught.value.fixes] == [fix]


def test_an_extra_column_is_named(tmp_path):
    columns = {f"prob_{n}": P[:, i] for i, n in enumerate(NAMES)} | {"prob_x": RNG.random(60)}
    with pytest.raises(PredictionFileError, match="Without column `prob_x` they do") as caught:
        read_predictions(write(tmp_path / "a.csv", {**columns, "y": Y}))
    assert caught.value.fixes == ({"ignore": ["prob_x"]},)


def test_probabilities_stored_as_logits_are_doubted(tmp_path):
    np.savez(tmp_path / "a.npz", logits=P, labels=Y)
    found = read_predictions(tmp_path / "a.npz")
    assert found.kind == "logits"
    assert any("WARNING" in n and "--input probs" in n for n in found.notes)
    assert read_predictions(tmp_path / "a.npz", input="probs").kind == "probs"


def test_exact_zeros_are_counted(tmp_path):
    p = P.copy()
    p[:7] = [1, 0, 0]
    np.savez(tmp_path / "a.npz", probs=p, labels=Y)
    assert "7 rows have a probability of exactly 0" in read_predictions(tmp_path / "a.npz").notes


def test_many_names_that_repeat_do_not_take_long(tmp_path):
    names = np.array([f"c{i // 2}" for i in range(20_000)])
    np.savez(tmp_path / "a.npz", logits=np.zeros((1, 20_000)), class_names=names)
    with pytest.raises(PredictionFileError, match="must differ"):
        read_predictions(tmp_path / "a.npz")


def test_rows_that_are_wrong_more_often_than_by_chance_are_doubted(tmp_path):
    p = np.full((60, 3), 0.05)
    p[np.arange(60), (Y + 1) % 3] = 0.9
    np.savez(tmp_path / "a.npz", probs=p, labels=Y)
    assert any("check the order" in n for n in read_predictions(tmp_path / "a.npz").notes)


def test_a_probability_of_the_top_class_is_not_that_of_the_positive_one(tmp_path):
    write(tmp_path / "a.csv", {"y": Y, "prob": P.max(axis=1)})
    with pytest.raises(PredictionFileError, match="two classes, but `y` holds 3 different values"):
        read_predictions(tmp_path / "a.csv")


def test_decompression_has_a_limit(tmp_path):
    import gzip

    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"label,prob_a,prob_b\n" + b"0,0.5,0.5\n" * 300_000))
    with pytest.raises(PredictionFileError, match=r"the limit.*--max-memory"):
        read_predictions(path, max_memory="1MB")


def test_rows_that_all_have_one_label_are_doubted(tmp_path):
    text = "WARNING: the label of every row is"
    p = RNG.random(40)
    found = read_predictions(write(tmp_path / "a.csv", {"prob": p, "y": np.ones(40, int)}))
    assert any(note.startswith(f"{text} 1:") for note in found.notes)
    found = read_predictions(write(tmp_path / "b.csv", {"prob": p, "y": (p > 0.5).astype(int)}))
    assert not any(text in note for note in found.notes)
    few = read_predictions(write(tmp_path / "c.csv", {"prob": p[:5], "y": np.ones(5, int)}))
    assert not any(text in note for note in few.notes)


@pytest.mark.parametrize("name", ["probability (%)", "prob_pct", "y_prob_percent", "P(yes) %"])
def test_percentages_of_what_is_rare_are_no_probabilities(tmp_path, name):
    path = tmp_path / "val.csv"
    path.write_text(f"label,{name}\n0,0.25\n1,0.5\n0,0.125\n")
    with pytest.raises(PredictionFileError, match="is called percentages, but all") as caught:
        read_predictions(path)
    percent, probs = (read_predictions(path, **fix) for fix in caught.value.fixes)
    assert_allclose(percent.scores[:, 1], [0.0025, 0.005, 0.00125])
    assert_allclose(probs.scores[:, 1], [0.25, 0.5, 0.125])
    assert percent.class_names is None
    path.write_text(f"label,{name}\n0,0.25%\n1,0.5%\n0,0.125%\n")
    assert_allclose(read_predictions(path).scores[:, 1], [0.0025, 0.005, 0.00125])


def test_cells_with_the_sign_are_divided_by_100_once(tmp_path):
    """With `--input percent` they were divided twice."""
    path = tmp_path / "val.csv"
    for text in ("0,25%,75%\n1,50%,50%\n", "0,25 %,75\n1,50,50 %\n", "0,25,75\n1,50,50\n"):
        path.write_text(f"label,prob_0,prob_1\n{text}")
        found = read_predictions(path, input="percent")
        assert_allclose(found.scores, [[0.25, 0.75], [0.5, 0.5]])
    path.write_text("label,prob\n0,2.5%\n1,50%\n")
    assert_allclose(read_predictions(path, input="percent").scores[:, 1], [0.025, 0.5])
    path = tmp_path / "val.jsonl"
    path.write_text('{"label": 0, "prob": "2.5%"}\n{"label": 1, "prob": "50%"}\n')
    for told in ("percent", None):
        assert_allclose(read_predictions(path, input=told).scores[:, 1], [0.025, 0.5])


@pytest.mark.parametrize("labelled", [True, False])
def test_a_feature_that_is_0_in_all_rows_is_doubted_as_a_class(tmp_path, labelled):
    path = tmp_path / "val.csv"
    rows = [f"0.0,{i / 40},{1 - i / 40},{'cat' if i % 3 else 'dog'}" for i in range(1, 40)]
    rows = rows if labelled else [row.rpartition(",")[0] for row in rows]
    path.write_text("\n".join(["gain,cat,dog" + ",label" * labelled, *rows]) + "\n")
    (doubt,) = [note for note in read_predictions(path).notes if "WARNING" in note]
    assert doubt.startswith('WARNING: read as a class, but 0 in all of the first rows: "gain".')
    assert doubt.endswith("pass --ignore gain")
    found = read_predictions(path, ignore=["gain"])
    assert found.n_classes == 2
    assert not any("WARNING" in note for note in found.notes)
    if labelled:
        path.write_text(path.read_text().replace(",dog\n", ",gain\n"))
        assert not any("read as a class" in note for note in read_predictions(path).notes)
