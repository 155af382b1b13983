from dataclasses import replace

import numpy as np
import pytest

from focalibrate.comparison import choose, compare_methods


def test_a_calibrated_model_is_left_alone(calibrated):
    choice = choose(calibrated)
    assert choice.row.method == "identity"


def test_an_overconfident_model_gets_the_simplest_cure(cured):
    choice = choose(cured)
    assert choice.row.method == "temperature"


def test_a_real_gain_is_used_at_small_n(make_problem):
    """T = 1.25 at 200 rows: one standard error allows a gain that a 95 % interval does not."""
    chosen = []
    for seed in range(8):
        z, y = make_problem(200, scale=1.25, seed=seed, n_classes=10)
        found = compare_methods(z, y, methods=["temperature"], n_resamples=2)
        chosen.append(choose(found).row.method)
    assert chosen.count("temperature") >= 4


def test_a_method_can_be_forced(cured, calibrated):
    choice = choose(cured, method="vector")
    assert choice.row.method == "vector"
    assert choice.is_forced
    assert choice.best.method in ("temperature", "vector")
    assert choose(calibrated, method="identity").row.method == "identity"
    with pytest.raises(ValueError, match=r"`method` must be one of those compared"):
        choose(cured, method="isotonic")


def test_the_only_method_needs_no_company(overconfident):
    z, y = overconfident
    choice = choose(compare_methods(z[:300], y[:300], methods=["identity"], n_resamples=10))
    assert choice.row is choice.best
    assert choice.reason == ""


def test_infinite_log_losses_lose(cured):
    bad = cured.row("temperature")
    nll = bad.units.nll.copy()
    nll[[3, 8]] = np.inf
    bad = replace(bad, units=replace(bad.units, nll=nll))
    choice = choose(replace(cured, rows=(cured.rows[0], bad, cured.rows[2])))
    assert choice.row.method == "vector"


def test_no_choice_where_nothing_could_be_fitted(cured):
    nothing = replace(cured, rows=cured.rows[:1], skipped=(("temperature", "no way"),))
    with pytest.raises(
        ValueError, match=r"could be fitted, so there is no verdict. temperature: "
    ):
        choose(nothing)


def test_rows_without_a_mistake_are_no_exit(make_problem):
    """The uniform share of 1 / (n + 1) limits what a temperature gains from right predictions."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(30, 3))
    found = compare_methods(logits, logits.argmax(axis=1), methods=["temperature"], n_resamples=20)
    choice = choose(found)
    assert choice.row.method == "temperature"
    assert choice.row.calibrator.uniform_mix == 1 / 31
    assert found.row("temperature").scores["nll"].estimate > (2 / 3) / 31


def with_gaps(found, **gaps):
    """The comparison with losses that differ from the model's by a gap, give or take 1 per row."""
    give_or_take = np.where(np.arange(found.n_judged) % 2, 1.0, -1.0)
    model = found.row("identity").units.nll
    rows = []
    for row in found.rows:
        nll = model + (gaps[row.method] + give_or_take if row.method in gaps else 0.0)
        score = replace(row.scores["nll"], estimate=float(nll.mean()))
        scores, units = {**row.scores, "nll": score}, replace(row.units, nll=nll)
        rows.append(replace(row, scores=scores, units=units))
    return replace(found, rows=tuple(rows))


@pytest.mark.parametrize(
    ("temperature", "vector", "chosen", "reason"),
    [
        (
            -0.001, 0.3, "identity",
            "The lowest cross-validated log loss, {temperature} (temperature), is within one "
            "standard error of the uncalibrated model's, {identity}.",
        ),
        (0.3, 0.3, "identity", ""),
        (-0.3, -0.5, "vector", ""),
    ],
)  # fmt: skip
def test_the_reason_says_what_was_lowest_and_how_clearly(
    cured, temperature, vector, chosen, reason
):
    found = with_gaps(cured, temperature=temperature, vector=vector)
    choice = choose(found)
    assert choice.row.method == chosen
    shown = {row.method: f"{row.scores['nll'].estimate:.4f}" for row in found.rows}
    assert choice.reason == reason.format(**shown)


def test_a_simpler_method_as_good_is_taken_and_the_reason_says_so(cured):
    found = with_gaps(cured, temperature=-0.3, vector=-0.3)
    rows = list(found.rows)
    noise = 0.05 * np.random.default_rng(0).normal(size=found.n_judged)
    nll = rows[2].units.nll + noise - noise.mean() - 1e-6
    score = replace(rows[2].scores["nll"], estimate=float(nll.mean()))
    rows[2] = replace(
        rows[2],
        units=replace(rows[2].units, nll=nll),
        scores={**rows[2].scores, "nll": score},
    )
    choice = choose(replace(found, rows=tuple(rows)))
    assert (choice.row.method, choice.best.method) == ("temperature", "vector")
    assert choice.reason.startswith("Temperature is the simplest method whose cross-validated")


def test_methods_that_are_only_shown_cannot_be_chosen_and_say_why(overconfident):
    z, y = overconfident
    found = compare_methods(z[:300], y[:300], n_resamples=2)
    reasons = {row.method: row.why_not for row in found.rows}
    assert reasons["identity"] == reasons["temperature"] == reasons["structured_matrix"] == ""
    assert reasons["isotonic"] == "used only as a member of the average"
    assert reasons["vector"] == "shown for comparison only"
    lowest = replace(found.row("vector"), units=replace(
        found.row("vector").units, nll=np.zeros(300)))  # fmt: skip
    rows = tuple(lowest if row.method == "vector" else row for row in found.rows)
    assert choose(replace(found, rows=rows)).row.method != "vector"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_chosen_is_the_lowest_or_simplest_equal_of_the_table_shown(seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=500) * 2
    y = (rng.random(500) < 1 / (1 + np.exp(-z))).astype(int)
    logits = np.stack([0 * z, z * np.where(rng.random(500) < 0.3, 2.5, 1.0)], axis=1)
    found = compare_methods(logits, y)
    choice = choose(found)
    shown = {m.method: m.scores["nll"].estimate for m in found.rows if not m.why_not}
    assert shown[choice.best.method] == min(shown.values())
    assert choice.row.complexity <= choice.best.complexity
    for row in found.rows:  # one log loss per method
        assert row.scores["nll"].estimate == pytest.approx(row.units.nll.mean())


def test_an_average_can_be_asked_for(overconfident):
    z, y = overconfident
    found = compare_methods(z[:400], y[:400], methods=["average"], n_resamples=10)
    choice = choose(found, method="average")
    assert choice.is_forced
    if found.sole_member is None:
        assert choice.row.calibrator.kind == "average"
        fitted = {row.calibrator for row in found.rows}
        assert set(choice.row.calibrator.members) <= fitted  # none is fitted again
    else:
        assert choice.row.method == found.sole_member


def test_predictions_that_change_are_counted_on_the_calibrator_to_deploy(make_problem):
    z, y = make_problem(200, scale=1.0, n_classes=3)
    found = compare_methods(z, y, methods=["isotonic"], n_resamples=2).row("isotonic")
    changed = found.calibrator.probs(z).argmax(axis=1) != z.argmax(axis=1)
    assert found.n_predictions_changed == changed.sum() > 0
