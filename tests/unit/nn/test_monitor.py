import itertools
import json
import runpy
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from focalibrate import metrics as m
from focalibrate.calibrate import Calibrator, fit_temperature
from focalibrate.nn import CalibrationMonitor
from focalibrate.nn._counted import row_priority


def example(n=500, k=6, *, seed=0, dtype=torch.float32):
    rng = torch.Generator().manual_seed(seed)
    truth = 2 * torch.randn(n, k, generator=rng, dtype=dtype)
    noise = -torch.empty(n, k, dtype=dtype).exponential_(generator=rng).log()
    return 2 * truth, (truth + noise).argmax(-1)


def seen(logits, labels, *, cuts=(), **options):
    monitor = CalibrationMonitor(**options)
    for a, b in itertools.pairwise([0, *cuts, len(labels)]):
        monitor.update(logits[a:b], labels[a:b])
    return monitor


def assert_same(one, other):
    for name, value in one.metrics().as_dict().items():
        assert_allclose(other.metrics().as_dict()[name], value, rtol=1e-10, err_msg=name)
    assert one.n == other.n
    for a, b in zip(one.rows(), other.rows(), strict=True):
        assert_array_equal(a, b)


def test_metrics_are_those_of_all_rows_at_once():
    logits, labels = example(3000)
    logits[:400] *= 5  # some confident ones
    probs = logits.double().softmax(-1)
    got = seen(logits, labels, cuts=range(70, 3000, 70), classwise=True).metrics()
    assert got.n == 3000
    assert_allclose(got.error, m.error_rate(probs, labels), rtol=1e-12)
    assert_allclose(got.nll, m.nll(probs, labels), rtol=1e-12)
    assert_allclose(got.brier, m.brier_score(probs, labels), rtol=1e-12)
    assert_allclose(got.ece, m.ece(probs, labels), rtol=1e-12)
    assert_allclose(got.mce, m.mce(probs, labels), rtol=1e-12)
    assert_allclose(got.classwise_ece, m.classwise_ece(probs, labels), rtol=1e-12)
    assert_allclose(got.adaptive_ece, m.adaptive_ece(probs, labels), atol=2e-4)
    s99 = m.confident_fraction(probs, labels)
    assert_allclose([got.s99.fraction, got.s99.accuracy], [s99.fraction, s99.accuracy])


