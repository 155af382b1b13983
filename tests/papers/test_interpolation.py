"""Networks that fit their training examples."""

import pytest

from focalibrate_papers.engine import Row, Rows, Task, at_size
from focalibrate_papers.p002.interpolation import claims, finding

CE = {"ECE %": 12.0, "train error %": 0.2, "adaece, TS_ECE": 0.02, "adaece, FTS_ECE": 0.01}
FL = CE | {"ECE %": 5.0, "train error %": 0.9}


def made(seeds, **of_focal):
    return Rows(
        tuple(
            Row(Task.of("interpolation", loss=loss, seed=seed), metric, value + 0.01 * seed)
            for loss, numbers in (("ce", CE), ("fl3", FL | of_focal))
            for seed in seeds
            for metric, value in ({"ECE % after T": 2.0} | numbers).items()
        )
    )


@pytest.mark.parametrize(
    ("seeds", "verdict"), [(range(3), "same direction"), (range(1), "undecided")]
)
def test_claims_of_every_paper_are_judged_by_seeds(seeds, verdict):
    found = {result.claim: result for result in at_size(claims(made(seeds)), is_full=False)}
    name = "Interpolating"
    assert found[f"{name}: FL-3 has a lower ECE before T than CE"].verdict == verdict
    assert found[f"{name}: FTS has a lower AdaECE than TS"].verdict == verdict
    assert all(claim.startswith(name) for claim in found)


def test_curvature_of_one_loss_is_a_question_of_ours():
    rows = made(range(3))
    extra = [
        Row(
            Task.of("interpolation", loss=loss, seed=seed), f"lambda_max, {of}", value + 0.1 * seed
        )
        for loss, value in (("ce", 9.0), ("fl3", 4.0))
        for seed in range(3)
        for of in ("own", "ce")
    ]
    found = [
        c for c in at_size(claims(Rows((*rows, *extra))), is_full=False) if "λ_max" in c.claim
    ]
    assert [(c.is_papers, c.verdict) for c in found] == [
        (True, "same direction"),
        (False, "supported"),
    ]
    assert found[0].ours.estimate == pytest.approx(-5.0)


def test_the_finding_says_how_well_the_networks_fit():
    words = finding(made(range(2)))
    assert "training error of at most 0.91 %" in words
    assert "CE 12.0 → 2.0 (2 seeds), FL-3 5.0 → 2.0 (2 seeds)" in words
