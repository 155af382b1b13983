"""The page of several models, and that of one (`evaluate -o page.html`), in a real browser."""

import re

import pytest

HOSTILE = "<script>document.title='hacked'</script>"


@pytest.fixture(params=["models", "evaluation"])
def page(request, seen):
    return seen[request.param]


def test_it_draws_without_a_word_on_the_console(page):
    assert page["console"] == []
    assert page["requests"][0].startswith("file:")
    assert len(page["requests"]) == 1
    for bad in ("NaN", "undefined", "null", "Infinity"):
        assert bad not in page["text"]


def test_every_figure_is_drawn(seen):
    assert seen["models"]["charts"] == 5
    assert seen["evaluation"]["charts"] == 2


def test_a_model_called_script_is_shown_not_run(seen):
    assert seen["models"]["title"].startswith(f"{HOSTILE}, b, ")
    assert seen["evaluation"]["title"].startswith(HOSTILE)


def test_the_scores_of_one_model_are_those_of_python(look):
    scores, page = look("evaluation")
    shown = dict(re.findall(r"^(.+)\s+([\d.]+)\u202f?%?\t", page["text"], re.MULTILINE))
    for title, name in (("Log loss", "nll"), ("Brier", "brier")):
        assert float(shown[title]) == pytest.approx(scores[name], abs=5.1e-5)
    for title, name in (("Error", "error"), ("ECE", "ece"), ("Classwise ECE", "classwise_ece")):
        assert float(shown[title]) == pytest.approx(100 * scores[name], abs=5.1e-3)


@pytest.mark.parametrize("where", ["light", "dark"])
def test_axe_finds_nothing(page, where):
    assert page["axe"][where] == []


@pytest.mark.parametrize("where", ["light", "phone"])
def test_nothing_sticks_out(page, where):
    assert page["overflow"][where]["out"] == []


@pytest.mark.parametrize("where", ["light", "phone"])
def test_the_scores_of_one_model_need_no_scrolling(seen, where):
    wanted, width = seen["evaluation"]["table"][where]
    assert wanted <= width
