"""Published logits: which rows are read, and what is concluded from which numbers."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from focalibrate_papers.datasets import VARIABLE
from focalibrate_papers.engine import Row, Rows, Task
from focalibrate_papers.networks import halves
from focalibrate_papers.published_logits import (
    COUNTED,
    EXPERIMENT,
    FINE,
    PAIRS,
    PAPER_VALUES,
    SETS,
    generated_set,
    read_set,
)

LOGITS = np.arange(24.0).reshape(8, 3) % 7
LABELS = np.arange(8) % 3


@pytest.fixture
def folder(tmp_path):
    """Write ``logits/one.npz`` with these parts."""

    def write(*parts, kind="logits"):
        (tmp_path / "logits").mkdir(exist_ok=True)
        arrays = {}
        for i, part in enumerate(parts):
            arrays |= {f"{part}_{kind}": LOGITS + i, f"{part}_labels": LABELS}
        np.savez(tmp_path / "logits" / "one.npz", **arrays)
        return tmp_path

    return write


def test_validation_and_test_parts_are_used_where_there_are_any(folder):
    found = read_set("one", folder("train", "val", "test"))
    assert found.split == "val and test"
    assert_array_equal(found.fit_logits, LOGITS + 1)
    assert_array_equal(found.test_logits, LOGITS + 2)


@pytest.mark.parametrize("part", ["all", "test"])
def test_one_part_is_cut_into_halves_that_share_no_row(folder, part):
    found = read_set("one", folder("train", part))
    first, second = halves(len(LABELS))
    assert found.split == f"halves of {part}"
    assert_array_equal(found.fit_logits, (LOGITS + 1)[first])
    assert_array_equal(found.test_labels, LABELS[second])


def test_rows_a_model_was_trained_on_are_left_alone(folder):
    with pytest.raises(ValueError, match=r"must hold scores and labels of the parts val and test"):
        read_set("one", folder("train"))


def test_without_a_folder_or_file_the_next_step_is_named(folder, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(
        ValueError, match=r"as --data or in FOCALIBRATE_DATA, or use --scale small"
    ):
        read_set("one", None)
    with pytest.raises(FileNotFoundError, match=r"other.npz: does not exist.*--scale smallest"):
        read_set("other", folder("all"))
    monkeypatch.setenv(VARIABLE, str(folder("all")))
    assert read_set("one", None).name == "one"


def test_generated_focal_logits_are_underconfident_and_keep_their_labels():
    raw, focal = (generated_set("x", n=400, gamma=gamma) for gamma in (None, 3.0))
    assert_array_equal(raw.fit_labels, focal.fit_labels)
    spread = [np.ptp(one.test_logits, axis=1).mean() for one in (raw, focal)]
    assert spread[1] < spread[0]


def rows_with(numbers):
    """Rows of sixteen sets in which every difference is what `numbers` says, by metric."""
    rows = []
    for i, name in enumerate(SETS):
        found = {
            f"{method} less {other} {metric}{end}": -0.01 + 0.001 * (i % 3)
            for method, other in PAIRS
            if method != "Ψ"
            for metric in COUNTED
            for end in ("", " low", " high")
        }
        if i == 0:
            found |= {
                metric: value / (100 if unit else 1) for _, _, metric, value, unit in PAPER_VALUES
            }
            found |= {f"Ψ less raw adaptive_ece{end}": 0.02 for end in ("", " low", " high")}
        task = Task.of("published-logits", set=name, gamma=None if i else 3.0)
        rows += [Row(task, m, v) for m, v in (found | numbers(name)).items()]
    return Rows(tuple(rows))


def test_the_papers_own_numbers_are_reproduced():
    found = EXPERIMENT.conclude(rows_with(lambda name: {}), "full")
    n = len(PAPER_VALUES)
    assert {line.verdict for line in found.results[:n]} == {"reproduced"}
    # Two questions of our own, and a claim of paper 000 about other networks.
    assert [line.verdict for line in found.results[n:]] == [
        "supported",
        "supported",
        "same direction",
    ]


@pytest.mark.parametrize("place", range(len(PAPER_VALUES)))
def test_one_digit_off_is_not_reproduced(place):
    _, _, metric, value, unit = PAPER_VALUES[place]
    off = (value + 0.01) / (100 if unit else 1)
    rows = rows_with(lambda name: {metric: off} if name == next(iter(SETS)) else {})
    standings = [line.verdict for line in EXPERIMENT.conclude(rows, "full").results]
    assert standings[place] == "not reproduced"
    assert standings.count("not reproduced") == 1


def test_differences_of_either_sign_are_no_gain():
    def mixed(name):
        return {f"FTS less {FINE} adaptive_ece": 0.01 if name < "cifar10_r" else -0.01}

    line = EXPERIMENT.conclude(rows_with(mixed), "full").results[len(PAPER_VALUES)]
    assert line.ours.low < 0 < line.ours.high
    assert line.verdict == "undecided"


def test_generated_logits_reproduce_nothing():
    rows = rows_with(lambda name: {})
    standings = {line.verdict for line in EXPERIMENT.conclude(rows, "smallest").results}
    assert "reproduced" not in standings
