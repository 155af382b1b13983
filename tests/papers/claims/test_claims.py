"""Every claim gets its verdict, and the printed counterexamples are verified independently."""

import math

import numpy as np
import pytest
from mpmath import findroot, log, mp, mpf

from focalibrate_papers.claims import (
    CLAIMS,
    Claim,
    Finding,
    check_claim,
    check_claims,
    minimax_line,
)
from focalibrate_papers.claims._plain import two_class_slack

pytestmark = pytest.mark.slow  # checking all claims takes seconds

PRINCIPAL = {
    "000": "thm-3 thm-5 thm-8 thm-11 prop-6 prop-12 cor-9 cor-10",
    "002": "prop-1 prop-2 app-h",
    "003": "prop-1 prop-2 prop-3 prop-4 prop-5 fit-k2 fit-k3 fit-k4",
    "004": "lemma-1 eq-28 eq-30 eq-31",
}


@pytest.fixture(scope="module")
def outcomes():
    return {outcome.claim.id: outcome for outcome in check_claims()}


def counterexample(outcomes, name):
    return outcomes[name].finding.counterexample


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_claim_gets_the_expected_verdict(outcomes, claim):
    outcome = outcomes[claim.id]
    assert outcome.error is None
    assert outcome.finding.verdict == claim.expected
    assert outcome.finding.evidence
    assert (outcome.finding.counterexample is not None) == (
        claim.expected in ("false", "slip", "digit")
    )
    assert claim.expected != "holds where" or outcome.finding.where


def test_the_principal_claims_of_each_paper_are_there_once():
    ids = [claim.id for claim in CLAIMS]
    owed = {f"{paper}-{part}" for paper, parts in PRINCIPAL.items() for part in parts.split()}
    assert owed <= set(ids)
    assert len(set(ids)) == len(ids)


def test_checks_are_deterministic(outcomes):
    again = {o.claim.id: o.finding for o in check_claims(["002-app-g", "003-prop-4"])}
    assert again == {name: outcomes[name].finding for name in again}


def test_selection_keeps_the_order_of_the_papers():
    assert [o.claim.id for o in check_claims(["004-fig-1", "001-scores"])] == [
        "001-scores",
        "004-fig-1",
    ]


def test_unknown_id_is_refused_with_the_known_ones():
    with pytest.raises(
        ValueError, match=r"no claim '000-thm-99'\. Did you mean .* Known are 000-thm-3, "
    ):
        check_claims(["000-thm-99"])


def test_a_check_that_raises_is_an_unexpected_outcome():
    def broken() -> Finding:
        raise ZeroDivisionError("no")

    outcome = check_claim(
        Claim(id="x", source="s", statement="t", sentence="p", expected="holds", check=broken)
    )
    assert not outcome.is_expected
    assert outcome.error == "ZeroDivisionError: no"


# Independent recomputation: 50 digits, formulas written out anew.


def mp_phi(p, gamma):
    return (1 - p) ** gamma - gamma * (1 - p) ** (gamma - 1) * p * log(p)


def mp_top(q, gamma):
    with mp.workdps(50):
        h = [mpf(x) / mp_phi(mpf(x), mpf(gamma)) for x in q]
        return float(max(h) / sum(h))


@pytest.mark.parametrize(
    ("q", "gamma"),
    [
        ([0.33, 0.33, 0.33, 0.01], 0.5),
        ([0.331, 0.3295, 0.3295, 0.01], 0.1),
        ([0.05] + [0.95 / 999] * 999, 1),
        ([0.2] + [0.8 / 999] * 999, 2),
    ],
)
def test_recovery_lowers_the_top_probability(outcomes, q, gamma):
    top = mp_top(q, gamma)
    assert top < max(q)
    assert f"{max(q):g} falls to {top:.6f}" in counterexample(outcomes, "003-prop-5")


