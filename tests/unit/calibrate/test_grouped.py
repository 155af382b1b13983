import numpy as np
import pytest

from focalibrate.calibrate import Calibrator, GroupedCalibrator, Identity, TemperatureScaling
from focalibrate.calibrate.grouped import group_names

NORTH, SHARED = TemperatureScaling(2.0), TemperatureScaling(0.5)
FOUND = GroupedCalibrator("region", SHARED, ("north", "south"), (NORTH, None))
LOGITS = np.random.default_rng(0).normal(size=(6, 3))
GROUPS = ["north", "south", "north", "west", "south", "north"]


def test_each_row_is_calibrated_by_its_group():
    got = FOUND.probs(LOGITS, groups=GROUPS)
    for row, group in enumerate(GROUPS):
        member = NORTH if group == "north" else SHARED
        np.testing.assert_array_equal(got[row], member.probs(LOGITS[row : row + 1])[0])


def test_a_file_holds_every_group(tmp_path):
    FOUND.save(tmp_path / "c.json")
    assert Calibrator.load(tmp_path / "c.json") == FOUND


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: FOUND.probs(LOGITS), "`groups` must be given: the 'region' of every row"),
        (lambda: FOUND.probs(LOGITS, groups=GROUPS[:5]), r"one value per row, \[6\], got"),
        (FOUND.to_torch, "cannot be a torch module of logits.*of_group"),
        (lambda: FOUND.to_onnx("x.onnx"), "cannot be an ONNX graph of logits.*of_group"),
        (lambda: GroupedCalibrator("", SHARED, (), ()), "`column` must be a name"),
        (lambda: GroupedCalibrator("a", SHARED, ("x", "x"), (None, None)), "different names"),
        (lambda: GroupedCalibrator("a", FOUND, (), ()), "must not be calibrators by group"),
    ],
)
def test_what_cannot_be_is_said(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_nested_groups_in_a_file_are_refused(tmp_path):
    document = FOUND.to_dict()
    document["parameters"]["shared"] = FOUND.to_dict()
    with pytest.raises(ValueError, match="kind 'by_group' must not hold one of its kind"):
        Calibrator.from_dict(document)


def test_numbers_are_the_same_group_as_text_or_float():
    assert group_names([1, 2]).tolist() == group_names([1.0, 2.0]).tolist() == ["1", "2"]
    assert group_names(np.array([1.5, 2.0])).tolist() == ["1.5", "2"]
    assert group_names(np.array(["a", None], dtype=object)).tolist() == ["a", "None"]
    assert FOUND.of_group("north") is NORTH
    assert FOUND.of_group("nowhere") is SHARED


def test_the_description_names_the_groups():
    assert FOUND.describe().startswith("calibrators of their own for region = north; others: ")
    many = GroupedCalibrator("g", Identity(), tuple("abcd"), (NORTH,) * 4)
    assert "4 groups of g" in many.describe()


@pytest.mark.parametrize(
    "values", [[0.5, 1.0, 2.0], [1.0, None], [1.0, float("nan")], ["a", 1.0], np.float32([0.1, 1])]
)
def test_the_name_of_a_group_does_not_depend_on_the_batch(values):
    array = np.array(values, dtype=object) if None in values or "a" in values else values
    together = group_names(array)
    alone = [str(group_names(np.asarray(array)[i : i + 1])[0]) for i in range(len(values))]
    assert together.tolist() == alone
    assert "1" in alone


def test_a_row_gets_the_same_probabilities_alone_and_in_a_batch():
    dose, z = np.array([0.5, 1.0, 2.0]), np.array([[0.0, 2.0]] * 3)
    own = (None, TemperatureScaling(4.0), None)
    found = GroupedCalibrator("dose", TemperatureScaling(1.0), tuple(group_names(dose)), own)
    together = found.probs(z, groups=dose)
    assert together[1] == pytest.approx(found.probs(z[1:2], groups=dose[1:2])[0])
    assert found.of_group(1.0) == found.of_group(1) == found.of_group("1") == own[1]
