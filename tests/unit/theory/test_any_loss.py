"""The posterior behind any loss: closed forms against the null vector, and both against minima."""

import functools
import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from mpmath import mp, mpf
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

from focalibrate import losses
from focalibrate._gradients import gradient_field, value_field
from focalibrate.theory import (
    LOSS_FORMS,
    RecoveryWarning,
    loss_form,
    recover_by_gradient,
    recover_log_posterior,
    recover_posterior,
    recoverability,
)

FORMS = [
    loss_form("focal", gamma=2.0),
    loss_form("focal", gamma=0.5),
    loss_form("poly_focal", gamma=2.0, epsilon=1.0),
    loss_form("poly_focal", gamma=1.0, epsilon=-0.9),
    loss_form("bsce", beta=1.0),
    loss_form("bsce", beta=3.0),
    loss_form("focal_calibration", gamma=3.0, weight=0.5),
    loss_form("focal_calibration", gamma=0.0, weight=2.0),
]
WITH_CONSTANTS = [
    *FORMS,
    loss_form("bsce_gra", beta=1.0),
    loss_form("class_balanced", counts=(10, 100, 1000, 7), beta=0.99, gamma=1.0),
    loss_form("logit_adjusted", frequencies=(0.1, 0.2, 0.3, 0.4), tau=1.5),
]
WEIGHT = torch.tensor([1.0, 2.0, 5.0])


def of(name, **parameters):
    """A named loss as a function of logits and labels, on any library."""
    return functools.partial(losses.named_loss, loss_form(name, **parameters))


def of_label(form):
    """The loss of a form as a function of logits and labels, in torch."""
    return lambda z, y: form.by_label(z).gather(1, y[:, None])[:, 0]


def least_risk(form, q):
    """The logits of least risk, by a quasi-Newton method on autograd's gradient."""
    weight = torch.tensor(q)

    def risk(z):
        scores = torch.tensor(z, requires_grad=True)
        total = (weight * form.by_label(scores)).sum()
        total.backward()
        return total.item(), scores.grad.numpy()

    start = np.log(q) - np.log(q).mean()
    return minimize(risk, start, jac=True, method="BFGS", options={"gtol": 1e-12}).x


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_the_posterior_is_recovered_from_the_numeric_minimum(form, n_classes):
    rng = np.random.default_rng(n_classes)
    for spread in (0.5, 1.0, 4.0):
        q = 0.999 * rng.dirichlet(np.full(n_classes, spread)) + 0.001 / n_classes
        z = least_risk(form, q)[None]
        assert_allclose(recover_posterior(logits=z, loss=form)[0], q, atol=1e-7)


@pytest.mark.parametrize("form", WITH_CONSTANTS, ids=str)
def test_closed_forms_equal_the_null_vector_of_the_gradients(form):
    z = 3.0 * np.random.default_rng(0).normal(size=(200, 4))
    generic = recover_posterior(logits=torch.tensor(z), loss=of_label(form))
    assert_allclose(generic.numpy(), recover_posterior(logits=z, loss=form), atol=1e-10)


def test_weights_and_smoothing_of_a_loss_of_ones_own_are_undone():
    weight, smoothing = np.array([1.0, 2.0, 5.0]), 0.1
    z = np.random.default_rng(1).normal(size=(50, 3))

    def weighted(scores, labels):
        return losses.focal_loss(
            scores, labels, gamma=2.0, weight=torch.tensor(weight), label_smoothing=smoothing
        )

    with pytest.warns(RecoveryWarning, match="no posterior has its minimum there"):
        generic = recover_posterior(logits=torch.tensor(z), loss=weighted).numpy()
    named = recover_posterior(
        logits=z, loss="focal", gamma=2.0, class_weight=weight, label_smoothing=smoothing
    )
    inside = (named > 0).all(axis=1)
    assert inside.sum() > 20
    assert np.isnan(generic[~inside]).all()  # no smoothed target can have led there
    assert_allclose(generic[inside], named[inside], atol=1e-10)


