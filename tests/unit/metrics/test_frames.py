"""Every metric takes data frames, series and lists as it takes arrays."""

import numpy as np
import pytest

from focalibrate import metrics

pd = pytest.importorskip("pandas")


def approx(value):
    """Sums over columns of a data frame may differ in their last bits."""
    return pytest.approx(value, rel=1e-12)


RNG = np.random.default_rng(7)
P = RNG.dirichlet(np.ones(3), 60)
Y = RNG.integers(0, 3, 60)
W = RNG.random(60) + 0.1
BINARY = P[:, 0]
HITS = (Y == 0).astype(int)

SCORES = ("ece", "mce", "adaptive_ece", "classwise_ece", "smooth_ece", "nll", "brier_score",
          "error_rate")  # fmt: skip


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("form", [pd.DataFrame, lambda x: x.tolist()], ids=["pandas", "list"])
def test_scores(name, form):
    metric = getattr(metrics, name)
    labels = pd.Series(Y) if form is pd.DataFrame else Y.tolist()
    assert metric(form(P), labels) == approx(metric(P, Y))
    weighted = metric(form(P), labels, sample_weight=pd.Series(W))
    assert weighted == approx(metric(P, Y, sample_weight=W))
    if name != "classwise_ece":
        one = metric(BINARY, HITS, binary=True)
        assert metric(pd.Series(BINARY), pd.Series(HITS), binary=True) == approx(one)


@pytest.mark.parametrize(("p", "y"), [(P, Y), (BINARY, HITS)], ids=["all", "one column"])
def test_assessments(p, y):
    given = (pd.DataFrame if p.ndim == 2 else pd.Series)(p), pd.Series(y)
    assert metrics.assess(*given).rms.estimate == approx(metrics.assess(p, y).rms.estimate)
    want = metrics.corp(p, y, n_draws=9).brier.miscalibration
    assert metrics.corp(*given, n_draws=9).brier.miscalibration == approx(want)


def test_log_probabilities_and_sketches():
    logs = np.log(P)
    assert metrics.nll(log_probs=pd.DataFrame(logs), labels=pd.Series(Y)) == metrics.nll(
        log_probs=logs, labels=Y
    )
    found = metrics.Sketch.of(logits=pd.DataFrame(logs), labels=pd.Series(Y))
    assert found.evaluate().errors == metrics.Sketch.of(logits=logs, labels=Y).evaluate().errors
