import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate_papers.engine import Row, Rows
from focalibrate_papers.networks import GAMMA
from focalibrate_papers.p004 import curvature
from focalibrate_papers.p004.curvature import fit_cubic, resampled


def made_rows(*, trace, ece):
    """Return rows with trace and ECE as functions of the exponent; a tenth of it is λ_max."""
    rows = []
    for task in curvature.tasks("reduced"):
        gamma = GAMMA[task["loss"]]
        numbers = {"ece": ece(gamma), "ece, validation": ece(gamma), "error": 0.3}
        for of, factor in (("own", 0.5), ("ce", 1.0)):
            numbers |= {
                f"trace, {of}": factor * (trace(gamma) + 0.01 * task.seed),
                f"trace error, {of}": 1.0,
                f"lambda_max, {of}": 0.1 * factor * (trace(gamma) + 0.01 * task.seed),
            }
        rows += [Row(task, metric, value) for metric, value in numbers.items()]
    return Rows(tuple(rows))


def lines_of(rows):
    return {line.claim: line for line in curvature.EXPERIMENT.conclude(rows, "reduced").results}


@pytest.mark.parametrize(
    ("trace", "verdict"),
    [(lambda g: 100 - 10 * g, "same direction"), (lambda g: 10 + 10 * g, "opposite direction")],
    ids=["falling", "rising"],
)
def test_the_verdict_follows_the_direction_of_the_curvature(trace, verdict):
    lines = lines_of(made_rows(trace=trace, ece=lambda g: 0.05))
    for name in (
        "λ_max(H_val) of the training loss falls with the γ of training: CIFAR-10",
        "λ_max(H_val) of the training loss falls at every step of γ: CIFAR-10",
    ):
        assert lines[name].verdict == verdict


def test_the_loss_of_training_is_compared_with_cross_entropy_on_the_same_weights():
    lines = lines_of(made_rows(trace=lambda g: 100 - 10 * g, ece=lambda g: 0.05))
    line = lines["At the trained weights, focal loss has a lower λ_max than CE: CIFAR-10"]
    assert_allclose(line.ours.estimate, np.log(0.5))


@pytest.mark.parametrize(
    ("ece", "verdict"),
    [
        (lambda g: 0.02 + 0.02 * (g - 2) ** 2, "same direction"),
        (lambda g: 0.1 + g, "opposite direction"),
    ],
    ids=["valley", "slope"],
)
def test_a_middle_minimum_is_told_from_one_at_the_end(ece, verdict):
    lines = lines_of(made_rows(trace=lambda g: 100 - 10 * g, ece=ece))
    assert lines["ECE is lowest at an intermediate γ: CIFAR-10"].verdict == verdict
    cubic = lines["ECE is lowest at an intermediate Tr(H_val): CIFAR-10"]
    assert cubic.verdict in (verdict, "undecided")
    assert (cubic.ours.estimate > 0.5) == (verdict == "same direction")


def test_a_cubic_goes_through_a_cubic():
    x = np.array([3.0, -1.0, 0.0, 2.0, 1.0])
    found = fit_cubic(1e4 * x, x**3 - 2 * x)
    assert_allclose(found.trace, 1e4 * np.sort(x))
    assert_allclose(found.at(found.trace), np.sort(x) ** 3 - 2 * np.sort(x), atol=1e-9)
    assert_allclose(found.r2, 1.0)


def test_a_curve_that_only_falls_has_no_depth():
    x = np.arange(8.0)
    depth, best, _ = resampled(x, -x)
    assert_allclose([depth.estimate, best.estimate], [0.0, 7.0], atol=1e-9)


def test_equal_traces_do_not_crash():
    assert fit_cubic(np.ones(5), np.arange(5.0)).depth >= 0.0
