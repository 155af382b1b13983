import errno
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from focalibrate import _atomic as atomic
from focalibrate.io import read_predictions
from focalibrate_papers.datasets import Split
from focalibrate_papers.recipe import read_recipe
from focalibrate_papers.train import CheckpointError, NanLossError, Recipe, train
from focalibrate_papers.train._inputs import Feed
from focalibrate_papers.train._learner import Objective
from focalibrate_papers.train.dynamics import evaluate

MLP = Recipe(
    dataset="made", model="mlp", size={"hidden": [32]}, epochs=4, batch=64, lr=0.05, momentum=0.9
)
RUNS = {
    "mlp": ("table", replace(MLP, gamma="fls-532", weight_decay=5e-4, milestones=(0.5,), clip=1)),
    "resnet": (
        "images",
        replace(
            MLP,
            model="resnet8",
            size={"width": 8},
            epochs=3,
            gamma="adafocal",
            augmentation="flip",
        ),
    ),
    "text": (
        "sentences",
        Recipe(
            dataset="made",
            model="text_cnn",
            size={"width": 16, "n_dimensions": 16},
            optimiser="adam",
            lr=0.01,
            epochs=8,
            batch=50,
            gamma="flsd-53",
            keep="best",
        ),
    ),
    "trees": (
        "trees",
        Recipe(
            dataset="made",
            model="tree_lstm",
            size={"width": 8, "n_dimensions": 8},
            optimiser="adagrad",
            lr=0.1,
            epochs=8,
            batch=25,
            gamma=1.0,
        ),
    ),
}


class InterruptedRunError(Exception):
    pass