@pytest.mark.parametrize("tied", [3, 4])
def test_our_extension_of_the_footnote_with_four_and_five_classes(outcomes, tied):
    q = [0.999 / tied] * tied + [0.001]
    text = outcomes["000-footnote-2"].finding.evidence
    with mp.workdps(30):
        limit = float(findroot(lambda g: mp_phi(mpf(1) / tied, g) - 1, (1.2, 4)))
    assert mp_top(q, limit / 2) < max(q)
    assert f"true top {mp_top(q, limit / 2):.6f} < {max(q):.6f}" in text
    assert f"γ*(1/{tied}) = {limit:.4f}" in text


def test_the_footnote_in_its_limit(outcomes):
    """Near the uniform vector: five classes up to a γ of 0.0293, four never."""
    text = outcomes["000-footnote-2"].finding.evidence
    with mp.workdps(40):
        for k, gamma, is_over in ((5, 0.029, True), (5, 0.030, False), (4, 0.001, False)):
            top = mpf(1) / k + mpf("1e-6")
            q = [top] + [(1 - top) / (k - 1)] * (k - 1)
            h = [x / mp_phi(x, mpf(gamma)) for x in q]
            assert (h[0] / sum(h) < top) == is_over
    assert "at most 0.2032" in text
    assert "γ < 0.0293" in text


@pytest.mark.parametrize(
    ("name", "eta", "gamma"), [("001-scores", 0.9, 1), ("003-example", 0.8, 2)]
)
def test_binary_minimisers(outcomes, name, eta, gamma):
    with mp.workdps(30):  # φ(q)/q in the ratio of the odds is the condition of the first order
        root = findroot(
            lambda q: eta * mp_phi(q, gamma) / q - (1 - eta) * mp_phi(1 - q, gamma) / (1 - q),
            (0.55, 0.85),
            solver="anderson",
        )
    finding = outcomes[name].finding
    assert f"{float(root):.4f}" in (finding.counterexample or finding.evidence)


def plain_recovery(z, gamma):
    v = np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True)
    h = v / ((1 - v) ** gamma - gamma * (1 - v) ** (gamma - 1) * v * np.log(v))
    return h / h.sum(axis=-1, keepdims=True)


def least_worst_difference(z, gamma, temperatures):
    target = plain_recovery(z, gamma)
    worst = []
    for t in temperatures:
        e = np.exp((z - z.max(axis=-1, keepdims=True)) / t)
        worst.append(np.abs(e / e.sum(axis=-1, keepdims=True) - target).max())
    i = int(np.argmin(worst))
    return temperatures[i], worst[i]


@pytest.mark.parametrize(
    ("n_classes", "gamma", "want"), [(2, 3, 0.276), (3, 1, 0.658), (3, 3, 0.356)]
)
def test_caption_temperatures_by_a_grid(outcomes, n_classes, gamma, want):
    grid = np.linspace(-9, 0, 91)
    axes = np.meshgrid(*[grid] * (n_classes - 1), indexing="ij")
    z = np.stack([0 * axes[0], *axes], axis=-1).reshape(-1, n_classes)
    t, _ = least_worst_difference(z, gamma, np.arange(want - 0.05, want + 0.05, 0.001))
    assert t == pytest.approx(want, abs=0.004)
    name = {2: "003-fig-2", 3: "003-fig-5"}[n_classes]
    assert f"γ={gamma}: nearest T={want:.3f}"[:-1] in counterexample(outcomes, name)


def test_two_classes_differ_by_more_than_a_thousandth():
    s = np.linspace(0.01, 12, 3000)
    z = np.stack([s, 0 * s], axis=-1)
    _, difference = least_worst_difference(z, 0.45, np.arange(0.70, 0.80, 2e-4))
    assert 1.2e-3 < difference < 1.25e-3


