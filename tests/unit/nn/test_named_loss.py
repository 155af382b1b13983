import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from focalibrate.losses import named_loss
from focalibrate.nn import NamedLoss
from focalibrate.theory import loss_form, recover_posterior


def test_a_loss_of_classes_equals_its_function_with_ignored_rows_and_reductions():
    z = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([0, 1, -100, 2, 3, 1])
    rows = NamedLoss("poly_focal", gamma=2.0, epsilon=0.5, reduction="none")(z, y)
    kept = y != -100
    want = named_loss(loss_form("poly_focal", gamma=2.0, epsilon=0.5), z[kept], y[kept])
    assert_allclose(rows[kept], want, rtol=1e-6)
    assert rows[2] == 0
    mean = NamedLoss("poly_focal", gamma=2.0, epsilon=0.5)(z, y)
    assert_allclose(mean, want.mean(), rtol=1e-6)


def test_a_loss_of_single_labels_takes_any_shape():
    z, y = torch.randn(3, 2, 5), torch.randint(2, (3, 2, 5)).float()
    loss = NamedLoss("asymmetric", gamma_pos=1.0, gamma_neg=4.0, margin=0.05, reduction="none")
    want = named_loss(loss.form, z, y)
    assert_allclose(loss(z, y), want, rtol=1e-6)


def test_training_with_it_and_recovering_gives_the_true_probabilities():
    torch.manual_seed(0)
    x = torch.randn(8_000, 1, dtype=torch.float64)
    truth = torch.sigmoid(2 * x[:, 0] - 1)
    y = (torch.rand(8_000) < truth).long()
    for name, parameters in (
        ("focal_calibration", {"gamma": 2.0, "weight": 0.5}),
        ("bsce_gra", {"beta": 1.0}),
    ):
        model = torch.nn.Sequential(
            torch.nn.Linear(1, 12), torch.nn.Tanh(), torch.nn.Linear(12, 2)
        ).double()
        criterion = NamedLoss(name, **parameters)
        optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
        for _ in range(120):
            optimiser.zero_grad()
            criterion(model(x), y).backward()
            optimiser.step()
        z = model(x).detach()
        raw = (z.softmax(1)[:, 1] - truth).abs().mean()
        back = (criterion.recover(z)[:, 1] - truth).abs().mean()
        assert back < 0.02 < 0.05 < raw, name


def test_recover_is_that_of_the_theory():
    z = np.random.default_rng(0).normal(size=(5, 3))
    found = NamedLoss("bsce", beta=1.0).recover(torch.tensor(z))
    assert_allclose(found, recover_posterior(logits=z, loss="bsce", beta=1.0))


def test_parameters_are_shown_and_checked():
    assert "poly_focal(gamma=2, epsilon=1)" in repr(
        NamedLoss("poly_focal", gamma=2.0, epsilon=1.0)
    )
    with pytest.raises(ValueError, match="no parameter of the loss"):
        NamedLoss("bsce", gamma=1.0)
