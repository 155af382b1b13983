import builtins

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from numpy.testing import assert_allclose
from scipy.stats import binomtest

from focalibrate.calibrate import (
    FocalTemperatureScaling,
    Identity,
    PosteriorRecovery,
    VectorScaling,
    fit_focal_temperature,
    fit_temperature,
)
from focalibrate.calibrate.fit_focal_temperature import FOCAL_GAMMAS
from focalibrate.metrics import Cells, corp
from focalibrate.report import criterion_grid
from focalibrate.report.plot import (
    CORNERS,
    ReliabilityDisplay,
    binned_diagram,
    reliability_diagram,
    simplex_map,
    simplex_points,
    temperature_grid,
    wilson_interval,
)

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    truth = 2 * rng.normal(size=(1500, 3))
    return 2 * truth, (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)


@pytest.fixture(scope="module")
def table(problem):
    logits, labels = problem
    return Cells.of_top_label(Identity().probs(logits), labels, bins=10)


def drawn(ax):
    ax.figure.canvas.draw()  # warnings of the layout are errors too
    return ax


def corners(ax):
    """Return the corners of the curve, those drawn as dots too."""
    shown = np.concatenate([line.get_xydata() for line in ax.lines[1:3]])
    return shown[np.argsort(shown[:, 0], kind="stable")]


def test_the_curve_is_that_of_the_metrics(problem):
    logits, labels = problem
    probs = Identity().probs(logits)
    ax = drawn(reliability_diagram(probs, labels))
    curve = corp(probs, labels).curve
    assert_allclose(corners(ax), np.column_stack([curve.probability, curve.frequency]))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("confidence", "accuracy")


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["one column", "two columns"])
def test_two_classes_are_drawn_by_the_probability_of_the_second(shape):
    rng = np.random.default_rng(0)
    p = rng.random(200)
    labels = (rng.random(200) < p).astype(int)
    probs = p if shape == "one column" else np.stack([1 - p, p], axis=1)
    ax = drawn(reliability_diagram(probs, labels))
    assert_allclose(corners(ax)[:, 0], corp(p, labels, event=1).curve.probability)
    assert ax.get_xlabel() == "probability"
    other = drawn(reliability_diagram(probs, labels, klass=0))
    assert_allclose(corners(other)[:, 0], corp(p, labels, event=0).curve.probability)


def test_bars_points_and_counts_are_the_tables(table):
    ax = drawn(binned_diagram(table))
    filled = table.weight > 0
    bars, errors = ax.containers
    assert_allclose([b.get_height() for b in bars], table.accuracy[filled])
    assert_allclose([b.get_x() for b in bars], table.edges[:-1][filled])
    points, _, (lines,) = errors.lines
    assert_allclose(points.get_xdata(), table.confidence[filled])
    low, high = wilson_interval(table.accuracy[filled], table.weight[filled])
    assert_allclose([s[0, 1] for s in lines.get_segments()], low, atol=1e-12)
    assert_allclose([s[1, 1] for s in lines.get_segments()], high, atol=1e-12)
    (top,) = ax.child_axes
    assert_allclose([b.get_height() for b in top.containers[0]], table.weight[filled])
    assert f"ECE {100 * table.ece():.2f} %" in ax.texts[0].get_text()


@pytest.mark.parametrize(("k", "n"), [(0, 1), (1, 1), (3, 10), (99, 100)])
def test_intervals_are_scipys(k, n):
    want = binomtest(k, n).proportion_ci(0.95, method="wilson")
    got = wilson_interval(np.array([k / n]), np.array([float(n)]))
    assert_allclose(np.ravel(got), want, rtol=1e-6, atol=1e-12)


def test_equal_mass_bins_and_a_given_axes(table):
    _, axes = plt.subplots(1, 2)
    assert binned_diagram(table.equal_mass(5), axes[1]) is axes[1]
    assert not axes[0].containers


def test_an_empty_table_is_refused():
    with pytest.raises(ValueError, match="`table` must hold at least one example"):
        binned_diagram(Cells.empty())


@pytest.mark.slow
def test_the_grid_its_ridge_and_its_best_point(problem):
    found = fit_focal_temperature(*problem, criterion="adaptive_ece", whole_grid=True)
    report = found.report
    ax = drawn(temperature_grid(report))
    (mesh,) = ax.collections
    assert_allclose(mesh.get_array().reshape(report.grid.shape), report.grid)
    ridge, star = ax.lines
    assert_allclose(ridge.get_xdata(), np.array(report.temperatures)[report.grid.argmin(axis=1)])
    assert (star.get_xdata()[0], star.get_ydata()[0]) == (
        found.temperature,
        FOCAL_GAMMAS.index(found.gamma),
    )
    assert [t.get_text() for t in ax.get_yticklabels()] == [f"{g:g}" for g in FOCAL_GAMMAS]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::focalibrate.calibrate.CalibrationWarning")
