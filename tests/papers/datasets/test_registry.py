import subprocess
import sys

import numpy as np
import pytest

from focalibrate_papers.datasets import DATASETS, DataSetError, load
from focalibrate_papers.datasets.synthetic import CORNERS, square


@pytest.mark.parametrize("name", [n for n, s in DATASETS.items() if not s.is_generated])
def test_an_absent_set_says_what_to_download_and_where_to_put_it(tmp_path, name, monkeypatch):
    monkeypatch.delenv("FOCALIBRATE_DATA", raising=False)
    with pytest.raises(DataSetError) as absent:
        load(name, data=tmp_path)
    text = str(absent.value)
    assert text.startswith(f"data set {name!r}: there is no ")
    assert str(tmp_path) in text
    assert DATASETS[name].advice in text
    assert "Nothing is downloaded for you." in text
    with pytest.raises(DataSetError, match=r"no folder of data sets is named\. .*--data"):
        load(name)


def test_unknown_names(tmp_path, monkeypatch):
    monkeypatch.delenv("FOCALIBRATE_DATA", raising=False)
    with pytest.raises(DataSetError, match=r"is none of cifar10, .* Did you mean 'cifar10'\?"):
        load("cifar11", data=tmp_path)
    with pytest.raises(DataSetError, match=r"no `data` is named.*For a table, name its folder"):
        load("iris")


def test_a_directory_must_exist(tmp_path):
    with pytest.raises(DataSetError, match=r"nowhere: is not a folder\. Name the folder"):
        load("cifar10", data=tmp_path / "nowhere")


def test_a_bad_fraction_is_refused_before_reading():
    with pytest.raises(ValueError, match=r"`fraction` must be in \(0, 1\], got 0"):
        load("cifar10", fraction=0)


def test_the_overlapping_classes_of_e2():
    data, again, other = (load("overlap_1d", seed=s) for s in (1, 1, 2))
    assert data.train.inputs.shape == (5000, 1)
    assert data.train.inputs.dtype == np.float32
    assert np.array_equal(data.test.inputs, again.test.inputs)
    assert not np.array_equal(data.test.inputs, other.test.inputs)
    assert not np.array_equal(data.test.inputs, data.train.inputs)


def test_the_square_of_e7_flips_labels_truly():
    split = square(1000, seed=0)
    near = ((split.inputs[:, None] - CORNERS) ** 2).sum(axis=-1).argmin(axis=1)
    # Few points are nearer to a corner of the other class: three deviations away.
    assert abs(((near >= 2) != split.labels).mean() - 0.1) < 0.02
    clean = square(1000, seed=0, flipped=0.0)
    assert (clean.labels != split.labels).sum() == 100
    assert np.array_equal(clean.inputs, split.inputs)
    assert np.bincount(clean.labels).tolist() == [500, 500]


def test_loaders_load_no_framework():
    code = (
        "import sys; from focalibrate_papers.datasets import load; load('square_2d');"
        "print(*(m.split('.')[0] for m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"torch", "sklearn", "PIL", "jax"}


def test_every_set_says_where_it_comes_from():
    for name, source in DATASETS.items():
        if source.is_generated:
            assert name in ("overlap_1d", "square_2d")
            continue
        assert source.url.startswith("http")
        assert source.url in source.advice
        assert source.licence
        for file, digest in source.checksums.items():
            kind, _, digits = digest.partition(":")
            assert len(digits) == {"md5": 32, "sha256": 64}[kind]
            assert file in source.advice


def test_a_known_table_says_where_it_comes_from(tmp_path):
    with pytest.raises(DataSetError, match=r"made from https://github.com/renatopp/.*anneal.arff"):
        load("anneal", data=tmp_path)
