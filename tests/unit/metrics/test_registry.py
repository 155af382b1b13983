import math

import numpy as np
import pytest

from focalibrate.metrics import METRICS


def test_every_metric_is_declared_once_with_its_function():
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet(np.ones(3), size=50), rng.integers(3, size=50)
    for name, metric in METRICS.items():
        assert metric.name == name
        value = metric.function(probs, labels, sample_weight=np.ones(50))
        assert value == pytest.approx(metric.function(probs, labels))
        if metric.rows is not None:
            assert metric.rows(probs, labels).mean() == pytest.approx(value)


def test_only_means_of_rows_have_intervals():
    assert [name for name, m in METRICS.items() if m.has_interval] == ["nll", "brier", "error"]


def test_headings_name_the_unit():
    for metric in METRICS.values():
        assert metric.heading.endswith("%") == (metric.unit == "%")


def test_values_as_text():
    assert METRICS["ece"].text(0.01234) == "1.23"
    assert METRICS["nll"].text(0.01234) == "0.0123"
    assert METRICS["nll"].text(math.inf) == "∞"
    assert METRICS["nll"].text(math.nan) == "–"
