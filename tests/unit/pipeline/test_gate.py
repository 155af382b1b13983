import json
import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from focalibrate import check_predictions
from focalibrate.calibrate import TemperatureScaling
from focalibrate.io import SketchFile
from focalibrate.metrics import Sketch, calibration_bounds
from focalibrate.metrics.interval import Moments
from focalibrate.pipeline import LossMean


@pytest.fixture(scope="module")
def examples():
    """Calibrated logits of 20,000 rows."""
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(20_000, 3))
    return logits, (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def test_pass_fail_and_not_enough_data(examples):
    z, y = examples
    good = check_predictions(logits=z, labels=y, max_ece=0.02)
    assert (good.status, good.exit_code) == ("pass", 0)
    assert "At most 0.0" in good.checks[0].message
    bad = check_predictions(logits=3 * z, labels=y, max_ece=0.02)
    assert (bad.status, bad.exit_code) == ("fail", 1)
    assert "above the limit of 0.02" in bad.checks[0].message
    few = check_predictions(logits=z[:200], labels=y[:200], max_ece=0.02)
    assert (few.status, few.exit_code) == ("undetermined", 3)
    assert "A calibrated model passes with about" in few.checks[0].message


def test_the_number_of_rows_it_asks_for_is_enough(examples):
    """The message of 1,000 rows names a number with which calibrated models pass."""
    z, y = examples
    text = check_predictions(logits=z[:1000], labels=y[:1000], max_ece=0.02).checks[0].message
    asked = int(text.split("about ")[1].split(" rows")[0].replace(",", ""))
    assert 2000 < asked < 20_000
    found = check_predictions(logits=z[-asked:], labels=y[-asked:], max_ece=0.025)
    assert found.status == "pass"


def test_a_calibrator_comes_first(examples):
    z, y = examples
    cure = TemperatureScaling(3.0)
    assert check_predictions(logits=3 * z, labels=y, max_ece=0.02, calibrator=cure).exit_code == 0


def test_one_broken_limit_fails_the_whole(examples):
    z, y = examples
    found = check_predictions(logits=1.3 * z, labels=y, max_ece=0.2, max_rms=0.01)
    assert [c.status for c in found.checks] == ["pass", "fail"]
    assert found.status == "fail"


def test_the_bound_of_the_rms_lies_above_that_of_the_ece(examples):
    z, y = examples
    ece, rms = check_predictions(logits=1.2 * z, labels=y, max_ece=0.5, max_rms=0.5).checks
    assert ece.low < rms.high
    assert ece.status == rms.status == "pass"


def saved(path, logits, labels):
    np.savez(path, logits=logits, labels=labels)
    return path


def test_the_log_loss_is_compared_row_by_row(examples, tmp_path):
    z, y = examples
    former = saved(tmp_path / "former.npz", z, y)

    def against(logits, limit):
        return check_predictions(logits=logits, labels=y, max_nll_increase=limit, baseline=former)

    assert against(z, 0.0).status == "pass"  # the same predictions
    assert against(z, 0.0).baseline == "former.npz, row by row"
    worse = against(1.2 * z, 0.001)
    assert worse.status == "fail"
    assert worse.checks[0].low > 0.001
    assert against(1.2 * z, 0.1).status == "pass"
    assert against(1.05 * z, worse.checks[0].estimate / 10).status in ("undetermined", "pass")


def test_other_rows_are_two_samples(examples, tmp_path):
    z, y = examples
    former = saved(tmp_path / "former.npz", z[:9000], y[:9000])
    rest = {"logits": z[9000:], "labels": y[9000:], "baseline": former}
    found = check_predictions(**rest, max_nll_increase=0.05)
    assert found.baseline == "former.npz, other rows"
    assert found.status == "pass"
    assert check_predictions(**rest, max_nll_increase=1e-4).status == "undetermined"


def test_the_output_of_a_check_is_a_baseline_for_the_next(examples, tmp_path):
    z, y = examples
    path = tmp_path / "check.json"
    first = check_predictions(logits=z, labels=y, max_ece=0.02)
    path.write_text(json.dumps(first.to_dict()))
    later = {"labels": y, "baseline": path, "max_nll_increase": 0.05}
    assert check_predictions(logits=z, **later).status == "pass"
    assert check_predictions(logits=3 * z, **later).status == "fail"


def test_results_of_calibrate_and_evaluate_are_baselines(examples, tmp_path):
    z, y = examples
    path = tmp_path / "results.json"
    nll = {"estimate": 0.6, "low": 0.59, "high": 0.61}
    later = {"logits": z, "labels": y, "baseline": path, "max_nll_increase": 0.5}
    for record in (
        {"held_out": {"nll": nll}, "comparison": {"n_judged": 500}},
        {"assessment": {}, "scores": {"nll": nll}, "rows": 500},
    ):
        path.write_text(json.dumps(record))
        found = check_predictions(**later)
        losses = -np.log(np.exp(z)[np.arange(len(y)), y] / np.exp(z).sum(1))
        want = LossMean.of(Moments.of(losses))
        assert found.checks[0].estimate == pytest.approx(want.mean - 0.6)
        assert found.status == "pass"
    path.write_text(json.dumps({"held_out": {"brier": nll}}))
    with pytest.raises(ValueError, match=r"results\.json: no log loss found"):
        check_predictions(**later)


def test_infinite_log_losses(tmp_path):
    rng = np.random.default_rng(1)
    good = np.tile([0.7, 0.2, 0.1], (100, 1))
    labels = rng.choice(3, p=good[0], size=100)
    labels[0] = 2
    bad = good.copy()
    bad[0] = [0.5, 0.5, 0.0]
    files = {"good": tmp_path / "good.npz", "bad": tmp_path / "bad.npz"}
    for name, probs in (("good", good), ("bad", bad)):
        np.savez(files[name], probs=probs, labels=labels)

    def status(probs, former):
        found = check_predictions(
            probs=probs, labels=labels, max_nll_increase=0.1, baseline=files[former]
        )
        json.dumps(found.to_dict(), allow_nan=False)
        return found.status

    assert status(bad, "good") == "fail"
    assert status(good, "bad") == "pass"
    assert status(bad, "bad") == "undetermined"


def test_few_rows_decide_nothing():
    probs, labels = np.tile([0.99, 0.01], (20, 1)), np.ones(20, int)
    found = check_predictions(probs=probs, labels=labels, max_ece=0.02)
    assert found.exit_code == 3
    assert "Too few rows, 20: at least 30" in found.checks[0].message
    one = check_predictions(probs=probs[:1], labels=labels[:1], max_ece=0.02)
    assert one.exit_code == 3
    record = json.loads(json.dumps(one.to_dict(), allow_nan=False))
    assert record["log_loss"]["standard_error"] is None


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({}, "At least one limit must be given"),
        ({"max_ece": 0.0}, "`max_ece` must"),
        ({"max_ece": 0.02, "alpha": 0.7}, "`alpha` must"),
        ({"max_nll_increase": 0.01}, "must come with a `baseline`"),
        ({"max_ece": 0.02, "baseline": "x.npz"}, "must come with `max_nll_increase`"),
    ],
)
def test_limits_that_make_no_sense(limits, text):
    with pytest.raises(ValueError, match=text):
        check_predictions(probs=np.full((40, 2), 0.5), labels=np.zeros(40, int), **limits)


