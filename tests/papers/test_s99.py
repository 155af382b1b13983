import numpy as np
from numpy.testing import assert_allclose

from focalibrate_papers.engine import Row, Rows, Task
from focalibrate_papers.p002.s99 import (
    EXPERIMENT,
    LOSSES,
    METRICS,
    PAPER_VALUES,
    confident_numbers,
)

PAPER_LIKE = {"ce": PAPER_VALUES["ResNet-50"]["ce"], "mmce": PAPER_VALUES["ResNet-50"]["mmce"]}
PAPER_LIKE |= dict.fromkeys(("fl3", "flsd53"), PAPER_VALUES["ResNet-50"]["flsd53"])


def rows_like(values, problems=("cifar10", "fashion_mnist")):
    return Rows(
        tuple(
            Row(Task.of("s99", problem=problem, loss=loss, seed=seed), metric, value + 0.01 * seed)
            for problem in problems
            for loss in LOSSES
            for seed in range(3)
            for metric, value in zip(METRICS, values[loss], strict=True)
        )
    )


def standings(rows, scale):
    return {line.claim: line.verdict for line in EXPERIMENT.conclude(rows, scale).results}


def test_shares_and_accuracies_are_those_of_confident_rows():
    logits = np.zeros((400, 2), dtype=np.float32)
    logits[:100, 0] = 20.0  # confidence 1, of which a tenth is wrong
    labels = np.zeros(400, dtype=np.int64)
    labels[:100:10] = 1
    labels[100::2] = 1
    found = dict(confident_numbers(logits, labels))
    assert_allclose(found["S99 %"], 25.0)
    assert_allclose(found["accuracy on S99 %"], 90.0)
    assert found["S99 % after T"] == 0.0
    assert "accuracy on S99 % after T" not in found
    assert found["T"] > 1.0


def test_the_paper_s_own_numbers_are_reproduced_at_full_size():
    found = standings(rows_like(PAPER_LIKE), "full")
    of_cifar = {claim: s for claim, s in found.items() if claim.startswith("CIFAR-10")}
    assert len(of_cifar) == 12 + 6
    assert set(of_cifar.values()) == {"reproduced"}
    assert {s for claim, s in found.items() if claim not in of_cifar} == {"supported"}


def test_other_shares_are_not_reproduced():
    swapped = PAPER_LIKE | {"ce": PAPER_LIKE["fl3"], "fl3": PAPER_LIKE["ce"]}
    found = standings(rows_like(swapped), "reduced")
    for words in (
        "fewer predictions of confidence ≥ 0.99",
        "more predictions of confidence ≥ 0.99 after T",
        "a higher accuracy where its confidence is ≥ 0.99",
    ):
        assert found[f"CIFAR-10: FL-3 has {words} than CE"] == "opposite direction"


def test_a_loss_that_was_not_trained_has_no_line():
    rows = Rows(tuple(row for row in rows_like(PAPER_LIKE) if row.task["loss"] != "mmce"))
    assert not any("MMCE" in claim for claim in standings(rows, "reduced"))
