"""The page of a training run in a real browser, by frontend/browser/dynamics.mjs."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from focalibrate.datasets import load
from focalibrate.report import Provenance, write_dynamics
from focalibrate.train import Recipe, train

HOSTILE = "<script>document.title='hacked'</script>"
RECIPE = Recipe(
    dataset="overlap_1d",
    model="mlp",
    size={"hidden": [8]},
    epochs=9,
    batch=100,
    lr=0.05,
    fraction=0.1,
    milestones=(0.5,),
)
RUNS = {
    "whole": (RECIPE, 1),
    "seldom": (replace(RECIPE, keep="best", gamma=2.0), 4),
    "one_epoch": (replace(RECIPE, epochs=1, milestones=()), 1),
    "hostile": (replace(RECIPE, dataset=HOSTILE), 1),
    "no_last_layer": (RECIPE, 1),
}


def without_last_layer(folder):
    """Make the run as one of a network whose gradients cannot be seen."""
    with np.load(folder / "dynamics.npz") as found:
        arrays = {name: found[name] for name in found.files}
    arrays["weight_norm"][:] = np.nan
    for split in ("train", "validation", "test"):
        arrays[f"{split}_gradient_histogram"][:] = 0
    np.savez(folder / "dynamics.npz", **arrays)


THOROUGH = ("whole", "hostile")
"""Also looked at in the dark, by axe, on small windows and on paper."""


@pytest.fixture(scope="module")
def look(node, tmp_path_factory):
    """Return the dynamics of a run and what was seen of its page; each is opened once."""
    made = Provenance(command="focalibrate train", version="0.1.0", seed=0, made_at="2026-11-15")

    @cache
    def look(name):
        recipe, look_every = RUNS[name]
        folder = tmp_path_factory.mktemp(name)
        data = load("overlap_1d", fraction=0.1)
        run = train(recipe, out=folder, dataset=data, look_every=look_every)
        if name == "no_last_layer":
            without_last_layer(folder)
        page = str(write_dynamics(folder, provenance=made))
        flags = ["--thorough"] if name in THOROUGH else []
        return run.dynamics.arrays, json.loads(node("browser/dynamics.mjs", page, *flags))

    return look


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
        values = arrays[f"{moved['split']}_ece"]
        looked = np.flatnonzero(np.isfinite(values)) + 1
        assert int(epochs) == len(values)
        at = {"Home": 0, "ArrowRight": min(1, len(looked) - 1), "End": -1}[moved["key"]]
        assert int(epoch) == looked[at]
        shown = float(moved["ece"].removeprefix("ECE ").split("\u202f")[0]) / 100
        assert shown == pytest.approx(values[int(epoch) - 1], abs=6e-5)


def test_what_is_absent_is_said(look):
    _, seen = look("no_last_layer")
    assert "has no last linear layer" in seen["text"]
    assert "There is none to be seen." in seen["text"]
    assert "keeps the weights of epoch" in look("seldom")[1]["text"]


def test_a_data_set_called_script_is_shown_not_run(look):
    _, seen = look("hostile")
    assert HOSTILE in seen["text"]
    assert seen["title"] == f"mlp on {HOSTILE}"
    assert seen["scripts"] == 2


@pytest.mark.parametrize("name", THOROUGH)
@pytest.mark.parametrize("where", ["light", "phone", "small", "print"])
def test_nothing_sticks_out(look, name, where):
    found = look(name)[1]["overflow"][where]
    assert found["out"] == []
    assert found["scroll"] <= found["width"]


@pytest.mark.parametrize("name", THOROUGH)
@pytest.mark.parametrize("where", ["light", "dark", "phone"])
def test_axe_finds_nothing(look, name, where):
    assert look(name)[1]["axe"][where] == []
