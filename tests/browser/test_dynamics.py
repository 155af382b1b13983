"""The page of a training run in a real browser, by frontend/browser/dynamics.mjs."""

import numpy as np
import pytest

HOSTILE = "<script>document.title='hacked'</script>"
RUNS = ["whole", "seldom", "one_epoch", "hostile", "no_last_layer"]
RESIZED = ["whole", "hostile"]


@pytest.fixture(params=RUNS)
def page(request, look):
    return look(request.param)


def test_it_draws_without_a_word_on_the_console(page):
    _, seen = page
    assert seen["console"] == []
    assert seen["charts"] >= 12
    for bad in ("NaN", "undefined", "null", "Infinity"):
        assert bad not in seen["text"]
        assert not any(bad in label for label in seen["labels"])


def test_it_asks_for_nothing_but_itself(page):
    _, seen = page
    assert len(seen["requests"]) == 1
    assert seen["requests"][0].startswith("file:")


def test_the_slider_goes_from_the_first_look_to_the_last(page):
    arrays, seen = page
    for moved in seen["moved"]:
        epoch, _, epochs = moved["epoch"].partition(" of ")
        values = np.array(arrays[f"{moved['split']}_ece"], dtype=float)
        looked = np.flatnonzero(np.isfinite(values)) + 1
        assert int(epochs) == len(values)
        at = {"Home": 0, "ArrowRight": min(1, len(looked) - 1), "End": -1}[moved["key"]]
        assert int(epoch) == looked[at]
        shown = float(moved["ece"].removeprefix("ECE ").split("\u202f")[0]) / 100
        assert shown == pytest.approx(values[int(epoch) - 1], abs=6e-5)


def test_what_is_absent_is_said(look):
    _, seen = look("no_last_layer")
    assert "has no last linear layer" in seen["text"]
    assert "No values were recorded." in seen["text"]
    assert "keeps the weights of epoch" in look("seldom")[1]["text"]


def test_a_data_set_called_script_is_shown_not_run(look):
    _, seen = look("hostile")
    assert HOSTILE in seen["text"]
    assert seen["title"] == f"mlp on {HOSTILE}"
    assert seen["scripts"] == 2


@pytest.mark.parametrize("name", RESIZED)
@pytest.mark.parametrize("where", ["light", "phone", "small", "print"])
def test_nothing_sticks_out(look, name, where):
    found = look(name)[1]["overflow"][where]
    assert found["out"] == []
    assert found["scroll"] <= found["width"]


@pytest.mark.parametrize("where", ["light", "dark", "phone"])
def test_axe_finds_nothing(look, where):
    assert look("whole")[1]["axe"][where] == []
