from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from focalibrate.io import as_logits, blocks, predictions


def test_blocks_are_views_that_make_up_the_scores(val, monkeypatch):
    monkeypatch.setattr(predictions, "BLOCK_BYTES", 100)
    parts = list(blocks(val))
    assert_array_equal(np.concatenate(parts), val.scores)
    assert [len(part) for part in parts] == [8, 8, 8, 6]
    assert all(np.shares_memory(part, val.scores) for part in parts)


def test_logits_are_given_as_they_are(val):
    assert as_logits(val) is val.scores


def test_probabilities_become_logs_and_zero_minus_infinity(val):
    p = np.array([[0.0, 1.0], [0.25, 0.75]] * 9, np.float32)
    found = as_logits(replace(val, scores=p, kind="probs"))
    assert found.dtype == np.float32
    with np.errstate(divide="ignore"):
        assert_array_equal(found, np.log(p))
    assert found[0, 0] == -np.inf


def test_frozen(val):
    with pytest.raises(FrozenInstanceError):
        val.kind = "probs"
