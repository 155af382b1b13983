import pytest

from focalibrate_papers.models import MODELS
from focalibrate_papers.recipe import read_recipe, recipe_toml, with_settings, write_recipe
from focalibrate_papers.recipes import NAMED, named_recipe, scaled
from focalibrate_papers.train import Recipe

BASE = {"dataset": "digits", "model": "mlp", "epochs": 10}


@pytest.mark.parametrize("name", list(NAMED)[::7])
def test_a_recipe_survives_toml(tmp_path, name):
    path = tmp_path / "recipe.toml"
    write_recipe(path, NAMED[name])
    assert read_recipe(path) == NAMED[name]
    assert read_recipe(path).key == NAMED[name].key


def test_every_kind_of_value_survives_toml(tmp_path):
    size = {"hidden": (3, 4), "bias": False, "name": 'a "b" \\ \n γ', "drop": 0.5}
    recipe = Recipe(**BASE, size=size, gamma="fls-531", milestones=(0.25, 8), clip=1)
    path = tmp_path / "recipe.toml"
    path.write_text(recipe_toml(recipe), encoding="utf-8")
    assert read_recipe(path) == recipe


def test_the_key_is_that_of_the_values_not_of_their_spelling():
    assert Recipe(**BASE, gamma=2, lr=1).key == Recipe(**BASE, gamma=2.0, lr=1.0).key
    assert Recipe(**BASE, seed=1).key != Recipe(**BASE).key


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"optimizer": "sgd"},
            r"`optimizer` is not a field of a recipe. Did you mean 'optimiser'\?",
        ),
        ({"epochs": "ten"}, r"`epochs` must be a whole number >= 1, got 'ten'"),
        ({"epochs": True}, r"`epochs` must be a whole number >= 1, got True"),
        ({"batch": 1.5}, r"`batch` must be a whole number >= 1, got 1.5"),
        ({"lr": 0}, r"`lr` must be > 0, got 0"),
        ({"lr": "fast"}, r"`lr` must be a finite number >= 0, got 'fast'"),
        ({"fraction": 2.0}, r"`fraction` must be at most 1"),
        (
            {"optimiser": "sdg"},
            r"must be one of sgd, adam, adagrad; got 'sdg'. Did you mean 'sgd'",
        ),
        ({"gamma": "flsd-35"}, r"`gamma` must be a number or one of flsd-53"),
        ({"gamma": -1.0}, r"`gamma` must be"),
        ({"loss": "brier", "gamma": 2.0}, r"`gamma` must be 0 for the loss 'brier'"),
        ({"loss": "mmce"}, r"`mmce_weight` must be > 0 for 'mmce'"),
        ({"mmce_weight": 2.0}, r"`mmce_weight` must be > 0 for 'mmce'"),
        ({"loss": "brier", "gamma": "flsd-53"}, r"`gamma` must be 0 for the loss 'brier'"),
        ({"milestones": [20]}, r"before the end of the run, epoch 10, got 20"),
        ({"milestones": [1.5]}, r"whole epochs, 1 or more, or shares"),
        ({"dataset": ""}, r"`dataset` must be a name"),
        ({"size": 5}, r"`size` must be settings by name, such as width = 2, got 5"),
        ({"size": {"hidden": {}}}, r"`size.hidden` must be a number, a string or a list of them"),
    ],
)
def test_bad_fields_are_named(tmp_path, fields, text):
    with pytest.raises(ValueError, match=text):
        Recipe.of(BASE | fields)


def test_a_missing_field_a_missing_file_and_bad_toml_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"the recipe: `model` is missing. Add a line"):
        Recipe.of({"dataset": "digits", "epochs": 1})
    with pytest.raises(FileNotFoundError, match=r"nothing.toml: there is no such file"):
        read_recipe(tmp_path / "nothing.toml")
    bad = tmp_path / "bad.toml"
    bad.write_text("epochs = = 3")
    with pytest.raises(ValueError, match=r"bad.toml: is not TOML: "):
        read_recipe(bad)


def test_settings_change_fields_and_refuse_nonsense():
    recipe = with_settings(Recipe(**BASE), ["milestones=[0.5]", "gamma=2", "size.hidden=[8, 8]"])
    assert recipe.milestones == (0.5,)
    assert recipe.gamma == 2.0
    assert recipe.size == (("hidden", (8, 8)),)
    with pytest.raises(ValueError, match=r"--set must be key=value, got 'epochs'"):
        with_settings(recipe, ["epochs"])
    with pytest.raises(ValueError, match=r"--set: `epoch` is not a field .* 'epochs'\?"):
        with_settings(recipe, ["epoch=3"])


def test_named_recipes_are_the_papers_runs():
    e3 = named_recipe("e3-cifar10-resnet8-fl2")
    assert (e3.lr, e3.milestones, e3.epochs, e3.batch) == (0.1, (80, 150), 200, 128)
    assert (e3.momentum, e3.weight_decay) == (0.9, 5e-4)
    e5 = named_recipe("e5-cifar10-resnet50-fl3")
    assert (e5.milestones, e5.epochs, e5.gamma) == ((150, 250), 350, 3.0)
    trees = named_recipe("e5-sst-flsd53")
    assert (trees.optimiser, trees.lr, trees.weight_decay, trees.epochs) == (
        "adagrad",
        0.05,
        1e-4,
        25,
    )
    text = named_recipe("e5-20newsgroups-ce")
    assert (text.optimiser, text.lr, text.epochs) == ("adam", 1e-3, 50)
    assert {name.split("-")[0] for name in NAMED} == {*("e2", "e3", "e4", "e5", "e7", "e12")}
    assert {recipe.model for recipe in NAMED.values()} <= set(MODELS)
    assert all(recipe.scale == 1 for recipe in NAMED.values())
    with pytest.raises(ValueError, match=r"no recipe 'e2-f1'. Did you mean 'e2-fl1'\?"):
        named_recipe("e2-f1")


@pytest.mark.parametrize("scale", [0.01, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("name", list(NAMED)[::11])
def test_a_scaled_recipe_is_shorter_and_says_so(name, scale):
    full = NAMED[name]
    short = scaled(full, scale)
    assert short.scale == short.fraction == scale
    assert short.epochs == max(1, round(full.epochs * scale))
    assert short.lr_at(short.epochs - 1) >= full.lr_at(full.epochs - 1) * (1 - 1e-9)
    assert short == full or short.key != full.key


def test_a_bad_scale_is_refused():
    with pytest.raises(ValueError, match=r"`scale` must be a number in \(0, 1\], got 2"):
        scaled(NAMED["e2-ce"], 2)


def test_the_learning_rate_falls_at_milestones():
    recipe = Recipe(**BASE, lr=1.0, milestones=(0.5, 8))
    rates = [recipe.lr_at(epoch) for epoch in range(10)]
    assert rates == pytest.approx([1] * 5 + [0.1] * 3 + [0.01] * 2)
