"""The page of a training run, from the files of its folder."""

import json
import subprocess
import sys
import tomllib

import numpy as np
import pytest

from focalibrate.metrics import adaptive_ece, ece
from focalibrate.report import Provenance
from focalibrate_papers.dynamics_page import (
    dynamics_data,
    next_command,
    thinned,
    write_dynamics,
)
from focalibrate_papers.train import Recipe, train

MADE = Provenance(command="focalibrate train x.toml", version="0.1.0", seed=0)
RECIPE = Recipe(
    dataset="overlap_1d",
    model="mlp",
    size={"hidden": [8]},
    gamma=2.0,
    epochs=5,
    batch=100,
    lr=0.05,
    fraction=0.1,
    keep="best",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(RECIPE, out=tmp_path_factory.mktemp("run"), look_every=2)


@pytest.fixture(scope="module")
def document(run):
    return dynamics_data(run.folder, provenance=MADE).document


@pytest.mark.slow
def test_curves_are_the_epochs_looked_at(run, document):
    assert document["epochs"] == 5
    assert document["curves"]["test_ece"]["epoch"] == [2, 4, 5]
    assert document["curves"]["validation_ece"]["epoch"] == [1, 2, 3, 4, 5]
    for name, curve in document["curves"].items():
        values = run.dynamics.arrays[name][np.array(curve["epoch"], dtype=int) - 1]
        assert curve["value"] == pytest.approx(values.tolist(), rel=1e-4), name
    scalars = [name for name, values in run.dynamics.arrays.items() if values.ndim == 1]
    assert sorted(document["curves"]) == sorted(scalars)


def test_pictures_hold_every_example(run, document):
    for split, n in (("train", 500), ("validation", len(run.validation.labels))):
        for picture in document["pictures"][split]:
            assert sum(picture["table"]["count"]) == sum(picture["gradients"]) == n
            seen = run.dynamics.arrays[f"{split}_ece"][picture["epoch"] - 1]
            assert picture["table"]["ece"] == pytest.approx(seen, rel=1e-4)
    assert [p["epoch"] for p in document["pictures"]["test"]] == [2, 4, 5]
    assert len(document["gradient_edges"]) + 1 == len(document["pictures"]["test"][0]["gradients"])


def test_the_headline_is_of_the_weights_kept(run, document):
    z = run.test.logits.astype(float)
    probs = np.exp(z - z.max(1, keepdims=True))
    probs /= probs.sum(1, keepdims=True)
    kept = document["kept"]["test"]
    assert kept["ece"] == pytest.approx(ece(probs, run.test.labels), rel=1e-4)
    assert kept["adaptive_ece"] == pytest.approx(adaptive_ece(probs, run.test.labels), rel=1e-4)
    errors = run.dynamics.arrays["validation_error"]
    assert document["kept_epoch"] == errors.argmin() + 1
    assert document["kept"]["validation"]["error"] == pytest.approx(errors.min(), rel=1e-4)
    assert f"{kept['ece']:.2%}" in document["verdict"]


def test_recipe_versions_time_and_next_step_are_there(run, document):
    table = tomllib.loads((run.folder / "recipe.toml").read_text())
    assert document["recipe"].keys() == table.keys()
    assert document["recipe"]["size"] == "hidden 8"
    assert document["versions"]["torch"]
    assert document["seconds"] == round(run.seconds, 1)
    assert document["next"][0].endswith("test.npz --trained-gamma 2")


@pytest.mark.parametrize(
    ("fields", "end"),
    [
        ({"loss": "focal", "gamma": 0.5}, "--trained-gamma 0.5"),
        ({"loss": "focal", "gamma": 0.0}, "test.npz'"),
        ({"loss": "focal", "gamma": "flsd-53"}, "test.npz'"),
        ({"loss": "dual-focal", "gamma": 2.0}, "test.npz'"),
    ],
)
def test_the_next_step_names_an_exponent_only_where_focal_loss_had_one(fields, end):
    first = next_command("my run", fields)
    assert first.startswith("focalibrate calibrate 'my run/val.npz' --test 'my run/test.npz'")
    assert first.endswith(end)


def test_the_page_is_one_file_that_asks_for_nothing(run):
    path = write_dynamics(run.folder, provenance=MADE)
    text = path.read_text()
    assert path == run.folder / "dynamics.html"
    assert "default-src 'none'" in text
    assert "focalibrate train x.toml" in text
    assert write_dynamics(run.folder, provenance=MADE).read_text() == text
    assert len(text) < 600_000


@pytest.mark.slow
def test_it_needs_neither_torch_nor_matplotlib(run):
    code = (
        "import sys\n"
        "from focalibrate.report import Provenance\n"
        "from focalibrate_papers.dynamics_page import write_dynamics\n"
        "made = Provenance(command='', version='', seed=0)\n"
        f"write_dynamics({str(run.folder)!r}, provenance=made)\n"
        "print('torch' in sys.modules, 'matplotlib' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["False", "False"], done.stderr


def test_an_unfinished_run_is_refused(tmp_path):
    (tmp_path / "recipe.toml").write_text("")
    with pytest.raises(
        ValueError, match=r"has no versions.json, so it is not the folder of a fin"
    ):
        write_dynamics(tmp_path, provenance=MADE)


def test_folders_of_before_have_no_time(run, tmp_path):
    for file in run.folder.iterdir():
        if file.name != "time.json":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    assert dynamics_data(tmp_path, provenance=MADE).document["seconds"] is None


@pytest.mark.parametrize(("n", "most"), [(1, 3), (3, 3), (4, 3), (350, 80), (1000, 600)])
def test_thinning_keeps_both_ends(n, most):
    kept = thinned(np.arange(n) * 2, most)
    assert kept[0] == 0
    assert kept[-1] == 2 * (n - 1)
    assert len(kept) == min(n, most)
    assert (np.diff(kept) > 0).all()


def test_a_long_run_stays_a_small_page(run, tmp_path):
    for file in run.folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    with np.load(run.folder / "dynamics.npz") as found:
        arrays = {name: found[name] for name in found.files}
    rows = np.arange(2000) % 5
    edges = arrays.pop("gradient_edges")
    np.savez(
        tmp_path / "dynamics.npz",
        gradient_edges=edges,
        **{name: values[rows] for name, values in arrays.items()},
    )
    data = dynamics_data(tmp_path, provenance=MADE)
    assert data.document["epochs"] == 2000
    assert data.document["curves"]["loss"]["epoch"][-1] == 2000
    assert len(data.to_json()) < 700_000
    assert json.loads(data.to_json()) == data.document