def assert_sketches_equal(one, other, *, rtol=1e-9):
    for name in ("top", "positive", "classes"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert (mine is None) == (theirs is None), name
        if mine is not None:
            assert_allclose(mine.sums, theirs.sums, rtol=rtol, atol=1e-9, err_msg=name)
            assert mine.is_counted == theirs.is_counted
    for name, moments in one.scores.items():
        assert_allclose(moments.powers, other.scores[name].powers, rtol=rtol, err_msg=name)


@pytest.mark.parametrize("k", [2, 6])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_monitor_is_a_sketch_of_its_rows(k, weighted):
    logits, labels = example(700, k)
    weights = torch.linspace(0.5, 2, 700, dtype=torch.float64) if weighted else None
    monitor = CalibrationMonitor(classwise=True)
    for part in torch.arange(700).split(100):
        own = None if weights is None else weights[part]
        monitor.update(logits[part], labels[part], sample_weight=own)
    want = m.Sketch.of(logits=logits.double(), labels=labels, sample_weight=weights)
    assert_sketches_equal(monitor.sketch(), want)
    got, expected = monitor.sketch().evaluate(), want.evaluate()
    assert got.assessment.p_value == expected.assessment.p_value
    assert_allclose(got.errors["smooth_ece"], expected.errors["smooth_ece"], rtol=1e-9)


def test_two_classes_of_large_images_have_cells_of_class_1():
    rng = torch.Generator().manual_seed(1)
    logits = torch.randn(1, 2, 64, 64, generator=rng, dtype=torch.float64)
    labels = (logits + torch.randn(logits.shape, generator=rng)).argmax(1)
    monitor = CalibrationMonitor()
    monitor.update(logits, labels)
    rows = seen(logits.movedim(1, -1).reshape(-1, 2), labels.reshape(-1))
    got, want = (x.sketch().evaluate().assessment.gap.estimate for x in (monitor, rows))
    assert_allclose(got, want, rtol=1e-9)


@pytest.mark.slow
def test_what_a_monitor_saves_is_evaluated_checked_and_merged(tmp_path, monkeypatch):
    from click.testing import CliRunner

    from focalibrate.cli import main

    monkeypatch.chdir(tmp_path)
    logits, labels = example(2000)
    np.savez("rows.npz", logits=logits.double().numpy(), labels=labels.numpy())
    monitor = seen(logits, labels, cuts=(500,), classwise=True)
    names = [f"class {k}" for k in range(6)]
    monitor.save("day1.sketch", class_names=names, start="2026-01-31", end="2026-02-01")

    def run(*words, code=0):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == code, done.output
        return done.stdout

    found, want = (
        json.loads(run("evaluate", file, "--json")) for file in ("day1.sketch", "rows.npz")
    )
    assert (found["rows"], found["sketch"]["from"]) == (2000, "2026-01-31")
    for name in ("ece", "mce", "classwise_ece", "nll", "brier", "error"):
        estimates = [x["scores"][name]["estimate"] for x in (found, want)]
        assert_allclose(*estimates, rtol=1e-9, err_msg=name)
    assert "FAIL" in run("check", "day1.sketch", "--max-ece", "0.02", code=1)
    run("sketch", "rows.npz", "-o", "day2.sketch", "--class-names", ",".join(names))
    assert json.loads(run("evaluate", "day1.sketch", "day2.sketch", "--json"))["rows"] == 4000
    with pytest.raises(FileExistsError):
        monitor.save("day1.sketch")
    with pytest.raises(ValueError, match="must name the 6 classes, got 2 names"):
        monitor.save("day3.sketch", class_names=["a", "b"])
    with pytest.raises(ValueError, match="`start` must be a date or time"):
        monitor.save("day3.sketch", start="yesterday")
    seen(logits, labels).save("day3.sketch", class_names=names)  # without sums by class
    done = CliRunner().invoke(main, ("evaluate", "day2.sketch", "day3.sketch", "--json"))
    assert "day3.sketch has no sums by class" in done.stderr
    both = json.loads(done.stdout)
    assert both["rows"] == 4000
    assert_allclose(both["scores"]["ece"]["estimate"], want["scores"]["ece"]["estimate"])
    assert both["scores"].get("classwise_ece") is None


def test_a_calibrator_is_fitted_on_all_rows_while_they_fit():
    logits, labels = example(2000)
    monitor = seen(logits, labels, cuts=(300, 900))
    assert_allclose(
        monitor.fit("temperature").temperature,
        fit_temperature(logits.numpy(), labels.numpy()).temperature,
        rtol=1e-6,
    )
    assert isinstance(monitor.fit("vector"), Calibrator)


def test_a_calibrator_from_a_bounded_sample_is_close():
    logits, labels = example(30_000)
    monitor = seen(logits, labels, cuts=range(1000, 30_000, 1000), max_rows=3000)
    rows, _ = monitor.rows()
    assert rows.shape == (3000, 6)
    assert monitor.fit("temperature").temperature == pytest.approx(2.0, rel=0.1)


@pytest.mark.slow
@settings(max_examples=25)
@given(
    n=st.integers(4, 80),
    max_rows=st.integers(0, 40),
    at=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    seed=st.integers(0, 2**16),
)
def test_streaming_merging_and_order_make_no_difference(n, max_rows, at, seed):
    logits, labels = example(n, 4, seed=seed)
    options = {"n_bins": 5, "max_rows": max_rows, "classwise": True}
    whole = seen(logits, labels, **options)
    a, b = sorted(1 + int(x * (n - 3)) for x in at)
    assert_same(whole, seen(logits, labels, cuts=sorted({a, b}), **options))
    assert_same(
        whole, seen(logits[a:], labels[a:], **options) + seen(logits[:a], labels[:a], **options)
    )
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    assert_same(whole, seen(logits[order], labels[order], cuts=(a,), **options))


def test_merging_leaves_both_as_they_were_and_an_empty_one_adds_nothing():
    one, other = seen(*example(50)), seen(*example(30, seed=1))
    merged = one + other
    assert (one.n, other.n, merged.n) == (50, 30, 80)
    assert_same(one, one + CalibrationMonitor())
    assert_same(one, CalibrationMonitor() + one)
    assert_same(one, one.synchronize())


def test_memory_does_not_grow_with_the_data():
    monitor = CalibrationMonitor(max_rows=100)
    sizes = []
    for seed in range(6):
        monitor.update(*example(5000, seed=seed))
        sizes.append(sum(x.nbytes for x in monitor.state_dict().values()))
    assert max(sizes) < 4200 * 2 * 6 * 8  # filled cells, of the top label and of class 1
    assert sizes[5] < 1.1 * sizes[3]


def test_every_row_has_the_same_chance_to_be_kept():
    logits, labels = example(2000)
    kept = torch.zeros(2000)
    for seed in range(60):
        priority = row_priority(logits.numpy(), labels.numpy(), seed=seed)
        kept[np.argsort(priority)[:500]] += 1
    # Binomial(60, 1/4): mean 15, deviation 3.35
    assert kept.mean() == 15
    assert 3.0 < float(kept.std()) < 3.7
    assert float(kept.max()) < 32
    halves = kept[logits[:, 0] > 0].mean(), kept[logits[:, 0] <= 0].mean()
    assert abs(halves[0] - halves[1]) < 0.6


def test_the_priority_depends_on_every_logit_the_label_and_the_seed():
    rows, labels = np.zeros((1, 4), dtype=np.float32), np.array([1])
    base = row_priority(rows, labels, seed=0)
    for k in range(4):
        other = rows.copy()
        other[0, k] = 1e-30
        assert row_priority(other, labels, seed=0) != base
    assert row_priority(rows, labels + 1, seed=0) != base
    assert row_priority(rows, labels, seed=1) != base
    assert row_priority(rows.astype(np.float64), labels, seed=0) == base


def test_a_sample_of_doubles_keeps_them():
    logits, labels = example(20, dtype=torch.float64)
    monitor = seen(logits, labels)
    assert monitor.rows()[0].dtype == torch.float64


def test_a_batch_may_be_overwritten_once_it_was_seen():
    logits, labels = example(20)
    want = seen(logits.clone(), labels)
    monitor = seen(logits, labels)
    logits.zero_()
    assert_same(monitor, want)


def test_a_state_is_saved_without_pickle_and_restored(tmp_path):
    monitor = seen(*example(50), classwise=True)
    np.savez(tmp_path / "state.npz", **monitor.state_dict())
    other = seen(*example(9), classwise=True)
    with np.load(tmp_path / "state.npz", allow_pickle=False) as file:
        other.load_state_dict(dict(file))
    assert_same(monitor, other)
    monitor.update(*example(9, seed=3))
    other.update(*example(9, seed=3))
    assert_same(monitor, other)
    other.reset()
    assert other.n == 0


def test_a_loader_is_collected_in_evaluation_mode():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 3), torch.nn.Dropout(0.5))
    x, y = torch.randn(40, 6), torch.randint(3, (40,))
    data = torch.utils.data.TensorDataset(x, y)
    loader = torch.utils.data.DataLoader(data, batch_size=7)
    monitor = CalibrationMonitor().collect(model, loader)
    assert model.training
    logits = torch.cat([model[0](part) for part in x.split(7)])
    assert_same(monitor, seen(logits, y))