def weights(run):
    return {name: w.numpy().tobytes() for name, w in run.model.state_dict().items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_interrupted_runs_end_with_the_same_bits_and_learn(tmp_path, request, name):
    kind, recipe = RUNS[name]
    dataset = request.getfixturevalue(kind)
    whole = train(recipe, out=tmp_path / "whole", dataset=dataset)
    calls = 0

    def interrupt(tick):
        nonlocal calls
        calls += 1
        if calls in (1, 3, 8, 13):
            raise InterruptedRunError

    # Every step is saved; then only every other one is, so that steps are done again.
    for seconds in (0.0, 0.0, 0.01, 0.0):
        with pytest.raises(InterruptedRunError):
            train(
                recipe,
                out=tmp_path / "parts",
                dataset=dataset,
                checkpoint_seconds=seconds,
                progress=interrupt,
            )
    parts = train(recipe, out=tmp_path / "parts", dataset=dataset)
    assert weights(parts) == weights(whole)
    for figure, values in whole.dynamics.arrays.items():
        assert values.tobytes() == parts.dynamics.arrays[figure].tobytes(), figure
    errors = whole.dynamics.arrays["test_error"]
    assert len(errors) == recipe.epochs
    assert errors[-1] < 0.5 * (1 - 1 / dataset.n_classes)


@pytest.mark.slow
def test_the_folder_holds_what_the_other_commands_read(tmp_path, table):
    run = train(replace(MLP, gamma=2.0), out=tmp_path, dataset=table)
    assert read_recipe(tmp_path / "recipe.toml") == run.recipe
    val, test = (read_predictions(tmp_path / name) for name in ("val.npz", "test.npz"))
    assert (val.kind, val.n_rows, val.n_classes) == ("logits", 400, 10)
    assert (test.scores.argmax(1) != test.labels).mean() == pytest.approx(
        run.dynamics.arrays["test_error"][-1]
    )
    assert "torch" in json.loads((tmp_path / "versions.json").read_text())
    figures = json.loads((tmp_path / "dynamics.json").read_text())["figures"]
    assert figures["test_ece"] == pytest.approx(run.dynamics.arrays["test_ece"].tolist())
    with np.load(tmp_path / "dynamics.npz") as saved:
        assert saved["train_gradient_histogram"].sum(axis=1).tolist() == [900] * 4
        assert saved["test_reliability"][:, 0].sum(axis=1).tolist() == [497] * 4
    restored = torch.load(tmp_path / "model.pt", weights_only=True)
    assert restored.keys() == run.model.state_dict().keys()
    again = train(run.recipe, out=tmp_path, dataset=table)  # a finished run is not trained again
    assert weights(again) == weights(run)
    assert not list(tmp_path.glob(".*"))


def test_dynamics_agree_with_their_definitions(tmp_path, table):
    run = train(replace(MLP, gamma=2.0, epochs=1), out=tmp_path, dataset=table)
    z = run.test.logits.astype(np.float64)
    v = np.exp(z - z.max(1, keepdims=True))
    v /= v.sum(1, keepdims=True)
    p = v[np.arange(len(v)), run.test.labels]
    right = v.argmax(1) == run.test.labels
    seen = {name: values[-1] for name, values in run.dynamics.arrays.items()}
    assert_allclose(seen["test_nll"], -np.log(p).mean(), rtol=1e-10)
    assert_allclose(seen["test_nll_incorrect"], -np.log(p[~right]).mean(), rtol=1e-10)
    assert_allclose(seen["test_p_true_correct"], p[right].mean(), rtol=1e-10)
    assert_allclose(seen["test_entropy"], -(v * np.log(v)).sum(1).mean(), rtol=1e-9)
    assert_allclose(seen["weight_norm"], run.model.last.weight.norm().item(), rtol=1e-5)


@pytest.mark.parametrize("gamma", [0.0, 2.0, "flsd-53"])
def test_gradient_norms_are_those_of_autograd(tmp_path, table, gamma):
    recipe = replace(MLP, gamma=gamma, epochs=1)
    run = train(recipe, out=tmp_path, dataset=table)
    few = Split(table.test.inputs[:20], table.test.labels[:20])
    objective, feed = Objective(recipe), Feed(table)
    norms = evaluate(run.model, feed, few, objective).gradient_norms
    for i, norm in enumerate(norms):
        (x, y) = next(feed.chunks(Split(few.inputs[i : i + 1], few.labels[i : i + 1]), 1))
        loss = objective.total(run.model(x), y)
        (gradient,) = torch.autograd.grad(loss, run.model.last.weight)
        assert_allclose(norm, gradient.norm().item(), rtol=1e-4)


def test_a_schedule_is_the_fixed_exponent_of_its_stretch(tmp_path, table):
    # Of 1 epoch the schedule 5-3-2 sees only its first stretch.
    scheduled = train(replace(MLP, gamma="fls-532", epochs=1), out=tmp_path / "a", dataset=table)
    fixed = train(replace(MLP, gamma=5.0, epochs=1), out=tmp_path / "b", dataset=table)
    assert weights(scheduled) == weights(fixed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        {"loss": "brier", "lr": 0.2},
        {"loss": "mmce", "mmce_weight": 2.0},
        {"precision": "bfloat16", "gamma": 2.0, "label_smoothing": 0.05},
        {"trace_weight": 1e-3, "lr": 0.02},
        {"reduction": "sum", "lr": 0.001, "gamma": 1.0},
    ],
)
def test_every_kind_of_run_learns(tmp_path, table, fields):
    run = train(replace(MLP, **fields), out=tmp_path, dataset=table)
    loss = run.dynamics.arrays["loss"]
    assert run.dynamics.arrays["test_error"][-1] < 0.2
    assert loss[-1] < loss[0]


@pytest.mark.slow
def test_the_best_epoch_is_kept_where_the_recipe_says_so(tmp_path, table):
    wild = replace(MLP, lr=0.9, epochs=6, keep="best")  # so fast that errors rise and fall
    run = train(wild, out=tmp_path, dataset=table)
    errors = run.dynamics.arrays["validation_error"]
    kept = (run.validation.logits.argmax(1) != run.validation.labels).mean()
    assert kept == pytest.approx(errors.min())
    assert errors.min() < errors[-1]
    again = train(wild, out=tmp_path, dataset=table)
    assert weights(again) == weights(run)


def test_a_folder_of_another_recipe_is_refused(tmp_path, table):
    train(replace(MLP, epochs=1), out=tmp_path, dataset=table)
    other = replace(MLP, epochs=1, gamma=2.0)
    with pytest.raises(CheckpointError, match=r"`gamma` is 0.0 there and 2.0 now. .* with -o"):
        train(other, out=tmp_path, dataset=table)
    (tmp_path / "recipe.toml").unlink()
    with pytest.raises(ValueError, match=r"holds checkpoint.pt, .* of something else"):
        train(other, out=tmp_path, dataset=table)
    (tmp_path / "new").mkdir()
    (tmp_path / "checkpoint.pt").rename(tmp_path / "new" / "checkpoint.pt")
    (tmp_path / "new" / "recipe.toml").write_text(
        "".join(f"{k} = {v}\n" for k, v in [("dataset", '"made"'), ("model", '"mlp"')])
        + "size = { hidden = [32] }\nepochs = 1\nbatch = 64\nlr = 0.05\nmomentum = 0.9\n"
        + "gamma = 2.0\n"
    )
    with pytest.raises(
        CheckpointError, match=r"another recipe; .* `gamma = 0.0` against `gamma = 2"
    ):
        train(other, out=tmp_path / "new", dataset=table)


