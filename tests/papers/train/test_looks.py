"""Evaluating less often on the training and test examples."""

import numpy as np
import pytest

from focalibrate_papers.train import Recipe, train

RECIPE = Recipe(
    dataset="made",
    model="mlp",
    size={"hidden": [16]},
    gamma="adafocal",  # which follows the validation examples, seen after every epoch
    epochs=5,
    batch=100,
    lr=0.05,
    keep="best",
)


def weights(run):
    return {name: w.numpy().tobytes() for name, w in run.model.state_dict().items()}


@pytest.fixture(scope="module")
def every(tmp_path_factory, table):
    return train(RECIPE, out=tmp_path_factory.mktemp("every"), dataset=table)


@pytest.mark.slow
@pytest.mark.parametrize(("look_every", "seen"), [(2, [1, 3, 4]), (100, [4])])
def test_the_weights_do_not_depend_on_it_and_what_is_not_seen_is_nan(
    tmp_path, table, every, look_every, seen
):
    run = train(RECIPE, out=tmp_path, dataset=table, look_every=look_every)
    assert weights(run) == weights(every)
    assert run.test.logits.tobytes() == every.test.logits.tobytes()
    unseen = np.setdiff1d(np.arange(5), seen)
    for name, values in every.dynamics.arrays.items():
        found = run.dynamics.arrays[name]
        assert found.shape == values.shape
        if name.startswith(("train_", "test_")):
            assert found[seen].tobytes() == values[seen].tobytes(), name
            assert np.isnan(found[unseen]).all(), name
        else:
            assert found.tobytes() == values.tobytes(), name
    with np.load(tmp_path / "dynamics.npz") as saved:
        assert np.isfinite(saved["test_error"]).sum() == len(seen)


@pytest.mark.parametrize("bad", [0, -1, 1.5])
def test_a_bad_value_is_refused(tmp_path, table, bad):
    with pytest.raises(ValueError, match=r"`look_every` must be .*got "):
        train(RECIPE, out=tmp_path / "run", dataset=table, look_every=bad)
    assert not (tmp_path / "run").exists()
