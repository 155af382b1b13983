from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from focalibrate.io import as_logits, blocks, logit_blocks, predictions, read_predictions


@pytest.mark.parametrize("n_rows", [1, 7, 30, 100, None])
def test_blocks_make_up_the_scores(val, n_rows):
    parts = list(blocks(val, n_rows=n_rows))
    assert_array_equal(np.concatenate(parts), val.scores)
    assert all(len(part) == (n_rows or 30) for part in parts[:-1])


def test_blocks_must_have_rows(val):
    with pytest.raises(ValueError, match=r"`n_rows` must be >= 1, got 0"):
        list(blocks(val, n_rows=0))


def test_logits_are_given_as_they_are(val):
    assert as_logits(val) is val.scores
    assert_array_equal(np.concatenate(list(logit_blocks(val, n_rows=8))), val.scores)


def test_probabilities_become_logs_and_zero_minus_infinity(val, monkeypatch):
    monkeypatch.setattr(predictions, "BLOCK_BYTES", 50)
    p = np.array([[0.0, 1.0], [0.25, 0.75]] * 9, np.float32)
    found = as_logits(replace(val, scores=p, kind="probs"))
    assert found.dtype == np.float32
    with np.errstate(divide="ignore"):
        assert_array_equal(found, np.log(p))
    assert found[0, 0] == -np.inf
    assert_array_equal(
        np.concatenate(list(logit_blocks(replace(val, scores=p, kind="probs"), n_rows=4))), found
    )


def test_blocks_of_a_memory_map_are_views(tmp_path, logits):
    np.save(tmp_path / "logits.npy", logits)
    found = read_predictions(tmp_path / "logits.npy")
    assert all(np.shares_memory(part, found.scores) for part in blocks(found, n_rows=9))


def test_frozen(val):
    with pytest.raises(FrozenInstanceError):
        val.kind = "probs"
