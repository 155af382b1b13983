import numpy as np
import pytest

from focalibrate_papers.engine import Folders, Row, Rows
from focalibrate_papers.networks import folds
from focalibrate_papers.p000 import psi_images


def made_rows(change, gap):
    """Return rows in which Ψ changes every ECE of a focal network by `change`, raw `gap`."""
    rows = []
    for task in psi_images.tasks("reduced"):
        names = {"raw": False, "Ψ": True}
        if task["label_smoothing"] == 0:
            names |= {"TS_FL": False, "TS_FL+Ψ": True}
        for name, is_after in names.items():
            moved = change if is_after and task["gamma"] > 0 else 0.0
            numbers = {
                "ece": 0.05 + 0.001 * task.seed + moved,
                "gap": gap,
                "error": 0.3,
                "nll": 1.0,
            }
            rows += [Row(task, f"{m}, {name}", v) for m, v in numbers.items()]
            rows += [
                Row(task, f"{what} in bin, {name}", value, float(b))
                for b in range(10)
                for what, value in (("rows", 50.0), ("confidence", 5.0 * b), ("right", 4.0 * b))
            ]
    return Rows(tuple(rows))


def lines_of(rows):
    return {line.claim: line for line in psi_images.EXPERIMENT.conclude(rows, "reduced").results}


@pytest.mark.parametrize(("change", "agrees"), [(-0.02, True), (0.02, False)])
def test_the_verdict_follows_the_sign_the_paper_gives(change, agrees):
    lines = lines_of(made_rows(change, gap=-0.1))
    papers = {True: "same direction", False: "opposite direction"}
    ours = {True: "supported", False: "not supported"}
    line = lines["Ψ raises the ECE of FL-2: CIFAR-10, Standard"]
    assert line.verdict == papers[not agrees]
    assert lines["Ψ lowers the ECE of FL-2: CIFAR-10, TS_FL"].verdict == papers[agrees]
    assert lines["Ψ lowers the ECE of FL-1: Fashion-MNIST, LS"].verdict == ours[agrees]
    most = lines["Ψ lowers the ECE of focal networks in most of the settings run here"]
    assert most.verdict == ours[agrees]
    np.testing.assert_allclose(line.ours.estimate, 100 * change)
    assert "underconfident by 10.0 points" in line.note


@pytest.mark.parametrize(("gap", "share"), [(0.1, 1.0), (-0.1, 0.0)])
def test_networks_that_psi_hurts_are_compared_with_those_overconfident(gap, share):
    lines = lines_of(made_rows(0.02, gap))
    line = lines["Ψ raises the ECE exactly for the networks that are overconfident after training"]
    assert line.ours.estimate == share


@pytest.mark.slow
def test_a_run_keeps_the_error_and_the_count_of_rows(tmp_path):
    pytest.importorskip("torch")
    task = next(t for t in psi_images.tasks("smallest") if t["gamma"] == 3)
    numbers = list(psi_images.run(task, Folders(None, tmp_path)))
    scores = {n[0]: n[1] for n in numbers if len(n) == 2}
    assert scores["error, raw"] == scores["error, Ψ"] == scores["error, TS_FL+Ψ"]
    counts = {
        name: sum(n[1] for n in numbers if n[0] == f"rows in bin, {name}")
        for name in ("raw", "Ψ", "TS_FL", "TS_FL+Ψ")
    }
    assert len(set(counts.values())) == 1


def test_each_row_is_judged_once_by_a_fit_without_it():
    logits, labels = np.arange(14.0).reshape(7, 2), np.arange(7)
    parts = folds(logits, labels)
    assert sorted(np.concatenate([part.labels for part in parts])) == list(range(7))
    for part in parts:
        assert not set(part.labels) & set(part.fit_labels)
        np.testing.assert_array_equal(part.logits[:, 0], 2.0 * part.labels)
