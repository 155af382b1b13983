import numpy as np
import pytest

from focalibrate.metrics import worst_slice


def sliced(n, seed, *, shift=0.0):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.55, 0.95, size=n)
    columns = {
        "region": rng.choice(["north", "south", "east"], size=n),
        "age": rng.normal(40, 10, size=n),
        "sex": rng.choice(["f", "m"], size=n),
    }
    planted = (columns["region"] == "north") & (columns["age"] > np.quantile(columns["age"], 0.75))
    right = rng.random(n) < p - shift * planted
    return np.column_stack([p, 1 - p]), (~right).astype(int), columns, planted


def test_a_planted_slice_of_two_conditions_is_found():
    probs, labels, columns, planted = sliced(5000, 0, shift=0.3)
    found = worst_slice(probs, labels, columns, event="top label")
    assert found.description.startswith("region = north and age > ")
    np.testing.assert_array_equal(found.rows, planted)
    assert found.p_value == 0.002
    assert found.gap.low < 0.3 < found.gap.high
    assert "overconfident by" in found.summary


def test_the_worst_slice_of_a_calibrated_model_is_rejected_at_its_level():
    found = [
        worst_slice(*sliced(500, seed)[:3], n_draws=99, seed=seed).p_value <= 0.05
        for seed in range(60)
    ]
    assert np.mean(found) <= 0.14
    calm = worst_slice(*sliced(500, 1)[:3], n_draws=99)
    assert calm.summary.startswith("no slice stands out: the worst of ")


def test_bad_requests_are_named():
    probs, labels, columns, _ = sliced(100, 0)
    with pytest.raises(ValueError, match="no slice has 5000 rows"):
        worst_slice(probs, labels, columns, min_rows=5000)
    with pytest.raises(ValueError, match="'age' must have 100 rows"):
        worst_slice(probs, labels, {"age": np.ones(3)})
    with pytest.raises(ValueError, match="at least one column"):
        worst_slice(probs, labels, {})
    with pytest.raises(ValueError, match="takes no `cluster`"):
        worst_slice(probs, labels, columns, cluster=np.arange(100))
