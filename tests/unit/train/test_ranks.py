import os
import socket
import subprocess
import sys

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from numpy.testing import assert_allclose

from focalibrate.cli import main
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
def test_two_processes_end_where_one_does(tmp_path, monkeypatch):
    """Started as torchrun starts them; this process is the first, as importing takes longest."""
    settings = [
        *("size.hidden=[16]", "gamma=adafocal", "epochs=2", "batch=71", "momentum=0.9"),
        *("clip=1.0", "fraction=0.1", "optimiser=sgd", "lr=0.05"),
    ]
    command = ["train", "e2-ce", *(word for s in settings for word in ("--set", s))]
    command += ["-o", str(tmp_path / "two")]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    together = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    other = subprocess.Popen(
        [sys.executable, "-m", "focalibrate", *command],
        env=os.environ | together | {"RANK": "1", "LOCAL_RANK": "1", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        with monkeypatch.context() as patched:
            for name, value in (together | {"RANK": "0", "LOCAL_RANK": "0"}).items():
                patched.setenv(name, value)
            first = CliRunner().invoke(main, command)
        stdout, stderr = other.communicate(timeout=600)
    finally:
        other.kill()
    assert first.exit_code == 0, first.output
    assert other.returncode == 0, stderr
    for text in ("Next:", "dynamics.html"):
        assert first.stdout.count(text) == 1
        assert text not in stdout
    assert (tmp_path / "two" / "dynamics.html").exists()
    one = train(RECIPE, out=tmp_path / "one")
    two = torch.load(tmp_path / "two" / "model.pt", weights_only=True)
    for name, weight in one.model.state_dict().items():
        assert_allclose(two[name].numpy(), weight.numpy(), rtol=1e-4, atol=1e-5)
    with np.load(tmp_path / "two" / "dynamics.npz") as seen:
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
