"""The page of several models in a real browser."""

import pytest


@pytest.fixture
def page(seen):
    return seen["models"]


def test_it_draws_without_a_word_on_the_console(page):
    assert page["console"] == []
    assert page["charts"] == 5
    assert page["requests"][0].startswith("file:")
    assert len(page["requests"]) == 1
    for bad in ("NaN", "undefined", "null", "Infinity"):
        assert bad not in page["text"]


def test_a_model_called_script_is_shown_not_run(page):
    assert page["title"].startswith("<script>document.title='hacked'</script>, b, ")


@pytest.mark.parametrize("where", ["light", "dark"])
def test_axe_finds_nothing(page, where):
    assert page["axe"][where] == []


@pytest.mark.parametrize("where", ["light", "phone"])
def test_nothing_sticks_out(page, where):
    assert page["overflow"][where]["out"] == []
