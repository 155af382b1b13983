"""Data frames whose columns are the classes: never a class by its position where it has a name."""

import re
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import focalibrate
from focalibrate.calibrate import CalibrationWarning, fit
from focalibrate.metrics import assess, ece, nll

fit_average = partial(fit, method="average")
fit_isotonic = partial(fit, method="isotonic")
fit_vector_scaling = partial(fit, method="vector")

pd = pytest.importorskip("pandas")

NAMES = ["cat", "dog", "owl"]
OTHER = ["owl", "cat", "dog"]
RNG = np.random.default_rng(5)
Z = 2 * RNG.normal(size=(300, 3))
Y = (Z + RNG.gumbel(size=Z.shape)).argmax(axis=1)
P = np.exp(2 * Z) / np.exp(2 * Z).sum(axis=1, keepdims=True)
FRAME = pd.DataFrame(P, columns=NAMES, index=np.arange(900, 600, -1))
TEXT = pd.Series(np.array(NAMES)[Y], index=FRAME.index)
FAST = {"methods": ["vector"], "n_resamples": 20}


def unnamed(headline):
    """The sentence without the name of a class, which only a frame knows."""
    return re.sub(r"of [^.]+ are off most", "of one class are off most", headline)


def test_labels_are_matched_to_the_columns():
    by_name = focalibrate.calibrate_predictions(probs=FRAME, labels=TEXT, **FAST)
    by_position = focalibrate.calibrate_predictions(probs=P, labels=Y, **FAST)
    assert unnamed(by_name.verdict.headline) == unnamed(by_position.verdict.headline)
    assert by_name.calibrator.class_names == tuple(NAMES)
    assert by_position.calibrator.class_names is None


@pytest.mark.parametrize("labels", [TEXT, pd.Series(pd.Categorical(TEXT, OTHER)), TEXT.tolist()])
def test_the_order_of_the_columns_does_not_change_a_metric(labels):
    assert ece(FRAME[OTHER], labels) == ece(P, Y)
    assert nll(FRAME[OTHER].add_prefix("prob_"), labels) == pytest.approx(nll(P, Y))


@pytest.mark.parametrize("fit", [fit_vector_scaling, fit_isotonic, fit_average])
def test_a_calibrator_puts_the_columns_in_its_own_order(fit):
    fitted = fit(probs=FRAME, labels=TEXT)
    expected = fitted.probs(probs=P)
    assert_array_equal(fitted.probs(probs=FRAME[OTHER]), expected)
    assert_array_equal(fitted.probs(probs=FRAME[OTHER].add_prefix("prob_")), expected)
    assert_allclose(fitted.probs(np.log(FRAME[OTHER])), expected)


@pytest.mark.parametrize("frame", [FRAME.assign(age=0.0), FRAME.rename(columns={"owl": "fox"})])
def test_other_columns_are_refused(frame):
    fitted = focalibrate.fit(probs=FRAME, labels=TEXT)
    with pytest.raises(ValueError, match=r"one column per class, cat, dog, owl, got cat, dog"):
        fitted.probs(probs=frame)


def test_a_test_frame_in_another_order():
    half = len(P) // 2
    found = focalibrate.calibrate_predictions(
        probs=FRAME[:half], labels=TEXT[:half], test=(FRAME[OTHER][half:], TEXT[half:]), **FAST
    )
    expected = focalibrate.calibrate_predictions(
        probs=P[:half], labels=Y[:half], test=(P[half:], Y[half:]), **FAST
    )
    assert unnamed(found.verdict.headline) == unnamed(expected.verdict.headline)


def test_columns_that_are_other_numbers():
    """`columns=clf.classes_` for classes 1, 2, 3, of which the labels show 1 and 2 only."""
    rows = Y < 2
    frame = pd.DataFrame(P[rows], columns=[1, 2, 3])
    assert ece(frame, Y[rows] + 1) == ece(P[rows], Y[rows])
    with pytest.raises(ValueError, match="must be names of classes, 1, 2, 3; found 0"):
        ece(frame, Y[rows])


def test_rows_in_another_order_are_refused():
    with pytest.raises(ValueError, match=r"same index in another order\. .*\.reindex\("):
        assess(FRAME, TEXT.sort_index())
    assert assess(FRAME, TEXT.sort_index().reindex(FRAME.index)).n == 300
    assert assess(FRAME, TEXT.reset_index(drop=True)).n == 300  # no row has the same name