class TokenModel(torch.nn.Module):
    """Returns what models of transformers do: a mapping, with classes last."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(7, 4)

    def forward(self, input_ids, attention_mask=None):
        assert attention_mask is None or attention_mask.shape == input_ids.shape
        return {"logits": self.table(input_ids)}


@pytest.mark.parametrize("shape", [(6,), (6, 4), (6, 5)])  # 4: as many tokens as classes
@pytest.mark.parametrize("kind", ["dict", pytest.param("BatchEncoding", marks=pytest.mark.slow)])
@pytest.mark.parametrize("key", ["labels", "label"])
def test_batches_of_hugging_face_are_collected(shape, kind, key):
    torch.manual_seed(0)
    model, ids = TokenModel(), torch.randint(7, shape)
    labels = torch.randint(4, shape)
    labels[1] = -100
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), key: labels}
    if kind == "BatchEncoding":
        batch = pytest.importorskip("transformers").BatchEncoding(batch)
    got = CalibrationMonitor().collect(model, [batch, batch])
    flat = model.table(ids).reshape(-1, 4), labels.reshape(-1)
    assert_same(got, seen(torch.cat([flat[0]] * 2), torch.cat([flat[1]] * 2)))
    assert key in batch


def test_other_batches_and_outputs_are_collected():
    class Two(torch.nn.Module):
        def forward(self, a, b):
            return a + b, "the rest"

    logits, labels = example(40)
    got = CalibrationMonitor().collect(Two(), [((logits, 0 * logits), labels)])
    assert_same(got, seen(logits, labels))
    named = {"a": logits, "b": 0 * logits, "y": labels}
    assert_same(CalibrationMonitor().collect(Two(), [named], labels="y"), seen(logits, labels))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_large_images_are_taken_one_at_a_time_with_the_same_numbers(dtype):
    rng = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(2, 5, 64, 80, generator=rng, dtype=torch.float64)
    logits[0, :, :4] = logits[0, :, :4].round()  # ties: the first class counts as predicted
    labels = (logits / 2 + torch.randn(logits.shape, generator=rng)).argmax(1)
    logits = logits.to(dtype)
    labels[:, ::7] = 255
    options = {"ignore_index": 255, "by_class": True}
    got = CalibrationMonitor(per_image=True, **options)
    got.update(logits, labels)
    flat, y = logits.movedim(1, -1).reshape(-1, 5), labels.reshape(-1)
    want = seen(flat, y, **options)
    tolerance = {"rtol": 1e-5 if dtype != torch.float64 else 1e-11}
    for name, value in want.metrics().as_dict().items():
        assert_allclose(got.metrics().as_dict()[name], value, err_msg=name, **tolerance)
    for one, other in zip(got.predicted_tables, want.predicted_tables, strict=True):
        assert_array_equal(one.weight, other.weight)
        assert_allclose(one.probability, other.probability, **tolerance)
        assert_array_equal(one.outcome, other.outcome)
    alone = seen(logits[1:], labels[1:], ignore_index=255).table
    assert len(got.image_tables) == 2
    assert_allclose(got.image_tables[1].weight, alone.weight)
    assert_allclose(got.image_tables[1].ece(), alone.ece(), **tolerance)
    rows, kept = got.rows()
    assert 300 < len(rows) <= 512
    assert (kept != 255).all()
    merged = got + CalibrationMonitor(per_image=True, **options)
    assert len(merged.image_tables) == 2
    assert_allclose(merged.predicted_tables[0].weight, got.predicted_tables[0].weight)


def test_whole_weights_count_repeated_examples():
    logits, labels = example(300)
    times = torch.arange(300) % 3
    options = {"classwise": True, "by_class": True}
    got = CalibrationMonitor(**options)
    for a, b in itertools.pairwise([0, 100, 300]):
        got.update(logits[a:b], labels[a:b], sample_weight=times[a:b])
    want = seen(logits.repeat_interleave(times, 0), labels.repeat_interleave(times), **options)
    for name, value in want.metrics().as_dict().items():
        assert_allclose(got.metrics().as_dict()[name], value, rtol=1e-10, err_msg=name)
    assert got.n == want.n == 300
    assert_allclose(got.predicted_tables[1].weight, want.predicted_tables[1].weight)
    again = CalibrationMonitor(**options)
    again.load_state_dict(got.state_dict())
    assert_allclose(again.table.spread, got.table.spread)
    assert len(again.rows()[0]) == 200
    data = [(logits, labels, times)]
    collected = CalibrationMonitor().collect(torch.nn.Identity(), data)
    assert_allclose(collected.metrics().nll, want.metrics().nll, rtol=1e-10)


def test_the_monitor_reports_every_metric_that_merges():
    reported = seen(*example(50), classwise=True).metrics().as_dict()
    assert set(reported) == (set(m.METRICS) - {"smooth_ece"}) | {"s99"}


def test_bad_images_are_named():
    logits, labels = torch.zeros(1, 3, 64, 64), torch.zeros(1, 64, 64, dtype=torch.int64)
    bad = logits.clone()
    bad[0, 0, 1, 2] = torch.nan
    for z, y, message in (
        (bad, labels, r"nan or \+inf, but row 66"),
        (logits, labels + 3, r"must lie in \[0, 2\] for 3 classes"),
        (logits, labels[:, :2], r"must have shape \(1, 64, 64\), got \(1, 2, 64\)"),
        (logits, torch.full_like(logits, 1 / 3), r"soft targets"),
    ):
        with pytest.raises(ValueError, match=message):
            CalibrationMonitor().update(z, y)
    nothing = CalibrationMonitor(per_image=True)
    nothing.update(logits, labels - 100)
    assert (nothing.n, len(nothing.image_tables)) == (0, 1)


def test_ignored_labels_images_and_half_precision_are_taken():
    logits, labels = example(48)
    labels[::3] = -100
    whole = seen(logits, labels)
    assert whole.n == 32
    images = logits.reshape(4, 12, 6).movedim(-1, 1)
    assert_same(whole, seen(images, labels.reshape(4, 12)))
    half = seen(logits.bfloat16(), labels)
    assert_allclose(half.metrics().nll, whole.metrics().nll, rtol=0.02)
    whole.update(logits, torch.full_like(labels, -100))
    assert whole.n == 32


def test_impossible_classes_and_extreme_logits():
    logits = torch.tensor([[0.0, -torch.inf, 1.0], [1e4, -1e4, 0.0], [-1e4, 0.0, 1e4]])
    got = seen(logits, torch.tensor([0, 1, 2])).metrics()
    assert got.nll == pytest.approx((np.log(1 + np.e) + 2e4) / 3)
    assert got.error == pytest.approx(2 / 3)
    huge = torch.tensor([[1e300, 0.0], [0.0, 1.0]], dtype=torch.float64)  # beyond float32
    assert seen(huge, torch.tensor([0, 1])).n == 2


def test_a_monitor_feeds_adafocal():
    from focalibrate.nn import FocalLoss

    logits, labels = example(3000)
    one, other = FocalLoss("adafocal"), FocalLoss("adafocal")
    one.update(logits, labels)
    other.update_from(seen(logits, labels, cuts=(1000,)).cells)
    assert_allclose(one.gammas, other.gammas, atol=1e-2)


RANK = """
import json, sys
from datetime import timedelta
import torch, torch.distributed as dist
from focalibrate.nn import CalibrationMonitor

