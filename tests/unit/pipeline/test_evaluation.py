import json

import numpy as np
import pytest
from scipy.special import log_softmax

from focalibrate.comparison.paired import Score
from focalibrate.pipeline import Examples, compare_models, evaluate_predictions, models_page
from focalibrate.pipeline.models import Difference, paired_p_value

QUICK = {"n_resamples": 20}


def draw(n, rng, k=3):
    truth = rng.normal(size=(n, k)) * 2
    return truth, (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)


def evaluated(logits, labels, name):
    return evaluate_predictions(
        Examples.of_arrays(logits=logits, labels=labels), name=name, **QUICK
    )


def test_two_calibrated_models_are_told_apart_at_most_five_percent_of_the_time():
    """Both models are the truth plus their own, exchangeable, error."""
    rng = np.random.default_rng(0)
    told = 0
    for _ in range(400):
        z, y = draw(300, rng)
        losses = []
        for _ in range(2):
            logits = z + 0.3 * rng.normal(size=z.shape)
            losses.append(-log_softmax(logits, axis=1)[np.arange(300), y])
        told += paired_p_value(*losses) < 0.05
    assert told <= 400 * 0.05 + 2 * np.sqrt(400 * 0.05 * 0.95)


@pytest.mark.slow
def test_the_best_model_is_named_and_equals_are_not_told_apart():
    rng = np.random.default_rng(0)
    z, y = draw(500, rng)
    models = [
        evaluated(s * z, y, name) for s, name in ((3.0, "hot"), (1.0, "fine"), (1.01, "near"))
    ]
    found = compare_models(models, **QUICK)
    assert found.best.name == "fine"
    assert [d.is_clear for d in found.differences] == [True, False]
    assert found.verdict == "fine has the lowest log loss, but no clear difference to near."


def test_the_page_shows_models_in_order_and_escapes_their_names():
    z, y = draw(60, np.random.default_rng(0))
    models = [evaluated(c * z, y, name) for c, name in ((1, "<script>"), (2, "b"), (9, "c"))]
    found = compare_models(models, **QUICK)
    page = models_page(found, command="focalibrate compare '<script>' b c")
    assert page.count("<script>") == 1  # that of the page itself
    assert "&lt;script&gt;" in page
    data = page.partition('id="focalibrate-data">')[2].partition("</script>")[0]
    document = json.loads(data)
    assert document["kind"] == "models"
    assert document["title"] == "<script>, b, c: models compared"
    assert [m["name"] for m in document["models"]] == ["<script>", "b", "c"]
    assert document["models"][0]["difference"] is None
    assert document["models"][2]["difference"][0] > document["models"][1]["difference"][0] > 0
    assert sum(document["models"][1]["curve"]["count"]) == document["n_rows"] == 60


def test_one_model_is_not_enough():
    z, y = draw(60, np.random.default_rng(0))
    with pytest.raises(ValueError, match="at least two"):
        compare_models([evaluated(z, y, "a")])


def test_significant_never_stands_beside_an_interval_with_0():
    def is_clear(low, p_value):
        return Difference("a", {"nll": Score(0.05, low, 0.09)}, p_value).is_clear

    assert is_clear(0.001, 0.04)
    assert not is_clear(0.001, 0.06)
    assert not is_clear(-1e-5, 0.04)
    assert is_clear(None, 0.0)  # one log loss is infinite
