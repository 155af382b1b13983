"""What must not pass without a word: data that are probably not what they are taken for."""

import warnings

import numpy as np
import pytest

from focalibrate import calibrate_predictions, check_predictions
from focalibrate.pipeline import DataWarning, Examples, WrongDataWarning, doubts_about


def made(n=600, k=3, seed=0, scale=2.0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * scale
    return z, (z + rng.gumbel(size=z.shape)).argmax(axis=1)


def doubts(z, y, **names):
    return doubts_about(Examples.of_arrays(logits=z, labels=y, **names))


def test_labels_in_another_order_of_classes():
    z, y = made()
    (found,) = doubts(z, (y + 1) % 3, class_names=["ox", "cat", "dog"])
    assert isinstance(found, WrongDataWarning)
    assert "no better than chance" in str(found)
    assert "The scores predict ox where the label is cat" in str(found)
    assert "--class-names" in str(found)


def test_labels_of_other_rows():
    z, y = made()
    (found,) = doubts(z, np.random.default_rng(1).permutation(y))
    assert isinstance(found, WrongDataWarning)
    assert "the labels belong to other rows" in str(found)


def test_two_classes_the_wrong_way_round():
    z, y = made(k=2)
    (found,) = doubts(z, 1 - y)
    assert isinstance(found, WrongDataWarning)
    assert "--positive" in str(found)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("factor", [0.3, 1.0, 3.0])
def test_a_model_that_knows_something_is_not_stopped(seed, k, factor):
    z, y = made(n=300, k=k, seed=seed, scale=1.0)
    assert doubts(factor * z, y) == ()


def test_a_rare_class_that_is_never_predicted_is_not_stopped():
    rng = np.random.default_rng(0)
    risk = rng.beta(1, 40, size=5000)
    assert doubts_about(Examples.of_arrays(probs=risk, labels=rng.random(5000) < risk / 2.7)) == ()


def test_a_weak_model_that_claims_little_is_not_stopped():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(100, 3)) * 0.05
    assert doubts(z, rng.integers(3, size=100)) == ()


def test_chance_is_a_warning_in_python():
    z, y = made()
    with pytest.warns(DataWarning, match="no better than chance"):
        calibrate_predictions(
            logits=z, labels=(y + 1) % 3, methods=["temperature"], n_resamples=10
        )
    with pytest.warns(DataWarning, match="no better than chance"):
        check_predictions(logits=z, labels=(y + 1) % 3, max_ece=0.1)


def test_probabilities_passed_as_logits():
    z, y = made()
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    (found,) = doubts(p, y)
    assert not isinstance(found, WrongDataWarning)
    assert "the `logits` look like probabilities" in str(found)
    assert "Pass them as `probs`" in str(found)


def test_probabilities_passed_as_logits_are_warned_of_once():
    z, y = made()
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    given = {"logits": p[:200], "labels": y[:200], "methods": ["temperature", "isotonic"]}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        calibrate_predictions(**given, n_resamples=10)
    assert sum("look like probabilities" in str(one.message) for one in said) == 1


def test_labels_of_one_class_only():
    z, _ = made(k=2)
    (found,) = doubts(z, np.zeros(len(z), int), class_names=["no", "yes"])
    assert not isinstance(found, WrongDataWarning)
    assert "every label is no" in str(found)
    examples = Examples.of_arrays(logits=z, labels=np.zeros(len(z), int))
    assert [type(doubt) for doubt in doubts_about(examples, to_fit=True)] == [WrongDataWarning]


def test_a_class_of_the_scores_that_never_occurs():
    z, y = made(k=4)
    kept = y != 2
    (found,) = doubts(z[kept], y[kept], class_names=list("abcd"))
    assert "c has scores, but no row has this label" in str(found)


def test_many_classes_and_few_rows_are_no_surprise():
    z, y = made(n=100, k=50)
    assert doubts(z, y) == ()


def test_a_test_set_that_shares_rows():
    z, y = made()
    fitted = Examples.of_arrays(logits=z[:400], labels=y[:400])
    half = Examples.of_arrays(logits=z[300:500], labels=y[300:500])
    (found,) = doubts_about(fitted, half)
    assert not isinstance(found, WrongDataWarning)
    assert str(found).startswith("50% of the test rows are also fitted on")
    (found,) = doubts_about(fitted, Examples.of_arrays(logits=z[:100], labels=y[:100]))
    assert isinstance(found, WrongDataWarning)
    assert doubts_about(fitted, Examples.of_arrays(logits=z[400:], labels=y[400:])) == ()


def test_scores_of_few_values_share_rows_by_chance():
    rng = np.random.default_rng(0)
    p = rng.choice([0.1, 0.3, 0.5, 0.7, 0.9], size=1000)
    y = rng.random(1000) < p
    halves = [Examples.of_arrays(probs=p[s], labels=y[s]) for s in (slice(500), slice(500, None))]
    assert doubts_about(*halves) == ()


def test_good_data_give_no_warning():
    z, y = made()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_predictions(logits=z, labels=y, max_ece=0.5)