def answers(rank, file):
    dist.init_process_group("gloo", init_method="file://" + file, rank=rank, world_size=2,
                            timeout=timedelta(minutes=5))
    data = torch.load(file + ".pt", weights_only=True)

    def answer(mode):
        n_bins = 10 + rank if mode == "differ" else 15
        monitor = CalibrationMonitor(max_rows=200, classwise=True, n_bins=n_bins)
        if mode != "one" or rank == 0:
            mine = slice(rank, None, 2) if mode != "one" else slice(None)
            for z, y in zip(data["logits"][mine].split(64), data["labels"][mine].split(64)):
                monitor.update(z, y)
        try:
            merged = monitor.synchronize()
        except ValueError as error:
            return {"error": str(error)}
        return {**merged.metrics().as_dict(), "n": merged.n, "own": monitor.n,
                "T": merged.fit("temperature").temperature}

    try:
        return {mode: answer(mode) for mode in ("halves", "one", "differ")}
    finally:
        dist.destroy_process_group()

if __name__ == "__main__":
    print(json.dumps(answers(1, sys.argv[1])))
"""


@pytest.fixture(scope="module")
def on_two_ranks(tmp_path_factory):
    """What each of two processes returns in each mode; this process is the first."""
    file = tmp_path_factory.mktemp("ranks") / "meet"
    script = file.with_suffix(".py")
    script.write_text(RANK)
    logits, labels = example(501)
    torch.save({"logits": logits, "labels": labels}, f"{file}.pt")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("GLOO_SOCKET_IFNAME", "lo")
        other = subprocess.Popen(
            [sys.executable, script, str(file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            first = runpy.run_path(str(script))["answers"](0, str(file))
            out, error = other.communicate(timeout=600)
        finally:
            other.kill()
    assert other.returncode == 0, error
    return [first, json.loads(out)]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["halves", "one"])
def test_two_ranks_give_the_numbers_of_one_process(on_two_ranks, mode):
    logits, labels = example(501)
    whole = seen(logits, labels, max_rows=200, classwise=True)
    want = {
        **whole.metrics().as_dict(),
        "n": 501,
        "T": whole.fit("temperature").temperature,
    }
    own = [251, 250] if mode == "halves" else [501, 0]
    for answers, n in zip(on_two_ranks, own, strict=True):
        assert answers[mode] == pytest.approx({**want, "own": n}, rel=1e-10)


@pytest.mark.slow
def test_ranks_that_differ_in_settings_both_say_so(on_two_ranks):
    for answers in on_two_ranks:
        assert "must have the same settings to be merged" in answers["differ"]["error"]


ZERO = torch.zeros(4, dtype=torch.int64)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CalibrationMonitor().metrics(), r"seen no examples\. Call `update\(logits"),
        (lambda: CalibrationMonitor().fit(), r"seen no examples"),
        (lambda: CalibrationMonitor().cells, r"seen no examples"),
        (lambda: CalibrationMonitor().save("x.sketch"), r"seen no examples"),
        (
            lambda: CalibrationMonitor().update(
                torch.zeros(4, 3), ZERO, sample_weight=torch.ones(3)
            ),
            r"`sample_weight` must have shape \(4,\)",
        ),
        (
            lambda: CalibrationMonitor().update(torch.zeros(4, 3), ZERO, sample_weight=ZERO - 1.0),
            r"`sample_weight` must be finite and >= 0",
        ),
        (lambda: CalibrationMonitor().image_tables, r"only with `per_image=True`"),
        (lambda: seen(torch.zeros(4, 3), ZERO).predicted_tables, r"only with `by_class=True`"),
        (
            lambda: CalibrationMonitor().collect(torch.nn.Identity(), [{"x": ZERO}]),
            r"must have its labels under 'labels' or .* found the keys 'x'\. Name the key",
        ),
        (
            lambda: CalibrationMonitor().collect(TokenModel(), [(ZERO, ZERO)], logits="z"),
            r"output must have 'z', found 'logits'",
        ),
        (
            lambda: CalibrationMonitor().collect(torch.nn.Identity(), [torch.zeros(3, 3)]),
            r"`loader` must yield \(inputs, labels\)",
        ),
        (
            lambda: CalibrationMonitor().collect(torch.nn.Identity(), []),
            r"`loader` must yield at least one batch .* Check the data set, `drop_last`",
        ),
        (lambda: seen(torch.zeros(4, 1), ZERO), r"at least 2 classes on its class axis"),
        (lambda: seen(torch.zeros(4, 3), ZERO + 3), r"must lie in \[0, 2\] for 3 classes"),
        (
            lambda: seen(torch.zeros(3, 4, 3), ZERO[:3, None]),
            r"must have shape \(3, 3\), got \(3, 1\)",
        ),
        (lambda: seen(torch.zeros(0, 3), ZERO[:0]), r"must not be empty"),
        (lambda: seen(torch.full((4, 3), torch.nan), ZERO), r"nan or \+inf, but row 0"),
        (lambda: seen(torch.zeros(4, 3), torch.full((4, 3), 1 / 3)), r"got soft targets"),
        (lambda: seen(torch.zeros(4, 3).long(), ZERO), r"must be a floating tensor"),
        (lambda: seen(torch.zeros(4, 3), ZERO, max_rows=0).fit(), r"`max_rows` must be at least"),
        (lambda: seen(torch.zeros(4, 3), ZERO).fit("magic"), r"`method` must be one of"),
        (
            lambda: seen(torch.zeros(4, 3), ZERO).update(torch.zeros(4, 2), ZERO),
            r"must have the 3 classes of the batches before, got 2",
        ),
        (
            lambda: seen(torch.zeros(4, 3), ZERO) + seen(torch.zeros(4, 2), ZERO),
            r"must have the 3 classes",
        ),
        (
            lambda: CalibrationMonitor(n_bins=5) + CalibrationMonitor(),
            r"same settings to be merged, got \{'n_bins': 5,.*'n_bins': 15",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
