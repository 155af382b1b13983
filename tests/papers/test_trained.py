"""Networks that experiments share."""

import math

import pytest

from focalibrate_papers.engine import Folders
from focalibrate_papers.networks import trained
from focalibrate_papers.train import Recipe

RECIPE = Recipe(dataset="square_2d", model="linear", epochs=1, fraction=0.05)


@pytest.fixture
def folders(tmp_path):
    return Folders(data=None, trained=tmp_path / "trained")


def test_it_is_trained_once_and_its_time_is_known(folders):
    first = trained(RECIPE, folders)
    assert first.seconds >= 0
    changed = (first.folder / "model.pt").stat().st_mtime_ns
    again = trained(RECIPE, folders)
    assert (first.folder / "model.pt").stat().st_mtime_ns == changed
    assert again.seconds == first.seconds
    assert again.test_logits.tobytes() == first.test_logits.tobytes()


def test_a_time_that_was_not_kept_is_unknown(folders):
    folder = trained(RECIPE, folders).folder
    (folder / "time.json").write_text('{"seconds": null}\n')
    assert math.isnan(trained(RECIPE, folders).seconds)