SURE = pd.Series(P.max(axis=1), name="confidence")
RIGHT = pd.Series(P.argmax(axis=1) == Y, name="correct")
IDS = pd.Series(np.arange(len(Y)) // 3)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        *((assess, what) for what in ("correct", "cluster", "sample_weight")),
        *(
            (focalibrate.calibrate_predictions, what)
            for what in ("correct", "cluster", "sample_weight", "groups")
        ),
    ],
)
def test_events_clusters_weights_and_groups_in_another_order_are_refused(call, what):
    options = {"confidence": SURE, "correct": RIGHT} | (FAST if call is not assess else {})
    given = RIGHT if what == "correct" else IDS if what in ("cluster", "groups") else IDS * 0 + 1.5
    moved = given.sample(frac=1, random_state=1)
    name = "site" if what == "groups" else what
    with pytest.raises(ValueError, match=rf"`{name}` have the same index in another order\. "):
        call(**options | {what: {"site": moved} if what == "groups" else moved})
    again = moved.reindex(SURE.index)
    if call is assess:
        assert call(**options | {what: again}) == call(**options | {what: again.to_numpy()})


def test_weights_of_a_fit_in_another_order_are_refused():
    weights = pd.Series(np.linspace(1, 2, len(Y)), index=FRAME.index)
    with pytest.raises(ValueError, match="`sample_weight` have the same index in another order"):
        focalibrate.fit(probs=FRAME, labels=TEXT, sample_weight=weights.sort_index())


@pytest.mark.parametrize("labels", [TEXT, Y])
@pytest.mark.parametrize(
    "call", [assess, lambda p, y, **o: focalibrate.calibrate_predictions(probs=p, labels=y, **o)]
)
def test_class_names_that_are_the_columns_in_another_order_are_refused(call, labels):
    with pytest.raises(ValueError, match="`class_names` are the columns in another order"):
        call(FRAME, labels, class_names=NAMES[::-1])


def test_text_needs_names():
    with pytest.raises(ValueError, match=r"`labels` are text \(cat, dog, owl\), and nothing says"):
        ece(P, TEXT)
    with pytest.raises(ValueError, match=r"must be names of classes, cat, dog, owl; found fox"):
        ece(FRAME, TEXT.replace("owl", "fox"))
    found = focalibrate.calibrate_predictions(probs=P, labels=TEXT, class_names=NAMES, **FAST)
    assert found.calibrator.class_names == tuple(NAMES)


def test_nullable_numbers_and_booleans():
    assert ece(FRAME.astype("Float64"), pd.Series(Y).astype("Int64")) == ece(P, Y)
    is_owl = pd.Series(P[:, 2])
    assert ece(is_owl, pd.Series(Y == 2), binary=True) == ece(P[:, 2], (Y == 2) * 1, binary=True)


def test_polars():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({name: P[:, i] for i, name in enumerate(NAMES)})
    assert ece(frame[OTHER], polars.Series(TEXT.tolist())) == ece(P, Y)


def test_a_result_shows_its_verdict():
    found = focalibrate.calibrate_predictions(probs=FRAME, labels=TEXT, **FAST)
    assert repr(found) == f"CalibrationResult(chosen='vector', verdict={str(found.verdict)!r})"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ece(FRAME.assign(label=TEXT), TEXT), "column 'label' does not"),
        (
            lambda: ece(P, np.where(np.arange(300) == 7, np.nan, Y)),
            "not be missing, row 7 has none",
        ),
        (
            lambda: focalibrate.read_predictions(FRAME),
            r"got DataFrame.*calibrate_predictions\(df\)",
        ),
        (lambda: focalibrate.calibrate_predictions(FRAME), "^data frame: has no column of labels"),
        (lambda: focalibrate.focal_loss([[1.0, 2.0]], [0]), r"got list.*: `np.asarray"),
    ],
    ids=["labels among scores", "a label is missing", "not a file", "no labels", "lists"],
)
def test_what_is_no_input_is_named(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_labels_of_one_class_are_said():
    with pytest.warns(CalibrationWarning, match="every label is class 2, so nothing"):
        fit(Z, np.full(len(Z), 2), method="temperature")


@pytest.mark.parametrize(
    "names",
    [
        pd.array(["a", None] * 150, dtype="string"),
        pd.array([pd.NA, 1] * 150, dtype="Int64"),
        np.array(["a", pd.NA] * 150, dtype=object),
        np.array(["a", ""] * 150),
        np.array([1.0, np.nan] * 150),
    ],
    ids=["string", "Int64", "object", "empty", "nan"],
)
def test_a_row_without_cluster_is_named(names):
    match = r"cluster of every row, but not in 150, first in row [01]\."
    with pytest.raises(ValueError, match=match):
        assess(P, Y, cluster=names)
    with pytest.raises(ValueError, match=match):
        focalibrate.calibrate_predictions(probs=P, labels=Y, cluster=names)


@pytest.mark.filterwarnings("error")
def test_predict_proba_in_a_frame_and_one_method_by_its_name():
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(300, 3))
    labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    probs = np.exp(2 * z) / np.exp(2 * z).sum(axis=1, keepdims=True)
    frame = pd.DataFrame(probs).assign(label=labels)  # columns 0, 1, 2 and "label"
    found = focalibrate.calibrate_predictions(frame, methods="temperature", n_resamples=10)
    assert str(found.calibrator).startswith("temperature scaling: T=")
