"""Networks that experiments share."""

import math

import pytest

from focalibrate.experiments.experiment import Places
from focalibrate.experiments.trained import trained
from focalibrate.train import Recipe

RECIPE = Recipe(dataset="square_2d", model="linear", epochs=1, fraction=0.05)


@pytest.fixture
def places(tmp_path):
    return Places(data=None, trained=tmp_path / "trained")


def test_it_is_trained_once_and_its_time_is_known(places):
    first = trained(RECIPE, places)
    assert first.seconds >= 0
    changed = (first.folder / "model.pt").stat().st_mtime_ns
    again = trained(RECIPE, places)
    assert (first.folder / "model.pt").stat().st_mtime_ns == changed
    assert again.seconds == first.seconds
    assert again.test_logits.tobytes() == first.test_logits.tobytes()


def test_folders_of_before_tell_their_last_stretch_or_nothing(places):
    folder = trained(RECIPE, places).folder
    (folder / "time.json").unlink()
    (folder / "seconds.json").write_text('{"seconds": 12.5}\n')
    assert trained(RECIPE, places).seconds == 12.5
    (folder / "time.json").write_text('{"seconds": null}\n')
    assert trained(RECIPE, places).seconds == 12.5
    (folder / "seconds.json").unlink()
    assert math.isnan(trained(RECIPE, places).seconds)