def test_four_classes_differ_by_more_than_eight_percent():
    s = np.linspace(0.05, 3, 60)
    counts = [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)]
    pairs = [[0 * s] * a + [-s] * b + [0 * s - 18] * (4 - a - b) for a, b in counts]
    z = np.concatenate([np.stack(levels, axis=-1) for levels in pairs])
    _, difference = least_worst_difference(z, 9, np.geomspace(0.05, 1, 600))
    assert difference > 0.11


def test_printed_lower_bound_is_passed(outcomes):
    with mp.workdps(50):
        q = 1 / (1 + mp.exp(-mpf(20)))
        ratio = mp_phi(1 - q, 4) / mp_phi(q, 4) * q / (1 - q)
        temperature = float(20 / log(ratio))
    assert temperature < 0.206
    assert f"T={temperature:.4f}" in counterexample(outcomes, "003-bounds")


def test_derivative_at_certainty_by_differentiation(outcomes):
    with mp.workdps(40):
        slopes = [
            float(mp.diff(lambda p: -((1 - p) ** mpf("0.25")) * log(p), 1 - mpf(gap)))
            for gap in ("1e-4", "1e-8", "1e-12")
        ]
    text = counterexample(outcomes, "004-eq-31")
    assert ", ".join(f"{x:.3g}" for x in slopes) in text
    with mp.workdps(40):
        slope = float(mp.diff(lambda p: -((1 - p) ** 2) * log(p), mpf("0.6")))
    assert f"the rate {slope:.4f}" in counterexample(outcomes, "004-eq-30")


def test_curvature_at_the_cross_entropy_minimum_by_automatic_differentiation(outcomes):
    import torch

    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(200, 5)), rng.normal(size=(3, 5))
    y = torch.tensor((x @ w.T + rng.gumbel(size=(200, 3))).argmax(axis=1))
    x = torch.tensor(x)

    def loss(flat, gamma):
        log_p = torch.log_softmax(x @ flat.reshape(3, 5).T, -1)[torch.arange(200), y]
        return (-((1 - log_p.exp()) ** gamma) * log_p).mean()

    weights = torch.zeros(15, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([weights], max_iter=500, tolerance_grad=1e-12)

    def closure():
        optimiser.zero_grad()
        value = loss(weights, 0.0)
        value.backward()
        return value

    optimiser.step(closure)
    top = [
        torch.linalg.eigvalsh(
            torch.autograd.functional.hessian(lambda f, g=g: loss(f, g), weights.detach())
        )[-1].item()
        for g in (0.0, 0.5, 1.0, 2.0, 3.0)
    ]
    assert top[:4] == sorted(top[:4])
    assert ", ".join(f"{t:.4f}" for t in top) in counterexample(outcomes, "004-eq-28")


@pytest.mark.parametrize("x", ["1e-100", "1e-30", "1e-3", "0.1", "0.5", "0.9", "0.999999"])
def test_the_steps_of_the_entropy_bound(x):
    with mp.workdps(400):
        x = mpf(x)
        entropy = -x * log(x) - (1 - x) * log(1 - x)
        assert -log(1 - x) <= x / mp.sqrt(1 - x)
        assert log(x) * log(1 - x) * (mp.sqrt(x) + mp.sqrt(1 - x)) <= entropy
        for gamma in ("1e-6", "0.3", "1", "7"):
            g = mpf(gamma)
            assert -log(x) * (1 - (1 - x) ** g) <= g * entropy
        room = float(1 - log(x) * log(1 - x) / entropy)
    assert two_class_slack(np.array(float(x))) == pytest.approx(room, rel=1e-6)


def test_minimax_line_equals_the_chebyshev_line_of_a_parabola():
    x = np.linspace(0, 1, 1001)
    line = minimax_line(x, x**2)
    assert (line.slope, line.intercept) == pytest.approx((1.0, -0.125), abs=1e-6)
    assert line.deviation == pytest.approx(0.125, abs=1e-6)
    assert math.isfinite(line.deviation)
