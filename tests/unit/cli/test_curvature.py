import json

import pytest


@pytest.fixture
def run(cli):
    cli("train", "e2-fl1", "--scale", "0.02", "-o", "run")


def test_figures_come_with_their_errors(cli, run):
    record = json.loads(cli("curvature", "run", "--vectors", "4", "--json").stdout)
    assert record["lambda_min"]["value"] < record["lambda_max"]["value"]
    assert record["lambda_max"]["converged"]
    assert record["trace"]["standard_error"] >= 0.0  # 0 where the trace is exact
    assert record["trace"]["method"]
    again = json.loads(cli("curvature", "run", "--vectors", "4", "--json").stdout)
    assert again == record


def test_a_table_and_a_spectrum_for_people(cli, run):
    done = cli("curvature", "run", "--vectors", "4", "--on", "train", "--max-examples", "100")
    assert "Hessian of the train loss" in done.stdout
    assert "largest eigenvalue" in done.stdout
    assert "Spectrum" in done.stdout


def test_an_unfinished_run_is_refused(cli, tmp_path):
    (tmp_path / "empty").mkdir()
    done = cli("curvature", "empty", ok=False)
    assert done.returncode == 1
    assert "holds no recipe.toml" in done.stderr
