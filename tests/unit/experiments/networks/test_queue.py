"""The queue of long trainings."""

import numpy as np
import pytest

from focalibrate.experiments.networks import queue

pytest.importorskip("torch")


def test_every_network_has_one_name_and_one_recipe():
    found = dict(queue.queue())
    assert len({recipe.key for recipe in found.values()}) == len(found)
    assert next(iter(found)) == "sst-ce-s0"
    assert found["sst-mmce-s4"].epochs == 25
    assert found["trace-lr0.005-tau0.001-s0"].epochs == 60


def test_only_finished_networks_have_rows(tmp_path):
    folder = tmp_path / "fashion-resnet8-fl3-s0"
    folder.mkdir()
    rng = np.random.default_rng(0)
    np.savez(folder / "test.npz", logits=rng.normal(size=(50, 10)), labels=np.arange(50) % 10)
    names = (
        f"{part}_{figure}" for part in ("train", "test") for figure in ("error", "nll", "ece")
    )
    np.savez(folder / "dynamics.npz", **{name: np.array([0.5, 0.25]) for name in names})
    assert len(queue.finished_rows(tmp_path)[0]) == 0
    (folder / "time.json").write_text('{"seconds": 12.5}')
    rows, made = queue.finished_rows(tmp_path)
    assert made["fashion-resnet8-fl3-s0"]["seconds_of_training"] == 12.5
    assert rows.recipes() == ["fashion-resnet8-fl3"]
    assert rows.values("fashion-resnet8-fl3", "error, raw") == rows.values(
        "fashion-resnet8-fl3", "error, Ψ"
    )