def test_other_data_and_damage_are_refused(tmp_path, table):
    recipe = replace(MLP, epochs=1)
    train(recipe, out=tmp_path, dataset=table)
    fewer = replace(table, train=Split(table.train.inputs[:500], table.train.labels[:500]))
    with pytest.raises(CheckpointError, match=r"made with other training examples"):
        train(recipe, out=tmp_path, dataset=fewer)
    whole = (tmp_path / "checkpoint.pt").read_bytes()
    (tmp_path / "checkpoint.pt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match=r"checkpoint.pt: is damaged or not a checkpoint"):
        train(recipe, out=tmp_path, dataset=table)


@pytest.mark.slow
def test_a_full_disk_loses_nothing(tmp_path, table, monkeypatch):
    whole = train(MLP, out=tmp_path / "whole", dataset=table)
    flush, calls = atomic._flush, 0

    def full(path):
        nonlocal calls
        if path.suffix == ".pt":
            calls += 1
            if calls == 20:
                raise OSError(errno.ENOSPC, "No space left on device")
        flush(path)

    monkeypatch.setattr(atomic, "_flush", full)
    with pytest.raises(
        OSError, match=r"No space left.* The last one, .* is intact; free some room"
    ):
        train(MLP, out=tmp_path / "full", dataset=table, checkpoint_seconds=0)
    assert not list((tmp_path / "full").glob(".*"))
    monkeypatch.undo()
    torch.set_num_threads(1)
    rest = train(MLP, out=tmp_path / "full", dataset=table)
    assert weights(rest) == weights(whole)


def test_a_nan_loss_names_step_batch_and_checkpoint(tmp_path, table):
    inputs = table.train.inputs.copy()
    inputs[123] = np.inf
    bad = replace(table, train=Split(inputs, table.train.labels))
    with np.errstate(invalid="ignore"), pytest.raises(NanLossError, match=r"nan or infinite"):
        train(MLP, out=tmp_path / "a", dataset=bad)
    fast = replace(MLP, lr=1e30, momentum=0.0)
    with pytest.raises(NanLossError) as caught:
        train(fast, out=tmp_path / "b", dataset=table, checkpoint_seconds=0)
    text = str(caught.value)
    assert "at epoch 0, step " in text
    assert "training examples of the batch: " in text
    assert "no checkpoint was written" in text or "the last good checkpoint is" in text
    path = tmp_path / "b" / "checkpoint.pt"
    if path.exists():
        saved = torch.load(path, weights_only=True)["model"]
        assert all(torch.isfinite(w).all() for w in saved.values())


def refusal(tmp_path, recipe, dataset):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        train(recipe, out=tmp_path / "run", dataset=dataset)
    assert not (tmp_path / "run").exists()
    return str(caught.value)


def test_bad_data_is_refused_before_the_first_step(tmp_path, table):
    train_set = table.train
    empty = Split(train_set.inputs[:0], train_set.labels[:0])
    outside = Split(train_set.inputs, np.where(train_set.labels == 3, 10, train_set.labels))
    one = Split(train_set.inputs[:5], np.zeros(5, dtype=np.int64))
    said = refusal(tmp_path, MLP, replace(table, train=empty))
    assert "the train examples are empty. Use a larger `fraction`" in said
    said = refusal(tmp_path, MLP, replace(table, validation=empty))
    assert "the validation examples are empty" in said
    said = refusal(tmp_path, MLP, replace(table, train=outside))
    assert "must lie in [0, 9] for 10 classes, found [0, 10]" in said
    said = refusal(tmp_path, MLP, replace(table, train=one))
    assert "at least 2 classes, found class 0 only" in said
    said = refusal(tmp_path, replace(MLP, augmentation="flip"), table)
    assert "`augmentation` must be none for tabular data" in said


def test_a_batch_of_one_is_refused_where_batch_norm_is(tmp_path, images):
    resnet = replace(MLP, model="resnet8", size=(), batch=1)
    assert "as 'resnet8' has batch-norm" in refusal(tmp_path, resnet, images)
    last = refusal(tmp_path, replace(resnet, batch=899), images)
    assert "the last batch of 900 examples has 1. Set batch=900" in last
