import gzip

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from focalibrate_papers.datasets import DataSetError, cifar, idx, load

RNG = np.random.default_rng(0)


def cifar_file(path, labels, images):
    records = [
        bytes([k]) + image.transpose(2, 0, 1).tobytes()
        for k, image in zip(labels, images, strict=True)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(records))


def pictures(n):
    return RNG.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8)


@pytest.fixture
def cifar10_files(tmp_path, monkeypatch):
    monkeypatch.setattr(cifar, "N_TRAIN", 100)
    monkeypatch.setattr(cifar, "N_TEST", 20)
    folder = tmp_path / "cifar-10-batches-bin"
    train, test = pictures(100), pictures(20)
    labels = np.arange(100) % 10
    for i in range(5):
        part = slice(20 * i, 20 * i + 20)
        cifar_file(folder / f"data_batch_{i + 1}.bin", labels[part], train[part])
    cifar_file(folder / "test_batch.bin", np.arange(20) % 10, test)
    return tmp_path, train, test


def test_cifar10_as_distributed(cifar10_files):
    directory, train, test = cifar10_files
    data = load("cifar10", data=directory, seed=4)
    assert (data.kind, data.n_classes, data.class_names[3]) == ("image", 10, "cat")
    assert (len(data.train), len(data.validation), len(data.test)) == (90, 10, 20)
    assert_array_equal(data.test.inputs, test)
    assert np.bincount(data.validation.labels).tolist() == [1] * 10
    together = np.concatenate([data.train.inputs, data.validation.inputs])
    assert {x.tobytes() for x in together} == {x.tobytes() for x in train}
    assert data.train.inputs.dtype == np.uint8
    assert data.train.labels.dtype == np.int64


def test_a_tenth_of_cifar10(cifar10_files):
    data = load("cifar10_s", data=cifar10_files[0])
    assert (len(data.train), len(data.validation), len(data.test)) == (9, 1, 20)


def test_a_fraction_thins_training_and_validation_only(cifar10_files):
    data = load("cifar10", data=cifar10_files[0], fraction=0.5)
    assert (len(data.train), len(data.validation), len(data.test)) == (45, 5, 20)


def test_the_variable_names_the_directory(cifar10_files, monkeypatch):
    monkeypatch.setenv("FOCALIBRATE_DATA", str(cifar10_files[0]))
    assert len(load("cifar10").test) == 20


def test_bad_cifar_files(tmp_path, cifar10_files, monkeypatch):
    path = cifar10_files[0] / "cifar-10-batches-bin" / "test_batch.bin"
    cifar_file(path, [10], pictures(1))
    with pytest.raises(DataSetError, match=r"labels must be in 0\.\.9, found 10 in record 0"):
        load("cifar10", data=tmp_path)
    path.write_bytes(b"123")
    with pytest.raises(DataSetError, match=r"records of 3073 bytes, found 3 bytes"):
        load("cifar10", data=tmp_path)
    cifar_file(path, [1], pictures(1))
    with pytest.raises(DataSetError, match=r"must hold 20 test images, found 1\. The copy is"):
        load("cifar10", data=tmp_path)
    cifar_file(path, [0] * 20, pictures(20))
    with pytest.raises(
        DataSetError, match=r"must hold 2 images of each class, found 20 of class 0"
    ):
        load("cifar10", data=tmp_path)
    path.unlink()
    with pytest.raises(DataSetError, match=r"there is no test_batch\.bin .*cifar-10-binary\.tar"):
        load("cifar10", data=tmp_path)


def idx_bytes(array):
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
    return head + array.tobytes()


@pytest.mark.parametrize("packed", [True, False])
def test_idx_files(tmp_path, monkeypatch, packed):
    name, folder = "fashion_mnist", "fashion-mnist"
    monkeypatch.setattr(idx, "COUNTS", {"train": 60, "t10k": 10})
    (tmp_path / folder).mkdir()
    images = RNG.integers(0, 256, (60, 28, 28), dtype=np.uint8)
    for stem, n in (("train", 60), ("t10k", 10)):
        labels = (np.arange(n) % 10).astype(np.uint8)
        for file, array in (("images-idx3", images[:n]), ("labels-idx1", labels)):
            content = idx_bytes(array)
            path = tmp_path / folder / f"{stem}-{file}-ubyte"
            if packed:
                path.with_name(path.name + ".gz").write_bytes(gzip.compress(content))
            else:
                path.write_bytes(content)
    data = load(name, data=tmp_path)
    assert data.train.inputs.shape == (50, 28, 28, 1)
    assert (len(data.validation), len(data.test)) == (10, 10)
    assert_array_equal(data.test.inputs[..., 0], images[:10])


def test_bad_idx_files(tmp_path):
    path = tmp_path / "x-ubyte"
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(
        DataSetError, match=r"is not an IDX file of unsigned bytes: it begins with"
    ):
        idx.read_idx(path)
    path.write_bytes(idx_bytes(np.zeros((3, 2), np.uint8))[:-1])
    with pytest.raises(DataSetError, match=r"says 6 bytes of shape \(3, 2\), found 5\. Copy it"):
        idx.read_idx(path)
    damaged = tmp_path / "x-ubyte.gz"
    damaged.write_bytes(gzip.compress(b"hello")[:-3])
    with pytest.raises(DataSetError, match=r"is truncated or damaged"):
        idx.read_idx(damaged)
