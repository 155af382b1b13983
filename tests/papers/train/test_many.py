from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import softmax
from torch.testing import assert_close

from focalibrate.losses import focal_loss
from focalibrate.metrics import nll
from focalibrate_papers.datasets import Dataset, Split
from focalibrate_papers.train import Recipe, member_hessian, run_hessian, train, train_many
from focalibrate_papers.train.many import Stack, focal_and_gradient

MLP = Recipe(
    dataset="made", model="mlp", size={"hidden": [16]}, epochs=2, batch=64, lr=0.05, momentum=0.9
)
CASES = {
    "mlp": ("table", replace(MLP, weight_decay=5e-4, milestones=(0.5,))),
    "linear": ("table", replace(MLP, model="linear", size=(), optimiser="adam", lr=0.01)),
    "cnn": ("images", replace(MLP, model="tiny_cnn", size=(), epochs=1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_copies_end_where_separate_runs_end(tmp_path, request, name):
    kind, recipe = CASES[name]
    dataset = request.getfixturevalue(kind)
    copies = train_many(recipe, seeds=(0, 7), gammas=(0.0, 2.0), dataset=dataset)
    assert [(c.recipe.seed, c.recipe.gamma) for c in copies[:3]] == [(0, 0.0), (0, 2.0), (7, 0.0)]
    for i in (1, 2):
        alone = train(copies[i].recipe, out=tmp_path / str(i), dataset=dataset)
        state = alone.model.state_dict()
        for key, weight in copies[i].weights.items():
            assert_close(weight, state[key], rtol=1e-3, atol=2e-5)
        assert_allclose(copies[i].loss, alone.dynamics.arrays["loss"], rtol=1e-4)
        assert_allclose(copies[i].test_logits, alone.test.logits, rtol=1e-3, atol=1e-3)


SHORT = replace(MLP, epochs=1)
PENALISED = {
    "cross-entropy": ("table", MLP),
    "focal": ("table", replace(SHORT, gamma=2.0, weight_decay=5e-4)),
    "cnn": ("images", replace(SHORT, model="tiny_cnn", size=())),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PENALISED)
def test_penalised_copies_end_where_separate_runs_end(tmp_path, request, name):
    kind, recipe = PENALISED[name]
    dataset = request.getfixturevalue(kind)
    traces = (0.0, 1e-4, 1e-2)
    copies = train_many(recipe, seeds=(0, 7), trace_weights=traces, dataset=dataset)
    assert [(c.recipe.seed, c.recipe.trace_weight) for c in copies[:4]] == [
        *((0, trace) for trace in traces),
        (7, 0.0),
    ]
    for i in (2, 4):
        alone = train(copies[i].recipe, out=tmp_path / str(i), dataset=dataset)
        state = alone.model.state_dict()
        for key, weight in copies[i].weights.items():
            assert_close(weight, state[key], rtol=1e-3, atol=5e-5)
        assert_allclose(copies[i].loss, alone.dynamics.arrays["loss"], rtol=1e-4)
    assert not torch.allclose(copies[4].weights["last.weight"], copies[5].weights["last.weight"])


@pytest.mark.slow
def test_the_hessian_of_a_copy_is_that_of_the_separate_run(tmp_path, table):
    recipe = replace(MLP, trace_weight=1e-3, epochs=1)
    (copy,) = train_many(recipe, dataset=table)
    alone = train(recipe, out=tmp_path, dataset=table)
    found, want = member_hessian(copy, table), run_hessian(tmp_path, dataset=table)
    assert_allclose(
        found.loss_value(),
        nll(softmax(alone.validation.logits, axis=1), alone.validation.labels),
        rtol=1e-4,
    )
    vector = np.sin(np.arange(found.size))
    assert_allclose(found.matvec(vector), want.matvec(vector), atol=1e-3)


@pytest.mark.slow
def test_each_seed_may_have_its_own_split(tmp_path, table):
    turned = Dataset(
        "made",
        Split(table.train.inputs[::-1].copy(), table.train.labels[::-1].copy()),
        table.test,
        Split(table.validation.inputs[:50], table.validation.labels[:50]),
        table.n_classes,
        table.class_names,
        table.kind,
    )
    own = {3: table, 5: turned}
    short = replace(MLP, epochs=1)  # rounding grows with the steps, as rectifiers switch
    copies = train_many(short, seeds=(3, 5), gammas=(0.0, 2.0), dataset=own)
    for copy in copies:
        data = own[copy.recipe.seed]
        alone = train(copy.recipe, out=tmp_path / copy.recipe.key, dataset=data)
        assert_allclose(copy.loss, alone.dynamics.arrays["loss"], rtol=1e-4)
        assert_allclose(copy.validation_logits, alone.validation.logits, atol=1e-3)
        assert_allclose(copy.test_logits, alone.test.logits, atol=1e-3)


def test_splits_of_seeds_must_be_there_and_of_one_shape(table):
    with pytest.raises(ValueError, match=r"one entry per seed, but has none for 2"):
        train_many(MLP, seeds=(1, 2), dataset={1: table})
    fewer = replace(table, train=Split(table.train.inputs[:, :60], table.train.labels))
    with pytest.raises(ValueError, match=r"\(900, 64\) of 10 classes and \(900, 60\)"):
        train_many(MLP, seeds=(1, 2), dataset={1: table, 2: fewer})


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0, 5.0])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3])
def test_the_closed_gradient_is_that_of_autograd(gamma, scale):
    rng = torch.Generator().manual_seed(0)
    logits = scale * torch.randn(50, 4, generator=rng, dtype=torch.float64)
    labels = torch.randint(4, (50,), generator=rng)
    loss, gradient = focal_and_gradient(
        logits, labels, torch.full((50, 1), gamma, dtype=torch.float64)
    )
    given = logits.clone().requires_grad_()
    want = focal_loss(given, labels, gamma=gamma)
    assert_close(loss, want.detach())
    assert_close(gradient, torch.autograd.grad(want.sum(), given)[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "name"),
    [
        (MLP, "_plain"),
        (replace(MLP, trace_weight=1e-3), "_penalised"),
    ],
    ids=["plain", "penalised"],
)
def test_a_copy_that_diverges_leaves_the_others_alone(table, monkeypatch, recipe, name):
    calm = train_many(recipe, seeds=(0, 1), dataset=table)
    step = getattr(Stack, name)

    def spoiled(self, *arguments):
        with torch.no_grad():
            self.weights["last.weight"][1] = torch.nan
        return step(self, *arguments)

    monkeypatch.setattr(Stack, name, spoiled)
    copies = train_many(recipe, seeds=(0, 1), dataset=table)
    assert_allclose(copies[0].test_logits, calm[0].test_logits, atol=1e-5)
    assert np.isnan(copies[1].loss).all()


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"loss": "mmce", "mmce_weight": 2.0}, r"`loss` must be 'focal' .* Call `train`"),
        ({"gamma": "adafocal"}, r"`gamma` must be a number .*, got 'adafocal'\. Call `train`"),
        ({"precision": "bfloat16"}, r"`precision` must be 'float32' for many copies"),
        ({"keep": "best"}, r"`keep` must be 'last' for many copies at once, got 'best'"),
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