def test_the_three_libraries_agree():
    import jax

    z = np.random.default_rng(2).normal(size=(20, 5))

    def brier(scores, labels):
        xp = jax.numpy if isinstance(scores, jax.Array) else np
        p = xp.exp(scores)
        p = p / p.sum(axis=1, keepdims=True)
        return ((p - xp.eye(5)[labels]) ** 2).sum(axis=1)

    def in_torch(scores, labels):
        return ((scores.softmax(1) - torch.eye(5, dtype=scores.dtype)[labels]) ** 2).sum(1)

    want = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)  # the Brier score is proper
    assert_allclose(recover_posterior(logits=z, loss=brier), want, atol=1e-12)
    assert_allclose(
        recover_posterior(logits=torch.tensor(z), loss=in_torch).numpy(), want, atol=1e-12
    )
    with jax.enable_x64():
        found = recover_posterior(logits=jax.numpy.asarray(z), loss=brier)
    assert_allclose(np.asarray(found), want, atol=1e-12)


def test_a_loss_that_is_not_analytic_is_differentiated_by_differences():
    z = np.random.default_rng(3).normal(size=(30, 3))
    by_name = recover_posterior(logits=z, loss="focal", gamma=2.0)
    ours = functools.partial(losses.focal_loss, gamma=2.0)  # refuses complex numbers
    assert_allclose(recover_posterior(logits=z, loss=ours), by_name, atol=1e-8)

    def with_absolute_values(scores, labels):  # takes complex numbers, and loses their direction
        p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        return np.abs(-np.log(np.abs(p[np.arange(len(p)), labels])))

    found = recover_posterior(logits=z, loss=with_absolute_values)
    assert_allclose(found, np.exp(recover_log_posterior(z, 0.0)), atol=1e-8)


@given(
    z=st.floats(-8, 12),
    gamma_pos=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    gamma_neg=st.sampled_from([0.0, 1.0, 4.0]),
    margin=st.sampled_from([0.0, 0.05, 0.2]),
)
def test_asymmetric_loss_against_mpmath(z, gamma_pos, gamma_neg, margin):
    p = 1 / (1 + mp.exp(-mpf(z)))
    u = p - mpf(margin)
    assume(abs(u) > 1e-6)  # on the margin itself digits are lost
    if u <= 0:
        with pytest.warns(RecoveryWarning, match="1 of 1 rows have no posterior"):
            found = recover_posterior(
                logits=np.array([z]), loss="asymmetric", gamma_pos=gamma_pos,
                gamma_neg=gamma_neg, margin=margin,
            )  # fmt: skip
        assert np.isnan(found).all()
        return
    with mp.workdps(60):

        def negative(t):
            v = 1 / (1 + mp.exp(-t)) - mpf(margin)
            return -(v**gamma_neg) * mp.log(1 - v)

        def positive(t):
            w = 1 / (1 + mp.exp(-t))
            return -((1 - w) ** gamma_pos) * mp.log(w)

        g0, g1 = mp.diff(negative, mpf(z)), mp.diff(positive, mpf(z))
        want = float(g0 / (g0 - g1))
    found = recover_posterior(
        logits=np.array([z]), loss="asymmetric", gamma_pos=gamma_pos, gamma_neg=gamma_neg,
        margin=margin,
    )  # fmt: skip
    assert_allclose(found, [want], rtol=1e-7, atol=1e-12)


def test_sigmoid_focal_loss_is_the_asymmetric_one_with_weights():
    z = np.linspace(-5, 5, 11)
    two = np.stack([np.zeros(11), z], axis=1)
    want = recover_posterior(logits=two, loss="focal", gamma=2.0, class_weight=[0.75, 0.25])[:, 1]
    found = recover_posterior(logits=z, loss="sigmoid_focal", gamma=2.0, alpha=0.25)
    assert_allclose(found, want, rtol=1e-12)


@pytest.mark.parametrize("form", WITH_CONSTANTS, ids=str)
def test_saturated_and_impossible_classes_stay_finite(form):
    z = np.array([[800.0, 0, -5, 1], [0, 0, 0, 0], [1, 2, -np.inf, 0], [5e3, -5e3, 0, 1]])
    log_probs = recover_log_posterior(z, loss=form)
    assert not np.isnan(log_probs).any()
    assert_allclose(np.exp(log_probs).sum(axis=1), 1.0, rtol=1e-12)
    assert log_probs[2, 2] == -np.inf
    single = recover_log_posterior(torch.tensor(z[:2], dtype=torch.float32), loss=form)
    assert torch.isfinite(single[1]).all()