def test_the_mean_has_honest_bounds_where_rows_are_skewed():
    """At the limit at most 5 % fail; 67 of 1,000 have a chance of 1 %."""
    rng = np.random.default_rng(2)
    values = -rng.exponential(size=(1000, 100))  # skewness -2
    means = [LossMean.of(Moments.of(v)) for v in values]
    failed = sum(m.lower(0.05) > -1.0 for m in means)
    passed = sum(LossMean.of(Moments.of(-v)).upper(0.05) < 1.0 for v in values)
    assert failed == passed <= 67
    plain = [LossMean(m.mean, m.standard_error, 100) for m in means]
    assert sum(m.lower(0.05) > -1.0 for m in plain) > 67  # without the correction


def test_markdown_and_junit(examples):
    z, y = examples
    found = check_predictions(logits=1.3 * z[:5000], labels=y[:5000], max_ece=0.2, max_rms=0.01)
    text = found.to_markdown()
    assert "### Calibration check: ❌ fail" in text
    assert text.count("\n| ") == 4 - 1  # header and two limits
    suite = ET.fromstring(found.to_junit())[0]
    assert suite.attrib | {"tests": "2", "failures": "1", "errors": "0"} == suite.attrib
    cases = suite.findall("testcase")
    assert [len(c) for c in cases] == [0, 1]
    assert "above the limit" in cases[1].find("failure").attrib["message"]


