import json

import pytest
from click.testing import CliRunner

from focalibrate.cli import main
from focalibrate_papers.recipe import write_recipe
from focalibrate_papers.recipes import NAMED
from focalibrate_papers.train import Recipe

SMALL = ["--scale", "0.05", "--set", "batch=64", "--set", "lr=0.01"]


def run(*arguments):
    return CliRunner().invoke(main, ["train", *map(str, arguments)])


def test_the_recipes_are_listed():
    listed = run("--list").output
    lines = listed.splitlines()
    assert lines[0].split() == ["RECIPE", "DATA", "NETWORK", "LOSS"]
    rows = {line.removeprefix(" *").split()[0]: line for line in lines if " " in line.strip()}
    assert set(NAMED) <= set(rows)
    without_data = {name for name, line in rows.items() if line.startswith(" *")}
    assert without_data == {"e2-ce", "e2-fl1", "e2-fl5", "e7-ce", "e7-fl1"}
    assert "focal, gamma=2" in rows["e3-cifar10s-resnet8-fl2"]


@pytest.mark.slow
def test_a_named_recipe_is_trained_scaled_and_ready_to_calibrate(tmp_path):
    out = tmp_path / "run"
    done = run("e2-fl1", *SMALL, "-o", out)
    assert done.exit_code == 0, done.output
    assert "Trained on 0.05 of the paper's data and epochs" in done.output
    assert f"focalibrate calibrate {out}/val.npz --test {out}/test.npz" in done.output
    assert "scale = 0.05\n" in (out / "recipe.toml").read_text()
    assert json.loads((out / "dynamics.json").read_text())["epochs"] == 5
    assert "--trained-gamma 1" in done.output
    page = out / "dynamics.html"
    assert f"Metrics per epoch: {page}" in done.output
    assert "mlp on overlap_1d" in page.read_text()
    page.unlink()
    again = run("e2-fl1", *SMALL, "-o", out)
    assert again.exit_code == 0, again.output
    assert page.exists()
    judged = CliRunner().invoke(main, ["evaluate", str(out / "test.npz")])
    assert judged.exit_code == 0, judged.output
    other = run("e2-fl1", *SMALL, "--set", "seed=3", "-o", out)
    assert other.exit_code == 1
    assert "`seed` is 0 there and 3 now" in other.output


def test_a_file_is_trained(tmp_path):
    file = tmp_path / "mine.toml"
    write_recipe(file, Recipe(dataset="square_2d", model="linear", epochs=1, fraction=0.1))
    done = run(file, "-o", tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert "linear on square_2d, 1 epochs" in done.output


def test_it_looks_as_often_as_it_is_told(tmp_path):
    done = run("e2-fl1", *SMALL, "--look-every", 3, "-o", tmp_path)
    assert done.exit_code == 0, done.output
    figures = json.loads((tmp_path / "dynamics.json").read_text())["figures"]
    assert [value is None for value in figures["test_error"]] == [True, True, False, True, False]
    assert run("e2-fl1", "--look-every", 0, "-o", tmp_path).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        ([], 2, "Name a RECIPE: one of --list, or a .toml file."),
        (["e2-lf1"], 1, "Did you mean 'e2-fl1'?"),
        (["none.toml"], 1, "there is no such file"),
        (["e2-ce", "--set", "gama=2"], 1, "Did you mean 'gamma'?"),
        (["e2-ce", "--set", "model=mpl", "--scale", "0.01"], 1, "mlp"),
        (["e2-ce", "--scale", "3"], 1, "`scale` must be a number in (0, 1]"),
        (["e5-cifar10-resnet50-ce", "--data", "/nowhere"], 1, "/nowhere: is not a folder"),
        (["e5-cifar10-resnet50-ce", "--data", "."], 1, "data set 'cifar10'"),
    ],
)
def test_bad_arguments_are_explained(tmp_path, arguments, status, text):
    done = run(*arguments, "-o", tmp_path / "run")
    assert done.exit_code == status
    assert text in " ".join(done.output.split())
