import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate_papers.engine import Row, Rows, Task, at_size
from focalibrate_papers.networks import folds
from focalibrate_papers.p002.focal_calibration import (
    AFTER,
    BEFORE,
    ERROR,
    NEAR_ONE,
    claims,
    scaled_numbers,
)

BETTER = {"ECE %": 2.0, "|ln T|": 0.1, "ECE % after T": 1.0, "error %": 5.0}
WORSE = {"ECE %": 8.0, "|ln T|": 0.9, "ECE % after T": 2.0, "error %": 5.0}
LOSSES = ("ce", "brier", "mmce", "ls", "fl3", "flsd53")


def table(problem, *, focal, others):
    return [
        Row(
            Task.of("focal-calibration", problem=problem, loss=loss, seed=seed),
            metric,
            value + 0.01 * seed,
        )
        for loss in LOSSES
        for seed in range(3)
        for metric, value in (focal if loss.startswith("fl") else others).items()
    ]


def lines_of(rows, *, is_full):
    found = claims(Rows(tuple(rows), "full" if is_full else "reduced"))
    return {line.claim: line for line in at_size(found, is_full=is_full)}


@pytest.fixture(scope="module")
def outputs():
    rng = np.random.default_rng(0)
    truth = 2.0 * rng.standard_normal((6000, 4))
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    return truth.astype(np.float32), labels


def numbers(logits, labels):
    return dict(scaled_numbers(logits, labels, folds(logits, labels)))


def test_honest_outputs_keep_their_temperature(outputs):
    found = numbers(*outputs)
    assert abs(found["T"] - 1.0) <= 0.15
    assert found["ECE %"] < 3.0
    assert_allclose(found["|ln T|"], abs(np.log(found["T"])))


def test_the_temperature_undoes_overconfidence(outputs):
    logits, labels = outputs
    found = numbers(3.0 * logits, labels)
    assert abs(found["T"] - 3.0) <= 0.4
    assert found["ECE % after T"] < 0.3 * found["ECE % on halves"]
    assert found["NLL % after T"] < found["NLL %"]
    assert found["error %"] == numbers(logits, labels)["error %"]


def test_focal_loss_below_is_the_same_direction_and_reproduced_at_full_size():
    rows = table("cifar10", focal=BETTER, others=WORSE)
    claim = "CIFAR-10: FLSD-53 has a lower ECE before T than CE"
    assert lines_of(rows, is_full=False)[claim].verdict == "same direction"
    assert lines_of(rows, is_full=True)[claim].verdict == "reproduced"
    other_way = table("cifar10", focal=WORSE, others=BETTER)
    assert lines_of(other_way, is_full=True)[claim].verdict == "not reproduced"


def test_a_set_the_paper_lacks_is_never_reproduced():
    rows = table("fashion_mnist", focal=BETTER, others=WORSE)
    found = lines_of(rows, is_full=True)
    of_set = [line for claim, line in found.items() if claim.startswith("Fashion-MNIST")]
    assert of_set
    assert {line.verdict for line in of_set} == {"supported"}
    assert {line.paper_value for line in of_set} == {"the paper does not have this set"}


def test_where_the_paper_s_table_goes_against_its_text_the_table_is_judged():
    rows = table("sst_binary", focal=WORSE, others=BETTER)
    line = lines_of(rows, is_full=True)["SST binary: FLSD-53 has a higher ECE before T than CE"]
    assert line.paper_value.endswith("its table: 9.19 against 7.37 (Tree-LSTM)")
    assert line.verdict == "reproduced"
    assert "exception to its text" in line.note


def test_a_set_trained_for_fewer_epochs_than_elsewhere_is_a_question_of_ours():
    rows = table("sst_binary", focal=WORSE, others=BETTER)
    found = lines_of(rows, is_full=False)
    line = found["SST, 10 epochs: FLSD-53 has a higher ECE before T than CE"]
    assert (line.verdict, line.is_papers) == ("supported", False)
    assert "after 10 epochs" in line.paper_value
    assert all(claim.startswith("SST, 10 epochs: ") for claim in found)


def test_nothing_is_concluded_from_20_newsgroups_at_reduced_scale():
    rows = table("20newsgroups", focal=BETTER, others=WORSE)
    assert lines_of(rows, is_full=False) == {}


def test_networks_of_the_paper_that_disagree_leave_the_text_s_claim():
    # after T, FL-3 is above CE for ResNet-50 and below for ResNet-110
    rows = table("cifar10", focal=BETTER, others=WORSE)
    assert "CIFAR-10: FL-3 has a lower ECE after T than CE" in lines_of(rows, is_full=False)


def test_the_count_of_sets_ignores_which_way_the_tables_go():
    rows = table("cifar10", focal=BETTER, others=WORSE)
    rows += table("sst_binary", focal=BETTER, others=WORSE)
    rows += table("20newsgroups", focal=WORSE, others=BETTER)
    line = lines_of(rows, is_full=True)[
        "FL-3 has a lower ECE before T than CE in almost all cases"
    ]
    assert_allclose(line.ours.estimate, 2 / 3)
    assert line.verdict == "undecided"
    assert "in 3 of its 4 rows" in line.paper_value


@pytest.mark.parametrize("measure", [BEFORE, AFTER, NEAR_ONE, ERROR], ids=lambda m: m.metric)
def test_measures_read_metrics_a_run_gives(measure, outputs):
    assert measure.metric in numbers(*outputs)
