import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from focalibrate.train import Recipe, train
from focalibrate.train._ranks import Ranks, joined_ranks

RECIPE = Recipe(
    dataset="overlap_1d",
    model="mlp",
    size={"hidden": [16]},
    gamma="adafocal",
    epochs=2,
    batch=71,  # an odd batch: the two parts are not of one size, and the last is of 30
    momentum=0.9,
    clip=1.0,
    fraction=0.1,
    lr=0.05,
)


@pytest.mark.slow
def test_two_processes_end_where_one_does(tmp_path):
    settings = [
        *("size.hidden=[16]", "gamma=adafocal", "epochs=2", "batch=71", "momentum=0.9"),
        *("clip=1.0", "fraction=0.1", "optimiser=sgd", "lr=0.05"),
    ]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [
            *torchrun,
            *("--nproc-per-node=2", "-m", "focalibrate", "train", "e2-ce"),
            *(word for setting in settings for word in ("--set", setting)),
            *("-o", str(tmp_path / "two")),
        ],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "100"},
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Next:") == 1
    assert done.stdout.count("dynamics.html") == 1
    assert (tmp_path / "two" / "dynamics.html").exists()
    one = train(RECIPE, out=tmp_path / "one")
    two = torch.load(tmp_path / "two" / "model.pt", weights_only=True)
    for name, weight in one.model.state_dict().items():
        assert_allclose(two[name].numpy(), weight.numpy(), rtol=1e-4, atol=1e-5)
    seen = np.load(tmp_path / "two" / "dynamics.npz")
    assert_allclose(seen["loss"], one.dynamics.arrays["loss"], rtol=1e-5)
    assert (tmp_path / "two" / "recipe.toml").read_text() == (
        tmp_path / "one" / "recipe.toml"
    ).read_text()


def test_the_parts_of_a_batch_make_the_batch():
    rows = np.arange(7)
    parts = [Ranks(rank, 3).share(rows) for rank in range(3)]
    assert np.concatenate([part for part, _ in parts]).tolist() == rows.tolist()
    short, counts = Ranks(2, 3).share(rows[:2])
    assert (short.tolist(), counts) == ([0], False)


def test_a_loss_that_is_no_sum_is_not_divided(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    recipe = Recipe(dataset="d", model="mlp", epochs=1, loss="mmce", mmce_weight=2.0)
    with (
        pytest.raises(ValueError, match=r"is not a sum over examples, .* without torchrun"),
        joined_ranks(recipe),
    ):
        pass
