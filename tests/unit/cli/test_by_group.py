import json

import numpy as np
import pytest

from focalibrate.calibrate import Calibrator, GroupedCalibrator, TemperatureScaling


@pytest.fixture
def table(tmp_path):
    """A csv of logits whose sharpness differs between two regions."""
    rng = np.random.default_rng(1)
    truth = 2.0 * rng.normal(size=(700, 3))
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    region = rng.choice(["north", "south"], size=700)
    logits = truth * np.where(region == "north", 4.0, 1.0)[:, None]
    lines = ["logit_a,logit_b,logit_c,label,region,age"]
    for z, y, r in zip(logits, labels, region, strict=True):
        lines.append(",".join([*(f"{x:.5f}" for x in z), "abc"[y], r, str(rng.integers(20, 60))]))
    (tmp_path / "val.csv").write_text("\n".join(lines) + "\n")
    return logits, labels, region


def calibrate(cli, *more):
    words = ("--methods", "temperature", "--resamples", "20", "-o", "out", *more)
    return cli("calibrate", "val.csv", "--by", "region", *words)


@pytest.mark.slow
def test_a_group_gets_its_own_calibrator_and_apply_reads_the_column(cli, table, tmp_path):
    done = calibrate(cli)
    said = " ".join(done.stdout.split())
    assert "A calibrator of its own (temperature) significantly lowers the held-out log" in said
    assert "after calibration by group" in said.lower()
    found = Calibrator.load(tmp_path / "out" / "calibrator.json")
    assert isinstance(found, GroupedCalibrator)
    assert found.column == "region"
    record = json.loads((tmp_path / "out" / "results.json").read_text())
    assert {trial["group"] for trial in record["by_group"]["groups"]} == {"north", "south"}
    cli("apply", "out/calibrator.json", "val.csv", "-o", "new.csv")
    head, first, *_ = (tmp_path / "new.csv").read_text().splitlines()
    assert head.split(",")[-2:] == ["region", "age"]
    logits, _, region = table
    expected = found.probs(logits[:1].round(5), groups=region[:1])[0]
    assert [float(x) for x in first.split(",")[:3]] == pytest.approx(expected, abs=1e-6)


def test_unknown_groups_use_the_shared_calibrator_and_are_counted(cli, tmp_path):
    shared, own = TemperatureScaling(1.0), TemperatureScaling(3.0)
    GroupedCalibrator("region", shared, ("north",), (own,)).save(tmp_path / "c.json")
    (tmp_path / "new.csv").write_text("p,region\n0.9,north\n0.9,west\n0.9,east\n")
    done = cli("apply", "c.json", "new.csv", "-o", "out.csv")
    assert "2 rows have a region that the calibrator does not know (east, west)" in done.stdout
    rows = (tmp_path / "out.csv").read_text().splitlines()
    values = [float(row.split(",")[0]) for row in rows[1:]]
    assert values[1] == values[2] == pytest.approx(0.9)
    assert values[0] == pytest.approx(1 / (1 + 9 ** (-1 / 3)), abs=1e-6)


def test_a_file_without_the_column_is_refused(cli, tmp_path):
    shared = TemperatureScaling(1.0)
    GroupedCalibrator("region", shared, ("north",), (shared,)).save(tmp_path / "c.json")
    (tmp_path / "new.csv").write_text("p,place\n0.9,north\n")
    done = cli("apply", "c.json", "new.csv", "-o", "out.csv", ok=False)
    assert done.returncode == 1
    assert "must name a column, got 'region'" in done.stderr.replace("\n", " ")


@pytest.mark.slow
def test_one_for_all_where_asked_or_where_onnx_is_written(cli, table, tmp_path):
    calibrate(cli, "--no-per-group")
    assert Calibrator.load(tmp_path / "out" / "calibrator.json").kind == "temperature"
    pytest.importorskip("onnx")
    done = calibrate(cli, "--onnx", "--force")
    assert "an ONNX graph gets only the scores" in done.stdout
    assert (tmp_path / "out" / "calibrator.onnx").exists()


@pytest.mark.slow
def test_evaluate_reads_the_column_of_the_calibrator(cli, table, tmp_path):
    calibrate(cli)
    plain = json.loads(cli("evaluate", "val.csv", "--json").stdout)
    done = cli("evaluate", "val.csv", "--calibrator", "out/calibrator.json", "--json")
    assert (
        json.loads(done.stdout)["scores"]["nll"]["estimate"] < (plain["scores"]["nll"]["estimate"])
    )


@pytest.mark.slow
def test_the_worst_slice_of_several_columns_is_named(cli, table):
    words = ("--methods", "temperature", "--resamples", "20", "-o", "out")
    done = cli("calibrate", "val.csv", "--by", "region,age", *words)
    assert "Worst slice: region = north" in done.stdout


@pytest.mark.slow
def test_compare_shows_every_model_in_every_group(cli, table):
    calibrate(cli)
    models = ("out/calibrator.json", "raw", "--on", "val.csv", "--resamples", "20")
    done = cli("compare", *models, "--by", "region")
    assert "Log loss by group" in done.stdout
    assert "region = north" in done.stdout
    record = json.loads(cli("compare", *models, "--json").stdout)  # the calibrator's own column
    north, south = record["groups"]
    assert (north["group"], south["group"]) == ("north", "south")
    assert north["p_values"][0] is None  # the best model is not compared with itself
    assert north["p_values"][1] < 0.05
    assert north["log_loss"][0] < north["log_loss"][1]
