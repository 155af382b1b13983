"""The callbacks in the real trainers; skipped where those are not installed.

pip install lightning transformers accelerate
"""

import importlib
import json
import multiprocessing
import os
import runpy
import socket
import sys

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from focalibrate.losses import AdaFocal, focal_loss
from focalibrate.nn import CalibrationMonitor, FocalLoss

N_CLASSES = 3


def examples(n=96, seed=0):
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 5, generator=rng)
    labels = (x[:, :N_CLASSES] + torch.randn(n, N_CLASSES, generator=rng)).argmax(-1)
    return x, labels


def test_the_package_imports_neither_and_an_absent_one_is_named_with_the_way_to_install_it(
    monkeypatch,
):
    import focalibrate.nn.integrations  # noqa: F401
    from focalibrate import nn as parent

    package = "focalibrate.nn.integrations"
    monkeypatch.setattr(parent, "integrations", parent.integrations)  # so that it is put back
    for name in [name for name in sys.modules if name.startswith(package)]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("lightning", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    importlib.import_module(package)
    for name in ("lightning", "transformers"):
        with pytest.raises(ImportError, match=rf"`{package}\.{name}` needs .*pip install {name}"):
            importlib.import_module(f"{package}.{name}")


def test_only_losses_with_a_policy_follow_epochs_and_validation():
    losses = [FocalLoss("fls-532"), FocalLoss("adafocal"), FocalLoss(2.0)]
    monitor = CalibrationMonitor()
    monitor.update(torch.randn(60, 3), torch.zeros(60, dtype=torch.int64))
    for loss in losses:
        loss.set_epoch(20, 35)
        loss.update_from(monitor.cells)
    assert losses[0].gamma_now == 3.0
    assert losses[1].gamma == AdaFocal().updated_from(monitor.cells)
    assert losses[2].gamma == 2.0


def test_a_schedule_needs_an_end():
    with pytest.raises(ValueError, match=r"needs the number of epochs, got -1\. Set it"):
        FocalLoss("fls-532").set_epoch(0, -1)
    FocalLoss(2.0).set_epoch(0, None)


@pytest.mark.slow
class TestLightning:
    """Against lightning.pytorch."""

    @pytest.fixture(autouse=True)
    def _library(self):
        pytest.importorskip("lightning")

    def model(self, gamma):
        from lightning.pytorch import LightningModule

        class Model(LightningModule):
            def __init__(self):
                super().__init__()
                torch.manual_seed(0)
                self.net = torch.nn.Linear(5, N_CLASSES)
                self.criterion = FocalLoss(gamma)
                self.used = []

            def training_step(self, batch, batch_idx):
                self.used.append(self.criterion.gamma_now)
                return self.criterion(self.net(batch[0]), batch[1])

            def validation_step(self, batch, batch_idx):
                return {"logits": self.net(batch[0]), "labels": batch[1]}

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        return Model()

    def trainer(self, callback, tmp_path, **options):
        from lightning.pytorch import Trainer

        quiet = {
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "logger": False,
            "accelerator": "cpu",
            "log_every_n_steps": 1,
            "default_root_dir": tmp_path,
        }
        return Trainer(callbacks=[callback], **quiet, **options)

    def loaders(self):
        return (
            DataLoader(TensorDataset(*examples()), batch_size=32),
            DataLoader(TensorDataset(*examples(80, seed=1)), batch_size=32),
        )

    @pytest.mark.filterwarnings("ignore")
    def test_metrics_are_logged_and_exponents_adapted_once_an_epoch(self, tmp_path):
        from focalibrate.nn.integrations.lightning import CalibrationCallback

        model, callback = self.model("adafocal"), CalibrationCallback()
        trainer = self.trainer(callback, tmp_path, max_epochs=3)
        trainer.fit(model, *self.loaders())
        x, y = examples(80, seed=1)
        monitor = CalibrationMonitor()
        monitor.update(model.net(x), y)
        for name, value in monitor.metrics().as_dict("val_").items():
            assert float(trainer.callback_metrics[name]) == pytest.approx(value, rel=1e-4)
        policies = list(dict.fromkeys(model.used))
        assert len(policies) == 3  # one an epoch; the sanity check moves nothing
        assert policies[0] == AdaFocal()
        assert model.criterion.gamma == policies[-1].updated_from(callback.latest.cells)
        assert callback.latest.fit("temperature").temperature > 0
        before = model.criterion.gamma
        trainer.validate(model, self.loaders()[1], verbose=False)
        assert model.criterion.gamma == before

    @pytest.mark.filterwarnings("ignore")
    def test_a_schedule_is_told_the_epoch(self, tmp_path):
        from focalibrate.nn.integrations.lightning import CalibrationCallback

        model = self.model("fls-532")
        self.trainer(CalibrationCallback(), tmp_path, max_epochs=7).fit(model, *self.loaders())
        assert model.used[::3] == [5, 5, 3, 3, 3, 2, 2]

    @pytest.mark.filterwarnings("ignore")
    def test_a_resumed_run_ends_like_an_uninterrupted_one(self, tmp_path):
        from focalibrate.nn.integrations.lightning import CalibrationCallback

        whole = self.model("adafocal")
        self.trainer(CalibrationCallback(), tmp_path / "a", max_epochs=4).fit(
            whole, *self.loaders()
        )
        first, then = self.model("adafocal"), self.model("adafocal")
        trainer = self.trainer(CalibrationCallback(), tmp_path / "b", max_epochs=2)
        trainer.fit(first, *self.loaders())
        trainer.save_checkpoint(tmp_path / "b.ckpt")
        self.trainer(CalibrationCallback(), tmp_path / "b", max_epochs=4).fit(
            then, *self.loaders(), ckpt_path=tmp_path / "b.ckpt", weights_only=False
        )
        assert then.criterion.gamma == whole.criterion.gamma
        assert torch.equal(then.net.weight, whole.net.weight)

    @pytest.mark.filterwarnings("ignore")
    def test_a_step_that_returns_no_logits_is_named(self, tmp_path):
        from focalibrate.nn.integrations.lightning import CalibrationCallback

        callback = CalibrationCallback(logits="scores")
        trainer = self.trainer(callback, tmp_path, max_epochs=1)
        with pytest.raises(ValueError, match=r"with 'scores' and 'labels', got \['labels', 'lo"):
            trainer.fit(self.model(2.0), *self.loaders())

    @pytest.mark.filterwarnings("ignore")
    def test_two_ranks_see_what_one_sees(self, tmp_path, monkeypatch):
        """Both ranks are this process and its copy: importing the trainer takes far longer."""
        script = tmp_path / "run.py"
        script.write_text(VALIDATED)
        validated = runpy.run_path(str(script))["validated"]
        one = validated(1, tmp_path)
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            monkeypatch.setenv("MASTER_PORT", str(free.getsockname()[1]))

        def second_rank():
            os.environ["LOCAL_RANK"] = "1"
            (tmp_path / "rank1.json").write_text(json.dumps(validated(2, tmp_path)))

        other = multiprocessing.get_context("fork").Process(target=second_rank)
        other.start()
        try:
            monkeypatch.setenv("LOCAL_RANK", "0")
            first = validated(2, tmp_path)
            other.join(timeout=600)
        finally:
            other.kill()
            if torch.distributed.is_initialized():
                torch.distributed.destroy_process_group()
        assert other.exitcode == 0
        second = json.loads((tmp_path / "rank1.json").read_text())
        assert [first, second] == [pytest.approx(one, rel=1e-4, abs=1e-7)] * 2


VALIDATED = """
from datetime import timedelta
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader, TensorDataset
from focalibrate.nn.integrations.lightning import CalibrationCallback

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Linear(5, 3)
    def validation_step(self, batch, batch_idx):
        return {"logits": self.net(batch[0]), "labels": batch[1]}

def validated(devices, folder):
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(80, 5), torch.randint(3, (80,)))
    trainer = Trainer(
        accelerator="cpu", devices=devices,
        strategy=DDPStrategy(timeout=timedelta(minutes=5)) if devices == 2 else "auto",
        callbacks=[CalibrationCallback()], logger=False, enable_progress_bar=False,
        default_root_dir=folder,
    )
    trainer.validate(Model(), DataLoader(data, batch_size=8), verbose=False)
    return {k: float(v) for k, v in trainer.callback_metrics.items()}
"""


@pytest.mark.slow
class TestTransformers:
    """Against transformers.Trainer."""

    @pytest.fixture(autouse=True)
    def _library(self):
        pytest.importorskip("transformers")
        pytest.importorskip("accelerate")

    def model(self):
        torch.manual_seed(0)

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.net = torch.nn.Linear(5, N_CLASSES)

            def forward(self, x, labels=None):
                return {"logits": self.net(x)}

        return Model()

    def rows(self, *arguments, **options):
        x, y = examples(*arguments, **options)
        return [{"x": a, "labels": b} for a, b in zip(x, y, strict=True)]

    def trainer(self, calibration, tmp_path, **options):
        from transformers import Trainer, TrainingArguments

        arguments = {
            "num_train_epochs": 3,
            "per_device_train_batch_size": 32,
            "per_device_eval_batch_size": 32,
            "eval_strategy": "epoch",
            "save_strategy": "epoch",
            "batch_eval_metrics": True,
            "remove_unused_columns": False,
            "use_cpu": True,
            "report_to": [],
            "disable_tqdm": True,
            "learning_rate": 0.05,
        }
        return Trainer(
            self.model(),
            TrainingArguments(str(tmp_path), **{**arguments, **options}),
            train_dataset=self.rows(),
            eval_dataset=self.rows(80, seed=1),
            callbacks=[calibration],
            compute_loss_func=calibration.compute_loss,
            compute_metrics=calibration.compute_metrics,
        )

    def test_a_batch_whose_labels_are_all_ignored_has_no_share(self):
        from focalibrate.nn.integrations.transformers import CalibrationCallback

        calibration = CalibrationCallback(FocalLoss(2.0))
        logits = torch.randn(2, 4, N_CLASSES, requires_grad=True)  # of tokens
        loss = calibration.compute_loss({"logits": logits}, torch.full((2, 4), -100), 8)
        loss.backward()
        assert loss == 0.0
        assert (logits.grad == 0.0).all()

    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize("by_batch", [False, True])
    def test_metrics_are_logged_and_exponents_adapted(self, tmp_path, by_batch):
        from focalibrate.nn.integrations.transformers import CalibrationCallback

        calibration = CalibrationCallback(FocalLoss("adafocal"))
        trainer = self.trainer(calibration, tmp_path, batch_eval_metrics=by_batch)
        trainer.train()
        x, y = examples(80, seed=1)
        monitor = CalibrationMonitor()
        monitor.update(trainer.model.net(x), y)
        logged = [row for row in trainer.state.log_history if "eval_ece" in row]
        assert len(logged) == 3
        for name, value in monitor.metrics().as_dict("eval_").items():
            assert logged[-1][name] == pytest.approx(value, rel=1e-4)
        loss = focal_loss(
            trainer.model.net(x), y, gamma=AdaFocal(gammas=calibration.criterion.gamma.gammas)
        )
        assert torch.isfinite(loss).all()
        assert calibration.criterion.gamma != AdaFocal()
        before = calibration.criterion.gamma
        trainer.evaluate()
        assert calibration.criterion.gamma == before
        assert calibration.latest.n == 80
        assert calibration.latest.fit("temperature").temperature > 0

    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize("gamma", ["adafocal", "fls-532"])
    def test_a_resumed_run_ends_like_an_uninterrupted_one(self, tmp_path, gamma):
        from focalibrate.nn.integrations.transformers import CalibrationCallback

        whole = CalibrationCallback(FocalLoss(gamma))
        trainer = self.trainer(whole, tmp_path)
        trainer.train()
        again = CalibrationCallback(FocalLoss(gamma))
        other = self.trainer(again, tmp_path)
        other.train(resume_from_checkpoint=str(tmp_path / "checkpoint-6"))
        for name, value in whole.criterion.state_dict().items():
            assert torch.equal(again.criterion.state_dict()[name], value)
        assert again.criterion.gamma_now == whole.criterion.gamma_now
        assert torch.equal(other.model.net.weight, trainer.model.net.weight)

    @pytest.mark.filterwarnings("ignore")
    def test_accumulated_batches_weigh_as_one(self, tmp_path):
        from focalibrate.nn.integrations.transformers import CalibrationCallback

        weights = []
        for size, accumulated in ((32, 1), (8, 4)):
            calibration = CalibrationCallback(FocalLoss(2.0))
            trainer = self.trainer(
                calibration,
                tmp_path,
                per_device_train_batch_size=size,
                gradient_accumulation_steps=accumulated,
                num_train_epochs=1,
                optim="sgd",
                save_strategy="no",
            )
            trainer.get_train_dataloader = lambda size=size: DataLoader(
                self.rows(), batch_size=size
            )
            trainer.train()
            weights.append(trainer.model.net.weight.detach().clone())
        torch.testing.assert_close(weights[1], weights[0], rtol=1e-5, atol=1e-6)

    @pytest.mark.filterwarnings("ignore")
    def test_a_schedule_is_told_the_epoch(self, tmp_path):
        from focalibrate.nn.integrations.transformers import CalibrationCallback

        calibration = CalibrationCallback(FocalLoss("fls-532"))
        used = []

        def compute_loss(outputs, labels, num_items_in_batch=None):
            used.append(calibration.criterion.gamma_now)
            return calibration.compute_loss(outputs, labels, num_items_in_batch)

        trainer = self.trainer(calibration, tmp_path, num_train_epochs=7, eval_strategy="no")
        trainer.compute_loss_func = compute_loss
        trainer.train()
        assert used[::3] == [5, 5, 3, 3, 3, 2, 2]

    def test_tokens_have_their_classes_last(self):
        from transformers import EvalPrediction

        from focalibrate.nn.integrations.transformers import CalibrationCallback

        logits, labels = torch.randn(4, 7, N_CLASSES), torch.randint(N_CLASSES, (4, 7))
        labels[:, 5:] = -100
        calibration = CalibrationCallback(FocalLoss(2.0))
        got = calibration.compute_loss({"logits": logits}, labels)
        want = FocalLoss(2.0)(logits.reshape(-1, N_CLASSES), labels.reshape(-1))
        torch.testing.assert_close(got, want)
        calibration.compute_metrics(EvalPrediction(logits.numpy(), labels.numpy()))
        assert calibration.latest.n == 20

    def test_bad_input_is_named(self):
        from focalibrate.nn.integrations.transformers import CalibrationCallback

        with pytest.raises(ValueError, match=r"reduction='mean', got 'sum'"):
            CalibrationCallback(FocalLoss(2.0, reduction="sum"))
        with pytest.raises(ValueError, match=r"must have `labels` for the loss"):
            CalibrationCallback(FocalLoss(2.0)).compute_loss({"logits": torch.zeros(2, 3)}, None)


def test_torchmetrics_in_batches_and_a_collection_equals_the_monitor():
    torchmetrics = pytest.importorskip("torchmetrics")
    from focalibrate.nn.integrations.torchmetrics import CalibrationMetrics

    rng = torch.Generator().manual_seed(0)
    z, y = 2 * torch.randn(200, 4, generator=rng), torch.randint(4, (200,), generator=rng)
    y[7] = -100
    metric = torchmetrics.MetricCollection([CalibrationMetrics(n_bins=10)])
    monitor = CalibrationMonitor(n_bins=10)
    for part in (slice(0, 150), slice(150, 200)):
        batch = metric(z[part], y[part])
        monitor.update(z[part], y[part])
    found, want = metric.compute(), monitor.metrics()
    for name in ("ece", "adaptive_ece", "mce", "nll", "brier", "error"):
        assert found[name].item() == pytest.approx(getattr(want, name), rel=1e-12)
    assert batch["nll"] != found["nll"]
    theirs = torchmetrics.classification.MulticlassCalibrationError(
        4, n_bins=10, ignore_index=-100
    )
    assert found["ece"].item() == pytest.approx(theirs(z.softmax(1), y).item(), abs=1e-6)
    metric.reset()
    metric.update(z[:2], y[:2])
    assert metric.compute()["nll"].item() == pytest.approx(
        torch.nn.functional.cross_entropy(z[:2], y[:2]).item()
    )
