import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.boosting import FocalObjective, recover_from_objective
from focalibrate.theory import RecoveryWarning, loss_form, recover_posterior

MARGINS = np.random.default_rng(0).normal(size=40) * 2


def weighted(labels, margins):
    """A weighted log loss, as people write it for LGBMClassifier."""
    p = 1 / (1 + np.exp(-margins))
    w = np.where(labels == 1, 3.0, 1.0)
    return w * (p - labels), w * p * (1 - p)


def test_a_weighted_log_loss_is_undone():
    p = 1 / (1 + np.exp(-MARGINS))
    want = p / 3.0 / (p / 3.0 + (1 - p))
    assert_allclose(recover_from_objective(MARGINS, weighted)[:, 1], want, rtol=1e-12)


def test_both_conventions_agree():
    def native(margins, data):
        return weighted(data.get_label(), margins)

    one = recover_from_objective(MARGINS, weighted)
    assert_allclose(recover_from_objective(MARGINS, native, convention="native"), one, rtol=1e-14)
    with pytest.raises(AttributeError) as error:
        recover_from_objective(MARGINS, native)
    assert "pass convention='native'" in error.value.__notes__[0]


def test_our_focal_objective_gives_the_same_as_its_closed_form():
    objective = FocalObjective(2.0, alpha=0.25)
    found = recover_from_objective(MARGINS, objective)
    assert_allclose(found, objective.probs(MARGINS), atol=1e-10)
    z = np.random.default_rng(1).normal(size=(30, 4))
    many = FocalObjective(2.0)
    assert_allclose(recover_from_objective(z, many), many.probs(z), atol=1e-10)


@pytest.mark.parametrize(
    "form",
    [
        loss_form("asymmetric", gamma_pos=1.0, gamma_neg=4.0, margin=0.0),
        loss_form("poly_focal", gamma=2.0, epsilon=1.0),
        loss_form("focal_calibration", gamma=2.0, weight=0.5),
    ],
    ids=str,
)
def test_the_objective_of_a_named_loss_leads_back_to_its_closed_form(form):
    objective = FocalObjective(loss=form)
    found = recover_from_objective(MARGINS, objective, second_order=False)
    assert_allclose(found, objective.probs(MARGINS), atol=1e-6)


def test_several_classes_and_native_data():
    form = loss_form("poly_focal", gamma=1.0, epsilon=0.5)
    z = np.random.default_rng(2).normal(size=(20, 3))
    objective = FocalObjective(loss=form)
    assert_allclose(objective.probs(z), recover_posterior(logits=z, loss=form))

    class Data:
        def get_label(self):
            return np.zeros(20)

        def get_weight(self):
            return np.empty(0)

    for got, want in zip(objective(z, Data()), objective(np.zeros(20), z), strict=True):
        assert_allclose(got, want)
    with pytest.raises(ValueError, match="of single labels"):
        FocalObjective(loss=loss_form("asymmetric", gamma_pos=1.0, gamma_neg=4.0, margin=0.0))(
            np.zeros(20), z
        )


def test_rows_below_the_margin_are_counted():
    form = loss_form("asymmetric", gamma_pos=1.0, gamma_neg=4.0, margin=0.1)
    with pytest.warns(RecoveryWarning, match="1 of 2 rows have no posterior"):
        found = FocalObjective(loss=form).probs(np.array([-4.0, 1.0]))
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()


@pytest.mark.parametrize(
    "objective",
    [FocalObjective(2.0), FocalObjective(loss=loss_form("poly_focal", gamma=2.0, epsilon=0.0))],
    ids=["focal", "named"],
)
@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_weights_of_the_libraries_own_classifiers_count(objective, library, n_classes):
    package = pytest.importorskip(library)
    rng = np.random.default_rng(4)
    x = rng.normal(size=(300, 2))
    y = (x[:, 0] + rng.normal(size=300) > 0).astype(int) + (n_classes == 3) * (x[:, 1] > 0.5)
    times = rng.integers(1, 4, size=300)
    settings = {"objective": objective, "n_estimators": 8, "n_jobs": 1}
    if library == "xgboost":
        make, ask = package.XGBClassifier, {"output_margin": True}
        settings |= {"tree_method": "exact", "base_score": 0.5}
    else:
        make, ask = package.LGBMClassifier, {"raw_score": True}
        settings |= {"verbose": -1, "min_child_samples": 1, "min_child_weight": 5.0}
    weighted = make(**settings).fit(x, y, sample_weight=times).predict(x, **ask)
    repeated = make(**settings).fit(np.repeat(x, times, axis=0), np.repeat(y, times))
    plain = make(**settings).fit(x, y).predict(x, **ask)
    assert np.abs(weighted - plain).max() > 0.01
    if library == "xgboost":  # LightGBM's bins count rows
        assert_allclose(weighted, repeated.predict(x, **ask), atol=1e-3)


@pytest.mark.slow
def test_lightgbm_with_an_objective_of_ones_own_gives_true_probabilities():
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(3)
    x = rng.normal(size=(6000, 1))
    truth = 1 / (1 + np.exp(-(2 * x[:, 0] - 1)))
    y = (rng.random(6000) < truth).astype(int)
    model = lightgbm.LGBMClassifier(
        objective=weighted, n_estimators=60, num_leaves=8, min_child_samples=100, verbose=-1
    ).fit(x, y)
    margins = model.predict(x, raw_score=True)
    raw = 1 / (1 + np.exp(-margins))
    probs = recover_from_objective(margins, weighted)[:, 1]
    assert abs(raw.mean() - truth.mean()) > 0.1
    assert abs(probs.mean() - truth.mean()) < 0.02


def test_messages():
    with pytest.raises(ValueError, match="gradients of the margins' shape"):
        recover_from_objective(MARGINS, lambda y, z: (np.zeros(3), None))
    with pytest.raises(ValueError, match=r"shape \[N\] or \[N, K\]"):
        recover_from_objective(np.zeros((2, 2, 2)), weighted)
