"""Pages of unusual data must be drawn too."""

import pytest

EDGES = [
    "two_classes",
    "every_row_right",
    "a_class_never_seen",
    "impossible_classes",
    "constant_logits",
    "huge_logits",
]


@pytest.mark.parametrize("case", EDGES)
def test_it_draws(seen, case):
    assert seen[case]["console"] == []
    for bad in ("NaN", "undefined", "null", "Infinity"):
        assert bad not in seen[case]["text"]


def test_a_model_without_mistakes_is_told_so(seen):
    assert "makes no mistake" in seen["every_row_right"]["text"]


def test_sliders_are_shown_only_with_a_criterion(seen):
    assert "live" not in seen["two_classes"]
    assert "Try γ and T" not in seen["two_classes"]["text"]
    assert "Try γ and T" in seen["every_row_right"]["text"]
