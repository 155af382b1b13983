import pytest
import torch
from torch import nn

from focalibrate.models import MODELS, build

IMAGE_MODELS = [
    "resnet8",
    "resnet20",
    "resnet44",
    "resnet110",
    "resnet18",
    "resnet18_2w",
    "resnet50",
    "wrn26_10",
    "densenet121",
    "vgg19",
    "mobilenet_v2",
    "vit_small",
]


def n_parameters(model):
    return sum(p.numel() for p in model.parameters())


def on_meta(name, **options):
    with torch.device("meta"):
        return build(name, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n_classes", "count"),
    [
        # He et al. (2016), table 6: 0.27, 0.66 and 1.7 million.
        ("resnet20", 10, 269_722),
        ("resnet44", 10, 658_586),
        ("resnet110", 10, 1_727_962),
        # The usual forms for 32x32 images, as published with their accuracies.
        ("resnet18", 10, 11_173_962),
        ("resnet50", 10, 23_520_842),
        ("densenet121", 10, 6_956_298),
        ("vgg19", 10, 20_040_522),
        ("mobilenet_v2", 10, 2_296_922),
        # Zagoruyko & Komodakis (2016), table 4: 36.5 million.
        ("wrn26_10", 10, 36_479_194),
        ("wrn26_10", 100, 36_536_884),
    ],
)
def test_counts_of_the_literature(name, n_classes, count):
    assert n_parameters(on_meta(name, n_classes=n_classes)) == count


@pytest.mark.parametrize(
    ("options", "count"),
    [({}, 5_717_416), ({"width": 384, "n_heads": 6, "inner": 1536}, 22_050_664)],
)
def test_vision_transformers_of_the_literature(options, count):
    # ViT-Ti/16 and ViT-S/16 at 224x224 with 1,000 classes (Touvron et al. 2021).
    model = on_meta("vit_small", n_classes=1000, image_size=224, patch=16, **options)
    assert n_parameters(model) == count


def test_resnet8_by_hand():
    # First layer, three stages of two convolutions, norms (two numbers a channel), last layer.
    convolutions = 9 * (3 * 16 + 2 * 16 * 16 + 16 * 32 + 32 * 32 + 32 * 64 + 64 * 64)
    norms = 2 * (3 * 16 + 2 * 32 + 2 * 64)
    assert n_parameters(on_meta("resnet8", n_classes=10)) == convolutions + norms + 650


def test_a_doubled_width_has_nearly_four_times_the_weights():
    once, twice = (on_meta(name, n_classes=100) for name in ("resnet18", "resnet18_2w"))
    assert 3.95 < n_parameters(twice) / n_parameters(once) < 4.0


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


DEEP = ("resnet44", "resnet110", "resnet50")


@pytest.mark.slow
@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_shapes_of_images(name):
    shapes = ((3, 32), (3, 64)) if name == "vgg19" else ((3, 32), (1, 28))
    # Deep ones of a family take the second shape as the shallow ones do.
    for in_channels, image_size in shapes[: 1 if name in DEEP else 2]:
        model = on_meta(name, n_classes=5, in_channels=in_channels, image_size=image_size)
        x = torch.empty(2, in_channels, image_size, image_size, device="meta")
        assert model(x).shape == (2, 5)


SMALL = {
    "resnet8": {},
    "resnet18": {"width": 4},
    "resnet50": {"width": 2},
    "wrn26_10": {"depth": 8, "widen": 1},
    "densenet121": {"depths": (1, 1, 1, 1), "growth": 4},
    "mobilenet_v2": {},
    "vgg19": {"depths": (1, 1, 1, 1, 1)},
    "vit_small": {"width": 12, "depth": 2, "inner": 8},
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


@pytest.mark.parametrize("name", ["resnet8", "mobilenet_v2", "mlp"])
def test_a_batch_of_one_trains_where_a_pixel_is_not_all_there_is(name):
    model = build(name, n_classes=3)
    assert torch.isfinite(model(torch.randn(1, 3, 32, 32))).all()


def test_a_batch_of_one_with_one_pixel_left_is_refused_by_batch_norm():
    # Four halvings of 16x16 leave the last stage one pixel, of which there is no variance.
    model = build("vgg19", n_classes=3, depths=(1, 1, 1, 1, 1), image_size=32)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        model(torch.randn(1, 3, 16, 16))


def test_a_seed_and_a_generator_decide_the_weights():
    def weights(seed=None, generator=None):
        if seed is not None:
            torch.manual_seed(seed)
        model = build("resnet8", n_classes=3, generator=generator)
        return torch.cat([p.flatten() for p in model.parameters()])

    assert torch.equal(weights(seed=1), weights(seed=1))
    assert not torch.equal(weights(seed=1), weights(seed=2))
    drawn = [weights(generator=torch.Generator().manual_seed(5)) for _ in range(2)]
    assert torch.equal(*drawn)
    before = torch.get_rng_state()
    weights(generator=torch.Generator().manual_seed(5))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet19", {}, r"`name` must be one of linear, mlp, .*got 'resnet19'\. Did you mean"),
        ("mlp", {"hiden": 3}, r"'mlp' has no option 'hiden'; its options: n_features, hidden\."),
        ("mobilenet_v2", {"width": 3}, r"has no option 'width'; its options: none\."),
        ("resnet20", {"depth": 21}, r"`depth` must be 6n \+ 2 with n >= 1, got 21\."),
        ("wrn26_10", {"depth": 28}, r"`depth` must be 6n \+ 2 with n >= 1, got 28\."),
        ("vgg19", {"image_size": 28}, r"`image_size` must be >= 32 for this network, got 28"),
        ("vit_small", {"image_size": 30}, r"multiple of `patch` = 4, got 30\."),
        ("vit_small", {"width": 100}, r"`width` must be a multiple of `n_heads` = 3, got 100\."),
        ("text_cnn", {}, r"give `vectors`, or `n_words` for random ones"),
        ("mlp", {"n_classes": 0}, r"`n_classes` must be >= 1, got 0\."),
    ],
)
def test_bad_requests_say_what_is_offered(name, options, message):
    with pytest.raises(ValueError, match=message):
        on_meta(name, **({"n_classes": 10} | options))
