"""The queue of long trainings."""

import json

import pytest

from focalibrate.experiments.engine.experiment import Folders
from focalibrate.experiments.networks import queue
from focalibrate.experiments.networks.recipes import long_recipe
from focalibrate.experiments.networks.trained import is_trained
from focalibrate.train import Recipe

pytest.importorskip("torch")


def test_the_networks_are_those_that_experiments_look_up():
    found = {recipe.key: recipe for recipe in queue.queue()}
    assert next(iter(found)) == queue.sst_recipe("ce", 0).key
    assert found[queue.sst_recipe("mmce", 4).key].epochs == 25
    assert long_recipe("fashion", "fl3", seed=2).key in found


@pytest.mark.parametrize(
    ("name", "key"),
    # What folders of networks that were trained by earlier commits are found by.
    [
        ("fashion", "cd1ae7120e69"),
        ("cifar10_s", "8e475d34994c"),
        ("interpolating", "a847a22ccaf0"),
    ],
)
def test_the_recipes_have_not_changed_since_they_were_trained(name, key):
    assert long_recipe(name, "fl3", seed=0).key == key


def test_what_is_finished_is_left_alone(tmp_path, monkeypatch):
    recipe = Recipe(dataset="square_2d", model="linear", epochs=1, fraction=0.05)
    monkeypatch.setattr(queue, "queue", lambda: iter([recipe, recipe]))
    folders = Folders(None, tmp_path)
    assert not is_trained(recipe, folders)
    queue.work(folders)
    assert is_trained(recipe, folders)
    assert (tmp_path / recipe.key / "commit").exists()
    changed = (tmp_path / recipe.key / "model.pt").stat().st_mtime_ns
    queue.work(folders)
    assert (tmp_path / recipe.key / "model.pt").stat().st_mtime_ns == changed


def test_networks_whose_numbers_are_committed_are_left_out(tmp_path, monkeypatch):
    recipe = Recipe(dataset="square_2d", model="linear", epochs=1, fraction=0.05)
    (tmp_path / "results" / "sst").mkdir(parents=True)
    runs = {"a": {"recipe": recipe.key}, "b": {"seed": 1}}
    (tmp_path / "results" / "sst" / "meta.json").write_text(json.dumps({"runs": runs}))
    monkeypatch.setattr(queue, "queue", lambda: iter([recipe]))
    found = queue.evaluated_recipes(tmp_path / "results")
    queue.work(Folders(None, tmp_path), found)
    assert found == {recipe.key}
    assert not (tmp_path / recipe.key).exists()
