"""A calibrator applied part by part, by a backend that calls one part after another."""

import json
from importlib.metadata import version

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.unit.pipeline.backwards import Backwards

from focalibrate.calibrate import GroupedCalibrator, PosteriorRecovery, TemperatureScaling
from focalibrate.engines import EngineError
from focalibrate.io import read_predictions
from focalibrate.pipeline import PriorShift, apply_to_parts


@pytest.fixture
def parts(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "preds"
    folder.mkdir()
    for i in range(3):
        lines = ["id,logit_a,logit_b,region"]
        lines += [f"{k:03d},{a:.3f},{b:.3f},{'nsw'[i]}" for k, (a, b) in rows(rng)]
        (folder / f"part-{i}.csv").write_text("\n".join(lines) + "\n")
    return folder


def rows(rng):
    return enumerate(rng.normal(size=(10, 2)))


def test_elsewhere_and_here_write_the_same_bytes(parts, tmp_path):
    shift = PriorShift(np.array([0.5, 0.5]), np.array([0.9, 0.1]))
    for name, where in (("here", None), ("there", Backwards())):
        done, special = apply_to_parts(
            parts, tmp_path / name, TemperatureScaling(2.0), shift=shift, backend=where
        )
        assert (done.n_written, done.n_rows, special.n_rows) == (3, 30, 30)
    for path in (tmp_path / "here").glob("*.csv"):
        assert path.read_bytes() == (tmp_path / "there" / path.name).read_bytes()
    record = json.loads((tmp_path / "there/_focalibrate-apply.json").read_text())
    assert record["made_by"] == f"focalibrate {version('focalibrate')}"
    given, found = read_predictions(parts), read_predictions(tmp_path / "there")
    expected = shift.probs(TemperatureScaling(2.0), logits=given.scores)
    assert_allclose(found.scores, expected, rtol=1e-6)


def test_workers_may_run_in_another_folder(parts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    class Elsewhere(Backwards):
        def map(self, function, arguments):
            (tmp_path / "elsewhere").mkdir()
            with monkeypatch.context() as there:
                there.chdir(tmp_path / "elsewhere")
                yield from super().map(function, arguments)

    done, _ = apply_to_parts("preds", "out", TemperatureScaling(2.0), backend=Elsewhere())
    assert done.n_written == len(list((tmp_path / "out").glob("*.csv"))) == 3
    assert not list((tmp_path / "elsewhere").iterdir())


def test_workers_of_another_version_write_nothing(parts, tmp_path):
    with pytest.raises(EngineError, match=r"3 of 3 parts failed.*but the command 0\.0\.1"):
        apply_to_parts(
            parts, tmp_path / "out", TemperatureScaling(2.0), backend=Backwards(version="0.0.1")
        )
    assert not list((tmp_path / "out").glob("*.csv"))


@pytest.mark.parametrize("where", [None, Backwards()])
def test_rows_of_unknown_groups_and_clipped_rows_are_counted(parts, tmp_path, where):
    grouped = GroupedCalibrator(
        column="region",
        groups=("n", "s"),
        own=(TemperatureScaling(2.0), TemperatureScaling(3.0)),
        shared=TemperatureScaling(1.0),
    )
    _, special = apply_to_parts(parts, tmp_path / "a", grouped, backend=where, by="region")
    assert special.unknown == {"w": 10}
    smoothed = PosteriorRecovery(0.0, label_smoothing=0.5, n_classes=2)
    _, special = apply_to_parts(parts, tmp_path / "b", smoothed, backend=where)
    scores = read_predictions(parts).scores
    assert special.n_clipped == smoothed.n_clipped(logits=scores) > 0
