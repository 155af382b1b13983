import numpy as np
import pytest

from focalibrate.calibrate.rows import Rows
from focalibrate.comparison.compare import selected


def rows(n, k):
    logits = np.broadcast_to(np.float32(0), (n, k))
    return Rows(logits, np.zeros(n, dtype=np.intp))


def test_what_is_too_slow_for_the_size_is_left_out_and_said():
    found = selected(None, None, rows=rows(50_000, 1000), n_fits=6)
    assert "temperature" in found.names
    why = dict(found.left_out)["structured_matrix"]
    assert why == "too slow for 50,000 rows of 1,000 classes"
    found = selected(None, None, rows=rows(10_000, 10), n_fits=6)
    assert found.left_out == ()
    assert found.names[-1] == "average"
    named = selected(["structured_matrix"], None, rows=rows(50_000, 1000), n_fits=6)
    assert named.names == ("identity", "structured_matrix")


def test_a_method_to_take_is_compared_in_any_case():
    many = rows(50_000, 1000)
    found = selected(None, None, rows=many, n_fits=6, also="structured_matrix")
    assert "structured_matrix" in found.names
    assert "structured_matrix" not in dict(found.left_out)
    found = selected(None, None, rows=rows(300, 3), n_fits=6, also="histogram")
    assert found.names[-2:] == ("histogram", "average")
    found = selected(["vector"], None, rows=rows(300, 3), n_fits=6, also="temperature")
    assert found.names == ("identity", "vector", "temperature")
    with pytest.raises(ValueError, match=r"got 'isotonc'\. Did you mean 'isotonic'"):
        selected(None, None, rows=rows(300, 3), n_fits=6, also="isotonc")


def test_methods_for_two_classes_are_refused_for_more():
    with pytest.raises(ValueError, match="'platt' is for two classes, but there are 3"):
        selected(["platt"], None, rows=rows(10, 3), n_fits=1)