def test_a_loss_that_mixes_the_rows_is_refused():
    z = np.random.default_rng(3).normal(size=(5, 3))

    def mean(scores, labels):
        return -np.log(np.exp(scores)[np.arange(len(scores)), labels]).mean()

    with pytest.raises(ValueError, match="must return one loss per row"):
        recover_posterior(logits=z, loss=mean)
    # The mean of torch divides by the weights, which then would cancel.
    with pytest.raises(ValueError, match="reduction='none'"):
        recover_posterior(logits=torch.tensor(z), loss=torch.nn.CrossEntropyLoss(weight=WEIGHT))


def test_a_module_of_torch_with_weights_in_float32_is_taken_as_it_is():
    z = np.random.default_rng(3).normal(size=(50, 3))
    loss = torch.nn.CrossEntropyLoss(weight=WEIGHT, reduction="none")
    want = recover_posterior(logits=z, gamma=0.0, class_weight=WEIGHT.tolist())
    assert_allclose(recover_posterior(logits=torch.tensor(z), loss=loss), want, atol=1e-12)
    assert loss.weight.dtype == torch.float32


def test_jax_in_its_default_precision_loses_no_rows():
    import jax

    z = 2.0 * np.random.default_rng(0).normal(size=(200, 5))

    def focal(scores, labels):
        log_p = jax.nn.log_softmax(scores, axis=1)[jax.numpy.arange(len(scores)), labels]
        return -((1 - jax.numpy.exp(log_p)) ** 2) * log_p

    found = recover_posterior(logits=jax.numpy.asarray(z), loss=focal)
    assert_allclose(np.asarray(found), recover_posterior(logits=z, gamma=2.0), atol=1e-6)


def test_rows_without_a_posterior_are_nan_and_counted():
    def hinge(scores, labels):  # flat where the margin is above 1
        margin = scores[np.arange(len(scores)), labels] - scores.mean(axis=1)
        return np.maximum(1.0 - margin, 0.0)

    z = np.array([[9.0, 0.0, 0.0], [0.1, 0.0, 0.0]])
    with pytest.warns(RecoveryWarning, match="of 2 rows have no posterior and are nan"):
        found = recover_posterior(logits=z, loss=hinge)
    assert np.isnan(found[0]).all()


def test_a_maximum_of_the_risk_is_not_taken_for_a_minimum():
    def negated(z, label):  # gradient of minus cross-entropy: its risk has a maximum
        p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        return np.eye(z.shape[1])[label] - p

    z = np.random.default_rng(4).normal(size=(5, 3))
    assert recover_by_gradient(z, negated).counts == {"no minimum": 5}
    assert recover_by_gradient(z, negated, second_order=False).counts == {}


def test_log_odds_with_a_gradient_per_label():
    z = np.linspace(-3, 3, 7)

    def cross_entropy(scores, label):
        return 1 / (1 + np.exp(-scores)) - label

    found = recover_by_gradient(z, cross_entropy)
    assert_allclose(found.probs[:, 1], 1 / (1 + np.exp(-z)), rtol=1e-12)


def test_recoverability_names_the_three_kinds():
    assert recoverability("focal", 3, gamma=0.0, n_posteriors=4).verdict == "proper"
    found = recoverability("bsce", 3, beta=1.0, n_posteriors=4)
    assert found.verdict == "recoverable"
    assert found.worst_error < 1e-5
    # Without an exponent of label 1 the risk of a high posterior is least at infinite scores.
    found = recoverability(
        "asymmetric", 2, gamma_pos=0.0, gamma_neg=4.0, margin=0.05, n_posteriors=20
    )
    assert found.verdict == "recoverable on a region"
    assert found.n_recovered + found.n_outside == 20


@pytest.mark.slow
def test_dual_focal_loss_is_not_recoverable():
    dual = functools.partial(losses.dual_focal_loss, gamma=3.0)
    found = recoverability(dual, 3, n_posteriors=4)
    assert found.verdict == "not recoverable"
    posterior, least = found.counterexample
    assert_allclose(least, 1 / 3, atol=1e-3)
    assert np.ptp(posterior) > 0.1
    with pytest.raises(ValueError, match="hides the posterior"):
        recover_posterior(logits=np.zeros((1, 3)), loss="dual_focal")


def test_messages_name_the_parameter():
    z = np.zeros((1, 3))
    with pytest.raises(ValueError, match=r"has the parameters \['gamma'\]"):
        recover_posterior(logits=z)
    with pytest.raises(ValueError, match="`beta` is no parameter of the loss 'focal'"):
        recover_posterior(logits=z, gamma=1.0, beta=2.0)
    with pytest.raises(ValueError, match=r"functools\.partial"):
        recover_posterior(logits=z, gamma=1.0, loss=losses.focal_loss)
    with pytest.raises(ValueError, match="Pass either `probs`"):
        recover_posterior()
    with pytest.raises(ValueError, match="`loss` must be one of"):
        recover_posterior(logits=z, loss="focl", gamma=1.0)
    assert set(LOSS_FORMS) >= {"focal", "poly_focal", "bsce", "bsce_gra", "asymmetric"}


