import numpy as np
import pytest

from focalibrate.comparison import choose, compare, verdict


@pytest.mark.parametrize(("scale", "word"), [(3.0, "Overconfident"), (0.3, "Underconfident")])
def test_side_cure_and_price(make_problem, scale, word):
    found = compare(*make_problem(600, scale=scale), methods=["temperature"], n_resamples=50)
    text = verdict(found, choose(found))
    rows = found.row("identity").row_scores
    gap = abs(rows.confidence.mean() - rows.correct.mean()) * 100
    assert text.startswith(f"{word} by {gap:.1f} points. Temperature scaling, T=")
    before, after = found.row("identity").scores["nll"], choose(found).held_out["nll"]
    assert text.endswith(
        f" lowers the log loss from {before.estimate:.4f} to {after.estimate:.4f} "
        f"[{after.low:.4f}, {after.high:.4f}], held out; predictions unchanged."
    )


def test_a_calibrated_model_is_kept(calibrated):
    text = verdict(calibrated, choose(calibrated))
    assert text.startswith("Confidence and accuracy agree on average.")
    assert text.endswith("keep the model as it is.")
    forced = verdict(calibrated, choose(calibrated, method="identity"))
    assert forced.endswith("left uncalibrated, as requested.")


def test_a_forced_method_that_does_not_help_says_so(calibrated):
    assert "within noise" in verdict(calibrated, choose(calibrated, method="temperature"))


def test_changed_predictions_are_counted(make_problem):
    z, y = make_problem(1500, scale=1.0)
    z = z + np.array([2.0, 0, 0, 0])  # a shift that only vector scaling can undo
    found = compare(z, y, methods=["vector"], n_resamples=50)
    n = found.row("vector").n_predictions_changed
    assert n > 0
    assert verdict(found, choose(found)).endswith(f"{n} of 1,500 predictions change.")


def test_one_curve_per_class_comes_with_a_warning(overconfident):
    z, y = overconfident
    found = compare(z[:300], y[:300], methods=["isotonic"], n_resamples=20)
    text = verdict(found, choose(found, method="isotonic"))
    assert "Beware: with more than two classes, one curve per class did worse than no" in text


def test_a_pool_is_described_by_the_usual_names(overconfident):
    logits, labels = overconfident
    found = compare(logits, labels, methods=["pool"], n_resamples=20)
    text = verdict(found, choose(found, method="pool"))
    assert "A pool of methods (" in text
    assert "structured_matrix" not in text
