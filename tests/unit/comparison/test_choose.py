from dataclasses import replace

import numpy as np
import pytest

from focalibrate.comparison import choose, compare, verdict


def test_a_calibrated_model_is_left_alone(calibrated):
    choice = choose(calibrated)
    assert choice.row.method == "identity"
    assert choice.row in choice.equals


def test_an_overconfident_model_gets_the_simplest_cure(cured):
    choice = choose(cured)
    assert choice.row.method == "temperature"
    assert choice.row in choice.equals
    assert choose(cured, score="brier").score == "brier"


def test_a_real_gain_is_used_at_small_n(make_problem):
    """T = 1.25 at 200 rows: one standard error allows a gain that a 95 % interval does not."""
    chosen = []
    for seed in range(8):
        z, y = make_problem(200, scale=1.25, seed=seed, n_classes=10)
        found = compare(z, y, methods=["temperature"], n_resamples=2)
        chosen.append(choose(found).row.method)
    assert chosen.count("temperature") >= 4


def test_the_score_of_the_winner_is_without_the_optimism_of_the_choice(make_problem):
    """Many equal methods: the lowest looks better than it is, the nested score does not."""
    z, y = make_problem(400, scale=1.0)
    found = compare(z, y, methods=["temperature"], n_resamples=50)
    rng = np.random.default_rng(1)
    row = found.row("temperature")
    flatter = []
    for i in range(30):
        noise = rng.normal(0, 0.5, size=400)
        scores = replace(row.row_scores, nll=row.row_scores.nll + noise)
        mean = replace(row.scores["nll"], estimate=float(scores.nll.mean()))
        flatter.append(
            replace(
                row,
                method=f"m{i}",
                complexity=-i,
                row_scores=scores,
                scores={**row.scores, "nll": mean},
            )
        )
    choice = choose(replace(found, rows=(found.rows[0], *flatter)))
    assert choice.held_out["nll"].estimate > choice.row.scores["nll"].estimate


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
    choice = choose(compare(z[:300], y[:300], methods=["identity"], n_resamples=10))
    assert choice.row is choice.best
    assert choice.reason.endswith("no other method could be compared.")


def test_infinite_scores_are_excluded_by_name(cured):
    bad = cured.row("vector")
    nll = bad.row_scores.nll.copy()
    nll[[3, 8]] = np.inf
    rows = (*cured.rows[:2], replace(bad, row_scores=replace(bad.row_scores, nll=nll)))
    choice = choose(replace(cured, rows=rows))
    assert choice.row.method == "temperature"
    assert choice.excluded == (
        (
            "vector",
            "vector scaling gives probability 0 to the true class of 2 examples, so its log "
            "loss is infinite",
        ),
    )


def test_where_every_log_loss_is_infinite_the_brier_score_decides(cured):
    rows = []
    for row in cured.rows:
        nll = row.row_scores.nll.copy()
        nll[0] = np.inf
        rows.append(replace(row, row_scores=replace(row.row_scores, nll=nll)))
    choice = choose(replace(cured, rows=tuple(rows), model_nll=rows[0].row_scores.nll))
    assert choice.score == "brier"
    assert choice.row.method == "temperature"
    assert "so the Brier score decides" in choice.reason


def test_no_choice_where_nothing_could_be_fitted(cured):
    nothing = replace(cured, rows=cured.rows[:1], skipped=(("temperature", "no way"),))
    with pytest.raises(
        ValueError, match=r"could be fitted, so there is no verdict. temperature: "
    ):
        choose(nothing)


def test_unknown_score(cured):
    with pytest.raises(ValueError, match=r"`score` must be one of .* got 'ece'"):
        choose(cured, score="ece")


def test_a_model_without_a_mistake_is_kept():
    """Nothing limits a temperature fitted on right predictions only."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(30, 3))
    found = compare(logits, logits.argmax(axis=1), methods=["temperature"], n_resamples=20)
    choice = choose(found)
    assert choice.row.method == "identity"
    assert "Every one of the 30 predictions is right" in choice.reason
    assert [method for method, _ in choice.excluded] == ["temperature"]
    assert "makes no mistake on these rows" in verdict(found, choice)
    assert choose(found, method="temperature").row.method == "temperature"


def with_gaps(found, **gaps):
    """The comparison with losses that differ from the model's by a gap, give or take 1 per row."""
    give_or_take = np.where(np.arange(found.n_judged) % 2, 1.0, -1.0)
    model = found.row("identity").row_scores.nll
    rows = []
    for row in found.rows:
        nll = model + (gaps[row.method] + give_or_take if row.method in gaps else 0.0)
        score = replace(row.scores["nll"], estimate=float(nll.mean()))
        scores, row_scores = {**row.scores, "nll": score}, replace(row.row_scores, nll=nll)
        rows.append(replace(row, scores=scores, row_scores=row_scores))
    return replace(found, rows=tuple(rows), model_nll=model)


@pytest.mark.parametrize(
    ("temperature", "vector", "chosen", "reason"),
    [
        (
            -0.001, 0.3, "identity",
            "Temperature has the lowest cross-validated log loss, {temperature}. "
            "That is not clearly below the uncalibrated model's, {identity}.",
        ),
        (
            0.3, 0.3, "identity",
            "The uncalibrated model has the lowest cross-validated log loss, {identity}, "
            "more than one standard error below every other method.",
        ),
        (
            0.001, 0.3, "identity",
            "The uncalibrated model has the lowest cross-validated log loss, {identity}. "
            "Within one standard error of it but more complex: temperature.",
        ),
        (
            -0.3, -0.5, "vector",
            "Vector scaling has the lowest cross-validated log loss, {vector}, "
            "more than one standard error below every other method.",
        ),
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


def test_methods_that_are_only_shown_are_not_called_worse(cured):
    found = with_gaps(cured, temperature=-0.3, vector=-0.5)
    choice = choose(replace(found, candidates=("identity", "temperature")))
    assert choice.row.method == "temperature"
    value = f"{found.row('temperature').scores['nll'].estimate:.4f}"
    assert choice.reason == (
        "The choice is made from the uncalibrated model and temperature. Temperature has the "
        f"lowest cross-validated log loss among these, {value}, more than one standard error "
        "below the others."
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_score_called_lowest_is_the_lowest_shown(seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=500) * 2
    y = (rng.random(500) < 1 / (1 + np.exp(-z))).astype(int)
    logits = np.stack([0 * z, z * np.where(rng.random(500) < 0.3, 2.5, 1.0)], axis=1)
    found = compare(logits, y, methods=["temperature", "quadratic", "spline", "pool"])
    reason = choose(found).reason
    shown = {m.method: m.scores["nll"].estimate for m in found.rows}
    if "lowest cross-validated log loss" in reason:
        if "of the single methods" in reason:
            del shown["pool"]
        assert f"{min(shown.values()):.4f}" in reason
    else:
        assert "the pool of methods is" in reason
