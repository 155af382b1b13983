import json

import numpy as np
import pytest

from focalibrate.calibrate import (
    METHODS,
    Calibrator,
    FocalTemperatureScaling,
    GroupedCalibrator,
    HistogramBinning,
    Identity,
    IsotonicCalibration,
    PosteriorRecovery,
    TemperatureScaling,
    VectorScaling,
    fit,
)

CALIBRATORS = [
    Identity(),
    PosteriorRecovery(2.0),
    TemperatureScaling(1 / 3),
    FocalTemperatureScaling(-0.5, 0.1 + 0.2),
    FocalTemperatureScaling(3.0, 1e-300),
    VectorScaling((1.0, 2.0), (0.0, 1e-17)),
    IsotonicCalibration(((0.1, 0.9), (0.5,)), ((0.0, 1.0), (0.3,))),
    HistogramBinning(((0.0, 0.5, 1.0),) * 2, ((0.1, 0.9), (0.2, 0.8))),
    GroupedCalibrator("g", Identity(), ("a", "b"), (TemperatureScaling(2.0), None)),
]


def _fitted():
    """One calibrator of every kind that the list above lacks, fitted on a few rows."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(60, 2))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    known = {c.kind for c in CALIBRATORS}
    for name, method in METHODS.items():
        if not method.needs_gamma and not name.endswith("_ece"):  # same kinds, by a grid
            found = fit(logits, labels, method=name)
            if found.kind not in known:
                known.add(found.kind)
                yield found


CALIBRATORS += _fitted()


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=lambda c: c.kind)
def test_saving_and_loading_gives_the_same_calibrator(calibrator, tmp_path):
    path = tmp_path / "c.json"
    calibrator.save(path)
    assert Calibrator.load(path) == calibrator
    assert type(calibrator).load(str(path)) == calibrator
    assert [p.name for p in tmp_path.iterdir()] == ["c.json"]


def test_every_kind_is_covered():
    assert {c.kind for c in Calibrator.__subclasses__()} == {c.kind for c in CALIBRATORS}


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "c.json"
    TemperatureScaling(2.0).save(path)
    monkeypatch.setattr(
        "pathlib.Path.write_text", lambda *_, **__: (_ for _ in ()).throw(OSError("full"))
    )
    with pytest.raises(OSError, match="full"):
        TemperatureScaling(3.0).save(path)
    assert TemperatureScaling.load(path).temperature == 2.0
    assert [p.name for p in tmp_path.iterdir()] == ["c.json"]


GOOD = TemperatureScaling(2.0).to_dict()
STRUCTURED = {
    "gamma": 0.0,
    "temperature": 1.0,
    "mix": 0.1,
    "scale": [1.0, 1.0],
    "bias": [0.0, 0.0],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "os.system"}, "`kind` must be one of .* got 'os.system'"),
        ({"kind": ["temperature_scaling"]}, "`kind` must be one of"),
        ({"version": 2}, "`version` must be 1, got 2.*Save the calibrator again"),
        ({"version": True}, "`version` must be 1, got True"),
        ({"version": 1.0}, "`version` must be 1, got 1.0"),
        ({"n_classes": 1}, "`n_classes` must be a whole number >= 2, got 1"),
        ({"n_classes": True}, "`n_classes` must be a whole number"),
        ({"class_names": ["a", "a"]}, "`class_names` must be 2 different names"),
        ({"class_names": ["a", "b"], "n_classes": 3}, "`class_names` must be 3 different names"),
        ({"class_names": "ab"}, "`class_names` must be a list of strings"),
        ({"zero_mix": 1.0}, r"`zero_mix` must lie in \[0, 1\)"),
        ({"format": "pickle"}, "`format` must be"),
        ({"more": 1}, r"not known \['more'\]"),
        ({"parameters": {}}, r"missing \['temperature'\]"),
        ({"parameters": {"temperature": 1.0, "gamma": 2.0}}, r"not known \['gamma'\]"),
        ({"parameters": {"temperature": -1.0}}, "`temperature` must be a finite number > 0"),
        ({"parameters": {"temperature": "1"}}, "finite numbers only, got '1'"),
        ({"parameters": {"temperature": True}}, "finite numbers only, got True"),
        (
            {"parameters": {"temperature": [1.0]}},
            r"`temperature` must hold finite numbers only, got \[1",
        ),
        ({"parameters": [1.0]}, "must be a JSON object"),
        ({"parameters": 1, "kind": "posterior_recovery"}, "must be a JSON object"),
        ({"parameters": STRUCTURED | {"mix": [0.1, 0.1]}, "kind": "structured_vector"}, "`mix` "),
    ],
)
def test_a_file_that_is_not_exactly_right_is_refused(change, message, tmp_path):
    path = tmp_path / "c.json"
    path.write_text(json.dumps(GOOD | change))
    with pytest.raises(ValueError, match=message) as error:
        Calibrator.load(path)
    assert "c.json" in str(error.value)


def test_lists_and_arrays_become_tuples_of_floats():
    found = VectorScaling(np.array([1, 2]), [np.float32(0.5), 0])
    assert found == VectorScaling((1.0, 2.0), (0.5, 0.0))
    assert repr(found) == "VectorScaling(scale=(1.0, 2.0), bias=(0.5, 0.0))"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"temperature": NaN}', "numbers must be finite, found NaN"),
        ('{"a": Infinity}', "found Infinity"),
        ('{"a": 1, "a": 2}', "one is repeated"),
        ("not json", "Expecting value"),
        ("[]", "must be a JSON object, got list"),
        ("{}", "is not a calibrator, such as the calibrator.json"),
        ('{"format": "focalibrate.calibrator"}', "missing"),
        (
            json.dumps(GOOD).replace("2.0", "1e999"),
            "finite numbers only, got inf",
        ),
        (json.dumps(GOOD).replace("2.0", "1" * 400), "finite numbers only"),
    ],
)
def test_text_that_is_no_calibrator_is_refused(text, message, tmp_path):
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        Calibrator.load(path)


def test_loading_another_kind_by_class_is_refused(tmp_path):
    path = tmp_path / "c.json"
    TemperatureScaling(2.0).save(path)
    with pytest.raises(ValueError, match=r"Use Calibrator\.load to read any kind"):
        Identity.load(path)


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        Calibrator.load(tmp_path / "none.json")