def test_a_grid_with_holes(problem):
    report = fit_focal_temperature(*problem, criterion="adaptive_ece").report
    assert np.isnan(report.grid).any()
    drawn(temperature_grid(report))


@pytest.mark.slow
def test_the_grid_of_a_page(problem):
    grid = criterion_grid(*problem)
    ax = drawn(temperature_grid(grid))
    star = ax.lines[1]
    assert star.get_xdata()[0] == grid.temperatures[grid.values.min(axis=0).argmin()]


def test_a_fit_of_the_temperature_alone_is_a_curve(problem):
    found = fit_temperature(*problem, criterion="ece", whole_grid=True)
    report = found.report
    curve, star = drawn(temperature_grid(report)).lines
    assert_allclose(curve.get_ydata(), report.grid[0])
    assert star.get_xdata()[0] == found.temperature


def test_a_fit_without_a_grid_is_refused(problem):
    report = fit_temperature(*problem).report
    with pytest.raises(ValueError, match=r"`report` must hold a grid.*Fit with a binned"):
        temperature_grid(report)


def test_simplex_points_lie_inside():
    points = simplex_points(6)
    assert len(points) == 10
    assert_allclose(points.sum(axis=1), 1)
    assert points.min() > 0.1


def test_arrows_lead_from_raw_to_calibrated():
    calibrator = FocalTemperatureScaling(gamma=1.0, temperature=2.5)
    (arrows,) = drawn(simplex_map(calibrator)).collections
    ends = np.column_stack([arrows.X + arrows.U, arrows.Y + arrows.V])
    raw = simplex_points(15)
    raw = raw[np.ptp(raw, axis=1) > 0]  # the centre does not move
    assert_allclose(ends, calibrator.probs(np.log(raw)) @ CORNERS, atol=1e-12)
    assert arrows.get_label() == "less confident"


def test_recovery_raises_the_confidence_of_three_classes():
    (arrows,) = drawn(simplex_map(PosteriorRecovery(gamma=3.0))).collections
    assert arrows.get_label() == "more confident"


def test_vector_scaling_has_arrows_of_both_kinds():
    skewed = VectorScaling(scale=(1.0, 1.0, 1.0), bias=(1.0, 0.0, 0.0))
    labels = [a.get_label() for a in drawn(simplex_map(skewed)).collections]
    assert labels == ["more confident", "less confident"]


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch, table):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        binned_diagram(table)


def test_displays_have_the_doors_of_scikit_learn():
    linear = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    features = rng.normal(size=(400, 2))
    names = np.where(features[:, 0] + rng.logistic(size=400) > 0, "yes", "no")
    model = linear.LogisticRegression().fit(features, names)
    drawn = ReliabilityDisplay.from_estimator(model, features, names)
    assert drawn.ax_.get_legend_handles_labels()[1][-1] == "LogisticRegression"
    probs = model.predict_proba(features)[:, 1]
    again = ReliabilityDisplay.from_predictions(names, probs, pos_label="yes", name="mine")
    assert_allclose(again.curve.frequency, drawn.curve.frequency)
    assert again.figure_ is again.ax_.figure
    with pytest.raises(ValueError, match="`pos_label` must be one of the labels"):
        ReliabilityDisplay.from_predictions(names, probs, pos_label="Yes")


def test_a_data_frame_with_names_as_labels_is_drawn_class_by_class():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    probs = rng.dirichlet(np.ones(3), size=300)
    frame = pandas.DataFrame(probs, columns=["cat", "dog", "owl"])
    names = frame.columns.to_numpy()[rng.integers(3, size=300)]
    ax = reliability_diagram(frame, names, klass="dog")
    expected = corp(probs, np.asarray(frame.columns.get_indexer(names)), event=1).curve
    drawn = np.concatenate([line.get_ydata() for line in ax.lines[1:3]])
    assert_allclose(np.sort(drawn), np.sort(expected.frequency))
    with pytest.raises(ValueError, match="must be a column"):
        reliability_diagram(frame, names, klass="cow")


def test_few_rows_at_an_end_are_dots_and_no_stroke_to_0():
    p = np.concatenate([[0.3], np.full(500, 0.5), np.full(500, 0.9)])
    y = np.concatenate([[0], np.arange(500) % 2, (np.arange(500) % 10 > 0).astype(int)])
    ax = reliability_diagram(p, y)
    line, dots = ax.lines[1], ax.lines[2]
    assert line.get_ydata().min() == 0.5
    assert dots.get_ydata().tolist() == [0.0, 0.0]
