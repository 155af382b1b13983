from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch.testing import assert_close

from focalibrate.losses import by_sample, focal_loss
from focalibrate.train import Recipe, train, train_many
from focalibrate.train.many import _Stack, focal_and_gradient

MLP = Recipe(
    dataset="made", model="mlp", size={"hidden": [16]}, epochs=3, batch=64, lr=0.05, momentum=0.9
)
CASES = {
    "mlp": ("table", replace(MLP, weight_decay=5e-4, milestones=(0.5,))),
    "clipped": ("table", replace(MLP, clip=0.5, lr=0.2)),
    "linear": ("table", replace(MLP, model="linear", size=(), optimiser="adam", lr=0.01)),
    "smoothed": ("table", replace(MLP, label_smoothing=0.1)),
    "sum": ("table", replace(MLP, reduction="sum", lr=0.001)),
    "cnn": ("images", replace(MLP, model="tiny_cnn", size=(), augmentation="crop-flip")),
}


@pytest.mark.parametrize("name", CASES)
def test_copies_end_where_separate_runs_end(tmp_path, request, name):
    kind, recipe = CASES[name]
    dataset = request.getfixturevalue(kind)
    copies = train_many(
        recipe, seeds=(0, 7), gammas=(0.0, 2.0, "flsd-53", "fls-532"), dataset=dataset
    )
    assert [(c.recipe.seed, c.recipe.gamma) for c in copies[:5]] == [
        *((0, g) for g in (0.0, 2.0, "flsd-53", "fls-532")),
        (7, 0.0),
    ]
    for i in (0, 2, 5, 7):
        alone = train(copies[i].recipe, out=tmp_path / str(i), dataset=dataset)
        state = alone.model.state_dict()
        for key, weight in copies[i].weights.items():
            assert_close(weight, state[key], rtol=1e-3, atol=2e-5)
        assert_allclose(copies[i].loss, alone.dynamics.arrays["loss"], rtol=1e-4)
        assert_allclose(copies[i].test_logits, alone.test.logits, rtol=1e-3, atol=1e-3)


def test_brier_copies_end_where_separate_runs_end(tmp_path, table):
    recipe = replace(MLP, loss="brier")
    copies = train_many(recipe, seeds=(1, 2), dataset=table)
    alone = train(copies[1].recipe, out=tmp_path, dataset=table)
    assert_allclose(copies[1].validation_logits, alone.validation.logits, atol=1e-4)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0, 5.0])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3])
def test_the_closed_gradient_is_that_of_autograd(gamma, scale):
    rng = torch.Generator().manual_seed(0)
    logits = scale * torch.randn(50, 4, generator=rng, dtype=torch.float64)
    labels = torch.randint(4, (50,), generator=rng)
    loss, gradient = focal_and_gradient(logits, labels, lambda p: torch.full_like(p, gamma))
    given = logits.clone().requires_grad_()
    want = focal_loss(given, labels, gamma=gamma)
    assert_close(loss, want.detach())
    assert_close(gradient, torch.autograd.grad(want.sum(), given)[0])


def test_policies_by_sample_are_looked_up():
    policy = by_sample((0.5,), (3.0, 1.0))
    logits, labels = torch.randn(20, 3, dtype=torch.float64), torch.zeros(20, dtype=torch.long)
    loss, _ = focal_and_gradient(logits, labels, policy)
    assert_close(loss, focal_loss(logits, labels, gamma=policy))


def test_a_copy_that_diverges_leaves_the_others_alone(table, monkeypatch):
    calm = train_many(MLP, seeds=(0, 1), dataset=table)
    step = _Stack._step

    def spoiled(self, *arguments):
        with torch.no_grad():
            self.weights["last.weight"][1] = torch.nan
        return step(self, *arguments)

    monkeypatch.setattr(_Stack, "_step", spoiled)
    copies = train_many(MLP, seeds=(0, 1), dataset=table)
    assert_allclose(copies[0].test_logits, calm[0].test_logits, atol=1e-5)
    assert np.isnan(copies[1].loss).all()


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"loss": "mmce", "mmce_weight": 2.0}, r"`loss` must be 'focal' .* Call `train`"),
        ({"gamma": "adafocal"}, r"`loss` must be 'focal' \(not adafocal\)"),
        ({"precision": "bfloat16"}, r"`precision` float32 and `keep` last for many copies"),
        ({"keep": "best"}, r"got 0, float32 and best"),
        ({"model": "resnet8", "size": ()}, r"without batch-norm and dropout"),
    ],
)
def test_what_cannot_be_stacked_is_refused(images, fields, text):
    with pytest.raises(ValueError, match=text):
        train_many(replace(MLP, **fields), seeds=(0, 1), dataset=images)


def test_no_copies_and_text_are_refused(table, sentences):
    with pytest.raises(ValueError, match=r"must not be empty"):
        train_many(MLP, seeds=(), dataset=table)
    with pytest.raises(ValueError, match=r"images or a table .* got text"):
        train_many(MLP, dataset=sentences)