@pytest.mark.parametrize(
    ("loss", "plain"),
    [
        (of("poly_focal", gamma=2.0, epsilon=0.0), 2.0),
        (of("bsce", beta=0.0), 0.0),
    ],
)
def test_new_losses_contain_the_old_ones(loss, plain):
    rng = np.random.default_rng(5)
    z, y = rng.normal(size=(30, 4)), rng.integers(4, size=30)
    assert_allclose(loss(z, y), losses.focal_loss(z, y, gamma=plain), rtol=1e-13)
    soft = rng.dirichlet(np.ones(4), size=30)
    assert_allclose(loss(z, soft), losses.focal_loss(z, soft, gamma=plain), rtol=1e-12)


def test_focal_calibration_loss_adds_the_brier_score():
    rng = np.random.default_rng(6)
    z, y = rng.normal(size=(30, 4)), rng.integers(4, size=30)
    want = losses.focal_loss(z, y, gamma=3.0) + 0.7 * losses.brier_loss(z, y)
    got = of("focal_calibration", gamma=3.0, weight=0.7)(z, y)
    assert_allclose(got, want, rtol=1e-13)


def test_bsce_gra_has_the_weighted_gradient_of_cross_entropy():
    z = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    y = torch.tensor([0, 1, 2, 0, 1, 2])
    loss = of("bsce_gra", beta=1.5)(z, y)
    (got,) = torch.autograd.grad(loss.sum(), z)
    p = z.softmax(1).detach()
    hot = torch.eye(3, dtype=torch.float64)[y]
    weight = (p - hot).square().sum(1).pow(0.75)[:, None]
    assert_allclose(got.numpy(), (weight * (p - hot)).numpy(), rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0, 1e4])
@pytest.mark.parametrize(
    "loss",
    [
        of("poly_focal", gamma=0.5, epsilon=1.0),
        of("bsce", beta=0.5),
        of("bsce_gra", beta=0.5),
        of("focal_calibration", gamma=0.5, weight=1.0),
        lambda z, y: of("asymmetric", gamma_pos=0.0, gamma_neg=4.0, margin=0.05)(
            z, (y == 0) * torch.ones(3)
        ),
    ],
    ids=["poly_focal", "bsce", "bsce_gra", "focal_calibration", "asymmetric"],
)
def test_new_losses_are_finite_to_second_order_in_float32(loss, scale):
    z = scale * torch.tensor([1.0, -1.0, 0.0])
    for label in range(3):
        y = torch.tensor(label)
        assert math.isfinite(loss(z, y).sum().item())
        hessian = torch.autograd.functional.hessian(lambda z, y=y: loss(z, y).sum(), z)
        assert torch.isfinite(hessian).all()


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("spread", [0.5, 2.0, 6.0])
def test_differences_of_the_risk_find_the_same_minima_as_those_of_its_gradient(n_classes, spread):
    def wavy(z, y):  # has minima, saddles and maxima
        e = np.exp(z - z.real.max(axis=1, keepdims=True))
        p = (e / e.sum(axis=1, keepdims=True))[np.arange(len(z)), y]
        return -np.log(p) + 0.8 * np.sin(5.0 * p)

    z = spread * np.random.default_rng(3).normal(size=(200, n_classes))
    gradient = gradient_field(wavy, z)
    exact = recover_by_gradient(z, gradient)
    fast = recover_by_gradient(z, gradient, value=value_field(wavy, z))
    assert {0, 5} <= set(exact.reason.tolist())
    assert_array_equal(fast.reason, exact.reason)
    assert_array_equal(fast.probs, exact.probs)


def test_recoverability_of_single_labels_is_of_two_classes():
    assert recoverability("sigmoid_focal", 2, gamma=2.0, alpha=0.25, n_posteriors=4).n_tried == 4
    with pytest.raises(ValueError, match=r"`n_classes` must be 2 for 'asymmetric', .* got 3"):
        recoverability("asymmetric", 3, gamma_pos=0.0, gamma_neg=4.0, margin=0.05)
