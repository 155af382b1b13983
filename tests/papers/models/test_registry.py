import numpy as np
import pytest
import torch
from torch import nn

from focalibrate_papers.models import MODELS, build
from focalibrate_papers.models.resnet import PaddedShortcut

IMAGE_MODELS = ["resnet8", "resnet20", "resnet50"]


def n_parameters(model):
    return sum(p.numel() for p in model.parameters())


def on_meta(name, **options):
    with torch.device("meta"):
        return build(name, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n_classes", "count"),
    [
        # He et al. (2016), table 6: 0.27 million.
        ("resnet20", 10, 269_722),
        # The usual forms for 32x32 images, as published with their accuracies.
        ("resnet50", 10, 23_520_842),
    ],
)
def test_counts_of_the_literature(name, n_classes, count):
    assert n_parameters(on_meta(name, n_classes=n_classes)) == count


def test_resnet8_by_hand():
    # First layer, three stages of two convolutions, norms (two numbers a channel), last layer.
    convolutions = 9 * (3 * 16 + 2 * 16 * 16 + 16 * 32 + 32 * 32 + 32 * 64 + 64 * 64)
    norms = 2 * (3 * 16 + 2 * 32 + 2 * 64)
    assert n_parameters(on_meta("resnet8", n_classes=10)) == convolutions + norms + 650


def test_a_shortcut_takes_every_second_pixel_and_adds_channels_of_zeros_on_both_sides():
    # He et al. (2016), option A.
    x = torch.arange(2 * 3 * 4 * 4, dtype=torch.float32).reshape(2, 3, 4, 4) + 1
    found = PaddedShortcut(added=3, stride=2)(x).numpy()
    want = np.zeros((2, 6, 2, 2), dtype=np.float32)
    for row, column in np.ndindex(2, 2):
        want[:, 1:4, row, column] = x[:, :, 2 * row, 2 * column]
    np.testing.assert_array_equal(found, want)


def test_the_mlp_of_e12_and_the_linear_model():
    assert n_parameters(on_meta("mlp", n_classes=10)) == 3072 * 100 + 100 + 100 * 10 + 10
    assert n_parameters(on_meta("linear", n_classes=2, n_features=2, bias=False)) == 4


@pytest.mark.slow
def test_the_last_layer_of_every_network_is_named_last():
    for name in MODELS:
        words = {"n_words": 3} if name in ("text_cnn", "tree_lstm") else {}
        model = on_meta(name, n_classes=7, **words)
        assert isinstance(model.last, nn.Linear), name
        assert model.last.out_features == 7


DEEP = ("resnet50",)


@pytest.mark.slow
@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_shapes_of_images(name):
    shapes = ((3, 32), (1, 28))
    # Deep ones of a family take the second shape as the shallow ones do.
    for in_channels, image_size in shapes[: 1 if name in DEEP else 2]:
        model = on_meta(name, n_classes=5, in_channels=in_channels, image_size=image_size)
        x = torch.empty(2, in_channels, image_size, image_size, device="meta")
        assert model(x).shape == (2, 5)


SMALL = {
    "resnet8": {},
    "resnet50": {"width": 2},
    "mlp": {},
    "linear": {},
}


@pytest.mark.parametrize("name", list(SMALL))
def test_gradients_reach_every_parameter(name):
    torch.manual_seed(0)
    model = build(name, n_classes=3, **SMALL[name])
    model(torch.randn(4, 3, 32, 32)).square().sum().backward()
    for label, parameter in model.named_parameters():
        assert parameter.grad is not None, label
        assert torch.isfinite(parameter.grad).all(), label
    assert sum(p.grad.abs().sum() > 0 for p in model.parameters()) > 0.9 * len(
        list(model.parameters())
    )


@pytest.mark.parametrize("name", list(SMALL))
def test_evaluation_is_deterministic_and_takes_each_example_alone(name):
    torch.manual_seed(0)
    model = build(name, n_classes=3, **SMALL[name]).eval()
    x = torch.randn(3, 3, 32, 32)
    with torch.no_grad():
        whole = model(x)
        assert torch.equal(whole, model(x))
        torch.testing.assert_close(model(x[:1]), whole[:1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["resnet8", "mlp"])
def test_a_batch_of_one_trains_where_a_pixel_is_not_all_there_is(name):
    model = build(name, n_classes=3)
    assert torch.isfinite(model(torch.randn(1, 3, 32, 32))).all()


def test_a_seed_decides_the_weights():
    def weights(seed):
        torch.manual_seed(seed)
        model = build("resnet8", n_classes=3)
        return torch.cat([p.flatten() for p in model.parameters()])

    assert torch.equal(weights(seed=1), weights(seed=1))
    assert not torch.equal(weights(seed=1), weights(seed=2))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet19", {}, r"`name` must be one of linear, mlp, .*got 'resnet19'\. Did you mean"),
        ("mlp", {"hiden": 3}, r"'mlp' has no option 'hiden'; its options: n_features, hidden\."),
        ("resnet20", {"depth": 21}, r"`depth` must be 6n \+ 2 with n >= 1, got 21\."),
        ("text_cnn", {}, r"give `vectors`, or `n_words` for random ones"),
        ("mlp", {"n_classes": 0}, r"`n_classes` must be >= 1, got 0\."),
    ],
)
def test_bad_requests_say_what_is_offered(name, options, message):
    with pytest.raises(ValueError, match=message):
        on_meta(name, **({"n_classes": 10} | options))
