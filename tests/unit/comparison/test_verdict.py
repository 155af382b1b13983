import numpy as np
import pytest

from focalibrate.comparison import choose, compare, verdict


def problem(n, *, scale, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n, 4)) * 2
    return scale * truth, (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)


@pytest.mark.parametrize(("scale", "word"), [(3.0, "overconfident"), (0.3, "underconfident")])
def test_side_cure_and_price(scale, word):
    found = compare(*problem(800, scale=scale), methods=["temperature"], n_resamples=50)
    text = verdict(found, choose(found))
    gap = abs(found.row("identity").card.confidence_gap) * 100
    assert text.startswith(f"{word} by {gap:.1f} points; temperature scaling, T=")
    assert text.endswith("predictions unchanged")
    assert "brings AdaECE from" in text


def test_a_calibrated_model_is_kept():
    found = compare(*problem(800, scale=1.0), methods=["temperature"], n_resamples=50)
    assert verdict(found, choose(found)).endswith("keep the model as it is")


def test_changed_predictions_are_counted():
    z, y = problem(1500, scale=1.0)
    z = z + np.array([2.0, 0, 0, 0])  # a shift that only vector scaling can undo
    found = compare(z, y, methods=["vector"], n_resamples=50)
    n = found.row("vector").n_predictions_changed
    assert n > 0
    assert verdict(found, choose(found)).endswith(f"{n} of 1500 predictions change")
