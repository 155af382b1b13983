import io

import pytest
import torch
from torch.testing import assert_close

from focalibrate.losses import AdaFocal, focal_loss
from focalibrate.metrics import Cells
from focalibrate.nn import FocalLoss

POLICY = AdaFocal(4, cuts=(0.1, 0.4, 0.8), gammas=(-2.0, 0.3, -0.2, 5.0))


def example(n=64, k=5, *, scale=2.0, seed=0, dtype=torch.float64):
    rng = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(n, k, generator=rng, dtype=dtype)
    return logits.requires_grad_(), torch.randint(k, (n,), generator=rng)


def test_weights_smoothing_and_ignored_rows_work_as_for_other_exponents():
    logits, labels = example()
    weight = torch.arange(1.0, 6.0, dtype=torch.float64)
    for arguments in ({"weight": weight}, {"label_smoothing": 0.1}):
        got = FocalLoss(POLICY, reduction="none", **arguments)(logits, labels)
        assert_close(got, focal_loss(logits, labels, gamma=POLICY, **arguments))
    labels[::2] = -100
    want = focal_loss(logits[1::2], labels[1::2], gamma=POLICY).mean()
    assert_close(FocalLoss(POLICY)(logits, labels), want)


def test_validation_logits_move_the_exponents():
    logits, labels = example(300)
    loss = FocalLoss("adafocal")
    loss.update(logits, labels)
    probs = logits.detach().softmax(-1)
    want = AdaFocal().updated(probs.amax(-1), probs.argmax(-1) == labels)
    assert_close(loss.cuts, torch.tensor(want.cuts, dtype=torch.float64))
    assert_close(loss.gammas, torch.tensor(want.gammas, dtype=torch.float64))
    other = 0.9 * logits  # not the rows whose confidences are the cuts
    assert_close(loss(other, labels), focal_loss(other, labels, gamma=loss.gamma).mean())


def test_ignored_rows_are_left_out_of_the_update_and_images_are_flattened():
    logits, labels = example(300)
    labels[:100] = -100
    one, other = FocalLoss("adafocal"), FocalLoss("adafocal")
    one.update(logits, labels)
    other.update(logits[100:].reshape(20, 10, 5).movedim(-1, 1), labels[100:].reshape(20, 10))
    assert one.gamma == other.gamma


def test_fine_cells_move_the_exponents_and_other_losses_stay():
    logits, labels = example(300)
    table = Cells.of_top_label(logits.detach().softmax(-1), labels, bins=1000)
    loss = FocalLoss("adafocal")
    loss.update_from(table)
    assert loss.gamma == AdaFocal().updated_from(table)
    fixed = FocalLoss(2.0)
    fixed.update(logits, labels)
    fixed.update_from(table)
    assert fixed.gamma == 2.0


def test_state_is_saved_and_restored():
    logits, labels = example(300)
    loss = FocalLoss("adafocal")
    loss.update(logits, labels)
    file = io.BytesIO()
    torch.save(loss.state_dict(), file)
    file.seek(0)
    other = FocalLoss("adafocal")
    other.load_state_dict(torch.load(file, weights_only=True))
    assert other.gamma == loss.gamma
    loss.update(logits, labels)
    other.update(logits, labels)
    assert other.gamma == loss.gamma
    assert_close(other(logits, labels), loss(logits, labels), rtol=0, atol=0)


def test_a_state_of_another_number_of_bins_is_refused():
    with pytest.raises(RuntimeError, match="size mismatch"):
        FocalLoss(AdaFocal(10)).load_state_dict(FocalLoss("adafocal").state_dict())


@pytest.mark.slow
def test_a_compiled_loss_follows_updates_without_compiling_again():
    logits, labels = example(64)
    loss = FocalLoss("adafocal")
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph

    compiled = torch.compile(loss, backend=backend, fullgraph=True)
    for _ in range(4):
        assert_close(compiled(logits, labels), loss(logits, labels))
        loss.update(logits, labels)
    assert len(graphs) == 1


@pytest.mark.slow
def test_training_with_it_narrows_the_gap_of_a_model_that_overfits():
    torch.manual_seed(0)
    centres = torch.randn(3, 20)
    y = torch.randint(3, (400,))
    x = centres[y] + 3 * torch.randn(400, 20)
    gaps = {}
    for gamma in (0.0, "adafocal"):
        torch.manual_seed(1)
        model = torch.nn.Sequential(
            torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 3)
        )
        loss, optimiser = FocalLoss(gamma), torch.optim.Adam(model.parameters(), 1e-2)
        for _ in range(60):
            optimiser.zero_grad()
            loss(model(x[:200]), y[:200]).backward()
            optimiser.step()
            with torch.no_grad():
                logits = model(x[200:])
            loss.update(logits, y[200:])
        probs = logits.softmax(-1)
        gaps[gamma] = float(probs.amax(-1).mean() - (probs.argmax(-1) == y[200:]).double().mean())
    assert gaps["adafocal"] < 0.8 * gaps[0.0]
    assert max(loss.gamma.gammas) > 2.0


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64), "must not be empty"),
        (torch.zeros(20, 1), torch.zeros(20, dtype=torch.int64), "at least 2 classes"),
        (torch.zeros(20, 3), torch.full((20,), 3), r"must lie in \[0, 2\] for 3 classes"),
        (torch.zeros(20, 3), torch.zeros(19, dtype=torch.int64), r"must have shape \(20,\)"),
        (torch.zeros(20, 3), torch.full((20, 3), 1 / 3), r"must be class indices, got soft"),
        (torch.zeros(14, 3), torch.zeros(14, dtype=torch.int64), "at least `n_bins` = 15"),
        (torch.full((20, 3), torch.nan), torch.zeros(20, dtype=torch.int64), "nan or \\+inf"),
        (torch.zeros(20, 3), torch.full((20,), -100), "must not be empty"),
    ],
)
def test_bad_validation_rows_are_named(logits, labels, message):
    with pytest.raises(ValueError, match=message):
        FocalLoss("adafocal").update(logits, labels)
