from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from focalibrate.calibrate import Calibrator, PosteriorRecovery
from focalibrate.curvature import lambda_max
from focalibrate_papers.recipe import with_settings
from focalibrate_papers.recipes import named_recipe, scaled
from focalibrate_papers.train import load_dataset, run_hessian, train
from focalibrate_papers.train._inputs import Feed

RECIPE = with_settings(scaled(named_recipe("e7-fl1"), 0.02), ["epochs=2"])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A linear network trained for two epochs."""
    return train(RECIPE, out=tmp_path_factory.mktemp("linear"))


def test_a_linear_run_has_the_curvature_of_its_dense_hessian(made):
    recipe = made.recipe
    dataset = load_dataset(recipe)
    inputs, labels = next(Feed(dataset).chunks(dataset.validation, 10_000))
    weights = dict(made.model.named_parameters())
    (name,) = weights
    w = weights[name].detach().double()

    def loss(flat):
        logits = torch.func.functional_call(
            deepcopy(made.model).double(), {name: flat.reshape(w.shape)}, inputs.double()
        )
        p = torch.log_softmax(logits, -1).gather(1, labels[:, None])[:, 0].exp()
        return (-(1 - p) * p.log()).mean()

    dense = torch.autograd.functional.hessian(loss, w.reshape(-1)).numpy()
    hessian = run_hessian(made.folder)
    trace = hessian.trace(n_vectors=200)
    assert hessian.size == dense.shape[0]
    assert_allclose(
        lambda_max(hessian.matvec, hessian.size).value, np.linalg.eigvalsh(dense)[-1], rtol=1e-3
    )
    assert abs(trace.value - np.trace(dense)) <= 4 * trace.standard_error + 1e-4


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"holds no recipe\.toml, so it is not a finished run"):
        run_hessian(tmp_path)


def test_the_hessian_of_another_loss_is_that_of_a_run_trained_by_it(made):
    own = run_hessian(made.folder)
    vector = np.arange(own.size, dtype=np.float64)
    same = run_hessian(made.folder, gamma=1.0).matvec(vector)
    plain = run_hessian(made.folder, gamma=0.0)
    assert_allclose(same, own.matvec(vector), rtol=1e-6)
    assert_allclose(plain.loss_value(), _cross_entropy(plain), rtol=1e-5)
    assert not np.allclose(plain.matvec(vector), same, rtol=1e-2)


def test_only_so_many_examples_are_used(made):
    for n in (1, 7, 300):
        batches = run_hessian(made.folder, max_examples=n).batches
        whole = len(load_dataset(made.recipe).validation)
        assert sum(len(labels) for _, labels in batches) == min(n, whole)


def test_an_adafocal_run_needs_an_exponent(tmp_path, made):
    train(replace(RECIPE, gamma="adafocal"), out=tmp_path)
    with pytest.raises(ValueError, match=r"AdaFocal's loss depends on .* Give `gamma`"):
        run_hessian(tmp_path)
    run_hessian(tmp_path, gamma=0.0)
    assert not (tmp_path / "recovery.json").exists()
    assert Calibrator.load(made.folder / "recovery.json") == PosteriorRecovery(gamma=1.0)


def _cross_entropy(hessian):
    with torch.no_grad():
        return float(
            np.mean(
                [
                    torch.nn.functional.cross_entropy(hessian.model(x), y)
                    for x, y in hessian.batches
                ]
            )
        )