def test_names_cannot_break_the_summaries(examples, tmp_path):
    z, y = examples
    path = saved(tmp_path / 'a"<b>|`c.npz', z[:50], y[:50])
    found = check_predictions(path, max_ece=0.02)
    suite = ET.fromstring(found.to_junit())[0]
    assert suite.attrib["name"] == 'focalibrate check a"<b>|`c.npz'
    assert suite.attrib["errors"] == "1"
    assert "a\"<b>\\|'c.npz" in found.to_markdown()


def test_nothing_infinite_gets_into_json(examples):
    z, y = examples
    record = check_predictions(logits=z, labels=y, max_rms=0.1).to_dict()
    assert math.isfinite(record["log_loss"]["estimate"])
    json.dumps(record, allow_nan=False)


def test_groups_share_the_error_rate(examples):
    """Lower bounds of groups are those of their rows alone, at alpha / (2 times the groups)."""
    z, y = examples
    region = np.where(np.arange(len(y)) % 4 == 0, "a", "b")
    found = check_predictions(logits=1.3 * z, labels=y, groups={"region": region}, max_ece=0.2)
    whole, first, second = found.checks
    assert (whole.column, first.group, second.group) == (None, "a", "b")
    assert (first.n_rows, second.n_rows) == (5000, 15_000)
    p = np.exp(1.3 * z) / np.exp(1.3 * z).sum(axis=1, keepdims=True)
    for check in (first, second):
        rows = region == check.group
        want = calibration_bounds(p[rows], y[rows], limit=0.2, alpha=0.0125, alpha_high=0.05)
        assert check.low == pytest.approx(want.low, abs=2e-3)
        assert check.high == pytest.approx(want.high, abs=2e-3)
    want = calibration_bounds(p, y, limit=0.2, alpha=0.025, alpha_high=0.05)
    assert whole.low == pytest.approx(want.low, rel=1e-12)


def test_groups_of_a_sketch_are_those_of_its_rows(examples):
    z, y = examples[0][:4000], examples[1][:4000]
    region = np.where(np.arange(len(y)) % 4 == 0, "a", "b")
    rows = check_predictions(logits=1.3 * z, labels=y, groups={"region": region}, max_ece=0.2)
    sketch = Sketch.of(logits=1.3 * z, labels=y, groups={"region": region})
    found = check_predictions(SketchFile(sketch=sketch, kind="logits"), max_ece=0.2)
    for mine, want in zip(found.checks, rows.checks, strict=True):
        assert (mine.group, mine.n_rows, mine.status) == (want.group, want.n_rows, want.status)
        assert mine.high == pytest.approx(want.high, abs=2e-3)


def test_groups_need_a_limit_and_rows(examples, tmp_path):
    z, y = examples
    few = {"logits": z[:200], "labels": y[:200], "groups": {"id": np.arange(200) // 20}}
    found = check_predictions(**few, max_ece=0.9)
    assert (found.status, found.n_small_groups) == ("undetermined", 10)
    former = saved(tmp_path / "former.npz", z, y)
    with pytest.raises(ValueError, match="Groups must come with `max_ece`"):
        check_predictions(**few, max_nll_increase=0.1, baseline=former)
    with pytest.raises(ValueError, match="has no groups by 'site'"):
        check_predictions(**few, by=["site"], max_ece=0.9)


def test_the_mean_loss_of_a_sketch_is_that_of_its_rows(examples):
    z, y = examples
    rng = np.random.default_rng(4)
    nll = np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(y)), y]
    for weights in (None, rng.integers(1, 4, size=len(y)) * 1.0, rng.uniform(0.5, 2, len(y))):
        found = LossMean.of(Sketch.of(logits=z, labels=y, sample_weight=weights).scores["nll"])
        want = LossMean.of(Moments.of(nll, weights))
        for name in ("mean", "standard_error", "third"):
            assert getattr(found, name) == pytest.approx(getattr(want, name), rel=1e-9)


@pytest.mark.slow
def test_calibrated_groups_rarely_fail():
    """20 groups at a limit of 0.005: at most 5 % of runs fail; 7 of 50 have a chance of 1.2 %."""
    rng = np.random.default_rng(5)
    failed = 0
    for _ in range(50):
        z = 3 * rng.normal(size=(2000, 4))
        y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
        groups = {"g": np.arange(2000) % 20}
        failed += (
            check_predictions(logits=z, labels=y, groups=groups, max_ece=0.005).status == "fail"
        )
    assert failed <= 6
